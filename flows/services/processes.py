"""Start processes that outlive the command, recognise them with certainty, end them, and find their ports free."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from flows.services.state import MARK, Process, log_file
from hopular.util import InputError

_CLOCK_SECONDS = 2.0  # start times may differ by this much after the clock was set
_MLFLOW = ("HOPULAR_MLFLOW_PORT", "another MLflow server, or AirPlay on macOS")
_REMEDIES = {  # title, option and variable that change the port, and who may have it
    "prefect": ("Prefect", "--prefect-port", "HOPULAR_PREFECT_PORT", "another Prefect server"),
    "mlflow": ("MLflow", "--mlflow-port", *_MLFLOW),
    "ui": ("MLflow", "--port", *_MLFLOW),
}


def launch(name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Process:
    """Start a command that outlives this process and does not hear its Ctrl-C; its output is appended to its log."""
    log = log_file(name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        started = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Process(name, started.pid, psutil.Process(started.pid).create_time())


def find(process: Process | None) -> psutil.Process | None:
    """Return the running process, or None if it has ended or its number now belongs to another."""
    if process is None:
        return None
    try:
        found = psutil.Process(process.pid)
        if abs(found.create_time() - process.started) > _CLOCK_SECONDS or found.status() == psutil.STATUS_ZOMBIE:
            return None
    except psutil.NoSuchProcess:
        return None
    return found


def marked(mark: str) -> list[psutil.Process]:
    """Return all processes that carry the mark: those that were started, and all that they started, orphans included.

    The mark of services is that of their state, alone or followed by a colon and the name of one of them.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and f"{process.environ().get(MARK)}:".startswith(f"{mark}:"):
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess):  # of somebody else, or gone: not ours either way
            continue
    return found


def roots(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those whose parent is not among them; those that have ended are none."""
    processes = list(processes)
    numbers, found = {process.pid for process in processes}, []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.ppid() not in numbers:
                found.append(process)
    return found


def end(processes: Iterable[psutil.Process], seconds: float) -> None:
    """Ask the processes to end, and kill those that have not after so many seconds."""
    processes = list(processes)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(processes, timeout=seconds)
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=5)


def check_port(service: str, host: str, port: int) -> None:
    """Raise InputError if the server of a service, or of `hopular ui`, cannot listen there."""
    title, option, variable, suspect = _REMEDIES[service]
    if not 1 <= port <= 65535:
        raise InputError(f"port {port} for {title} does not exist: use a number from 1 to 65535 with {option}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind(address)
    except socket.gaierror:
        raise InputError(
            f"host {host!r} is unknown: use 127.0.0.1, or an address of this machine, with --host"
        ) from None
    except OSError as error:
        remedy = f"choose another with {option} or {variable}"
        if error.errno == errno.EADDRINUSE:
            by = _user_of(port) or f"perhaps {suspect}"
            raise InputError(f"port {port} for {title} is in use by {by}: stop that, or {remedy}") from None
        raise InputError(f"{title} cannot listen on {host} port {port} ({error.strerror}): {remedy}") from None


def _user_of(port: int) -> str | None:
    """Name the process that listens on a port, where the system lets us see it."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return None
    return None
