"""Linear discriminant analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, prepared


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """LDA with a shrunk covariance, which one-hot columns and classes of one row need."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return prepared(task, LinearDiscriminantAnalysis(**{"solver": "lsqr", "shrinkage": 0.1, **params}))


METHOD = Method(
    name="lda",
    title="Linear discriminant analysis",
    group="classical",
    make=make,
    tasks=("classification",),
    paper_name="Discriminant Analysis",
    paper_note="Theirs is mixture discriminant analysis (mda of R's caret), ours linear.",
    notes=(STOPPED_FROM_OUTSIDE,),
)
