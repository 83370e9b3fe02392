"""A unit and a whole benchmark as plain functions: no server, no tracking store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from hopular.benchmark import run as module
from hopular.benchmark.plan import Plan
from hopular.benchmark.results import BenchmarkError
from hopular.benchmark.run import LONGEST, SPARE, Context, choose_datasets, missing_splits, run, run_unit, seconds_for
from hopular.benchmark.tracker import NullTracker
from hopular.benchmark.unit import Evaluated, Searched, Trained, Unit, make_units, members_of, pack, unpack
from hopular.data.dataset import Task
from hopular.evaluation.metrics import METRICS
from hopular.evaluation.results import DatasetFacts, describe
from hopular.trials.budget import Budget, preset
from hopular.trials.events import Event
from hopular.trials.refit import StoppedError
from hopular.trials.worker import WorkerPool
from tests.toys import toy_methods


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    folder = tmp_path_factory.mktemp("runs")
    with toy_methods(), WorkerPool(2) as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(folder))
        patch.setenv("HOPULAR_CACHE", str(folder / "cache"))
        yield found


class Noting(NullTracker):
    """A tracker that notes what it was told, and what the steps handed on."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.steps: list[Any] = []

    def start(self, unit: Unit, maker: Any) -> str:
        self.calls.append("start")
        return f"run of {unit.title}"

    def log_trial(self, *_: Any) -> None:
        self.calls.append("trial")

    def log_search(self, *_: Any) -> None:
        self.calls.append("search")

    def log_model(self, unit: Unit, run_id: str, folder: Path, outcome: Any, losses: Any) -> str:
        assert any(folder.iterdir())
        self.calls.append("model")
        return "model-1"

    def log_scores(self, unit: Unit, *steps: Any) -> None:
        self.calls.append("scores")
        self.steps = list(steps)

    def fail(self, run_id: str, error: BaseException, is_stopped: bool) -> None:
        self.calls.append(f"{run_id}: {error}" if not is_stopped else "stopped")


def unit_of(method: str, dataset: str = "diabetes", **values: Any) -> Unit:
    plan = Plan(datasets=[dataset], methods=[method], budget="smoke", **values)
    [unit] = make_units(plan, {dataset: (module.fetch(dataset, None), module.split(dataset, None)[:1])})
    return unit


def test_a_benchmark_runs_from_the_plan_to_its_results(pool: WorkerPool) -> None:
    events: list[Event] = []
    plan = Plan(datasets=["iris", "diabetes"], methods=["glm", "majority", "mean", "ensemble"], budget="smoke")
    results = run(plan, Context(listen=events.append, pool=pool))
    assert {unit.state for unit in results.units} == {"complete"}
    assert [(unit.dataset, unit.method) for unit in results.units] == [
        *(("iris", "glm"), ("iris", "majority"), ("diabetes", "glm"), ("diabetes", "mean")),
        *(("iris", "ensemble"), ("diabetes", "ensemble")),  # after all that they choose from
    ]
    assert set(results.scores["metric"]) == set(METRICS)
    assert len(results.scores.groupby(["dataset", "method", "seed"])) == 6
    ensemble = results.units[-1]
    assert {member[0] for member in ensemble.params["members"]} <= {"glm", "mean"}
    assert [facts.name for facts in results.datasets] == ["iris", "diabetes"]
    assert results.datasets[0].findings  # of the audit
    stages = [event.stage for event in events]
    assert stages[0] == "planned"
    assert stages.count("done") == 6


def test_a_unit_tells_its_tracker_all_and_its_steps_survive_as_json(pool: WorkerPool) -> None:
    tracker = Noting()
    result = run_unit(unit_of("glm", seed=5), context=Context(tracker, pool=pool))
    assert tracker.calls == ["start", "trial", "trial", "search", "model", "scores"]
    assert result.run_id.startswith("run of glm on diabetes")
    assert result.trials == {"complete": 2}
    assert result.maker is not None
    assert result.scores[0].metric == "mse"
    assert result.scores[0].low <= result.scores[0].value <= result.scores[0].high
    for kind, step in zip((Searched, Trained, Evaluated), tracker.steps, strict=True):
        kept = json.dumps(to_jsonable_python(step))  # as Prefect does it
        again = TypeAdapter(kind).validate_python(json.loads(kept))
        for item in fields(kind):  # NaN is not equal to itself
            assert repr(getattr(again, item.name)) == repr(getattr(step, item.name))


def test_a_unit_that_fails_is_a_result_and_its_run_is_closed(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "raise")
    tracker = Noting()
    result = run_unit(unit_of("actor"), context=Context(tracker))
    assert (result.state, result.scores) == ("failed", ())
    assert result.reason.startswith("UnitError: no trial succeeded")
    assert "the matrix is sad" in result.reason
    assert tracker.calls[-1].startswith("run of actor on diabetes kfold5-seed1-0: no trial succeeded")


def test_a_unit_that_is_stopped_is_no_result(pool: WorkerPool) -> None:
    tracker, events = Noting(), list[Event]()
    stops = Context(tracker, events.append, should_stop=lambda: any(event.stage == "trial" for event in events))
    with pytest.raises(StoppedError, match="the search of idle on iris kfold5-seed1-0 was stopped"):
        run_unit(unit_of("idle", "iris", seed=1), context=stops)
    assert tracker.calls[-1] == "stopped"


def test_other_code_than_the_unit_is_known_by_is_refused(pool: WorkerPool) -> None:
    result = run_unit(replace(unit_of("mean"), fingerprint="another"))
    assert "the code of mean or a version of its libraries is another one here" in result.reason


def test_predictions_are_the_same_after_they_were_written_as_text() -> None:
    values = np.random.default_rng(0).random((5, 3))
    assert (unpack(pack(values)) == values).all()


@pytest.fixture
def unit() -> Unit:
    return Unit(
        *("iris", None, "iris", "a" * 64, "fold-0", "b" * 64, "ensemble", "iris ensemble 0"),
        *(preset("smoke"), 0, 1, "cpu", "f" * 64, "e" * 64),
    )


@pytest.mark.parametrize(
    ("budget", "search", "train"),
    [
        (preset("smoke"), SPARE + 80, SPARE + 60),
        (preset("quick"), SPARE + 1800, SPARE + 360),
        (preset("quick", seconds=None), SPARE + 3600, SPARE + 360),
        (preset("paper"), LONGEST, LONGEST),
        (Budget(trials=2, seconds_per_trial=20), LONGEST, SPARE + 60),  # a grid of any size
        (Budget(trials=2, seconds_per_trial=20, seconds=900), SPARE + 1800, SPARE + 60),
    ],
)
def test_every_step_that_trains_has_a_limit(unit: Unit, budget: Budget, search: float, train: float) -> None:
    unit = replace(unit, budget=budget)
    assert (seconds_for(unit, "search"), seconds_for(unit, "train")) == (search, train)


def test_members_and_the_wait_for_a_gpu_are_allowed_for(unit: Unit) -> None:
    assert seconds_for(unit, "train", 5) == SPARE + 300
    assert seconds_for(replace(unit, device="cuda"), "train") == SPARE + 60 + LONGEST


def test_an_ensemble_chooses_among_the_units_of_its_split(unit: Unit) -> None:
    others = [replace(unit, method=name, split=split) for name in ("glm", "knn") for split in ("fold-0", "fold-1")]
    assert members_of(unit, [*others, unit]) == [others[0], others[2]]
    assert members_of(others[0], [*others, unit]) == []


def facts(name: str, task: Task) -> tuple[DatasetFacts, list[tuple[str, str]]]:
    return DatasetFacts(name, task, 10, 1, 0, 0, 0.0, name, name), [("fold-0", "a")]


def refusals(plan: Plan, found: dict[str, Any]) -> dict[str, str]:
    refused: dict[str, str] = {}
    choose_datasets(plan, found, refused, lambda note: None)
    return refused


def test_a_dataset_that_no_method_is_for_is_named() -> None:
    found = {"iris": facts("iris", "classification"), "diabetes": facts("diabetes", "regression")}
    reason = "none of the methods majority is for regression, which 'diabetes' is: add one"
    assert refusals(Plan(methods=["majority"]), found) == {"diabetes": reason}
    assert refusals(Plan(methods=["majority", "mean"]), found) == {}
    with pytest.raises(BenchmarkError, match="none of the methods majority is for regression"):
        refusals(Plan(methods=["majority"]), {"diabetes": found["diabetes"]})


def test_the_second_of_two_files_of_one_name_is_refused() -> None:
    found = {name: facts("table", "regression") for name in ("/a/table.csv", "/b/table.parquet")}
    reason = "/b/table.parquet is called 'table', as /a/table.csv is: rename one of them"
    assert refusals(Plan(methods=["mean"]), found) == {"/b/table.parquet": reason}


def test_what_an_address_hides_is_not_in_the_reason() -> None:
    found = {"https://me:hush@host/a.csv": facts("a", "regression"), "iris": facts("iris", "classification")}
    assert list(refusals(Plan(methods=["majority"]), found)) == ["https://host/a.csv"]


def test_more_splits_than_there_are_are_refused_with_the_number() -> None:
    with pytest.raises(ValueError, match=r"^splits is 99, but iris has 5: use 1 to 5, or all$"):
        missing_splits(99, {"iris": 5})
    with pytest.raises(ValueError, match=r"^splits is 9, but no dataset has more than 5: use 1 to 5, or all$"):
        missing_splits(9, {"iris": 5, "eye": 1})
    with pytest.raises(ValueError, match=r"^splits is 2, but eye has 1: use 1, or all$"):
        missing_splits(2, {"eye": 1})


def test_a_dataset_with_fewer_splits_than_others_is_noted() -> None:
    notes = missing_splits(4, {"iris": 5, "eye": 1, "glass": 4})
    assert notes == ["eye has 1 of the 4 splits asked for, and is run on these"]


def test_a_dataset_that_cannot_be_loaded_does_not_stop_the_others(pool: WorkerPool, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("y\n1\n")
    plan = Plan(datasets=["diabetes", str(tmp_path / "bad.csv")], methods=["mean"], target="y", budget="smoke")
    assert [facts.name for facts in run(plan, Context(pool=pool)).datasets] == ["diabetes"]
    with pytest.raises(BenchmarkError, match="no dataset could be loaded"):
        run(plan.model_copy(update={"datasets": [str(tmp_path / "bad.csv")]}))


def test_a_source_is_described_without_its_secrets(pool: WorkerPool) -> None:
    from hopular.data import load

    dataset = replace(load("iris"), source="https://ann:hush@host/flowers.csv")
    assert describe(dataset).source == "https://host/flowers.csv"
