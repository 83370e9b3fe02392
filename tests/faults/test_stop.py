"""Commands that are asked to stop do so soon, say how to go on, and leave no process behind."""

from __future__ import annotations

import signal
import time

import pytest

from flows.services.health import ask, problem
from tests.faults.command import processes_of, running, wait_for
from tests.faults.servers import free_port
from tests.faults.whole import all_runs, store_of
from tests.toys import TOYS

pytestmark = pytest.mark.slow
LONG = ["benchmark", "diabetes", "--methods", "constant", "--budget", "smoke", "--trials", "60", "--verbose"]
SECONDS = 10.0  # within which a command ends after Ctrl-C


def ctrl_c(command):
    command.interrupt()
    return 130


def request_to_end(command):
    command.process.terminate()
    return 143


@pytest.mark.parametrize("stop", [ctrl_c, request_to_end])
def test_a_benchmark_ends_in_good_order_while_trials_run(stop, tmp_path):
    runs = tmp_path / "runs"
    with running(LONG, runs, HOPULAR_PLUGINS=str(TOYS), HOPULAR_TEST_SLEEP="0.5") as command:
        assert command.wait_for_line(3), command.text
        assert command.processes("server")
        assert command.processes("worker")
        start = time.monotonic()
        code = stop(command)
        assert command.end(60) == code, command.text
        took = time.monotonic() - start
        assert took < SECONDS
        words = "hopular benchmark diabetes --methods constant --budget smoke --trials 60"
        assert f"stopped. What is finished is kept; go on with: {words}" in command.text
        wait_for(lambda: not processes_of(runs), 5, "the end of all its processes")
    with store_of(runs) as client:
        assert "RUNNING" not in {run.info.status for run in all_runs(client)}


def check_ui_ends(runs, number, code, meanwhile=lambda address: None):
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with running(["ui", "--port", str(port)], runs) as command:
        wait_for(lambda: "to stop" in command.text or not command.is_running, 120, "the start of MLflow")
        assert problem(f"{address}/health") is None, command.text
        meanwhile(address)
        assert len(processes_of(runs)) > 1
        command.process.send_signal(number)
        assert command.end(30) == code, command.text
        wait_for(lambda: not processes_of(runs), 5, "the end of MLflow")
    assert problem(f"{address}/health")


def test_a_request_to_end_ui_ends_its_mlflow_server_which_wants_no_usage_data(tmp_path, monkeypatch):
    for name in ("PYTEST_CURRENT_TEST", "CI", "GITHUB_ACTIONS"):  # by which MLflow would turn telemetry off itself
        monkeypatch.delenv(name, raising=False)

    def ask_for_telemetry(address):
        place = f"{address}/ajax-api/3.0/mlflow/ui-telemetry"
        assert ask(place)["disable_ui_telemetry"] is True
        assert ask(place, {"records": [{"event_name": "x"}]}) == {"status": "disabled"}

    check_ui_ends(tmp_path / "runs", signal.SIGTERM, 143, ask_for_telemetry)


@pytest.mark.soak
def test_ctrl_c_ends_ui_and_its_mlflow_server(tmp_path):
    check_ui_ends(tmp_path / "runs", signal.SIGINT, 130)
