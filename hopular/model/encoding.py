"""From a messy table to the rows of the network: column kinds, standardisation, category codes, missing values.

Rows are float vectors with NaN for missing values, columns sorted by width as the network wants them. Everything is
learned from the training rows alone.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

LARGEST = 1e6  # standardised values beyond are cut, so that no input can overflow the network
MAX_CATEGORIES = 1_000  # rarer categories beyond this many count as missing


@dataclass(frozen=True)
class Attribute:
    """A column as the network sees it: continuous with mean and scale, or categorical with its categories."""

    name: str
    kind: Literal["continuous", "categorical"]
    column: int  # place in the input table; -1 for the target
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return 1 if self.kind == "continuous" else len(self.categories)

    def encode(self, column: pd.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Standardised numbers or category codes; NaN where missing or, for a category, never seen in training."""
        if self.kind == "continuous":
            return np.clip((numbers(column, self.name) - self.mean) / self.scale, -LARGEST, LARGEST)
        codes = pd.Index(self.categories).get_indexer(pd.Index(labels(column, self.name)))
        return np.where(codes < 0, np.nan, codes.astype(np.float64))

    def decode(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The reverse: numbers on the original scale, or category labels."""
        if self.kind == "continuous":
            return np.asarray(values * self.scale + self.mean)
        names = np.asarray(self.categories, dtype=object)
        return np.asarray(names[values.astype(int)])


# ---------------------------------------------------------------------------------------------------- reading columns


def as_frame(X: Any) -> pd.DataFrame:
    """A data frame of X; an array's columns are named x0, x1, ..."""
    if isinstance(X, pd.DataFrame):
        frame = X
        duplicated = [str(c) for c in frame.columns[frame.columns.duplicated()].unique()]
        if duplicated:
            raise ValueError(f"column names must be unique; these occur more than once: {duplicated}. Rename them.")
    else:
        array = np.asarray(X)
        frame = pd.DataFrame(array, columns=_numbered(array.shape[1]).view())
    return frame


@cache
def _numbered(count: int) -> pd.Index:
    """Made once: for a single row it takes longer than its values do."""
    return pd.Index([f"x{i}" for i in range(count)])


_TIMES = ("date", "datetime", "datetime64", "timedelta", "timedelta64")


def _present(column: pd.Series) -> pd.Series:
    return column[~column.isna()]


def is_categorical(column: pd.Series, name: str) -> bool:
    """Strings, booleans and category dtype are categorical; numbers, dates and durations are continuous."""
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
    bad = next((v for v in _present(column) if not isinstance(v, str | int | float | bool | np.generic)), None)
    if bad is not None:
        raise TypeError(
            f"column {name!r} holds a {type(bad).__name__} ({bad!r}); argument must be a string or a number, "
            "a boolean, a date or missing."
        )
    return True


def is_date(column: pd.Series) -> bool:
    """Whether a column holds dates, as pandas' type or as Python objects."""
    return column.dtype.kind == "M" or (column.dtype == object and _inferred(column) in _TIMES[:3])


def is_duration(column: pd.Series) -> bool:
    """The same for time spans."""
    return column.dtype.kind == "m" or (column.dtype == object and _inferred(column) in _TIMES[3:])


def _inferred(column: pd.Series) -> str:
    return pd.api.types.infer_dtype(column, skipna=True)


def numbers(column: pd.Series, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A continuous column as float64: dates as seconds since 1970, missing values as NaN."""
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
    return f"Input X contains infinity in column {name!r}. Replace it by a number or by a missing value."


def label(value: Any) -> str:
    """The same text for 1, 1.0 and '1', so that a category survives a change of dtype."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def labels(column: pd.Series, name: str) -> np.ndarray[Any, Any]:
    """A categorical column as strings, None where missing."""
    is_categorical(column.astype(object), name)  # raises for values that are no category
    distinct = {value: label(value) for value in _present(column).unique()}
    return column.astype(object).map(distinct).where(~column.isna(), None).to_numpy(object)


# ------------------------------------------------------------------------------------------------- learning attributes


def mean_and_scale(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """Mean and standard deviation; the latter 0 where values differ by no more than rounding."""
    if len(values) == 0:
        return 0.0, 0.0
    size = float(np.abs(values).max()) or 1.0  # divided out first, so that sums and squares do not overflow
    values = values / size
    mean = float(values.mean())
    spread = float(np.abs(values - mean).max())
    if spread <= 1e-12:
        return mean * size, 0.0
    return mean * size, float(np.sqrt(np.mean(((values - mean) / spread) ** 2))) * spread * size


def _continuous(column: pd.Series, name: str, place: int) -> Attribute:
    values = numbers(column, name)
    return Attribute(name, "continuous", place, *mean_and_scale(values[~np.isnan(values)]))


def _categorical(column: pd.Series, name: str, place: int) -> Attribute:
    counts = pd.Series(labels(column, name), dtype=object).value_counts()
    if len(counts) > MAX_CATEGORIES:
        warnings.warn(
            f"column {name!r} has {len(counts)} categories; the {MAX_CATEGORIES} most frequent are kept, the others "
            "count as missing",
            stacklevel=2,
        )
    kept = sorted(counts.index[:MAX_CATEGORIES])
    return Attribute(name, "categorical", place, categories=tuple(kept))


def learn_feature(column: pd.Series, name: str, place: int, force_categorical: bool) -> Attribute | None:
    """The attribute of a feature column; None, with a warning, if the column is constant or all missing."""
    if force_categorical or is_categorical(column, name):
        attribute = _categorical(column, name, place)
        informative = attribute.width > 1
    else:
        attribute = _continuous(column, name, place)
        informative = attribute.scale > 0
    if informative:
        return attribute
    state = "only missing values" if column.isna().all() else "a single value"
    warnings.warn(f"column {name!r} has {state} in the training rows and is left out", stacklevel=2)
    return None


@dataclass(frozen=True)
class Encoding:
    """The attributes of a table in the network's order, and which of them is the target."""

    attributes: tuple[Attribute, ...]
    target: int

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(attribute.width for attribute in self.attributes)

    def encode(self, frame: pd.DataFrame, target: np.ndarray[Any, Any] | None = None) -> Tensor:
        """Rows for the network; without `target` (codes or numbers, already encoded) it is missing."""
        rows = np.full((len(frame), len(self.attributes)), np.nan, dtype=np.float32)
        if target is not None:
            rows[:, self.target] = target
        kinds = [dtype.kind if isinstance(dtype, np.dtype) else "O" for dtype in frame.dtypes]
        places = [place for place in range(len(self.attributes)) if place != self.target]
        plain = [
            p for p in places if self.attributes[p].kind == "continuous" and kinds[self.attributes[p].column] in "iuf"
        ]
        if plain:  # numbers need no look at each column
            rows[:, plain] = self._encode_numbers(frame, plain)
        for place in set(places) - set(plain):
            rows[:, place] = self.attributes[place].encode(frame.iloc[:, self.attributes[place].column])
        return torch.from_numpy(rows)

    def _encode_numbers(self, frame: pd.DataFrame, places: list[int]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Attribute.encode for several columns of plain numbers at once."""
        attributes = [self.attributes[place] for place in places]
        columns = [attribute.column for attribute in attributes]
        everything = len(columns) == frame.shape[1]
        values = frame.to_numpy(np.float64)[:, columns] if everything else frame.iloc[:, columns].to_numpy(np.float64)
        if np.isinf(values).any():
            infinite = [
                attribute.name for attribute, bad in zip(attributes, np.isinf(values).any(0), strict=True) if bad
            ]
            raise ValueError(infinity(infinite[0]))
        mean, scale = np.array([(attribute.mean, attribute.scale) for attribute in attributes]).T
        return np.asarray(np.clip((values - mean) / scale, -LARGEST, LARGEST))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Encoding:
        attributes = (Attribute(**{**a, "categories": tuple(a["categories"])}) for a in data["attributes"])
        return Encoding(tuple(attributes), data["target"])


def learn_encoding(frame: pd.DataFrame, categorical: set[int], target: Attribute) -> Encoding:
    """Learn the attributes of the training rows; the columns in `categorical` are categories whatever their type."""
    learned = [
        learn_feature(frame.iloc[:, place], str(name), place, place in categorical)
        for place, name in enumerate(frame.columns)
    ]
    features = [attribute for attribute in learned if attribute is not None]
    if not features:
        raise ValueError(
            f"no usable feature: all {frame.shape[1]} columns are constant or empty in the training rows. "
            "Give at least one column with two different values."
        )
    ordered = sorted([*features, target], key=lambda a: (a.kind == "categorical", a.width))
    return Encoding(tuple(ordered), next(i for i, a in enumerate(ordered) if a is target))
