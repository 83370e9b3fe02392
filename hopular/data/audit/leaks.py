"""Leaks: a single feature that gives the target away."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import rankdata

from hopular.data.audit.finding import Finding, percent
from hopular.data.audit.table import Floats, Ints, Table

ENOUGH_ROWS = 50
ENOUGH_ERRORS = 10  # rows that the constant guess gets wrong
MOST_CLASSES = 100  # with more, the check would take too long
SERIOUS = {"classification": 0.98, "regression": 0.999}  # share of the constant guess's error that is removed
SUSPECT = {"classification": 0.95, "regression": 0.99}


def leaks(table: Table) -> Iterator[Finding]:
    """Columns that predict the target, or the order of its values, almost perfectly by themselves."""
    task, classes = table.dataset.task, table.target
    ranks = rankdata(classes) if task == "regression" else None
    if len(table.dataset.classes) > MOST_CLASSES:
        return
    for j, name in enumerate(table.names):
        rows = _rows(table, j)
        count, wrong = len(rows), len(rows) - int(np.bincount(classes[rows]).max())
        if count < ENOUGH_ROWS or wrong < ENOUGH_ERRORS:
            continue
        numbers = None if ranks is None else ranks[rows]
        removed = error_removed(table.codes[rows, j], table.is_categorical[j], classes[rows], numbers)
        if removed < SUSPECT[task]:
            continue
        if task == "classification":
            text = f"is enough to predict {percent(1 - (1 - removed) * wrong / count)} of the rows right"
            text += f", where always saying the most frequent class is right on {percent(1 - wrong / count)}"
        else:
            text = f"tells the order of the target by itself ({percent(removed)} of the variance of its ranks)"
        text = f"Column '{name}' {text}: it may be made from the target, or known only after it."
        yield Finding("leaking-columns", "serious" if removed >= SERIOUS[task] else "warning", text, (name,))


def _rows(table: Table, j: int) -> Ints:
    """The rows to judge a column by: without copies if its values hardly repeat, since they would tell the target."""
    different = table.different
    if len(different) >= ENOUGH_ROWS and table.distinct[j] > len(different) / 2:
        return different
    return np.arange(len(table.codes))


def error_removed(codes: Ints, is_categorical: bool, classes: Ints, numbers: Floats | None = None) -> float:
    """The share of a constant guess's error that disappears if each row is predicted from one column.

    A row is predicted by the other rows with its value; if there are none and values have an order, by those with the
    next value on either side. Error is the number of rows wrong, or the sum of squares for `numbers`.
    """
    if numbers is not None:
        centred = (numbers - numbers.mean())[:, None]
        rest = centred - _from_others(codes, is_categorical, centred)
        return float(1 - (rest**2).sum() / (centred**2).sum())
    indicators = np.eye(int(classes.max()) + 1)[classes]
    guesses = _from_others(codes, is_categorical, indicators).argmax(axis=1)
    return float(1 - (guesses != classes).sum() / (len(classes) - np.bincount(classes).max()))


def _from_others(codes: Ints, is_categorical: bool, targets: Floats) -> Floats:
    """The mean target of the other rows with the same value, or else with the next values, or else of all."""
    values = codes + 1  # 0 is missing
    counts = np.bincount(values, minlength=2).astype(np.float64)[:, None]
    sums = np.column_stack([np.bincount(values, weights=column, minlength=2) for column in targets.T])
    predicted = (sums[values] - targets) / np.maximum(counts[values] - 1, 1)
    alone = counts[values, 0] == 1
    predicted[alone] = (targets.sum(axis=0) - targets[alone]) / (len(targets) - 1)
    if not is_categorical:
        means = sums[1:] / np.maximum(counts[1:], 1)
        nearby = (np.vstack([means[1:2], means[:-1]]) + np.vstack([means[1:], means[-2:-1]])) / 2
        numbered = alone & (codes >= 0) & (len(means) > 1)
        predicted[numbered] = nearby[codes[numbered]]
    return np.asarray(predicted, dtype=np.float64)
