"""Training after the search: the trial's own model, in a process of its own, also from one that has just searched."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import replace

import numpy as np
import psutil
import pytest

from hopular.data import load, make_splits
from hopular.methods.saved import load_model
from hopular.trials import worker
from hopular.trials.budget import Budget
from hopular.trials.problem import make_problem
from hopular.trials.refit import RefitError, Refitted, StoppedError, refit, train
from hopular.trials.run import search
from hopular.trials.trial import Trial
from hopular.trials.worker import WorkerPool
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


def test_it_is_the_trials_own_model_from_a_pool_or_not(iris, tmp_path):
    problem, X_test = iris
    url = f"sqlite:///{tmp_path}/studies.db"
    with WorkerPool(2) as pool:
        found = search(problem, "decision_tree", BUDGET, storage=url, pool=pool)
        (process,) = workers()
        again = {"study": found.study, "pool": pool}
        kept = train(problem, "decision_tree", found.best, BUDGET, X_test, folder=tmp_path / "kept", **again)
        assert workers() == [process]
        other = train(problem, "decision_tree", found.best, BUDGET, X_test, seed=1, **again)
    assert workers() == []
    new = train(problem, "decision_tree", found.best, BUDGET, X_test, folder=tmp_path / "new")
    assert kept.state == new.state == other.state == "complete"
    assert kept.score == new.score == found.best.score
    np.testing.assert_array_equal(kept.test_predictions, new.test_predictions)
    assert kept.fit_seconds == found.best.fit_seconds  # it was not fitted again
    assert new.fit_seconds != found.best.fit_seconds
    for folder in ("kept", "new"):
        np.testing.assert_array_equal(load_model(tmp_path / folder).predict_proba(X_test), new.test_predictions)
    assert sorted(kept.classes) == ["setosa", "versicolor", "virginica"]


def test_a_pool_sent_elsewhere_keeps_no_process_and_a_closed_one_takes_none_back(problem):
    with WorkerPool(2) as pool:
        with pickle.loads(pickle.dumps(pool)).lend(problem, "constant", 1) as worker:
            worker._ready(lambda: None)
        assert workers() == []
        with pool.lend(problem, "constant", 1) as worker:
            worker._ready(lambda: None)
            pool.close()
            assert len(workers()) == 1
        assert workers() == []


def test_a_failure_says_of_which_kind(problem, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "nothing")
    best = search(problem, "actor", Budget(), storage=f"sqlite:///{tmp_path}/studies.db").best
    crash = train(problem, "actor", replace(best, params={"act": "segfault"}), Budget(), problem.X_valid)
    assert (crash.state, crash.failure) == ("failed", "crash")
    assert "SIGSEGV" in crash.message
    limit = Budget(seconds_per_trial=0.2)
    slow = train(problem, "actor", replace(best, params={"act": "hang"}), limit, problem.X_valid)
    assert slow.failure == "time-out"


def test_a_refit_has_all_rows_and_the_best_number_of_rounds(monkeypatch, tmp_path):
    dataset, split = IRIS
    monkeypatch.setattr(worker, "Worker", InlineWorker)
    best = search(make_problem(*IRIS), "xgboost", BUDGET, storage=f"sqlite:///{tmp_path}/studies.db").best
    done = refit(dataset, split, "xgboost", best, BUDGET, tmp_path / "model")
    assert done == Refitted((150,), ("setosa", "versicolor", "virginica"))
    model = load_model(tmp_path / "model")
    assert model.n_estimators == model.best_iteration_ == best.rounds


def test_a_refitted_network_keeps_the_validation_rows_to_stop_by(monkeypatch, tmp_path):
    dataset, split = IRIS
    monkeypatch.setattr(worker, "Worker", InlineWorker)
    record = Trial(0, 3, {"n_layers": 2, "max_epochs": 3}, "complete", score=1.0)
    done = refit(dataset, split, "mlp", record, BUDGET, tmp_path / "model")
    assert done.rows == (150 - len(split.valid),) == (len(load_model(tmp_path / "model").train_index_),)


def test_the_members_of_a_refitted_ensemble_keep_their_weights(monkeypatch, tmp_path):
    """Weighed on rows that they know, those that learn rows by heart would get all of it."""
    dataset, split = IRIS
    monkeypatch.setattr(worker, "Worker", InlineWorker)
    members = [["logistic", {}, None], ["knn", {"n_neighbors": -1}, None], ["mlp", {"max_epochs": 3}, 7]]
    record = Trial(0, 0, {"members": members}, "complete", score=1.0)
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
    monkeypatch.setattr(worker, "Worker", InlineWorker)
    record = Trial(0, 0, {"n_neighbors": -1}, "complete", score=1.0)
    with pytest.raises(RefitError, match=r"knn failed on all rows: invalid-parameters: .*n_neighbors"):
        refit(*IRIS, "knn", record, BUDGET, tmp_path / "model")


def test_no_test_rows_stay_in_a_process(iris, monkeypatch):
    problem, X_test = iris
    monkeypatch.setattr(worker, "Worker", InlineWorker)
    record = Trial(0, 0, {}, "complete", score=1.0)
    assert train(problem, "decision_tree", record, BUDGET, X_test, study="kept").test_predictions is not None
    kept = InlineWorker.latest.fitter.kept
    assert kept.study == "kept"
    assert kept.trial.test_predictions is None
    assert not any(value is X_test for value in vars(kept).values())


def test_an_ensemble_has_the_time_of_its_members_and_says_which_it_lost(iris, monkeypatch):
    problem, X_test = iris
    seen = {}

    class Noting(InlineWorker):
        def run(self, jobs, *, max_seconds, **options):
            seen.update(soft=jobs[0].max_seconds, hard=max_seconds)
            return super().run(jobs, max_seconds=max_seconds, **options)

    monkeypatch.setattr(worker, "Worker", Noting)
    members = [("logistic", {}, None), ("knn", {"n_neighbors": -1}, None), ("decision_tree", {}, None)]
    record = Trial(0, 0, {"members": members}, "complete", score=1.0)
    outcome = train(problem, "ensemble", record, Budget(seconds_per_trial=100), X_test)
    assert outcome.state == "complete"
    assert outcome.message.startswith("left out of the ensemble: knn: ")
    assert outcome.to_json()["message"] == outcome.message
    assert seen == {"soft": pytest.approx(240), "hard": 900}


def test_it_stops_when_told_to(iris):
    problem, X_test = iris
    record = Trial(0, 0, {}, "complete", score=1.0)
    with pytest.raises(StoppedError, match=r"decision_tree on iris .* was stopped"):
        train(problem, "decision_tree", record, BUDGET, X_test, should_stop=lambda: True)
    assert workers() == []


def test_no_more_processes_are_kept_than_asked_for(problem):
    with WorkerPool(1) as pool:
        for method in ("constant", "learner"):
            with pool.lend(problem, method, 1) as worker:
                worker._ready(lambda: None)
        assert len(workers()) == 1
    assert workers() == []


def test_a_worker_that_met_an_error_is_not_used_again(problem):
    def fail():
        with pool.lend(problem, "constant", 1) as worker:
            worker._ready(lambda: None)
            raise ZeroDivisionError

    with WorkerPool(1) as pool:
        with pytest.raises(ZeroDivisionError):
            fail()
        assert workers() == []
