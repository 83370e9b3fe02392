"""From single scores to ranks and costs: means, errors, ties, failures, what was not run, and the Pareto front."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hopular.evaluation.results import SCORE_COLUMNS, Results, UnitResult
from hopular.evaluation.scores import (
    NORMAL,
    directions,
    failed_units,
    full_methods,
    missing_units,
    nan_median,
    noise_of_difference,
    pareto_front,
    rank_interval,
    rank_table,
    relative_scores,
    score_matrix,
    summarise,
    summarise_ranks,
)
from hopular.evaluation.verdict import Standings
from tests.evaluation.benchmarks import make_results, random_results


def test_summary_of_one_method_by_hand():
    results = make_results({"d": {"m": [0.8, 0.9, 0.7, 0.8]}}, width=0.1, seconds={"m": 3.0}, memory={"m": 5e6})
    row = summarise(results.scores).iloc[0]
    assert row["mean"] == pytest.approx(0.8)
    assert row["standard_error"] == pytest.approx(np.std([0.8, 0.9, 0.7, 0.8], ddof=1) / 2)
    assert (row["low"], row["high"]) == pytest.approx((0.7, 0.9))
    assert (row["count"], row["splits"], row["seconds"], row["memory"]) == (4, 4, 3.0, 5e6)
    assert row["uncertainty"] == pytest.approx(row["standard_error"] * 3.182446305284263 / NORMAL)  # t, 3 degrees


@pytest.mark.parametrize(
    ("split", "divisor"),
    [("kfold5-seed1-{}", 2.0), ("fixed-{}", 1.0), ("holdout-seed{}", 1.0), ("{}", 1.0), ("kfold5-seed{0}-{0}", 1.0)],
)
def test_only_folds_of_one_cross_validation_have_test_rows_of_their_own(split: str, divisor: float):
    row = summarise(make_results({"d": {"m": [0.8] * 4}}, width=0.1, split=split).scores).iloc[0]
    assert row["uncertainty"] == pytest.approx(0.1 / NORMAL / divisor)


def test_replicates_of_a_fold_add_no_test_rows():
    one = make_results({"d": {"m": [0.8] * 4}}, width=0.1, split="kfold5-seed1-{}").scores
    both = pd.concat([one, one.assign(seed=1)])
    assert summarise(both)["uncertainty"][0] == pytest.approx(summarise(one)["uncertainty"][0])


def test_the_farther_end_of_an_interval_counts():
    scores = make_results({"d": {"m": [1.0]}}).scores.assign(low=0.9, high=1.0)
    assert summarise(scores)["uncertainty"][0] == pytest.approx(0.1 / NORMAL)


def test_a_single_value_has_no_standard_error_but_an_uncertainty():
    row = summarise(make_results({"d": {"m": [0.8]}}, width=0.1).scores).iloc[0]
    assert math.isnan(row["standard_error"])
    assert row["uncertainty"] == pytest.approx(0.1 / 1.959963984540054)


def test_nothing_known_of_the_noise_is_nan():
    row = summarise(make_results({"d": {"m": [0.8]}}, width=math.nan).scores).iloc[0]
    assert math.isnan(row["uncertainty"])


def test_the_order_of_scores_does_not_matter_to_the_last_digit():
    results = random_results(4, 3, 7)
    shuffled = replace(results, scores=results.scores.sample(frac=1, random_state=1))
    pd.testing.assert_frame_equal(summarise(results.scores), summarise(shuffled.scores), check_exact=True)
    pd.testing.assert_frame_equal(score_matrix(results), score_matrix(shuffled), check_exact=True)


def test_noise_of_what_is_known():
    assert noise_of_difference(3.0, 4.0) == pytest.approx(5 * 1.959963984540054)
    assert noise_of_difference(math.nan, 1.0) == pytest.approx(1.959963984540054)
    assert math.isnan(noise_of_difference(math.nan, math.nan))


def test_matrix_and_directions_of_both_tasks():
    one = make_results({"c": {"x": [0.8, 0.9], "y": [0.7, 0.7]}})
    two = make_results({"r": {"x": [2.0], "y": [1.0]}}, task="regression")
    both = replace(
        one,
        scores=pd.concat([one.scores, two.scores]),
        datasets=one.datasets + two.datasets,
        units=one.units + two.units,
    )
    expected = pd.DataFrame({"x": [0.85, 2.0], "y": [0.7, 1.0]}, index=["c", "r"])
    pd.testing.assert_frame_equal(score_matrix(both), expected)
    assert directions(both).to_dict() == {"c": True, "r": False}


def test_failed_and_not_run_are_told_apart():
    results = make_results(
        {
            "d": {"good": [0.8, 0.9], "broken": None, "partly": [0.7, 0.8]},
            "e": {"good": [0.8, 0.9], "partly": [0.7]},
        }
    )
    matrix, missing = score_matrix(results), missing_units(results)
    assert matrix.notna().to_dict("index") == {
        "d": {"broken": False, "good": True, "partly": True},
        "e": {"broken": False, "good": True, "partly": False},
    }
    assert missing.to_dict("index") == {
        "d": {"broken": False, "good": False, "partly": False},
        "e": {"broken": True, "good": False, "partly": True},  # one has no unit there, the other not on all splits
    }
    assert [unit.method for unit in failed_units(results)] == ["broken"]


def test_one_failed_split_fails_the_dataset():
    results = make_results({"d": {"x": [0.8, 0.9], "y": [0.7, 0.7]}})
    units = tuple(replace(u, state="failed") if (u.method, u.split) == ("x", "1") else u for u in results.units)
    matrix = score_matrix(replace(results, units=units))
    assert math.isnan(matrix.loc["d", "x"])
    assert matrix.loc["d", "y"] == pytest.approx(0.7)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_that_is_no_number_is_a_failure(value: float):
    results = make_results({"d": {"x": [0.8, value], "y": [0.7, 0.7]}})
    assert math.isnan(score_matrix(results).loc["d", "x"])
    assert not missing_units(results).loc["d", "x"]
    for one in (results, replace(results, units=())):
        assert [(unit.method, unit.split, unit.reason) for unit in failed_units(one)] == [
            ("x", "1", "no score: it is missing or not a finite number")
        ]


def test_a_misspelt_primary_metric_is_named():
    results = make_results({"d": {"x": [0.8], "y": [0.7]}})
    scores = results.scores.assign(metric=["accuracy", "acuracy"])
    with pytest.raises(ValueError, match=r"of y on d is in 'acuracy', which is no metric.*none in 'accuracy'") as error:
        score_matrix(replace(results, scores=scores))
    assert "Did you mean 'accuracy'? The metrics are: accuracy, balanced_accuracy" in str(error.value)


def test_a_further_metric_of_ones_own_does_no_harm():
    results = make_results({"d": {"x": [0.8]}})
    both = pd.concat([results.scores, results.scores.assign(metric="profit")])
    assert score_matrix(replace(results, scores=both)).loc["d", "x"] == 0.8


def test_a_complete_unit_without_a_score_is_a_failure():
    results = make_results({"d": {"x": [0.8]}})
    results = replace(results, units=(*results.units, UnitResult("d", "0", "silent", "complete")))
    assert math.isnan(score_matrix(results).loc["d", "silent"])
    assert not missing_units(results).loc["d", "silent"]


def test_scores_alone_are_enough():
    results = replace(make_results({"d": {"x": [0.8, 0.9]}}), units=())
    assert score_matrix(results).loc["d", "x"] == pytest.approx(0.85)
    assert not missing_units(results).any(axis=None)


def test_nothing_at_all():
    results = Results("a", "2026", pd.DataFrame(columns=list(SCORE_COLUMNS)), (), ())
    assert score_matrix(results).shape == (0, 0)
    assert missing_units(results).shape == (0, 0)
    assert summarise(results.scores).empty


def test_relative_scores_by_hand():
    matrix = pd.DataFrame({"x": [0.9, 1.0], "y": [0.8, 3.0], "z": [0.5, np.nan]}, index=["c", "r"])
    found = relative_scores(matrix, pd.Series({"c": True, "r": False}))
    assert found.to_dict() == pytest.approx({"x": 1.0, "y": (0.75 + 0) / 2, "z": 0.0})


def test_relative_scores_where_all_tie_or_fail_or_were_not_run():
    matrix = pd.DataFrame({"x": [0.9, np.nan, 0.5], "y": [0.9, np.nan, np.nan]}, index=["tie", "fail", "gap"])
    higher = pd.Series(True, index=matrix.index)
    missing = pd.DataFrame(False, index=matrix.index, columns=matrix.columns)
    missing.loc["gap", "y"] = True
    assert relative_scores(matrix, higher, missing).to_dict() == {"x": 1.0, "y": 1.0}


def test_scores_of_a_dataset_without_facts_are_refused():
    results = replace(make_results({"d": {"x": [0.8]}}), datasets=())
    with pytest.raises(ValueError, match="scores of d but no facts: add them to `datasets`"):
        score_matrix(results)


# ----------------------------------------------------------------------------------------------------------- the ranks


def as_matrix(rows: list[list[float]]) -> tuple[pd.DataFrame, pd.Series]:
    """Make a matrix in which higher is better."""
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
    assert summarise_ranks(table)["wins"].to_dict() == {"m1": 1, "m0": 0}


def test_one_method_and_one_dataset():
    table = summarise_ranks(Standings(make_results({"d": {"x": [0.8]}})).ranks)
    assert table.loc["x", ["median", "mean", "wins", "count"]].tolist() == [1.0, 1.0, 1, 1]
    assert math.isnan(table.loc["x", "low"])  # one dataset says nothing of others


def test_summary_by_hand():
    ranks = pd.DataFrame({"x": [1.0, 2.0, 1.5, 3.0], "y": [2.0, 1.0, 1.5, 1.0], "z": [3.0, 3.0, 3.0, 2.0]})
    table = summarise_ranks(ranks)
    assert list(table.index) == ["y", "x", "z"]
    assert table["mean"].tolist() == [1.375, 1.875, 2.75]
    assert table["median"].tolist() == [1.25, 1.75, 3.0]
    assert table["wins"].tolist() == [3, 2, 0]
    assert (table["count"] == 4).all()
    assert ((table["low"] <= table["mean"]) & (table["mean"] <= table["high"])).all()


def test_full_methods_have_a_rank_wherever_there_are_ranks():
    nan = math.nan
    ranks = pd.DataFrame([[1.0, 2.0, nan], [1.0, nan, 2.0], [nan] * 3], columns=list("abc"))
    assert full_methods(ranks) == ["a"]
    assert full_methods(ranks.iloc[2:]) == []


def test_the_median_is_numpys():
    values = np.random.default_rng(0).random((50, 7, 3))
    values[values < 0.3] = np.nan
    values[:, 1] = 0.5
    np.testing.assert_array_equal(nan_median(values, 1), np.nanmedian(values, axis=1))
    assert np.isnan(nan_median(np.full((2, 3, 1), np.nan), 1)).all()


def test_the_interval_of_the_median_agrees_with_scipy():
    ranks = pd.DataFrame({"x": np.random.default_rng(2).integers(1, 9, size=40).astype(float)})
    row = summarise_ranks(ranks).loc["x"]
    expected = stats.bootstrap((ranks["x"],), np.median, method="percentile", n_resamples=5000, rng=0)
    low, high = expected.confidence_interval
    assert (row["median_low"], row["median_high"]) == pytest.approx((low, high), abs=0.5)


def test_the_interval_is_that_of_a_mean():
    values = np.random.default_rng(1).normal(10, 2, size=(200, 1))
    low, high = rank_interval(pd.DataFrame(values), np.nanmean, rounds=4000)
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
    pd.testing.assert_frame_equal(summarise_ranks(first, rounds=50), summarise_ranks(second, rounds=50))


# ----------------------------------------------------------------------------------------------------------- the costs


POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(POINTS)
@settings(deadline=None)
def test_a_point_is_on_the_front_unless_another_is_better(points: list[tuple[int, int]]):
    found = pareto_front(pd.DataFrame(points, columns=["cost", "score"], dtype=float))
    for (cost, score), is_on_front in zip(points, found, strict=True):
        beaten = any(c <= cost and s >= score and (c, s) != (cost, score) for c, s in points)
        assert is_on_front == (not beaten)


def test_an_unknown_point_is_never_on_the_front():
    points = pd.DataFrame({"cost": [1.0, math.nan], "score": [math.nan, 1.0]}, index=["a", "b"])
    assert pareto_front(points).to_dict() == {"a": False, "b": False}


def test_cost_table_of_a_benchmark():
    results = make_results(
        {
            "d": {"fast": [0.7, 0.7], "slow": [0.9, 0.9], "poor": [0.6, 0.6]},
            "e": {"fast": [0.8, 0.8], "slow": [0.9, 0.9], "poor": None},
        },
        seconds={"fast": 1.0, "slow": 60.0, "poor": 5.0},
        memory={"fast": 2e6, "slow": 1e6, "poor": 0.0},
    )
    table = Standings(results).costs.loc[["slow", "fast", "poor"]]
    assert table["seconds"].to_dict() == {"slow": 60.0, "fast": 1.0, "poor": 5.0}
    assert table["relative"].tolist() == pytest.approx([1.0, (1 / 3 + 0) / 2, 0.0])
    assert table["is_on_front"].to_dict() == {"slow": True, "fast": True, "poor": False}
    assert table["is_on_memory_front"].to_dict() == {"slow": True, "fast": False, "poor": False}
    assert math.isnan(table.loc["poor", "memory"])  # 0 was not measured
