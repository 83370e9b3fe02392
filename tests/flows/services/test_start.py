"""What is refused before anything is started, and the environment that the services get."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.services import start as starting
from flows.services.environment import service_environment, tracking_store
from flows.services.http import problem
from flows.services.ports import check_port
from flows.services.start import Places, mlflow_command, project_folder, start
from flows.services.state import State, read_state, write_state

STATE = State("abc", "127.0.0.1", 4200, 5000)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on, without ever answering."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_port_in_use_names_who_has_it_and_the_option(taken: int) -> None:
    with pytest.raises(ValueError, match=rf"port {taken} for Prefect is in use by .*{os.getpid()}.*--prefect-port"):
        start(Places(prefect_port=taken, mlflow_port=free_port()), print)
    with pytest.raises(ValueError, match=rf"port {taken} for MLflow is in use by .* HOPULAR_MLFLOW_PORT"):
        start(Places(prefect_port=free_port(), mlflow_port=taken), print)
    assert read_state() is None


def test_ports_and_hosts_that_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"port 0 for Prefect does not exist: use a number from 1 to 65535"):
        check_port("prefect", "127.0.0.1", 0)
    with pytest.raises(ValueError, match=r"host 'no\.such\.host\.invalid' is unknown"):
        check_port("prefect", "no.such.host.invalid", 4200)
    with pytest.raises(ValueError, match=r"MLflow cannot listen on 192\.0\.2\.1 port \d+ .* with --port"):
        check_port("mlflow", "192.0.2.1", free_port(), option="--port")
    with pytest.raises(ValueError, match="both servers cannot use port 4200: change"):
        start(Places(mlflow_port=4200), print)


def test_a_tracking_server_of_the_users_must_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with pytest.raises(ValueError, match=rf"MLFLOW_TRACKING_URI={address} does not answer .*: start that server"):
        start(Places(prefect_port=free_port()), print)


def test_a_server_that_accepts_but_never_answers_is_a_problem(taken: int) -> None:
    assert "does not answer" in str(problem(f"http://127.0.0.1:{taken}/health", seconds=0.2))


def test_a_second_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    write_state(STATE)
    monkeypatch.setattr(starting, "is_running", lambda state: True)
    with pytest.raises(ValueError, match=r"being started already .* see `hopular status`"):
        start(Places(prefect_port=free_port(), mlflow_port=free_port()), print)
    assert read_state() == STATE


def test_the_project_is_where_prefect_yaml_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    repository = Path(__file__).parents[3]
    assert project_folder() == repository
    (tmp_path / "prefect.yaml").touch()
    assert project_folder() == tmp_path


def test_a_server_that_cannot_start_is_reported_with_its_log(monkeypatch: pytest.MonkeyPatch, runs: Path) -> None:
    monkeypatch.setattr(starting, "prefect_command", lambda state: ["/bin/sh", "-c", "echo no database; exit 3"])
    monkeypatch.setattr(starting, "mlflow_command", lambda host, port: ["/bin/sleep", "60"])
    with pytest.raises(
        RuntimeError, match=r"Prefect ended while it was starting:\n  no database\nAll of it is in .*log"
    ):
        start(Places(prefect_port=free_port(), mlflow_port=free_port()), print)
    assert read_state() is None


def test_the_environment_is_local_and_quiet(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "intern.lan")
    environment = service_environment(STATE)
    assert environment["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
    assert environment["PREFECT_HOME"] == str(runs / "prefect")
    assert environment["HOPULAR_RUNS"] == str(runs)
    assert environment["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:5000"
    assert environment["NO_PROXY"] == "intern.lan,127.0.0.1,localhost,::1"
    assert environment["DO_NOT_TRACK"] == environment["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"


def test_the_tracking_server_uses_the_store_of_plain_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.tracking.store import tracking_uri

    assert tracking_store() == tracking_uri() == f"sqlite:///{runs / 'mlflow.db'}"
    words = mlflow_command("127.0.0.1", 5000)
    assert words[words.index("--backend-store-uri") + 1] == tracking_uri()
    assert words[words.index("--default-artifact-root") + 1] == (runs / "artifacts").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://db/mlflow")
    assert tracking_store() == "postgresql://db/mlflow"
