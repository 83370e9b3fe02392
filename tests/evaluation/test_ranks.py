"""Ranks: ties, failures, what was not run, and their summary over datasets."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hopular.evaluation.ranks import interval, median, rank_results, rank_table, summary
from tests.evaluation.benchmarks import make_results


def as_matrix(rows: list[list[float]]) -> tuple[pd.DataFrame, pd.Series]:
    """A matrix in which higher is better."""
    matrix = pd.DataFrame(rows, index=[f"d{i}" for i in range(len(rows))])
    matrix.columns = [f"m{i}" for i in matrix.columns]
    return matrix, pd.Series(True, index=matrix.index)


def test_ranks_agree_with_scipy():
    matrix, higher = as_matrix(np.random.default_rng(0).random((30, 8)).round(1).tolist())
    expected = stats.rankdata(-matrix.to_numpy(), axis=1)
    np.testing.assert_allclose(rank_table(matrix, higher), expected, atol=1e-9)
    np.testing.assert_allclose(rank_table(matrix, ~higher), stats.rankdata(matrix.to_numpy(), axis=1), atol=1e-9)


def test_ties_are_averaged_and_failures_share_the_last_places():
    matrix, higher = as_matrix([[0.9, 0.9, np.nan, 0.5, np.nan]])
    assert rank_table(matrix, higher).loc["d0"].tolist() == [1.5, 1.5, 4.5, 3.0, 4.5]


def test_values_that_differ_by_rounding_tie():
    matrix, higher = as_matrix([[0.1 + 0.2, 0.3, 0.2], [1e-9, 1e-9 * (1 + 1e-15), 2e-9]])
    assert rank_table(matrix, higher).to_numpy().tolist() == [[1.5, 1.5, 3.0], [2.5, 2.5, 1.0]]


def test_a_method_that_was_not_run_has_no_rank():
    matrix, higher = as_matrix([[0.9, np.nan, 0.5], [0.1, 0.2, 0.3]])
    missing = matrix.isna()
    assert rank_table(matrix, higher, missing).loc["d0"].to_dict() == pytest.approx(
        {"m0": 1.0, "m1": math.nan, "m2": 2.0}, nan_ok=True
    )


def test_nobody_has_a_rank_where_all_failed():
    matrix, higher = as_matrix([[np.nan, np.nan], [0.5, 0.6]])
    table = rank_table(matrix, higher)
    assert table.loc["d0"].isna().all()
    assert summary(table)["wins"].to_dict() == {"m1": 1, "m0": 0}


def test_one_method_and_one_dataset():
    table = summary(rank_results(make_results({"d": {"x": [0.8]}})))
    assert table.loc["x", ["median", "mean", "wins", "count"]].tolist() == [1.0, 1.0, 1, 1]
    assert math.isnan(table.loc["x", "low"])  # one dataset says nothing of others


def test_summary_by_hand():
    ranks = pd.DataFrame({"x": [1.0, 2.0, 1.5, 3.0], "y": [2.0, 1.0, 1.5, 1.0], "z": [3.0, 3.0, 3.0, 2.0]})
    table = summary(ranks)
    assert list(table.index) == ["y", "x", "z"]
    assert table["mean"].tolist() == [1.375, 1.875, 2.75]
    assert table["median"].tolist() == [1.25, 1.75, 3.0]
    assert table["wins"].tolist() == [3, 2, 0]
    assert (table["count"] == 4).all()
    assert ((table["low"] <= table["mean"]) & (table["mean"] <= table["high"])).all()


def test_the_median_is_numpys():
    values = np.random.default_rng(0).random((50, 7, 3))
    values[values < 0.3] = np.nan
    values[:, 1] = 0.5
    np.testing.assert_array_equal(median(values, 1), np.nanmedian(values, axis=1))
    assert np.isnan(median(np.full((2, 3, 1), np.nan), 1)).all()


def test_the_interval_of_the_median_agrees_with_scipy():
    ranks = pd.DataFrame({"x": np.random.default_rng(2).integers(1, 9, size=40).astype(float)})
    row = summary(ranks).loc["x"]
    expected = stats.bootstrap((ranks["x"],), np.median, method="percentile", n_resamples=5000, rng=0)
    low, high = expected.confidence_interval
    assert (row["median_low"], row["median_high"]) == pytest.approx((low, high), abs=0.5)


def test_the_interval_is_that_of_a_mean():
    values = np.random.default_rng(1).normal(10, 2, size=(200, 1))
    low, high = interval(pd.DataFrame(values), np.nanmean, rounds=4000)
    half = 1.96 * values.std() / math.sqrt(200)
    assert (low[0], high[0]) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.03)


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_the_order_of_datasets_and_methods_changes_nothing(data: st.DataObject):
    n, k = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 6))
    value = st.one_of(st.sampled_from([0.1, 0.5, 0.5, 0.9, np.nan]), st.floats(0, 1))
    rows = data.draw(st.lists(st.lists(value, min_size=k, max_size=k), min_size=n, max_size=n))
    matrix, _ = as_matrix(rows)
    higher = pd.Series(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), index=matrix.index)
    shuffled = matrix.loc[
        data.draw(st.permutations(list(matrix.index))), data.draw(st.permutations(list(matrix.columns)))
    ]
    first, second = rank_table(matrix, higher), rank_table(shuffled, higher)
    pd.testing.assert_frame_equal(first, second.loc[first.index, first.columns])
    ranked = first.dropna(how="all")
    assert np.allclose(ranked.sum(axis=1), k * (k + 1) / 2)
    pd.testing.assert_frame_equal(summary(first, rounds=50), summary(second, rounds=50))
