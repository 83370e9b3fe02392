"""RealMLP with tuned defaults (Holzmüller et al., 2024) and TabM (Gorishniy et al., 2024), from pytabkit."""

from __future__ import annotations

import logging
import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone, is_classifier

from hopular.data.dataset import Task
from hopular.methods.method import Make, Method, Run
from hopular.methods.prepared import Array, Prepared, PreparedClassifier, PreparedRegressor, fit_prior
from hopular.model.columns import check_table

_DEVICES = {"auto": None, "cuda": "cuda:0"}  # as pytabkit names them


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what pytabkit's own libraries warn of and advertise: nothing that its user could act on."""
    logger = logging.getLogger("pytorch_lightning")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


class TabkitModel(BaseEstimator):  # type: ignore[misc]
    """An estimator of pytabkit by its name; it is imported when it is fitted."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.settings = settings

    def fit(
        self,
        X: Array,
        y: Array,
        valid: tuple[Array, Array] | None,
        categorical: list[bool],
        max_seconds: float | None,
    ) -> Self:
        import pytabkit

        self.categorical_ = categorical
        options: dict[str, Any] = {"cat_col_names": [f"x{i}" for i, yes in enumerate(categorical) if yes]}
        if valid is not None:
            options |= {"X_val": self._frame(valid[0]), "y_val": valid[1]}
        if max_seconds is not None:
            options["time_to_fit_in_seconds"] = max(1, int(max_seconds))
        with _quiet():
            self.model_ = getattr(pytabkit, self.name)(**self.settings).fit(self._frame(X), y, **options)
        return self

    def predict_proba(self, X: Array) -> Array:
        with _quiet():
            return np.asarray(self.model_.predict_proba(self._frame(X)))

    def predict(self, X: Array) -> Array:
        with _quiet():
            return np.asarray(self.model_.predict(self._frame(X)))

    def _frame(self, X: Array) -> pd.DataFrame:
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
        return frame.astype({f"x{i}": int for i, yes in enumerate(self.categorical_) if yes})


class _Tabkit(Prepared):
    """An estimator of pytabkit; `eval_set` is its validation set, which otherwise it takes from X."""

    @abstractmethod
    def _encode(self, y: Any) -> Array:
        """Return the target of validation rows as that of training is encoded; a class not seen there is -1."""

    def _fit_matrix(self, matrix: Array, target: Array, eval_set: tuple[Any, ...] | None, weights: Array | None) -> Any:
        is_of_classes = is_classifier(self)
        if not matrix.shape[1] or (is_of_classes and len(self.classes_) == 1):
            return fit_prior(matrix, target, is_of_classes)
        valid = None
        if eval_set is not None:
            y = self._encode(eval_set[1])
            known = y >= 0 if is_of_classes else np.full(len(y), True)
            rows = self.preparation_.matrix(check_table(self, eval_set[0], reset=False))
            valid = (rows[known], y[known]) if known.any() else None
        return clone(self.estimator).fit(matrix, target, valid, self.preparation_.categorical, self.max_seconds)

    def save(self, folder: str | os.PathLike[str]) -> None:
        raise NotImplementedError("a model of pytabkit cannot be saved without pickle; fit it again instead")


class TabkitClassifier(_Tabkit, PreparedClassifier):
    """A classifier of pytabkit."""

    def _encode(self, y: Any) -> Array:
        return np.asarray(pd.Index(self.classes_).get_indexer(pd.Index(np.asarray(y))))


class TabkitRegressor(_Tabkit, PreparedRegressor):
    """A regressor of pytabkit."""

    def _encode(self, y: Any) -> Array:
        return np.asarray((np.asarray(y, dtype=np.float64) - self.target_mean_) / self.target_scale_)


def _maker(family: str) -> Make:
    """Return the `make` of a family such as "TabM_D", with pytabkit's defaults; it stops early by `eval_set`."""

    def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
        settings = {
            **params,
            "random_state": run.seed,
            "n_threads": run.threads,
            "device": _DEVICES.get(run.device, run.device),
            "verbosity": 0,
        }
        kind, wrapper = ("Classifier", TabkitClassifier) if task == "classification" else ("Regressor", TabkitRegressor)
        model = TabkitModel(f"{family}_{kind}", settings)
        return wrapper(model, preparation="filled", max_seconds=run.max_seconds)

    return make


METHODS = tuple(
    Method(
        name=name,
        title=title,
        group="modern",
        make=_maker(family),
        packages=("pytabkit", "torch"),
        extra="modern",
        cost=8.0,
        needs_validation=True,
        uses_gpu=True,
        is_savable=False,
        notes=(ending, "cannot be saved"),
    )
    for name, title, family, ending in (
        ("realmlp", "RealMLP", "RealMLP_TD", "stops by max_seconds"),
        ("tabm", "TabM", "TabM_D", "max_seconds is enforced from outside"),
    )
)
