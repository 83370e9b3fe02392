"""Naive Bayes with normal distributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, prepared


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """GaussianNB; the smoothed variance keeps a class of one row, or a category it never has, from certainty."""
    from sklearn.naive_bayes import GaussianNB

    return prepared(task, GaussianNB(**{"var_smoothing": 1e-2, **params}))


METHOD = Method(
    name="naive_bayes",
    title="Naive Bayes",
    group="classical",
    make=make,
    tasks=("classification",),
    paper_name="Bayesian Methods",
    notes=(STOPPED_FROM_OUTSIDE,),
)
