"""Extremely randomised trees, one of the paper's other ensembles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPS_IN_TIME, prepared


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """500 trees on category codes, with NaN as it is."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    forest = ExtraTreesClassifier if task == "classification" else ExtraTreesRegressor
    trees = forest(**{"n_estimators": 500, **params}, random_state=run.seed, n_jobs=run.threads)
    return prepared(task, trees, "ordinal", max_seconds=run.max_seconds)


METHOD = Method(
    name="extra_trees",
    title="Extra-trees",
    group="classical",
    make=make,
    paper_name="Other Ensembles",
    paper_note="Theirs is Weka's OrdinalClassClassifier, ours extremely randomised trees.",
    cost=2.0,
    notes=(STOPS_IN_TIME,),
)
