"""`hopular up`, `down` and `status`: the local servers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from hopular import settings
from hopular.cli.frame import FAILED, INTERRUPTED, ending_in_good_order
from hopular.cli.screen import Json, Quiet, complain, say, show_json, show_mark, waiting

if TYPE_CHECKING:
    from flows.services.state import State

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_Detach = Annotated[
    bool,
    Parameter(name=["--detach", "-d"], negative="", show_default=False, help="Return as soon as all are healthy."),
]
_Host = Annotated[str, Parameter(env_var="HOPULAR_HOST", help="Address to listen on.")]
_PrefectPort = Annotated[int, Parameter(env_var="HOPULAR_PREFECT_PORT", help="Port of the Prefect server.")]
_MlflowPort = Annotated[int, Parameter(env_var="HOPULAR_MLFLOW_PORT", help="Port of the MLflow server.")]


def up(
    *,
    detach: _Detach = False,
    host: _Host = "127.0.0.1",
    prefect_port: _PrefectPort = 4200,
    mlflow_port: _MlflowPort = 5000,
    quiet: Quiet = False,
) -> int:
    """Start Prefect, MLflow, a worker and the deployments.

    Runs until Ctrl-C and then stops all of them; with --detach, until `hopular
    down`. A server or worker that ends is restarted. State and logs are in
    mlruns (HOPULAR_RUNS). While they are up, deployments run by name.

    For example
      hopular up --detach
      prefect deployment run hopular-benchmark --watch
      hopular up --prefect-port 4300 --mlflow-port 5100
    """
    from flows.services.health import is_running
    from flows.services.lifecycle import start
    from flows.services.state import read_state

    settings.make_runs_folder()
    state = read_state()
    if state is not None and is_running(state):
        return _already_up(state)
    if host not in _LOOPBACK:
        complain(f"listening on {host}: whoever can reach that address can run code on this machine", style="yellow")
    with ending_in_good_order():
        with waiting(quiet) as tell:
            state = start(host, prefect_port, mlflow_port, tell)
        if not quiet:
            _introduce(state, "hopular down" if detach else "Ctrl-C")
        return 0 if detach else _watch(state, quiet)


def _already_up(state: State) -> int:
    from flows.services.health import check

    if not state.is_ready or not all(item.is_healthy for item in check(state)):
        complain("the services are up, but not healthy: see `hopular status`; `hopular down` stops what there is")
        return FAILED
    say("The services are up already.")
    _introduce(state, "hopular down")
    return 0


def _introduce(state: State, how_to_stop: str) -> None:
    """Show where everything is, and what to do next."""
    show_mark("ok", "Prefect UI", state.prefect_url)
    show_mark("ok", "MLflow UI", state.mlflow_url)
    show_mark("next", "to run", "prefect deployment run hopular-benchmark --watch")
    show_mark("next", "to stop", how_to_stop)


def _watch(state: State, quiet: bool) -> int:
    """Wait until Ctrl-C, `hopular down` elsewhere, or a service that cannot be kept running; then stop everything."""
    from flows.services.processes import find
    from flows.services.state import log_file, read_state

    try:
        while True:
            is_supervised = find(state.process("supervisor")) is not None
            current = read_state()  # after that, since `hopular down` writes to it before it ends the supervisor
            if current is None or current.mark != state.mark:
                return 0
            for process in set(current.processes) - set(state.processes):
                complain(f"{process.name} ended and was restarted; its log is {log_file(process.name)}", style="yellow")
            lost = current.given_up if is_supervised or not current.is_ready else ("supervisor",)
            for name in lost:
                complain(f"{name} has ended for good, so the others are stopped too; its log is {log_file(name)}")
                return FAILED
            state = current
            time.sleep(1)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        _stop(state, quiet)


def _stop(state: State, quiet: bool) -> None:
    from flows.services.lifecycle import stop

    try:
        with waiting(quiet) as tell:
            tell("stopping the worker, then the servers")
            stop(state)
    except KeyboardInterrupt:  # pressed once more: wait no longer
        stop(state, seconds=0)
    if not quiet:
        say("All services are stopped.")


def down(*, quiet: Quiet = False) -> int:
    """Stop all services.

    Stops the worker and its runs first, then the servers. Also cleans up after
    a crash, and can be repeated. A benchmark that is interrupted by it
    continues where it was when you run it again.

    For example
      hopular down
    """
    from flows.services.state import read_state

    state = read_state()
    if state is not None:
        _stop(state, quiet)
    elif not quiet:
        say("No services are running.")
    return 0


def status(*, json: Json = False) -> int:
    """Say whether the services are healthy.

    Exits with 0 if all are, and otherwise with 1 after saying what is wrong.

    For example
      hopular status
      hopular status --json
    """
    from flows.services.health import check
    from flows.services.state import read_state, state_file

    state = read_state()
    checks = [] if state is None else check(state)
    is_healthy = state is not None and state.is_ready and all(item.is_healthy for item in checks)
    if json:
        services = {item.name.lower(): {"healthy": item.is_healthy, "detail": item.detail} for item in checks}
        addresses = {} if state is None else {"prefect": state.prefect_url, "mlflow": state.mlflow_url}
        show_json({"healthy": is_healthy, "services": services, "addresses": addresses, "file": str(state_file())})
        return 0 if is_healthy else FAILED
    for item in checks:
        show_mark("ok" if item.is_healthy else "fail", item.name, item.detail)
    if state is None:
        complain("no services are running: start them with `hopular up`", style="yellow")
    elif not state.is_ready:
        complain("they are starting or stopping; if that was cut short, `hopular down` cleans up", style="yellow")
    elif not is_healthy:
        complain("start again: `hopular down`, then `hopular up`", style="yellow")
    return 0 if is_healthy else FAILED
