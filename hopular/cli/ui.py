"""`hopular ui`: results in the browser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated
from uuid import uuid4

from cyclopts import Parameter

from hopular.cli.frame import FAILED, INTERRUPTED, ending_in_good_order
from hopular.cli.screen import complain, say, show_mark, waiting
from hopular.redaction import without_secrets
from hopular.util import OperationError

_Port = Annotated[int, Parameter(env_var="HOPULAR_MLFLOW_PORT", help="Port of the MLflow server.")]
_Open = Annotated[bool, Parameter(name="--open", negative="", show_default=False, help="Open the browser.")]
_START_SECONDS = 60.0
_END_SECONDS = 5.0


def ui(*, port: _Port = 5000, open_browser: _Open = False) -> int:
    """Browse the results in MLflow.

    Uses the server that is running (`hopular up`, or MLFLOW_TRACKING_URI);
    otherwise serves the results of this machine until Ctrl-C.

    For example
      hopular ui --open
    """
    from flows.services.health import check_mlflow
    from flows.services.state import read_state, tracking_server

    state = read_state()
    address = state.mlflow_url if state is not None and check_mlflow(state).is_healthy else tracking_server()
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
    from flows.services.health import problem, wait_until_ready
    from flows.services.lifecycle import mlflow_command
    from flows.services.processes import check_port, end, find, launch, marked
    from flows.services.state import log_file, mlflow_environment

    host, mark = "127.0.0.1", uuid4().hex[:8]
    check_port("ui", host, port)
    address = f"http://{host}:{port}"
    with ending_in_good_order():
        try:
            server = launch("mlflow", mlflow_command(host, port), mlflow_environment(mark), Path.cwd())
            with waiting() as tell:
                tell("starting MLflow")
                why = wait_until_ready(
                    lambda: problem(f"{address}/health", seconds=1.0), lambda: find(server) is not None, _START_SECONDS
                )
            if why is not None:
                raise OperationError(f"MLflow {why}; its log is {log_file('mlflow')}")
            _show(address, open_browser)
            show_mark("next", "to stop", "Ctrl-C")
            while find(server) is not None:
                time.sleep(0.5)
            complain(f"MLflow has ended; its log is {log_file('mlflow')}")
        except KeyboardInterrupt:
            say("MLflow is stopped.")
            return INTERRUPTED
        finally:
            end(marked(mark), _END_SECONDS)
    return FAILED
