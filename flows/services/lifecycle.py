"""Start servers, worker and deployments in the order of their needs, restart what ends, and stop all of it.

Run as a program, this is the supervisor: the last process that `hopular up` starts, and the first that is stopped.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from uuid import uuid4

import psutil

import flows
from flows.runners import GPU_LIMIT, gpu_count
from flows.services.health import (
    POOL,
    Check,
    ask,
    check_mlflow,
    check_prefect,
    check_worker,
    ended,
    is_running,
    problem,
    wait_until_ready,
    worker_name,
)
from flows.services.processes import check_port, end, find, launch, marked, roots
from flows.services.state import (
    Process,
    State,
    claim_state,
    forget_state,
    log_file,
    read_state,
    service_environment,
    state_file,
    tracking_server,
    tracking_store,
    write_state,
)
from flows.tracking.store import make_sqlite, one_at_a_time
from hopular import settings
from hopular.redaction import without_secrets
from hopular.util import InputError, OperationError

_START_SECONDS = 180.0  # for a service to start; a new database on a busy machine takes 60
_STOP_SECONDS = 15.0  # for the worker and its runs, and again for the servers, before they are killed
_BUSY_SECONDS = 30.0  # for which a server that has just started may be busy with itself
_MOST_RESTARTS = 5  # of a service within _RESTART_WINDOW; then it is given up
_RESTART_WINDOW = 600.0  # seconds
_LOG_LINES = 12  # of a service that did not start, shown with the error
_UNFINISHED = ("PENDING", "RUNNING", "CANCELLING")
_STOPPED = "Its worker ended while it ran. Run it again: what was finished is not done twice."
_logger = logging.getLogger(__name__)


def start(host: str, prefect_port: int, mlflow_port: int, tell: Callable[[str], None]) -> State:
    """Bring everything up and return when all of it is healthy; if anything fails, take all of it down again.

    `tell` is told what is being waited for.
    """
    project = project_folder()
    old = read_state()
    if old is not None and is_left_behind(old):
        stop(old)
    tracking = tracking_server()
    check_places(host, prefect_port, mlflow_port, tracking)
    state = new_state(host, prefect_port, mlflow_port, tracking)
    if not claim_state(state):
        raise InputError(f"the services are being started already ({state_file()} exists): see `hopular status`")
    try:
        return _start(state, project, tell)
    except BaseException:
        stop(state)
        raise


def project_folder() -> Path:
    """Return the folder with prefect.yaml: the working folder, or else the one that this package lies in."""
    folders = (Path.cwd(), Path(flows.__file__).resolve().parents[1])
    for folder in folders:
        if (folder / "prefect.yaml").is_file():
            return folder
    raise InputError(f"there is no prefect.yaml in {folders[0]}: run this in the folder of the project")


def is_left_behind(state: State) -> bool:
    """Return whether a crash left this record: nothing of it runs, nor does the command that was starting it."""
    is_starting = not state.is_ready and find(state.starter) is not None
    return not is_starting and not is_running(state)


def check_places(host: str, prefect_port: int, mlflow_port: int, tracking: str | None) -> None:
    """Raise InputError if a server cannot listen where it is to, or the user's tracking server does not answer."""
    if prefect_port == mlflow_port:
        raise InputError(f"both servers cannot use port {prefect_port}: change --prefect-port or --mlflow-port")
    check_port("prefect", host, prefect_port)
    if tracking is None:
        check_port("mlflow", host, mlflow_port)
        return
    trouble = problem(f"{without_secrets(tracking).rstrip('/')}/health")
    if trouble:
        raise InputError(
            f"MLFLOW_TRACKING_URI={without_secrets(tracking)} {trouble}: start that server, or unset it to have one "
            "started"
        )


def new_state(host: str, prefect_port: int, mlflow_port: int, tracking: str | None) -> State:
    """Return the record of services to be started; it has the address of a tracking server without a password."""
    public = None if tracking is None else without_secrets(tracking)
    own = psutil.Process()
    starter = Process("up", own.pid, own.create_time())
    return State(uuid4().hex[:8], host, prefect_port, mlflow_port, public, starter=starter)


def _start(state: State, project: Path, tell: Callable[[str], None]) -> State:
    tell("starting the servers (the first time takes half a minute)")
    state = _launch(state, "prefect", project)
    if state.tracking is None:
        state = _launch(state, "mlflow", project)
    _wait(state, "prefect", check_prefect)
    tell("starting the worker")
    state = _launch(state, "worker", project)
    _set_gpu_limit(state)
    _wait(state, "worker", check_worker)
    tell("registering the deployments")
    _deploy(state, project)
    if state.tracking is None:
        tell("waiting for MLflow")
        _wait(state, "mlflow", check_mlflow)
    state = replace(_launch(state, "supervisor", project), is_ready=True)
    write_state(state)
    return state


def _launch(state: State, name: str, project: Path) -> State:
    """Start one of the services, and record its process in place of an earlier one."""
    environment = service_environment(state, name)
    if name == "supervisor":  # which makes the environments of others, and so must see the user's own tracking store
        environment |= {"MLFLOW_TRACKING_URI": tracking_server() or tracking_store()}
    state = state.with_process(launch(name, _command(state, name), environment, project))
    write_state(state)
    return state


def _command(state: State, name: str) -> list[str]:
    if name == "mlflow":
        return mlflow_command(state.host, state.mlflow_port)
    words = {
        "prefect": ["prefect", "server", "start", "--host", state.host, "--port", str(state.prefect_port)],
        # one flow run at a time, because one uses all cores; the next ones wait
        "worker": ["prefect", "worker", "start", "-p", POOL, "-t", "process", "-n", worker_name(state), "-l", "1"],
        "supervisor": ["flows.services.lifecycle", state.mark],
    }
    return [sys.executable, "-m", *words[name]]


def mlflow_command(host: str, port: int) -> list[str]:
    """Return the command of a tracking server on our store, with files where clients of the bare database put them."""
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


def _deploy(state: State, project: Path) -> None:
    """Register what prefect.yaml describes, again each time: the project may have moved, or the file changed."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    done = subprocess.run(
        command,
        cwd=project,
        env={**service_environment(state, "deploy"), "PWD": str(project)},  # which prefect.yaml asks for
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_START_SECONDS,
    )
    log_file("deploy").write_text(done.stdout, encoding="utf-8")
    if done.returncode:
        raise OperationError(f"the deployments of {project / 'prefect.yaml'} were refused:{_end_of_log('deploy')}")


def _set_gpu_limit(state: State) -> None:
    url, limit = f"{state.api_url}/v2/concurrency_limits/", gpu_count()
    try:
        ask(f"{url}{GPU_LIMIT}", {"limit": limit, "active": True}, method="PATCH", seconds=_BUSY_SECONDS)
    except HTTPError as error:
        if error.code != 404:
            raise
        ask(url, {"name": GPU_LIMIT, "limit": limit, "active": True}, seconds=_BUSY_SECONDS)


def _wait(state: State, name: str, check: Callable[[State], Check]) -> None:
    """Return when a service is healthy; raise OperationError with the end of its log if it ends, or takes too long."""
    why = wait_until_ready(lambda: check(state).trouble, lambda: name not in ended(state), _START_SECONDS)
    if why is not None:
        raise OperationError(f"{check(state).name} {why}:{_end_of_log(name)}")


def _end_of_log(name: str) -> str:
    """Return the last lines of a service's output, and where the rest is."""
    path = log_file(name)
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return "".join(f"\n  {line}" for line in text.splitlines()[-_LOG_LINES:]) + f"\nAll of it is in {path}"


def supervise(mark: str) -> None:
    """Restart services that end, for as long as the record is that of this start; give up those that end too often.

    Nothing is restarted while the record is not ready, as it is not when the services are being stopped.
    """
    restarts: dict[str, list[float]] = defaultdict(list)
    while (state := read_state()) is not None and state.mark == mark:
        for name in ended(state) if state.is_ready else ():
            if name in state.given_up:
                continue
            now = time.monotonic()
            recent = [moment for moment in restarts[name] if moment > now - _RESTART_WINDOW]
            if len(recent) == _MOST_RESTARTS:
                _logger.error("%s ended %d times and is not restarted any more", name, len(recent) + 1)
                state = replace(state, given_up=(*state.given_up, name))
                write_state(state)
            elif not recent or now > recent[-1] + 2 ** len(recent):
                _logger.warning("%s ended and is restarted", name)
                state = _restart(state, name)
                restarts[name] = [*recent, now]
        time.sleep(1)


def _restart(state: State, name: str) -> State:
    """Start a service again, without what it left: children of a server hold its port.

    Flow runs of a worker could not be cancelled any more, and would fail at the first line that they write to it.
    """
    if name == "worker":
        _end_work(state, _STOP_SECONDS)
    end(marked(f"{state.mark}:{name}"), seconds=5)
    return _launch(state, name, project_folder())


def stop(state: State, seconds: float = _STOP_SECONDS) -> None:
    """End all processes of the services, children and orphans included, and forget them. Can be repeated.

    The supervisor goes first, so that nothing is restarted; then the worker and its flow runs, then the servers that
    these report to, and last whatever is left.
    """
    if (latest := _latest(state)) is not None:
        write_state(replace(latest, is_ready=False))
    end(marked(f"{state.mark}:supervisor"), seconds=1)
    state = _latest(state) or state  # it may have restarted something meanwhile
    _end_work(state, seconds)
    servers = [process for process in (find(state.process("prefect")), find(state.process("mlflow"))) if process]
    end(servers, seconds)
    end(marked(state.mark), seconds=1)
    if _latest(state) is not None:
        forget_state()


def _latest(state: State) -> State | None:
    """Return the record as it is now, if it is still that of the same start."""
    found = read_state()
    return found if found is not None and found.mark == state.mark else None


def _end_work(state: State, seconds: float) -> None:
    """End the worker and its flow runs, each process before those that it started, and tell the server.

    A flow run is wrapped in a process of Prefect's that ends at once, so this takes more than one round.
    """
    pids: set[int] = set()
    worker = find(state.process("worker"))
    deadline = time.monotonic() + seconds
    while work := marked(f"{state.mark}:worker"):
        pids |= {process.pid for process in work}
        runs = roots(process for process in work if worker is None or process.pid != worker.pid)
        end({*runs, *(process for process in work if process == worker)}, max(0.0, deadline - time.monotonic()))
    if pids:
        _report_ended(state, pids)


def _report_ended(state: State, pids: Collection[int]) -> None:
    """Tell the server that the unfinished flow runs in these processes are over; those of other machines go on.

    Otherwise it would show them as running for ever. A server that is gone cannot be told, which must not keep the
    rest from being stopped.
    """
    try:
        found = ask(f"{state.api_url}/flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": _UNFINISHED}}}})
        for run in found:
            if run["infrastructure_pid"] in {str(pid) for pid in pids}:
                crashed = {"type": "CRASHED", "name": "Crashed", "message": _STOPPED}
                ask(f"{state.api_url}/flow_runs/{run['id']}/set_state", {"state": crashed, "force": True})
    except OSError as error:
        _logger.warning("the server could not be told which flow runs ended: %s", error)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s")
    supervise(sys.argv[1])
