"""Tasks: how long each may take, what it is known by, and what it writes of a model without a score."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from prefect.task_engine import TaskRunTimeoutError
from prefect.utilities.timeout import timeout

from flows import tasks
from flows.assignment import Assignment
from flows.tasks import LONGEST, SPARE, seconds_for
from hopular.trials import run
from hopular.trials.budget import Budget, preset
from hopular.trials.trial import Trial
from hopular.trials.worker import WorkerPool


@pytest.fixture
def unit() -> Assignment:
    return Assignment(
        *("iris", None, "iris", "a" * 64, "fold-0", "b" * 64, "ensemble", "iris ensemble 0"),
        *(preset("smoke"), 0, 1, "cpu", "bench-1", "flow-1", "store", "f" * 64, "e" * 64),
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
def test_every_task_that_trains_has_a_limit(unit: Assignment, budget: Budget, search: float, train: float) -> None:
    unit = replace(unit, budget=budget)
    assert (seconds_for(unit, "search"), seconds_for(unit, "train")) == (search, train)


def test_members_and_the_wait_for_a_gpu_are_allowed_for(unit: Assignment) -> None:
    assert seconds_for(unit, "train", 5) == SPARE + 300
    assert seconds_for(replace(unit, device="cuda"), "train") == SPARE + 60 + LONGEST


def test_an_ensemble_is_known_by_those_it_chooses_from(unit: Assignment) -> None:
    context = SimpleNamespace(task=SimpleNamespace(name="search"))

    def key(one: Assignment, **values: Any) -> str:
        return tasks._key(context, {"unit": one, **values})

    assert key(unit, others=["glm", "mlp"]) != key(unit, others=["glm"])
    first, second = ({"best": {"params": {"members": [[name, 0, 1]]}}} for name in ("glm", "mlp"))
    assert key(unit, found=first) != key(unit, found=second)
    alone = replace(unit, method="glm")
    assert key(alone, others=["mlp"]) == key(alone, others=[]) == key(alone, found=first)


def test_a_model_without_a_validation_score_is_given_none(unit: Assignment, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, float] = {}
    monkeypatch.setattr(tasks, "open_store", lambda: None)
    monkeypatch.setattr(tasks, "rows_of", lambda _: (SimpleNamespace(task="regression"), None))
    monkeypatch.setattr(tasks, "log_scores", lambda _client, _run, metrics: written.update(metrics))
    monkeypatch.setattr(tasks, "log_model", lambda *_: "model")
    frame = SimpleNamespace(head=lambda _: None)
    outcome = Trial(0, 0, {}, "complete", metrics={"mse": 2.0})
    assert tasks._keep_model(unit, "run", Path("folder"), outcome, frame) == "model"  # type: ignore[arg-type]
    assert written == {"valid_mse": 2.0}


def test_a_time_out_interrupts_a_search_that_waits_for_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    policy: Any = SimpleNamespace(begin=lambda: None, spend=lambda: None, searches=[MagicMock()])
    loop = run.Loop(policy, WorkerPool(), "glm", workers=1, threads=1)
    monkeypatch.setattr(run.Loop, "_work", lambda self, _: self._stopped.wait())

    def wait() -> None:
        with timeout(0.2, TaskRunTimeoutError):
            next(loop.iterate())

    with ThreadPoolExecutor(1) as pool, pytest.raises(TaskRunTimeoutError):
        pool.submit(wait).result(timeout=20)
