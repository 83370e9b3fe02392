"""Settings of a grid that share one training: each is a trial of its own, and the same as if it were fitted alone."""

from __future__ import annotations

import time

import numpy as np
import optuna
import pytest

import search_spaces.hopular
from hopular.trials import run, worker
from hopular.trials.budget import Budget
from hopular.trials.fit import SOFT, Fitter
from hopular.trials.refit import train
from hopular.trials.run import search, study_name
from hopular.trials.space import PRUNE_AFTER, PRUNE_TRIALS, Proposer
from hopular.trials.study import Study, open_storage
from hopular.trials.trial import Trial
from tests.trials.conftest import InlineWorker, leases, make_job, raw_trials, states, wait_for

BUDGET = Budget(grid_trials=3, max_epochs=12)  # the three betas of the smallest network
CLOSE = {"rel": 1e-4, "abs": 1e-5}  # a stack of another size rounds otherwise


@pytest.fixture(scope="module", autouse=True)
def betas():
    """Low betas for these tests: from 100 on training amplifies any difference in rounding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(search_spaces.hopular.BETA, "default", (1.0, 3.0, 10.0))
        yield


@pytest.fixture
def noting(monkeypatch):
    """Fit right here; the slots, limits and jobs of each fit are in the list."""
    fits = []

    class Noting(InlineWorker):
        def run(self, jobs, **options):
            fits.append(([job.trial.slot for job in jobs], options["max_seconds"], jobs))
            return super().run(jobs, **options)

    monkeypatch.setattr(worker, "Worker", Noting)
    return fits


def slots(fits):
    return [places for places, _, _ in fits]


@pytest.fixture(scope="module")
def alone(problem, tmp_path_factory):
    """The records of the same search without sharing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "Worker", InlineWorker)
        patch.setattr(run.Proposer, "alike", lambda self, slot, names: [slot])
        url = f"sqlite:///{tmp_path_factory.mktemp('alone') / 'studies.db'}"
        return search(problem, "hopular", BUDGET, storage=url).trials


def same(record, other):
    for name in ("slot", "seed", "params", "state"):
        assert getattr(record, name) == getattr(other, name)
    assert record.score == pytest.approx(other.score, **CLOSE)
    assert [percent for percent, _ in record.curve] == [percent for percent, _ in other.curve]
    assert [score for _, score in record.curve] == pytest.approx([score for _, score in other.curve], **CLOSE)


def test_three_betas_in_one_training_are_what_they_are_alone(problem, sqlite, alone, noting, monkeypatch, tmp_path):
    monkeypatch.setattr(run, "SHOW_SECONDS", 0.0)
    shown = []
    result = search(
        problem,
        "hopular",
        BUDGET,
        storage=sqlite,
        predictions=tmp_path / "kept",
        on_trial=lambda record, _: shown.append(record.slot),
    )
    assert slots(noting) == [[0, 1, 2]]
    assert shown == [0, 1, 2]
    assert [record.params["beta"] for record in result.trials] == [1.0, 3.0, 10.0]
    for record, other in zip(result.trials, alone, strict=True):
        same(record, other)
        assert (record.shared_by, other.shared_by) == (3, 1)
    trials = optuna.load_study(study_name=result.study, storage=open_storage(sqlite)).trials
    assert [trial.user_attrs["slot"] for trial in trials] == [0, 1, 2]
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 3
    assert [trial.value for trial in trials] == [record.score for record in result.trials]
    assert [trial.intermediate_values for trial in trials] == [dict(record.curve) for record in result.trials]
    (folder,) = (tmp_path / "kept").iterdir()
    found = [np.load(folder / f"{slot}.npy") for slot in range(3)]
    assert len({tuple(values) for values in found}) == 3
    assert [float(np.mean((values - problem.y_valid) ** 2)) for values in found] == pytest.approx(
        [record.metrics["mse"] for record in result.trials], rel=1e-4
    )
    kept = InlineWorker.latest.fitter.kept.trial
    assert kept.slot == result.best.slot  # the best one's model need not be trained again
    again = train(problem, "hopular", result.best, BUDGET, problem.X_valid, study=result.study)
    assert again.test_predictions == pytest.approx(found[result.best.slot], rel=1e-4)
    assert leases(sqlite) == []


def test_sharp_associations_begin_as_they_do_alone(problem):
    def curve_of(*places):
        points = []
        jobs = [make_job("hopular", {"beta": beta, "n_members": 1, "max_epochs": 12}, 7) for beta in places]
        Fitter().fit(problem, jobs, lambda: None, lambda place, *point: points.append((places[place], *point)))
        return [score for beta, percent, score in points if beta == 100.0 and percent <= 10]

    assert len(curve_of(100.0)) == 1
    assert curve_of(1.0, 100.0, 1000.0) == pytest.approx(curve_of(100.0), **CLOSE)


def test_a_shared_fit_has_the_time_of_its_trials_who_divide_it(problem, sqlite, noting):
    start = time.perf_counter()
    result = search(problem, "hopular", Budget(grid_trials=3, max_epochs=5, seconds_per_trial=10), storage=sqlite)
    whole = time.perf_counter() - start
    ((_, limit, jobs),) = noting
    assert limit == 30
    assert {job.max_seconds for job in jobs} == {SOFT * 30}
    assert [record.max_seconds for record in result.trials] == pytest.approx([SOFT * 10] * 3)
    seconds = [record.fit_seconds for record in result.trials]
    assert len(set(seconds)) == 1
    assert 0 < sum(seconds) < whole


def test_what_may_differ_is_what_the_method_shares():
    default, paper = (Proposer("hopular", "medium", 0, architecture=name) for name in ("default", "paper"))
    assert default.alike(4, ("beta",)) == paper.alike(4, ("beta",)) == [3, 4, 5]
    assert default.alike(25, ("beta",)) == [25]  # the unregularised one has no other beta
    assert default.alike(4, ()) == [4]
    assert Proposer("constant", "small", 0).alike(7, ("value",)) == [7]  # which is no grid


def test_only_what_fits_together_is_fitted_together(problem, sqlite, noting):
    assert search(problem, "twins", Budget(), storage=sqlite).complete
    assert slots(noting) == [[0, 2], [1]]


@pytest.mark.parametrize(("done", "left"), [([1], [0, 2]), ([0, 2], [1]), ([0], [1, 2])])
def test_a_search_goes_on_with_what_is_missing_alone(problem, sqlite, alone, noting, done, left):
    study = Study(open_storage(sqlite), study_name(problem, "hopular", BUDGET))
    for slot in done:
        assert study.lease([slot]) == slot
        study.start(slot, {}, {})
        assert study.add(alone[slot])
    result = search(problem, "hopular", BUDGET, storage=sqlite)
    assert slots(noting) == [left]
    assert result.complete
    for record, other in zip(result.trials, alone, strict=True):
        same(record, other)
    assert [record.shared_by for record in result.trials] == [1 if slot in done else len(left) for slot in range(3)]
    assert raw_trials(sqlite) == [(slot, "complete") for slot in range(3)]


def test_slots_that_another_process_works_on_are_left_to_it(problem, sqlite, noting):
    other = Study(open_storage(sqlite), study_name(problem, "hopular", BUDGET))
    assert other.lease([1]) == 1
    records = run.iterate(problem, "hopular", BUDGET, storage=sqlite)
    assert [next(records).slot for _ in range(2)] == [0, 2]
    assert slots(noting) == [[0, 2]]
    other.give_up(1)
    assert [record.slot for record in records] == [1]
    assert slots(noting) == [[0, 2], [1]]


def run_search(problem, url):
    search(problem, "hopular", Budget(grid_trials=3, max_epochs=5000), storage=url)


def test_killed_in_a_shared_training_all_its_trials_are_free_again(problem, sqlite, start, noting):
    open_storage(sqlite)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "Worker", run.Worker)
        process = start(run_search, problem, sqlite)
        wait_for(lambda: states(sqlite) == {"RUNNING": 3})
    assert len(leases(sqlite)) == 3
    process.kill()
    process.join()
    budget = Budget(grid_trials=3, max_epochs=5000)
    study = Study(open_storage(sqlite), study_name(problem, "hopular", budget))
    study.bury()
    assert states(sqlite) == {"FAIL": 3}
    assert [study.lease(range(3)) for _ in range(4)] == [0, 1, 2, None]


def test_a_trial_that_is_pruned_leaves_the_others_to_their_training(problem, sqlite, alone, noting):
    """Four earlier trials were, throughout, better than the worst of the three, and worse than the other two."""
    budget = Budget(max_epochs=BUDGET.max_epochs)
    best = [max(score for percent, score in record.curve if percent <= PRUNE_AFTER) for record in alone]
    worst = int(np.argmin(best))
    bar = (sorted(best)[0] + sorted(best)[1]) / 2
    study = Study(open_storage(sqlite), study_name(problem, "hopular", budget))
    taken = range(3, 12)
    for slot in taken:
        study.lease([slot])
        study.start(slot, {}, {})
        curve = [(percent, bar) for percent in range(101)]
        assert study.add(Trial(slot, 0, {}, "complete", bar, curve=curve))
    assert len(taken) >= PRUNE_TRIALS
    result = search(problem, "hopular", budget, storage=sqlite)
    assert slots(noting) == [[0, 1, 2]]
    for place, (record, other) in enumerate(zip(result.trials[:3], alone, strict=True)):
        if place == worst:
            assert (record.state, record.score, record.curve[-1][0]) == ("pruned", None, PRUNE_AFTER)
        else:
            same(record, other)
    assert states(sqlite) == {"COMPLETE": 11, "PRUNED": 1}


@pytest.mark.parametrize("act", ["exit", "hang", "raise"])
def test_what_goes_wrong_in_company_is_tried_again_alone(problem, sqlite, monkeypatch, act):
    monkeypatch.setenv("HOPULAR_TEST_ACT", act)
    result = search(problem, "twins", Budget(seconds_per_trial=5.0), storage=sqlite)
    assert result.summary == "3 of 3 trials: 3 complete"
    assert [record.shared_by for record in result.trials] == [1, 1, 1]
    assert states(sqlite) == {"COMPLETE": 3}
    assert leases(sqlite) == []


def test_what_goes_wrong_alone_as_well_has_failed(problem):
    """A setting that is refused takes no other one with it, once each is by itself."""

    def run(*params):
        jobs = [make_job("twins", {"n_blocks": 1, **one}, 3, slot=slot) for slot, one in enumerate(params)]
        return Fitter().fit(problem, jobs, lambda: None, lambda *_: False)

    both = run({"beta": 1.0}, {"beta": -1.0})
    assert [outcome.failure for outcome in both] == ["invalid-parameters"] * 2
    assert [run(one)[0].state for one in ({"beta": 1.0}, {"beta": -1.0})] == ["complete", "failed"]


def test_a_refused_setting_of_a_search_does_not_spoil_its_sisters(problem, sqlite, noting, monkeypatch):
    monkeypatch.setattr("search_spaces.twins.grid", lambda size: [{"n_blocks": 1, "beta": b} for b in (1.0, -1.0)])
    result = search(problem, "twins", Budget(), storage=sqlite)
    assert [(record.state, record.failure) for record in result.trials] == [
        ("complete", None),
        ("failed", "invalid-parameters"),
    ]
    assert slots(noting) == [[0, 1], [0], [1]]


def test_a_search_of_one_setting_has_the_members_of_the_estimator(problem, sqlite, noting):
    (single,) = search(problem, "hopular", Budget(grid_trials=1, max_epochs=2), storage=sqlite).trials
    several = search(problem, "hopular", Budget(grid_trials=2, max_epochs=2), storage=sqlite).trials
    assert "n_members" not in single.params
    assert [record.params["n_members"] for record in several] == [1, 1]
