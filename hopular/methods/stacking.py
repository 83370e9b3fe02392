"""Stacking (Wolpert): a linear model combines a linear model, a forest and nearest neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import (
    STOPPED_FROM_OUTSIDE,
    Array,
    all_classes,
    assign_folds,
    fit_estimator,
    out_of_fold,
    prepared,
)


class Stacked(BaseEstimator, ABC):  # type: ignore[misc]
    """Common part of classifier and regressor: base models, cross-fitted for the final one, then fitted to all rows.

    A class that is in one fold alone has probability 0 out of fold, so that rare classes need no special care.
    """

    def __init__(
        self,
        C: float = 1.0,
        n_neighbors: int = 15,
        min_samples_leaf: int = 1,
        n_estimators: int = 200,
        n_folds: int = 5,
        n_jobs: int = 1,
        random_state: int = 0,
    ) -> None:
        self.C = C
        self.n_neighbors = n_neighbors
        self.min_samples_leaf = min_samples_leaf
        self.n_estimators = n_estimators
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _stack(self, X: Array, y: Array, folds: Array) -> Array:
        """Fit the base models and return what they predict out of fold."""
        columns = []
        self.base_ = []
        for estimator in self._base():
            parts = [(rows, predicted) for rows, _, predicted in out_of_fold(estimator, X, y, folds, self._response)]
            column = np.empty((len(X), parts[0][1].shape[1]))
            for rows, predicted in parts:
                column[rows] = predicted
            columns.append(column)
            self.base_.append(fit_estimator(estimator, X, y))
        return np.hstack(columns)

    def _responses(self, X: Array) -> Array:
        return np.hstack([self._response(model, X) for model in self.base_])

    @abstractmethod
    def _base(self) -> list[Any]:
        """Return the estimators of the first level."""

    @abstractmethod
    def _response(self, model: Any, X: Array) -> Array:
        """Return what a base model predicts for the rows, as columns."""

    def _forest(self) -> dict[str, Any]:
        return {
            "n_estimators": self.n_estimators,
            "min_samples_leaf": self.min_samples_leaf,
            "n_jobs": self.n_jobs,
            "random_state": self.random_state,
        }


class StackedClassifier(ClassifierMixin, Stacked):  # type: ignore[misc]
    """Logistic regression on the probabilities of logistic regression, random forest and nearest neighbours."""

    def fit(self, X: Array, y: Array) -> Self:
        from sklearn.linear_model import LogisticRegression

        self.classes_, codes = np.unique(y, return_inverse=True)
        inputs = self._stack(X, codes, assign_folds(codes, self.n_folds, self.random_state))
        self.final_ = LogisticRegression(max_iter=1000).fit(inputs, codes)
        return self

    def predict_proba(self, X: Array) -> Array:
        return self.final_.predict_proba(self._responses(X))  # type: ignore[no-any-return]

    def predict(self, X: Array) -> Array:
        return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])

    def _base(self) -> list[Any]:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier

        return [
            LogisticRegression(C=self.C, max_iter=1000),
            RandomForestClassifier(**self._forest()),
            KNeighborsClassifier(self.n_neighbors, algorithm="brute", n_jobs=self.n_jobs),
        ]

    def _response(self, model: Any, X: Array) -> Array:
        return all_classes(model.predict_proba(X), model.classes_, len(self.classes_), 0.0)


class StackedRegressor(RegressorMixin, Stacked):  # type: ignore[misc]
    """Ridge regression on the predictions of ridge regression, random forest and nearest neighbours."""

    def fit(self, X: Array, y: Array) -> Self:
        from sklearn.linear_model import Ridge

        folds = assign_folds(np.zeros(len(y)), self.n_folds, self.random_state)
        self.final_ = Ridge().fit(self._stack(X, y, folds), y)
        return self

    def predict(self, X: Array) -> Array:
        return self.final_.predict(self._responses(X))  # type: ignore[no-any-return]

    def _base(self) -> list[Any]:
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.linear_model import Ridge
        from sklearn.neighbors import KNeighborsRegressor

        return [
            Ridge(alpha=1 / self.C),
            RandomForestRegressor(**self._forest()),
            KNeighborsRegressor(self.n_neighbors, algorithm="brute", n_jobs=self.n_jobs),
        ]

    def _response(self, model: Any, X: Array) -> Array:
        return np.asarray(model.predict(X)).reshape(-1, 1)


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make the stack of a task."""
    stacked = StackedClassifier if task == "classification" else StackedRegressor
    return prepared(task, stacked(**params, n_jobs=run.threads, random_state=run.seed), standardise_target=True)


METHOD = Method(
    name="stacking",
    title="Stacking",
    group="classical",
    make=make,
    paper_name="Stacking (Wolpert)",
    paper_note="Theirs is Weka's Stacking as it comes, which predicts the most frequent class: its accuracies are the "
    "shares of that class. Ours stacks a linear model, a forest and nearest neighbours.",
    cost=4.0,
    notes=(STOPPED_FROM_OUTSIDE,),
)
