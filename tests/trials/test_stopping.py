"""Searches that are ended by hand, and searches with several workers."""

from __future__ import annotations

import os
import signal
import threading
import time

import psutil
import pytest

from hopular.trials import run, worker
from hopular.trials import worker as worker_module
from hopular.trials.budget import Budget
from hopular.trials.run import iterate, search
from tests.trials.conftest import (
    FORK,
    InlineWorker,
    leases,
    raw_trials,
    wait_for,
)

# ------------------------------------------------------------------------------------------------- ending it by hand


def children():
    return [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]


def test_closing_the_iterator_stops_at_once_and_leaves_nothing(problem, sqlite, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "nothing hang hang hang")
    before, threads = children(), set(threading.enumerate())
    records = iterate(problem, "actor", Budget(), storage=sqlite, workers=2)
    assert next(records).state == "complete"
    assert len(children()) > len(before)
    start = time.monotonic()
    records.close()
    assert time.monotonic() - start < 10
    assert children() == before
    assert leases(sqlite) == []
    assert len(raw_trials(sqlite)) == 1
    left = {thread for thread in threading.enumerate() if not thread.name.startswith("hopular-starter")}
    assert left <= threads  # beside the one thread that starts workers, which lasts as long as the process


def test_closing_works_while_a_worker_starts_and_before_anything_has(problem, sqlite, monkeypatch):
    before = children()
    records = iterate(problem, "constant", Budget(trials=3), storage=sqlite)
    records.close()
    records = iterate(problem, "constant", Budget(trials=3), storage=sqlite)
    consumer = threading.Thread(target=lambda: list(records), daemon=True)
    monkeypatch.setattr(worker_module.subprocess, "Popen", slow_start(worker_module.subprocess.Popen))
    consumer.start()
    wait_for(lambda: len(children()) > len(before))
    loop = records.gi_frame.f_locals["self"]
    start = time.monotonic()
    loop.stop()
    consumer.join()
    assert time.monotonic() - start < 10
    assert children() == before
    assert leases(sqlite) == []


def slow_start(popen):
    """A worker process that does not get ready."""
    return lambda command, **options: popen(["sleep", "60"], **options)


def test_an_exception_of_the_callback_ends_the_search(problem, sqlite, inline):
    def refuse(record, slots):
        raise LookupError("enough")

    with pytest.raises(LookupError):
        search(problem, "constant", Budget(trials=3), storage=sqlite, on_trial=refuse)
    assert leases(sqlite) == []


def search_until_interrupted(problem, url, pipe):
    try:
        search(problem, "actor", Budget(), storage=url, on_trial=lambda *_: pipe.send("first"))
    except KeyboardInterrupt:
        pipe.send(("interrupted", len(children()), leases(url)))


def test_an_interruption_from_the_keyboard_leaves_nothing(problem, sqlite, start, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "nothing hang")
    ours, theirs = FORK.Pipe()
    process = start(search_until_interrupted, problem, sqlite, theirs)
    assert ours.recv() == "first"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    assert ours.poll(5)
    assert ours.recv() == ("interrupted", 0, [])


# ----------------------------------------------------------------------------------------------------------- parallel


def test_two_workers_are_side_by_side_in_processes_of_their_own(problem, sqlite, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "0.2")
    result = search(problem, "constant", Budget(trials=8), storage=sqlite, workers=2)
    assert result.summary == "8 of 8 trials: 8 complete"
    fits = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert len(fits) == 8
    assert len({pid for pid, _ in fits}) == 2
    assert len(raw_trials(sqlite)) == 8


def test_cores_are_used_once(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert run.cores() == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    assert run.cores() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert run.cores() == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert run.cores() == 8


@pytest.mark.parametrize(("workers", "threads"), [(1, 8), (2, 4), (3, 2), (9, 1)])
def test_workers_share_the_threads(problem, sqlite, monkeypatch, workers, threads):
    monkeypatch.setattr(run, "cores", lambda: 8)
    made = []

    class Noting(InlineWorker):
        def __init__(self, problem, threads):
            made.append(threads)
            super().__init__(problem, threads)

    monkeypatch.setattr(worker, "Worker", Noting)
    assert search(problem, "constant", Budget(trials=2), storage=sqlite, workers=workers).complete
    assert made == [threads] * workers
