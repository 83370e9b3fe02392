"""`hopular ui`: results in the browser."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

from cyclopts import Parameter

from hopular.cli.frame import FAILED, INTERRUPTED, ending_in_good_order
from hopular.cli.screen import complain, say, show_mark, waiting
from hopular.redaction import without_secrets

if TYPE_CHECKING:
    from flows.services.state import Process

Port = Annotated[int, Parameter(env_var="HOPULAR_MLFLOW_PORT", help="Of the MLflow server.")]
Open = Annotated[bool, Parameter(name="--open", negative="", show_default=False, help="Open the browser.")]
PATIENCE = 60.0  # seconds for the start
END_SECONDS = 5.0


def ui(*, port: Port = 5000, open_browser: Open = False) -> int:
    """Browse the results in MLflow.

    Uses the server that is running (`hopular up`, or MLFLOW_TRACKING_URI), and
    otherwise starts one on the results of this machine until Ctrl-C.

    For example
      hopular ui --open
    """
    from flows.services.environment import tracking_server
    from flows.services.health import check_mlflow
    from flows.services.state import read_state

    state = read_state()
    address = state.mlflow_url if state is not None and check_mlflow(state).is_well else tracking_server()
    if address is not None:
        _show(address, open_browser)
        return 0
    return _serve(port, open_browser)


def _show(address: str, open_browser: bool) -> None:
    show_mark("ok", "MLflow UI", without_secrets(address))
    if open_browser:
        import webbrowser

        webbrowser.open(address)


def _serve(port: int, open_browser: bool) -> int:
    """Run a server of our own until this command is stopped, by Ctrl-C or a request to end."""
    from flows.services.environment import QUIET, tracking_store
    from flows.services.ports import check_port
    from flows.services.processes import MARK, end, launch, marked
    from flows.services.start import mlflow_command
    from flows.services.state import log_file

    host = "127.0.0.1"
    check_port("mlflow", host, port, option="--port")
    mark = uuid4().hex[:8]
    own = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_BACKEND_STORE_URI": tracking_store(), MARK: mark}
    environment = {**os.environ, **QUIET, **own}
    with ending_in_good_order():
        try:
            server = launch("mlflow", mlflow_command(host, port), environment, Path.cwd(), log_file("mlflow"))
            _watch(server, f"http://{host}:{port}", open_browser)
            complain(f"MLflow has ended; its log is {log_file('mlflow')}")
        except KeyboardInterrupt:
            say("MLflow is stopped.")
            return INTERRUPTED
        finally:
            end(marked(mark), END_SECONDS)
    return FAILED


def _watch(server: Process, address: str, open_browser: bool) -> None:
    """Show the address when the server answers there, and return when it ends."""
    from flows.services.http import problem
    from flows.services.processes import find
    from flows.services.state import log_file

    with waiting() as tell:
        tell("starting MLflow")
        deadline = time.monotonic() + PATIENCE
        while problem(f"{address}/health", seconds=1.0):
            if find(server) is None or time.monotonic() > deadline:
                raise RuntimeError(f"MLflow did not start; its log is {log_file('mlflow')}")
            time.sleep(0.2)
    _show(address, open_browser)
    show_mark("next", "to stop", "Ctrl-C")
    while find(server) is not None:
        time.sleep(0.5)
