"""`hopular benchmark` in a process of its own, to be disturbed: its progress, its processes and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psutil

HOPULAR = Path(sys.executable).with_name("hopular")
REPOSITORY = Path(__file__).parents[2]
Victim = Literal["parent", "server", "worker"]
SIGNS = {"server": "flows.local", "worker": "hopular.trials.worker"}  # in their command lines


class Command:
    """A running command. `lines` are those of its progress so far."""

    def __init__(self, words: list[str], runs: Path, variables: Mapping[str, str]) -> None:
        self.runs, self.lines = runs, list[str]()
        self.process = subprocess.Popen(
            [str(HOPULAR), *words],
            cwd=REPOSITORY,
            env=environment(runs, variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that `interrupt` reaches what a terminal would, and not the tests
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for_line(self, number: int, seconds: float = 900) -> bool:
        """Until so many lines of progress are there; False if the command ended before."""
        wait_for(lambda: len(self.lines) >= number or not self.is_running, seconds)
        return self.is_running

    def processes(self, victim: Victim) -> list[psutil.Process]:
        """The command itself, its own Prefect server, or the processes that fit for it."""
        if victim == "parent":
            return [psutil.Process(self.process.pid)] if self.is_running else []
        return [found for found in processes_of(self.runs) if SIGNS[victim] in " ".join(words_of(found))]

    def kill(self, victim: Victim) -> bool:
        """SIGKILL for one of the victims; whether there was one."""
        for process in self.processes(victim)[:1]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                return False
            return True
        return False

    def interrupt(self) -> None:
        """Do what a terminal does on Ctrl-C: SIGINT for the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self, seconds: float = 900) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(seconds)
        self._reader.join(20)
        return code


@contextmanager
def running(words: list[str], runs: Path, **variables: str) -> Iterator[Command]:
    """The command within the block; nothing of it is left afterwards."""
    command = Command(words, runs, variables)
    try:
        yield command
    finally:
        for process in [*command.processes("parent"), *processes_of(runs)]:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        command.end(20)


def environment(runs: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that works for a runs folder; nothing of the caller's Prefect and MLflow."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))}
    folders = {"HOPULAR_RUNS": str(runs), "HOPULAR_CACHE": str(runs / "cache"), "TMPDIR": str(scratch_of(runs))}
    scratch_of(runs).mkdir(parents=True, exist_ok=True)
    return {**own, **folders, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **variables}


def processes_of(runs: Path) -> list[psutil.Process]:
    """All processes that work for a runs folder, orphans included; this one is not among them."""
    return processes_with("HOPULAR_RUNS", str(runs))


def processes_with(variable: str, value: str) -> list[psutil.Process]:
    """All processes that have this value in their environment, but for this one."""
    found = []
    for process in psutil.process_iter():
        try:
            is_dead = process.status() == psutil.STATUS_ZOMBIE
            if not is_dead and process.pid != os.getpid() and process.environ().get(variable) == value:
                found.append(process)
        except psutil.Error:
            continue
    return found


def words_of(process: psutil.Process) -> list[str]:
    """The command line of a process; nothing if it has just ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def scratch_of(runs: Path) -> Path:
    """Where the command keeps its temporary files."""
    return runs.with_name(f"{runs.name}-tmp")


def wait_for(condition: Callable[[], object], seconds: float = 60, what: str = "it") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.02)
