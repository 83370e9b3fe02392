"""Score against cost: the Pareto front by its definition, and the table of a benchmark."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopular.evaluation.cost import cost_table, pareto_front
from tests.evaluation.benchmarks import make_results

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
    table = cost_table(results)
    assert list(table.index) == ["slow", "fast", "poor"]
    assert table["rank"].tolist() == [1.0, 2.0, 3.0]
    assert table["seconds"].to_dict() == {"slow": 60.0, "fast": 1.0, "poor": 5.0}
    assert table["relative_score"].tolist() == pytest.approx([1.0, (1 / 3 + 0) / 2, 0.0])
    assert table["is_on_front"].to_dict() == {"slow": True, "fast": True, "poor": False}
    assert table["is_on_memory_front"].to_dict() == {"slow": True, "fast": False, "poor": False}
    assert math.isnan(table.loc["poor", "memory"])  # 0 was not measured
