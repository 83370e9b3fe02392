"""From single scores to a matrix of datasets and methods: means, errors, failures, what was not run."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hopular.evaluation.results import SCORE_COLUMNS, Results, UnitResult
from hopular.evaluation.scores import (
    NO_SCORE,
    NORMAL,
    directions,
    failed_units,
    leaderboard_matrix,
    missing_units,
    primary_scores,
    relative_scores,
    summarise,
    without_doubtful,
)
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
    pd.testing.assert_frame_equal(leaderboard_matrix(results), leaderboard_matrix(shuffled), check_exact=True)


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
    pd.testing.assert_frame_equal(leaderboard_matrix(both), expected)
    assert directions(both).to_dict() == {"c": True, "r": False}
    assert list(leaderboard_matrix(both, "accuracy").index) == ["c"]
    assert directions(both, "mse").to_dict() == {"r": False}
    assert set(primary_scores(both, "mse")["dataset"]) == {"r"}


def test_failed_and_not_run_are_told_apart():
    results = make_results(
        {
            "d": {"good": [0.8, 0.9], "broken": None, "partly": [0.7, 0.8]},
            "e": {"good": [0.8, 0.9], "partly": [0.7]},
        }
    )
    matrix, missing = leaderboard_matrix(results), missing_units(results)
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
    matrix = leaderboard_matrix(replace(results, units=units))
    assert math.isnan(matrix.loc["d", "x"])
    assert matrix.loc["d", "y"] == pytest.approx(0.7)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_that_is_no_number_is_a_failure(value: float):
    results = make_results({"d": {"x": [0.8, value], "y": [0.7, 0.7]}})
    assert math.isnan(leaderboard_matrix(results).loc["d", "x"])
    assert not missing_units(results).loc["d", "x"]
    for one in (results, replace(results, units=())):
        assert [(unit.method, unit.split, unit.reason) for unit in failed_units(one)] == [("x", "1", NO_SCORE)]


def test_a_misspelt_primary_metric_is_named():
    results = make_results({"d": {"x": [0.8], "y": [0.7]}})
    scores = results.scores.assign(metric=["accuracy", "acuracy"])
    with pytest.raises(ValueError, match=r"of y on d is in 'acuracy', which is no metric.*none in 'accuracy'") as error:
        leaderboard_matrix(replace(results, scores=scores))
    assert "Did you mean 'accuracy'? The metrics are: accuracy, balanced_accuracy" in str(error.value)


def test_a_further_metric_of_ones_own_does_no_harm():
    results = make_results({"d": {"x": [0.8]}})
    both = pd.concat([results.scores, results.scores.assign(metric="profit")])
    assert leaderboard_matrix(replace(results, scores=both)).loc["d", "x"] == 0.8


def test_a_complete_unit_without_a_score_is_a_failure():
    results = make_results({"d": {"x": [0.8]}})
    results = replace(results, units=(*results.units, UnitResult("d", "0", "silent", "complete")))
    assert math.isnan(leaderboard_matrix(results).loc["d", "silent"])
    assert not missing_units(results).loc["d", "silent"]


def test_scores_alone_are_enough():
    results = replace(make_results({"d": {"x": [0.8, 0.9]}}), units=())
    assert leaderboard_matrix(results).loc["d", "x"] == pytest.approx(0.85)
    assert not missing_units(results).any(axis=None)


def test_nothing_at_all():
    results = Results("a", "2026", pd.DataFrame(columns=list(SCORE_COLUMNS)), (), ())
    assert leaderboard_matrix(results).shape == (0, 0)
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


def test_doubtful_datasets_can_be_left_out():
    results = make_results({"d": {"x": [0.8]}, "e": {"x": [0.9]}}, doubtful=["e"])
    kept = without_doubtful(results)
    assert [facts.name for facts in kept.datasets] == ["d"]
    assert list(leaderboard_matrix(kept).index) == ["d"]
    assert {unit.dataset for unit in kept.units} == {"d"}


def test_scores_of_a_dataset_without_facts_are_refused():
    results = replace(make_results({"d": {"x": [0.8]}}), datasets=())
    with pytest.raises(ValueError, match="scores of d but no facts: add them to `datasets`"):
        leaderboard_matrix(results)


def test_an_unknown_metric_is_named():
    with pytest.raises(ValueError, match=r"no metric 'roc'.*The metrics are: accuracy"):
        leaderboard_matrix(make_results({"d": {"x": [0.8]}}), "roc")
