"""The tracker that writes to MLflow, with a unit that runs without Prefect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.tracking.tracker import MlflowTracker
from hopular.benchmark import run as steps
from hopular.benchmark.plan import Plan
from hopular.benchmark.run import Context, run_unit
from hopular.benchmark.unit import Unit, make_units
from hopular.trials.trial import Trial
from hopular.trials.worker import WorkerPool
from tests.toys import toy_methods


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with toy_methods(), WorkerPool(1) as found:
        yield found


def unit_of(method: str, dataset: str) -> Unit:
    plan = Plan(datasets=[dataset], methods=[method], budget="smoke", replicates=2)
    [unit] = make_units(plan, {dataset: (steps.fetch(dataset, None), steps.split(dataset, None)[:1])})
    return unit


def test_a_unit_has_its_trials_scores_model_and_files_and_reads_nothing_back(
    client: Any, runs: Path, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(client), "download_artifacts", lambda *_: 1 / 0)
    unit = unit_of("glm", "iris")
    result = run_unit(unit, context=Context(MlflowTracker(client, "bench-1", "flow-1"), pool=pool))
    assert (result.state, result.reason) == ("complete", "")
    run = client.get_run(result.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["hopular.flow_run"] == "flow-1"
    assert run.data.tags["hopular.chosen_by"] == "valid_log_loss"
    assert run.data.metrics["test_accuracy"] == np.mean([s.value for s in result.scores if s.metric == "accuracy"])
    assert run.data.metrics["valid_score"] == result.valid_score
    files = {
        item.path for folder in ("predictions", "pictures") for item in client.list_artifacts(result.run_id, folder)
    }
    seeds = {score.seed for score in result.scores}
    assert {"predictions/validation.csv", *(f"predictions/seed-{seed}.npy" for seed in seeds)} <= files
    assert any(name.startswith("pictures/confusion") for name in files)
    assert not client.list_artifacts(result.run_id, "neighbours")
    assert client.get_logged_model(run.data.tags["hopular.model"]).status == "READY"
    children = client.search_runs([run.info.experiment_id], f"tags.`mlflow.parentRunId` = '{result.run_id}'")
    assert len(children) == 2


def test_a_model_without_a_validation_score_is_given_none(
    client: Any, runs: Path, pool: WorkerPool, tmp_path: Path
) -> None:
    unit = unit_of("mean", "diabetes")
    tracker = MlflowTracker(client, "bench-1")
    run_id = tracker.start(unit, steps.make_maker(unit.method, unit.device))
    trained = Trial(0, 0, {}, "complete", metrics={"mse": 2.0}, unsaved="it cannot be saved")
    losses = np.ones(len(unit.rows()[1].valid)).tolist()
    assert tracker.log_model(unit, run_id, tmp_path, trained, losses) == ""
    found = client.get_run(run_id).data
    assert found.tags["hopular.no_model"] == "it cannot be saved"
    assert "valid_score" not in found.metrics


def test_a_unit_that_fails_has_a_run_that_says_why(client: Any, runs: Path, pool: WorkerPool) -> None:
    tracker = MlflowTracker(client, "bench-1")
    unit = unit_of("majority", "iris")
    for is_stopped, state in ((False, "FAILED"), (True, "KILLED")):
        run_id = tracker.start(unit, steps.make_maker(unit.method, unit.device))
        tracker.fail(run_id, ValueError("no luck"), is_stopped)
        run = client.get_run(run_id)
        assert (run.info.status, run.data.tags["hopular.reason"]) == (state, "ValueError: no luck")
