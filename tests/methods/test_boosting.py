"""The boosting methods on messy frames: labels, categories, missing values, early stopping, time limit, saving."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.utils.estimator_checks import parametrize_with_checks

from hopular.methods import Run, get_method
from hopular.methods.boosting import EARLY_STOPPING_ROUNDS, STATE_FILE, Deadline, encode_column, learn_categories

NAMES = ["catboost", "lightgbm", "xgboost"]
TASKS = ["classification", "regression"]
RATE = {"learning_rate": 0.3}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def make(name, task="classification", run=None, **params):
    return get_method(name).make(task, {"n_estimators": 20, **RATE, **params}, run or Run())


def table(rows=150, seed=0):
    """Numbers and categories with gaps, and three targets: 2 classes, 5 classes, a number."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "x": rng.normal(size=rows),
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], rows), categories=["red", "green", "blue"]),
            "shape": pd.Categorical(rng.choice([f"s{i}" for i in range(12)], rows)),
            "noise": rng.normal(size=rows),
        }
    )
    number = X["x"] + 2.0 * (X["colour"] == "red") + 0.1 * rng.normal(size=rows)
    for column, step in (("x", 11), ("colour", 7), ("noise", 5)):
        X.loc[::step, column] = np.nan
    two = pd.Series(np.where(number > number.median(), "yes", "no")).astype("category")
    five = pd.qcut(number, 5, labels=list("edcba")).astype(str)
    return X, {"two": two, "five": five, "number": number * 1e-3 + 1000.0}


# ------------------------------------------------------------------------------------------------------ what is learned


def test_the_frame_as_it_is_teaches_two_classes(name):
    X, y = table()
    fitted = make(name).fit(X, y["two"])
    shares = fitted.predict_proba(X)
    assert list(fitted.classes_) == ["no", "yes"]
    assert shares.shape == (150, 2)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[shares.argmax(axis=1)])
    assert fitted.score(X, y["two"]) > 0.9


def test_five_classes(name):
    X, y = table()
    fitted = make(name).fit(X, y["five"])
    assert list(fitted.classes_) == list("abcde")
    assert fitted.predict_proba(X).shape == (150, 5)
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    assert fitted.score(X, y["five"]) > 0.7


def test_regression_keeps_small_differences_beside_a_large_offset(name):
    X, y = table()
    fitted = make(name, "regression").fit(X, y["number"] + 1e9)
    assert fitted.score(X, y["number"] + 1e9) > 0.6
    np.testing.assert_allclose(fitted.predict(X).mean(), 1e9 + 1000.0, rtol=1e-12)


@pytest.mark.parametrize("labels", [[3, 7], [1.0, 2.0], [True, False], ["b", "a"]], ids=str)
def test_labels_come_back_as_they_were(name, labels):
    X, y = table(60)
    target = np.where(y["two"] == "yes", *labels)
    fitted = make(name).fit(X, target)
    assert fitted.predict(X).dtype == target.dtype
    assert set(fitted.predict(X)) == set(labels)


def test_importances_are_shares_and_follow_the_signal(name):
    X, y = table()
    fitted = make(name).fit(X, y["two"])
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert set(np.argsort(fitted.feature_importances_)[-2:]) == {0, 1}
    assert fitted.n_features_in_ == 4
    assert list(fitted.feature_names_in_) == list(X.columns)


def test_categories_are_no_numbers(name):
    """Another order of the categories, and so other codes, makes the same model."""
    X, y = table()
    other = X.assign(shape=X["shape"].cat.reorder_categories(list(reversed(X["shape"].cat.categories))))
    params = {"n_estimators": 3, **({"min_child_samples": 1} if name == "lightgbm" else {})}
    first, second = (make(name, "regression", **params).fit(frame, y["number"]) for frame in (X, other))
    assert first.categories_ != second.categories_
    np.testing.assert_allclose(first.predict(X), second.predict(other), rtol=1e-6)


# -------------------------------------------------------------------------------------------------------- messy columns


def test_category_codes_follow_training():
    column = pd.Series(pd.Categorical(["b", None, "a"], categories=["c", "b", "a"]))
    assert learn_categories(column, "c") == ["b", "a"]
    later = pd.Series(pd.Categorical(["a", "c", None, "b"], categories=["a", "b", "c"]))
    np.testing.assert_array_equal(encode_column(later, "c", ["b", "a"]), [1, np.nan, np.nan, 0])
    assert learn_categories(pd.Series([1.0, np.nan]), "c") is None
    assert learn_categories(pd.Series([True, False]), "c") == ["False", "True"]


def test_unseen_category_is_missing(name):
    X, y = table()
    fitted = make(name).fit(X, y["two"])
    unseen = X.assign(colour=pd.Categorical(["violet"] * 150))
    missing = X.assign(colour=pd.Categorical([None] * 150, categories=["red"]))
    np.testing.assert_array_equal(fitted.predict_proba(unseen), fitted.predict_proba(missing))


def test_missing_values_where_training_had_none(name):
    X, y = table()
    X = X.assign(x=X["x"].fillna(0), colour=X["colour"].fillna("red"))
    fitted = make(name).fit(X, y["two"])
    assert np.isfinite(fitted.predict_proba(X.assign(x=np.nan, colour=pd.Categorical([None] * 150)))).all()


@pytest.mark.parametrize("task", TASKS)
def test_empty_and_constant_columns_change_nothing_else(name, task):
    X, y = table()
    X = X.assign(one=1.0, gap=np.nan, same=pd.Categorical(["s"] * 150), none=pd.Categorical([None] * 150))
    target = y["two"] if task == "classification" else y["number"]
    fitted = make(name, task).fit(X, target, eval_set=(X, target))
    assert (fitted.feature_importances_[-4:] == 0).all()
    assert fitted.score(X, target) > 0.6


@pytest.mark.parametrize("task", TASKS)
def test_without_any_informative_column_the_prior_is_predicted(name, task, tmp_path):
    X = pd.DataFrame({"one": [1.0] * 6, "gap": [np.nan] * 6, "same": pd.Categorical(["s"] * 6)})
    y = list("aaaabb") if task == "classification" else [0.0, 0, 0, 0, 3, 3]
    fitted = make(name, task).fit(X, y, eval_set=(X, y))
    fitted.save(tmp_path)
    for model in (fitted, type(fitted).load(tmp_path)):
        assert model.best_iteration_ == 0
        assert model.curve_ == []
        if task == "classification":
            np.testing.assert_allclose(model.predict_proba(X), [[2 / 3, 1 / 3]] * 6)
        else:
            np.testing.assert_allclose(model.predict(X), [1.0] * 6)


@pytest.mark.parametrize("column", ["x", "shape"])
def test_a_single_column(name, column):
    X, y = table()
    assert make(name).fit(X[[column]], y["two"]).predict_proba(X[[column]]).shape == (150, 2)


def test_a_category_of_its_own_for_each_row(name):
    X, y = table(40)
    X = pd.DataFrame({"id": pd.Categorical([f"id{i}" for i in range(40)])})
    fitted = make(name).fit(X[:30], y["two"][:30], eval_set=(X[30:], y["two"][30:]))
    assert np.isfinite(fitted.predict_proba(X)).all()
    assert np.isfinite(fitted.feature_importances_).all()


def test_arrays_and_huge_numbers(name):
    X, y = table()
    array = X[["x", "noise"]].to_numpy(copy=True)
    array[0, 0], array[1, 0] = 1e300, -1e300
    assert make(name).fit(array, y["two"]).score(array, y["two"]) > 0.7


def test_clear_errors(name):
    X, y = table(30)
    fitted = make(name, n_estimators=2).fit(X, y["two"])
    with pytest.raises(ValueError, match="column 'x' was numeric when the model was fitted"):
        fitted.predict(X.assign(x="large"))
    with pytest.raises(ValueError, match="infinity in column 'x'"):
        fitted.predict(X.assign(x=np.inf))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X.rename(columns={"x": "z"}))


def test_dates_are_numbers(name):
    days = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=60)})
    labels = np.repeat(["early", "late"], 30)
    assert make(name, n_estimators=20).fit(days, labels).score(days, labels) > 0.9


# ------------------------------------------------------------------------------------------------------------- classes


def test_a_class_with_one_row_and_one_absent_from_the_validation_rows(name):
    X, y = table()
    target = y["five"].where(y["five"].index != 3, "single")
    rows = target.isin(["a", "b"])
    fitted = make(name).fit(X, target, eval_set=(X[rows], target[rows]))
    assert fitted.predict_proba(X).shape == (150, 6)
    assert len(fitted.curve_) == 20


def test_one_class_alone_among_the_validation_rows(name):
    X, y = table()
    rows = y["two"] == "yes"
    assert len(make(name).fit(X, y["two"], eval_set=(X[rows], y["two"][rows])).curve_) == 20


def test_validation_rows_of_an_unseen_class_are_left_out(name):
    X, y = table()
    strange = y["two"].astype(str).where(y["two"].index % 2 == 0, "strange")
    even = strange != "strange"
    expected = make(name).fit(X, y["two"], eval_set=(X[even], y["two"][even])).curve_
    assert make(name).fit(X, y["two"], eval_set=(X, strange)).curve_ == expected
    assert make(name).fit(X, y["two"], eval_set=(X, ["strange"] * 150)).curve_ == []


def test_one_class_is_always_predicted(name):
    X, _ = table(20)
    fitted = make(name).fit(X, ["only"] * 20)
    assert set(fitted.predict(X)) == {"only"}
    assert fitted.predict_proba(X).tolist() == [[1.0]] * 20


# ------------------------------------------------------------------------------------------------------- early stopping


@pytest.mark.parametrize("target", ["two", "five", "number"])
def test_early_stopping_keeps_the_best_round(name, target):
    X, y = table()
    rng = np.random.default_rng(1)
    noisy = pd.Series(rng.permutation(y[target].to_numpy()))
    noisy[::2] = y[target][::2]
    train, valid = np.arange(100), np.arange(100, 150)
    task = "regression" if target == "number" else "classification"
    fitted = make(name, task, n_estimators=300).fit(X.loc[train], noisy[train], eval_set=(X.loc[valid], noisy[valid]))
    best = int(np.argmin(fitted.curve_))
    assert fitted.best_iteration_ == best + 1
    assert len(fitted.curve_) == best + 1 + EARLY_STOPPING_ROUNDS < 300
    if task == "regression":
        loss = root_mean_squared_error(noisy[valid], fitted.predict(X.loc[valid]))
    else:
        loss = log_loss(noisy[valid], fitted.predict_proba(X.loc[valid]), labels=fitted.classes_)
    assert loss == pytest.approx(fitted.curve_[best], rel=1e-4)


def test_without_validation_rows_all_rounds_are_used(name):
    X, y = table()
    fitted = make(name).fit(X, y["two"])
    assert fitted.best_iteration_ == 20
    assert fitted.curve_ == []


@pytest.mark.parametrize("kind", ["dart", "goss"])
def test_lightgbm_stops_early_with_goss_but_not_with_dart(kind):
    X, y = table()
    shuffled = np.random.default_rng(0).permutation(y["two"])
    params = {"n_estimators": 70, "boosting_type": kind, "subsample": 0.7}
    fitted = make("lightgbm", **params).fit(X, y["two"], eval_set=(X, shuffled))
    assert (fitted.best_iteration_ == len(fitted.curve_) == 70) == (kind == "dart")
    loss = log_loss(shuffled, fitted.predict_proba(X))
    assert loss == pytest.approx(fitted.curve_[fitted.best_iteration_ - 1], rel=1e-6)


# -------------------------------------------------------------------------------------------------------- circumstances


def test_time_limit(name):
    X, y = table()
    estimator = make(name, run=Run(max_seconds=0.3), n_estimators=100_000, learning_rate=1e-3)
    make(name, n_estimators=1).fit(X, y["five"])  # the import is not what is timed
    start = time.monotonic()
    fitted = estimator.fit(X, y["five"])
    assert time.monotonic() - start < 15
    assert 1 <= fitted.best_iteration_ < 100_000
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_time_limit_with_validation_rows_leaves_a_model(name):
    X, y = table()
    fitted = make(name, run=Run(max_seconds=1e-6)).fit(X, y["two"], eval_set=(X, y["two"]))
    assert fitted.best_iteration_ == len(fitted.curve_) == 1


def test_a_deadline_leaves_room_for_one_more_round(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    deadline, unlimited = Deadline(10), Deadline(None)
    passed = []
    for now[0] in (6.0, 8.0, 9.5):  # how long the first round took is not known; the others would end at 10 and 11
        passed.append(deadline.passed())
    assert passed == [False, False, True]
    assert not unlimited.passed()


def test_repeatable_bit_for_bit(name):
    X, y = table()
    sampled = {"catboost": {}, "lightgbm": {"subsample": 0.5}, "xgboost": {"subsample": 0.5}}[name]
    first, again, other = (
        make(name, run=Run(seed=seed), **sampled).fit(X, y["five"]).predict_proba(X) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_clone_and_parameters(name):
    estimator = make(name, run=Run(seed=3, threads=2, max_seconds=9.0))
    params = clone(estimator).get_params()
    assert params == estimator.get_params()
    assert (params["random_state"], params["n_jobs"], params["max_seconds"], params["device"]) == (3, 2, 9.0, "cpu")
    assert get_method(name).make("regression", {}, Run()).n_estimators == 1000


def test_nothing_is_printed_or_written(name, capfd, tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    X, y = table()
    fitted = make(name).fit(X.assign(one=1.0), y["five"], eval_set=(X.assign(one=1.0), y["five"]))
    fitted.predict(X.assign(one=1.0))
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
    assert [str(warning.message) for warning in recwarn] == []


def test_device_switch(name, monkeypatch):
    given = {}

    class Taken(Exception):  # noqa: N818
        pass

    def take(params, *_, **__):
        given.update(params)
        raise Taken

    module = pytest.importorskip(name)
    monkeypatch.setattr(module, "CatBoost" if name == "catboost" else "train", take)
    X, y = table(30)
    key, gpu, cpu, place, second = {
        "catboost": ("task_type", "GPU", "CPU", "devices", "1"),
        "lightgbm": ("device_type", "gpu", None, "gpu_device_id", 1),
        "xgboost": ("device", "cuda", "cpu", "device", "cuda:1"),
    }[name]
    cases = [("cuda", key, gpu), ("cpu", key, cpu), ("mps", key, cpu), ("cuda:1", place, second)]
    for device, shown, expected in cases:
        given.clear()
        with pytest.raises(Taken):
            make(name, run=Run(device=device)).fit(X, y["two"])
        assert given.get(shown) == expected


# -------------------------------------------------------------------------------------------------------- save and load


@pytest.mark.parametrize("target", ["two", "five", "number"])
def test_a_loaded_model_is_the_same(name, target, tmp_path):
    X, y = table()
    task = "regression" if target == "number" else "classification"
    fitted = make(name, task).fit(X, y[target], eval_set=(X, y[target]))
    fitted.save(tmp_path / "model")
    predict = "predict" if target == "number" else "predict_proba"
    loaded = type(fitted).load(tmp_path / "model")
    for same in (loaded, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(getattr(same, predict)(X), getattr(fitted, predict)(X))
        np.testing.assert_array_equal(same.predict(X), fitted.predict(X))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.curve_ == fitted.curve_
    assert loaded.best_iteration_ == fitted.best_iteration_
    np.testing.assert_array_equal(loaded.feature_importances_, fitted.feature_importances_)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X.rename(columns={"x": "z"}))


def test_a_damaged_folder_is_named(name, tmp_path):
    X, y = table(40)
    fitted = make(name, n_estimators=3).fit(X, y["two"])
    model_file = fitted._model_file
    for file in (STATE_FILE, model_file):
        for content in (None, b"", b"\xff{not json", "half"):
            fitted.save(tmp_path)
            whole = (tmp_path / file).read_bytes()
            if content is None:
                (tmp_path / file).unlink()
            else:
                (tmp_path / file).write_bytes(whole[: len(whole) // 2] if content == "half" else content)
            with pytest.raises(ValueError, match=rf"{file}' cannot be loaded: .*Save the model again"):
                type(fitted).load(tmp_path)
    fitted.save(tmp_path)
    with pytest.raises(ValueError, match=r"it holds a .*Classifier, not a .*Regressor"):
        type(make(name, "regression")).load(tmp_path)
    assert set(json.loads((tmp_path / STATE_FILE).read_text())) == {"class", "parameters", "fitted", "sha256"}


# --------------------------------------------------------------------------------------------------------- conventions


@parametrize_with_checks(
    [make(name, task, n_estimators=10, learning_rate=0.5) for name in NAMES for task in TASKS],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "bins are quantiles of rows, and rows are drawn at random"
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_libraries_are_imported_only_when_needed():
    code = f"import sys; from hopular.methods import methods; methods(); print(sorted(set({NAMES}) & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
