"""Stop: the worker and its flow runs first, then the servers that they report to, and last whatever is left."""

from __future__ import annotations

import time

import psutil

from flows.services.processes import end, family, find, marked, roots
from flows.services.runs import report_ended
from flows.services.state import State, forget_state, read_state

PATIENCE = 15.0  # seconds for the worker and its runs, and again for the servers, before they are ended by force


def is_running(state: State) -> bool:
    """Whether any of the recorded processes is alive."""
    return any(find(process) for process in state.processes)


def stop(state: State, patience: float = PATIENCE) -> None:
    """End all processes of the services, children and orphans included, and forget them. Can be repeated."""
    servers = [process for process in (find(state.process("prefect")), find(state.process("mlflow"))) if process]
    pids = _end_work(state, servers, patience)
    if pids and servers:
        report_ended(state, pids)
    end(servers, patience)
    end(marked(state.mark), patience=1.0)
    latest = read_state()
    if latest is not None and latest.mark == state.mark:
        forget_state()


def _end_work(state: State, servers: list[psutil.Process], patience: float) -> set[int]:
    """End the worker and its flow runs, each process before those that it started, and return their numbers.

    A flow run is wrapped in a process of Prefect's that ends at once, so this takes more than one round.
    """
    pids: set[int] = set()
    worker = find(state.process("worker"))
    deadline = time.monotonic() + patience
    while True:
        kept = {process.pid for server in servers for process in family(server)}
        work = [process for process in marked(state.mark) if process.pid not in kept]
        if not work:
            return pids
        pids |= {process.pid for process in work}
        runs = roots(process for process in work if worker is None or process.pid != worker.pid)
        end({*runs, *(process for process in work if process == worker)}, max(0.0, deadline - time.monotonic()))
