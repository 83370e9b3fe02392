"""Know what runs, where, and with which variables: `hopular up` writes services.json, and everybody else reads it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hopular import settings
from hopular.util import InputError, whole_file

MARK = "HOPULAR_SERVICES"  # the variable by which a process of the services is recognised
NO_TELEMETRY = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
_LOOPBACK = "127.0.0.1"
_EVERYWHERE = ("0.0.0.0", "::")  # hosts that mean all of the machine's addresses


@dataclass(frozen=True)
class Process:
    """A process that was started. Its number may later belong to another process; the start time tells them apart."""

    name: str  # "prefect", "mlflow", "worker", "supervisor" or "up"
    pid: int
    started: float  # seconds since 1970


@dataclass(frozen=True)
class State:
    """The services of one runs folder. `mark` is in the environment of all their processes, so that none gets lost."""

    mark: str
    host: str
    prefect_port: int
    mlflow_port: int
    tracking: str | None = None  # a tracking server of the user's, used instead of one of ours
    is_ready: bool = False
    processes: tuple[Process, ...] = ()
    starter: Process | None = None  # the command that starts them
    given_up: tuple[str, ...] = ()  # the services that ended too often to be restarted

    @property
    def prefect_url(self) -> str:
        return _address(self.host, self.prefect_port)

    @property
    def api_url(self) -> str:
        return f"{self.prefect_url}/api"

    @property
    def mlflow_url(self) -> str:
        return self.tracking or _address(self.host, self.mlflow_port)

    def process(self, name: str) -> Process | None:
        """Return the latest process of this name, if one was started."""
        return next((process for process in self.processes if process.name == name), None)

    def with_process(self, process: Process) -> State:
        """Return the state with this process, which takes the place of one with the same name."""
        others = (other for other in self.processes if other.name != process.name)
        return replace(self, processes=(*others, process))


def _address(host: str, port: int) -> str:
    host = _LOOPBACK if host in _EVERYWHERE else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def state_file() -> Path:
    """Return where the state is kept."""
    return settings.runs_folder() / "services.json"


def log_file(name: str) -> Path:
    """Return the file that holds the output of a service."""
    return settings.runs_folder() / "logs" / f"{name}.log"


def read_state() -> State | None:
    """Return the recorded state, or None if no services were started or all were stopped."""
    try:
        text = state_file().read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        values = json.loads(text)
        values["processes"] = tuple(Process(**process) for process in values["processes"])
        values["starter"] = Process(**values["starter"]) if values.get("starter") else None
        values["given_up"] = tuple(values.get("given_up", ()))
        return State(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{state_file()} cannot be read ({error}): delete it, and stop servers that may still be running yourself"
        ) from error


def write_state(state: State) -> None:
    """Record the state."""
    with whole_file(state_file()) as path:
        path.write_text(_text(state), encoding="utf-8")


def claim_state(state: State) -> bool:
    """Record the state unless there is a record already: of two commands at once, one gets False."""
    path = state_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_text(state))
    except FileExistsError:
        return False
    return True


def _text(state: State) -> str:
    return json.dumps(asdict(state), indent=1)


def forget_state() -> None:
    """Remove the record."""
    state_file().unlink(missing_ok=True)


def prefect_home() -> Path:
    """Return the folder of Prefect's database, profiles and results, apart from those of the user's other projects."""
    return settings.runs_folder() / "prefect"


def tracking_store() -> str:
    """Return the database behind our tracking server: MLFLOW_TRACKING_URI if it names one, otherwise mlflow.db."""
    value = os.environ.get("MLFLOW_TRACKING_URI", "")
    return value if value and not _is_address(value) else f"sqlite:///{settings.runs_folder() / 'mlflow.db'}"


def tracking_server() -> str | None:
    """Return the address of the user's own tracking server (MLFLOW_TRACKING_URI), if there is one."""
    value = os.environ.get("MLFLOW_TRACKING_URI", "")
    return value if _is_address(value) else None


def _is_address(uri: str) -> bool:
    return uri.startswith(("http://", "https://"))


def client_environment(state: State) -> dict[str, str]:
    """Return what a Prefect client needs to reach the server: its address, and no proxy on the way."""
    direct = [part for part in os.environ.get("NO_PROXY", "").split(",") if part]
    return {
        "PREFECT_API_URL": state.api_url,
        "NO_PROXY": ",".join(dict.fromkeys([*direct, "127.0.0.1", "localhost", "::1"])),
    }


def mlflow_environment(mark: str) -> dict[str, str]:
    """Return all variables for an MLflow server on our store."""
    return {
        **os.environ,
        **NO_TELEMETRY,
        MARK: mark,
        "MLFLOW_BACKEND_STORE_URI": tracking_store(),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # three more processes, for features that nothing here uses
        "PYTHONUNBUFFERED": "1",
    }


def service_environment(state: State, name: str) -> dict[str, str]:
    """Return all variables for a server or the worker, and so for the flow runs that the worker starts."""
    return {
        **mlflow_environment(f"{state.mark}:{name}"),
        **client_environment(state),
        "HOPULAR_RUNS": str(settings.runs_folder()),
        "MLFLOW_TRACKING_URI": tracking_server() or state.mlflow_url,
        "PREFECT_HOME": str(prefect_home()),
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "90",
        "PREFECT_WORKER_QUERY_SECONDS": "2",  # a run starts at once, not after 10 s
        "PREFECT_UI_API_URL": "/api",  # as the browser sees the server, whatever name it was reached by
    }
