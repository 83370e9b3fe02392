"""A runs folder of its own for every test of the services, and small processes in place of servers."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from flows.services.processes import find, launch, marked
from flows.services.state import MARK, Process

SLEEP = "import time; time.sleep(60)"
# A child in a session of its own, as flow runs are.
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True); {SLEEP}"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    monkeypatch.setenv("HOPULAR_RUNS", str(folder))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on, without ever answering."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def started(tmp_path: Path, code: str, mark: str) -> Iterator[Process]:
    """A process with the mark of a worker; neither it nor its children are left after the block."""
    command = [sys.executable, "-c", code]
    process = launch("worker", command, {**os.environ, MARK: f"{mark}:worker"}, tmp_path)
    try:
        yield process
    finally:
        # A process that has only just started may not show its environment yet, hence the one we know by number too.
        known = find(process)
        left = {*marked(mark), *([known] if known else [])}
        for member in left:
            member.kill()
        psutil.wait_procs(left, timeout=5)


def wait_for(condition: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds:.0f} s"
        time.sleep(0.02)
