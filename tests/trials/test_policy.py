"""Who is next in a race, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopular.automl.fit import KEPT_MODELS, _open_searches, hold_out
from hopular.automl.results import _unit
from hopular.evaluation.results import title
from hopular.trials import worker
from hopular.trials.budget import PRESETS
from hopular.trials.policy import Race
from hopular.trials.problem import Problem, make_problem
from hopular.trials.run import Loop, MethodSearch, search
from hopular.trials.worker import WorkerPool
from tests.automl.conftest import flowers
from tests.trials.conftest import InlineWorker

Open = Callable[..., Any]


@pytest.fixture
def problem() -> Problem:
    dataset = flowers()
    return make_problem(dataset, hold_out(dataset))


@pytest.fixture
def open_searches(problem: Problem, tmp_path: Path) -> Open:
    return lambda *names: _open_searches(names, problem, 0, tmp_path)


def tried(found: MethodSearch, loss: float, seconds: float = 1.0) -> dict[str, Any]:
    """Let a method have finished a trial, with the model that goes with it, and return its parameters."""
    (running,) = found.lease()
    model = found.model(running.trial)
    model.mkdir(parents=True)
    (model / "model-class.json").touch()
    answers = [[0.5, 0.5]]
    done = {"score": -loss, "predictions": answers, "test_predictions": answers, "fit_seconds": seconds}
    trial = replace(running.trial, state="complete", metrics={"accuracy": 0.5, "log_loss": loss}, **done)
    found.keep(trial)
    assert found.store(running, trial)
    found.running -= 1
    return running.trial.params


def failed(found: MethodSearch) -> None:
    (running,) = found.lease()
    assert found.store(running, replace(running.trial, state="failed", failure="error", message="no"))
    found.running -= 1


def make_race(*searches: MethodSearch, seconds: float = 60) -> Race:
    return Race(searches, time.monotonic() + seconds, workers=2)


def test_everyone_is_tried_the_cheap_ones_first_then_the_promising(open_searches: Open) -> None:
    glm, svm, hopular = open_searches("glm", "svm", "hopular")
    race = make_race(hopular, glm, svm)
    assert race.next_search() is glm
    tried(glm, 0.9)
    assert race.next_search() is svm
    tried(svm, 0.2)
    assert race.next_search() is hopular
    tried(hopular, 0.5)
    assert race.next_search() is svm  # all had a second, and it is the best
    tried(svm, 0.3, seconds=5)
    assert race.next_search() is hopular
    hopular.running += 1
    assert race.next_search() is glm
    assert not race.is_done()


def test_nobody_is_given_a_fit_that_cannot_end_in_time(open_searches: Open) -> None:
    glm, hopular = open_searches("glm", "hopular")
    tried(glm, 0.9, seconds=10)
    assert make_race(glm, seconds=30).next_search() is glm
    late = make_race(glm, seconds=15)
    assert late.next_search() is None
    assert late.is_done()
    tried(hopular, 0.9, seconds=10)
    assert make_race(hopular, seconds=15).next_search() is hopular  # it can be cut short


def test_a_first_fit_has_its_share_and_leaves_some_for_the_rounds_after(open_searches: Open) -> None:
    glm, hopular = open_searches("glm", "hopular")
    race = make_race(glm, hopular, seconds=100)
    glm.running = 1
    assert race.limits(glm, 1).soft == pytest.approx(0.6 * 100 * 2 * 1 / 13, rel=0.01)
    glm.running = 0
    tried(glm, 0.9)
    hopular.running = 1
    limits = race.limits(hopular, 1)
    assert limits.soft == pytest.approx(60, rel=0.01)
    assert limits.hard == pytest.approx(120, rel=0.01)
    assert limits.deadline == pytest.approx(time.time() + 100, abs=1)


def test_a_race_without_a_model_goes_on(open_searches: Open) -> None:
    (glm,) = open_searches("glm")
    race = make_race(glm, seconds=-1)
    assert not race.is_over()
    failed(glm)
    assert not race.is_over()
    tried(glm, 0.5)
    assert race.is_over()


def test_only_the_best_models_are_kept_and_all_is_known_after_a_restart(open_searches: Open) -> None:
    (glm,) = open_searches("glm")
    for loss in (0.5, 0.1, 0.4, 0.3, 0.9):
        tried(glm, loss)
    assert [trial.metrics["log_loss"] for trial in glm.kept] == [0.1, 0.3, 0.4]
    assert len([path for path in glm.folder.iterdir() if path.is_dir()]) == KEPT_MODELS
    (again,) = open_searches("glm")
    assert again.trials == glm.trials
    assert again.seconds == glm.seconds == 5
    assert tried(again, 0.2) == tried_next(glm)


def tried_next(found: MethodSearch) -> dict[str, Any]:
    """Return the parameters of the slot that another process has just finished, as this one would have proposed it."""
    found._proposer.learn(found.study.finished)
    return found._settings(found._proposer.propose(len(found.study.finished)).settings)


@pytest.mark.usefixtures("inline")
def test_a_race_chooses_what_a_search_would(open_searches: Open, problem: Problem, tmp_path: Path) -> None:
    """`hopular fit` and `hopular benchmark` choose by one criterion, where accuracy would choose otherwise."""
    (torn,) = open_searches("torn")
    with Loop(make_race(torn), WorkerPool(), "any", workers=1, threads=1).run(lambda trial: None) as threads:
        for thread in threads:
            thread.join()
    url = f"sqlite:///{tmp_path}/others.db"
    found, paper = (search(problem, "torn", PRESETS[name], storage=url).best for name in ("quick", "paper"))
    assert torn.best is not None
    assert found is not None
    assert paper is not None
    assert torn.best.params == found.params == {"bold": False}
    assert torn.best.score == found.score == -found.metrics["log_loss"]
    assert paper.params == {"bold": True}  # by accuracy, as the paper did


def test_defaults_come_first_and_a_grid_comes_to_an_end(open_searches: Open) -> None:
    (pls,) = open_searches("pls")
    race = make_race(pls)
    assert tried(pls, 0.5) == {}
    for _ in range(8):
        assert race.next_search() is pls
        assert tried(pls, 0.5) != {}
    assert race.next_search() is None


def test_a_method_that_fails_twice_is_given_up(open_searches: Open) -> None:
    (glm,) = open_searches("glm")
    race = make_race(glm)
    for _ in range(2):
        assert race.next_search() is glm
        failed(glm)
    assert race.next_search() is None


def test_a_process_that_cannot_start_fails_the_trial_and_not_the_race(
    open_searches: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(InlineWorker):  # type: ignore[misc]
        def run(self, jobs: Any, **options: Any) -> Any:
            raise worker.InfrastructureError("no memory to fork")

    monkeypatch.setattr(worker, "Worker", Failing)
    (glm,) = open_searches("glm")
    with Loop(make_race(glm), WorkerPool(), "any", workers=1, threads=1).run(lambda trial: None) as threads:
        for thread in threads:
            thread.join()
    assert [(trial.failure, trial.message) for trial in glm.trials] == [("crash", "no memory to fork")] * 2


def test_a_trial_of_hopular_records_its_architecture(open_searches: Open) -> None:
    hopular, glm = open_searches("hopular", "glm")
    for one in (hopular, hopular, glm):
        tried(one, 0.5)
    assert [trial.params["architecture"] for trial in hopular.trials] == ["default", "default"]
    assert not any("n_members" in trial.params for trial in hopular.trials)
    assert "architecture" not in glm.trials[0].params
    unit = _unit(flowers(), "holdout", hopular)
    assert title("hopular", unit.params) == "Hopular (default architecture)"
