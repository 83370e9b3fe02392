"""Logistic and multinomial regression with a ridge penalty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, prepared


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """LogisticRegression; lbfgs needs no seed."""
    from sklearn.linear_model import LogisticRegression

    return prepared(task, LogisticRegression(**{"max_iter": 1000, **params}))


METHOD = Method(
    name="logistic",
    title="Logistic regression",
    group="classical",
    make=make,
    tasks=("classification",),
    paper_name="Logistic and Multinomial Regression",
    notes=(STOPPED_FROM_OUTSIDE,),
)
