"""Compute metrics of predictions on test rows, and bootstrap intervals over those rows.

Every metric is written once, as a function of the rows and of how often each row counts: once each for the metric
itself, as often as it was drawn for a bootstrap round. Many rounds are computed at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from hopular.data.dataset import Task
from hopular.util import did_you_mean

Array = np.ndarray[Any, Any]
_BINS = 15  # of the top probability, for the expected calibration error
_LEAST = 1e-15  # the log loss takes smaller probabilities for this one
LABEL_METRICS = ("accuracy", "balanced_accuracy", "macro_f1")  # 1 where all rows are right, 0 where all are wrong
_MOST_ROUNDS, _LEAST_ROUNDS = 1_000, 100  # of a quick bootstrap; with fewer there is no interval
_WORK = {"roc_auc": 5_000_000}  # rows times classes times rounds that a bootstrap may cost, which is about a second
_USUAL_WORK = 20_000_000  # rows times rounds, of other metrics
_CELLS = 2_000_000  # rows times bootstrap rounds that are computed at a time


@dataclass(frozen=True)
class Metric:
    """A figure by which methods are compared."""

    name: str
    title: str
    task: Task
    higher_is_better: bool


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "Accuracy", "classification", True),
        Metric("balanced_accuracy", "Balanced accuracy", "classification", True),
        Metric("macro_f1", "Macro F1", "classification", True),
        Metric("roc_auc", "ROC AUC (one-vs-rest)", "classification", True),
        Metric("log_loss", "Log loss", "classification", False),
        Metric("brier", "Brier score (sum over classes)", "classification", False),
        Metric("ece", "Expected calibration error", "classification", False),
        Metric("mse", "Mean squared error", "regression", False),
        Metric("rmse", "Root mean squared error", "regression", False),
        Metric("mae", "Mean absolute error", "regression", False),
        Metric("r2", "R²", "regression", True),
        Metric("mse_x1000", "Mean squared error × 1000", "regression", False),
    )
}
PRIMARY: dict[Task, str] = {"classification": "accuracy", "regression": "mse"}


def evaluate(
    task: Task, truth: Any, predictions: Any, classes: Any = None, *, metrics: Iterable[str] | None = None
) -> dict[str, float]:
    """Compute all metrics of the task, or those named; NaN if undefined, such as ROC AUC with one class in `truth`.

    `predictions` are numbers, or probabilities (rows, classes) in the order of `classes`. Labels are compared as text.
    A true class that is not among `classes` has probability 0, so its rows are always wrong.
    """
    rows = _read(task, truth, predictions, classes)
    once = np.ones((1, len(rows)))
    names = [name for name, metric in METRICS.items() if metric.task == task] if metrics is None else list(metrics)
    return {name: float(_function(name, task)(rows, once)[0]) for name in names}


def row_losses(task: Task, truth: Any, predictions: Any, classes: Any = None) -> Array:
    """Return the loss on each row, whose mean is the log loss or the mean squared error; see `evaluate`."""
    rows = _read(task, truth, predictions, classes)
    return _squared_errors(rows) if task == "regression" else _log_losses(rows)


def label_scores(metric: str, confusion: Array) -> Array:
    """Return one of `LABEL_METRICS` for each of several confusion matrices: (matrices, true class, predicted class)."""
    if metric not in LABEL_METRICS:
        raise ValueError(f"metric {metric!r} needs more than labels: use one of {', '.join(LABEL_METRICS)}")
    size = confusion.shape[-1]
    cells = _Classes(np.repeat(np.arange(size), size), np.tile(np.arange(size), size), np.zeros((size * size, size)))
    return _function(metric, "classification")(cells, confusion.reshape(-1, size * size))


def quick_bootstrap(task: Task, truth: Any, predictions: Array, classes: Any, metric: str) -> tuple[float, float]:
    """Return the interval of `bootstrap` with as many rounds as take a second; NaN if those are too few."""
    cost = len(predictions) * (predictions.shape[1] if metric in _WORK else 1)
    rounds = min(_MOST_ROUNDS, _WORK.get(metric, _USUAL_WORK) // max(cost, 1))
    if rounds < _LEAST_ROUNDS or len(predictions) < 2:
        return float("nan"), float("nan")
    return bootstrap(task, truth, predictions, classes, metric, rounds=rounds)


def bootstrap(
    task: Task,
    truth: Any,
    predictions: Any,
    classes: Any,
    metric: str,
    *,
    rounds: int = 1000,
) -> tuple[float, float]:
    """Return the 95 % percentile interval of a metric over test rows drawn with replacement; NaN if undefined.

    Where all rows are right, or all wrong, no draw differs: shares of rows then have the interval of Wilson.
    """
    function, rows = _function(metric, task), _read(task, truth, predictions, classes)
    random, n = np.random.default_rng(0), len(rows)
    values: list[Array] = []
    while (missing := rounds - sum(map(len, values))) > 0:
        size = min(missing, max(1, _CELLS // n))
        drawn = random.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)
        values.append(function(rows, counts))
    found = np.concatenate(values)
    found = found[~np.isnan(found)]  # a round may draw rows of one class alone
    if not len(found):
        return float("nan"), float("nan")
    low, high = np.quantile(found, [0.025, 0.975])
    if metric in LABEL_METRICS and low == high and low in (0.0, 1.0):
        z = NormalDist().inv_cdf(0.975)
        return (0.0, z * z / (n + z * z)) if low == 0 else (n / (n + z * z), 1.0)
    return float(low), float(high)


# ------------------------------------------------------------------------------------------------------ the test rows


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Test rows of a regression."""

    truth: Array
    predicted: Array

    def __len__(self) -> int:
        return len(self.truth)


@dataclass(frozen=True, eq=False)
class _Classes:
    """Test rows of a classification: places of true and predicted class, and probabilities of all known classes.

    A true class that training has never seen gets a place after the known ones, and a column of zeros.
    """

    truth: Array
    predicted: Array
    probabilities: Array

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def of_truth(self) -> Array:
        """Return the predicted probability of each row's true class."""
        chosen: Array = self.probabilities[np.arange(len(self)), self.truth]
        return chosen


def _read(task: Task, truth: Any, predictions: Any, classes: Any) -> Any:
    predicted = np.asarray(predictions, dtype=np.float64)
    n = len(truth)
    if n == 0:
        raise ValueError("there are no test rows to evaluate")
    expected = (n,) if task == "regression" else (n, len(classes) if classes is not None else 0)
    if task == "classification" and classes is None:
        raise ValueError("classification needs `classes`: the labels in the order of the probabilities' columns")
    if predicted.shape != expected:
        raise ValueError(f"predictions must have the shape {expected}, one row per true value, got {predicted.shape}")
    if not np.isfinite(predicted).all():
        bad = int((~np.isfinite(predicted)).sum())
        raise ValueError(f"{bad} of {predicted.size} predictions are not finite numbers: the model has diverged")
    if task == "regression":
        return _Numbers(np.asarray(truth, dtype=np.float64), predicted)
    places = {str(label): place for place, label in enumerate(classes)}
    codes = np.array([places.setdefault(str(label), len(places)) for label in truth])
    unseen = np.zeros((n, len(places) - len(classes)))
    return _Classes(codes, predicted.argmax(axis=1), np.hstack([predicted, unseen]))


# ----------------------------------------------------------- the metrics: rows and counts (rounds, n) -> (rounds,)


def _mean(values: Array, counts: Array) -> Array:
    # A sum along rows, not a matrix product: it comes out the same to the bit in every process.
    return np.asarray((counts * values).sum(axis=1) / counts.sum(axis=1))


def _share(part: Array, whole: Array) -> Array:
    """Average part / whole (both of shape (rounds, classes)) over the classes whose whole is not 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(part / whole, axis=1) / (whole > 0).sum(axis=1))


def _indicators(places: Array, count: int) -> Array:
    return np.asarray(places[:, None] == np.arange(count), dtype=np.float64)


def _accuracy(rows: _Classes, counts: Array) -> Array:
    return _mean(rows.predicted == rows.truth, counts)


def _balanced_accuracy(rows: _Classes, counts: Array) -> Array:
    truth = _indicators(rows.truth, rows.probabilities.shape[1])
    return _share(counts @ (truth * (rows.predicted == rows.truth)[:, None]), counts @ truth)


def _macro_f1(rows: _Classes, counts: Array) -> Array:
    """Average over the classes that are true or predicted for some row."""
    truth, predicted = (_indicators(codes, rows.probabilities.shape[1]) for codes in (rows.truth, rows.predicted))
    return _share(2 * (counts @ (truth * predicted)), counts @ (truth + predicted))


def _roc_auc(rows: _Classes, counts: Array) -> Array:
    """Average one-vs-rest over the classes of the test rows; a class never seen in training has 0.5."""
    total, number = np.zeros(len(counts)), np.zeros(len(counts))
    for place in np.unique(rows.truth):
        score = rows.probabilities[:, place]
        order = np.argsort(score, kind="stable")
        starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))  # of the rows that share a score
        own = (rows.truth == place)[order]
        positive = np.add.reduceat(counts[:, order] * own, starts, axis=1)
        negative = np.add.reduceat(counts[:, order] * ~own, starts, axis=1)
        below = np.cumsum(negative, axis=1) - negative / 2  # rows of other classes below, half of those level
        pairs = positive.sum(axis=1) * negative.sum(axis=1)
        defined = pairs > 0
        area = (positive * below).sum(axis=1)
        total[defined] += area[defined] / pairs[defined]
        number += defined
    with np.errstate(invalid="ignore"):
        return np.asarray(total / number)


def _log_loss(rows: _Classes, counts: Array) -> Array:
    return _mean(_log_losses(rows), counts)


def _log_losses(rows: _Classes) -> Array:
    return np.asarray(np.abs(np.log(np.clip(rows.of_truth, _LEAST, 1.0))))  # a minus would make -0.0 of 0


def _brier(rows: _Classes, counts: Array) -> Array:
    """Sum squared errors over the classes, so the score is between 0 and 2."""
    truth = _indicators(rows.truth, rows.probabilities.shape[1])
    return _mean(((rows.probabilities - truth) ** 2).sum(axis=1), counts)


def _ece(rows: _Classes, counts: Array) -> Array:
    """Average the gap between top probability and accuracy over equal-width bins, weighted by their rows."""
    top = rows.probabilities.max(axis=1)
    bins = _indicators(np.clip(np.ceil(top * _BINS) - 1, 0, _BINS - 1), _BINS)
    gaps = counts @ (bins * ((rows.predicted == rows.truth) - top)[:, None])
    return np.asarray(np.abs(gaps).sum(axis=1) / counts.sum(axis=1))


def _mse(rows: _Numbers, counts: Array) -> Array:
    return _mean(_squared_errors(rows), counts)


def _squared_errors(rows: _Numbers) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray((rows.predicted - rows.truth) ** 2)


def _rmse(rows: _Numbers, counts: Array) -> Array:
    return np.asarray(np.sqrt(_mse(rows, counts)))


def _mae(rows: _Numbers, counts: Array) -> Array:
    return _mean(np.abs(rows.predicted - rows.truth), counts)


def _r2(rows: _Numbers, counts: Array) -> Array:
    """Return R², which is undefined where the true values do not vary."""
    deviation = rows.truth - _mean(rows.truth, counts)[:, None]
    variance = (counts * deviation**2).sum(axis=1) / counts.sum(axis=1)
    least = (1e-12 * np.abs(rows.truth).max()) ** 2  # what rounding leaves of no variance
    return np.asarray(1 - _mse(rows, counts) / np.where(variance > least, variance, np.nan))


def _mse_x1000(rows: _Numbers, counts: Array) -> Array:
    return 1000 * _mse(rows, counts)


_FUNCTIONS: dict[str, Callable[[Any, Array], Array]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "macro_f1": _macro_f1,
    "roc_auc": _roc_auc,
    "log_loss": _log_loss,
    "brier": _brier,
    "ece": _ece,
    "mse": _mse,
    "rmse": _rmse,
    "mae": _mae,
    "r2": _r2,
    "mse_x1000": _mse_x1000,
}


def _function(name: str, task: Task) -> Callable[[Any, Array], Array]:
    if name not in METRICS:
        raise ValueError(
            f"there is no metric {name!r}.{did_you_mean(name, METRICS)} The metrics are: {', '.join(METRICS)}"
        )
    metric = METRICS[name]
    if metric.task != task:
        fitting = ", ".join(item.name for item in METRICS.values() if item.task == task)
        raise ValueError(f"metric {name!r} is for {metric.task}, but the task is {task}: use one of {fitting}")
    return _FUNCTIONS[name]
