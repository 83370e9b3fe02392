"""The plugin without a server; tests/e2e/test_services.py runs it against a real one."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from pathlib import Path

import psutil
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound
from prefect.plugins import HookContext

from flows import plugin
from flows.services.state import Process, State, state_file, write_state
from hopular import settings

CONTEXT = HookContext(prefect_version="3", api_url=None, logger_factory=lambda name: None)  # type: ignore[arg-type, return-value]


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


def services(started: float) -> None:
    write_state(State("abc", "127.0.0.1", 4321, 5000, processes=(Process("prefect", os.getpid(), started),)))


def test_prefect_loads_it() -> None:
    found = [point for point in entry_points(group="prefect.plugins") if point.name == "hopular"]
    assert [point.load() for point in found] == [plugin]


def test_the_address_is_that_of_the_running_services() -> None:
    services(psutil.Process().create_time())
    result = plugin.setup_environment(ctx=CONTEXT)
    assert result is not None
    assert result.env["PREFECT_API_URL"] == "http://127.0.0.1:4321/api"


def test_an_address_in_the_environment_has_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    services(psutil.Process().create_time())
    monkeypatch.setenv("PREFECT_API_URL", "")
    assert plugin.setup_environment(ctx=CONTEXT) is None


def test_nothing_is_changed_without_services() -> None:
    assert plugin.setup_environment(ctx=CONTEXT) is None
    services(started=1.0)  # a record of processes that have ended
    assert plugin.setup_environment(ctx=CONTEXT) is None


def test_a_run_without_a_server_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/prefect", "deployment", "run", "hopular-benchmark"])
    with pytest.raises(SystemExit, match="No Prefect server is running here: start one with `hopular up --detach`"):
        plugin.setup_environment(ctx=CONTEXT)
    monkeypatch.setattr(sys, "argv", [".venv/bin/prefect", "version"])
    assert plugin.setup_environment(ctx=CONTEXT) is None


@pytest.mark.parametrize(
    ("program", "expected"),
    [("prefect", True), ("/x/bin/prefect", True), ("/x/prefect/__main__.py", True), ("/x/bin/pytest", False)],
)
def test_the_command_line_is_recognised(program: str, expected: bool) -> None:
    assert plugin._is_prefect_command([program]) is expected


def test_a_worker_keeps_results_in_the_runs_folder_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PREFECT_HOME", *plugin._RESULTS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", [".venv/bin/prefect", "worker", "start", "--pool", "hopular-pool"])
    result = plugin.setup_environment(ctx=CONTEXT)
    assert result is not None
    assert result.env == {"PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(tmp_path / "runs" / "prefect" / "storage")}
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    assert plugin.setup_environment(ctx=CONTEXT) is None


def test_the_client_is_taught_once() -> None:
    plugin.accept_bare_names()
    taught = PrefectClient.read_deployment_by_name
    plugin.accept_bare_names()
    assert PrefectClient.read_deployment_by_name is taught


def test_a_refusal_is_an_error_in_python_and_a_message_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    error = plugin._refusal("There is no deployment 'x'.")
    assert isinstance(error, ObjectNotFound)
    assert str(error) == "There is no deployment 'x'."
    monkeypatch.setattr(sys, "argv", ["prefect"])
    assert isinstance(plugin._refusal("no"), SystemExit)


def test_the_state_is_beside_the_results() -> None:
    assert state_file() == settings.runs_folder() / "services.json"
