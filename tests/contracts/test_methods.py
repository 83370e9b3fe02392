"""The contract of methods: whatever the library behind it, a method takes a dataset's frame and behaves the same."""

from __future__ import annotations

import io
import pickle
import pickletools
import pkgutil
import time
import zipfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import search_spaces
from hopular.data.dataset import Task
from hopular.methods import Method, MethodError, Run, get_method, methods
from hopular.methods.perceptrons import PLAIN
from hopular.util import InputError

QUICK: dict[str, dict[str, Any]] = {  # settings with which a method learns tiny frames quickly
    "hopular": {"max_epochs": 60, "n_blocks": 1, "embedding_dim": 16},
    "npt": {"max_epochs": 60, "n_layers": 2, "n_heads": 4, "embedding_dim": 16},
    "snn": {"max_epochs": 60},
    "mlp": {"max_epochs": 60},
    **{key: {"max_epochs": 60} for key in PLAIN},
    "xgboost": {"n_estimators": 50},
    "lightgbm": {"n_estimators": 50},
    "catboost": {"n_estimators": 50},
    **{key: {"n_estimators": 30} for key in ("random_forest", "extra_trees", "bagging", "adaboost", "stacking")},
    "ensemble": {"members": [("logistic", {}, None), ("decision_tree", {}, 3)]},
    "realmlp": {"n_epochs": 60},
    "tabm": {"n_epochs": 30},
}
REGRESSION = {"ensemble": {"members": [("glm", {}, None), ("decision_tree", {}, 3)]}}
ENDLESS = {  # methods that stop by themselves when time is up, with settings that would take for ever
    **{key: {"max_epochs": 100_000} for key in ("hopular", "npt", "snn", "mlp", *PLAIN)},
    **{key: {"n_estimators": 100_000} for key in ("xgboost", "lightgbm", "catboost", "random_forest", "extra_trees")},
    "realmlp": {"n_epochs": 100_000},
}
BRIEF = {"max_epochs": 10, "n_epochs": 10, "n_estimators": 10}  # enough where nothing has to be learnt
pytestmark = pytest.mark.filterwarnings("ignore:column .* has a single value")
AVAILABLE = [name for name, method in methods().items() if not method.missing_packages]
CLASSIFIERS = [name for name in AVAILABLE if "classification" in methods()[name].tasks]
REGRESSORS = [name for name in AVAILABLE if "regression" in methods()[name].tasks]


def params_for(name: str, task: Task) -> dict[str, Any]:
    return (REGRESSION.get(name) if task == "regression" else None) or QUICK.get(name, {})


def make(name: str, task: Task, **run: Any) -> Any:
    params = {key: min(value, BRIEF[key]) if key in BRIEF else value for key, value in params_for(name, task).items()}
    return get_method(name).make(task, params, Run(**{"seed": 1, **run}))


def make_learner(name: str, task: Task) -> Any:
    return get_method(name).make(task, params_for(name, task), Run(seed=1))


def messy(rows: int = 80, seed: int = 0) -> pd.DataFrame:
    """Numbers with gaps, strings with gaps, a constant column and one without information."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": random.normal(size=rows),
            "weight": random.normal(5, 2, size=rows),
            "colour": random.choice(["red", "green", "blue"], rows),
            "constant": 1.0,
            "same": "x",
        }
    )
    frame.loc[random.random(rows) < 0.1, "weight"] = np.nan
    frame.loc[random.random(rows) < 0.1, "colour"] = None
    return frame.astype({"colour": "category", "same": "category"})


def labels(frame: pd.DataFrame, classes: int) -> pd.Series:
    """Classes that the frame tells: by size, and for half of the rows by colour."""
    value = frame["size"] + (frame["colour"] == "red") * 0.5
    codes = pd.qcut(value, classes, labels=False)
    return pd.Series(pd.Categorical([f"class {code}" for code in codes]), name="kind")


def numbers(frame: pd.DataFrame) -> pd.Series:
    return (3 * frame["size"] + (frame["colour"] == "red") + 10).rename("price")


def parts(y: pd.Series) -> tuple[pd.DataFrame, pd.Series, tuple[pd.DataFrame, pd.Series]]:
    """The first three quarters of the messy frame for training, the rest for validation."""
    frame, cut = messy(len(y)), 3 * len(y) // 4
    valid = (frame.iloc[cut:].reset_index(drop=True), y.iloc[cut:].reset_index(drop=True))
    return frame.iloc[:cut], y.iloc[:cut], valid


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classification(name: str, classes: int) -> None:
    X, y, valid = parts(labels(messy(120), classes))
    model = make(name, "classification").fit(X, y, eval_set=valid)
    probabilities = model.predict_proba(valid[0])
    assert probabilities.shape == (len(valid[0]), classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert (probabilities >= 0).all()
    assert list(model.classes_) == sorted(set(y))
    predicted = model.predict(valid[0])
    assert set(predicted) <= set(y)
    assert (predicted == model.classes_[probabilities.argmax(axis=1)]).mean() > 0.95
    assert 0 <= model.score(*valid) <= 1


@pytest.mark.parametrize("name", REGRESSORS)
def test_regression(name: str) -> None:
    X, y, valid = parts(numbers(messy()))
    model = make(name, "regression").fit(X, y, eval_set=valid)
    predicted = np.asarray(model.predict(valid[0]))
    assert predicted.shape == (len(valid[0]),)
    assert np.isfinite(predicted).all()
    assert y.min() - 20 < predicted.min() <= predicted.max() < y.max() + 20


@pytest.mark.parametrize("name", [n for n in CLASSIFIERS if n != "majority"])
def test_a_classifier_learns(name: str) -> None:
    X, y, valid = parts(labels(messy(200), 2))
    assert make_learner(name, "classification").fit(X, y, eval_set=valid).score(*valid) > 0.7


@pytest.mark.parametrize("name", [n for n in REGRESSORS if n != "mean"])
def test_a_regressor_learns(name: str) -> None:
    X, y, valid = parts(numbers(messy(200)))
    assert make_learner(name, "regression").fit(X, y, eval_set=valid).score(*valid) > 0.3


@pytest.mark.parametrize("name", [name for name in AVAILABLE if not methods()[name].is_ensemble])
def test_weights_of_rows_count_or_are_refused(name: str) -> None:
    task: Task = "classification" if name in CLASSIFIERS else "regression"
    frame = messy(60)
    y = labels(frame, 2).astype(str) if task == "classification" else numbers(frame)
    weights = np.where(y == y.max(), 20.0, 1.0)
    frame = frame[["colour", "constant"]]  # rows that nothing tells apart, so that no tree can fit all of them
    if not methods()[name].takes_weights:
        with pytest.raises(InputError, match="takes no weights of rows"):
            make(name, task).fit(frame, y, sample_weight=weights)
        return
    plain, weighted = make(name, task).fit(frame, y), make(name, task).fit(frame, y, sample_weight=weights)
    if task == "classification":
        assert weighted.predict_proba(frame)[:, 1].mean() >= plain.predict_proba(frame)[:, 1].mean()
        assert not np.array_equal(weighted.predict_proba(frame), plain.predict_proba(frame))
    else:
        assert weighted.predict(frame).mean() > plain.predict(frame).mean()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_class_with_one_row_and_unseen_values(name: str) -> None:
    frame = messy(60)
    y = labels(frame, 2).astype(str)
    y.iloc[7] = "rare"
    y.iloc[-1] = "never trained"
    new = frame.iloc[45:].copy()
    new["colour"] = new["colour"].cat.add_categories("ultraviolet")
    new.loc[new.index[0], "colour"] = "ultraviolet"
    model = make(name, "classification").fit(frame.iloc[:45], y.iloc[:45], eval_set=(new, y.iloc[45:]))
    assert list(model.classes_) == ["class 0", "class 1", "rare"]
    assert np.isfinite(model.predict_proba(new)).all()


@pytest.mark.parametrize("name", REGRESSORS)
def test_an_unseen_category_in_regression(name: str) -> None:
    frame = messy(60)
    y = numbers(frame)
    new = frame.iloc[45:].copy()
    new["colour"] = new["colour"].cat.add_categories("ultraviolet")
    new.loc[new.index[0], "colour"] = "ultraviolet"
    model = make(name, "regression").fit(frame.iloc[:45], y.iloc[:45], eval_set=(new, y.iloc[45:]))
    assert np.isfinite(model.predict(new)).all()


@pytest.mark.parametrize("name", AVAILABLE)
def test_nothing_but_constant_columns(name: str) -> None:
    task: Task = methods()[name].tasks[0]
    X = pd.DataFrame({"a": [1.0] * 20, "b": pd.Categorical(["x"] * 20)})
    y = pd.Series(np.arange(20.0) if task == "regression" else pd.Categorical(list("pq") * 10))
    if methods()[name].group in ("deep", "plain"):
        with pytest.raises(ValueError, match=r"(?i)no (usable )?(feature|column)|constant"):
            make(name, task).fit(X, y)
        return
    assert len(make(name, task).fit(X, y).predict(X)) == 20


@pytest.mark.parametrize("name", AVAILABLE)
def test_the_same_seed_gives_the_same_model(name: str) -> None:
    task: Task = methods()[name].tasks[0]
    X, y, valid = parts(labels(messy(60), 2) if task == "classification" else numbers(messy(60)))
    models = [make(name, task).fit(X, y, eval_set=valid) for _ in range(2)]
    predict = "predict_proba" if task == "classification" else "predict"
    first, second = (getattr(model, predict)(valid[0]) for model in models)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", AVAILABLE)
def test_a_time_limit_that_is_no_matter_leaves_the_model_as_it_is(name: str) -> None:
    task: Task = methods()[name].tasks[0]
    X, y, valid = parts(labels(messy(60), 2) if task == "classification" else numbers(messy(60)))
    predict = "predict_proba" if task == "classification" else "predict"
    models = [make(name, task, max_seconds=limit).fit(X, y, eval_set=valid) for limit in (None, 900)]
    first, second = (getattr(model, predict)(valid[0]) for model in models)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", AVAILABLE)
def test_it_can_be_cloned_and_fitted_without_validation_rows(name: str) -> None:
    task: Task = methods()[name].tasks[0]
    X, y, _ = parts(labels(messy(60), 2) if task == "classification" else numbers(messy(60)))
    original = make(name, task)
    copy = clone(original)
    assert copy.get_params(deep=False).keys() == original.get_params(deep=False).keys()
    assert len(copy.fit(X, y).predict(X)) == len(X)
    assert not hasattr(original, "n_features_in_")


@pytest.mark.parametrize("name", AVAILABLE)
def test_it_is_saved_without_pickle_and_predicts_the_same(name: str, tmp_path: Any) -> None:
    task: Task = methods()[name].tasks[0]
    X, y, valid = parts(labels(messy(60), 2) if task == "classification" else numbers(messy(60)))
    model = make(name, task).fit(X, y, eval_set=valid)
    if "cannot be saved" in methods()[name].notes:
        with pytest.raises(NotImplementedError, match="cannot be saved without pickle; fit it again"):
            model.save(tmp_path / "model")
        return
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    predict = "predict_proba" if task == "classification" else "predict"
    np.testing.assert_allclose(getattr(again, predict)(valid[0]), getattr(model, predict)(valid[0]), rtol=1e-6)
    written = [path for path in (tmp_path / "model", *tmp_path.rglob("*")) if path.is_file()]
    assert written
    assert [found for path in written for found in pickles_in(path.name, path.read_bytes())] == []


def pickles_in(name: str, content: bytes) -> Iterator[str]:
    """The names of all pickles, of any protocol, in a file, its zipped parts and its arrays."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for part in archive.namelist():
                yield from pickles_in(f"{name}/{part}", archive.read(part))
    elif content.startswith(b"\x93NUMPY"):
        try:
            np.load(io.BytesIO(content), allow_pickle=False)
        except ValueError:
            yield name
    elif name.endswith((".pkl", ".pickle", ".joblib")) or _is_pickle(content):
        yield name


def _is_pickle(content: bytes) -> bool:
    try:
        return len(list(pickletools.genops(content))) > 1
    except Exception:
        return False


def test_pickles_are_found_wherever_they_are() -> None:
    thing = {"a": [1, "two", None]}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert list(pickles_in("m", pickle.dumps(thing, protocol))) == ["m"]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("inner", pickle.dumps(thing))
        file.writestr("state.pkl", b"anything")
        file.writestr("header.json", '{"a": 1}')
    assert list(pickles_in("m", archive.getvalue())) == ["m/inner", "m/state.pkl"]
    for values, found in ((np.array([thing]), ["m"]), (np.arange(3), [])):
        array = io.BytesIO()
        np.save(array, values)
        assert list(pickles_in("m", array.getvalue())) == found
    assert list(pickles_in("m", b'{"a": 1}')) == []


@pytest.mark.parametrize("name", [n for n in ENDLESS if n in AVAILABLE])
def test_a_time_budget_is_kept(name: str) -> None:
    frame = messy(2000)
    X, y, valid = parts(labels(frame, 5))
    start = time.monotonic()
    limited = get_method(name).make("classification", ENDLESS[name], Run(seed=1, max_seconds=2))
    model = limited.fit(X, y, eval_set=valid)
    assert time.monotonic() - start < 2 + 8  # a start-up, one step or round, and a machine that may be busy
    assert len(model.predict(valid[0])) == len(valid[0])


def test_every_method_has_a_space_and_every_space_a_method() -> None:
    spaces = [module.name for module in pkgutil.iter_modules(search_spaces.__path__)]
    assert sorted(name for name in spaces if not name.startswith("_")) == list(methods())


@pytest.mark.parametrize("name", AVAILABLE)
def test_a_method_declares_what_it_can_do_and_needs(name: str) -> None:
    method = methods()[name]
    estimator = make(name, method.tasks[0])
    assert method.retrieves == hasattr(estimator, "retrieve")
    assert method.needs_validation == (method.group in ("deep", "plain", "modern"))
    assert not method.has_curve or method.needs_validation
    assert ("safetensors" in method.model_packages) == (method.group in ("deep", "plain"))
    assert method.cost > 0


def test_the_page_on_adding_a_method_explains_every_field() -> None:
    page = (Path(search_spaces.__file__).parents[1] / "docs" / "howto" / "add-a-method.md").read_text(encoding="utf-8")
    assert [field.name for field in fields(Method) if f"`{field.name}`" not in page] == []


def test_the_groups_are_complete() -> None:
    expected = {
        "deep": {"hopular", "npt", "snn", "mlp"},
        "plain": set(PLAIN),
        "boosting": {"xgboost", "catboost", "lightgbm"},
        "floor": {"majority", "mean"},
        "modern": {"realmlp", "tabm"},
        "ensemble": {"ensemble"},
        "classical": {
            "svm",
            "logistic",
            "random_forest",
            "extra_trees",
            "decision_tree",
            "knn",
            "naive_bayes",
            "lda",
            "pls",
            "bagging",
            "adaboost",
            "stacking",
            "glm",
        },
    }
    found: dict[str, set[str]] = {}
    for method in methods().values():
        found.setdefault(method.group, set()).add(method.name)
    for group, names in expected.items():
        assert names <= found[group]


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(MethodError, match=r"no method 'xgbost'. Did you mean 'xgboost'\?"):
        get_method("xgbost")


@pytest.mark.parametrize("name", [n for n, method in methods().items() if method.missing_packages])
def test_what_is_not_installed_says_how_to_install_it(name: str) -> None:
    with pytest.raises(MethodError, match=r"not installed: pip install 'hopular\[\w+\]'"):
        get_method(name)
