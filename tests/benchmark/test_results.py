"""Publishing: plots as files that open by themselves, and where a benchmark came from."""

from __future__ import annotations

from dataclasses import replace

from flows.tracking.summary import benchmark_lineage
from hopular.evaluation.results import Maker
from tests.evaluation.benchmarks import random_results


def test_a_summary_has_the_seed_budget_and_device() -> None:
    results = replace(
        random_results(2, 2, 1),
        settings={"budget": "quick", "limits": {"trials": 3}, "seed": 7},
        provenance={"device": "cuda"},
    )
    lineage = benchmark_lineage(results, "")
    assert (lineage.seed, lineage.budget, lineage.device) == (7, "quick (trials 3)", "cuda")


def test_a_summary_is_of_the_commits_of_its_units() -> None:
    results = random_results(2, 2, 1)
    makers = [Maker(commit) for commit in ("a" * 40, "a" * 40, "b" * 40)]
    units = (replace(unit, maker=maker) for unit, maker in zip(results.units, makers, strict=False))
    lineage = benchmark_lineage(replace(results, units=tuple(units), provenance={"commit": "d" * 40}), "")
    assert lineage.commit == f"{'a' * 40} (2 units) and {'b' * 40} (1 unit)"
