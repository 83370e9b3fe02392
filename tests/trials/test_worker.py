"""The process that fits: whatever a fit does to it has a name, and the next fit goes on."""

from __future__ import annotations

import os
import signal
import sys
import time

import psutil
import pytest

from hopular.trials import worker as module
from hopular.trials.worker import InfrastructureError, LostError, Worker
from tests.trials.conftest import make_job, wait_for

MB = 2**20


@pytest.fixture(scope="module")
def worker(problem):
    with Worker(problem, threads=1) as worker:
        yield worker


def run(worker, act, *, beat=lambda: None, report=lambda *_: False, limits=None, seed=1, **params):
    job = make_job("actor", {"act": act, **params}, seed, threads=worker._threads)
    (outcome,) = worker.run([job], report=report, beat=beat, **(limits or {}))
    return outcome


def pid_of(worker):
    return worker._process.pid


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_fit_is_measured(worker, problem):
    outcome = run(worker, "nothing")
    assert outcome.state == "complete"
    assert outcome.failure is None
    assert outcome.score == -outcome.metrics["mse"] == pytest.approx(-(problem.y_valid**2).mean())
    assert outcome.predictions.shape == (len(problem.y_valid),)
    assert 0 < outcome.fit_seconds < 1
    assert 0 < outcome.predict_seconds < 1
    assert 20 * MB < outcome.peak_memory < 1000 * MB


def test_one_process_serves_many_fits_and_beats_all_the_while(worker):
    run(worker, "nothing")
    pid, beats = pid_of(worker), []
    run(worker, "random", beat=lambda: beats.append(1))
    assert pid_of(worker) == pid
    run(worker, "slow_import", beat=lambda: beats.append(1))
    assert len(beats) > 5


@pytest.mark.parametrize(
    ("act", "kind", "says"),
    [
        ("raise", "error", "RuntimeError: the matrix is sad"),
        ("invalid", "invalid-parameters", "act must not be invalid"),
        ("refuse", "invalid-parameters", "colour must be"),
        ("memory_error", "out-of-memory", "Unable to allocate"),
        ("nan", "error", "not finite"),
        ("huge", "error", "too far off"),
    ],
)
def test_a_failure_within_the_fit_has_a_kind_and_costs_no_process(worker, act, kind, says):
    run(worker, "nothing")
    pid = pid_of(worker)
    outcome = run(worker, act)
    assert (outcome.state, outcome.failure, outcome.score) == ("failed", kind, None)
    assert says in outcome.message
    assert run(worker, "nothing").state == "complete"
    assert pid_of(worker) == pid


@pytest.mark.parametrize(
    ("act", "says"), [("segfault", "by SIGSEGV"), ("exit", "with exit code 7"), ("exit_at_once", "with exit code 0")]
)
def test_a_crash_is_survived(worker, act, says):
    outcome = run(worker, act)
    assert (outcome.state, outcome.failure) == ("failed", "crash")
    assert says in outcome.message


def test_a_hang_ends_in_time_and_its_processes_with_it(worker, tmp_path):
    file = tmp_path / "pids"
    run(worker, "nothing")
    start = time.monotonic()
    outcome = run(worker, "hang_with_child", file=str(file), limits={"max_seconds": 1.5})
    assert outcome.failure == "time-out"
    assert "the limit is 1.5 s" in outcome.message
    assert 1.5 < outcome.fit_seconds < 3
    assert time.monotonic() - start < 10
    pids = [int(pid) for pid in file.read_text().split()]
    assert len(pids) == 2
    wait_for(lambda: all(gone(pid) for pid in pids), 5)


def test_the_time_of_imports_is_not_the_trials(worker):
    outcome = run(worker, "slow_import", limits={"max_seconds": 0.4})
    assert outcome.state == "complete"
    assert outcome.fit_seconds < 0.4


def test_memory_is_limited_to_a_tenth(worker):
    base = run(worker, "nothing").peak_memory
    limit = base + 300 * MB
    within = run(worker, "hog", megabytes=270, limits={"max_memory": limit})
    assert within.state == "complete"
    assert base + 260 * MB < within.peak_memory < base + 300 * MB
    outcome = run(worker, "hog", megabytes=3000, limits={"max_memory": limit})
    assert (outcome.state, outcome.failure) == ("failed", "out-of-memory")
    assert limit < outcome.peak_memory < 1.1 * limit
    assert f"the limit is {limit / MB:.0f} MB" in outcome.message


def test_memory_beyond_the_limit_counts_even_if_nobody_was_looking(worker, monkeypatch):
    base = run(worker, "nothing").peak_memory
    monkeypatch.setattr(module, "POLL_MEMORY", 5.0)
    outcome = run(worker, "hog", megabytes=60, limits={"max_memory": base + 50 * MB})
    assert (outcome.state, outcome.failure) == ("failed", "out-of-memory")


def test_a_trial_does_not_inherit_the_memory_of_the_last_one(worker):
    base = run(worker, "nothing").peak_memory
    assert run(worker, "hog", megabytes=200).peak_memory > base + 190 * MB
    assert run(worker, "nothing").peak_memory < base + 30 * MB


def test_a_process_killed_from_outside_is_infrastructure_unless_the_kernel_did_it(worker, monkeypatch):
    with pytest.raises(LostError, match="killed from outside") as caught:
        run(worker, "kill")
    assert caught.value.trials[0].failure == "out-of-memory"
    kills = iter([3, 4])
    monkeypatch.setattr(module, "_kernel_kills", lambda: next(kills))
    assert run(worker, "kill").failure == "out-of-memory"


def test_a_process_lost_before_the_fit_began_may_not_be_the_fits_fault(worker):
    with pytest.raises(LostError) as caught:
        run(worker, "crash_of_import")
    assert (caught.value.trials[0].failure, caught.value.trials[0].message) == (
        "crash",
        "its process ended with exit code 3",
    )


def test_a_process_that_died_while_idle_is_replaced(worker):
    run(worker, "nothing")
    os.kill(pid_of(worker), signal.SIGKILL)
    worker._process.wait()
    assert run(worker, "nothing").state == "complete"


@pytest.mark.parametrize("executable", ["/bin/false", "/no/such/python"])
def test_a_process_that_cannot_start_is_infrastructure(problem, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    with Worker(problem) as worker, pytest.raises(InfrastructureError, match="start"):
        run(worker, "nothing")


def test_a_start_that_takes_too_long_is_infrastructure_and_leaves_nothing(problem, monkeypatch):
    monkeypatch.setattr(module, "START_SECONDS", 0.05)
    with Worker(problem) as worker:
        with pytest.raises(InfrastructureError, match="did not start within"):
            run(worker, "nothing")
        assert worker._process is None


def test_imports_that_take_too_long_are_infrastructure(problem, monkeypatch):
    with Worker(problem) as worker:
        worker._ready(lambda: None)
        monkeypatch.setattr(module, "START_SECONDS", 0.1)
        with pytest.raises(InfrastructureError, match=r"the imports of actor took more than 0\.1 s"):
            run(worker, "slow_import")
        assert worker._process is None


def test_a_start_can_be_broken_off(problem):
    def beat():
        raise KeyboardInterrupt

    before, start = psutil.Process().children(), time.monotonic()
    with pytest.raises(KeyboardInterrupt), Worker(problem) as worker:
        run(worker, "nothing", beat=beat)
    assert time.monotonic() - start < 10
    assert psutil.Process().children() == before


def work_and_hang(problem, file):
    with Worker(problem) as worker:
        run(worker, "hang_with_child", file=file)


def test_the_process_dies_with_the_search(problem, start, tmp_path):
    file = tmp_path / "pids"
    search = start(work_and_hang, problem, str(file))
    wait_for(lambda: file.exists() and len(file.read_text().split()) == 2)
    pid, child = (int(pid) for pid in file.read_text().split())
    try:
        assert not gone(pid)
        os.kill(search.pid, signal.SIGKILL)
        wait_for(lambda: gone(pid), 5)
    finally:
        os.kill(child, signal.SIGKILL)


def test_trials_do_not_depend_on_those_before(worker, problem):
    values = [run(worker, "spoil").predictions[0] for _ in range(2)]
    assert values == [pytest.approx(problem.X_train.iloc[0, 0])] * 2
    numbers = [run(worker, "random", seed=seed).predictions[0] for seed in (1, 1, 2)]
    assert numbers[0] == numbers[1] != numbers[2]


def test_what_a_library_prints_is_no_output_of_the_search(worker, capfd):
    run(worker, "print")
    output = capfd.readouterr()
    assert output.out == ""


def test_threads_are_those_of_the_worker(worker):
    assert run(worker, "threads").predictions[0] == 101


def learn(worker, report, **params):
    job = make_job("learner", {"end": 2.0, **params})
    (outcome,) = worker.run([job], report=report, beat=lambda: None)
    return outcome


def test_a_learning_curve_is_reported_and_can_end_the_fit(worker):
    curve = []

    def report(place, percent, score):
        assert place == 0
        curve.append((percent, score))
        return percent >= 60

    outcome = learn(worker, report, sleep=0.01)
    assert (outcome.state, outcome.score, outcome.failure) == ("pruned", None, None)
    assert outcome.fit_seconds >= 0.06
    assert curve == [(percent, pytest.approx(-percent / 50)) for percent in range(10, 61, 10)]


def test_a_long_curve_has_one_point_a_percent(worker):
    curve = []
    job = make_job("learner", {"end": 2.0, "max_epochs": 450})
    worker.run([job], report=lambda _, *point: bool(curve.append(point)), beat=lambda: None)
    assert [percent for percent, _ in curve] == list(range(101))
