"""Who is next in a race, for how long, and who is given up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopular.automl.fit import KEPT_MODELS, _divide, _open_searches
from hopular.trials import worker
from hopular.trials.budget import PRESETS
from hopular.trials.fit import Fitter
from hopular.trials.policy import Limits
from hopular.trials.problem import Fold, Problem
from hopular.trials.race import Race
from hopular.trials.run import Loop, MethodSearch, search
from hopular.trials.trial import Job
from hopular.trials.worker import WorkerPool
from tests.automl.conftest import flowers
from tests.trials.conftest import InlineWorker

Open = Callable[..., Any]


@pytest.fixture
def problem() -> Problem:
    return _divide(flowers(), 0.0, 0).problem


@pytest.fixture
def open_searches(problem: Problem, tmp_path: Path) -> Open:
    return lambda *names, first=(): _open_searches(names, first, problem, 0, tmp_path)


def tried(found: MethodSearch, loss: float, seconds: float = 1.0, **facts: Any) -> dict[str, Any]:
    """Let a method have finished a trial, with the model that goes with it, and return its parameters."""
    (running,) = found.lease()
    model = found.model(running.trial)
    model.mkdir(parents=True)
    (model / "model-class.json").touch()
    answers = [[0.5, 0.5]]
    done = {"score": -loss, "predictions": answers, "fit_seconds": seconds}
    trial = replace(running.trial, state="complete", metrics={"accuracy": 0.5, "log_loss": loss}, **done, **facts)
    found.keep(trial)
    assert found.store(running, trial)
    found.running -= 1
    return running.trial.params


def failed(found: MethodSearch) -> None:
    (running,) = found.lease()
    assert found.store(running, replace(running.trial, state="failed", failure="error", message="no"))
    found.running -= 1


def make_race(*searches: MethodSearch, first: tuple[str, ...] = (), seconds: float = 60) -> Race:
    return Race(searches, first, end=time.monotonic() + seconds)


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


def test_the_portfolio_comes_first_in_its_order(open_searches: Open) -> None:
    first = [("svm", {"C": 3.0}), ("glm", {}), ("svm", {})]
    glm, svm, knn = open_searches("glm", "svm", "knn", first=first)
    race = make_race(glm, svm, knn, first=("svm", "glm", "svm"))
    assert race.next_search() is svm
    svm.running += 1
    assert race.next_search() is glm  # a method tries one setting at a time
    svm.running -= 1
    assert tried(svm, 0.5) == {"C": 3.0}
    assert race.next_search() is glm
    tried(glm, 0.9)
    assert race.next_search() is svm
    assert tried(svm, 0.6) == {}
    assert race.next_search() is knn  # which is not in the portfolio


def test_a_race_of_trials_does_the_same_ones_whatever_the_time(open_searches: Open) -> None:
    glm, knn, pls = open_searches("glm", "knn", "pls", first=[("knn", {})])
    race = Race([glm, knn, pls], ["knn"], trials=6)
    done = []
    while (found := race.next_search()) is not None:
        done.append(found.method.name)
        tried(found, 0.5, seconds=3600)
    assert len(done) == 6
    assert done[0] == "knn"
    assert {name: done.count(name) for name in done} == {"knn": 3, "glm": 2, "pls": 1}
    assert race.limits(glm, 1) == Limits()
    assert not race.is_over()


def test_no_fit_may_take_more_than_half_of_the_time_that_is_left(open_searches: Open) -> None:
    glm, hopular = open_searches("glm", "hopular")
    race = make_race(glm, hopular, seconds=100)
    limits = race.limits(hopular, 1)
    assert limits.soft == pytest.approx(50, rel=0.01)
    assert limits.hard == pytest.approx(100, rel=0.01)
    assert limits.deadline == pytest.approx(time.time() + 100, abs=1)
    tried(glm, 0.9, seconds=2)
    assert race.limits(glm, 1).soft == pytest.approx(25, rel=0.01)


@pytest.mark.parametrize(
    ("percent", "score", "is_pruned"),
    [(25, -0.70, False), (25, -0.80, True), (50, -0.60, False), (50, -0.65, True), (13, -9.0, False), (40, -9, False)],
)
def test_a_setting_that_is_clearly_behind_after_the_same_folds_is_not_finished(
    open_searches: Open, percent: int, score: float, is_pruned: bool
) -> None:
    glm, svm, hopular = open_searches("glm", "svm", "hopular")
    curve = [(13, -0.5), (25, -0.5), (50, -0.5)]
    tried(svm, 0.5, curve=curve)
    race = make_race(glm, svm, hopular)
    (running,) = svm.lease()
    assert race.should_prune(svm, running, percent, score) == is_pruned
    (first,) = glm.lease()
    assert not race.should_prune(glm, first, percent, score)  # a method's first setting is finished
    assert not Race([svm], trials=9).should_prune(svm, running, percent, score)


def test_a_trial_that_is_pruned_between_its_folds_says_so(open_searches: Open, problem: Problem) -> None:
    (knn,) = open_searches("knn")
    (running,) = knn.lease()
    seen = []

    def report(place: int, percent: int, score: float) -> bool:
        seen.append((place, percent, score))
        return len(seen) == 3

    (trial,) = Fitter().fit(problem, [Job(running.trial)], lambda: None, report)
    assert trial.state == "pruned"
    assert [(place, percent) for place, percent, _ in seen] == [(0, 12), (0, 25), (0, 38)]
    (whole,) = Fitter().fit(problem, [Job(running.trial)], lambda: None, lambda *_: False)
    one = problem.of_fold(Fold(problem.folds[0].train, problem.folds[0].valid))
    (alone,) = Fitter().fit(one, [Job(running.trial)], lambda: None, lambda *_: False)
    assert seen[0][2] == pytest.approx(alone.score)
    assert whole.state == "complete"


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
    assert [trial.metrics["log_loss"] for trial in glm.kept] == [0.1, 0.3, 0.4, 0.5]
    assert glm.least_score == -0.5
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
