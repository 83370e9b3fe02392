"""Who is next in a race, and for how long."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from hopular.automl.candidate import KEPT, Candidate
from hopular.automl.fit import hold_out
from hopular.automl.outcome import _unit
from hopular.automl.race import Race
from hopular.evaluation.results import title
from hopular.trials import worker
from hopular.trials.budget import PRESETS
from hopular.trials.fit import Fitter
from hopular.trials.problem import Problem, make_problem
from hopular.trials.run import search
from hopular.trials.trial import Job
from hopular.trials.worker import WorkerPool
from tests.automl.conftest import flowers
from tests.toys import toy_methods
from tests.trials.conftest import InlineWorker


@pytest.fixture
def problem() -> Problem:
    dataset = flowers()
    return make_problem(dataset, hold_out(dataset))


def tried(candidate: Candidate, loss: float, seconds: float = 1.0) -> None:
    """Let a candidate have finished a trial, with the model that goes with it."""
    setting = candidate.next_setting()
    model = candidate.folder / str(setting.trial.slot)
    model.mkdir()
    (model / "model-class.json").touch()
    metrics = {"accuracy": 0.5, "log_loss": loss}
    answers = [[0.5, 0.5]]
    done = {"metrics": metrics, "score": -loss, "predictions": answers, "test_predictions": answers}
    candidate.add(setting, replace(setting.trial, state="complete", fit_seconds=seconds, **done))


def make_race(candidates: list[Candidate], problem: Problem, seconds: float = 60) -> Race:
    race = Race(candidates, problem, pd.DataFrame(), time.monotonic() + seconds, WorkerPool(), lambda news: None)
    race.workers = 2
    return race


def test_everyone_is_tried_the_cheap_ones_first_then_the_promising(problem: Problem, tmp_path: Path) -> None:
    glm, svm, hopular = (Candidate(name, problem, 0, tmp_path / name) for name in ("glm", "svm", "hopular"))
    race = make_race([hopular, glm, svm], problem)
    assert race._choose() is glm
    tried(glm, 0.9)
    assert race._choose() is svm
    tried(svm, 0.2)
    assert race._choose() is hopular
    tried(hopular, 0.5)
    assert race._choose() is svm  # all had a second, and it is the best
    tried(svm, 0.3, seconds=5)
    assert race._choose() is hopular


def test_nobody_is_given_a_fit_that_cannot_end_in_time(problem: Problem, tmp_path: Path) -> None:
    glm = Candidate("glm", problem, 0, tmp_path / "glm")
    tried(glm, 0.9, seconds=10)
    assert make_race([glm], problem, seconds=30)._choose() is glm
    assert make_race([glm], problem, seconds=15)._choose() is None
    hopular = Candidate("hopular", problem, 0, tmp_path / "hopular")
    tried(hopular, 0.9, seconds=10)
    assert make_race([hopular], problem, seconds=15)._choose() is hopular  # it can be cut short


def test_a_first_fit_has_its_share_and_leaves_some_for_the_rounds_after(problem: Problem, tmp_path: Path) -> None:
    glm, hopular = (Candidate(name, problem, 0, tmp_path / name) for name in ("glm", "hopular"))
    race = make_race([glm, hopular], problem, seconds=100)
    glm.is_running = True
    assert race._limit(glm) == pytest.approx(0.6 * 100 * 2 * 1 / 13, rel=0.01)
    tried(glm, 0.9)
    hopular.is_running = True
    assert race._limit(hopular) == pytest.approx(60, rel=0.01)


def test_only_the_best_models_are_kept_and_all_is_known_after_a_restart(problem: Problem, tmp_path: Path) -> None:
    glm = Candidate("glm", problem, 0, tmp_path / "glm")
    for loss in (0.5, 0.1, 0.4, 0.3, 0.9):
        tried(glm, loss)
    assert [record.metrics["log_loss"] for record in glm.kept] == [0.1, 0.3, 0.4]
    assert len([path for path in glm.folder.iterdir() if path.is_dir()]) == KEPT
    again = Candidate("glm", problem, 0, tmp_path / "glm")
    assert again.records == glm.records
    assert again.seconds == glm.seconds == 5
    assert again.next_setting().trial.params == glm.next_setting().trial.params


def test_a_race_chooses_what_a_search_would(problem: Problem, tmp_path: Path) -> None:
    """`hopular fit` and `hopular benchmark` choose by one criterion, where accuracy would choose otherwise."""
    with toy_methods():
        torn = Candidate("torn", problem, 0, tmp_path / "torn")
        while not torn.is_over:
            setting = torn.next_setting()
            job = Job(setting.trial, X_test=problem.X_valid)
            torn.add(setting, *Fitter().fit(problem, [job], lambda: None, lambda *_: False))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker, "Worker", InlineWorker)
            found = search(problem, "torn", PRESETS["quick"], storage=f"sqlite:///{tmp_path}/studies.db")
            paper = search(problem, "torn", PRESETS["paper"], storage=f"sqlite:///{tmp_path}/studies.db")
    assert torn.best is not None
    assert found.best is not None
    assert paper.best is not None
    assert torn.best.params == found.best.params == {"bold": False}
    assert torn.best.score == found.best.score == -found.best.metrics["log_loss"]
    assert paper.best.params == {"bold": True}  # by accuracy, as the paper did


def test_defaults_come_first_and_a_grid_comes_to_an_end(problem: Problem, tmp_path: Path) -> None:
    pls = Candidate("pls", problem, 0, tmp_path / "pls")
    assert pls.next_setting().trial.params == {}
    for _ in range(9):
        assert not pls.is_over
        tried(pls, 0.5)
    assert pls.is_over


def test_a_method_that_fails_twice_is_given_up(problem: Problem, tmp_path: Path) -> None:
    glm = Candidate("glm", problem, 0, tmp_path / "glm")
    for _ in range(2):
        assert not glm.is_over
        setting = glm.next_setting()
        glm.add(setting, replace(setting.trial, state="failed", failure="error", message="no"))
    assert glm.is_over


def test_a_trial_of_hopular_records_its_architecture(problem: Problem, tmp_path: Path) -> None:
    hopular, glm = (Candidate(name, problem, 0, tmp_path / name) for name in ("hopular", "glm"))
    for candidate in (hopular, hopular, glm):
        tried(candidate, 0.5)
    assert [record.params["architecture"] for record in hopular.records] == ["default", "default"]
    assert "architecture" not in glm.records[0].params
    unit = _unit(flowers(), "holdout", hopular)
    assert title("hopular", unit.params) == "Hopular (default architecture)"
