"""Start: servers, work pool, worker and deployments, in the order in which they need one another."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.error import HTTPError
from uuid import uuid4

import flows
from flows.gpu import LIMIT, gpu_count
from flows.services.environment import service_environment, tracking_server, tracking_store
from flows.services.health import POOL, Check, check_mlflow, check_prefect, check_worker, worker_name
from flows.services.http import ask, problem
from flows.services.ports import check_port
from flows.services.processes import find, launch, this_process
from flows.services.state import State, claim_state, log_file, read_state, state_file, write_state
from flows.services.stop import is_running, stop
from flows.tracking.store import make_sqlite, one_at_a_time
from hopular import settings
from hopular.redaction import without_secrets

BUSY_SECONDS = 30.0  # for which a server that has just started may be busy with itself
PATIENCE = 180.0  # seconds; a new database on a busy machine takes 60


@dataclass(frozen=True)
class Places:
    """Where the servers listen."""

    host: str = "127.0.0.1"
    prefect_port: int = 4200
    mlflow_port: int = 5000


def start(places: Places, say: Callable[[str], None]) -> State:
    """Bring everything up and return when all of it is healthy; if anything fails, all of it is taken down again.

    `say` is told what is being waited for.
    """
    project = project_folder()
    old = read_state()
    if old is not None and is_left_behind(old):
        stop(old)
    tracking = tracking_server()
    _check_places(places, tracking)
    state = new_state(places, tracking)
    if not claim_state(state):
        raise ValueError(f"the services are being started already ({state_file()} exists): see `hopular status`")
    try:
        return _start(state, project, say)
    except BaseException:
        stop(read_state() or state)
        raise


def is_left_behind(state: State) -> bool:
    """Whether a crash left this record: nothing of it runs, nor does the command that was starting it."""
    is_starting = not state.is_ready and find(state.starter) is not None
    return not is_starting and not is_running(state)


def new_state(places: Places, tracking: str | None) -> State:
    """The record of services to be started; it has the address of a tracking server without a password."""
    public = None if tracking is None else without_secrets(tracking)
    mark, starter = uuid4().hex[:8], this_process()
    return State(mark, places.host, places.prefect_port, places.mlflow_port, public, starter=starter)


def project_folder() -> Path:
    """The folder with prefect.yaml: the working folder, or else the one that this package lies in."""
    folders = (Path.cwd(), Path(flows.__file__).resolve().parents[1])
    for folder in folders:
        if (folder / "prefect.yaml").is_file():
            return folder
    raise ValueError(f"there is no prefect.yaml in {folders[0]}: run this in the folder of the project")


def _check_places(places: Places, tracking: str | None) -> None:
    if places.prefect_port == places.mlflow_port:
        raise ValueError(f"both servers cannot use port {places.prefect_port}: change --prefect-port or --mlflow-port")
    check_port("prefect", places.host, places.prefect_port)
    if tracking is None:
        check_port("mlflow", places.host, places.mlflow_port)
        return
    trouble = problem(f"{without_secrets(tracking).rstrip('/')}/health")
    if trouble:
        raise ValueError(
            f"MLFLOW_TRACKING_URI={without_secrets(tracking)} {trouble}: start that server, or unset it to have one "
            "started"
        )


def _start(state: State, project: Path, say: Callable[[str], None]) -> State:
    say("starting the servers (the first time takes half a minute)")
    state = _launch(state, "prefect", prefect_command(state), project)
    if state.tracking is None:
        state = _launch(state, "mlflow", mlflow_command(state.host, state.mlflow_port), project)
    _wait(state, "prefect", lambda: check_prefect(state))
    say("starting the worker")
    state = _launch(state, "worker", worker_command(state), project)
    _set_gpu_limit(state)
    _wait(state, "worker", lambda: check_worker(state))
    say("registering the deployments")
    deploy(state, project)
    if state.tracking is None:
        say("waiting for MLflow")
        _wait(state, "mlflow", lambda: check_mlflow(state))
    state = replace(state, is_ready=True)
    write_state(state)
    return state


def _launch(state: State, name: str, command: list[str], project: Path) -> State:
    state = state.with_process(launch(name, command, service_environment(state), project, log_file(name)))
    write_state(state)
    return state


def prefect_command(state: State) -> list[str]:
    port = str(state.prefect_port)
    return [sys.executable, "-m", "prefect", "server", "start", "--host", state.host, "--port", port]


def mlflow_command(host: str, port: int) -> list[str]:
    """The tracking server on our store. Files lie where clients of the bare database would put them too."""
    runs, store = settings.runs_folder(), tracking_store()
    runs.mkdir(parents=True, exist_ok=True)
    if store.startswith("sqlite:///"):
        with one_at_a_time("store"):
            make_sqlite(store)
    options = {
        # the password of a database would be seen in the list of processes: it goes by the environment instead
        **({"--backend-store-uri": store} if store.startswith("sqlite:") else {}),
        "--default-artifact-root": (runs / "artifacts").as_uri(),
        "--host": host,
        "--port": str(port),
        "--workers": "1",  # four, the default, cost half a gigabyte; one has threads enough for one machine
    }
    words = [word for pair in options.items() for word in pair]
    return [sys.executable, "-m", "mlflow", "server", *words, "--no-serve-artifacts"]


def worker_command(state: State) -> list[str]:
    """One flow run at a time, because one uses all cores; the next ones wait."""
    options = ["--pool", POOL, "--type", "process", "--name", worker_name(state), "--limit", "1"]
    return [sys.executable, "-m", "prefect", "worker", "start", *options]


def deploy(state: State, project: Path) -> None:
    """Register what prefect.yaml describes, again each time: the project may have moved, or the file changed."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    done = subprocess.run(
        command,
        cwd=project,
        env={**service_environment(state), "PWD": str(project)},  # which prefect.yaml asks for
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    log_file("deploy").write_text(done.stdout, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"the deployments of {project / 'prefect.yaml'} were refused:{_end_of_log('deploy')}")


def _set_gpu_limit(state: State) -> None:
    url, limit = f"{state.api_url}/v2/concurrency_limits/", gpu_count()
    try:
        ask(f"{url}{LIMIT}", {"limit": limit, "active": True}, method="PATCH", seconds=BUSY_SECONDS)
    except HTTPError as error:
        if error.code != 404:
            raise
        ask(url, {"name": LIMIT, "limit": limit, "active": True}, seconds=BUSY_SECONDS)


def _wait(state: State, name: str, check: Callable[[], Check]) -> None:
    """Return when a service is well; RuntimeError with the end of its log if it ends, or takes too long."""
    deadline = time.monotonic() + PATIENCE
    while not (found := check()).is_well:
        if find(state.process(name)) is None:
            raise RuntimeError(f"{found.name} ended while it was starting:{_end_of_log(name)}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{found.name} was not ready after {PATIENCE:.0f} s: {found.detail}{_end_of_log(name)}")
        time.sleep(0.3)


def _end_of_log(name: str, lines: int = 12) -> str:
    """The last lines of a service's output, and where the rest is."""
    path = log_file(name)
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return "".join(f"\n  {line}" for line in text.splitlines()[-lines:]) + f"\nAll of it is in {path}"
