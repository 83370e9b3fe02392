"""The classical methods and floors on messy frames: preparation, rare classes, probabilities, time limit, saving."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import time
import types
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from hopular.data.registry import median_ranks
from hopular.methods import MethodError, Run, get_method, methods
from hopular.methods.crossfit import assign_folds
from hopular.methods.preparation import LARGEST, MAX_CATEGORIES, learn_preparation
from hopular.methods.prepared import PreparedClassifier, PreparedRegressor, fit_estimator
from hopular.methods.tabkit import TabkitClassifier, TabkitRegressor

BOTH = ["svm", "random_forest", "extra_trees", "decision_tree", "knn", "pls", "bagging", "adaboost", "stacking", "glm"]
CLASSIFIERS = [*BOTH, "logistic", "naive_bayes", "lda", "majority"]
REGRESSORS = [*BOTH, "mean"]
CASES = [(name, "classification") for name in CLASSIFIERS] + [(name, "regression") for name in REGRESSORS]
GROWING = ["random_forest", "extra_trees", "bagging"]
FEW = {name: {"n_estimators": 20} for name in [*GROWING, "adaboost"]} | {"stacking": {"n_estimators": 5, "n_folds": 3}}
FLOORS = ["majority", "mean"]
MODERN = ["realmlp", "tabm"]

pytestmark = pytest.mark.filterwarnings("error")


def make(name, task="classification", run=None, **params):
    return get_method(name).make(task, {**FEW.get(name, {}), **params}, run or Run())


def table(rows=120, seed=0):
    """Numbers, categories and strings with gaps, columns that say nothing, and a number to predict from the rest."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "x": rng.normal(size=rows),
            "z": rng.normal(size=rows) * 1e-3 + 1e6,
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], rows)),
            "word": rng.choice(["a", "b"], rows),
            "same": 1.0,
            "alike": pd.Categorical(["k"] * rows),
            "nothing": np.nan,
        }
    )
    number = 2 * X["x"] + 1.5 * (X["colour"] == "red") + 0.1 * rng.normal(size=rows)
    for column, step in (("x", 11), ("colour", 7), ("word", 5)):
        X.loc[::step, column] = np.nan
    return X, number


def classes_of(number, count):
    return pd.qcut(number, count, labels=list("edcba")[:count]).astype(str).astype("category")


def target(number, task, count=3):
    return classes_of(number, count) if task == "classification" else number


def output(model, X, task):
    return model.predict_proba(X) if task == "classification" else model.predict(X)


# ---------------------------------------------------------------------------------------------------------- the methods


def test_every_method_says_what_it_stands_for():
    ranks = median_ranks()
    for name in {*CLASSIFIERS, *REGRESSORS}:
        method = get_method(name)
        expected = [task for task in ("classification", "regression") if (name, task) in CASES]
        assert list(method.tasks) == expected
        assert method.group == ("floor" if name in FLOORS else "classical")
        assert (method.paper_name is None) if name in FLOORS else (method.paper_name in ranks)
        assert name in FLOORS or method.notes


@pytest.mark.parametrize(("name", "task"), CASES)
def test_messy_frame_with_an_unseen_category(name, task):
    X, number = table()
    y = target(number, task)
    model = make(name, task).fit(X, y, eval_set=(X, y))
    new = X.copy()
    new["colour"] = pd.Categorical(["violet", *X["colour"][1:]])
    new["word"] = ["new", None, *X["word"][2:]]
    new.loc[:3, "z"] = np.nan
    result = output(model, new, task)
    assert len(result) == len(X)
    assert np.isfinite(result).all()
    assert np.isfinite(model.score(new, y))


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_and_labels(name, count):
    X, number = table()
    y = classes_of(number, count)
    model = make(name).fit(X, y)
    probabilities = model.predict_proba(X)
    assert list(model.classes_) == sorted(y.unique())
    assert probabilities.shape == (len(X), count)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(1), 1)
    predicted = model.predict(X)
    assert list(predicted) == list(model.classes_[probabilities.argmax(1)])
    assert model.score(X, y) == pytest.approx(np.mean(predicted == y.to_numpy()))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_class_with_one_row(name):
    X, number = table(60)
    y = classes_of(number, 2).astype(str)
    y[17] = "single"
    model = make(name).fit(X, y)
    assert model.predict_proba(X).shape == (60, 3)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_two_classes_one_of_them_with_one_row(name):
    X, _ = table(30)
    model = make(name).fit(X, ["yes", *["no"] * 29])
    assert model.predict_proba(X)[:, 0].mean() > 0.5


@pytest.mark.parametrize(("name", "task"), CASES)
def test_beats_the_floor_on_an_easy_problem(name, task):
    X, number = table(300)
    y = target(number, task, 2)
    model = make(name, task).fit(X[:200], y[:200])
    if name in FLOORS:
        assert model.score(X[200:], y[200:]) < 0.65
        return
    assert model.score(X[200:], y[200:]) > (0.75 if task == "classification" else 0.6)
    if task == "classification" and name not in ("decision_tree", "knn"):
        assert log_loss(y[200:], model.predict_proba(X[200:])) < 0.6


@pytest.mark.parametrize(("name", "task"), CASES)
def test_same_seed_same_bits_in_a_clone(name, task):
    X, number = table(80)
    y = target(number, task)
    model = make(name, task, Run(seed=5))
    twin = clone(model)
    assert twin.get_params().keys() == model.get_params().keys()
    assert np.array_equal(output(model.fit(X, y), X, task), output(twin.fit(X, y), X, task))


@pytest.mark.parametrize("name", ["random_forest", "bagging", "stacking"])
def test_threads_do_not_change_the_bits_and_seeds_do(name):
    X, number = table(80)
    y = classes_of(number, 3)
    one = make(name, run=Run(seed=1)).fit(X, y).predict_proba(X)
    assert np.array_equal(one, make(name, run=Run(seed=1, threads=2)).fit(X, y).predict_proba(X))
    assert not np.array_equal(one, make(name, run=Run(seed=2)).fit(X, y).predict_proba(X))


TINY = {
    "no covariance": (pd.DataFrame({"a": [0.0, 0, 1, 1] * 10, "b": [0.0, 1, 0, 1] * 10}), "xyyx" * 10),
    "all constant": (pd.DataFrame({"a": [1.0] * 4, "b": pd.Categorical(["k"] * 4)}), "xyxx"),
    "two rows": (pd.DataFrame({"a": [0.0, 1.0]}), "xy"),
    "three rows": (pd.DataFrame({"a": [0.0, 1.0, 5.0]}), "xyy"),
    "one row": (pd.DataFrame({"a": [0.0]}), "x"),
    "one class": (pd.DataFrame({"a": [0.0, 1.0, 2.0]}), "xxx"),
    "as many classes as rows": (pd.DataFrame({"a": [0.0, 1.0, 2.0, 4.0]}), "vwxy"),
    "more columns than rows": (pd.DataFrame(np.random.default_rng(0).normal(size=(12, 30))), "xyz" * 4),
}


@pytest.mark.parametrize(("name", "task"), CASES)
def test_frames_too_small_to_learn_from(name, task):
    few = {"n_estimators": 3} if name in FEW else {}
    for X, labels in TINY.values():
        y = list(labels) if task == "classification" else [float(ord(label)) for label in labels]
        assert np.isfinite(output(make(name, task, **few).fit(X, y), X, task)).all()


@pytest.mark.parametrize(("name", "task"), CASES)
def test_nothing_but_constants_predicts_the_prior(name, task):
    X, labels = TINY["all constant"]
    y = list(labels) if task == "classification" else [1.0, 2.0, 3.0, 6.0]
    expected = [[0.75, 0.25]] * 4 if task == "classification" else [3.0] * 4
    np.testing.assert_allclose(output(make(name, task).fit(X, y), X, task), expected)


@pytest.mark.parametrize(("name", "task"), [("logistic", "classification"), ("svm", "regression")])
def test_arrays_of_numbers_and_of_strings(name, task):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int) if task == "classification" else X[:, 0]
    assert make(name, task).fit(X, y).score(X, y) > 0.8
    words = np.array([["p" if v > 0 else "q", v] for v in X[:, 0]], dtype=object)
    assert make(name, task).fit(words, y).score(words, y) > 0.8


@pytest.mark.parametrize("labels", [[True, False], [3, 7], [0.0, 1.0], ["no", "yes"]])
def test_labels_keep_their_type(labels):
    X, number = table(40)
    y = np.asarray(labels)[(number > 0).to_numpy().astype(int)]
    model = make("logistic").fit(X, y)
    assert model.classes_.dtype == y.dtype
    assert model.predict(X).dtype == y.dtype


def test_bad_input_is_named():
    X, number = table(20)
    y = classes_of(number, 2)
    with pytest.raises(ValueError, match="infinity in column 'x'"):
        make("knn").fit(X.assign(x=np.inf), y)
    with pytest.raises(ValueError, match="1 labels are missing"):
        make("knn").fit(X, [None, *y[1:]])
    with pytest.raises(ValueError, match="y contains NaN"):
        make("knn", "regression").fit(X, [np.nan, *number[1:]])
    with pytest.raises(ValueError, match="20 rows and y has 19"):
        make("knn").fit(X, y[1:])
    with pytest.raises(ValueError, match="'x' was numeric"):
        make("knn").fit(X, y).predict(X.assign(x="much"))
    with pytest.raises(ValueError, match="feature names"):
        make("knn").fit(X, y).predict(X.drop(columns="x"))
    with pytest.raises(ValueError, match="not 'sacled'"):
        PreparedClassifier(LogisticRegression(), preparation="sacled").fit(X, y)


@parametrize_with_checks(
    [
        PreparedClassifier(LogisticRegression()),
        PreparedClassifier(DecisionTreeClassifier(random_state=0), preparation="ordinal"),
        PreparedRegressor(Ridge(), preparation="filled", standardise_target=True),
    ]
)
@pytest.mark.filterwarnings("default")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# ---------------------------------------------------------------------------------------------------------- time limit


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", GROWING)
def test_trees_stop_in_time(name, task):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 10))
    y = X @ rng.normal(size=10) + rng.normal(size=1000)
    model = make(name, task, Run(max_seconds=0.3), n_estimators=100_000)
    started = time.monotonic()
    model.fit(X, y > 0 if task == "classification" else y)
    assert time.monotonic() - started < 3
    assert 1 <= len(model.estimator_.estimators_) < 100_000
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("name", GROWING)
def test_a_limit_that_is_not_reached_changes_nothing(name):
    X, number = table()
    y = classes_of(number, 3)
    limited = make(name, run=Run(max_seconds=600)).fit(X, y)
    assert len(limited.estimator_.estimators_) == 20
    assert np.array_equal(limited.predict_proba(X), make(name).fit(X, y).predict_proba(X))


# ------------------------------------------------------------------------------------------------------ saving, loading


@pytest.mark.parametrize(("name", "task"), CASES)
def test_saved_and_loaded_models_predict_the_same_bits(name, task, tmp_path):
    X, number = table(80)
    model = make(name, task).fit(X, target(number, task))
    model.save(tmp_path / "new" / "model")
    loaded = type(model).load(tmp_path / "new" / "model")
    assert np.array_equal(output(loaded, X, task), output(model, X, task))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert sorted(file.name for file in (tmp_path / "new" / "model").iterdir()) == ["model.json", "model.skops"]


@pytest.fixture
def saved(tmp_path):
    X, number = table(40)
    make("decision_tree").fit(X, classes_of(number, 2)).save(tmp_path)
    return tmp_path


def write(folder, content, **header):
    """A file that fits its header, whatever it holds."""
    (folder / "model.skops").write_bytes(content)
    header = {"format": 1, "class": "PreparedClassifier", "sha256": hashlib.sha256(content).hexdigest(), **header}
    (folder / "model.json").write_text(json.dumps(header))


@pytest.mark.parametrize("damage", [lambda b: b[:-100], lambda b: b"", lambda b: bytes([b[0] ^ 1]) + b[1:]])
def test_damaged_models_are_named(saved, damage):
    content = damage((saved / "model.skops").read_bytes())
    (saved / "model.skops").write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.skops' is damaged"):
        PreparedClassifier.load(saved)
    write(saved, b"nothing")
    with pytest.raises(ValueError, match=r"model\.skops' is damaged or no skops file"):
        PreparedClassifier.load(saved)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', "null"])
def test_damaged_headers_are_named(saved, text):
    (saved / "model.json").write_text(text)
    with pytest.raises(ValueError, match=r"model\.json' is damaged"):
        PreparedClassifier.load(saved)


def test_models_of_another_class_or_format(saved, tmp_path):
    with pytest.raises(ValueError, match=r"load it with PreparedClassifier\.load"):
        PreparedRegressor.load(saved)
    content = (saved / "model.skops").read_bytes()
    write(saved, content, **{"class": "PreparedRegressor"})
    with pytest.raises(ValueError, match="holds a PreparedClassifier"):
        PreparedRegressor.load(saved)
    write(saved, content, format=2)
    with pytest.raises(ValueError, match="model format 2"):
        PreparedClassifier.load(saved)
    with pytest.raises(FileNotFoundError, match=r"model\.json"):
        PreparedClassifier.load(tmp_path / "absent")


class Foreign(ClassifierMixin, BaseEstimator):
    """A type that no model of this package holds."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self


def renamed(content, module, name):
    """The same file, with another name for the type Foreign."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(changed, "w") as copy:
        for file in source.namelist():
            text = source.read(file)
            if file == "schema.json":
                text = text.replace(Foreign.__module__.encode(), module.encode()).replace(b"Foreign", name.encode())
            copy.writestr(file, text)
    return changed.getvalue()


OTHERS = ["other.T", "hopular.methods.absent.T", "hopular.methods.prepared.Path", "hopular.methods.prepared.os.system"]


@pytest.mark.parametrize("name", OTHERS)
def test_files_with_other_types_are_refused(saved, name):
    X, number = table(40)
    model = PreparedClassifier(Foreign()).fit(X, classes_of(number, 2))
    with pytest.raises(ValueError, match=r"cannot be saved.*Foreign"):
        model.save(saved)
    write(saved, renamed(skops.io.dumps(model), *name.rsplit(".", 1)))
    with pytest.raises(ValueError, match=f"does not have: {name}"):
        PreparedClassifier.load(saved)


@pytest.mark.parametrize("name", FLOORS)
def test_an_unfitted_model_is_not_saved(name, tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        make(name, methods()[name].tasks[0]).save(tmp_path)


# --------------------------------------------------------------------------------------------------------- preparation


def test_scaled_is_standardised_filled_and_one_hot():
    X = pd.DataFrame({"n": [1.0, 3.0, np.nan, 5.0], "c": pd.Categorical(["a", "b", None, "a"])})
    preparation = learn_preparation(X, "scaled")
    matrix = preparation.matrix(X)
    expected = np.sqrt(1.5)
    np.testing.assert_allclose(matrix[:, 0], [-expected, 0, 0, expected])
    assert matrix[:, 1:].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]]
    assert preparation.categorical == [False, False, True, True, True]
    new = preparation.matrix(pd.DataFrame({"n": [3e300], "c": ["unseen"]}))
    assert new.tolist() == [[LARGEST, 0, 0, 0, 0]]


def test_ordinal_keeps_gaps_and_filled_has_none():
    X = pd.DataFrame({"n": [2.0, np.nan, 2.0], "c": pd.Categorical(["10", "9", None])})
    new = pd.DataFrame({"n": [7.0], "c": ["11"]})
    ordinal, filled = learn_preparation(X, "ordinal"), learn_preparation(X, "filled")
    np.testing.assert_array_equal(ordinal.matrix(X), [[0, 1], [np.nan, 0], [0, np.nan]])
    np.testing.assert_array_equal(ordinal.matrix(new), [[0, np.nan]])
    assert filled.matrix(X).tolist() == [[0, 1], [1, 0], [0, -1]]
    assert filled.matrix(new).tolist() == [[0, -1]]


def test_rare_and_unseen_categories_share_a_column():
    names = [f"c{i}" for i in range(MAX_CATEGORIES + 5)]
    X = pd.DataFrame({"c": pd.Categorical(names + names[5:])})
    preparation = learn_preparation(X, "scaled")
    assert preparation.matrix(X).shape[1] == MAX_CATEGORIES + 1
    rare = preparation.matrix(pd.DataFrame({"c": ["c0", "unseen", "c7", None]}))
    assert rare[:, -1].tolist() == [1, 1, 0, 0]
    assert rare.sum(1).tolist() == [1, 1, 1, 0]


def test_the_order_of_categories_and_unused_ones_do_not_matter():
    values = ["b", "a", "c", "a", "b", "c"] * 5
    plain = pd.DataFrame({"c": pd.Categorical(values)})
    other = pd.DataFrame({"c": pd.Categorical(values, categories=["z", "c", "b", "a"])})
    for way in ("scaled", "ordinal", "filled"):
        assert np.array_equal(learn_preparation(plain, way).matrix(plain), learn_preparation(other, way).matrix(other))


def test_other_types_of_columns():
    X = pd.DataFrame(
        {
            "date": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "mixed": pd.Series([1, "a", None], dtype=object),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "Int64": pd.array([1, None, 3], dtype="Int64"),
            "object": pd.Series([1, 2.5, None], dtype=object),
        }
    )
    preparation = learn_preparation(X, "ordinal")
    assert preparation.categorical == [False, True, True, False, False]
    assert np.array_equal(np.isnan(preparation.matrix(X)), X.isna())


# ------------------------------------------------------------------------------------------------------------- details


def test_folds_deal_out_every_label():
    labels = np.array([0] * 10 + [1] * 5 + [2])
    folds = assign_folds(labels, 5, 0)
    assert np.bincount(folds[labels == 0]).tolist() == [2] * 5
    assert np.bincount(folds[labels == 1]).tolist() == [1] * 5
    assert set(assign_folds(np.zeros(3), 5, 0)) == {0, 1, 2}


def test_svm_probabilities_are_calibrated_and_leave_its_decisions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.where(rng.random(600) < 1 / (1 + np.exp(-2 * X[:, 0])), "yes", "no")
    model = make("svm", C=100.0).fit(X[:300], y[:300])
    svc = model.estimator_.svc_
    assert list(model.predict(X)) == list(model.classes_[svc.predict(model._matrix(X))])
    assert log_loss(y[300:], model.predict_proba(X[300:])) < 0.65


def test_probabilities_without_predict_proba_are_a_softmax():
    X, number = table()
    model = PreparedClassifier(RidgeClassifier()).fit(X, classes_of(number, 2))
    values = model.estimator_.decision_function(model._matrix(X))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-values)))


def test_neighbours_and_components_are_capped():
    X, number = table(10)
    assert make("knn", n_neighbors=50).fit(X, classes_of(number, 2)).estimator_.n_neighbors == 10
    assert make("pls", "regression", n_components=50).fit(X, number).estimator_.n_components < 10


def test_fit_estimator_leaves_the_original_alone():
    forest = RandomForestClassifier(5, n_jobs=2)
    fitted = fit_estimator(forest, np.arange(10.0).reshape(-1, 1), np.arange(10) % 2)
    assert (forest.n_jobs, fitted.n_jobs) == (2, 1)
    assert not hasattr(forest, "estimators_")


def test_classical_methods_need_no_torch_or_boosting_library(tmp_path):
    code = (
        "import sys; from hopular.methods import get_method, Run; import pandas as pd;"
        "made = get_method('svm').make('classification', {}, Run());"
        "made.fit(pd.DataFrame({'a': [1., 2., 3.]}), list('xyx'));"
        "print('skops' in sys.modules); made.save(sys.argv[1]);"
        "print(sorted({'torch', 'xgboost', 'lightgbm', 'catboost', 'optuna'} & set(sys.modules)))"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n[]\n", "")


# --------------------------------------------------------------------------------------------------- optional: pytabkit


class FakeTabkit(BaseEstimator):
    """Takes what pytabkit's estimators take, as documented, and remembers it."""

    def __init__(self, device=None, random_state=None, n_threads=None, verbosity=0, **settings):
        self.constructed = {"device": device, "random_state": random_state, "n_threads": n_threads, **settings}

    def fit(self, X, y, X_val=None, y_val=None, val_idxs=None, cat_indicator=None, cat_col_names=None,
            time_to_fit_in_seconds=None):  # fmt: skip
        self.called = {
            "X": X,
            "y": y,
            "X_val": X_val,
            "y_val": y_val,
            "cat": cat_col_names,
            "t": time_to_fit_in_seconds,
        }
        return self

    def predict_proba(self, X):
        assert not X.isna().any(axis=None)
        return np.full((len(X), 3), 1 / 3, dtype=np.float32)

    def predict(self, X):
        return np.full(len(X), 0.5, dtype=np.float32)


@pytest.fixture
def fake(monkeypatch):
    names = [f"{family}_{kind}" for family in ("RealMLP_TD", "TabM_D") for kind in ("Classifier", "Regressor")]
    monkeypatch.setitem(sys.modules, "pytabkit", types.SimpleNamespace(**dict.fromkeys(names, FakeTabkit)))


@pytest.mark.parametrize("name", MODERN)
@pytest.mark.usefixtures("fake")
def test_pytabkit_gets_codes_validation_rows_and_circumstances(name):
    X, number = table()
    y = classes_of(number, 3)
    model = methods()[name].make("classification", {"lr": 0.1}, Run(seed=3, device="cuda", max_seconds=9.5))
    assert isinstance(clone(model), TabkitClassifier)
    strange = y.astype(str)
    strange[0] = "never seen"
    model.fit(X, y, eval_set=(X, strange))
    inner = model.estimator_.model_
    assert inner.constructed == {"device": "cuda:0", "random_state": 3, "n_threads": 1, "lr": 0.1}
    assert inner.called["cat"] == [c for c in inner.called["X"] if inner.called["X"][c].dtype == int]
    assert not inner.called["X"].isna().any(axis=None)
    assert len(inner.called["X_val"]) == len(inner.called["y_val"]) == len(X) - 1
    assert inner.called["t"] == 9
    assert model.predict_proba(X).sum(1) == pytest.approx(1)
    with pytest.raises(NotImplementedError, match="pickle"):
        model.save("anywhere")


@pytest.mark.parametrize("name", MODERN)
@pytest.mark.usefixtures("fake")
def test_pytabkit_for_regression_and_without_anything_to_learn(name):
    X, number = table()
    model = methods()[name].make("regression", {}, Run())
    assert isinstance(model, TabkitRegressor)
    assert model.fit(X, number, eval_set=(X, number)).predict(X).tolist() == [0.5] * len(X)
    assert model.estimator_.model_.called["t"] is None
    constant = X[["same"]]
    assert model.fit(constant, number).predict(constant)[0] == pytest.approx(number.mean())


@pytest.mark.parametrize("name", MODERN)
def test_without_pytabkit_the_command_is_named(name, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(MethodError, match=r"pip install 'hopular\[modern\]'"):
        get_method(name)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", MODERN)
@pytest.mark.filterwarnings("default")
def test_with_pytabkit(name, task):
    pytest.importorskip("pytabkit", reason="needs pytabkit: pip install 'hopular[modern]'")
    X, number = table(300)
    y = target(number, task, 2)
    model = get_method(name).make(task, {"n_epochs": 10}, Run())
    model.fit(X[:200], y[:200], eval_set=(X[200:], y[200:]))
    assert np.isfinite(output(model, X, task)).all()
    assert model.score(X[200:], y[200:]) > 0.5


def test_warnings_of_users_are_untouched():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        X, number = table(40)
        make("logistic").fit(X, classes_of(number, 2))
        warnings.warn("mine", stacklevel=1)
    assert [str(w.message) for w in caught] == ["mine"]
