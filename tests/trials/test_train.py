"""Training after the search: the trial's own model, in a process of its own, also from one that is still warm."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import psutil
import pytest

from hopular.data import load, make_splits
from hopular.methods.saved import load_model
from hopular.trials import fit, warm
from hopular.trials.budget import Budget
from hopular.trials.engine import search
from hopular.trials.problem import make_problem
from hopular.trials.record import Record
from hopular.trials.train import RefitError, Refitted, StoppedError, refit, train
from hopular.trials.warm import keep_warm, worker_for
from tests.trials.conftest import InlineWorker

BUDGET = Budget(trials=3)
IRIS = (load("iris"), make_splits(load("iris"))[0])


@pytest.fixture(scope="module")
def iris():
    dataset, split = IRIS
    return make_problem(dataset, split), dataset.X.iloc[split.test].reset_index(drop=True)


def workers():
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has just ended, or another test's has and nobody asked how
            found += [child.pid] * ("hopular.trials.worker" in child.cmdline())
    return found


def test_it_is_the_trials_own_model_warm_or_not(iris, tmp_path):
    problem, X_test = iris
    url = f"sqlite:///{tmp_path}/studies.db"
    with keep_warm(2):
        found = search(problem, "decision_tree", BUDGET, storage=url)
        (process,) = workers()
        kept = train(problem, "decision_tree", found.best, BUDGET, X_test, study=found.study, folder=tmp_path / "warm")
        assert workers() == [process]
        other = train(problem, "decision_tree", found.best, BUDGET, X_test, study=found.study, seed=1)
    assert workers() == []
    cold = train(problem, "decision_tree", found.best, BUDGET, X_test, folder=tmp_path / "cold")
    assert kept.state == cold.state == other.state == "complete"
    assert kept.score == cold.score == found.best.score
    np.testing.assert_array_equal(kept.test_predictions, cold.test_predictions)
    assert kept.fit_seconds == found.best.fit_seconds  # it was not fitted again
    assert cold.fit_seconds != found.best.fit_seconds
    for folder in ("warm", "cold"):
        np.testing.assert_array_equal(load_model(tmp_path / folder).predict_proba(X_test), cold.test_predictions)
    assert sorted(kept.classes) == ["setosa", "versicolor", "virginica"]


def test_a_warm_block_within_another_uses_its_processes_and_leaves_them_to_it(problem, tmp_path):
    url, budget = f"sqlite:///{tmp_path}/studies.db", Budget(trials=1)
    with keep_warm(2):
        with keep_warm(2):
            search(problem, "constant", budget, storage=url)
            (process,) = workers()
        assert workers() == [process]
        search(problem, "constant", budget, seed=1, storage=url)
        assert workers() == [process]
    assert workers() == []


def test_a_failure_says_of_which_kind(problem, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "nothing")
    best = search(problem, "actor", Budget(), storage=f"sqlite:///{tmp_path}/studies.db").best
    crash = train(problem, "actor", replace(best, params={"act": "segfault"}), Budget(), problem.X_valid)
    assert (crash.state, crash.kind) == ("failed", "crash")
    assert "SIGSEGV" in crash.message
    limit = Budget(seconds_per_trial=0.2)
    slow = train(problem, "actor", replace(best, params={"act": "hang"}), limit, problem.X_valid)
    assert slow.kind == "time-out"


def test_a_refit_has_all_rows_and_the_best_number_of_rounds(monkeypatch, tmp_path):
    dataset, split = IRIS
    monkeypatch.setattr(warm, "Worker", InlineWorker)
    best = search(make_problem(*IRIS), "xgboost", BUDGET, storage=f"sqlite:///{tmp_path}/studies.db").best
    done = refit(dataset, split, "xgboost", best, BUDGET, tmp_path / "model")
    assert done == Refitted((150,), ["setosa", "versicolor", "virginica"])
    model = load_model(tmp_path / "model")
    assert model.n_estimators == model.best_iteration_ == best.rounds


def test_a_refitted_network_keeps_the_validation_rows_to_stop_by(monkeypatch, tmp_path):
    dataset, split = IRIS
    monkeypatch.setattr(warm, "Worker", InlineWorker)
    record = Record(0, 3, {"n_layers": 2, "max_epochs": 3}, "complete", score=1.0)
    done = refit(dataset, split, "mlp", record, BUDGET, tmp_path / "model")
    assert done.rows == (150 - len(split.valid),) == (len(load_model(tmp_path / "model").train_index_),)


def test_the_members_of_a_refitted_ensemble_keep_their_weights(monkeypatch, tmp_path):
    """Weighed on rows that they know, those that learn rows by heart would get all of it."""
    dataset, split = IRIS
    monkeypatch.setattr(warm, "Worker", InlineWorker)
    members = [["logistic", {}, None], ["knn", {"n_neighbors": -1}, None], ["mlp", {"max_epochs": 3}, 7]]
    record = Record(0, 0, {"members": members}, "complete", score=1.0)
    trained = train(make_problem(*IRIS), "ensemble", record, BUDGET, dataset.X.iloc[split.test])
    assert trained.rows == len(split.train)
    parts = trained.members
    assert [place for place, _, _ in parts] in ([0], [2], [0, 2])
    parts = [(0, 0.75, None), (2, 0.25, None)]
    done = refit(dataset, split, "ensemble", record, BUDGET, tmp_path / "model", members=parts)
    model = load_model(tmp_path / "model")
    assert (done.rows, model.weights_.tolist()) == ((150, 150 - len(split.valid)), [0.75, 0.25])
    shares = [member.predict_proba(dataset.X) for member in model.estimators_]
    np.testing.assert_allclose(model.predict_proba(dataset.X), 0.75 * shares[0] + 0.25 * shares[1])


def test_a_refit_that_fails_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(warm, "Worker", InlineWorker)
    record = Record(0, 0, {"n_neighbors": -1}, "complete", score=1.0)
    with pytest.raises(RefitError, match=r"knn failed on all rows: invalid-parameters: .*n_neighbors"):
        refit(*IRIS, "knn", record, BUDGET, tmp_path / "model")


def test_no_test_rows_stay_in_a_process(iris, monkeypatch):
    problem, X_test = iris
    monkeypatch.setattr(warm, "Worker", InlineWorker)
    record = Record(0, 0, {}, "complete", score=1.0)
    assert train(problem, "decision_tree", record, BUDGET, X_test, study="kept").test_predictions is not None
    assert fit._kept.job.study == "kept"
    assert fit._kept.job.X_test is None


def test_an_ensemble_has_the_time_of_its_members_and_says_which_it_lost(iris, monkeypatch):
    problem, X_test = iris
    seen = {}

    class Noting(InlineWorker):
        def run(self, jobs, *, max_seconds, **options):
            seen.update(soft=jobs[0].run.max_seconds, hard=max_seconds)
            return super().run(jobs, max_seconds=max_seconds, **options)

    monkeypatch.setattr(warm, "Worker", Noting)
    members = [("logistic", {}, None), ("knn", {"n_neighbors": -1}, None), ("decision_tree", {}, None)]
    record = Record(0, 0, {"members": members}, "complete", score=1.0)
    outcome = train(problem, "ensemble", record, Budget(seconds_per_trial=100), X_test)
    assert outcome.state == "complete"
    assert outcome.message.startswith("left out of the ensemble: knn: ")
    assert outcome.as_record(0, 0, {}).message == outcome.message
    assert seen == {"soft": pytest.approx(240), "hard": 900}


def test_it_stops_when_told_to(iris):
    problem, X_test = iris
    record = Record(0, 0, {}, "complete", score=1.0)
    with pytest.raises(StoppedError, match=r"decision_tree on iris .* was stopped"):
        train(problem, "decision_tree", record, BUDGET, X_test, should_stop=lambda: True)
    assert workers() == []


def test_no_more_processes_are_kept_than_asked_for(problem):
    with keep_warm(1):
        for method in ("constant", "learner"):
            with worker_for(problem, method, 1) as worker:
                worker._ready(lambda: None)
        assert len(workers()) == 1
    assert workers() == []


def test_a_worker_that_met_an_error_is_not_used_again(problem):
    def fail():
        with worker_for(problem, "constant", 1) as worker:
            worker._ready(lambda: None)
            raise ZeroDivisionError

    with keep_warm(1):
        with pytest.raises(ZeroDivisionError):
            fail()
        assert workers() == []
