"""The floor of classification: how often each class occurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import prepared


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """It looks at the target alone."""
    from sklearn.dummy import DummyClassifier

    return prepared(task, DummyClassifier(**{"strategy": "prior", **params}), "ordinal")


METHOD = Method(
    name="majority", title="Most frequent class", group="floor", make=make, tasks=("classification",), cost=0.5
)
