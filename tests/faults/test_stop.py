"""Commands that are asked to stop do so soon, say how to go on, and leave no process behind."""

from __future__ import annotations

import signal
import time

import pytest

from flows.services.http import problem
from tests.faults.command import processes_of, running, wait_for
from tests.faults.servers import free_port
from tests.faults.whole import all_runs, store_of
from tests.toys import TOYS

pytestmark = pytest.mark.slow
LONG = ["benchmark", "diabetes", "--methods", "constant", "--budget", "smoke", "--trials", "60", "--verbose"]
SECONDS = 10.0  # within which a command ends after Ctrl-C


def test_ctrl_c_of_a_terminal_ends_a_benchmark_while_trials_run(tmp_path):
    runs = tmp_path / "runs"
    with running(LONG, runs, HOPULAR_PLUGINS=str(TOYS), HOPULAR_TEST_SLEEP="0.5") as command:
        assert command.wait_for_line(3), command.text
        assert command.processes("server")
        assert command.processes("worker")
        start = time.monotonic()
        command.interrupt()
        assert command.end(60) == 130, command.text
        took = time.monotonic() - start
        assert took < SECONDS
        words = "hopular benchmark diabetes --methods constant --budget smoke --trials 60"
        assert f"stopped. What is finished is kept; go on with: {words}" in command.text
        wait_for(lambda: not processes_of(runs), 5, "the end of all its processes")
    with store_of(runs) as client:
        assert "RUNNING" not in {run.info.status for run in all_runs(client)}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_ui_ends_its_mlflow_server_too(tmp_path, number, code):
    runs, port = tmp_path / "runs", free_port()
    with running(["ui", "--port", str(port)], runs) as command:
        wait_for(lambda: "to stop" in command.text or not command.is_running, 120, "the start of MLflow")
        assert problem(f"http://127.0.0.1:{port}/health") is None, command.text
        assert len(processes_of(runs)) > 1
        command.process.send_signal(number)
        assert command.end(30) == code, command.text
        wait_for(lambda: not processes_of(runs), 5, "the end of MLflow")
    assert problem(f"http://127.0.0.1:{port}/health")
