"""Retries: which errors of a task are worth another try, and after how long."""

from __future__ import annotations

from typing import Any

from prefect.task_engine import TaskRunTimeoutError
from prefect.tasks import exponential_backoff

from flows.tracking.store import is_away
from hopular.data.download import UnreachableError
from hopular.search.worker import InfrastructureError


def is_infrastructure(_task: Any, _run: Any, state: Any) -> bool:
    """Whether another try may help: the machine, a store or the network failed, not the model or the data.

    A task that has used up its own time would do so again.
    """
    error = state.result(raise_on_failure=False)
    if not isinstance(error, Exception) or isinstance(error, TaskRunTimeoutError):
        return False
    return isinstance(error, InfrastructureError | UnreachableError) or is_away(error)


RETRY: dict[str, Any] = {
    "retries": 5,
    # 248 s in all, which chance shortens to 166 s at most: about as patient as with the store
    "retry_delay_seconds": exponential_backoff(backoff_factor=8),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": is_infrastructure,
}
FETCH_RETRY = {**RETRY, "retries": 2}  # each download is tried several times already
