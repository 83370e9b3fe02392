"""Retries: which errors of a task are worth another try, and after how long."""

from __future__ import annotations

import random
from typing import Any

from prefect.task_engine import TaskRunTimeoutError

from flows import stopping
from flows.tracking.store import is_away
from hopular.data.download import UnreachableError
from hopular.trials.worker import InfrastructureError


def is_infrastructure(_task: Any, _run: Any, state: Any) -> bool:
    """Whether another try may help: the machine, a store or the network failed, not the model or the data.

    A task that has used up its own time would do so again.
    """
    error = state.result(raise_on_failure=False)
    if not isinstance(error, Exception) or isinstance(error, TaskRunTimeoutError):
        return False
    return isinstance(error, InfrastructureError | UnreachableError) or is_away(error)


def try_again(task: Any, run: Any, state: Any) -> bool:
    """Whether to do a task once more, answered after a pause that doubles each time.

    Prefect's own pause between tries cannot be cut short when the benchmark is stopped.
    """
    pause = PAUSE * 2 ** (run.run_count - 1) * random.uniform(0.7, 1.3)
    return is_infrastructure(task, run, state) and not stopping.wait(pause)


PAUSE = 8.0  # seconds; five of them are 248 s, about as patient as with the store
RETRY: dict[str, Any] = {"retries": 5, "retry_condition_fn": try_again}
FETCH_RETRY = {**RETRY, "retries": 2}  # each download is tried several times already
