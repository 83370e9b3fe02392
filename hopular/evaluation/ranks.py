"""Ranks of methods on each dataset, and what they come to over all datasets."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hopular.evaluation.results import Results
from hopular.evaluation.scores import directions as directions_of
from hopular.evaluation.scores import leaderboard_matrix, missing_units, orient

Array = np.ndarray[Any, Any]


def rank_table(matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None) -> pd.DataFrame:
    """Datasets x methods: 1 is best, ties share their average place, failed methods (NaN) share the last places.

    No rank (NaN) has a method that was not run on a dataset (`missing`), and a dataset on which all methods failed.
    """
    oriented = orient(matrix, directions)
    nothing = oriented.isna().all(axis=1)
    keyed = (-oriented).fillna(np.inf)
    if missing is not None:
        keyed = keyed.mask(missing.loc[matrix.index, matrix.columns])
    return keyed.mask(nothing).rank(axis=1, method="average")


def rank_results(results: Results, metric: str | None = None) -> pd.DataFrame:
    """`rank_table` of a benchmark in its datasets' primary metrics, or in `metric`."""
    matrix = leaderboard_matrix(results, metric)
    return rank_table(matrix, directions_of(results, metric), missing_units(results))


def summary(rank_table: pd.DataFrame, *, rounds: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Per method the median and mean rank, best mean first.

    `low` and `high` bound a 95 % bootstrap interval of the mean rank over datasets (NaN for fewer than two datasets),
    `median_low` and `median_high` one of the median; `wins` counts the datasets on which no method was better, `count`
    those on which it has a rank.
    """
    low, high = interval(rank_table, np.nanmean, rounds=rounds, seed=seed)
    median_low, median_high = interval(rank_table, median, rounds=rounds, seed=seed)
    best = rank_table.eq(rank_table.min(axis=1), axis=0)
    table = pd.DataFrame(
        {
            "median": rank_table.median(axis=0),
            "mean": rank_table.mean(axis=0),
            "low": low,
            "high": high,
            "median_low": median_low,
            "median_high": median_high,
            "wins": best.sum(axis=0),
            "count": rank_table.notna().sum(axis=0),
        }
    )
    table.index.name = "method"
    return table.sort_index().sort_values(["mean", "median"], kind="stable")


def median(values: Array, axis: int) -> Array:
    """NumPy's nanmedian, which is too slow for a bootstrap."""
    ordered = np.sort(values, axis=axis)  # NaN comes last
    count = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    middle = [np.take_along_axis(ordered, np.maximum(place, 0), axis) for place in ((count - 1) // 2, count // 2)]
    return np.asarray((middle[0] + middle[1]) / 2).squeeze(axis)


def interval(
    rank_table: pd.DataFrame, statistic: Callable[..., Array], *, rounds: int = 2000, seed: int = 0
) -> tuple[pd.Series[float], pd.Series[float]]:
    """A 95 % percentile interval of a statistic of each method's ranks, over datasets drawn with replacement."""
    ordered = rank_table.sort_index()  # the draws must not depend on the order of the rows
    values = ordered.to_numpy(dtype=float)
    bounds = np.full((2, values.shape[1]), np.nan)
    if len(values) >= 2:
        drawn = np.random.default_rng(seed).integers(len(values), size=(rounds, len(values)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a method may have no rank on any drawn dataset
            bounds = np.nanquantile(statistic(values[drawn], axis=1), [0.025, 0.975], axis=0)
    few = rank_table.notna().sum(axis=0) < 2
    low, high = (pd.Series(bound, ordered.columns, dtype=float).mask(few) for bound in bounds)
    return low, high
