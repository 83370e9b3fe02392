"""The real servers, worker and command lines, from start to end. The tests of this file run in order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.services.health import ask
from flows.services.processes import marked
from flows.services.state import State

pytestmark = [pytest.mark.slow, pytest.mark.soak]
REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
FLOWS = """
import os, time
from pathlib import Path
from prefect import flow

@flow(name="tiny-flow")
def tiny(x: int = 1):
    Path("tiny").write_text(f"{x} {os.environ['HOPULAR_RUNS']} {os.environ['MLFLOW_TRACKING_URI']}")

@flow(name="slow-flow")
def slow():
    Path("slow").write_text(str(os.getpid()))
    time.sleep(300)
"""
DEPLOYMENTS = """
name: test
pull:
  - prefect.deployments.steps.set_working_directory: {directory: "{{ $PWD }}"}
deployments:
  - {name: tiny, entrypoint: "own.py:tiny", work_pool: {name: hopular-pool}}
  - {name: slow, entrypoint: "own.py:slow", work_pool: {name: hopular-pool}}
  - {name: twin, entrypoint: "own.py:tiny", work_pool: {name: hopular-pool}}
  - {name: twin, entrypoint: "own.py:slow", work_pool: {name: hopular-pool}}
"""


@dataclass(frozen=True)
class Project:
    """A project of its own with two small flows, and its runs folder."""

    folder: Path
    ports: tuple[int, int]

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def state(self) -> State:
        values = json.loads((self.runs / "services.json").read_text())
        return State(**{**values, "processes": ()})

    def environment(self) -> dict[str, str]:
        own = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "HOPULAR_"))}
        ports = {"HOPULAR_PREFECT_PORT": str(self.ports[0]), "HOPULAR_MLFLOW_PORT": str(self.ports[1])}
        return {**own, **ports, "HOPULAR_RUNS": str(self.runs), "COLUMNS": "200"}

    def hopular(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(BIN / "hopular"), *words]
        return _run(command, self.folder, {**self.environment(), **environment})

    def prefect(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Prefect's own command line, typed in the repository, where prefect.toml enables the plugin."""
        return _run([str(BIN / "prefect"), *words], REPOSITORY, self.environment())


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return one.getsockname()[1], two.getsockname()[1]


def _wait_for(condition: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds:.0f} s"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "own.py").write_text(FLOWS)
    (folder / "prefect.yaml").write_text(DEPLOYMENTS)
    project = Project(folder, _free_ports())
    try:
        yield project
    finally:
        project.hopular("down")


@pytest.fixture(scope="module")
def services(project: Project) -> State:
    done = project.hopular("up", "--detach")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Prefect UI    http://127.0.0.1:{project.ports[0]}" in done.stdout
    assert f"MLflow UI     http://127.0.0.1:{project.ports[1]}" in done.stdout
    return project.state


def test_all_is_healthy_and_on_loopback_only(project: Project, services: State) -> None:
    done = project.hopular("status", "--json")
    assert done.returncode == 0, done.stdout
    answer = json.loads(done.stdout)
    assert answer["healthy"] is True
    assert set(answer["services"]) == {"prefect", "mlflow", "worker", "deployments"}
    assert answer["services"]["deployments"]["detail"] == "slow, tiny, twin, twin"
    listening = {
        connection.laddr.ip
        for process in marked(services.mark)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    assert ask(f"{services.api_url}/v2/concurrency_limits/gpu")["limit"] >= 1


def test_a_second_up_changes_nothing_and_its_ports_are_taken_for_others(project: Project, services: State) -> None:
    again = project.hopular("up", "--detach")
    assert again.returncode == 0
    assert "The services are up already." in again.stdout
    assert project.state.mark == services.mark
    other = project.hopular("up", "--detach", HOPULAR_RUNS=str(project.folder / "other"))
    assert other.returncode == 2
    assert f"port {project.ports[0]} for Prefect is in use by" in other.stderr
    assert "--prefect-port" in other.stderr
    assert not (project.folder / "other" / "services.json").exists()


def test_a_deployment_runs_by_its_bare_name(project: Project, services: State) -> None:
    done = project.prefect("deployment", "run", "tiny", "--param", "x=7", "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Creating flow run for deployment 'tiny-flow/tiny'" in done.stdout
    assert "finished successfully" in done.stdout
    assert (project.folder / "tiny").read_text() == f"7 {project.runs} {services.mlflow_url}"


def test_a_wrong_name_is_refused_with_the_nearest(project: Project, services: State) -> None:
    done = project.prefect("deployment", "run", "tinny")
    assert done.returncode == 1
    assert "There is no deployment 'tinny'. Did you mean 'tiny'?" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_full_names_work_as_ever_and_bare_ones_must_be_clear(services: State) -> None:
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.plugin import accept_bare_names

    async def look() -> None:
        async with get_client() as client:
            assert (await client.read_deployment_by_name("tiny-flow/twin")).name == "twin"
            with pytest.raises(ObjectNotFound, match="say which one, slow-flow/twin, tiny-flow/twin"):
                await client.read_deployment_by_name("twin")
            with pytest.raises(ObjectNotFound):
                await client.read_deployment_by_name("tiny-flow/none")

    accept_bare_names()
    with temporary_settings({PREFECT_API_URL: services.api_url}):
        asyncio.run(look())


@pytest.mark.parametrize("name", ["mlflow", "prefect", "worker"])
def test_what_is_killed_comes_back(project: Project, services: State, name: str) -> None:
    before = _kill(project, name)
    _wait_for(lambda: _process(project, name) != before)
    _wait_for(lambda: project.hopular("status").returncode == 0, seconds=120)
    log = (project.runs / "logs" / "supervisor.log").read_text()
    assert f"{name} ended and is restarted" in log


def _process(project: Project, name: str) -> dict[str, Any]:
    processes = json.loads((project.runs / "services.json").read_text())["processes"]
    return next(process for process in processes if process["name"] == name)


def _kill(project: Project, name: str) -> dict[str, Any]:
    process = _process(project, name)
    psutil.Process(process["pid"]).kill()
    return process


def _start_slow_run(project: Project, services: State) -> dict[str, Any]:
    (project.folder / "slow").unlink(missing_ok=True)
    (slow,) = ask(f"{services.api_url}/deployments/filter", {"deployments": {"name": {"any_": ["slow"]}}})
    run: dict[str, Any] = ask(f"{services.api_url}/deployments/{slow['id']}/create_flow_run", {})
    _wait_for((project.folder / "slow").exists)
    return run


def test_a_flow_run_ends_with_its_worker_and_the_server_knows(project: Project, services: State) -> None:
    run = _start_slow_run(project, services)
    before = _kill(project, "worker")
    _wait_for(lambda: _process(project, "worker") != before)
    assert not psutil.pid_exists(int((project.folder / "slow").read_text()))
    state = ask(f"{services.api_url}/flow_runs/{run['id']}")["state"]
    assert state["type"] == "CRASHED"


def test_down_ends_everything_also_after_a_crash_in_the_middle_of_a_run(project: Project, services: State) -> None:
    _start_slow_run(project, services)
    _kill(project, "supervisor")
    _kill(project, "mlflow")
    broken = project.hopular("status")
    assert broken.returncode == 1
    assert "MLflow" in broken.stdout
    assert "has stopped; its log" in broken.stdout
    assert "services which end are not restarted" in broken.stdout
    done = project.hopular("down")
    assert done.returncode == 0, done.stderr
    assert marked(services.mark) == []
    assert not psutil.pid_exists(int((project.folder / "slow").read_text()))
    assert project.hopular("down").stdout == "No services are running.\n"
    assert project.hopular("status").returncode == 1


def test_ctrl_c_ends_an_up_in_the_foreground(project: Project) -> None:
    command = [str(BIN / "hopular"), "up"]
    with (project.folder / "screen").open("w") as screen:
        started = subprocess.Popen(command, cwd=project.folder, env=project.environment(), stdout=screen, stderr=screen)
    _wait_for(lambda: "Ctrl-C" in (project.folder / "screen").read_text(), seconds=120)
    state = project.state
    assert state.is_ready
    runs = ask(f"{state.api_url}/flow_runs/filter", {})
    assert sorted(run["state"]["type"] for run in runs) == [
        "COMPLETED",
        "CRASHED",
        "CRASHED",
    ]  # none is left as running
    started.send_signal(signal.SIGINT)
    assert started.wait(timeout=60) == 130
    assert marked(state.mark) == []
    assert (project.folder / "screen").read_text().endswith("All services are stopped.\n")
    assert not (project.runs / "services.json").exists()
