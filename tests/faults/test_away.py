"""Stores that are away for a while in the midst of a benchmark, and the same benchmark on more workers."""

from __future__ import annotations

import threading
import time

import pandas as pd
import pytest

from tests.faults.test_stores import SMALL, locked
from tests.faults.whole import check_store, score_table, store_of
from tests.flows.tracking.test_server import free_port, running, server_command

pytestmark = [pytest.mark.slow, pytest.mark.soak]
TRIALS = {"limits": {"trials": 6}}


class FirstTrial(threading.Event):
    """Set once a trial is finished."""

    def listen(self, event):
        if event.stage == "trial":
            self.set()


@pytest.fixture
def first_trial():
    return FirstTrial()


def test_both_databases_are_locked_for_20_seconds(benchmark, runs, first_trial, said):
    def lock():
        assert first_trial.wait(300)
        with locked(runs / "optuna.db", 20), locked(runs / "mlflow.db", 20):
            pass

    thread = threading.Thread(target=lock)
    thread.start()
    outcome = benchmark(first_trial.listen, **SMALL, **TRIALS)
    thread.join()
    assert (outcome.units, outcome.failed) == (4, {})
    with store_of(runs) as client:
        check_store(client, units=4)
    said("optuna.db and mlflow.db locked for 20 s: the benchmark waited, nothing missing or double")


@pytest.mark.parametrize("seconds", [30, 90])  # and its start, which takes half a minute on a busy machine
def test_the_tracking_server_is_away(seconds, benchmark, runs, first_trial, monkeypatch, said):
    runs.mkdir()
    port = free_port()
    address, command = f"http://127.0.0.1:{port}", server_command(runs, port)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    is_up, is_over, gap = threading.Event(), threading.Event(), []

    def serve():
        with running(command, f"{address}/health", runs / "server.log"):
            is_up.set()
            assert first_trial.wait(300)
        stopped = time.monotonic()
        time.sleep(seconds)
        with running(command, f"{address}/health", runs / "server.log"):
            gap.append(time.monotonic() - stopped)
            is_over.wait(900)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert is_up.wait(180)
        outcome = benchmark(first_trial.listen, **SMALL, **TRIALS)
        assert (outcome.units, outcome.failed) == (4, {})
        with store_of(runs, address) as client:
            check_store(client, units=4)
    finally:
        is_over.set()
        thread.join()
    said(f"MLflow's server away for {gap[0]:.0f} s: all 4 units completed, nothing missing or double")


def test_the_same_scores_twice_and_on_two_workers(benchmark, runs, tmp_path, monkeypatch, said):
    plan = {"datasets": ["iris", "diabetes"], "methods": ["glm", "decision_tree", "random_forest", "xgboost", "mean"]}
    tables = []
    for place, workers in enumerate((1, 1, 2)):
        monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path / f"runs{place}"))
        benchmark(**plan, workers=workers)
        tables.append(score_table(tmp_path / f"runs{place}"))
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])
    said(f"the same {len(tables[0])} scores twice on one worker and once on two")
