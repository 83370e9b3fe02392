"""Killed and started again, a benchmark ends as if nothing had happened."""

from __future__ import annotations

import random
import time

import pytest

from tests.faults.command import processes_of, running, scratch_of, wait_for
from tests.faults.whole import check_nothing_left, check_whole, score_table

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]
FEW = ["benchmark", "iris", "diabetes", "--methods", "glm,majority,mean", "--budget", "smoke", "--verbose"]
MANY = ["benchmark", "iris", "wine", "diabetes", "--methods", "glm,decision_tree,knn,majority,mean"]
MANY += ["--budget", "smoke", "--verbose"]
KILLS = 20
IMPATIENT = {"PREFECT_CLIENT_MAX_RETRIES": "1"}  # a server that is gone is gone


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
def test_killed_at_random_moments(tmp_path, said):
    moments, runs, calm = random.Random(time.time_ns()), tmp_path / "killed", tmp_path / "calm"
    with running(MANY, calm) as command:
        assert command.end() == 0, command.text
    kills: list[str] = []
    while len(kills) < KILLS:
        victim = moments.choice(["parent", "parent", "server", "worker"])
        with running(MANY, runs, **IMPATIENT) as command:
            line = moments.randint(0, 20)
            if not command.wait_for_line(line):
                break
            time.sleep(moments.uniform(0, 2 if line else 25))
            if not command.kill(victim):
                victim = "parent"
                command.kill(victim)
            kills.append(f"{victim} after {len(command.lines)} lines")
            if victim == "worker":
                time.sleep(moments.uniform(0, 5))
                command.kill("parent")
            elif victim == "server":  # the command ends by itself, and says why
                code = command.end(400)
                assert code == 0 or "go on with: hopular benchmark" in command.text, command.text
            command.end(30)
            wait_for(lambda: not processes_of(runs), 30, "the end of all processes")
    with running(MANY, runs) as command:
        assert command.end() == 0, command.text
    check_whole(runs, score_table(calm), units=12)
    said(f"{len(kills)} kills ({', '.join(kills)}): same scores, nothing missing, double or left")


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
