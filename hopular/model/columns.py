"""Columns of a table as numbers or as categories, and its target, read the same way by every method.

Nothing here needs torch, so that methods without a network do not import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from hopular.data.dates import date_parts, varying_parts
from hopular.formatting import plural

LARGEST = 1e6  # standardised values beyond this are cut, so that no input can overflow an estimator
_TIMES = ("date", "datetime", "datetime64", "timedelta", "timedelta64")


def check_table(estimator: Any, X: Any, reset: bool) -> pd.DataFrame:
    """Return X as a frame with rows and columns; those are the ones of training unless `reset`, which notes them.

    Parts of dates, such as the weekday, follow behind the columns of X.
    """
    if not isinstance(X, pd.DataFrame):
        if isinstance(X, list | tuple) and np.asarray(X).dtype.kind in "US":
            X = np.asarray(X, dtype=object)  # keeps the numbers of a mixed list numbers
        X = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0)
    frame = as_frame(X)
    for count, what in zip(frame.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={frame.shape}) while a minimum of 1 is required. "
                f"Give X at least one {what}."
            )
    validate_data(estimator, X=X, reset=reset, skip_check_array=True)
    frame = frame.infer_objects() if isinstance(X, np.ndarray) and X.dtype == object else frame
    if reset:
        estimator.date_parts_ = _learn_date_parts(frame)
    return _with_date_parts(frame, getattr(estimator, "date_parts_", []))  # older saved models have none


def _learn_date_parts(frame: pd.DataFrame) -> list[list[Any]]:
    """Return the place of each column of dates, with the parts that vary in it."""
    columns = [(place, name, frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    return [[place, varying_parts(numbers(c, str(name)))] for place, name, c in columns if is_date(c)]


def _with_date_parts(frame: pd.DataFrame, learned: list[list[Any]]) -> pd.DataFrame:
    if not learned:
        return frame
    names, found = list(frame.columns), [frame]
    for place, parts in learned:
        seconds = numbers(frame.iloc[:, place], str(names[place]))
        for part, values in date_parts(seconds, parts).items():
            names.append(f"{names[place]}: {part}")
            found.append(values.set_axis(frame.index).to_frame())
    return pd.concat(found, axis=1).set_axis(names, axis=1)


def check_labels(y: Any) -> np.ndarray[Any, Any]:
    """Return the target of a classifier as a vector of labels, none of them missing."""
    _check_given(y)
    missing = int(np.sum(pd.isna(np.asarray(y, dtype=object))))
    if missing:
        raise ValueError(f"Input y contains NaN: labels are missing in {plural(missing, 'row')}. Drop these rows.")
    target = np.asarray(column_or_1d(y, warn=True))
    if target.dtype.kind == "f" and np.isinf(target).any():
        raise ValueError("Input y contains infinity, which is no class. Drop these rows.")
    check_classification_targets(target)
    return target


def check_numbers(estimator: Any, y: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the target of a regressor as a vector of finite numbers."""
    _check_given(y)
    values = np.asarray(column_or_1d(y, warn=True))
    try:
        target = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        classifier = type(estimator).__name__.replace("Regressor", "Classifier")
        raise ValueError(f"y must be numbers for a regressor ({error}); use {classifier} for labels") from error
    bad = int((~np.isfinite(target)).sum())
    if bad:
        raise ValueError(f"Input y contains NaN or infinity in {plural(bad, 'row')}. Drop these rows.")
    return target


def _check_given(y: Any) -> None:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")


def as_frame(X: Any) -> pd.DataFrame:
    """Return X as a frame; the columns of an array are named x0, x1, ..."""
    if not isinstance(X, pd.DataFrame):
        array = np.asarray(X)
        return pd.DataFrame(array, columns=_numbered(array.shape[1]).view())
    duplicated = [str(name) for name in X.columns[X.columns.duplicated()].unique()]
    if duplicated:
        raise ValueError(f"column names must be unique; these occur more than once: {duplicated}. Rename them.")
    return X


@cache
def _numbered(count: int) -> pd.Index:
    """Name columns, once: for a single row this takes longer than its values do."""
    return pd.Index([f"x{i}" for i in range(count)])


def is_categorical(column: pd.Series, name: str) -> bool:
    """Tell categories (strings, booleans, category dtype) from numbers, dates and durations."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(dtype):
        return True
    if pd.api.types.is_complex_dtype(dtype):
        raise ValueError(
            f"Complex data not supported: column {name!r} holds complex numbers. Split it into two columns."
        )
    if pd.api.types.is_numeric_dtype(dtype) or dtype.kind in "mM":
        return False
    kind = _inferred(column)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal", "empty", *_TIMES):
        return False
    if kind in ("string", "boolean", "mixed-integer", "categorical"):
        return True
    present = column[~column.isna()]
    bad = next((v for v in present if not isinstance(v, str | int | float | bool | np.generic)), None)
    if bad is not None:
        raise TypeError(
            f"column {name!r} holds a {type(bad).__name__} ({bad!r}); argument must be a string or a number, "
            "a boolean, a date or missing."
        )
    return True


def is_date(column: pd.Series) -> bool:
    """Tell whether a column holds dates, as pandas' type or as Python objects."""
    return column.dtype.kind == "M" or (column.dtype == object and _inferred(column) in _TIMES[:3])


def is_duration(column: pd.Series) -> bool:
    """Tell whether a column holds time spans, as pandas' type or as Python objects."""
    return column.dtype.kind == "m" or (column.dtype == object and _inferred(column) in _TIMES[3:])


def _inferred(column: pd.Series) -> str:
    return pd.api.types.infer_dtype(column, skipna=True)


def numbers(column: pd.Series, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a continuous column as float64: dates as seconds since 1970, missing values as NaN."""
    if is_duration(column):
        return np.asarray(pd.to_timedelta(column).dt.total_seconds(), dtype=np.float64)
    if is_date(column):
        since = pd.to_datetime(column, utc=True) - pd.Timestamp(0, tz="UTC")
        return np.asarray(since.dt.total_seconds(), dtype=np.float64)
    try:
        values = pd.to_numeric(column).to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} was numeric when the model was fitted and now holds other values ({error}). "
            "Give it the type it had."
        ) from error
    if np.isinf(values).any():
        raise ValueError(infinity(name))
    return values


def infinity(name: str) -> str:
    """Return the message for a column with an infinite value."""
    return f"Input X contains infinity in column {name!r}. Replace it by a number or by a missing value."


def label(value: Any) -> str:
    """Return the same text for 1, 1.0 and '1', so that a category survives a change of dtype."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def labels(column: pd.Series, name: str) -> np.ndarray[Any, Any]:
    """Return a categorical column as strings, None where missing."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        is_categorical(column.astype(object), name)  # raises for values that are no category
        column = column.astype("category")
    texts = np.array([*map(label, column.cat.categories), None], dtype=object)  # the last for the code -1
    return texts[column.cat.codes.to_numpy()]


def codes(column: pd.Series, name: str, categories: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the place of each value among `categories`; NaN where it is missing or not among them."""
    known = pd.Index(np.array(categories, dtype=object))
    places = known.get_indexer(pd.Index(labels(column, name), dtype=object))
    return np.where(places < 0, np.nan, places.astype(np.float64))


def mean_and_scale(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """Return mean and standard deviation; the latter is 0 where values differ by no more than rounding."""
    if len(values) == 0:
        return 0.0, 0.0
    size = float(np.abs(values).max()) or 1.0  # divided out first, so that sums and squares do not overflow
    values = values / size
    mean = float(values.mean())
    spread = float(np.abs(values - mean).max())
    if spread <= 1e-12:
        return mean * size, 0.0
    return mean * size, float(np.sqrt(np.mean(((values - mean) / spread) ** 2))) * spread * size
