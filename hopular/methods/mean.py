"""The floor of regression: the mean of the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import prepared


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """It looks at the target alone."""
    from sklearn.dummy import DummyRegressor

    return prepared(task, DummyRegressor(**params), "ordinal")


METHOD = Method(name="mean", title="Mean", group="floor", make=make, tasks=("regression",), cost=0.5)
