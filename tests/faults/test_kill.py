"""Killed and started again, a benchmark ends as if nothing had happened."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.faults.command import processes_of, running, scratch_of, wait_for
from tests.faults.whole import all_runs, check_nothing_left, check_store, check_whole, score_table, store_of

pytestmark = pytest.mark.slow
FEW = ["benchmark", "iris", "diabetes", "--methods", "glm,majority,mean", "--budget", "smoke", "--verbose"]
MANY = ["benchmark", "iris", "wine", "diabetes", "--methods", "glm,decision_tree,knn,majority,mean"]
MANY += ["--budget", "smoke", "--trials", "12", "--grid-trials", "4", "--verbose"]
KILLS = 20
IMPATIENT = {"PREFECT_CLIENT_MAX_RETRIES": "1"}  # a server that is gone is gone


@pytest.mark.soak
def test_a_worker_and_then_the_command_are_killed(tmp_path, through_server, said):
    runs, calm = tmp_path / "killed", tmp_path / "calm"
    with running(FEW, calm, **through_server) as command:
        assert command.end() == 0, command.text
    with running(FEW, runs, **through_server) as command:
        assert command.wait_for_line(2)
        wait_for(lambda: command.kill("worker") or not command.is_running)
        assert command.wait_for_line(5), command.text  # a lost process cost a try, and nothing else
        time.sleep(random.uniform(0, 1))
        command.kill("parent")
        assert command.end() == -9
        seen = len(command.lines)
        wait_for(lambda: not processes_of(runs), 15, "the end of the worker processes")
    with running(FEW, runs, **through_server) as command:
        assert command.end() == 0, command.text
    check_whole(runs, score_table(calm), units=4)
    said(
        f"killed a worker and the command after {seen} lines of progress: same scores, nothing missing, double or left"
    )


@pytest.mark.soak
def test_ctrl_c_ends_with_130_and_the_command_that_goes_on(tmp_path, through_server, said):
    runs = tmp_path / "runs"
    with running(FEW, runs, **through_server) as command:
        assert command.wait_for_line(2)
        command.process.send_signal(signal.SIGINT)
        assert command.end(120) == 130, command.text
        words = "hopular benchmark iris diabetes --methods glm,majority,mean --budget smoke"
        assert f"stopped. What is finished is kept; go on with: {words}" in command.text
    with store_of(runs) as client:
        assert "RUNNING" not in {run.info.status for run in all_runs(client)}
    with running(words.split()[1:], runs, **through_server) as command:
        assert command.end() == 0, command.text
    with store_of(runs) as client:
        check_store(client, units=4)
    said("Ctrl-C in the midst: exit code 130, and the command that it named completed the benchmark")


@pytest.mark.soak
def test_killed_at_random_moments(tmp_path, said):
    moments, runs, calm = random.Random(time.time_ns()), tmp_path / "killed", tmp_path / "calm"
    with running(MANY, calm) as command:
        assert command.end() == 0, command.text
    kills: list[str] = []
    while len(kills) < KILLS:
        victim = moments.choice(["parent", "parent", "server", "worker"])
        with running(MANY, runs, **IMPATIENT) as command:
            if moments.random() < 0.2:  # while it starts
                time.sleep(moments.uniform(0, 30))
            else:  # soon after it has gone further than the last time
                wait_for_news(command, moments.randint(1, 4))
                time.sleep(moments.uniform(0, 1))
            assert command.is_running, "it ended before it could be killed often enough"
            if not command.kill(victim):
                victim = "parent"
                command.kill(victim)
            kills.append(f"{victim} after {len(fresh(command))} new lines")
            if victim != "parent":  # the work goes on, for a while
                time.sleep(moments.uniform(0, 5))
                command.kill("parent")
            command.end(30)
            wait_for(lambda: not processes_of(runs), 30, "the end of all processes")
    with running(MANY, runs) as command:
        assert command.end() == 0, command.text
    check_whole(runs, score_table(calm), units=12)
    said(f"{len(kills)} kills ({', '.join(kills)}): same scores, nothing missing, double or left")


@pytest.mark.soak
def test_without_its_server_a_command_ends_with_a_clear_message(tmp_path, said):
    runs = tmp_path / "runs"
    with running(FEW, runs, **IMPATIENT) as command:
        wait_for_news(command, 1)
        assert command.kill("server")
        start = time.monotonic()
        assert command.end(400) == 1
        took = time.monotonic() - start
    assert "the Prefect server does not answer any more" in command.text
    assert "go on with: hopular benchmark iris diabetes" in command.text
    with running(FEW, runs) as command:
        assert command.end() == 0, command.text
    check_whole(runs, score_table(runs), units=4)
    said(f"its own server killed: the command did what it could and ended {took:.0f} s later; a restart completed it")


def wait_for_news(command, lines):
    wait_for(lambda: not command.is_running or len(fresh(command)) >= lines, 900)


def fresh(command):
    """Lines of progress that were not there in an earlier run: trials, and units that were not finished before."""
    return [line for line in command.lines[1:] if not line.endswith("(finished before)")]


@pytest.mark.soak
def test_temporary_files_of_the_dead_are_swept(tmp_path, through_server):
    runs = tmp_path / "runs"
    with running(FEW, runs, **through_server) as command:
        assert command.wait_for_line(1)
        wait_for(lambda: any((runs / "tmp").glob("*/*/*")) or not command.is_running)
        command.kill("parent")
        command.end()
    assert list((runs / "tmp").glob("*/*"))
    with running(FEW, runs, **through_server) as command:
        assert command.end() == 0, command.text
    assert not list((runs / "tmp").glob("*/*"))
    assert not list(scratch_of(runs).iterdir())
    check_nothing_left(runs)
