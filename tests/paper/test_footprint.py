"""Memory and step time, measured in processes of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hopular.paper.footprint import MODELS, Case, kept_file, kept_footprint, measure, measure_paper, training_step
from search_spaces import hopular, npt


def test_smallest_and_largest_are_the_ends_of_the_papers_grids():
    for name, grid, depth, width in (
        ("hopular", hopular.grid("medium"), "n_blocks", "n_networks"),
        ("npt", npt.grid("medium"), "n_layers", "n_heads"),
    ):
        sizes = sorted({(setting[depth], setting[width]) for setting in grid})
        assert (MODELS[name, "smallest"], MODELS[name, "largest"]) == (sizes[0], sizes[-1])


@pytest.mark.parametrize("method", ["hopular", "npt"])
@pytest.mark.parametrize("batch", ["single", "full"])
@pytest.mark.parametrize("classes", [0, 3])
def test_steps_train(method: str, batch: str, classes: int):
    step = training_step(Case(12, 3, classes, method, "smallest", batch, "cpu", 1, 1))
    losses = [step() for _ in range(30)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


@pytest.mark.slow
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
