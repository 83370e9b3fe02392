"""Common parts of the boosting methods: columns, target, validation rows, time limit, saving. No method by itself."""

from __future__ import annotations

import hashlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from hopular.data.dataset import Task
from hopular.methods.method import InvalidParametersError, Method, Run
from hopular.model.columns import check_labels, check_numbers, check_table, codes, is_categorical, label, numbers
from hopular.model.weights import ClassWeight, weigh_classes, weigh_rows

Array = np.ndarray[Any, Any]
EARLY_STOPPING_ROUNDS = (
    50  # rounds without a better validation loss before training stops; without validation rows it never does
)
# Each library has its own names for these, or weights of rows stand for them.
_CIRCUMSTANCES = ("n_estimators", "max_seconds", "n_jobs", "device", "random_state", "class_weight")
STATE_FILE = "estimator.json"
_FLOAT32_MAX = float(np.finfo(np.float32).max)  # the libraries compute in float32, where more is infinite


class Deadline:
    """A time limit asked after every round; it has passed when one more round like the last would exceed it."""

    def __init__(self, seconds: float | None) -> None:
        self.end = float("inf") if seconds is None else time.monotonic() + seconds
        self.last: float | None = None  # the end of the round before

    def passed(self) -> bool:
        now = time.monotonic()
        round_seconds = 0.0 if self.last is None else now - self.last
        self.last = now
        return now + round_seconds > self.end


class Rows(NamedTuple):
    """Encoded rows with their target, and their weights unless all are the same."""

    matrix: Array
    target: Array
    weights: Array | None


class Trained(NamedTuple):
    """A model that a library has trained: of `model` the first `rounds` rounds are used, `curve` has all of them."""

    model: Any
    rounds: int
    gains: Array  # one per column
    curve: list[float]  # validation loss after each round


def best_round(curve: list[float], rounds: int) -> int:
    """Return how many rounds to keep: up to the first lowest validation loss, or all."""
    return min(int(np.argmin(curve)) + 1, rounds) if curve else rounds


def learn_categories(column: pd.Series[Any], name: str) -> list[str] | None:
    """Return the categories that occur, in the order of the column's type; None for numbers."""
    if not is_categorical(column, name):
        return None
    used = column.astype("category").cat.remove_unused_categories()
    return list(dict.fromkeys(map(label, used.cat.categories)))


def encode_column(column: pd.Series[Any], name: str, categories: list[str] | None) -> Array:
    """Return numbers, or codes of `categories`; NaN where missing or, for a category, never seen in training."""
    if categories is not None:
        return codes(column, name, categories)
    return np.asarray(np.clip(numbers(column, name), -_FLOAT32_MAX, _FLOAT32_MAX))


def _varies(rows: Array) -> bool:
    """Tell whether some column tells rows apart; a missing value is a value of its own."""
    rows = rows.astype(np.float32)
    return bool(((rows != rows[0]) & ~(np.isnan(rows) & np.isnan(rows[0]))).any())


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "values": value.tolist()}
    if isinstance(value, np.random.RandomState):
        return None  # its state is no part of the fitted model
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a model with the value {value!r} of type {type(value).__name__} cannot be saved")


def _from_json(value: Any) -> Any:
    return np.asarray(value["values"], dtype=value["dtype"]) if isinstance(value, dict) else value


class BoostingEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """A boosting library as an estimator for frames with numbers, categories and missing values.

    The library gets numbers and category codes. Where there is nothing to learn (one class, a constant target,
    constant columns) it is not asked: the prior is predicted and `model_` is None. `best_iteration_` is the number of
    rounds that predictions use, `curve_` the log loss or RMSE on the rows of `eval_set` after each round of training.
    """

    _model_file: str
    _refusals: tuple[str, ...]  # parts of the library's messages by which it refuses parameters
    n_estimators: int
    max_seconds: float | None
    random_state: int | np.random.RandomState | None

    @property
    @abstractmethod
    def _kind(self) -> str:
        """Return `regression`, `binary` or `multiclass`."""

    @abstractmethod
    def _check_target(self, y: Any) -> Array:
        """Return y as a vector; ValueError if values are missing."""

    @abstractmethod
    def _learn_target(self, y: Array, weights: Array | None) -> None:
        """Set `prior_`, what is predicted where nothing can be learned, and `scale_`, the unit of the loss."""

    @abstractmethod
    def _encode_target(self, y: Array) -> Array:
        """Return codes, NaN for a class not seen in training, or standardised numbers."""

    @abstractmethod
    def _train(self, rows: Rows, valid: Rows | None, deadline: Deadline) -> Trained:
        """Train the library's model on encoded rows, with early stopping if there are validation rows."""

    @abstractmethod
    def _outputs(self, rows: Array) -> Array:
        """Return the model's probabilities (of the second class alone if there are two) or standardised numbers."""

    @abstractmethod
    def _write_model(self, path: str) -> None:
        """Write `model_` in the library's own format."""

    @abstractmethod
    def _read_model(self, path: str) -> Any:
        """Read what `_write_model` wrote."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    @property
    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def _settings(self) -> dict[str, Any]:
        """Return the hyperparameters that are set, under the library's names."""
        params = self.get_params(deep=False)
        return {name: value for name, value in params.items() if name not in _CIRCUMSTANCES and value is not None}

    @property
    def _categorical(self) -> list[int]:
        return [place for place, categories in enumerate(self.categories_) if categories is not None]

    def _encode(self, frame: pd.DataFrame) -> Array:
        columns = zip(map(str, frame.columns), self.categories_, strict=True)
        return np.column_stack([encode_column(frame.iloc[:, i], *known) for i, known in enumerate(columns)])

    def _weigh_classes(self, y: Array, sample_weight: Any) -> dict[Any, float]:
        """Return the weight of each class; empty if there are none."""
        return {}

    def _valid(self, eval_set: tuple[Any, ...], of_classes: Mapping[Any, float]) -> Rows | None:
        frame, y = check_table(self, eval_set[0], reset=False), self._check_target(eval_set[1])
        check_consistent_length(frame, y)
        target, weights = self._encode_target(y), weigh_rows(y, eval_set[2] if len(eval_set) > 2 else None, of_classes)
        known = ~np.isnan(target)
        if not known.any():
            return None
        return Rows(self._encode(frame)[known], target[known], None if weights is None else weights[known])

    def fit(self, X: Any, y: Any, eval_set: tuple[Any, ...] | None = None, sample_weight: Any = None) -> Self:
        """Train on X and y; the rows of `eval_set=(X, y)` decide when to stop and which round is the best.

        `sample_weight` has a weight of at least 0 for each row; the rows of `eval_set=(X, y, sample_weight)` weigh 1
        unless theirs are given.
        """
        deadline = Deadline(self.max_seconds)
        frame, y = check_table(self, X, reset=True), self._check_target(y)
        check_consistent_length(frame, y)
        self.categories_ = [learn_categories(frame.iloc[:, i], str(name)) for i, name in enumerate(frame.columns)]
        of_classes = self._weigh_classes(y, sample_weight)
        weights = weigh_rows(y, sample_weight, of_classes)
        self._learn_target(y, weights)
        rows = Rows(self._encode(frame), self._encode_target(y), weights)
        valid = None if eval_set is None else self._valid(eval_set, of_classes)
        trained = Trained(None, 0, np.zeros(rows.matrix.shape[1]), [])
        counted = slice(None) if weights is None else weights > 0
        if _varies(rows.target[counted, None]) and _varies(rows.matrix[counted]):
            trained = self._train_or_refuse(rows, valid, deadline)
        self.model_, self.best_iteration_ = trained.model, trained.rounds
        self.curve_ = [float(loss) * self.scale_ for loss in trained.curve]
        self.feature_importances_ = trained.gains / (trained.gains.sum() or 1.0)
        return self

    def _train_or_refuse(self, *arguments: Any) -> Trained:
        """Train, with one error for refused parameters: each library has its own way to say so."""
        if not (isinstance(self.n_estimators, Integral) and int(self.n_estimators) >= 1):
            raise InvalidParametersError(f"n_estimators must be an integer of at least 1, not {self.n_estimators!r}")
        try:
            return self._train(*arguments)
        except Exception as error:
            if any(words in str(error) for words in self._refusals):
                raise InvalidParametersError(str(error)) from error
            raise

    def _predict(self, X: Any) -> tuple[int, Array | None]:
        """Return the number of rows, and the model's outputs if there is a model."""
        check_is_fitted(self)
        rows = self._encode(check_table(self, X, reset=False))
        return len(rows), None if self.model_ is None else np.asarray(self._outputs(rows), dtype=np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a folder: the library's own file and one of JSON; no pickle is involved."""
        check_is_fitted(self)
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        parameters = self.get_params(deep=False)
        if isinstance(parameters.get("class_weight"), Mapping):
            parameters["class_weight"] = list(parameters["class_weight"].items())  # a key of JSON is always text
        state = {"class": type(self).__name__, "parameters": parameters, "sha256": None}
        state["fitted"] = {name: value for name, value in vars(self).items() if name.endswith("_") and name != "model_"}
        if self.model_ is not None:
            self._write_model(str(folder / self._model_file))
            state["sha256"] = hashlib.sha256((folder / self._model_file).read_bytes()).hexdigest()
        (folder / STATE_FILE).write_text(json.dumps(state, default=_to_json), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model written by `save`; ValueError names the file that is missing, damaged or of another class."""
        file = Path(path) / STATE_FILE
        try:
            state = json.loads(file.read_text(encoding="utf-8"))
            if state["class"] != cls.__name__:
                raise ValueError(f"it holds a {state['class']}, not a {cls.__name__}")
            if isinstance(state["parameters"].get("class_weight"), list):
                state["parameters"]["class_weight"] = dict(state["parameters"]["class_weight"])
            estimator = cls(**state["parameters"])
            for name, value in state["fitted"].items():
                setattr(estimator, name, _from_json(value))
            estimator.model_ = None
            if state["sha256"] is not None:
                file = Path(path) / cls._model_file
                if hashlib.sha256(file.read_bytes()).hexdigest() != state["sha256"]:
                    raise ValueError("its content is not what was saved")
                estimator.model_ = estimator._read_model(str(file))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{str(file)!r} cannot be loaded: {error}. Save the model again.") from error
        return estimator


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedClassifier(ClassifierMixin):  # type: ignore[misc]
    """The classifier's half: labels of any type to codes and back.

    `class_weight` weighs the rows of each class, on top of `sample_weight`: a dict, or "balanced" for the same total
    weight of every class.
    """

    class_weight: ClassWeight = None

    @property
    def _kind(self) -> str:
        return "binary" if len(self.classes_) == 2 else "multiclass"

    def _check_target(self, y: Any) -> Array:
        return check_labels(y)

    def _weigh_classes(self, y: Array, sample_weight: Any) -> dict[Any, float]:
        return weigh_classes(self.class_weight, y, sample_weight)

    def _learn_target(self, y: Array, weights: Array | None) -> None:
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.prior_, self.scale_ = np.bincount(codes, weights) / len(y), 1.0

    def _encode_target(self, y: Array) -> Array:
        codes = pd.Index(self.classes_).get_indexer(pd.Index(y))
        return np.where(codes < 0, np.nan, codes.astype(np.float64))

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities, columns in the order of `classes_`."""
        rows, outputs = self._predict(X)
        if outputs is None:
            return np.tile(self.prior_, (rows, 1))
        shares = np.column_stack([1 - outputs, outputs]) if self._kind == "binary" else outputs
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])


class BoostedRegressor(RegressorMixin):  # type: ignore[misc]
    """The regressor's half: a standardised target, so that penalties mean the same in any unit."""

    _kind = "regression"

    def _check_target(self, y: Any) -> Array:
        return check_numbers(self, y)

    def _learn_target(self, y: Array, weights: Array | None) -> None:
        self.prior_, self.scale_ = float(np.average(y, weights=weights)), float(y.std()) or 1.0

    def _encode_target(self, y: Array) -> Array:
        return np.asarray((y - self.prior_) / self.scale_)

    def predict(self, X: Any) -> Array:
        """Return the predicted number for each row."""
        rows, outputs = self._predict(X)
        return np.full(rows, self.prior_) if outputs is None else outputs * self.scale_ + self.prior_


def boosting_method(name: str, title: str, classifier: Any, regressor: Any, *, cost: float) -> Method:
    """Describe a boosting library, named as its package, by its two estimators."""

    def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
        estimator = classifier if task == "classification" else regressor
        return estimator(
            **params, random_state=run.seed, n_jobs=run.threads, device=run.device, max_seconds=run.max_seconds
        )

    return Method(
        name, title, "boosting", make, paper_name=title, packages=(name,), cost=cost, takes_weights=True, uses_gpu=True
    )
