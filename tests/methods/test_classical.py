"""The classical methods and floors on messy frames: preparation, rare classes, probabilities, time limit, saving."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from hopular.data.registry import median_ranks
from hopular.methods import Run, get_method
from hopular.methods.prepared import PreparedClassifier, PreparedRegressor, assign_folds, fit_estimator

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
    with pytest.raises(ValueError, match="labels are missing in 1 row"):
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
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "numbers are standardised by rows, whatever they weigh"
    },
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
