"""Stop: the worker and its flow runs first, then the servers that they report to, and last whatever is left."""

from __future__ import annotations

from flows.services.processes import end, family, find, marked, roots
from flows.services.state import State, forget_state, read_state

PATIENCE = 15.0  # seconds that each of the three steps may take before it is ended by force


def is_running(state: State) -> bool:
    """Whether any of the recorded processes is alive."""
    return any(find(process) for process in state.processes)


def stop(state: State, patience: float = PATIENCE) -> None:
    """End all processes of the services, children and orphans included, and forget them. Can be repeated."""
    servers = [process for process in (find(state.process("prefect")), find(state.process("mlflow"))) if process]
    worker = find(state.process("worker"))
    kept = {process.pid for server in servers for process in family(server)}
    others = [process for process in marked(state.mark) if process.pid not in kept]
    runs = roots([process for process in others if worker is None or process.pid != worker.pid])
    # A flow run that is asked to end still tells the server so; its own children are its own business.
    end([*([worker] if worker else []), *runs], patience)
    end(servers, patience)
    end(marked(state.mark), patience=2.0)
    latest = read_state()
    if latest is not None and latest.mark == state.mark:
        forget_state()
