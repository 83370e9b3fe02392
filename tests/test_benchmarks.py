"""The benchmarks measure what they say, on small shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import automl, portfolio
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


# ------------------------------------------------------------------------------------------------------ automl


def test_scores_do_not_depend_on_how_a_class_is_written() -> None:
    truth = pd.Series(["1.0", "-1.0", "1.0"])
    loss, accuracy = automl.score("classification", truth, pd.DataFrame({"-1": [0.2, 0.9, 0.6], "1": [0.8, 0.1, 0.4]}))
    assert loss == pytest.approx(-np.log([0.8, 0.9, 0.4]).mean())
    assert accuracy == pytest.approx(2 / 3)


def test_scores_do_not_depend_on_blanks_around_a_class() -> None:
    loss, accuracy = automl.score(
        "classification", pd.Series(["van ", "bus"]), pd.DataFrame({"bus": [0, 1], "van": [1, 0]})
    )
    assert loss == pytest.approx(0, abs=1e-5)
    assert accuracy == 1.0


def test_a_class_without_a_probability_costs_the_clipped_loss() -> None:
    loss, accuracy = automl.score("classification", pd.Series(["c"]), pd.DataFrame({"a": [0.5], "b": [0.5]}))
    assert (loss, accuracy) == (pytest.approx(-np.log(automl.CLIP)), 0.0)


def test_numbers_are_scored_in_standard_deviations() -> None:
    loss, accuracy = automl.score("regression", pd.Series(["1", "3"]), pd.DataFrame({"target": [2.0, 2.0]}))
    assert loss == pytest.approx(1.0)
    assert np.isnan(accuracy)


def test_summary_ranks_systems_and_counts_tables_lost_to_catboost() -> None:
    rows = [
        ("hopular", "a", 0.30, 0.9),
        ("catboost", "a", 0.40, 0.8),
        ("hopular", "b", 0.53, np.nan),
        ("catboost", "b", 0.50, np.nan),
        ("hopular", "c", 0.10, 0.9),  # not run with catboost: left out
    ]
    results = pd.DataFrame(
        [
            {**dict(zip(automl.COLUMNS, row, strict=False)), "seconds": 1.0, "predict_seconds": 0.1, "limit": 60.0}
            for row in rows
        ]
    )
    lines = automl.summary(results).splitlines()
    assert lines[0].startswith("| 2 tables, 60 s | mean log loss (1 tables) |")
    assert lines[2] == "| `hopular fit` | 0.3000 | 0.9000 | 0.5300 | 1.50 | 1 | 1.0 | 0.10 |"
    assert "| b (RMSE / std) | 0.5300 | **0.5000** |" in automl.details(results)


def test_a_fit_in_its_own_process_is_scored_on_rows_that_it_did_not_see(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(80, 2)).round(3)
    pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "target": (3 * x[:, 0]).round(3)}).to_csv(tmp_path / "t.csv", index=False)
    python = automl.find_python("catboost", None)
    loss, accuracy, seconds, predict = automl.fit_once("catboost", python, tmp_path, "t", "regression", 60)
    assert loss < 0.5
    assert np.isnan(accuracy)
    assert 0 < predict < seconds < 100


def test_autogluon_is_skipped_with_a_reason_where_it_is_missing() -> None:
    import sys

    with pytest.raises(automl.Skipped, match=r"cannot import autogluon\.tabular: ModuleNotFoundError"):
        automl.find_python("autogluon", sys.executable)


# ------------------------------------------------------------------------------------------------------ portfolio

GOOD, OTHER, SLOW = (
    portfolio.Setting.of("catboost", {}),
    portfolio.Setting.of("knn", {}),
    portfolio.Setting.of("svm", {}),
)


@pytest.fixture
def bench() -> portfolio.Bench:
    """A table of 60 rows: two settings with errors of opposite sign, and a perfect one that takes a minute."""
    noise = np.random.default_rng(0).normal(size=60)
    errors: dict[portfolio.Setting, Any] = {GOOD: 0.5 * noise, OTHER: -0.6 * noise, SLOW: 0.01 * noise}
    seconds = {GOOD: 2.0, OTHER: 2.0, SLOW: 60.0}
    return portfolio.Bench("t", "regression", np.arange(60) % 6, noise, errors, seconds)


def test_simulated_fit_has_what_is_finished_by_then(bench: portfolio.Bench) -> None:
    simulation = portfolio.Simulation([bench], {})
    assert simulation.loss_after(bench, [SLOW, GOOD], 30) == bench.prior
    assert simulation.loss_after(bench, [GOOD, SLOW], 30) == pytest.approx(bench.reference)
    assert simulation.loss_after(bench, [GOOD, OTHER], 30) < 0.2 * bench.reference
    assert simulation.loss_after(bench, [GOOD, SLOW], 100) < 0.2 * bench.reference


def test_cheap_settings_come_before_a_slow_one(bench: portfolio.Bench) -> None:
    chosen = portfolio.choose(portfolio.Simulation([bench], {}), [SLOW, OTHER, GOOD])
    assert chosen[-1] == SLOW
    assert set(chosen[:2]) == {GOOD, OTHER}


def test_each_table_is_left_out_of_one_list(bench: portfolio.Bench) -> None:
    from dataclasses import replace

    benches = [replace(bench, name=str(place)) for place in range(6)]
    groups = portfolio.groups_of(benches)
    assert sorted(name for group in groups for name in group) == [str(place) for place in range(6)]
    assert len(groups) == portfolio.GROUPS


def test_settings_of_the_portfolio_can_be_made() -> None:
    from hopular.methods import Run, get_method
    from hopular.trials.budget import Budget

    lists = json.loads(portfolio.PORTFOLIO.read_text())
    for task in portfolio.TASKS:
        assert lists[task]
        for item in lists[task]:
            method = get_method(item["method"])
            assert task in method.tasks
            assert method.make(task, Budget().settings_of(method, item["params"]), Run()) is not None
