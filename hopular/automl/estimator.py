"""HopularAutoML: what `hopular fit` does, as a scikit-learn estimator for notebooks.

from hopular.automl import HopularAutoML

model = HopularAutoML(seconds=60).fit(X, y)
model.predict_proba(new_rows)
model.leaderboard_
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from hopular.automl.fit import fit_table
from hopular.automl.fitted import Fitted
from hopular.data.dataset import Dataset, Task
from hopular.data.schema import learn_features, learn_target
from hopular.formatting import score
from hopular.model.columns import as_frame
from hopular.trials.events import Event
from hopular.util import InputError

Array = np.ndarray[Any, Any]
_TARGET = "target"  # what y is called if it has no name


class HopularAutoML(BaseEstimator):  # type: ignore[misc,unused-ignore]
    """Find the best model for a table within a time: a classifier or a regressor, as y says.

    Parameters
    ----------
    seconds
        Time that `fit` may take.
    trials
        Settings to try, instead of as many as the time allows. None sets no number.
    metric
        What to choose by, such as "accuracy" or "mae". None means log loss or squared error.
    methods
        Names of methods or groups, as `hopular methods` lists them. None means all that are suitable.
    random_state
        Seed of all that is drawn.
    task
        "classification" or "regression". None means: numbers with fractions are regressed, all else is classified, as
        by scikit-learn's `type_of_target`; whole numbers that do not look like classes must be told.
    verbose
        1 prints a line for each setting that was tried.

    Attributes
    ----------
    fitted_ : Fitted
        The model itself: `fitted_.save(folder)` keeps it for `hopular predict` and `hopular serve`.
    task_, classes_
        What y was taken for, and its classes, in the type that they had.
    leaderboard_ : DataFrame
        The methods with their scores.
    """

    def __init__(
        self,
        seconds: float = 60,
        trials: int | None = None,
        metric: str | None = None,
        methods: Sequence[str] | None = None,
        random_state: Any = 0,
        task: Task | None = None,
        verbose: int = 0,
    ) -> None:
        self.seconds = seconds
        self.trials = trials
        self.metric = metric
        self.methods = methods
        self.random_state = random_state
        self.task = task
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> HopularAutoML:
        """Find the best model for the rows of a frame or an array, and their numbers or classes y."""
        frame, target = as_frame(X), _series(y)
        if len(frame) != len(target):
            raise InputError(f"X has {len(frame)} rows and y has {len(target)} values: give one value per row")
        self.task_ = self.task or task_of(target)
        dataset = _dataset(frame, target, self.task_)
        if self.task_ == "classification":
            of_class = dict(zip(dataset.y.astype(str), target, strict=True))
            labels = {name: of_class[name] for name in dataset.classes}
        seed = self.random_state if isinstance(self.random_state, int) else None
        self.fitted_: Fitted = fit_table(
            dataset,
            self.seconds,
            methods=self.methods,
            metric=self.metric,
            trials=self.trials,
            seed=int(check_random_state(self.random_state).randint(2**31)) if seed is None else seed,
            on_event=_print if self.verbose else _ignore,
        )
        self.n_features_in_ = frame.shape[1]
        self.feature_names_in_ = np.array([str(name) for name in frame.columns], dtype=object)
        if self.task_ == "classification":
            self._labels = labels
            self.classes_ = np.array(list(labels.values()))
        return self

    @property
    def leaderboard_(self) -> pd.DataFrame:
        """Return the methods with their scores."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.leaderboard

    @property
    def feature_importance_(self) -> pd.DataFrame:
        """Return what shuffling a column costs on rows held out: column, importance, low, high; the largest first."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.feature_importance()

    def predict(self, X: Any) -> Array:
        """Return the class of each row, in the type that the classes of y have, or its number."""
        check_is_fitted(self, "fitted_")
        predicted = self.fitted_.predict(as_frame(X))
        if self.task_ == "regression":
            return predicted
        places = {name: place for place, name in enumerate(self._labels)}
        found: Array = self.classes_[[places[str(name)] for name in predicted]]
        return found

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, in the order of `classes_`."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.predict_proba(as_frame(X))[list(self._labels)].to_numpy()

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, or R² of a regression."""
        predicted = self.predict(X)
        measure = accuracy_score if self.task_ == "classification" else r2_score
        return float(measure(np.asarray(y), predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = {"classification": "classifier", "regression": "regressor"}.get(self._known_task())
        tags.classifier_tags = ClassifierTags() if tags.estimator_type == "classifier" else None
        tags.regressor_tags = RegressorTags() if tags.estimator_type == "regressor" else None
        tags.target_tags.required = True
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _known_task(self) -> str:
        return getattr(self, "task_", None) or self.task or ""


def task_of(y: pd.Series[Any]) -> Literal["classification", "regression"]:
    """Return what y asks for, as scikit-learn's `type_of_target` takes it; whole numbers may be either.

    They are classes only if they look like some to `learn_target`, too.
    """
    if not pd.api.types.is_numeric_dtype(y.dtype) or pd.api.types.is_bool_dtype(y.dtype):
        return learn_target(y)[1]
    if y.isna().any() or type_of_target(y.to_numpy()) == "continuous":
        return "regression"
    if learn_target(y)[1] == "classification":
        return "classification"
    raise InputError(
        f"y has {y.nunique():,} distinct whole numbers, which may be classes or counts: say task='regression' or "
        "task='classification'"
    )


def _series(y: Any) -> pd.Series[Any]:
    """Return y as a series with a name and numbered rows."""
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    values = y if isinstance(y, pd.Series) else pd.Series(_column(y))
    return values.reset_index(drop=True).rename(_TARGET if values.name is None else str(values.name))


def _column(y: Any) -> Any:
    values = np.asarray(y) if not isinstance(y, list) else np.asarray(y, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"y has the shape {values.shape}: give one value per row")
    return pd.Series(values).infer_objects()


def _dataset(X: pd.DataFrame, y: pd.Series[Any], task: Task) -> Dataset:
    """Read the columns as those of a file are read."""
    frame = X.set_axis([str(name) for name in X.columns], axis=1).reset_index(drop=True)
    if y.name in frame.columns:
        y = y.rename(
            next(f"{y.name}_{n}" for n in range(2, 2 + len(frame.columns) + 1) if f"{y.name}_{n}" not in frame)
        )
    learned = learn_features(frame)
    target, _, notes = learn_target(y, task)
    told = (*learned.notes, *notes)
    return Dataset("table", learned.X, target, task, "a table in memory", notes=told, forms=learned.forms)


def _ignore(event: Event) -> None:
    """Print nothing."""


def _print(event: Event) -> None:
    trial = event.result
    if trial is not None:
        figure = trial.message if trial.score is None else score(trial.score)
        print(f"{event.method}: {figure} in {trial.fit_seconds:.1f} s", flush=True)
