"""Ports: free ones are needed, and one in use gets an error that says what to do."""

from __future__ import annotations

import errno
import socket

import psutil

REMEDIES = {
    "prefect": ("Prefect", "--prefect-port", "HOPULAR_PREFECT_PORT", "another Prefect server"),
    "mlflow": ("MLflow", "--mlflow-port", "HOPULAR_MLFLOW_PORT", "another MLflow server, or AirPlay on macOS"),
}


def check_port(service: str, host: str, port: int, option: str | None = None) -> None:
    """ValueError if a server cannot listen there; `option` is the one that changes the port."""
    title, usual, variable, suspect = REMEDIES[service]
    option = option or usual
    if not 1 <= port <= 65535:
        raise ValueError(f"port {port} for {title} does not exist: use a number from 1 to 65535 with {option}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind(address)
    except socket.gaierror:
        raise ValueError(
            f"host {host!r} is unknown: use 127.0.0.1, or an address of this machine, with --host"
        ) from None
    except OSError as error:
        remedy = f"choose another with {option} or {variable}"
        if error.errno == errno.EADDRINUSE:
            by = _user_of(port) or f"perhaps {suspect}"
            raise ValueError(f"port {port} for {title} is in use by {by}: stop that, or {remedy}") from None
        raise ValueError(f"{title} cannot listen on {host} port {port} ({error.strerror}): {remedy}") from None


def _user_of(port: int) -> str | None:
    """The process that listens on a port, in words, where the system lets us see it."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return None
    return None
