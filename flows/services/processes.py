"""Processes of the services: started in sessions of their own, recognised with certainty, and ended with patience."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from flows.services.state import Process

MARK = "HOPULAR_SERVICES"  # the environment variable that all processes of one start carry
CLOCK_SECONDS = 2.0  # start times may differ by this much after the clock was set


def launch(name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> Process:
    """Start a command that outlives this process and does not hear its Ctrl-C; its output goes to the end of `log`."""
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


def this_process() -> Process:
    """The process that asks."""
    own = psutil.Process()
    return Process("up", own.pid, own.create_time())


def find(process: Process | None) -> psutil.Process | None:
    """The running process, or None if it has ended or its number now belongs to another."""
    if process is None:
        return None
    try:
        found = psutil.Process(process.pid)
        if abs(found.create_time() - process.started) > CLOCK_SECONDS or found.status() == psutil.STATUS_ZOMBIE:
            return None
    except psutil.NoSuchProcess:
        return None
    return found


def marked(mark: str) -> list[psutil.Process]:
    """All processes that carry the mark: what was started, and all that those started, orphans included."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess):  # of somebody else, or gone: not ours either way
            continue
    return found


def roots(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those whose parent is not among them."""
    processes = list(processes)
    numbers = {process.pid for process in processes}
    return [process for process in processes if _parent(process) not in numbers]


def _parent(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return None


def family(process: psutil.Process | None) -> list[psutil.Process]:
    """A process and all that it started."""
    if process is None:
        return []
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end(processes: Iterable[psutil.Process], patience: float) -> None:
    """Ask the processes to end, and kill those that have not after `patience` seconds."""
    processes = list(processes)
    for process in processes:
        _signal(process, is_final=False)
    _, stubborn = psutil.wait_procs(processes, timeout=patience)
    for process in stubborn:
        _signal(process, is_final=True)
    psutil.wait_procs(stubborn, timeout=5)


def _signal(process: psutil.Process, is_final: bool) -> None:
    try:
        process.kill() if is_final else process.terminate()
    except psutil.NoSuchProcess:
        return
