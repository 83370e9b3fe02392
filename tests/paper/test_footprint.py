"""Memory and step time, measured in processes of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.paper.footprint import (
    MODELS,
    Case,
    kept_file,
    kept_footprint,
    measure,
    measure_paper,
    training_sizes,
    training_step,
)
from hopular.paper.tables import memory_comparison, time_comparison
from search_spaces import hopular, npt


def test_smallest_and_largest_are_the_ends_of_the_papers_grids():
    for name, grid, depth, width in (
        ("hopular", hopular.grid("medium", "paper"), "n_blocks", "n_networks"),
        ("npt", npt.grid("medium"), "n_layers", "n_heads"),
    ):
        sizes = sorted({(setting[depth], setting[width]) for setting in grid})
        assert (MODELS[name, "smallest"], MODELS[name, "largest"]) == (sizes[0], sizes[-1])


def test_sizes_are_those_of_the_datasets_splits():
    sizes = training_sizes()
    assert sizes["sulfur"][2] == 0
    assert sizes["shrutime"] == (6400, 11, 2)
    assert sizes["gesture"] == (round(0.7 * 9873), 31, 5)
    assert sizes["eye"] == (round(0.7 * 10936), 22, 3)


def made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Case]:
    """Figures without training; the cases that were measured are noted in the list."""
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path))
    cases: list[Case] = []

    def pretend(case: Case, *_: object) -> tuple[object, ...]:
        cases.append(case)
        about = (case.rows, case.features, case.classes, case.method, case.model, case.batch, case.device)
        return (*about, 1.0, 2.0, 0.1, "")

    monkeypatch.setattr("hopular.paper.footprint._in_new_process", pretend)
    monkeypatch.setattr("hopular.model.table.choose_device", lambda name: "cpu" if name == "auto" else name)
    return cases


def test_each_device_has_figures_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cases = made_up(monkeypatch, tmp_path)
    assert len(measure_paper(["eye"])) == len(cases) == 8
    assert set(measure_paper(["eye"], device="cuda")["device"]) == {"cuda"}
    assert len(cases) == 16
    assert set(kept_footprint()["device"]) == {"cuda"}  # the one measured last
    measure_paper(["eye"])
    assert len(cases) == 16
    tables = [memory_comparison(kept_footprint()), time_comparison(kept_footprint())]
    assert [int(table.frame["ours"].notna().sum()) for table in tables] == [8, 4]
    assert all("the cuda of this machine" in table.notes[0] for table in tables)


def test_figures_of_another_size_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cases = made_up(monkeypatch, tmp_path)
    measure_paper(["eye"])
    text = kept_file().read_text()
    kept_file().write_text(text.replace(f"{cases[0].rows},", "6999,"))
    assert kept_footprint() is None
    measure_paper(["eye"])
    assert len(cases) == 16


@pytest.mark.parametrize("method", ["hopular", "npt"])
@pytest.mark.parametrize("batch", ["single", "full"])
@pytest.mark.parametrize("classes", [0, 3])
def test_steps_train(method: str, batch: str, classes: int):
    step = training_step(Case(12, 3, classes, method, "smallest", batch, "cpu", 1, 1))
    losses = [step() for _ in range(30)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


@pytest.mark.soak
def test_a_full_batch_takes_more_memory_than_a_single_sample():
    table = measure(1000, 8, methods=["hopular"], models=["smallest"], steps=2, threads=1).set_index("batch")
    assert (table["failure"] == "").all()
    assert table.loc["full", "gib"] > table.loc["single", "gib"]
    assert (table["milliseconds"] > 0).all()


@pytest.mark.slow
def test_a_case_that_takes_too_long_says_so():
    table = measure(100, 3, methods=["npt"], models=["largest"], batches=["full"], threads=1, max_seconds=0.1)
    assert table["gib"].isna().all()
    assert table.loc[0, "failure"] == "not done within 0.1 seconds"


@pytest.mark.slow
def test_a_case_that_takes_too_much_memory_is_ended():
    table = measure(100, 3, methods=["npt"], models=["largest"], batches=["full"], threads=1, max_gib=0.05)
    assert table.loc[0, "failure"] == "more than 0.1 GiB"


@pytest.mark.slow
def test_what_was_measured_is_kept_and_not_measured_again(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path))
    assert kept_footprint() is None
    cases: list[Case] = []
    options = {"methods": ["hopular"], "models": ["smallest"], "batches": ["single"], "steps": 1, "threads": 1}
    first = measure_paper(["sulfur"], on_case=cases.append, **options)
    assert len(cases) == 1
    assert first.loc[0, "failure"] == ""
    again = measure_paper(["sulfur"], on_case=cases.append, **options)
    assert len(cases) == 1
    pd.testing.assert_frame_equal(again, kept_footprint())
    assert again.loc[0, "gib"] == pytest.approx(first.loc[0, "gib"])
    kept_file().write_text("dataset,rows\nsulfur,1\n")
    with pytest.raises(ValueError, match=r"footprint\.csv is damaged: delete it and measure again"):
        kept_footprint()


def test_what_cannot_be_measured_is_named():
    with pytest.raises(ValueError, match="the footprint of 'xgboost' is not known to the paper: use 'hopular'"):
        measure(100, 3, methods=["xgboost"])
    with pytest.raises(ValueError, match="at least 3 rows and a measurement 1 step, got 2 and 5"):
        measure(2, 3)
    with pytest.raises(ValueError, match="no footprint of 'glass', only of blastchar, colleges"):
        measure_paper(["glass"])


def test_hopular_is_measured_with_the_papers_architecture():
    step = training_step(Case(5, 2, 2, "hopular", "smallest", "full", "cpu", 1, 1))
    training = step.__closure__[step.__code__.co_freevars.index("training")].cell_contents
    assert training.network.blocks[0].samples.value is None  # tied values


def test_kept_figures_of_another_architecture_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cases = made_up(monkeypatch, tmp_path)
    kept = measure_paper(["eye"])
    assert set(kept.loc[kept["method"] == "hopular", "architecture"]) == {"paper"}
    kept.drop(columns="architecture").to_csv(kept_file(), index=False)  # as it was written before
    assert set(kept_footprint()["method"]) == {"npt"}
    cases.clear()
    pd.testing.assert_frame_equal(
        measure_paper(["eye"]).sort_values(["method", "model", "batch"], ignore_index=True),
        kept.sort_values(["method", "model", "batch"], ignore_index=True),
    )
    assert {case.method for case in cases} == {"hopular"}
