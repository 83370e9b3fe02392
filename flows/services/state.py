"""What runs and where: services.json in the runs folder, written by `hopular up` and read by everybody else."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hopular import settings

LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")  # hosts that mean all of the machine's addresses


@dataclass(frozen=True)
class Process:
    """A process that was started. Its number may be another process's later; the start time tells them apart."""

    name: str  # "prefect", "mlflow" or "worker"
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
        """The process of this name, if it was started."""
        return next((process for process in self.processes if process.name == name), None)

    def with_process(self, process: Process) -> State:
        return replace(self, processes=(*self.processes, process))


def _address(host: str, port: int) -> str:
    host = LOOPBACK if host in EVERYWHERE else host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def state_file() -> Path:
    """Where the state is kept."""
    return settings.runs_folder() / "services.json"


def log_file(name: str) -> Path:
    """The output of a service."""
    return settings.runs_folder() / "logs" / f"{name}.log"


def read_state() -> State | None:
    """The recorded state, or None if no services were started or all were stopped."""
    try:
        text = state_file().read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        values = json.loads(text)
        values["processes"] = tuple(Process(**process) for process in values["processes"])
        values["starter"] = Process(**values["starter"]) if values.get("starter") else None
        return State(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{state_file()} cannot be read ({error}): delete it, and stop servers that may still be running yourself"
        ) from error


def write_state(state: State) -> None:
    """Record the state, all of it or nothing."""
    path = state_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    os.replace(temporary, path)


def claim_state(state: State) -> bool:
    """Record the state unless there is one already: of two commands at once, one gets False."""
    path = state_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(asdict(state), indent=1))
    except FileExistsError:
        return False
    return True


def forget_state() -> None:
    """Remove the record."""
    state_file().unlink(missing_ok=True)
