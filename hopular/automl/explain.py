"""Explain a fitted model by its out-of-fold predictions: important columns, doubtful rows, how far to trust it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from hopular.data.dataset import Task
from hopular.evaluation.metrics import row_losses

Array = np.ndarray[Any, Any]
SAMPLED_ROWS = 500  # importance is measured on no more rows than this
ROUNDS = 1000  # of the bootstrap
_ROWS_AT_ONCE = 2_000  # that one call of a model predicts, at least one column's
_BINS, _LEAST_IN_BIN = 10, 10  # of a reliability curve: the most bins, and the fewest rows of each


def permutation_importance(
    predict_of_fold: Callable[[int, pd.DataFrame], Array],
    X: pd.DataFrame,
    truth: Any,
    classes: Sequence[str] | None,
    fold: Array,
    *,
    repeats: int = 5,
    seed: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
) -> pd.DataFrame:
    """Return how much the loss rises when a column's values are shuffled: column, importance, low, high; largest first.

    `X`, `truth` and `fold` are those of the rows that were held out once; `predict_of_fold(k, rows)` says what the
    models of fold k, which did not see its rows, predict for them. The loss is the log loss, or for regression
    (`classes` None) the root mean squared error. Intervals (95 %) come from a bootstrap over rows and repeats.

    Each repeat shuffles every column once. When `should_stop()` says that time is up, columns may have had fewer
    repeats, and those without any are absent.
    """
    random = np.random.default_rng(seed)
    chosen = np.sort(random.choice(len(X), min(len(X), SAMPLED_ROWS), replace=False))
    X, truth, fold = X.iloc[chosen].reset_index(drop=True), np.asarray(truth)[chosen], np.asarray(fold)[chosen]
    task: Task = "regression" if classes is None else "classification"
    at_once = max(1, _ROWS_AT_ONCE * len(np.unique(fold)) // len(X))  # columns
    base = np.empty(len(X))
    for k in np.unique(fold):
        if should_stop():
            return _importances({}, base, task)
        rows = np.flatnonzero(fold == k)
        base[rows] = row_losses(task, truth[rows], predict_of_fold(int(k), X.iloc[rows]), classes)
    losses: dict[str, list[Array]] = {}
    for _ in range(repeats):
        for start in range(0, X.shape[1], at_once):
            places = range(start, min(start + at_once, X.shape[1]))
            orders = [random.permutation(len(X)) for _ in places]
            shuffled = np.empty((len(places), len(X)))
            for k in np.unique(fold):
                if should_stop():
                    return _importances(losses, base, task)
                rows = np.flatnonzero(fold == k)
                answers = predict_of_fold(int(k), _shuffled(X, rows, places, orders))
                found = row_losses(task, np.tile(truth[rows], len(places)), answers, classes)
                shuffled[:, rows] = found.reshape(len(places), len(rows))
            for place, values in zip(places, shuffled, strict=True):
                losses.setdefault(str(X.columns[place]), []).append(values)
    return _importances(losses, base, task)


def most_uncertain(probabilities: Array, count: int = 5) -> pd.DataFrame:
    """Return the rows between whose two likeliest classes the model can hardly decide: place, margin, entropy."""
    chances = np.asarray(probabilities, dtype=np.float64)
    top = np.sort(chances, axis=1)[:, ::-1]
    margin = top[:, 0] - top[:, 1] if chances.shape[1] > 1 else top[:, 0]
    entropy = -np.where(chances > 0, chances * np.log(np.where(chances > 0, chances, 1.0)), 0.0).sum(axis=1)
    places = np.lexsort((-entropy, margin))[:count]
    return pd.DataFrame({"place": places, "margin": margin[places], "entropy": np.abs(entropy[places])})


def most_wrong(
    task: Task, truth: Any, predictions: Any, classes: Sequence[str] | None = None, count: int = 5
) -> pd.DataFrame:
    """Return the rows that the model contradicts most: place, loss. Of classes, only rows whose class it gets wrong."""
    losses = row_losses(task, truth, predictions, classes)
    places = np.argsort(-losses, kind="stable")
    if classes is not None:
        names = np.asarray([str(name) for name in classes], dtype=object)
        said = names[np.asarray(predictions).argmax(axis=1)]
        is_wrong = said != np.asarray([str(value) for value in truth], dtype=object)
        places = places[is_wrong[places]]
    return pd.DataFrame({"place": places[:count], "loss": losses[places[:count]]})


def reliability(truth: Any, probabilities: Any, classes: Sequence[str]) -> pd.DataFrame:
    """Return how often the likeliest class is right, by how sure the model is of it: sure, right, low, high, rows.

    Rows are sorted by the probability of their likeliest class and divided into bins of about as many rows each.
    Intervals (95 %) are those of Wilson.
    """
    chances = np.asarray(probabilities, dtype=np.float64)
    names = np.asarray([str(name) for name in classes], dtype=object)
    right = names[chances.argmax(axis=1)] == np.asarray([str(value) for value in truth], dtype=object)
    sure = chances.max(axis=1)
    bins = np.array_split(np.argsort(sure, kind="stable"), min(_BINS, max(1, len(sure) // _LEAST_IN_BIN)))
    rows = [(sure[places].mean(), *_share(int(right[places].sum()), len(places)), len(places)) for places in bins]
    return pd.DataFrame(rows, columns=["sure", "right", "low", "high", "rows"])


def _shuffled(X: pd.DataFrame, rows: Array, places: Sequence[int], orders: Sequence[Array]) -> pd.DataFrame:
    """Return the rows once per column in `places`, whose values come from other rows, as its order says."""
    frame = X.iloc[np.tile(rows, len(places))].reset_index(drop=True)
    for number, (place, order) in enumerate(zip(places, orders, strict=True)):
        sources = np.tile(rows, len(places))
        sources[number * len(rows) : (number + 1) * len(rows)] = order[rows]
        frame.isetitem(place, X.iloc[:, place].iloc[sources].array)
    return frame


def _importances(losses: dict[str, list[Array]], base: Array, task: Task) -> pd.DataFrame:
    """Compare the losses of each column's repeats with those of the rows as they are."""
    n, random = len(base), np.random.default_rng(0)
    counts = random.multinomial(n, np.full(n, 1 / n), size=ROUNDS) / n
    with np.errstate(over="ignore"):
        before = _scale(counts @ base, task)
        rows = []
        for column, repeats in losses.items():
            values = np.array(repeats)
            drawn = random.multinomial(len(values), np.full(len(values), 1 / len(values)), size=ROUNDS) / len(values)
            after = _scale((drawn * (counts @ values.T)).sum(axis=1), task)
            low, high = np.quantile(after - before, [0.025, 0.975])
            rows.append((column, float(_scale(values.mean(), task) - _scale(base.mean(), task)), low, high))
    table = pd.DataFrame(rows, columns=["column", "importance", "low", "high"])
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


def _scale(loss: Any, task: Task) -> Any:
    return np.sqrt(loss) if task == "regression" else loss


def _share(part: int, whole: int) -> tuple[float, float, float]:
    """Return a share of rows with its 95 % interval by Wilson."""
    z, share = NormalDist().inv_cdf(0.975), part / whole
    middle = (share + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z / (1 + z * z / whole) * (share * (1 - share) / whole + z * z / (4 * whole * whole)) ** 0.5
    return share, max(0.0, middle - half), min(1.0, middle + half)
