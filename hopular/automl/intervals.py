"""Conformal prediction intervals from out-of-fold residuals: CV+.

Barber, Candès, Ramdas and Tibshirani, "Predictive inference with the jackknife+", Annals of Statistics 49 (2021),
section 3. An interval of level 1 - alpha holds the true value of an exchangeable row with a probability of at least
1 - 2 alpha, less a little for few rows in many folds (theorem 4), and in practice of about 1 - alpha. That is so over
all rows, not for each kind of row: where the noise depends on the features, some rows have too wide an interval and
others too narrow a one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from hopular.util import InputError

Array = np.ndarray[Any, Any]
_HALVINGS = 64  # of the range that a bound lies in; a float has 53 bits


def cv_plus(fold_predictions: Array, fold_of_row: Array, residuals: Array, level: float) -> tuple[Array, Array]:
    """Return the lower and upper bound for each of n new rows.

    `fold_predictions` (K, n) has what the model of each fold says about the new rows. `fold_of_row` (m,) is the fold
    that each training row was held out of, and `residuals` (m,) how far its prediction then was from the truth.
    With one fold these are the intervals of split conformal prediction.
    """
    predicted, folds, absolute = np.asarray(fold_predictions, float), np.asarray(fold_of_row), _absolute(residuals)
    if predicted.ndim != 2:
        raise ValueError(f"fold_predictions must have the shape (folds, rows), got {predicted.shape}")
    if folds.shape != absolute.shape:
        raise ValueError(f"fold_of_row has the shape {folds.shape} and residuals {absolute.shape}: use one per row")
    if len(folds) and not (folds.min() >= 0 and folds.max() < len(predicted)):
        raise ValueError(f"fold_of_row has {folds.min()} to {folds.max()}, and there are {len(predicted)} folds")
    rank = _rank(level, len(absolute))
    by_fold = [np.sort(absolute[folds == fold]) for fold in range(len(predicted))]
    middle = float(np.partition(absolute, rank - 1)[rank - 1])
    return -_smallest(-predicted, by_fold, rank, middle), _smallest(predicted, by_fold, rank, middle)


def coverage(fold_of_row: Array, residuals: Array, level: float) -> float:
    """Return the share of held-out rows whose true value is in the interval made of the rows of the other folds.

    A row's interval is drawn around its out-of-fold prediction, as all models but one have seen the row. That of a new
    row is a little wider where the folds' models disagree, so the share is on the careful side. With one fold the
    interval is made of all other rows.
    """
    folds, absolute = np.asarray(fold_of_row), _absolute(residuals)
    names = np.unique(folds)
    if len(names) < 2:
        rank = _rank(level, len(absolute) - 1)
        return float(np.mean(absolute <= np.partition(absolute, rank - 1)[rank - 1]))
    inside = 0
    for name in names:
        others, own = absolute[folds != name], absolute[folds == name]
        rank = _rank(level, len(others))
        inside += int((own <= np.partition(others, rank - 1)[rank - 1]).sum())
    return inside / len(absolute)


def check_level(level: float) -> None:
    """Refuse a level that is no probability."""
    if not 0 < level < 1:
        raise InputError(f"the level of the intervals is {level:g}: use a number between 0 and 1, such as 0.9")


def rows_needed(level: float) -> int:
    """Return how many held-out rows an interval of this level needs to be finite."""
    wanted = Fraction(str(float(level)))
    return math.ceil(wanted / (1 - wanted))


def _rank(level: float, rows: int) -> int:
    """Return which smallest residual bounds the interval: the ceil(level (m + 1))-th, in exact arithmetic."""
    check_level(level)
    if rows < rows_needed(level):
        raise InputError(
            f"intervals of level {level:g} need {rows_needed(level)} rows that were held out once, and there are "
            f"{rows}: use a level of at most {math.floor(1000 * max(rows, 1) / (max(rows, 1) + 1)) / 1000:g}, "
            "or fit on more rows"
        )
    return math.ceil(Fraction(str(float(level))) * (rows + 1))


def _absolute(residuals: Array) -> Array:
    absolute: Array = np.abs(np.asarray(residuals, float))
    if not np.isfinite(absolute).all():
        raise ValueError(f"{int((~np.isfinite(absolute)).sum())} of {len(absolute)} residuals are not finite numbers")
    return absolute


def _smallest(predicted: Array, by_fold: list[Array], rank: int, middle: float) -> Array:
    """Return, for each new row, the rank-th smallest of all sums of a residual and what its fold's model says.

    The m sums of a row are never made. `middle` is the rank-th smallest residual, so the answer lies between the lowest
    and the highest prediction plus `middle`; that range is halved, each time counting the sums in the lower part.
    """
    low: Array = predicted.min(axis=0) + middle
    high: Array = predicted.max(axis=0) + middle
    for _ in range(_HALVINGS):
        half = low + (high - low) / 2
        below = np.zeros(len(half), dtype=np.int64)
        for said, sorted_residuals in zip(predicted, by_fold, strict=True):
            below += np.searchsorted(sorted_residuals, half - said, side="right")
        is_enough = below >= rank
        low, high = np.where(is_enough, low, half), np.where(is_enough, half, high)
    return high
