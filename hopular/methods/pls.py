"""Partial least squares: regression, and PLS-DA for classification."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, Array, prepared

LEAST = 1e-3  # probability of a class before normalisation


def fit_pls(n_components: int, X: Array, Y: Array) -> Any:
    """PLS with as many of the components as there is covariance for; the mean of Y if there is none (as in XOR)."""
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
        self.pls_ = fit_pls(self.n_components, X, np.eye(len(self.classes_))[codes])
        return self

    def predict_proba(self, X: Array) -> Array:
        predicted = np.clip(self.pls_.predict(X), LEAST, None)
        return np.asarray(predicted / predicted.sum(1, keepdims=True))

    def predict(self, X: Array) -> Array:
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])


class PLSRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """PLS on a number."""

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: Array, y: Array) -> Self:
        self.pls_ = fit_pls(self.n_components, X, y)
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.pls_.predict(X))


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """PLS with as many components as asked for and possible."""
    pls = PLSDiscriminant if task == "classification" else PLSRegressor
    return prepared(task, pls(**params), standardise_target=True)


METHOD = Method(
    name="pls",
    title="Partial least squares",
    group="classical",
    make=make,
    paper_name="Partial Least Squares",
    notes=(
        "classes are one-hot targets; predictions are cut at 0.001 and normalised to probabilities",
        STOPPED_FROM_OUTSIDE,
    ),
)
