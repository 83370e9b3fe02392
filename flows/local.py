"""Run a flow from this process: through the servers of `hopular up` if they are running, otherwise with one of its own.

Prefect would start a server by itself, but in the process group of the command: Ctrl-C, which a terminal sends to the
whole group, would end the server before the command can tell it of the stop. Ours has a session of its own.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psutil

from flows.services.health import ended, problem, wait_until_ready
from flows.services.processes import end
from flows.services.state import NO_TELEMETRY, client_environment, prefect_home, read_state
from hopular.util import OperationError

OWNER = "HOPULAR_OWNER"  # the process that has a server for itself alone
_SERVER_SETTINGS = {  # of a server for one run
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
}
_START_SECONDS = 120.0  # a new database on a busy machine takes 30
_END_SECONDS = 5.0


def find_server() -> Callable[[], None]:
    """Find or start the Prefect server of this command, and return the function that waits until it answers.

    This is the one place where a command changes its own environment: before Prefect, which reads it at its import, and
    before anything else runs. PREFECT_API_URL and MLFLOW_TRACKING_URI of the user's have precedence. A server of this
    run's own is started here, so that it gets ready while the caller imports; it ends after all else at the exit of
    this process.
    """
    prefect_home().mkdir(parents=True, exist_ok=True)
    ours = {**NO_TELEMETRY, "PREFECT_HOME": str(prefect_home()), "NO_PROXY": "127.0.0.1,localhost,::1"}
    environment, wait = _reach_server({**ours, **os.environ})
    os.environ.update(environment)
    return wait


def _reach_server(environment: dict[str, str]) -> tuple[dict[str, str], Callable[[], None]]:
    """Return the environment with the address of a server, and the function that waits until it answers."""
    if environment.get("PREFECT_API_URL"):
        return environment, lambda: None
    state = read_state()
    if state is not None and not ended(state):
        found = {"MLFLOW_TRACKING_URI": state.mlflow_url, **environment, **client_environment(state)}
        return found, lambda: None
    environment = {**environment, OWNER: str(os.getpid())}
    server, address = _start_server({**environment, **_SERVER_SETTINGS})
    # registered before Prefect registers what it still has to tell, and hence called after it
    atexit.register(end, [psutil.Process(server.pid)], _END_SECONDS)
    return {**environment, "PREFECT_API_URL": address}, lambda: _wait_for_server(server, address)


def _start_server(environment: dict[str, str]) -> tuple[subprocess.Popen[bytes], str]:
    """Start a server on a free port, which it inherits open, and return it with its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number, port = listening.fileno(), listening.getsockname()[1]
        server = subprocess.Popen(
            [sys.executable, "-m", "flows.local", str(number)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=2,
            pass_fds=[number],
            start_new_session=True,
        )
    return server, f"http://127.0.0.1:{port}/api"


def _wait_for_server(server: subprocess.Popen[bytes], address: str) -> None:
    why = wait_until_ready(
        lambda: problem(f"{address}/health", seconds=1.0), lambda: server.poll() is None, _START_SECONDS
    )
    if why is not None:
        code = "" if server.returncode is None else f" with code {server.returncode}"
        raise OperationError(f"the Prefect server of this run {why}{code}")


def _serve(listening: socket.socket) -> None:
    """Be the server of a run: until it is told to end, or the run's process is gone, however it went."""
    threading.Thread(target=_end_with_owner, name="watch-owner", daemon=True).start()
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(ephemeral=True, final=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on")).run(sockets=[listening])


def _end_with_owner() -> None:
    while os.getppid() == int(os.environ[OWNER]):
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
