"""Bagged decision trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPS_IN_TIME, prepared


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """200 trees on bootstrap samples of the rows."""
    from sklearn.ensemble import BaggingClassifier, BaggingRegressor

    bagging = BaggingClassifier if task == "classification" else BaggingRegressor
    trees = bagging(**{"n_estimators": 200, **params}, random_state=run.seed, n_jobs=run.threads)
    return prepared(task, trees, "ordinal", max_seconds=run.max_seconds)


METHOD = Method(
    name="bagging",
    title="Bagging",
    group="classical",
    make=make,
    paper_name="Bagging Methods",
    paper_note="Theirs bags conditional inference trees (ctree), ours those of scikit-learn.",
    cost=3.0,
    notes=(STOPS_IN_TIME,),
)
