"""Methods that crash, never return or eat all memory cost their trial; the benchmark goes on."""

from __future__ import annotations

import time

import pytest

from tests.faults.whole import all_runs, store_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]
SECONDS, MEMORY, SLACK = 6.0, 800e6, 1.1
ACTS = {"segfault": "crash", "hang": "time-out", "hog": "out-of-memory", "exit": "crash", "nothing": None}


def test_each_failure_has_its_kind_and_the_rest_goes_on(benchmark, runs, monkeypatch, said):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", " ".join(ACTS))
    limits = {"grid_trials": len(ACTS), "seconds_per_trial": SECONDS, "memory": MEMORY}
    outcome = benchmark(datasets=["diabetes"], methods=["actor", "mean"], limits=limits)
    assert outcome.failed == {}
    with store_of(runs) as client:
        found = all_runs(client)
    trials = [run for run in found if run.data.tags["hopular.kind"] == "trial"]
    actors = {run.data.params["act"]: run for run in trials if run.data.tags["hopular.method"] == "actor"}
    assert {act: run.data.tags.get("hopular.failure") for act, run in actors.items()} == ACTS
    assert {act: run.info.status for act, run in actors.items()} == {
        act: "FAILED" if kind else "FINISHED" for act, kind in ACTS.items()
    }
    took, used = actors["hang"].data.metrics["fit_seconds"], actors["hog"].data.metrics["peak_memory_mb"] * 1e6
    assert took <= SECONDS * SLACK
    assert used <= MEMORY * SLACK
    units = {run.data.tags["hopular.method"]: run for run in found if run.data.tags["hopular.kind"] == "unit"}
    assert {name: run.info.status for name, run in units.items()} == {"actor": "FINISHED", "mean": "FINISHED"}
    assert "no estimator of this project" in units["actor"].data.tags["hopular.no_model"]
    said(f"{', '.join(ACTS)}: each trial failed with its kind; limits of {SECONDS:g} s and {MEMORY / 1e6:.0f} MB held "
         f"to {took / SECONDS - 1:+.1%} and {used / MEMORY - 1:+.1%}")  # fmt: skip


def test_a_unit_of_runaways_alone_fails_and_is_named(benchmark, monkeypatch, said):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "hang segfault")
    start = time.monotonic()
    limits = {"grid_trials": 2, "seconds_per_trial": SECONDS}
    outcome = benchmark(datasets=["diabetes"], methods=["actor", "mean"], limits=limits)
    (why,) = outcome.failed.values()
    assert "no trial succeeded (2 of 2 trials: 2 failed (1 crash, 1 time-out))" in why
    assert "stopped after" in why
    said(f"a unit without any trial that works failed after {time.monotonic() - start:.0f} s: {why}")
