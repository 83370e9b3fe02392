"""Killed at any moment and started again, a search ends as if nothing had happened; shared, it is done once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import psutil
import pytest
from optuna.storages import RDBStorage

from hopular.trials import run, worker
from hopular.trials.budget import Budget
from hopular.trials.run import iterate, search, study_name
from hopular.trials.study import Study, open_storage
from tests.trials.conftest import FORK, InlineWorker, essence, leases, raw_trials, states, wait_for

BUDGET = Budget(trials=14)  # of which TPE, after its random start, has a say in four


def kill_me():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed(problem, tmp_path_factory):
    """The records of a search that nobody killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "Worker", InlineWorker)
        url = f"sqlite:///{tmp_path_factory.mktemp('undisturbed') / 'studies.db'}"
        return search(problem, "constant", BUDGET, storage=url).trials


def check(result, undisturbed, url):
    """All there, each once, and as they should be."""
    assert essence(result.trials) == essence(undisturbed)
    assert result.complete
    assert raw_trials(url) == [(record.slot, record.state) for record in undisturbed]
    assert leases(url) == []
    assert set(states(url)) <= {"COMPLETE", "FAIL"}  # those that were killed have failed; none runs for ever
    assert states(url)["COMPLETE"] == len(undisturbed)


def run_search(problem, url, **options):
    search(problem, "constant", BUDGET, storage=url, **options)


@pytest.mark.parametrize(("new_storage", "longest"), [("sqlite", 1.5), ("postgresql", 0.7)], indirect=["new_storage"])
def test_killed_at_random_moments(problem, undisturbed, new_storage, longest, start, monkeypatch):
    moments, kills = random.Random(time.time_ns()), 0
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "0.05")
    if new_storage.startswith("postgresql"):  # once with a worker process is enough
        monkeypatch.setattr(worker, "Worker", InlineWorker)
    while kills < (3 if longest < 1 else 2):
        process = start(run_search, problem, new_storage)
        process.join(moments.uniform(0.2, longest))
        if not process.is_alive():
            assert process.exitcode == 0
            break
        workers = psutil.Process(process.pid).children()
        process.kill()
        process.join()
        kills += 1
        _, alive = psutil.wait_procs(workers, 5)
        assert not alive
    assert kills
    check(search(problem, "constant", BUDGET, storage=new_storage), undisturbed, new_storage)


def die_at(patches, target, name, call, after):
    """Let this process be killed before, or after, the n-th call of a function."""
    original, calls = getattr(target, name), []

    def replacement(*args, **kwargs):
        calls.append(1)
        if len(calls) == call and not after:
            kill_me()
        result = original(*args, **kwargs)
        if len(calls) == call and after:
            kill_me()
        return result

    patches.setattr(target, name, replacement)


STEPS = [  # of one trial, in their order
    (Study, "lease", True),
    (run.Proposer, "propose", True),
    (RDBStorage, "create_new_trial", True),
    (InlineWorker, "run", False),
    (InlineWorker, "run", True),
    (Study, "holds", True),
    (run, "_keep", True),
    (Study, "add", False),
    (RDBStorage, "set_trial_user_attr", True),  # the record is there, the state not yet
    (RDBStorage, "set_trial_state_values", True),  # both are, the lease too
    (Study, "add", True),
]


def search_and_die(problem, url, folder, target, name, after, call):
    die_at(pytest.MonkeyPatch(), target, name, call, after)
    run_search(problem, url, predictions=folder)


def test_killed_between_any_two_steps(problem, undisturbed, new_storage, start, inline, tmp_path):
    shown = []
    for step in STEPS:
        process = start(search_and_die, problem, new_storage, tmp_path / "kept", *step, random.randint(1, 2))
        process.join(30)
        assert process.exitcode == -signal.SIGKILL, step
        shown.append(len(raw_trials(new_storage)))
    assert shown == sorted(shown)
    assert 0 < shown[-1] < len(undisturbed)
    result = search(problem, "constant", BUDGET, storage=new_storage, predictions=tmp_path / "kept")
    check(result, undisturbed, new_storage)
    (folder,) = (tmp_path / "kept").iterdir()
    assert {f"{slot}.npy" for slot in range(len(undisturbed))} <= {path.name for path in folder.iterdir()}


def search_two_trials(problem, url, budget):
    records = iterate(problem, "constant", budget, storage=url)
    next(records), next(records)
    kill_me()


def test_time_of_short_trials_is_not_lost_with_a_killed_process(problem, new_storage, start, inline, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "0.4")
    budget = Budget(trials=1000, seconds=100.0)
    process = start(search_two_trials, problem, new_storage, budget)
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    study = Study(open_storage(new_storage), study_name(problem, "constant", budget))
    assert 0.8 <= study.spent() < 10


def test_what_a_killed_process_left_is_ended_though_no_time_is_left(problem, new_storage, start, inline, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "nothing hang")
    budget = Budget(seconds=100.0)
    open_storage(new_storage)
    process = start(search, problem, "actor", budget, storage=new_storage)
    wait_for(lambda: states(new_storage) == {"COMPLETE": 1, "RUNNING": 1})
    process.kill()
    process.join()
    Study(open_storage(new_storage), study_name(problem, "actor", budget)).spend(100.0)
    result = search(problem, "actor", budget, storage=new_storage, on_trial=pytest.fail)
    assert result.summary == "1 of 2 trials: 1 complete"
    assert states(new_storage) == {"COMPLETE": 1, "FAIL": 1}


def test_a_worker_killed_at_random_moments_costs_nothing(problem, undisturbed, sqlite, start, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "0.02")
    monkeypatch.setattr(run, "RETRY_PAUSE", 0.1)
    killed = 0
    for record in iterate(problem, "constant", BUDGET, storage=sqlite):
        if record.slot in (1, 6):
            (worker,) = [p for p in psutil.Process().children() if "hopular.trials.worker" in p.cmdline()]
            time.sleep(random.uniform(0, 0.1))
            worker.kill()
            killed += 1
    assert killed == 2
    check(search(problem, "constant", BUDGET, storage=sqlite), undisturbed, sqlite)


def share(problem, url, workers, barrier):
    barrier.wait()
    run_search(problem, url, workers=workers)


def test_two_processes_share_a_budget(problem, new_storage, start, inline, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "0.2")
    barrier = FORK.Barrier(2)
    processes = [start(share, problem, new_storage, workers, barrier) for workers in (1, 2)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert [slot for slot, _ in raw_trials(new_storage)] == list(range(BUDGET.trials))
    fits = Counter(line.split()[0] for line in (tmp_path / "log").read_text().splitlines())
    assert fits.total() == BUDGET.trials  # none was fitted twice
    assert states(new_storage) == {"COMPLETE": BUDGET.trials}
    assert len(fits) == 2
    assert leases(new_storage) == []


def test_what_a_dead_process_left_falls_to_the_living(problem, new_storage, start, inline, monkeypatch):
    """Two share a search; one is killed in the midst of a trial, and the other one does that, too."""
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "3600")
    run.open_storage(new_storage)
    victim = start(run_search, problem, new_storage)
    wait_for(lambda: len(leases(new_storage)) == 1)
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "0")
    records = iterate(problem, "constant", BUDGET, storage=new_storage)
    slots = [next(records).slot for _ in range(BUDGET.trials - 1)]
    assert slots == list(range(1, BUDGET.trials))
    victim.kill()
    assert [record.slot for record in records] == [0]
    assert len(raw_trials(new_storage)) == BUDGET.trials
    assert states(new_storage) == {"COMPLETE": BUDGET.trials, "FAIL": 1}
    assert leases(new_storage) == []
