"""Linear methods: logistic regression, the elastic net, discriminant analysis and partial least squares."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, Array, prepared

_LEAST_SHARE = 1e-3  # of a class in the predictions of PLS-DA, before they are normalised


class ElasticNetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression whose penalty `alpha` is per row, as that of ElasticNet and of R's glmnet."""

    def __init__(self, alpha: float = 0.01, l1_ratio: float = 0.5, max_iter: int = 1000, random_state: int = 0) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        from sklearn.linear_model import LogisticRegression

        self.model_ = LogisticRegression(
            C=1 / (self.alpha * len(X)),
            l1_ratio=self.l1_ratio,
            solver="saga",
            tol=1e-3,
            max_iter=self.max_iter,
            random_state=self.random_state,
        ).fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Array) -> Array:
        return self.model_.predict_proba(X)  # type: ignore[no-any-return]

    def predict(self, X: Array) -> Array:
        return self.model_.predict(X)  # type: ignore[no-any-return]


def _fit_pls(n_components: int, X: Array, Y: Array) -> Any:
    """Fit PLS with as many components as there is covariance for; the mean of Y if there is none (as in XOR)."""
    from sklearn.cross_decomposition import PLSRegression
    from sklearn.dummy import DummyRegressor

    for components in range(n_components, 0, -1):
        with suppress(FloatingPointError), np.errstate(divide="raise", invalid="raise"):
            return PLSRegression(components, scale=False).fit(X, Y)
    return DummyRegressor().fit(X, Y)


class PLSDiscriminant(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """PLS on one-hot labels; what it predicts, cut at a small positive number, becomes probabilities."""

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: Array, y: Array) -> Self:
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.pls_ = _fit_pls(self.n_components, X, np.eye(len(self.classes_))[codes])
        return self

    def predict_proba(self, X: Array) -> Array:
        predicted = np.clip(self.pls_.predict(X), _LEAST_SHARE, None)
        return np.asarray(predicted / predicted.sum(1, keepdims=True))

    def predict(self, X: Array) -> Array:
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])


class PLSRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """PLS on a number."""

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: Array, y: Array) -> Self:
        self.pls_ = _fit_pls(self.n_components, X, y)
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.pls_.predict(X))


def _make_logistic(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make LogisticRegression; lbfgs needs no seed."""
    from sklearn.linear_model import LogisticRegression

    return prepared(task, LogisticRegression(**{"max_iter": 1000, **params}))


def _make_glm(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make the penalised model of a task: `alpha` is its strength, `l1_ratio` the share of the lasso in it."""
    from sklearn.linear_model import ElasticNet

    settings = {"alpha": 0.01, "l1_ratio": 0.5, **params}
    if task == "classification":
        return prepared(task, ElasticNetClassifier(**settings, random_state=run.seed))
    return prepared(task, ElasticNet(**{"max_iter": 5000, **settings}), standardise_target=True)


def _make_lda(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make LDA with a shrunk covariance, which one-hot columns and classes of one row need."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return prepared(task, LinearDiscriminantAnalysis(**{"solver": "lsqr", "shrinkage": 0.1, **params}))


def _make_pls(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make PLS with as many components as asked for and possible."""
    pls = PLSDiscriminant if task == "classification" else PLSRegressor
    return prepared(task, pls(**params), standardise_target=True)


METHODS = (
    Method(
        name="logistic",
        title="Logistic regression",
        group="classical",
        make=_make_logistic,
        tasks=("classification",),
        takes_weights=True,
        paper_name="Logistic and Multinomial Regression",
        notes=(STOPPED_FROM_OUTSIDE,),
    ),
    Method(
        name="glm",
        title="Generalised linear model",
        group="classical",
        make=_make_glm,
        takes_weights=True,
        paper_name="Generalized Linear Models",
        paper_note="Theirs is bayesglm, with a prior, ours has an elastic net.",
        notes=(STOPPED_FROM_OUTSIDE,),
    ),
    Method(
        name="lda",
        title="Linear discriminant analysis",
        group="classical",
        make=_make_lda,
        tasks=("classification",),
        paper_name="Discriminant Analysis",
        paper_note="Theirs is mixture discriminant analysis (mda of R's caret), ours linear.",
        notes=(STOPPED_FROM_OUTSIDE,),
    ),
    Method(
        name="pls",
        title="Partial least squares",
        group="classical",
        make=_make_pls,
        paper_name="Partial Least Squares",
        notes=(
            "classes are one-hot targets; predictions are cut at 0.001 and normalised to probabilities",
            STOPPED_FROM_OUTSIDE,
        ),
    ),
)
