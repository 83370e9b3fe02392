"""The database: leases that outlive nobody, trials that are there once, and patience with a database that is away."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
import uuid
from datetime import datetime

import optuna
import pytest
import sqlalchemy as sa
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from hopular.trials import study as module
from hopular.trials.study import LEASES, StorageError, Study, open_storage
from hopular.trials.trial import Trial
from tests.trials.conftest import FORK, wait_for

SPACE = {"a": FloatDistribution(0, 1)}


def record(slot=0, **values):
    curve = [(10, 0.25), (100, float("nan"))]
    return Trial(slot, 1, {"a": 0.1 + 0.2}, "complete", 0.1 * 3, {"accuracy": 0.3}, curve, **values)


@pytest.fixture
def study(storage):
    return Study(open_storage(storage), f"a study {uuid.uuid4()}")


def another(storage, study):
    """The same study in another process, or as good as."""
    return Study(open_storage(storage), study.name)


def add(study, record):
    study.start(record.slot, {"a": 0.1 + 0.2}, SPACE)
    return study.add(record)


def running(study):
    """How many slots are leased by the living."""
    return sum(module._alive(row.owner, row.age) for row in study._leases())


def look(storage, study):
    """The trials as anybody sees them who opens the study with Optuna."""
    url = storage.replace("postgresql://", "postgresql+psycopg://")
    return optuna.load_study(study_name=study.name, storage=url).get_trials()


def set_lease(study, slot, **values):
    with study._engine.begin() as connection:
        same = (LEASES.c.study == study.name, LEASES.c.slot == slot)
        connection.execute(sa.update(LEASES).where(*same).values(**values))


def test_leases_and_records_go_their_way(storage, study):
    assert [study.lease(range(3)) for _ in range(4)] == [0, 1, 2, None]
    assert running(study) == 3
    study.release(1)
    assert study.lease(range(3)) == 1
    assert add(study, record(1, fit_seconds=0.5))
    assert running(study) == 2
    assert study.lease(range(3)) is None

    other = another(storage, study)
    assert other.lease(range(3)) is None
    (trial,) = other.trials().values()
    assert repr(Trial.from_json(trial.user_attrs["record"])) == repr(record(1, fit_seconds=0.5))
    assert trial.params == {"a": 0.1 + 0.2}
    assert trial.value == 0.1 * 3
    assert other.owner != study.owner
    assert Study(open_storage(storage), f"{study.name} 2").lease(range(1)) == 0


def test_some_slots_can_be_leased_and_others_left_alone(study):
    assert [study.lease([2]), study.lease([2]), study.lease([1, 2])] == [2, None, 1]
    assert study.lease(range(3)) == 0


def test_states_are_those_of_optuna(study):
    states = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
    for slot, state in enumerate(states):
        assert study.lease(range(3)) == slot
        add(study, Trial(slot, 0, {}, state, 0.5 if state == "complete" else None))
    assert [trial.state.name for trial in study.trials().values()] == list(states.values())
    assert [trial.state.name for trial in study._study.get_trials()] == list(states.values())


def test_a_finished_slot_is_not_leased_by_a_process_that_has_not_heard_of_it(storage, study):
    other = another(storage, study)
    assert study.lease(range(2)) == 0
    add(study, record(0))
    assert other.finished == {}
    assert other.lease(range(2)) == 1
    assert running(other) == 1


def lease_and_stay(url, name, pipe):
    pipe.send(Study(open_storage(url), name).lease(range(1)))
    time.sleep(60)


def test_the_lease_of_a_dead_process_is_taken_over_even_if_nobody_has_buried_it(storage, study, start):
    ours, theirs = FORK.Pipe()
    process = start(lease_and_stay, storage, study.name, theirs)
    assert ours.recv() == 0
    assert study.lease(range(1)) is None
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is dead now, and a zombie
    assert study.lease(range(1)) == 0
    assert add(study, record(0))


def test_a_number_of_a_dead_process_used_again_does_not_keep_its_lease(study):
    assert study.lease(range(1)) == 0
    host, pid, started, _ = study.owner.rsplit(":", 3)
    set_lease(study, 0, owner=f"{host}:{pid}:{float(started) - 100}:x")
    assert study.lease(range(1)) == 0


def test_a_clock_that_was_set_does_not_kill_a_living_owner(study):
    assert study.lease(range(1)) == 0
    host, pid, started, _ = study.owner.rsplit(":", 3)
    set_lease(study, 0, owner=f"{host}:{pid}:{float(started) - 1}:x")
    assert study.lease(range(1)) is None


def test_a_lease_on_another_machine_lasts_until_its_beat_is_stale(study, monkeypatch):
    monkeypatch.setattr(module, "STALE_SECONDS", 0.6)
    assert study.lease(range(1)) == 0
    set_lease(study, 0, owner="elsewhere:1:0.0:x", beat=study._now)
    assert study.lease(range(1)) is None
    wait_for(lambda: study.lease(range(1)) == 0, 5)
    study.beat(0)
    assert running(study) == 1


def test_who_lost_a_lease_stores_nothing(storage, study, monkeypatch):
    assert study.lease(range(1)) == 0
    other = another(storage, study)
    assert other.lease(range(1)) is None
    set_lease(study, 0, beat=0.0)  # as if it had been asleep for long
    assert other.lease(range(1)) == 0
    assert not study.holds(0)
    assert not add(study, record(0))
    study.release(0)
    assert running(other) == 1
    assert add(other, record(0))
    assert len(study.trials()) == 1


def lease_all(url, name, slots, barrier, pipe):
    barrier.wait()
    study = Study(open_storage(url), name)
    leased = []
    while (slot := study.lease(range(slots))) is not None:
        leased.append(slot)
        if slot % 3 == 0:
            assert add(study, record(slot))
    pipe.send(leased)
    barrier.wait()  # leases are the living's


def test_processes_racing_for_a_new_database_and_its_slots(new_storage, start):
    barrier, pipes = FORK.Barrier(4), [FORK.Pipe() for _ in range(4)]
    for _, theirs in pipes:
        start(lease_all, new_storage, "raced for", 24, barrier, theirs)
    slots = [slot for ours, _ in pipes for slot in ours.recv()]
    assert sorted(slots) == list(range(24))
    study = Study(open_storage(new_storage), "raced for")
    assert sorted(study.trials()) == list(range(0, 24, 3))


def test_two_take_over_a_dead_lease_but_only_one_gets_it(storage, study):
    other = another(storage, study)
    assert study.lease(range(1)) == 0
    set_lease(study, 0, owner=study.owner.replace(str(os.getpid()), "4000000"))
    (old,) = study._leases()
    assert [one._take_over(0, old) for one in (study, other)] == [True, False]


def test_a_trial_whose_answer_was_lost_is_there_once(study, monkeypatch):
    assert study.lease(range(1)) == 0
    store, calls = study._storage.set_trial_state_values, []

    def store_and_hang_up(*values):
        calls.append(store(*values))
        raise sa.exc.OperationalError("commit", {}, Exception("server closed the connection"))

    monkeypatch.setattr(study._storage, "set_trial_state_values", store_and_hang_up)
    assert add(study, record(0))
    assert calls == [True]
    assert len(study._study.get_trials()) == 1
    assert running(study) == 0


def test_a_trial_runs_in_the_study_from_its_start_to_its_end(storage, study):
    assert study.lease(range(1)) == 0
    before = datetime.now()
    study.start(0, {"a": 0.5}, SPACE)
    study.report(0, 10, 0.25)
    time.sleep(0.3)
    (seen,) = look(storage, study)
    assert (seen.state.name, seen.params, seen.intermediate_values) == ("RUNNING", {"a": 0.5}, {10: 0.25})
    assert seen.datetime_complete is None
    assert study.add(record(0))
    (seen,) = look(storage, study)
    assert (seen.state.name, seen.value, seen.params) == ("COMPLETE", 0.1 * 3, {"a": 0.5})
    assert abs((seen.datetime_start - before).total_seconds()) < 0.3
    assert seen.duration.total_seconds() >= 0.3


@pytest.mark.parametrize("state", ["complete", "pruned", "failed"])
def test_values_survive_as_they_are(storage, study, state):
    space = {
        "a": FloatDistribution(0, 1),
        "n": IntDistribution(1, 64, log=True),
        "kind": CategoricalDistribution(["x", None, True, 3]),
    }
    params = {"a": 0.1 + 0.2, "n": 7, "kind": None}
    score = float("-inf") if state == "complete" else None
    made = Trial(0, 1, {"a": 0.3}, state, score, curve=[(10, 0.25), (20, float("inf")), (30, float("nan"))])
    assert study.lease(range(1)) == 0
    study.start(0, params, space)
    assert study.add(made)
    for finished in (study.finished, another(storage, study).trials()):
        (trial,) = finished.values()
        assert (trial.params, trial.distributions, trial.value) == (params, space, score)
        assert repr(trial.intermediate_values) == repr(dict(made.curve))  # though few points were shown
        assert repr(Trial.from_json(trial.user_attrs["record"])) == repr(made)


def test_a_trial_that_is_given_up_has_failed_and_its_slot_is_free(storage, study):
    assert study.lease(range(1)) == 0
    study.give_up(0)  # before it was started
    assert study.lease(range(1)) == 0
    study.start(0, {"a": 0.5}, SPACE)
    study.give_up(0)
    assert [trial.state.name for trial in look(storage, study)] == ["FAIL"]
    assert study.trials() == {}
    assert study.lease(range(1)) == 0


def start_and_stay(url, name, pipe, is_recorded):
    study = Study(open_storage(url), name)
    study.lease(range(1))
    study.start(0, {"a": 0.5}, SPACE)
    if is_recorded:
        study._storage.set_trial_user_attr(study._running[0][0], "record", record(0).to_json())
    pipe.send(study.owner)
    time.sleep(60)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_trial_of_a_dead_process_does_not_run_for_ever(storage, study, start, is_recorded):
    """It has failed; or, if the process died when it had all but told the state, it is as its record says."""
    ours, theirs = FORK.Pipe()
    process = start(start_and_stay, storage, study.name, theirs, is_recorded)
    ours.recv()
    study.bury()
    assert study.lease(range(1)) is None
    assert [trial.state.name for trial in look(storage, study)] == ["RUNNING"]  # its process lives
    process.kill()
    process.join()
    study.bury()
    (trial,) = look(storage, study)
    assert trial.state.name == ("COMPLETE" if is_recorded else "FAIL")
    assert list(study.trials()) == [0] * is_recorded
    assert study.lease(range(1)) == (None if is_recorded else 0)


def test_whoever_takes_over_a_lease_ends_the_trial_that_was_left(storage, study):
    assert study.lease(range(1)) == 0
    study.start(0, {"a": 0.5}, SPACE)
    other = another(storage, study)
    set_lease(study, 0, beat=0.0)  # as if it had been asleep for long
    assert other.lease(range(1)) == 0
    assert add(other, record(0, fit_seconds=2.0))
    assert not study.add(record(0, fit_seconds=1.0))
    assert sorted(trial.state.name for trial in look(storage, study)) == ["COMPLETE", "FAIL"]
    assert [trial.user_attrs["record"]["fit_seconds"] for trial in another(storage, study).trials().values()] == [2.0]


def test_who_was_buried_alive_stores_nothing_even_if_it_holds_the_lease(storage, study):
    """It was taken for dead just before it renewed its lease."""
    assert study.lease(range(1)) == 0
    study.start(0, {"a": 0.5}, SPACE)
    set_lease(study, 0, beat=0.0)
    another(storage, study).bury()
    assert study.holds(0)
    assert not study.add(record(0))
    assert study.trials() == {}
    assert study.lease(range(1)) == 0


def test_leases_left_by_the_dead_are_swept_away_in_the_end(storage, study):
    assert [study.lease(range(2)), study.lease(range(2))] == [0, 1]
    study.start(0, {"a": 0.5}, SPACE)
    study.sweep()
    assert running(study) == 0
    assert not study.holds(0)
    assert [trial.state.name for trial in look(storage, study)] == ["FAIL"]


def test_trials_of_others_in_the_study_are_no_trials_of_ours(study):
    study._study.add_trial(optuna.trial.create_trial(value=1.0))
    study._study.enqueue_trial({})
    assert study.trials() == {}
    assert study.lease(range(1)) == 0


def test_time_is_added_up_over_processes(storage, study):
    assert study.spent() == 0
    study.spend(2.0)
    study.spend(3.0)
    other = another(storage, study)
    other.spend(4.5)
    assert study.spent() == 7.5


def test_a_locked_database_is_waited_for(sqlite, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.05)
    study = Study(open_storage(sqlite), "a study")
    assert study.lease(range(1)) == 0
    lock = sqlite3.connect(tmp_path / "studies.db", check_same_thread=False, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    unlock = threading.Timer(3, lambda: lock.execute("ROLLBACK"))
    unlock.start()
    start = time.monotonic()
    study.beat(0)  # does not wait
    assert time.monotonic() - start < 2.5
    assert add(study, record(0))
    unlock.join()
    assert list(study.trials()) == [0]

    lock.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.2)
    with pytest.raises(StorageError, match="locked"):
        study.lease(range(2))
    lock.close()


@pytest.mark.parametrize("storage", ["postgresql"], indirect=True)
def test_a_server_that_was_restarted_is_called_again(postgres, study):
    assert study.lease(range(2)) == 0
    with study._engine.connect():  # a second connection in the pool
        pass
    others = "datname IS NOT NULL AND pid <> pg_backend_pid()"
    postgres.psql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    assert add(study, record(0))
    assert study.lease(range(2)) == 1


def test_sqlite_lets_readers_read_and_commits_do_not_wait_for_the_disk(sqlite):
    engine = open_storage(sqlite).engine
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1


def test_one_setting_says_where(tmp_path, monkeypatch, postgres):
    monkeypatch.delenv("HOPULAR_STORAGE", raising=False)
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path / "runs"))
    assert open_storage().engine.url.database == str(tmp_path / "runs" / "optuna.db")
    monkeypatch.setenv("HOPULAR_STORAGE", postgres.get_uri().replace("postgresql://", "postgres://"))
    assert open_storage().engine.url.drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("no url", "not the URL"),
        ("mysql://host/name", "use a URL of sqlite or postgresql"),
        ("sqlite://", "name a file"),
        ("sqlite:////no/such/folder/studies.db", "unable to open"),
    ],
)
def test_a_database_that_cannot_be_opened_is_said_at_once(url, says):
    start = time.monotonic()
    with pytest.raises(StorageError, match=says):
        open_storage(url)
    assert time.monotonic() - start < 10


def test_an_unknown_postgres_database_is_said_at_once_without_the_password(postgres):
    url = postgres.get_uri(database="nobody").replace("postgresql://postgres:", "postgresql://postgres:sesame")
    assert "sesame" in url
    with pytest.raises(StorageError, match="does not exist") as caught:
        open_storage(url)
    assert "sesame" not in str(caught.value)


def test_a_file_that_is_no_database_is_said(tmp_path):
    (tmp_path / "studies.db").write_text("no database at all " * 100)
    with pytest.raises(StorageError, match="cannot be opened"):
        open_storage(f"sqlite:///{tmp_path / 'studies.db'}")
