"""Methods that take a few lines: nearest neighbours, naive Bayes, and the floors, which look at the target alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, prepared


def _make_knn(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make neighbours in the space of standardised numbers and one-hot categories, never more than there are rows."""
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    neighbours = KNeighborsClassifier if task == "classification" else KNeighborsRegressor
    return prepared(task, neighbours(**{"algorithm": "brute", **params}, n_jobs=run.threads))


def _make_naive_bayes(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make GaussianNB; the smoothed variance keeps a class of one row, or a category it never has, from certainty."""
    from sklearn.naive_bayes import GaussianNB

    return prepared(task, GaussianNB(**{"var_smoothing": 1e-2, **params}))


def _make_floor(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make what predicts how often each class occurs, or the mean."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    floor = DummyClassifier(strategy="prior") if task == "classification" else DummyRegressor()
    return prepared(task, floor.set_params(**params), "ordinal")


METHODS = (
    Method(
        name="knn",
        title="Nearest neighbours",
        group="classical",
        make=_make_knn,
        paper_name="Nearest Neighbour",
        paper_note="Theirs is NNge, which generalises exemplars to boxes, ours k nearest neighbours.",
        notes=(STOPPED_FROM_OUTSIDE,),
    ),
    Method(
        name="naive_bayes",
        title="Naive Bayes",
        group="classical",
        make=_make_naive_bayes,
        tasks=("classification",),
        takes_weights=True,
        paper_name="Bayesian Methods",
        notes=(STOPPED_FROM_OUTSIDE,),
    ),
    Method(
        name="majority",
        title="Most frequent class",
        group="floor",
        make=_make_floor,
        tasks=("classification",),
        cost=0.5,
        takes_weights=True,
    ),
    Method(
        name="mean",
        title="Mean",
        group="floor",
        make=_make_floor,
        tasks=("regression",),
        cost=0.5,
        takes_weights=True,
    ),
)
