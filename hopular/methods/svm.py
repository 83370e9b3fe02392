"""Support vector machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.prepared import (
    STOPPED_FROM_OUTSIDE,
    Array,
    all_classes,
    assign_folds,
    decision_values,
    out_of_fold,
    prepared,
    softmax,
)


class CalibratedSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """SVC with probabilities: the softmax of its decision values times a factor.

    The factor is the one with the least log loss on decision values out of fold. It leaves the decisions as they are,
    and needs no class to be in every fold, unlike Platt's method.
    """

    def __init__(
        self,
        C: float = 1.0,
        kernel: str = "rbf",
        gamma: float | str = "scale",
        class_weight: str | None = None,
        n_folds: int = 3,
        random_state: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.class_weight = class_weight
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        from sklearn.svm import SVC

        self.classes_, codes = np.unique(y, return_inverse=True)
        svc = SVC(C=self.C, kernel=self.kernel, gamma=self.gamma, class_weight=self.class_weight, cache_size=500)
        self.factor_ = self._calibrated(svc, X, codes, sample_weight)
        self.svc_ = svc.fit(X, codes, sample_weight)
        return self

    def predict_proba(self, X: Array) -> Array:
        return softmax(self.factor_ * decision_values(self.svc_, X))

    def predict(self, X: Array) -> Array:
        return np.asarray(self.classes_[decision_values(self.svc_, X).argmax(1)])

    def _calibrated(self, svc: Any, X: Array, codes: Array, weights: Array | None) -> float:
        from scipy.optimize import minimize_scalar

        values, labels, places = [np.empty((0, len(self.classes_)))], [np.empty(0, dtype=int)], [np.empty(0, dtype=int)]
        folds = assign_folds(codes, self.n_folds, self.random_state)
        for rows, model, decided in out_of_fold(svc, X, codes, folds, _decisions, weights):
            known = np.isin(codes[rows], model.classes_)
            if len(model.classes_) > 1 and known.any():
                values.append(all_classes(decided, model.classes_, len(self.classes_), -np.inf)[known])
                labels.append(codes[rows][known])
                places.append(rows[known])
        scores, truth = np.concatenate(values), np.concatenate(labels)
        of_truth = None if weights is None else weights[np.concatenate(places)]
        if not len(truth) or (of_truth is not None and not of_truth.any()):
            return 1.0

        def log_loss(exponent: float) -> float:
            chosen = softmax(np.exp(exponent) * scores)[np.arange(len(truth)), truth]
            return float(np.average(-np.log(np.maximum(chosen, 1e-15)), weights=of_truth))

        return float(np.exp(minimize_scalar(log_loss, bounds=(-4.0, 3.0), method="bounded").x))


def _decisions(model: Any, X: Array) -> Array:
    return decision_values(model, X) if hasattr(model, "decision_function") else np.zeros((len(X), 1))


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make SVC or SVR with a radial kernel."""
    from sklearn.svm import SVR

    if task == "classification":
        return prepared(task, CalibratedSVC(**params, random_state=run.seed))
    return prepared(task, SVR(**{"cache_size": 500, **params}), standardise_target=True)


METHOD = Method(
    name="svm",
    title="SVM",
    group="classical",
    make=make,
    takes_weights=True,
    paper_name="Support Vector Machines",
    notes=(
        "probabilities are the softmax of the decision values, scaled by cross-validation",
        STOPPED_FROM_OUTSIDE,
    ),
)
