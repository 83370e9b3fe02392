"""Nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, prepared


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Neighbours in the space of standardised numbers and one-hot categories, never more than there are rows."""
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    neighbours = KNeighborsClassifier if task == "classification" else KNeighborsRegressor
    return prepared(task, neighbours(**{"algorithm": "brute", **params}, n_jobs=run.threads))


METHOD = Method(
    name="knn",
    title="Nearest neighbours",
    group="classical",
    make=make,
    paper_name="Nearest Neighbour",
    paper_note="Theirs is NNge, which generalises exemplars to boxes, ours k nearest neighbours.",
    notes=(STOPPED_FROM_OUTSIDE,),
)
