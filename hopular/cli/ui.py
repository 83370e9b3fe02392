"""`hopular ui`: results in the browser."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Annotated

from cyclopts import Parameter

from hopular.cli.frame import FAILED, INTERRUPTED
from hopular.cli.screen import say, show_mark, waiting
from hopular.redaction import without_secrets

Port = Annotated[int, Parameter(env_var="HOPULAR_MLFLOW_PORT", help="Of the MLflow server.")]
Open = Annotated[bool, Parameter(name="--open", negative="", show_default=False, help="Open the browser.")]
PATIENCE = 60.0  # seconds


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
    """Run a server of our own in the foreground. It shares the terminal, so that Ctrl-C reaches it too."""
    from flows.services.environment import QUIET, tracking_store
    from flows.services.http import problem
    from flows.services.ports import check_port
    from flows.services.start import mlflow_command
    from flows.services.state import log_file

    host, address = "127.0.0.1", f"http://127.0.0.1:{port}"
    check_port("mlflow", host, port, option="--port")
    log = log_file("mlflow")
    log.parent.mkdir(parents=True, exist_ok=True)
    own = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_BACKEND_STORE_URI": tracking_store()}
    environment = {**os.environ, **QUIET, **own}
    with log.open("ab") as output:
        server = subprocess.Popen(mlflow_command(host, port), env=environment, stdout=output, stderr=output)
    try:
        with waiting() as tell:
            tell("starting MLflow")
            deadline = time.monotonic() + PATIENCE
            while problem(f"{address}/health", seconds=1.0):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"MLflow did not start; its log is {log}")
                time.sleep(0.2)
        _show(address, open_browser)
        show_mark("next", "to stop", "Ctrl-C")
        server.wait()
    except KeyboardInterrupt:
        say("MLflow is stopped.")
        return INTERRUPTED
    finally:
        server.terminate()
        server.wait()
    return FAILED
