"""Starting: what is refused before anything runs. Supervising: what ends is restarted. Stopping: nothing is left."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import psutil
import pytest

from flows.services import lifecycle
from flows.services.health import check_mlflow, is_running, problem
from flows.services.lifecycle import is_left_behind, mlflow_command, new_state, project_folder, start, stop, supervise
from flows.services.processes import find, launch, marked
from flows.services.state import (
    MARK,
    Process,
    State,
    claim_state,
    log_file,
    read_state,
    service_environment,
    state_file,
    tracking_store,
    write_state,
)
from tests.flows.services.conftest import PARENT, SLEEP, free_port, started, wait_for

HOST = "127.0.0.1"
STATE = State("abc", HOST, 4200, 5000)


def test_a_port_in_use_names_who_has_it_and_the_option(taken: int) -> None:
    with pytest.raises(ValueError, match=rf"port {taken} for Prefect is in use by .*{os.getpid()}.*--prefect-port"):
        start(HOST, taken, free_port(), print)
    with pytest.raises(ValueError, match=rf"port {taken} for MLflow is in use by .* HOPULAR_MLFLOW_PORT"):
        start(HOST, free_port(), taken, print)
    with pytest.raises(ValueError, match="both servers cannot use port 4200: change"):
        start(HOST, 4200, 4200, print)
    assert read_state() is None


def test_a_tracking_server_of_the_users_must_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with pytest.raises(ValueError, match=rf"MLFLOW_TRACKING_URI={address} does not answer .*: start that server"):
        start(HOST, free_port(), 5000, print)


def test_a_second_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    write_state(STATE)
    monkeypatch.setattr(lifecycle, "is_running", lambda state: True)
    with pytest.raises(ValueError, match=r"being started already .* see `hopular status`"):
        start(HOST, free_port(), free_port(), print)
    assert read_state() == STATE


def test_the_project_is_where_prefect_yaml_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    repository = Path(__file__).parents[3]
    assert project_folder() == repository
    (tmp_path / "prefect.yaml").touch()
    assert project_folder() == tmp_path


def test_a_server_that_cannot_start_is_reported_with_its_log(monkeypatch: pytest.MonkeyPatch, runs: Path) -> None:
    commands = {"prefect": ["/bin/sh", "-c", "echo no database; exit 3"], "mlflow": ["/bin/sleep", "60"]}
    monkeypatch.setattr(lifecycle, "_command", lambda state, name: commands[name])
    with pytest.raises(
        RuntimeError, match=r"Prefect ended while it was starting:\n  no database\nAll of it is in .*log"
    ):
        start(HOST, free_port(), free_port(), print)
    assert read_state() is None


def test_of_two_commands_at_once_the_second_leaves_the_first_alone() -> None:
    first = new_state(HOST, 4200, 5000, None)
    assert claim_state(first)
    assert read_state() == first
    assert not claim_state(new_state(HOST, 4200, 5000, None))
    assert not is_left_behind(first)
    assert is_left_behind(replace(first, starter=Process("up", 2**22 + 1, 0.0)))
    assert is_left_behind(replace(first, is_ready=True))  # its services have ended since


def test_the_tracking_server_uses_the_store_of_plain_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.tracking.store import tracking_uri

    assert tracking_store() == tracking_uri() == f"sqlite:///{runs / 'mlflow.db'}"
    words = mlflow_command("127.0.0.1", 5000)
    assert words[words.index("--backend-store-uri") + 1] == tracking_uri()
    assert words[words.index("--default-artifact-root") + 1] == (runs / "artifacts").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://db/mlflow")
    assert tracking_store() == "postgresql://db/mlflow"


@contextmanager
def supervised(state: State) -> Iterator[None]:
    """Supervise services that have been started, and leave none of them after the block."""
    write_state(replace(state, is_ready=True))
    thread = Thread(target=supervise, args=(state.mark,))
    thread.start()
    try:
        yield
    finally:
        stop(state, seconds=0)
        thread.join(10)
        assert marked(state.mark) == []


def kill(name: str) -> Process:
    """Kill the process of a service, and return it as it was recorded."""
    state = read_state()
    assert state is not None
    process = state.process(name)
    found = find(process)
    assert process is not None
    assert found is not None
    found.kill()
    return process


def restarted(before: Process) -> bool:
    state = read_state()
    assert state is not None
    return state.process(before.name) != before and find(state.process(before.name)) is not None


@pytest.mark.parametrize("name", ["mlflow", "worker"])
def test_a_service_that_ended_is_restarted_without_what_it_left(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", PARENT]
    monkeypatch.setattr(lifecycle, "_command", lambda state, name: command)
    state = State("m7", HOST, 1, 2)
    with supervised(state.with_process(launch(name, command, service_environment(state, name), tmp_path))):
        wait_for(lambda: len(marked("m7")) == 2)
        old = {process.pid for process in marked("m7")}
        before = kill(name)
        wait_for(lambda: restarted(before))
        wait_for(lambda: len({process.pid for process in marked("m7")} - old) == 2)
        assert not old & {process.pid for process in marked("m7")}


def test_a_service_that_ends_again_and_again_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "_command", lambda state, name: ["/bin/sh", "-c", "echo no database"])
    monkeypatch.setattr(lifecycle, "_MOST_RESTARTS", 2)
    state = State("m8", HOST, 1, 2, processes=(Process("mlflow", 2**22 + 1, 0.0),))
    with supervised(state):
        wait_for(lambda: (found := read_state()) is not None and found.given_up, seconds=30)
        latest = read_state()
        assert latest is not None
        assert latest.given_up == ("mlflow",)
        assert check_mlflow(latest).detail.startswith("has stopped again and again, and is not restarted any more")
        assert log_file("mlflow").read_text() == "no database\n" * 2


@pytest.mark.slow
def test_a_killed_mlflow_server_comes_back(tmp_path: Path) -> None:
    state = State("m9", HOST, 1, free_port())
    command = mlflow_command(HOST, state.mlflow_port)
    state = state.with_process(launch("mlflow", command, service_environment(state, "mlflow"), tmp_path))
    with supervised(state):
        wait_for(lambda: check_mlflow(state).is_healthy, seconds=120)
        before = kill("mlflow")
        wait_for(lambda: restarted(before), seconds=20)
        latest = read_state()
        assert latest is not None
        wait_for(lambda: check_mlflow(latest).is_healthy, seconds=120)
    assert "does not answer" in str(problem(f"{state.mlflow_url}/health"))


def test_stop_ends_what_a_crashed_worker_left_behind(tmp_path: Path) -> None:
    with started(tmp_path, PARENT, "m4") as process:
        state = State("m4", "127.0.0.1", 1, 2, processes=(process,))
        write_state(state)
        wait_for(lambda: len(marked("m4")) == 2)
        psutil.Process(process.pid).kill()
        wait_for(lambda: not is_running(state))
        assert len(marked("m4")) == 1
        stop(state)
        assert marked("m4") == []
        assert not state_file().exists()
        stop(state)


def test_stop_spares_a_stranger_who_has_the_number_now(tmp_path: Path) -> None:
    with started(tmp_path, SLEEP, "stranger") as process:
        state = State("m5", "127.0.0.1", 1, 2, processes=(replace(process, started=process.started - 3600),))
        write_state(state)
        stop(state)
        assert find(process) is not None
        assert read_state() is None


def test_stop_leaves_the_record_of_a_later_start_alone() -> None:
    later = State("later", "127.0.0.1", 1, 2)
    write_state(later)
    stop(State("earlier", "127.0.0.1", 1, 2))
    assert read_state() == later


@pytest.mark.parametrize("order", [("worker", "prefect"), ("prefect", "worker")])
def test_the_worker_ends_before_the_server(tmp_path: Path, order: tuple[str, str]) -> None:
    code = (
        "import signal, sys, time, pathlib\n"
        "def end(*_):\n"
        f"    with open({str(tmp_path / 'ends')!r}, 'a') as file: file.write(sys.argv[1] + ' ')\n"
        "    time.sleep(0.3); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); pathlib.Path(sys.argv[1]).touch(); time.sleep(60)"
    )
    processes = tuple(
        launch(name, [sys.executable, "-c", code, name], {**os.environ, MARK: f"m6:{name}"}, tmp_path) for name in order
    )
    wait_for(lambda: all((tmp_path / name).exists() for name in order))
    stop(State("m6", "127.0.0.1", 1, 2, processes=processes))
    assert (tmp_path / "ends").read_text() == "worker prefect "
    assert marked("m6") == []
