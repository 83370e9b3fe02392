"""Two benchmarks side by side, and several as one."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from hopular.evaluation.compare import compare, merge
from hopular.evaluation.results import Maker, UnitResult
from hopular.evaluation.scores import score_matrix
from hopular.evaluation.verdict import Standings
from tests.evaluation.benchmarks import make_results, random_results, with_architecture

LATER = "2026-02-01T00:00:00"
FOLD = "kfold4-seed1-{}"


def test_nothing_moves_between_a_benchmark_and_itself():
    results = random_results(3, 4, 2)
    found = compare(results, results)
    assert found.moved.empty
    assert len(found.scores) == 12
    assert not found.leaders["is_changed"].any()
    assert found.new_datasets == found.gone_datasets == found.new_methods == found.gone_methods == ()


def test_what_moved_beyond_noise_by_hand():
    # Four folds with intervals of +- 0.02: uncertainty 0.02 / 1.96 / 2 each, so noise is 0.02 / 2 * sqrt(2) = 0.0141.
    before = make_results({"d": {"x": [0.80] * 4, "y": [0.70] * 4}}, split=FOLD)
    after = make_results({"d": {"x": [0.81] * 4, "y": [0.72] * 4}}, split=FOLD, id="b", created=LATER)
    found = compare(before, after)
    rows = found.scores.set_index("method")
    assert rows["noise"].tolist() == pytest.approx([0.01 * math.sqrt(2)] * 2)
    assert rows["difference"].to_dict() == pytest.approx({"x": 0.01, "y": 0.02})
    assert rows["is_moved"].to_dict() == {"x": False, "y": True}
    assert found.moved["method"].tolist() == ["y"]
    assert found.moved["is_better"].tolist() == [True]
    assert (found.before, found.after) == ("a", "b")


def test_a_lower_loss_is_better():
    before = make_results({"d": {"x": [2.0, 2.1]}}, task="regression")
    after = make_results({"d": {"x": [1.0, 1.1]}}, task="regression")
    assert compare(before, after).moved["is_better"].tolist() == [True]


def test_a_single_score_without_interval_cannot_be_said_to_have_moved():
    before, after = (make_results({"d": {"x": [value]}}, width=math.nan) for value in (0.1, 0.9))
    found = compare(before, after).scores
    assert found["noise"].isna().all()
    assert not found["is_moved"].any()


def test_rounding_is_no_movement_where_nothing_varies():
    before, after = (make_results({"d": {"x": [v, v]}}, width=0.0) for v in (0.3, 0.1 + 0.2))
    assert compare(before, after).moved.empty


def test_leaders_change_beyond_noise_or_within():
    before = make_results({"d": {"x": [0.8] * 4, "y": [0.7] * 4}, "e": {"x": [0.8] * 4, "y": [0.79] * 4}})
    after = make_results({"d": {"x": [0.7] * 4, "y": [0.8] * 4}, "e": {"x": [0.79] * 4, "y": [0.795] * 4}})
    found = compare(before, after).leaders.set_index("dataset")
    assert found[["before", "after"]].to_numpy().tolist() == [["x", "y"], ["x", "y"]]
    assert found["is_changed"].all()
    assert found["is_noise"].to_dict() == {"d": False, "e": True}


def test_leaders_tie_or_fail():
    results = make_results({"d": {"x": [0.8], "y": [0.8], "z": [0.1]}, "e": {"x": None}})
    assert Standings(results).leaders == {"d": ("x", "y"), "e": ()}
    assert compare(results, results).leaders["before"].tolist() == ["x, y", ""]


def test_what_failed_in_one_of_them_is_named():
    before = make_results({"d": {"x": [0.8], "y": None, "z": None}, "old": {"x": None}})
    after = make_results({"d": {"x": None, "y": [0.7], "z": None}, "new": {"x": None}})
    found = compare(before, after)
    assert found.newly_failed == (("d", "x"),)
    assert found.recovered == (("d", "y"),)
    assert found.scores.empty


def test_a_score_that_became_no_number_has_failed():
    before, after = (make_results({"d": {"x": [value], "y": [0.5]}}) for value in (0.8, math.inf))
    assert compare(before, after).newly_failed == (("d", "x"),)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({"x": None, "y": [0.7] * 4}, id="the old leader failed"),
        pytest.param({"y": [0.7] * 4}, id="the old leader was not run"),
        pytest.param({"x": None, "y": None}, id="all failed"),
    ],
)
def test_a_lead_over_nothing_cannot_be_judged(after: dict):
    before = make_results({"d": {"x": [0.8] * 4, "y": [0.7] * 4}})
    row = compare(before, make_results({"d": after})).leaders.iloc[0]
    assert row["is_changed"]
    assert row["is_noise"] is None


def test_a_lead_of_which_no_noise_is_known_cannot_be_judged():
    before, after = (make_results({"d": {"x": [x], "y": [0.5]}}, width=math.nan) for x in (0.6, 0.4))
    assert compare(before, after).leaders["is_noise"][0] is None


def test_new_gone_and_changed():
    before = make_results({"d": {"x": [0.8]}, "old": {"gone": [0.8]}, "grown": {"x": [0.5]}})
    after = make_results({"d": {"x": [0.8]}, "new": {"fresh": [0.8]}, "grown": {"x": [0.9]}})
    grown = tuple(replace(f, fingerprint="other") if f.name == "grown" else f for f in after.datasets)
    found = compare(before, replace(after, datasets=grown))
    assert (found.new_datasets, found.gone_datasets, found.changed_datasets) == (("new",), ("old",), ("grown",))
    assert (found.new_methods, found.gone_methods) == (("fresh",), ("gone",))
    assert set(found.scores["dataset"]) == {"d"}


# ------------------------------------------------------------------------------------------------------------- merging


def test_of_the_same_unit_the_latest_counts_whatever_the_order():
    old = make_results({"d": {"x": [0.5, 0.6], "y": [0.7, 0.7]}})
    new = make_results({"d": {"x": [0.8, 0.9]}, "e": {"x": [0.4]}}, id="b", created=LATER)
    for order in ([old, new], [new, old]):
        found = merge(order)
        matrix = score_matrix(found)
        assert matrix.loc["d"].to_dict() == pytest.approx({"x": 0.85, "y": 0.7})
        assert matrix.loc["e", "x"] == pytest.approx(0.4)
        assert (found.id, found.created, len(found.units)) == ("a+b", LATER, 5)


def test_a_later_failure_replaces_an_earlier_score():
    old = make_results({"d": {"x": [0.5], "y": [0.5]}})
    new = replace(
        make_results({"d": {"x": [0.5]}}, created=LATER), units=(UnitResult("d", "0", "x", "failed", "broke"),)
    )
    found = merge([old, replace(new, scores=new.scores.iloc[:0])])
    assert math.isnan(score_matrix(found).loc["d", "x"])
    assert score_matrix(found).loc["d", "y"] == 0.5


def test_merging_one_changes_nothing():
    results = random_results(2, 2, 2)
    pd.testing.assert_frame_equal(merge([results]).scores, results.scores)


def test_other_contents_under_the_same_name_are_refused():
    old, new = make_results({"d": {"x": [0.5]}}), make_results({"d": {"x": [0.5]}}, created=LATER)
    changed = replace(new, datasets=(replace(new.datasets[0], fingerprint="other"),))
    with pytest.raises(ValueError, match="dataset 'd' of benchmark 'a' has other contents than in a later benchmark"):
        merge([old, changed])


def test_other_splits_of_a_dataset_are_refused():
    old = make_results({"d": {"x": [0.5, 0.6]}}, split="fixed-{}")
    new = make_results({"d": {"y": [0.5]}}, split="holdout-{}", id="b", created=LATER)
    with pytest.raises(
        ValueError, match=r"different splits of 'd' \(x fixed-0, fixed-1; y holdout-0\): run all methods on"
    ):
        merge([old, new])


def test_more_splits_of_all_methods_can_be_merged():
    old, new = make_results({"d": {"x": [0.5]}}), make_results({"d": {"x": [0.6, 0.7]}}, id="b", created=LATER)
    assert score_matrix(merge([old, new])).loc["d", "x"] == pytest.approx(0.65)


def test_budgets_do_not_mix_on_a_dataset():
    old = replace(make_results({"d": {"x": [0.5]}}), settings={"budget": "smoke", "limits": {"trials": 2}})
    new = replace(make_results({"d": {"y": [0.5]}}, id="b", created=LATER), settings={"budget": "paper", "limits": {}})
    with pytest.raises(
        ValueError, match=r"'d' was run with budget smoke, limits .*'trials': 2.* \(a\) and budget paper \(b\)"
    ):
        merge([old, new])


def test_budgets_of_different_datasets_are_labelled():
    old = replace(make_results({"d": {"x": [0.5]}}), settings={"budget": "smoke", "seed": 0, "runner": "ray"})
    new = make_results({"e": {"x": [0.5]}}, id="b", created=LATER)
    found = merge([old, replace(new, settings={"budget": "paper", "seed": 0, "runner": "local"})])
    assert found.settings == {"budget": {"a": "smoke", "b": "paper"}, "seed": 0, "runner": "local"}


def test_merged_units_keep_what_they_were_made_with():
    first, second = make_results({"a": {"x": [0.5]}}), make_results({"b": {"x": [0.5]}})
    first = replace(first, created="1", units=(replace(first.units[0], maker=Maker("abc", device="cpu")),))
    second = replace(second, created="2", units=(replace(second.units[0], maker=Maker("def", device="cuda")),))
    merged = merge([first, second])
    assert {unit.dataset: unit.maker and unit.maker.commit for unit in merged.units} == {"a": "abc", "b": "def"}
    assert merged.made_with["commit"] == "abc (1 unit) and def (1 unit)"
    old = replace(first, units=(replace(first.units[0], maker=None),), provenance={"commit": "ghi"})
    assert merge([old, second]).made_with["commit"] == "not recorded (1 unit) and def (1 unit)"


def test_nothing_to_merge():
    with pytest.raises(ValueError, match="there are no benchmarks to merge"):
        merge([])


# -------------------------------------------------------------------------------------------------------- architectures


def test_another_architecture_is_another_method():
    before = make_results({"a": {"hopular": [0.5], "knn": [0.8]}})
    default, paper = (with_architecture(before, name) for name in ("default", "paper"))
    changes = compare(default, paper)
    assert changes.renamed == (("Hopular (default architecture)", "Hopular (paper architecture)"),)
    assert compare(default, default).renamed == compare(before, default).renamed == ()


def test_architectures_are_not_mixed_on_a_dataset():
    first = make_results({"a": {"hopular": [0.5, 0.6], "knn": [0.8, 0.8]}}, id="first")
    second = make_results({"a": {"hopular": [0.5]}}, id="second", created="2026-01-02T00:00:00")
    same = [with_architecture(one, "paper") for one in (first, second)]
    assert merge(same).title("hopular") == "Hopular (paper architecture)"
    with pytest.raises(ValueError, match=r"'a' was run with the architectures default and paper: .* compare"):
        merge([with_architecture(first, "default"), with_architecture(second, "paper")])
    other = with_architecture(make_results({"b": {"hopular": [0.5]}}, id="other"), "released")
    assert merge([same[0], other]).title("hopular") == "Hopular (paper and released architectures)"
