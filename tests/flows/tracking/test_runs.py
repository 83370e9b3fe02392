"""Runs: one per unit, in its dataset's experiment, continued and not repeated; each trial is one child, never two."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException

from flows.tracking import runs as module
from flows.tracking.runs import (
    PARENT,
    Lineage,
    TrialLog,
    children,
    dataset_experiment,
    end_running,
    finish_unit,
    in_line,
    is_there,
    log_best,
    log_scores,
    log_trial,
    read_versions,
    reasons,
    reconcile,
    start_unit,
    unit_metrics,
)
from flows.tracking.store import open_store
from hopular.benchmark.unit import make_maker
from hopular.data.dataset import Dataset
from hopular.data.splits import make_splits
from hopular.evaluation.results import SCORE_COLUMNS
from hopular.trials.budget import Budget
from hopular.trials.problem import make_problem
from hopular.trials.run import search
from hopular.trials.trial import Trial

MakeRecord = Callable[..., Trial]


def test_every_field_is_a_tag_and_empty_ones_are_not(lineage: Lineage) -> None:
    tags = lineage.tags()
    assert tags["hopular.benchmark"] == "bench-1"
    assert tags["hopular.dataset_fingerprint"] == "a" * 64
    assert tags["hopular.seed"] == "3"
    assert tags["hopular.kind"] == "unit"
    assert tags["hopular.versions"] == "python 3.11.7, hopular 0.1.0, xgboost 3.2.0"
    assert tags["mlflow.source.git.commit"] == tags["hopular.commit"] == "c" * 40
    assert "hopular.device" not in replace(lineage, device="").tags()
    assert replace(lineage, seed=0).tags()["hopular.seed"] == "0"


def test_tags_have_no_secrets(lineage: Lineage) -> None:
    tags = replace(lineage, source="https://ann:hush@host/flowers.csv?token=hush").tags()
    assert not [name for name, value in tags.items() if "hush" in value]
    assert tags["hopular.source"] == "https://host/flowers.csv?token=***"


def test_a_unit_carries_commit_code_versions_and_device() -> None:
    maker = make_maker("xgboost", "cuda:1")
    assert maker.device == "cuda"
    assert maker.versions["xgboost"] == version("xgboost")
    assert list(maker.versions)[:2] == ["python", "hopular"]
    assert "torch" not in maker.versions
    assert read_versions(in_line(maker.versions)) == maker.versions
    assert maker.code == make_maker("xgboost", "cpu").code != make_maker("knn", "cpu").code


def test_units_of_several_commits_have_no_commit_of_mlflow(lineage: Lineage) -> None:
    tags = replace(lineage, commit=f"{'a' * 40} (2 units) and {'b' * 40} (1 unit)").tags()
    assert "mlflow.source.git.commit" not in tags
    assert replace(lineage, commit=f"{'a' * 40} (changed)").tags()["mlflow.source.git.commit"] == "a" * 40


def test_a_unit_has_lineage_parameters_and_its_dataset(
    client: Any, runs: Path, lineage: Lineage, flowers: Dataset
) -> None:
    run = client.get_run(start_unit(client, lineage, "key", flowers))
    assert run.info.run_name == "xgboost kfold5-seed0-0"
    assert run.info.status == "RUNNING"
    assert run.info.artifact_uri.startswith(f"file://{runs}/artifacts/hopular-flowers/")
    assert run.data.tags["hopular.method"] == "xgboost"
    assert run.data.tags["hopular.in.bench-1"] == "made"
    assert run.data.params["split"] == "kfold5-seed0-0"
    [given] = run.inputs.dataset_inputs
    assert given.dataset.name == "flowers"
    assert flowers.fingerprint.startswith(given.dataset.digest)
    assert json.loads(given.dataset.profile)["num_rows"] == 60
    assert client.get_experiment(run.info.experiment_id).name == "hopular/flowers"


def test_a_unit_is_continued_by_a_resumed_benchmark_and_by_another(
    client: Any, lineage: Lineage, flowers: Dataset
) -> None:
    first = start_unit(client, lineage, "key", flowers)
    finish_unit(client, first, "FAILED", "the disk was full")
    assert client.get_run(first).data.tags["hopular.reason"] == "the disk was full"
    assert start_unit(client, lineage, "key", flowers) == first
    assert client.get_run(first).info.status == "RUNNING"
    assert start_unit(client, replace(lineage, benchmark="bench-2"), "key", flowers) == first
    tags = client.get_run(first).data.tags
    assert tags["hopular.benchmark"] == "bench-1"
    assert tags["hopular.in.bench-2"] == "reused"
    finish_unit(client, first, "FINISHED")
    run = client.get_run(first)
    assert run.info.status == "FINISHED"
    assert "hopular.reason" not in run.data.tags
    assert len(run.inputs.dataset_inputs) == 1
    assert start_unit(client, lineage, "another key", flowers) != first


def test_a_unit_is_of_whoever_finishes_it(client: Any, lineage: Lineage, flowers: Dataset) -> None:
    first = start_unit(client, lineage, "key", flowers)
    start_unit(client, replace(lineage, commit="e" * 40, versions="python 3.12.0"), "key", flowers)
    tags = client.get_run(first).data.tags
    assert tags["hopular.commit"] == tags["mlflow.source.git.commit"] == "e" * 40
    assert (tags["hopular.versions"], tags["hopular.code"]) == ("python 3.12.0", lineage.code)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"code": "e" * 12}, "its code has changed since "),
        ({"versions": "python 3.12.1, hopular 9, xgboost 3.3.0"}, "xgboost 3.2.0 is now 3.3.0"),
        ({"device": "cuda"}, "was run on cpu, now on cuda"),
        ({"device": "cuda", "code": "e" * 12}, "was run on cpu, now on cuda; its code has changed since "),
        ({"versions": "python 3.12.1, hopular 9, xgboost 3.2.0"}, "its members or its scoring have changed since "),
    ],
)
def test_a_unit_that_is_computed_again_has_a_reason(
    client: Any, lineage: Lineage, flowers: Dataset, changes: dict[str, str], reason: str
) -> None:
    start_unit(client, replace(lineage, code="0" * 12), "oldest", flowers)
    start_unit(client, lineage, "key", flowers)
    found = reasons(client, {"new": replace(lineage, **changes), "key": lineage})  # type: ignore[arg-type]
    assert list(found) == ["new"]
    today = f"{datetime.now().day} {datetime.now():%B}"
    assert found["new"] == (f"{reason}{today}" if reason.endswith(" ") else reason)


def test_a_unit_of_before_its_code_was_noted_says_so(client: Any, lineage: Lineage, flowers: Dataset) -> None:
    run_id = start_unit(client, replace(lineage, code=""), "key", flowers)
    assert "hopular.code" not in client.get_run(run_id).data.tags
    assert reasons(client, {"new": lineage})["new"].startswith("was made on ")


@pytest.mark.parametrize(
    "other",
    [
        *({"method": "knn"}, {"seed": 4}, {"budget": "quick"}, {"dataset": "trees"}),
        *({"split_fingerprint": "c" * 64}, {"dataset_fingerprint": "c" * 64}),
    ],
)
def test_what_was_never_asked_for_is_new(
    client: Any, lineage: Lineage, flowers: Dataset, other: dict[str, Any]
) -> None:
    assert reasons(client, {"new": lineage}) == {}  # nothing is there yet
    start_unit(client, lineage, "key", flowers)
    assert reasons(client, {"new": replace(lineage, **other)}) == {}


def test_benchmarks_are_found_by_their_tag(client: Any, lineage: Lineage) -> None:
    run = start_unit(client, lineage, "key", None)
    start_unit(client, replace(lineage, benchmark="bench-2", method="knn"), "other", None)
    experiment = client.get_run(run).info.experiment_id
    found = client.search_runs([experiment], "tags.`hopular.in.bench-1` LIKE '%' and tags.hopular.method = 'xgboost'")
    assert [item.info.run_id for item in found] == [run]


def test_threads_that_start_a_unit_at_once_get_the_same(runs: Path, lineage: Lineage) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: start_unit(open_store(), lineage, "key", None), range(12)))
    assert len(set(found)) == 1
    client = open_store()
    assert len(client.search_runs([client.get_run(found[0]).info.experiment_id])) == 1


def test_two_datasets_of_one_name_do_not_share_an_experiment(client: Any, lineage: Lineage) -> None:
    first = dataset_experiment(client, lineage)
    changed = replace(lineage, dataset_fingerprint="c" * 64)
    moved = replace(lineage, source="/elsewhere/flowers.csv")
    other = replace(lineage, source="/elsewhere/flowers.csv", dataset_fingerprint="d" * 64)
    assert dataset_experiment(client, changed) == first
    assert dataset_experiment(client, moved) == first
    second = dataset_experiment(client, other)
    assert second != first
    assert client.get_experiment(second).name == "hopular/flowers dddddddd"
    assert dataset_experiment(client, other) == second


def test_an_experiment_that_was_deleted_comes_back(client: Any, lineage: Lineage) -> None:
    experiment = dataset_experiment(client, lineage)
    client.delete_experiment(experiment)
    run = start_unit(client, lineage, "key", None)
    assert client.get_run(run).info.experiment_id == experiment


def test_scores_have_the_same_names_for_every_method(client: Any, lineage: Lineage) -> None:
    rows = [
        ("flowers", "xgboost", "s", seed, metric, value, value - 0.1, value + 0.1, 2.0, 0.5, 3e6)
        for seed in (0, 1)
        for metric, value in (("accuracy", 0.8 + 0.1 * seed), ("ece", float("nan")))
    ]
    metrics = unit_metrics(pd.DataFrame(rows, columns=list(SCORE_COLUMNS)))
    run = start_unit(client, lineage, "key", None)
    log_scores(client, run, {**metrics, "valid_accuracy": 0.9, "undefined": float("nan")})
    found = client.get_run(run).data.metrics
    assert found == pytest.approx(
        {
            "test_accuracy": 0.85,
            "test_accuracy_low": 0.75,
            "test_accuracy_high": 0.95,
            "test_accuracy_error": 0.05,
            "fit_seconds": 2.0,
            "predict_seconds": 0.5,
            "peak_memory_mb": 3.0,
            "seeds": 2.0,
            "valid_accuracy": 0.9,
        }
    )


def test_no_scores_are_no_metrics() -> None:
    assert unit_metrics(pd.DataFrame(columns=list(SCORE_COLUMNS))) == {}


def test_the_best_setting_may_change(client: Any, lineage: Lineage, make_record: Callable[..., Trial]) -> None:
    run = start_unit(client, lineage, "key", None)
    log_best(client, run, make_record(0), "accuracy")
    log_best(client, run, make_record(1, params={"depth": np.int64(9)}), "accuracy")
    data = client.get_run(run).data
    assert {name: value for name, value in data.tags.items() if name.startswith("best.")} == {"best.depth": "9"}
    assert data.tags["hopular.best_slot"] == "1"
    assert data.tags["hopular.chosen_by"] == "valid_accuracy"
    assert data.metrics["valid_accuracy"] == pytest.approx(0.51)
    assert data.metrics["valid_score"] == pytest.approx(0.51)


def test_units_that_nobody_works_on_are_closed_with_their_trials(client: Any, lineage: Lineage) -> None:
    begun, other, done = (start_unit(client, lineage, key, None) for key in ("begun", "other", "done"))
    finish_unit(client, done, "FINISHED")
    experiment = client.get_run(begun).info.experiment_id
    half = client.create_run(experiment, tags={PARENT: begun}).info.run_id
    end_running(client, {"begun", "done"}, "KILLED", "the benchmark was stopped")
    assert [client.get_run(run).info.status for run in (begun, other, done)] == ["KILLED", "RUNNING", "FINISHED"]
    assert client.get_run(begun).data.tags["hopular.reason"] == "the benchmark was stopped"
    assert not is_there(client, half)


def test_a_run_that_was_deleted_is_not_there(client: Any, lineage: Lineage) -> None:
    run = start_unit(client, lineage, "key", None)
    assert is_there(client, run)
    client.delete_run(run)
    assert not is_there(client, run)
    assert not is_there(client, "0" * 32)


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
    result = search(
        problem, "hopular", Budget(grid_trials=3, max_epochs=3), storage=storage, on_trial=lambda trial, _: log(trial)
    )
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
    half, lost = (module._trial_tags(unit, lineage, make_record(slot)) for slot in (0, 7))
    completed = client.create_run(experiment, tags=half).info.run_id  # killed before its metrics were there
    client.create_run(experiment, tags=lost)  # killed before its record was stored
    log_trial(client, unit, lineage, records[1])
    log_trial(client, unit, lineage, records[1])  # twice
    client.create_run(experiment, tags=module._trial_tags(unit, lineage, records[1]))  # and once more by half
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
    module._complete(client, child, lineage, record)
    assert len(client.get_metric_history(child.info.run_id, "valid_curve")) == 3


def test_writers_and_reconcilers_side_by_side_leave_each_trial_once(
    client: Any, unit: str, lineage: Lineage, make_record: MakeRecord
) -> None:
    records = [make_record(slot) for slot in range(6)]
    log = TrialLog(client, unit, lineage)
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(reconcile, client, unit, lineage, records) for _ in range(2)]
        for record in records:
            log(record)
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
    log(make_record(0))
    log(make_record(1))
    assert [record.slot for record in log.waiting] == [0, 1]
    absent.is_away = False
    log(make_record(2))  # too soon to try again
    assert len(log.waiting) == 3
    monkeypatch.setattr(module, "PAUSE", 0.0)
    log._next = 0.0
    log(make_record(3))
    assert log.waiting == []
    assert len(children_of(client, unit)) == 4
    assert reconcile(client, unit, lineage, [make_record(slot) for slot in range(4)]) == 0


def test_a_request_that_is_wrong_is_no_absence(client: Any, lineage: Lineage, make_record: MakeRecord) -> None:
    with pytest.raises(MlflowException, match="not found"):
        TrialLog(client, "0" * 32, lineage)(make_record(0))
