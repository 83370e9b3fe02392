"""Ask the servers how they are, without their client libraries and without a proxy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from flows.services.processes import find
from flows.services.state import State, log_file
from hopular.util import retry

POOL = "hopular-pool"
_SECONDS = 5.0  # for an answer


@dataclass(frozen=True)
class Check:
    """The health of one service. The detail is its address or its task, and otherwise what is wrong."""

    name: str
    is_healthy: bool
    detail: str

    @property
    def trouble(self) -> str | None:
        return None if self.is_healthy else self.detail


def ask(url: str, body: Any = None, method: str | None = None, seconds: float = _SECONDS) -> Any:
    """Return the answer to a request, parsed if it is JSON. Raise OSError if there is none, HTTPError if it is refused.

    Prefect answers 503 while its database is locked, as happens when it has just started: then it is asked again.
    """
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=method)

    def read() -> str:
        with build_opener(ProxyHandler({})).open(request, timeout=seconds) as response:
            return str(response.read().decode())

    content = retry(read, should_retry=_is_busy, seconds=seconds, pauses=(0.25, 1.0))
    try:
        return json.loads(content)
    except ValueError:
        return content


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, HTTPError) and error.code == 503


def problem(url: str, seconds: float = _SECONDS) -> str | None:
    """Return why an address does not answer as a healthy server would; None if it does."""
    try:
        ask(url, seconds=seconds)
    except HTTPError as error:
        return f"answers {error.code} {error.reason}"
    except URLError as error:
        return f"does not answer ({error.reason})"
    except (OSError, ValueError) as error:
        return f"does not answer ({error})"
    return None


def wait_until_ready(trouble: Callable[[], str | None], is_alive: Callable[[], bool], seconds: float) -> str | None:
    """Return None as soon as there is no trouble with what is being started, and otherwise why it did not start."""
    deadline = time.monotonic() + seconds
    while found := trouble():
        if not is_alive():
            return "ended while it was starting"
        if time.monotonic() > deadline:
            return f"was not ready after {seconds:.0f} s ({found})"
        time.sleep(0.2)
    return None


def check(state: State) -> list[Check]:
    """Look at each service now; the supervisor is mentioned only if it has stopped."""
    checks = [check_prefect(state), check_mlflow(state), check_worker(state), _check_deployments(state)]
    if state.is_ready and find(state.process("supervisor")) is None:
        what = "has stopped, so that services which end are not restarted"
        checks.append(Check("supervisor", False, f"{what}; its log is {log_file('supervisor')}"))
    return checks


def ended(state: State) -> list[str]:
    """Return the services whose process has ended."""
    return [process.name for process in state.processes if process.name != "supervisor" and find(process) is None]


def is_running(state: State) -> bool:
    """Return whether any of the recorded processes is alive."""
    return any(find(process) for process in state.processes)


def check_prefect(state: State) -> Check:
    return _check_server(state, "prefect", "Prefect", state.prefect_url, f"{state.api_url}/health")


def check_mlflow(state: State) -> Check:
    health = f"{state.mlflow_url.rstrip('/')}/health"
    if state.tracking is None:
        return _check_server(state, "mlflow", "MLflow", state.mlflow_url, health)
    trouble = problem(health)
    return Check("MLflow", trouble is None, f"{state.mlflow_url} {trouble or '(yours, by MLFLOW_TRACKING_URI)'}")


def _check_server(state: State, name: str, title: str, url: str, health: str) -> Check:
    if stopped := _stopped(state, name):
        return Check(title, False, stopped)
    trouble = problem(health)
    return Check(title, trouble is None, url if trouble is None else f"{url} {trouble}; its log is {log_file(name)}")


def _stopped(state: State, name: str) -> str | None:
    if find(state.process(name)) is not None:
        return None
    how = " again and again, and is not restarted any more" if name in state.given_up else ""
    return f"has stopped{how}; its log is {log_file(name)}"


def check_worker(state: State) -> Check:
    if stopped := _stopped(state, "worker"):
        return Check("worker", False, stopped)
    try:
        workers = ask(f"{state.api_url}/work_pools/{POOL}/workers/filter", {})
    except OSError as error:
        return Check("worker", False, f"is not known to the server ({error}); its log is {log_file('worker')}")
    if not any(worker["status"] == "ONLINE" and worker["name"] == worker_name(state) for worker in workers):
        return Check("worker", False, f"has not reported to the server; its log is {log_file('worker')}")
    return Check("worker", True, f"waiting for work from {POOL}")


def worker_name(state: State) -> str:
    """Name the worker differently at each `hopular up`, so that the record of an earlier one is not taken for it."""
    return f"hopular-{state.mark}"


def _check_deployments(state: State) -> Check:
    try:
        answer = ask(f"{state.api_url}/deployments/filter", {"sort": "NAME_ASC", "limit": 50})
    except OSError as error:
        return Check("deployments", False, f"cannot be listed ({error})")
    found = ", ".join(str(deployment["name"]) for deployment in answer)
    return Check("deployments", bool(found), found or "there are none: start again with `hopular up`")
