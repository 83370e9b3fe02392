"""A single decision tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, prepared


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """CART on category codes, with NaN as it is."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    tree = DecisionTreeClassifier if task == "classification" else DecisionTreeRegressor
    return prepared(task, tree(**params, random_state=run.seed), "ordinal")


METHOD = Method(
    name="decision_tree",
    title="Decision tree",
    group="classical",
    make=make,
    paper_name="Decision Trees",
    notes=(STOPPED_FROM_OUTSIDE,),
)
