"""Metrics against scikit-learn and by hand, at their edges, and their bootstrap intervals."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from statsmodels.stats.proportion import proportion_confint

from hopular.evaluation.metrics import LABEL_METRICS, METRICS, PRIMARY, bootstrap, evaluate, label_scores
from hopular.trials.fit import score_rows

CLASSES = np.array(["a", "b", "c"])


def classification(n: int, seed: int = 0, classes: np.ndarray = CLASSES) -> tuple[np.ndarray, np.ndarray]:
    """Make labels and probabilities that have something to do with them, with ties."""
    random = np.random.default_rng(seed)
    codes = random.integers(len(classes), size=n)
    raw = random.random((n, len(classes))).round(1) + 0.5 * np.eye(len(classes))[codes] + 0.01
    return classes[codes], raw / raw.sum(axis=1, keepdims=True)


def test_classification_agrees_with_scikit_learn():
    truth, p = classification(300)
    predicted = CLASSES[p.argmax(axis=1)]
    found = evaluate("classification", truth, p, CLASSES)
    expected = {
        "accuracy": sklearn_metrics.accuracy_score(truth, predicted),
        "balanced_accuracy": sklearn_metrics.balanced_accuracy_score(truth, predicted),
        "macro_f1": sklearn_metrics.f1_score(truth, predicted, average="macro"),
        "roc_auc": sklearn_metrics.roc_auc_score(truth, p, multi_class="ovr"),
        "log_loss": sklearn_metrics.log_loss(truth, p, labels=CLASSES),
        "brier": sklearn_metrics.brier_score_loss(truth, p, labels=CLASSES, scale_by_half=False),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-12), name
    assert set(found) == {*expected, "ece"}


def test_nothing_is_lost_by_a_perfect_model():
    truth, scores = np.array(["a", "b"]), evaluate("classification", ["a", "b"], np.eye(2), ["a", "b"])
    assert [math.copysign(1, scores[name]) for name in ("log_loss", "brier", "ece")] == [1, 1, 1], "0.0, not -0.0"
    assert math.copysign(1, bootstrap("classification", truth, np.eye(2), ["a", "b"], "log_loss")[0]) == 1


def test_two_classes_have_the_usual_auc():
    truth, p = classification(80, classes=np.array(["no", "yes"]))
    found = evaluate("classification", truth, p, ["no", "yes"])
    assert found["roc_auc"] == pytest.approx(sklearn_metrics.roc_auc_score(truth == "yes", p[:, 1]), abs=1e-12)


def test_calibration_error_by_hand():
    # Bin (0.533, 0.6]: two rows at 0.6, one right: gap 0.1. Bin (0.933, 1]: two rows at 0.95, both right: gap 0.05.
    p = np.array([[0.6, 0.4], [0.4, 0.6], [0.95, 0.05], [0.05, 0.95]])
    found = evaluate("classification", ["a", "a", "a", "b"], p, ["a", "b"])
    assert found["ece"] == pytest.approx(0.5 * 0.1 + 0.5 * 0.05)


def test_regression_agrees_with_scikit_learn():
    random = np.random.default_rng(0)
    truth = random.normal(size=50)
    predicted = truth + random.normal(size=50)
    found = evaluate("regression", pd.Series(truth), predicted)
    mse = sklearn_metrics.mean_squared_error(truth, predicted)
    expected = {
        "mse": mse,
        "rmse": math.sqrt(mse),
        "mae": sklearn_metrics.mean_absolute_error(truth, predicted),
        "r2": sklearn_metrics.r2_score(truth, predicted),
        "mse_x1000": 1000 * mse,
    }
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_searchs_own_scores_are_the_same():
    truth, p = classification(101)
    truth[3] = "never seen"

    class Fitted:
        classes_ = CLASSES

        def predict_proba(self, X):
            return p

        def predict(self, X):
            return p[:, 0]

    y = pd.Series(truth, dtype="category")
    metrics, _ = score_rows(Fitted(), "classification", None, y)
    found = evaluate("classification", y, p, CLASSES)
    assert metrics["accuracy"] == found["accuracy"]
    assert metrics["log_loss"] == pytest.approx(found["log_loss"], rel=1e-14)
    numbers = pd.Series(p[:, 1])
    metrics, _ = score_rows(Fitted(), "regression", None, numbers)
    found = evaluate("regression", numbers, p[:, 0])
    assert metrics == pytest.approx({"mse": found["mse"], "mae": found["mae"]}, rel=1e-14)


def test_a_class_unknown_to_the_model_is_always_wrong():
    p = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    found = evaluate("classification", ["a", "b", "z"], p, ["a", "b"])
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["balanced_accuracy"] == pytest.approx(2 / 3)
    assert found["log_loss"] == pytest.approx(-math.log(1e-15) / 3)
    assert found["brier"] == pytest.approx(2 / 3)  # 1 for the wrong class that was certain, 1 for the true one
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1 + 0) / 3)


def test_numbers_as_labels_are_compared_as_text():
    p = np.array([[0.9, 0.1], [0.2, 0.8]])
    assert evaluate("classification", np.array([0, 1]), p, ["0", "1"])["accuracy"] == 1.0


def test_what_is_undefined_is_nan():
    p = np.array([[0.9, 0.1], [0.2, 0.8]])
    found = evaluate("classification", ["a", "a"], p, ["a", "b"])
    assert math.isnan(found["roc_auc"])
    assert found["balanced_accuracy"] == 0.5
    found = evaluate("regression", [0.1, 0.1, 0.1], [0.1, 0.2, 0.3])
    assert math.isnan(found["r2"])
    assert found["mse"] == pytest.approx(0.05 / 3)


@given(st.integers(2, 60), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_and_classes_does_not_matter(n: int, seed: int):
    truth, p = classification(n, seed)
    random = np.random.default_rng(seed)
    rows, columns = random.permutation(n), random.permutation(3)
    found = evaluate("classification", truth, p, CLASSES)
    other = evaluate("classification", truth[rows], p[rows][:, columns], CLASSES[columns])
    # A tie for the top probability goes to the first class, so what depends on the top one is compared without ties.
    ties = (p == p.max(axis=1, keepdims=True)).sum() > n
    for name in ("roc_auc", "log_loss", "brier") if ties else found:
        assert other[name] == pytest.approx(found[name], abs=1e-12, nan_ok=True), name


def test_unknown_metric_and_wrong_task_are_named():
    with pytest.raises(ValueError, match=r"there is no metric 'acuracy'\. Did you mean 'accuracy'\?"):
        evaluate("classification", ["a"], [[1.0]], ["a"], metrics=["acuracy"])
    with pytest.raises(
        ValueError, match="metric 'mse' is for regression, but the task is classification: use one of acc"
    ):
        bootstrap("classification", ["a"], [[1.0]], ["a"], "mse")


def test_every_metric_is_described_and_the_primary_ones_exist():
    assert all(metric.name == name for name, metric in METRICS.items())
    assert {METRICS[name].task: name for name in PRIMARY.values()} == PRIMARY


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("regression", [], []), "there are no test rows to evaluate"),
        (("regression", [1.0, 2.0], [1.0]), r"must have the shape \(2,\), one row per true value, got \(1,\)"),
        (("classification", ["a"], [[1.0]]), "classification needs `classes`"),
        (("classification", ["a"], [[1.0]], ["a", "b"]), r"must have the shape \(1, 2\)"),
        (("regression", [1.0, 2.0], [1.0, math.nan]), "1 of 2 predictions are not finite"),
    ],
)
def test_bad_input_is_refused(arguments: tuple, message: str):
    with pytest.raises(ValueError, match=message):
        evaluate(*arguments)


# ------------------------------------------------------------------------------------------------------- the bootstrap


def test_the_interval_of_a_share_is_the_binomials():
    n, share = 400, 0.8
    p = np.tile([1.0, 0.0], (n, 1))
    truth = np.where(np.arange(n) < share * n, "a", "b")
    low, high = bootstrap("classification", truth, p, ["a", "b"], "accuracy", rounds=4000)
    half = 1.96 * math.sqrt(share * (1 - share) / n)
    assert (low, high) == pytest.approx((share - half, share + half), abs=0.006)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_an_interval_around_it(metric: str):
    truth, p = classification(120)
    task = METRICS[metric].task
    if task == "regression":
        truth, p = p[:, 0], p[:, 1]
    value = evaluate(task, truth, p, CLASSES)[metric]
    low, high = bootstrap(task, truth, p, CLASSES, metric, rounds=300)
    assert low < high
    assert low - 0.1 * abs(value) <= value <= high  # drawing rows again and again makes a calibration error larger


def test_each_round_is_the_metric_of_the_drawn_rows():
    truth, p = classification(40)
    drawn = np.random.default_rng(0).integers(40, size=(1, 40))[0]
    for metric in evaluate("classification", truth, p, CLASSES):
        low, high = bootstrap("classification", truth, p, CLASSES, metric, rounds=1)
        expected = evaluate("classification", truth[drawn], p[drawn], CLASSES)[metric]
        assert low == high == pytest.approx(expected, abs=1e-12), metric


def test_the_interval_is_repeatable():
    truth, p = classification(60)
    arguments = ("classification", truth, p, CLASSES, "log_loss")
    assert bootstrap(*arguments) == bootstrap(*arguments)


def test_an_interval_of_what_is_undefined_is_nan():
    low, high = bootstrap("classification", ["a", "a"], [[0.9, 0.1], [0.2, 0.8]], ["a", "b"], "roc_auc", rounds=10)
    assert math.isnan(low)
    assert math.isnan(high)


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "macro_f1"])
@pytest.mark.parametrize("is_right", [True, False])
def test_all_right_or_all_wrong_is_not_certain(metric: str, is_right: bool):
    truth = ["a", "b"] * 20
    p = [[0.9, 0.1], [0.1, 0.9]] * 20 if is_right else [[0.1, 0.9], [0.9, 0.1]] * 20
    expected = proportion_confint(40 if is_right else 0, 40, method="wilson")
    assert bootstrap("classification", truth, p, ["a", "b"], metric, rounds=50) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", LABEL_METRICS)
def test_label_metrics_of_confusion_matrices_are_those_of_their_rows(metric: str) -> None:
    tables, expected = [], []
    for seed in (0, 1):
        truth, p = classification(50, seed)
        tables.append(sklearn_metrics.confusion_matrix(truth, CLASSES[p.argmax(axis=1)], labels=CLASSES))
        expected.append(evaluate("classification", truth, p, CLASSES)[metric])
    assert label_scores(metric, np.array(tables, dtype=float)) == pytest.approx(expected)
    with pytest.raises(ValueError, match="needs more than labels"):
        label_scores("log_loss", np.eye(3)[None])
