"""Ensemble: a weighted mean of fitted estimators.

As a method of benchmarks it chooses its members greedily on the validation rows (Caruana et al. 2004). It is also what
the fold models of a trial are together, its bag, and what `hopular fit` hands out: a blend of bags.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.saved import CLASS_FILE, CONTENT, FORMAT, class_name, own_class

Array = np.ndarray[Any, Any]
_ROUNDS = 50  # of adding a member: a weight is a multiple of 1 / 50
Member = tuple[str, Mapping[str, Any], int | None]  # method, its parameters, its seed (None: that of the ensemble)
DEFAULT: dict[Task, list[Member]] = {
    "classification": [("logistic", {}, None), ("random_forest", {}, None), ("xgboost", {}, None)],
    "regression": [("glm", {}, None), ("random_forest", {}, None), ("xgboost", {}, None)],
}
STATE_FILE = "ensemble.json"


def greedy_weights(predictions: Sequence[Array], loss: Any) -> Array:
    """Return the weights of the mean of `predictions` with the lowest `loss`, found by adding one member at a time.

    A member may be added again. The best number of rounds is kept; of equal members the first is taken, so the result
    is repeatable.
    """
    total = np.zeros_like(np.asarray(predictions[0], dtype=np.float64))
    counts, best = np.zeros(len(predictions)), (np.inf, np.zeros(len(predictions)))
    for size in range(1, _ROUNDS + 1):
        losses = [loss((total + prediction) / size) for prediction in predictions]
        chosen = int(np.argmin(losses))
        counts[chosen] += 1
        total = total + predictions[chosen]
        if losses[chosen] < best[0] - 1e-12:
            best = (losses[chosen], counts / size)
    return best[1]


def log_loss_of(codes: Array) -> Any:
    """Return the log loss as a function of probabilities; `codes` are the true classes, -1 if unknown to training."""
    rows, known = np.arange(len(codes)), codes >= 0

    def loss(probabilities: Array) -> float:
        truth = np.where(known, probabilities[rows, codes], 0.0)
        return float(np.abs(np.log(np.clip(truth, 1e-15, 1.0))).mean())

    return loss


def squared_error_of(y: Array) -> Any:
    """Return the mean squared error as a function of predictions."""
    return lambda predicted: float(np.mean((predicted - y) ** 2))


class Ensemble(BaseEstimator, ABC):  # type: ignore[misc]
    """Fits its members one by one, then weighs them on the validation rows.

    `places_` are the places in `members` of those it consists of, `failures_` says which it lost and why.
    """

    _task: Task
    weights_: Array
    estimators_: list[Any]
    temperature_: float = 1.0  # probabilities are softened by it: their logarithms are divided by it
    multipliers_: Array | None = None  # of each class's probability, before the most probable class is taken

    def __init__(
        self,
        members: Sequence[Member] | None = None,
        *,
        max_seconds: float | None = None,
        n_jobs: int = 1,
        device: str = "cpu",
        random_state: int = 0,
    ) -> None:
        self.members = members
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any, eval_set: tuple[Any, Any] | None = None) -> Self:
        """Fit the members on X and y. Without `eval_set` a fifth of the rows is held out to weigh them."""
        import pandas as pd

        from hopular.methods import get_method
        from hopular.model.folds import hold_out

        X, y = pd.DataFrame(X), pd.Series(y).reset_index(drop=True)
        if eval_set is None:
            train, held_out = hold_out(
                len(X), 0.2, y.to_numpy() if self._task == "classification" else None, self.random_state
            )
            eval_set = (X.iloc[held_out], y.iloc[held_out])
            X, y = X.iloc[train], y.iloc[train]
        if self._task == "classification":
            self.classes_ = np.unique(np.asarray(y))
        members = list(self.members or DEFAULT[self._task])
        end = None if self.max_seconds is None else time.monotonic() + self.max_seconds
        fitted: list[Any] = []
        failures: list[str] = []
        names, predictions, places = [], [], []
        for place, (name, params, seed) in enumerate(members):
            left = None if end is None else (end - time.monotonic()) / (len(members) - place)
            if left is not None and left <= 0 and fitted:
                failures.append(f"{name}: no time was left for it")
                continue
            run = Run(self.random_state if seed is None else seed, self.n_jobs, self.device, left)
            try:
                member = get_method(name).make(self._task, params, run).fit(X, y, eval_set=eval_set)
                predictions.append(self._outputs(member, eval_set[0]))
            except Exception as error:  # one member less is no reason to have none
                failures.append(f"{name}: {type(error).__name__}: {error}")
                continue
            fitted.append(member)
            names.append(name)
            places.append(place)
        if not fitted:
            raise RuntimeError(f"no member of the ensemble could be fitted: {'; '.join(failures)}")
        if failures:
            warnings.warn(f"left out of the ensemble: {'; '.join(failures)}", stacklevel=2)
        weights = greedy_weights(predictions, self._loss(eval_set[1]))
        kept = np.flatnonzero(weights)
        self.estimators_ = [fitted[place] for place in kept]
        self.member_names_ = [names[place] for place in kept]
        self.weights_ = weights[kept]
        self.places_ = [places[place] for place in kept]
        self.failures_ = failures
        self.n_features_in_ = X.shape[1]
        return self

    @staticmethod
    def from_members(
        members: Sequence[tuple[str, float, Any]], n_features: int, classes: Sequence[str] | None
    ) -> Ensemble:
        """Return an ensemble of fitted members: each a method, its weight and its estimator.

        `classes` is None for regression.
        """
        ensemble: Ensemble = EnsembleRegressor() if classes is None else EnsembleClassifier()
        ensemble.member_names_ = [name for name, _, _ in members]
        ensemble.weights_ = np.array([weight for _, weight, _ in members])
        ensemble.estimators_ = [estimator for _, _, estimator in members]
        ensemble.n_features_in_ = n_features
        if classes is not None:
            ensemble.classes_ = np.asarray(classes, dtype=object)
        return ensemble

    @abstractmethod
    def _loss(self, y: Any) -> Any:
        """Return how far predictions are from `y`, as a function of them."""

    @abstractmethod
    def _outputs(self, member: Any, X: Any) -> Array:
        """Return what a member predicts for the rows: probabilities, or numbers."""

    def _mean(self, X: Any) -> Array:
        check_is_fitted(self, "estimators_")
        parts = (w * self._outputs(m, X) for w, m in zip(self.weights_, self.estimators_, strict=True))
        return np.asarray(sum(parts))

    def predict_fold(self, X: Any, fold: int, folds: int) -> Array:
        """Return what a blend of bags predicts with the models of one of `folds` alone."""
        bags = zip(self.weights_, self.estimators_, strict=True)
        return self._finish(np.asarray(sum(weight * self._of_fold(bag, X, fold, folds) for weight, bag in bags)))

    def _of_fold(self, bag: Any, X: Any, fold: int, folds: int) -> Array:
        """Return what the model of a fold predicts; a network has held out several folds with one member."""
        if isinstance(bag, Ensemble):
            return self._outputs(bag.estimators_[fold], X)
        if folds > 1 and hasattr(bag, "predict_each"):
            each = bag.predict_each(X)
            return self._aligned(each[fold % len(each)], bag)
        return self._outputs(bag, X)

    def _finish(self, mean: Array) -> Array:
        """Return the answer that the members' mean stands for."""
        return mean

    def _aligned(self, outputs: Array, member: Any) -> Array:
        """Return what a member predicts in the order of this ensemble's classes."""
        return np.asarray(outputs, dtype=np.float64)

    def save(self, path: str | Path) -> None:
        """Write every member with its own `save`, and what binds them together as JSON."""
        check_is_fitted(self, "estimators_")
        lacking = [class_name(type(member)) for member in self.estimators_ if not hasattr(member, "save")]
        if lacking:
            raise NotImplementedError(f"{lacking[0]}, a member of the ensemble, cannot be saved")
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        for place, member in enumerate(self.estimators_):
            member.save(folder / f"member-{place}")
        kinds = [class_name(type(member)) for member in self.estimators_]
        members = list(zip(self.member_names_, self.weights_.tolist(), kinds, strict=True))
        classes = getattr(self, "classes_", None)
        _write_state(folder, members, self.n_features_in_, classes, self.temperature_, self.multipliers_)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an ensemble written by `save`; only estimators of this project are loaded."""
        folder = Path(path)
        try:
            state = json.loads((folder / STATE_FILE).read_text())
            ensemble, estimators = cls(), []
            for place, member in enumerate(state["members"]):
                estimators.append(own_class(member["class"]).load(folder / f"member-{place}"))
        except (OSError, KeyError, AttributeError, ImportError, json.JSONDecodeError) as error:
            raise ValueError(f"{folder / STATE_FILE} cannot be read: {error}") from error
        ensemble.estimators_, ensemble.weights_ = estimators, np.asarray(state["weights"])
        ensemble.member_names_ = [member["name"] for member in state["members"]]
        ensemble.n_features_in_ = state["n_features_in"]
        ensemble.temperature_ = float(state.get("temperature", 1.0))
        ensemble.multipliers_ = None if state.get("multipliers") is None else np.asarray(state["multipliers"])
        if "classes" in state:
            ensemble.classes_ = np.asarray(state["classes"]["values"], dtype=state["classes"]["dtype"])
        return ensemble


class EnsembleClassifier(ClassifierMixin, Ensemble):  # type: ignore[misc]
    """Mean of the members' probabilities."""

    _task: Task = "classification"

    def _loss(self, y: Any) -> Any:
        places = {str(label): place for place, label in enumerate(self.classes_)}
        return log_loss_of(np.array([places.get(str(label), -1) for label in y]))

    def _outputs(self, member: Any, X: Any) -> Array:
        """Return the member's probabilities, in the order of this ensemble's classes."""
        return self._aligned(member.predict_proba(X), member)

    def _aligned(self, outputs: Array, member: Any) -> Array:
        places = {str(label): place for place, label in enumerate(self.classes_)}
        aligned = np.zeros((len(outputs), len(places)))  # a class that the member has not seen is impossible to it
        aligned[:, [places[str(label)] for label in member.classes_]] = outputs
        return aligned

    def _finish(self, mean: Array) -> Array:
        shares = mean / mean.sum(axis=1, keepdims=True)
        return np.asarray(shares if self.temperature_ == 1.0 else soften(shares, self.temperature_))

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities, columns in the order of `classes_`."""
        return self._finish(self._mean(X))

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row, by probabilities times the multipliers of classes if any."""
        shares = self.predict_proba(X)
        return np.asarray(
            self.classes_[(shares if self.multipliers_ is None else shares * self.multipliers_).argmax(1)]
        )


class EnsembleRegressor(RegressorMixin, Ensemble):  # type: ignore[misc]
    """Mean of the members' numbers."""

    _task: Task = "regression"

    def _loss(self, y: Any) -> Any:
        return squared_error_of(np.asarray(y, dtype=np.float64))

    def _outputs(self, member: Any, X: Any) -> Array:
        return np.asarray(member.predict(X), dtype=np.float64)

    def predict(self, X: Any) -> Array:
        """Return the predicted number for each row."""
        return self._mean(X)


def member_names(folder: Path) -> list[str]:
    """Return the methods that the model saved into `folder` is made of; none if it is no ensemble."""
    file = folder / CONTENT / STATE_FILE
    return [member["name"] for member in json.loads(file.read_text())["members"]] if file.exists() else []


def soften(probabilities: Array, temperature: float) -> Array:
    """Return probabilities whose logarithms are divided by a temperature."""
    powers = np.clip(probabilities, 1e-15, 1.0) ** (1.0 / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _write_state(
    folder: Path,
    members: Sequence[tuple[str, float, str]],
    n_features: int,
    classes: Array | None,
    temperature: float = 1.0,
    multipliers: Sequence[float] | Array | None = None,
) -> None:
    """Write what binds the members (method, weight, class) together."""
    state: dict[str, Any] = {
        "members": [{"name": name, "class": kind} for name, _, kind in members],
        "weights": [weight for _, weight, _ in members],
        "n_features_in": n_features,
        "temperature": temperature,
        "multipliers": None if multipliers is None else [float(value) for value in multipliers],
    }
    if classes is not None:
        state["classes"] = {"values": classes.tolist(), "dtype": str(classes.dtype)}
    (folder / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")


def write_ensemble(
    folder: Path,
    members: Sequence[tuple[str, float, Path]],
    n_features: int,
    classes: Sequence[str] | None,
    *,
    temperature: float = 1.0,
    multipliers: Sequence[float] | None = None,
) -> None:
    """Write an ensemble as `hopular.methods.saved.save_model` does, from saved members, none of which is loaded.

    Each member is a method, its weight and the folder it was saved to; `classes` is None for regression.
    """
    content, noted = folder / CONTENT, []
    content.mkdir(parents=True)
    for place, (name, weight, saved) in enumerate(members):
        noted.append((name, weight, json.loads((saved / CLASS_FILE).read_text(encoding="utf-8"))["class"]))
        copy = shutil.copytree if (saved / CONTENT).is_dir() else shutil.copy2
        copy(saved / CONTENT, content / f"member-{place}")
    labels = None if classes is None else np.array(classes, dtype=object)
    _write_state(content, noted, n_features, labels, temperature, multipliers)
    kind = EnsembleRegressor if classes is None else EnsembleClassifier
    note = {"format": FORMAT, "class": class_name(kind)}
    (folder / CLASS_FILE).write_text(json.dumps(note), encoding="utf-8")


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make an ensemble of the members in `params`, or of a few default ones."""
    estimator = EnsembleClassifier if task == "classification" else EnsembleRegressor
    return estimator(
        **params, random_state=run.seed, n_jobs=run.threads, device=run.device, max_seconds=run.max_seconds
    )


METHOD = Method(
    name="ensemble",
    title="Greedy ensemble",
    group="ensemble",
    make=make,
    uses_gpu=True,
    notes=("After a search its members are chosen from everything that was tried, on the validation rows alone.",),
)
