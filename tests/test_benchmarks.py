"""The benchmarks measure what they say, on small shapes."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmarks.accuracy import DATASETS, OPTIONS, markdown
from benchmarks.floor import Shape, floor_step
from benchmarks.step import compare, training_step


@pytest.mark.parametrize("values", ["tied", "separate"])
def test_floor_plain_and_own_step_are_timed(values: str) -> None:
    seconds = compare(Shape(n=20, d=4, L=2, M=4, e=8), values, repeats=2)
    assert set(seconds) == {"floor", "plain", "step"}
    assert all(0 < value < 5 for value in seconds.values())


def test_a_step_may_store_more_rows_than_its_batch() -> None:
    step = training_step(Shape(n=8, d=3, L=1, M=2, e=8), "tied", stored=50)
    assert step() is None


def test_floor_counts_the_projections_of_each_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import floor

    calls = []
    original = floor._projection
    monkeypatch.setattr(floor, "_projection", lambda *shape: calls.append(shape) or original(*shape))
    floor_step(Shape(n=6, d=2, L=3, M=2, e=4), "tied")
    assert len(calls) == 3 * 2 * 3
    calls.clear()
    floor_step(Shape(n=6, d=2, L=3, M=2, e=4), "separate")
    assert len(calls) == 3 * 2 * 4


def test_accuracy_table_averages_folds() -> None:
    results = pd.DataFrame(
        [
            {"setting": "a", "dataset": name, "fold": fold, "accuracy": 0.5 + 0.2 * fold, "seconds": 2.0}
            for name in DATASETS
            for fold in (0, 1)
        ]
    )
    table = markdown(results, ["a"])
    assert table.splitlines()[-1] == "| a |" + " 0.600 |" * (len(DATASETS) + 1) + " 2.0 |"
    assert len(OPTIONS) == 5
