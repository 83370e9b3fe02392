"""Trials: each is one child run with all there is to know of it, never two, after a kill or while the store is away."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException

from flows.tracking import trials
from flows.tracking.lineage import Lineage
from flows.tracking.trials import TrialLog, children, log_trial, reconcile
from flows.tracking.units import start_unit
from hopular.data.dataset import Dataset
from hopular.data.splits import make_splits
from hopular.trials.budget import Budget
from hopular.trials.problem import make_problem
from hopular.trials.run import search
from hopular.trials.trial import Trial

MakeRecord = Callable[..., Trial]


@pytest.fixture
def unit(client: Any, lineage: Lineage) -> str:
    return start_unit(client, lineage, "key", None)


def children_of(client: Any, unit: str) -> list[Any]:
    return children(client, client.get_run(unit).info.experiment_id, unit)


class Absent:
    """A real client whose server is away for as long as it is told."""

    def __init__(self, client: Any) -> None:
        self._client, self.is_away = client, True

    def __getattr__(self, name: str) -> Any:
        if self.is_away:
            raise MlflowException(f"API request to http://127.0.0.1:9/{name} failed with exception no connection")
        return getattr(self._client, name)


def test_a_trial_is_a_child_with_everything(client: Any, unit: str, lineage: Lineage, make_record: MakeRecord) -> None:
    run_id = log_trial(client, unit, lineage, make_record(4, rounds=17))
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "xgboost trial 4"
    assert run.info.end_time - run.info.start_time == 2500
    assert run.data.tags["mlflow.parentRunId"] == unit
    assert run.data.tags["hopular.kind"] == "trial"
    assert run.data.tags["hopular.slot"] == "4"
    assert run.data.tags["hopular.state"] == "complete"
    assert run.data.params == {
        **{"method": "xgboost", "split": "kfold5-seed0-0"},
        **{"depth": "3", "rate": "0.5", "kind": "a"},
    }
    expected = {"valid_accuracy": 0.54, "valid_log_loss": 0.7, "valid_score": 0.54, "valid_curve": 0.5, "rounds": 17}
    expected |= {"fit_seconds": 2.0, "predict_seconds": 0.5, "peak_memory_mb": 50.0}
    assert run.data.metrics == pytest.approx(expected)
    curve = client.get_metric_history(run_id, "valid_curve")
    assert sorted((point.step, point.value) for point in curve) == [(10, 0.3), (50, 0.4), (100, 0.5)]


def test_trials_that_share_a_training_are_children_of_their_own(
    client: Any, unit: str, lineage: Lineage, flowers: Dataset, tmp_path: Path
) -> None:
    """Search three betas in one fit, as the benchmark does."""
    problem = make_problem(flowers, make_splits(flowers)[0])
    log = TrialLog(client, unit, replace(lineage, method="hopular"))
    storage = f"sqlite:///{tmp_path / 'studies.db'}"
    result = search(problem, "hopular", Budget(grid_trials=3, max_epochs=3), storage=storage, on_trial=log)
    found = children_of(client, unit)
    assert [run.data.tags["hopular.slot"] for run in found] == ["0", "1", "2"]
    assert [run.data.params["beta"] for run in found] == [str(record.params["beta"]) for record in result.trials]
    assert {run.data.tags["hopular.shared_by"] for run in found} == {"3"}
    for run, record in zip(found, result.trials, strict=True):
        assert run.info.status == "FINISHED"
        assert run.data.metrics["valid_score"] == pytest.approx(record.score)
        assert run.data.metrics["fit_seconds"] == pytest.approx(record.fit_seconds)
        curve = client.get_metric_history(run.info.run_id, "valid_curve")
        assert sorted((point.step, point.value) for point in curve) == [tuple(point) for point in record.curve]
    assert reconcile(client, unit, lineage, result.trials) == 0


def test_a_failed_trial_says_why(client: Any, unit: str, lineage: Lineage, make_record: MakeRecord) -> None:
    failed = make_record(
        0, state="failed", failure="error", message="no access to https://u:pw@h/x", score=None, metrics={}, curve=[]
    )
    run = client.get_run(log_trial(client, unit, lineage, failed))
    assert run.info.status == "FAILED"
    assert run.data.tags["hopular.failure"] == "error"
    assert run.data.tags["hopular.reason"] == "no access to https://h/x"
    assert "valid_score" not in run.data.metrics


def test_a_pruned_trial_is_finished(client: Any, unit: str, lineage: Lineage, make_record: MakeRecord) -> None:
    run = client.get_run(log_trial(client, unit, lineage, make_record(0, state="pruned", score=None, metrics={})))
    assert run.info.status == "FINISHED"
    assert run.data.tags["hopular.state"] == "pruned"


def test_a_parameter_called_method_does_not_hide_the_method(
    client: Any, unit: str, lineage: Lineage, make_record: MakeRecord
) -> None:
    run = client.get_run(log_trial(client, unit, lineage, make_record(0, params={"method": "exact"})))
    assert run.data.params["method"] == "xgboost"
    assert run.data.params["setting.method"] == "exact"


def test_reconciling_writes_what_is_missing_once(
    client: Any, unit: str, lineage: Lineage, make_record: MakeRecord
) -> None:
    records = [make_record(slot) for slot in range(5)]
    for record in records[:2]:
        log_trial(client, unit, lineage, record)
    assert reconcile(client, unit, lineage, records) == 3
    assert reconcile(client, unit, lineage, records) == 0
    assert [int(run.data.tags["hopular.slot"]) for run in children_of(client, unit)] == [0, 1, 2, 3, 4]
    assert {run.info.status for run in children_of(client, unit)} == {"FINISHED"}


def test_reconciling_cleans_up_after_a_kill(client: Any, unit: str, lineage: Lineage, make_record: MakeRecord) -> None:
    experiment = client.get_run(unit).info.experiment_id
    records = [make_record(slot) for slot in range(3)]
    half, lost = (trials._tags(unit, lineage, make_record(slot)) for slot in (0, 7))
    completed = client.create_run(experiment, tags=half).info.run_id  # killed before its metrics were there
    client.create_run(experiment, tags=lost)  # killed before its record was stored
    log_trial(client, unit, lineage, records[1])
    log_trial(client, unit, lineage, records[1])  # twice
    client.create_run(experiment, tags=trials._tags(unit, lineage, records[1]))  # and once more by half
    assert reconcile(client, unit, lineage, records) == 1
    found = children_of(client, unit)
    assert [int(run.data.tags["hopular.slot"]) for run in found] == [0, 1, 2]
    assert [run.info.status for run in found] == ["FINISHED"] * 3
    assert found[0].info.run_id == completed
    assert found[0].data.metrics["valid_accuracy"] == pytest.approx(0.5)


def test_completing_a_trial_twice_is_the_same_as_once(
    client: Any, unit: str, lineage: Lineage, make_record: MakeRecord
) -> None:
    record = make_record(0)
    child = client.get_run(log_trial(client, unit, lineage, record))
    trials._complete(client, child, lineage, record)
    assert len(client.get_metric_history(child.info.run_id, "valid_curve")) == 3


def test_writers_and_reconcilers_side_by_side_leave_each_trial_once(
    client: Any, unit: str, lineage: Lineage, make_record: MakeRecord
) -> None:
    records = [make_record(slot) for slot in range(6)]
    log = TrialLog(client, unit, lineage)
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(reconcile, client, unit, lineage, records) for _ in range(2)]
        for record in records:
            log(record, 6)
        for other in others:
            other.result()
    reconcile(client, unit, lineage, records)
    found = children_of(client, unit)
    assert [int(run.data.tags["hopular.slot"]) for run in found] == [0, 1, 2, 3, 4, 5]
    assert {run.info.status for run in found} == {"FINISHED"}


def test_while_the_store_is_away_records_wait(
    client: Any, unit: str, lineage: Lineage, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Absent(client)
    log = TrialLog(absent, unit, lineage)  # type: ignore[arg-type]
    log(make_record(0), 4)
    log(make_record(1), 4)
    assert [record.slot for record in log.waiting] == [0, 1]
    assert "no connection" in log.problem
    absent.is_away = False
    log(make_record(2), 4)  # too soon to try again
    assert len(log.waiting) == 3
    monkeypatch.setattr(trials, "PAUSE", 0.0)
    log._next = 0.0
    log(make_record(3), 4)
    assert log.waiting == []
    assert len(children_of(client, unit)) == 4
    assert reconcile(client, unit, lineage, [make_record(slot) for slot in range(4)]) == 0


def test_a_request_that_is_wrong_is_no_absence(client: Any, lineage: Lineage, make_record: MakeRecord) -> None:
    with pytest.raises(MlflowException, match="not found"):
        TrialLog(client, "0" * 32, lineage)(make_record(0), 1)
