"""Check memory and step time, measured in processes of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.evaluation.verdict import Standings
from hopular.paper import footprint
from hopular.paper.footprint import (
    MODELS,
    Case,
    Figures,
    kept_file,
    kept_footprint,
    measure_paper,
    paper_cases,
    run_case,
    training_step,
)
from hopular.paper.tables import paper_tables
from search_spaces import hopular, npt
from tests.evaluation.benchmarks import make_results


def test_smallest_and_largest_are_the_ends_of_the_papers_grids():
    for name, grid, depth, width in (
        ("hopular", hopular.grid("medium", "paper"), "n_blocks", "n_networks"),
        ("npt", npt.grid("medium"), "n_layers", "n_heads"),
    ):
        sizes = sorted({(setting[depth], setting[width]) for setting in grid})
        assert (MODELS[name, "smallest"], MODELS[name, "largest"]) == (sizes[0], sizes[-1])


def test_sizes_are_those_of_the_datasets_splits():
    cases = paper_cases("cpu")
    sizes = {case.dataset: (case.rows, case.features, case.classes) for case in cases}
    assert len(cases) == len(set(cases)) == 8 * len(sizes) == 48
    assert sizes["sulfur"][2] == 0
    assert sizes["shrutime"] == (6400, 11, 2)
    assert sizes["gesture"] == (round(0.7 * 9873), 31, 5)
    assert sizes["eye"] == (round(0.7 * 10936), 22, 3)


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Case]:
    """Make up the figures of one dataset without training; the list has the cases that were measured."""
    found: list[Case] = []
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path))
    monkeypatch.setattr(footprint, "run_case", lambda case: Figures(1.0, 2.0, 0.1))
    of_all = paper_cases
    monkeypatch.setattr(
        footprint, "paper_cases", lambda device: [case for case in of_all(device) if case.dataset == "eye"]
    )
    use_device(monkeypatch, "cpu")
    return found


def use_device(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("hopular.model.table.choose_device", lambda _: name)


def test_each_device_has_figures_of_its_own(cases: list[Case], monkeypatch: pytest.MonkeyPatch):
    assert len(measure_paper(cases.append)) == len(cases) == 8
    use_device(monkeypatch, "cuda")
    assert set(measure_paper(cases.append)["device"]) == {"cuda"}
    assert len(cases) == 16
    assert set(kept_footprint()["device"]) == {"cuda"}  # the one measured last
    use_device(monkeypatch, "cpu")
    assert set(measure_paper(cases.append)["device"]) == {"cpu"}
    assert len(cases) == 16
    *_, memory, step_time = paper_tables(Standings(make_results({})), kept_footprint())
    tables = [memory, step_time]
    assert [int(table.frame["ours"].notna().sum()) for table in tables] == [8, 4]
    assert all("the cuda of this machine" in table.notes[0] for table in tables)


def test_figures_of_another_size_are_measured_again(cases: list[Case]):
    measure_paper(cases.append)
    text = kept_file().read_text()
    kept_file().write_text(text.replace(f"{cases[0].rows},", "6999,"))
    assert kept_footprint() is None
    measure_paper(cases.append)
    assert len(cases) == 16


@pytest.mark.parametrize("method", ["hopular", "npt"])
@pytest.mark.parametrize("batch", ["single", "full"])
@pytest.mark.parametrize("classes", [0, 3])
def test_steps_train(method: str, batch: str, classes: int):
    step = training_step(Case("", 12, 3, classes, method, "smallest", batch, "cpu"))
    losses = [step() for _ in range(30)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


@pytest.mark.soak
def test_a_full_batch_takes_more_memory_than_a_single_sample(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    single, full = (run_case(Case("", 1000, 8, 2, "hopular", "smallest", batch, "cpu")) for batch in ("single", "full"))
    assert single.failure == full.failure == ""
    assert full.gib > single.gib
    assert min(single.milliseconds, full.milliseconds) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "value", "failure"),
    [("_MAX_SECONDS", 0.1, "not done within 0.1 seconds"), ("_MAX_SHARE", 0.0, "more than 0.0 GiB")],
)
def test_a_case_beyond_its_limits_is_ended(monkeypatch: pytest.MonkeyPatch, limit: str, value: float, failure: str):
    monkeypatch.setattr(footprint, limit, value)
    figures = run_case(Case("", 100, 3, 2, "npt", "largest", "full", "cpu"))
    assert np.isnan(figures.gib)
    assert figures.failure == failure


@pytest.mark.slow
def test_what_was_measured_is_kept_and_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path))
    monkeypatch.setattr(
        footprint, "paper_cases", lambda device: [Case("eye", 30, 3, 0, "hopular", "smallest", "single", device)]
    )
    assert kept_footprint() is None
    cases: list[Case] = []
    first = measure_paper(cases.append)
    assert len(cases) == 1
    assert first.loc[0, "failure"] == ""
    again = measure_paper(cases.append)
    assert len(cases) == 1
    pd.testing.assert_frame_equal(again, kept_footprint())
    assert again.loc[0, "gib"] == pytest.approx(first.loc[0, "gib"])
    kept_file().write_text("dataset,rows\nsulfur,1\n")
    with pytest.raises(ValueError, match=r"footprint\.csv is damaged: delete it and measure again"):
        kept_footprint()


def test_hopular_is_measured_with_the_papers_architecture():
    step = training_step(Case("", 5, 2, 2, "hopular", "smallest", "full", "cpu"))
    training = step.__closure__[step.__code__.co_freevars.index("training")].cell_contents
    assert training.network.blocks[0].samples.value is None  # tied values


def test_kept_figures_of_another_architecture_do_not_count(cases: list[Case]):
    kept = measure_paper(cases.append)
    assert set(kept.loc[kept["method"] == "hopular", "architecture"]) == {"paper"}
    kept.drop(columns="architecture").to_csv(kept_file(), index=False)  # as it was written before
    assert set(kept_footprint()["method"]) == {"npt"}
    cases.clear()
    pd.testing.assert_frame_equal(
        measure_paper(cases.append).sort_values(["method", "model", "batch"], ignore_index=True),
        kept.sort_values(["method", "model", "batch"], ignore_index=True),
    )
    assert {case.method for case in cases} == {"hopular"}
