"""Health: what runs, what answers, and what does not."""

from __future__ import annotations

from dataclasses import dataclass

from flows.services.http import ask, problem
from flows.services.processes import find
from flows.services.state import State, log_file

POOL = "hopular-pool"


@dataclass(frozen=True)
class Check:
    """One service: whether it is well, its address or what it does, and otherwise what is wrong."""

    name: str
    is_well: bool
    detail: str


def check(state: State) -> list[Check]:
    """The state of each service, looked at now."""
    return [check_prefect(state), check_mlflow(state), check_worker(state), check_deployments(state)]


def ended(state: State) -> list[str]:
    """The services whose process has ended."""
    return [process.name for process in state.processes if find(process) is None]


def check_prefect(state: State) -> Check:
    return _server(state, "prefect", "Prefect", state.prefect_url, f"{state.api_url}/health")


def check_mlflow(state: State) -> Check:
    health = f"{state.mlflow_url.rstrip('/')}/health"
    if state.tracking is None:
        return _server(state, "mlflow", "MLflow", state.mlflow_url, health)
    trouble = problem(health)
    return Check("MLflow", trouble is None, f"{state.mlflow_url} {trouble or '(yours, by MLFLOW_TRACKING_URI)'}")


def _server(state: State, name: str, title: str, url: str, health: str) -> Check:
    if find(state.process(name)) is None:
        return Check(title, False, f"has stopped; its log is {log_file(name)}")
    trouble = problem(health)
    return Check(title, trouble is None, url if trouble is None else f"{url} {trouble}; its log is {log_file(name)}")


def check_worker(state: State) -> Check:
    if find(state.process("worker")) is None:
        return Check("worker", False, f"has stopped; its log is {log_file('worker')}")
    try:
        workers = ask(f"{state.api_url}/work_pools/{POOL}/workers/filter", {})
    except OSError as error:
        return Check("worker", False, f"is not known to the server ({error}); its log is {log_file('worker')}")
    if not any(worker["status"] == "ONLINE" and worker["name"] == worker_name(state) for worker in workers):
        return Check("worker", False, f"has not reported to the server; its log is {log_file('worker')}")
    return Check("worker", True, f"waiting for work from {POOL}")


def worker_name(state: State) -> str:
    """A name of its own for each start, so that the record of an earlier worker is not taken for this one."""
    return f"hopular-{state.mark}"


def check_deployments(state: State) -> Check:
    try:
        found = deployments(state)
    except OSError as error:
        return Check("deployments", False, f"cannot be listed ({error})")
    return Check("deployments", bool(found), ", ".join(found) or "there are none: start again with `hopular up`")


def deployments(state: State) -> list[str]:
    """The names of all deployments."""
    answer = ask(f"{state.api_url}/deployments/filter", {"sort": "NAME_ASC", "limit": 50})
    return [str(deployment["name"]) for deployment in answer]
