"""Turn a messy table into the rows of the network: standardised numbers, category codes, NaN for missing values.

The columns are sorted by width, as the network wants them. Everything is learned from the training rows alone.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hopular.model.columns import LARGEST, codes, infinity, is_categorical, labels, mean_and_scale, numbers

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
        """Return standardised numbers or category codes; NaN for missing values and for unseen categories."""
        if self.kind == "continuous":
            return np.clip((numbers(column, self.name) - self.mean) / self.scale, -LARGEST, LARGEST)
        return codes(column, self.name, self.categories)

    def decode(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Reverse `encode`: return numbers on the original scale, or category labels."""
        if self.kind == "continuous":
            return np.asarray(values * self.scale + self.mean)
        names = np.asarray(self.categories, dtype=object)
        return np.asarray(names[values.astype(int)])


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


def _learn_feature(column: pd.Series, name: str, place: int, force_categorical: bool) -> Attribute | None:
    """Learn the attribute of a feature column; None, with a warning, if the column is constant or all missing."""
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
        """Return rows for the network; `target` (codes or numbers, already encoded) is missing if it is not given."""
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
        """Do what Attribute.encode does for several columns of plain numbers at once."""
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
        _learn_feature(frame.iloc[:, place], str(name), place, place in categorical)
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
