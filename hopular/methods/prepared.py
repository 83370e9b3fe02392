"""PreparedClassifier and PreparedRegressor: a scikit-learn estimator that takes a Dataset's frames as they are.

Frames become the one float matrix that scikit-learn's estimators take by a ColumnTransformer, fitted to the training
rows. There are three ways, for three kinds of estimators:

- "scaled": numbers standardised, missing ones the median with an indicator column; categories one-hot, the rare and
  the unseen ones sharing a column. For distances and linear models.
- "ordinal": numbers standardised, categories as codes, missing and unseen values NaN. For trees that know NaN.
- "filled": as "ordinal", but missing numbers as in "scaled" and missing or unseen categories the code -1.

Numbers come first in the matrix, then categories. Columns that say nothing (constant, all missing) are left out.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import json
import os
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self, get_args
from zipfile import ZIP_DEFLATED

import numpy as np
import pandas as pd
from joblib import parallel_config  # type: ignore[import-untyped,unused-ignore]
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from hopular.data.dataset import Task
from hopular.methods.packed_trees import pack, unpack
from hopular.model.columns import (
    LARGEST,
    check_labels,
    check_numbers,
    check_table,
    is_categorical,
    labels,
    mean_and_scale,
    numbers,
)
from hopular.model.weights import weigh_rows
from hopular.util import InputError, whole_file

Array = np.ndarray[Any, Any]
Way = Literal["scaled", "ordinal", "filled"]

FORMAT = 3  # raised when a saved model can no longer be read by older or newer code
_TRUSTED = ("numpy.dtype", "sklearn.tree._tree.Tree")  # beside types of this package and those that skops trusts
MAX_CATEGORIES = 50  # one-hot columns of one feature; the rarer categories share one more
_UNCHECKED = {"skip_parameter_validation": True, "assume_finite": True}  # the parameters are ours, numbers are checked
_GREATEST = 1e100  # numbers beyond are cut, so that their squares can be summed
STOPS_IN_TIME = "grows its trees in chunks and stops by max_seconds, after at least one tree"
STOPPED_FROM_OUTSIDE = "a fit cannot stop early: max_seconds is enforced from outside"


def prepared(
    task: Task,
    estimator: Any,
    preparation: Way = "scaled",
    max_seconds: float | None = None,
    standardise_target: bool = False,
) -> PreparedClassifier | PreparedRegressor:
    """Put an estimator of scikit-learn behind the contract of a Method."""
    if task == "classification":
        return PreparedClassifier(estimator, preparation=preparation, max_seconds=max_seconds)
    return PreparedRegressor(
        estimator, preparation=preparation, max_seconds=max_seconds, standardise_target=standardise_target
    )


# --------------------------------------------------------------------------------------------- from frames to matrices


@dataclass(frozen=True)
class Preparation:
    """The learned way from frames to matrices: the places of the columns it uses, and what it makes of them."""

    numbers: list[int]
    categories: list[int]
    transformer: Any  # a fitted ColumnTransformer

    def matrix(self, frame: pd.DataFrame) -> Array:
        """Return one row per row of the frame; no column at all if no feature says anything."""
        columns = [(column, str(name)) for name, column in frame.items()]
        of_numbers = [_numbers(*columns[place]) for place in self.numbers]
        table: Any = _side_by_side(of_numbers, [labels(*columns[place]) for place in self.categories], len(frame))
        if hasattr(self.transformer, "feature_names_in_"):  # a saved model may have been fitted to a frame
            table = pd.DataFrame(table, columns=self.transformer.feature_names_in_, dtype=table.dtype)
        with config_context(**_UNCHECKED):
            return _cut(self.transformer.transform(table))

    @property
    def categorical(self) -> list[bool]:
        """Tell for each column of the matrix whether it comes from a categorical feature."""
        slices = self.transformer.output_indices_
        of_categories, width = slices["categories"], max(found.stop for found in slices.values())
        return [of_categories.start <= place < of_categories.stop for place in range(width)]


def learn_preparation(frame: pd.DataFrame, way: Way) -> tuple[Preparation, Array]:
    """Learn the way from frames to matrices from the training rows, and return these rows' matrix with it."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if way not in get_args(Way):
        raise ValueError(f"preparation must be 'scaled', 'ordinal' or 'filled', not {way!r}")
    varying, gaps, texts = dict[int, Array](), dict[int, Array](), dict[int, Array]()
    categories = list[list[str | None]]()
    missing: Array = frame.isna().to_numpy()
    for place, (name, column) in enumerate(frame.items()):
        has_missing = missing[:, place].any()
        if missing[:, place].all():
            continue
        if is_categorical(column, str(name)):
            values = labels(column, str(name))
            found = _in_order({*values} - {None})
            if len(found) > 1 or has_missing:
                texts[place] = values
                categories.append([*found, None] if has_missing and way == "scaled" else found)
            continue
        values = _numbers(column, str(name))
        if mean_and_scale(values[~np.isnan(values)])[1] > 0:
            varying[place] = values
        elif has_missing:
            gaps[place] = values  # that a value is missing is all that it says
    scaler, filler = StandardScaler(), SimpleImputer(strategy="median", add_indicator=True)
    ends = np.cumsum([0, len(varying), len(gaps), len(texts)]).tolist()
    of_numbers, of_gaps, of_texts = (list(range(*pair)) for pair in pairwise(ends))
    transformer = ColumnTransformer(
        [
            ("numbers", scaler if way == "ordinal" else make_pipeline(scaler, filler), of_numbers),
            ("gaps", MissingIndicator(features="all"), of_gaps),
            ("categories", _encoder(way, categories), of_texts),
        ],
        sparse_threshold=0,
    )
    of_either = varying | gaps
    table = _side_by_side([*of_either.values()], [*texts.values()], len(frame))
    with config_context(**_UNCHECKED):
        matrix = _cut(transformer.fit_transform(table))
    return Preparation([*of_either], [*texts], transformer), matrix


def _numbers(column: pd.Series, name: str) -> Array:
    return np.asarray(np.clip(numbers(column, name), -_GREATEST, _GREATEST))


def _side_by_side(of_numbers: list[Array], of_texts: list[Array], rows: int) -> Array:
    """Return columns as one array, which a ColumnTransformer takes in half the time of a frame."""
    columns = of_numbers + of_texts
    table = np.empty((rows, len(columns)), dtype=object if of_texts else np.float64, order="F")
    for place, column in enumerate(columns):
        table[:, place] = column
    return table


def _cut(matrix: Any) -> Array:
    return np.clip(np.asarray(matrix, dtype=np.float64), -LARGEST, LARGEST)


def _encoder(way: Way, categories: list[list[str | None]]) -> Any:
    """Return what turns categories into one-hot columns, or into codes by their place."""
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

    arrays = [np.array(names, dtype=object) for names in categories]
    if way != "scaled":
        unknown = np.nan if way == "ordinal" else -1
        return OrdinalEncoder(categories=arrays, handle_unknown="use_encoded_value", unknown_value=unknown)
    most = MAX_CATEGORIES + 1  # with the one that the rare ones share; to count them takes long, so only where needed
    return OneHotEncoder(
        categories=arrays,
        handle_unknown="infrequent_if_exist",
        max_categories=most if any(len(names) > most for names in categories) else None,
        sparse_output=False,
    )


def _in_order(names: set[str]) -> list[Any]:
    """Sort alphabetically, or by size if all are numbers: the order is what trees see of a category."""
    try:
        return sorted(names, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(names)


# ------------------------------------------------------------------------------------------------------- the estimators


class Prepared(BaseEstimator, ABC):  # type: ignore[misc]
    """Common part of classifier and regressor: preparation of the frame, fit, saving and loading.

    Parameters
    ----------
    estimator
        The scikit-learn estimator that is fitted to the matrix. It gets class codes, never labels.
    preparation
        "scaled", "ordinal" or "filled", as above.
    max_seconds
        Time limit, kept by ensembles that can grow (`warm_start`); the others cannot be stopped.
    """

    def __init__(self, estimator: Any, *, preparation: Way = "scaled", max_seconds: float | None = None) -> None:
        self.estimator = estimator
        self.preparation = preparation
        self.max_seconds = max_seconds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any, eval_set: tuple[Any, ...] | None = None, sample_weight: Any = None) -> Self:
        """Fit to all rows of X; `eval_set`, which every method takes, is not used.

        `sample_weight` has a weight of at least 0 for each row; InputError if the estimator takes none.
        """
        if sample_weight is not None and not self._takes_weights:
            raise InputError(
                f"{type(self.estimator).__name__} takes no weights of rows: leave out sample_weight, or use a method "
                "whose `takes_weights` is true"
            )
        frame, target = check_table(self, X, reset=True), self._learn_y(y)
        if len(frame) != len(target):
            raise ValueError(f"X has {len(frame)} rows and y has {len(target)}: inconsistent numbers of samples")
        weights = weigh_rows(target, sample_weight)
        self.preparation_, matrix = learn_preparation(frame, self.preparation)
        self.estimator_ = self._fit_matrix(matrix, target, eval_set, weights)
        return self

    @property
    def _takes_weights(self) -> bool:
        return bool(has_fit_parameter(self.estimator, "sample_weight"))

    def _fit_matrix(self, matrix: Array, target: Array, eval_set: tuple[Any, ...] | None, weights: Array | None) -> Any:
        return fit_estimator(self.estimator, matrix, target, self.max_seconds, weights)

    @abstractmethod
    def _learn_y(self, y: Any) -> Array:
        """Check the target and turn it into numbers."""

    def _matrix(self, X: Any) -> Array:
        check_is_fitted(self)
        return self.preparation_.matrix(check_table(self, X, reset=False))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted model as model.skops and model.json, without pickle."""
        check_is_fitted(self)
        skops = _skops()
        packed = copy.copy(self)
        packed.estimator_ = pack(self.estimator_)
        content = skops.dumps(packed, compression=ZIP_DEFLATED, compresslevel=1)
        refused = _refused(skops.get_untrusted_types(data=content))
        if refused:
            raise ValueError(f"this model cannot be saved: `load` would not trust {', '.join(refused)}")
        header = {"format": FORMAT, "class": type(self).__name__, "sha256": hashlib.sha256(content).hexdigest()}
        for name, data in (("model.skops", content), ("model.json", json.dumps(header, indent=1).encode())):
            with whole_file(Path(folder, name)) as part:
                part.write_bytes(data)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; ValueError names a damaged file, or types that are not to be trusted."""
        skops = _skops()
        expected = _read_header(Path(folder, "model.json"), cls.__name__)
        file = Path(folder, "model.skops")
        content = file.read_bytes()
        if hashlib.sha256(content).hexdigest() != expected:
            raise ValueError(f"{str(file)!r} is damaged: it is not what model.json beside it describes. Save it again.")
        try:
            unknown = skops.get_untrusted_types(data=content)
        except Exception as error:
            raise ValueError(f"{str(file)!r} is damaged or no skops file ({error}). Save the model again.") from error
        refused = _refused(unknown)
        if refused:
            raise ValueError(f"{str(file)!r} holds types that a model of hopular does not have: {', '.join(refused)}")
        model = skops.loads(content, trusted=sorted(unknown))
        if type(model) is not cls:
            raise ValueError(f"{str(file)!r} holds a {type(model).__name__}, not a {cls.__name__}")
        try:
            model.estimator_ = unpack(model.estimator_)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{str(file)!r} is damaged ({error}). Save the model again.") from error
        return model


def _skops() -> ModuleType:
    """Return skops.io, without torch having been imported on the way.

    skops calls scikit-learn's `all_estimators` when it is imported. That imports every package of scikit-learn, the
    wrapper of torch in its externals included, and so torch: seconds and hundreds of MB for a model that has none.
    Neither offers to leave it out. `None` in `sys.modules` is what the import system has for a module that must not be
    found: https://docs.python.org/3/reference/import.html#the-module-cache
    """
    wrapper = "sklearn.externals.array_api_compat.torch"
    is_kept_out = sys.modules.setdefault(wrapper, None) is None  # type: ignore[arg-type]
    try:
        return import_module("skops.io")
    finally:
        if is_kept_out:
            del sys.modules[wrapper]


class PreparedClassifier(ClassifierMixin, Prepared):  # type: ignore[misc]
    """A classifier for frames. Without probabilities of the estimator, they are the softmax of its decision values."""

    def _learn_y(self, y: Any) -> Array:
        self.classes_, codes = np.unique(check_labels(y), return_inverse=True)
        self.prior_ = np.bincount(codes) / len(codes)
        return np.asarray(codes)

    def predict_proba(self, X: Any) -> Array:
        """Return class probabilities, columns in the order of `classes_`."""
        matrix = self._matrix(X)
        if hasattr(self.estimator_, "predict_proba"):
            values = self.estimator_.predict_proba(matrix)
        else:
            values = softmax(decision_values(self.estimator_, matrix))
        values = np.clip(np.asarray(values, dtype=np.float64), 0.0, None)
        total = values.sum(1, keepdims=True)
        usable = np.isfinite(total) & (total > 0)
        return np.where(usable, values / np.where(usable, total, 1.0), self.prior_)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row."""
        codes = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[codes])


class PreparedRegressor(RegressorMixin, Prepared):  # type: ignore[misc]
    """A regressor for frames. With `standardise_target` the estimator sees the target with mean 0 and variance 1."""

    def __init__(
        self,
        estimator: Any,
        *,
        preparation: Way = "scaled",
        max_seconds: float | None = None,
        standardise_target: bool = False,
    ) -> None:
        super().__init__(estimator, preparation=preparation, max_seconds=max_seconds)
        self.standardise_target = standardise_target

    def _learn_y(self, y: Any) -> Array:
        target = check_numbers(self, y)
        mean, scale = mean_and_scale(target) if self.standardise_target and len(target) else (0.0, 1.0)
        self.target_mean_, self.target_scale_ = mean, scale or 1.0
        return (target - self.target_mean_) / self.target_scale_

    def predict(self, X: Any) -> Array:
        """Return the predicted number for each row."""
        matrix = self._matrix(X)
        predicted = np.asarray(self.estimator_.predict(matrix), dtype=np.float64).reshape(-1)
        return predicted * self.target_scale_ + self.target_mean_


# -------------------------------------------------------------------------------------------------- fitting quietly


def fit_estimator(
    estimator: Any, X: Array, y: Array, max_seconds: float | None = None, weights: Array | None = None
) -> Any:
    """Return a fitted clone, quietly, with no more neighbours or components than the matrix allows.

    Where nothing can be learned (no column, one class only, or as many classes as rows) it is the prior.
    """
    if X.shape[1] == 0 or (is_classifier(estimator) and len(np.unique(y)) in (1, len(y))):
        return fit_prior(X, y, is_classifier(estimator), weights)
    model = clone(estimator)
    limits = {"n_neighbors": len(X), "n_components": max(1, min(len(X) - 1, X.shape[1]))}
    params, given = model.get_params(deep=False), {} if weights is None else {"sample_weight": weights}
    model.set_params(**{name: min(params[name], most) for name, most in limits.items() if params.get(name) is not None})
    with warnings.catch_warnings(), parallel_config("threading"):  # bagging would start processes
        warnings.simplefilter("ignore", UserWarning)  # no convergence, collinear columns, a class of one row
        if max_seconds is None or "warm_start" not in params or "n_estimators" not in params:
            model.fit(X, y, **given)
        else:
            _grow(model, X, y, max_seconds, given)
    if hasattr(model, "estimators_") and "n_jobs" in params:
        model.set_params(n_jobs=1)  # threads would sum the trees' votes in any order, which changes the last bits
    return model


def fit_prior(X: Array, y: Array, classification: bool, weights: Array | None = None) -> Any:
    """Fit what is left where nothing can be learned: the class frequencies, or the mean."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    return (DummyClassifier(strategy="prior") if classification else DummyRegressor()).fit(X, y, weights)


def _grow(ensemble: Any, X: Array, y: Array, max_seconds: float, weights: dict[str, Array]) -> None:
    """Fit trees chunk by chunk until all are fitted or the next chunk would end too late."""
    started, total = time.monotonic(), ensemble.n_estimators
    size = min(total, max(1, ensemble.n_jobs or 1))
    ensemble.set_params(warm_start=True)
    while True:
        ensemble.set_params(n_estimators=size).fit(X, y, **weights)
        spent = max(time.monotonic() - started, 1e-9)
        more = int(min(total - size, size, (max_seconds - spent) * size / spent / 2))
        if more < 1:
            break
        size += more
    ensemble.set_params(warm_start=False)


# ---------------------------------------------------------------------------------------------------- out of fold


def assign_folds(labels: Array, n_folds: int, seed: int) -> Array:
    """Return the fold of each row: every label is dealt out evenly, and one that occurs once is simply in one fold."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    folds = np.empty(len(labels), dtype=int)
    folds[order] = np.arange(len(labels)) % min(n_folds, len(labels))
    return folds


def out_of_fold(
    estimator: Any,
    X: Array,
    y: Array,
    folds: Array,
    predict: Callable[[Any, Array], Array],
    weights: Array | None = None,
) -> Iterator[tuple[Array, Any, Array]]:
    """Yield for each fold its rows, the estimator fitted to the others, and what that predicts for these rows."""
    for fold in np.unique(folds):
        held_out = folds == fold
        of_rows = None if weights is None else weights[~held_out]
        model = fit_estimator(estimator, X[~held_out], y[~held_out], weights=of_rows)
        yield np.flatnonzero(held_out), model, predict(model, X[held_out])


def all_classes(values: Array, known: Array, n_classes: int, absent: float) -> Array:
    """Put the columns of the known classes among those of all classes, filling the others with `absent`."""
    full = np.full((len(values), n_classes), absent)
    full[:, known] = values
    return full


# ----------------------------------------------------------------------------------------------------------- details


def decision_values(classifier: Any, X: Array) -> Array:
    """Return the decision function with one column per class, also for two classes."""
    values = np.asarray(classifier.decision_function(X))
    return np.column_stack([np.zeros_like(values), values]) if values.ndim == 1 else values


def softmax(values: Array) -> Array:
    """Turn each row into positive numbers that sum to one."""
    powers = np.exp(values - values.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def _refused(names: list[str]) -> list[str]:
    """Return the types in a file that are neither listed nor classes of this package: a file could name anything."""
    return sorted(name for name in names if name not in _TRUSTED and not _is_own(name))


def _is_own(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    own = module.startswith("hopular.methods.") and module.count(".") == 2
    if not own or importlib.util.find_spec(module) is None:
        return False
    found = getattr(importlib.import_module(module), attribute, None)
    return isinstance(found, type) and found.__module__ == module


def _read_header(file: Path, wanted: str) -> str:
    """Return the hash of the model beside this file, which must be of the class that is wanted."""
    try:
        header = json.loads(file.read_bytes())
        found, kind, expected = header["format"], header["class"], header["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{str(file)!r} is damaged or not written by hopular ({error!r}). Save it again.") from error
    if found != FORMAT:
        raise ValueError(
            f"{str(file)!r} has model format {found!r}, this version of hopular reads {FORMAT}. Fit again."
        )
    if kind != wanted:
        raise ValueError(f"{str(file)!r} describes a {kind}; load it with {kind}.load")
    return str(expected)
