"""From a frame of numbers and categories to the one float matrix that scikit-learn's estimators take.

Everything is learned from the training rows. Three ways, for three kinds of estimators:

- "scaled": numbers standardised, missing ones the median with an indicator column; categories one-hot. For distances
  and linear models.
- "ordinal": numbers standardised, categories as codes, missing and unseen values NaN. For trees that know NaN.
- "filled": as "ordinal", but missing numbers as in "scaled" and missing categories the code -1.

Columns that say nothing (constant, all missing) are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

Way = Literal["scaled", "ordinal", "filled"]
Vector = np.ndarray[Any, np.dtype[np.float64]]

MAX_CATEGORIES = 50  # one-hot columns of one feature; the rarer categories share one more
LARGEST = 1e6  # standardised values beyond are cut, so that no input can overflow an estimator


@dataclass(frozen=True)
class Column:
    """What was learned of one feature: the numbers' centre and scale, or the categories."""

    name: str
    place: int
    has_missing: bool
    median: float = 0.0  # standardised
    mean: float = 0.0
    scale: float = 0.0  # 0 if all values are the same
    categories: tuple[str, ...] | None = None  # None for numbers
    has_rare: bool = False  # categories beyond `categories` occurred

    def encode(self, column: pd.Series[Any], way: Way) -> list[Vector]:
        """The matrix columns of this feature."""
        if self.categories is None:
            return self._encode_numbers(_numbers(column, self.name), way)
        return self._encode_categories(column, self.categories, way)

    def _encode_numbers(self, values: Vector, way: Way) -> list[Vector]:
        missing = np.isnan(values)
        if self.scale > 0:
            values = np.clip((values - self.mean) / self.scale, -LARGEST, LARGEST)
        else:
            values = np.where(missing, np.nan, 0.0)
        if way == "ordinal":
            return [values] if self.scale > 0 or self.has_missing else []
        filled = [np.where(missing, self.median, values)] if self.scale > 0 else []
        return [*filled, missing.astype(np.float64)] if self.has_missing else filled

    def _encode_categories(self, column: pd.Series[Any], categories: tuple[str, ...], way: Way) -> list[Vector]:
        if len(categories) == 1 and not self.has_missing:
            return []
        codes, missing = _codes(column, categories), column.isna().to_numpy()
        if way != "scaled":
            return [codes if way == "ordinal" else np.where(np.isnan(codes), -1.0, codes)]
        matrix = [(codes == code).astype(np.float64) for code in range(len(categories))]
        if self.has_rare:
            matrix.append((np.isnan(codes) & ~missing).astype(np.float64))  # unseen categories count as rare
        return [*matrix, missing.astype(np.float64)] if self.has_missing else matrix


@dataclass(frozen=True)
class Preparation:
    """The learned way from frames to matrices."""

    way: Way
    columns: tuple[Column, ...]

    def matrix(self, frame: pd.DataFrame) -> Vector:
        """One row per row of the frame; no column at all if no feature says anything."""
        encoded = [v for column in self.columns for v in column.encode(frame.iloc[:, column.place], self.way)]
        return np.column_stack(encoded) if encoded else np.empty((len(frame), 0))

    @property
    def categorical(self) -> list[bool]:
        """Which columns of the matrix hold codes of categories."""
        empty = pd.Series([], dtype=np.float64)
        widths = [(column, len(column.encode(empty, self.way))) for column in self.columns]
        return [column.categories is not None for column, width in widths for _ in range(width)]


def learn_preparation(frame: pd.DataFrame, way: Way) -> Preparation:
    """Learn from the training rows."""
    if way not in ("scaled", "ordinal", "filled"):
        raise ValueError(f"preparation must be 'scaled', 'ordinal' or 'filled', not {way!r}")
    columns = (_learn(frame.iloc[:, place], str(name), place, way) for place, name in enumerate(frame.columns))
    return Preparation(way, tuple(column for column in columns if column is not None))


def as_frame(X: Any) -> pd.DataFrame:
    """X as a frame; an array's columns are named x0, x1, ..."""
    if isinstance(X, pd.DataFrame):
        return X
    array = np.asarray(X)
    return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])]).infer_objects()


def _learn(column: pd.Series[Any], name: str, place: int, way: Way) -> Column | None:
    missing = column.isna()
    if missing.all():
        return None
    if _is_categorical(column):
        categories, has_rare = _categories(column, MAX_CATEGORIES if way == "scaled" else None)
        return Column(name, place, bool(missing.any()), categories=categories, has_rare=has_rare)
    values = _numbers(column, name)
    values = values[~np.isnan(values)]
    mean, scale = mean_and_scale(values)
    median = float(np.clip((np.median(values) - mean) / scale, -LARGEST, LARGEST)) if scale > 0 else 0.0
    return Column(name, place, bool(missing.any()), median, mean, scale)


def mean_and_scale(values: Vector) -> tuple[float, float]:
    """Mean and standard deviation; the latter 0 where values differ by no more than rounding."""
    size = float(np.abs(values).max()) or 1.0  # divided out first, so that sums and squares do not overflow
    values = values / size
    mean, spread = float(values.mean()), float(np.ptp(values))
    if spread <= 1e-12:
        return mean * size, 0.0
    return mean * size, float(np.sqrt(np.mean(((values - mean) / spread) ** 2))) * spread * size


def _is_categorical(column: pd.Series[Any]) -> bool:
    """Numbers and times are continuous, everything else is a category."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(dtype):
        return True
    if pd.api.types.is_complex_dtype(dtype):
        raise ValueError(f"Complex data not supported: column {column.name!r} holds complex numbers")
    if pd.api.types.is_numeric_dtype(dtype) or dtype.kind in "mM":
        return False
    numeric = ("integer", "floating", "mixed-integer-float", "decimal")
    return pd.api.types.infer_dtype(column, skipna=True) not in numeric


def _numbers(column: pd.Series[Any], name: str) -> Vector:
    """A continuous column as float64 with NaN for missing values."""
    try:
        values = pd.to_numeric(column).to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} was numeric when the model was fitted and now holds other values ({error}). "
            "Give it the type it had."
        ) from error
    values = np.where(column.isna(), np.nan, values)  # a missing time is a number to pandas
    if np.isinf(values).any():
        raise ValueError(f"Input X contains infinity in column {name!r}. Replace it by a number or a missing value.")
    return values


def _label(value: Any) -> str:
    """The same text for 1, 1.0 and '1', so that a category survives a change of type."""
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def _categories(column: pd.Series[Any], most: int | None) -> tuple[tuple[str, ...], bool]:
    """The most frequent categories that occur, in order, and whether there are others."""
    column = column.astype("category")
    counts: dict[str, int] = {}
    for value, count in column.value_counts().items():
        if count:
            counts[_label(value)] = counts.get(_label(value), 0) + int(count)
    kept = sorted(counts, key=lambda name: (-counts[name], name))[:most]
    return tuple(_sorted(kept)), len(kept) < len(counts)


def _sorted(names: list[str]) -> list[str]:
    """In alphabetical order, or by size if all are numbers: the order is what trees see of a category."""
    try:
        return sorted(names, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(names)


def _codes(column: pd.Series[Any], categories: tuple[str, ...]) -> Vector:
    """The place of each value among the categories; NaN where missing or not among them."""
    values = column.astype("category").cat
    places = {name: float(place) for place, name in enumerate(categories)}
    table = np.array([*(places.get(_label(value), np.nan) for value in values.categories), np.nan])
    return np.asarray(table[values.codes.to_numpy()], dtype=np.float64)
