"""Generalised linear models with an elastic net: binomial or multinomial for classes, normal for numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, Array, prepared


class ElasticNetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression whose penalty `alpha` is per row, as that of ElasticNet and of R's glmnet."""

    def __init__(self, alpha: float = 0.01, l1_ratio: float = 0.5, max_iter: int = 1000, random_state: int = 0) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> Self:
        from sklearn.linear_model import LogisticRegression

        self.model_ = LogisticRegression(
            C=1 / (self.alpha * len(X)),
            l1_ratio=self.l1_ratio,
            solver="saga",
            tol=1e-3,
            max_iter=self.max_iter,
            random_state=self.random_state,
        ).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Array) -> Array:
        return self.model_.predict_proba(X)  # type: ignore[no-any-return]

    def predict(self, X: Array) -> Array:
        return self.model_.predict(X)  # type: ignore[no-any-return]


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """The penalised model of a task: `alpha` is its strength, `l1_ratio` the share of the lasso in it."""
    from sklearn.linear_model import ElasticNet

    settings = {"alpha": 0.01, "l1_ratio": 0.5, **params}
    if task == "classification":
        return prepared(task, ElasticNetClassifier(**settings, random_state=run.seed))
    return prepared(task, ElasticNet(**{"max_iter": 5000, **settings}), standardise_target=True)


METHOD = Method(
    name="glm",
    title="Generalised linear model",
    group="classical",
    make=make,
    paper_name="Generalized Linear Models",
    paper_note="Theirs is bayesglm, with a prior, ours has an elastic net.",
    notes=(STOPPED_FROM_OUTSIDE,),
)
