"""Dataset: a table with honest types, its target, its origin, and the protocol by which its rows are divided."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from hopular.data.notation import Form
from hopular.formatting import plural
from hopular.util import InputError, did_you_mean


class DataError(InputError):
    """Data that cannot be used. The message names the thing, its value and the remedy."""


_Scheme = Literal["fixed", "kfold", "holdout"]
Order = Literal["stratified", "plain", "grouped", "time"]


@dataclass(frozen=True)
class Protocol:
    """A way to divide rows into training, validation and test rows.

    `fixed` uses the parts that come with the dataset (published folds, a split column), `kfold` makes each row a test
    row once, `holdout` draws one test part. Validation rows are a share of what is left. `order` None means: time if
    the dataset has a time column, grouped if it has groups, stratified for classes, plain otherwise.
    """

    scheme: _Scheme = "kfold"
    folds: int = 5
    test_share: float = 0.2
    valid_share: float = 0.2
    seed: int = 1
    order: Order | None = None

    def __post_init__(self) -> None:
        for name, valid in (("scheme", get_args(_Scheme)), ("order", get_args(Order))):
            value = getattr(self, name)
            if value not in valid and not (name == "order" and value is None):
                hint = did_you_mean(str(value), valid)
                raise DataError(f"protocol: {name} {value!r} is unknown: use one of {', '.join(valid)}.{hint}")
        if not isinstance(self.folds, Integral) or self.folds < 2:
            raise DataError(f"protocol: folds is {self.folds!r}: use a whole number from 2 on")
        for name in ("test_share", "valid_share"):
            share = getattr(self, name)
            if not isinstance(share, Real) or not 0 < share < 1:
                raise DataError(f"protocol: {name} is {share!r}: use a number between 0 and 1, such as 0.2")
        if not isinstance(self.seed, Integral) or not 0 <= self.seed < 2**32:
            raise DataError(f"protocol: seed is {self.seed!r}: use a whole number from 0 to {2**32 - 1}")


Task = Literal["classification", "regression"]
ColumnKind = Literal["continuous", "categorical", "date"]
DATE = "datetime64[us]"  # the type of a column of dates
_LARGEST_TARGET = 1e150  # sums of squares of larger numbers are not finite
PARTS = ("train", "valid", "test", "unused")  # what a column of `Dataset.parts` may say of a row


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features, target and task of one table, ready for any method.

    A feature is float64 (continuous), a pandas category of strings (categorical) or datetime64[us] in UTC (date); NaN
    or NaT is missing. The target is never missing: a category of strings for classification, float64 for regression.
    """

    name: str
    X: pd.DataFrame
    y: pd.Series[Any]
    task: Task
    source: str  # where the rows came from, for readers
    defects: tuple[str, ...] = ()  # known damage of the data as it was published
    notes: tuple[str, ...] = ()  # what was done to it on the way here
    protocol: Protocol = field(default_factory=Protocol)
    parts: pd.DataFrame | None = None  # fixed splits: one column each, saying for every row which of PARTS it is in
    groups: pd.Series[Any] | None = None  # rows of one group stay together
    time: pd.Series[Any] | None = None  # float64; models of earlier rows are tested on later ones
    file_rows: pd.Series[Any] | None = None  # positions of the rows in their file, if some of it were left out
    forms: Mapping[str, Form] = field(default_factory=dict)  # how the dates or numbers of a column were written as text
    missing_codes: tuple[str, ...] = ()  # what stood for missing values beside the usual marks

    def __post_init__(self) -> None:
        _check(self)

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {plural(len(self), 'row')}, {plural(self.X.shape[1], 'feature')}, {self.task})"

    @property
    def kinds(self) -> dict[str, ColumnKind]:
        """Return the kind of each feature, in column order."""
        return {str(name): kind_of(dtype) for name, dtype in self.X.dtypes.items()}

    @property
    def classes(self) -> list[str]:
        """Return the classes that occur, in the target's order; empty for regression."""
        return list(self.y.cat.remove_unused_categories().cat.categories) if self.task == "classification" else []

    @cached_property
    def fingerprint(self) -> str:
        """Hash the content: names, kinds and values of features and target, and the task.

        File names, formats, row groups, unused categories and their order do not count.
        """
        digest = hashlib.sha256(f"dataset 1 {self.task} {len(self)}".encode())
        for column in (*(self.X[name] for name in self.X.columns), self.y):
            kind = "f" if column.dtype == np.float64 else "date" if column.dtype == DATE else "category"
            digest.update(f"\n{column.name!r}:{kind}".encode())
            digest.update(_content(column))
        return digest.hexdigest()


def kind_of(dtype: Any) -> ColumnKind:
    """Return what a feature of this type is."""
    if isinstance(dtype, pd.CategoricalDtype):
        return "categorical"
    return "date" if dtype == DATE else "continuous"


def _content(column: pd.Series[Any]) -> bytes:
    """Return the values of a column as bytes that depend on nothing else."""
    if column.dtype == DATE:
        return column.to_numpy().astype("<i8").tobytes()
    if not isinstance(column.dtype, pd.CategoricalDtype):
        values = column.to_numpy(dtype="<f8", copy=True) + 0.0  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan  # one bit pattern for all NaN
        return values.tobytes()
    column = column.cat.remove_unused_categories()
    names = list(column.cat.categories)
    rank = np.empty(len(names) + 1, dtype="<i4")
    rank[-1] = -1  # missing
    rank[np.array(sorted(range(len(names)), key=names.__getitem__), dtype=int)] = np.arange(len(names))
    lengths_and_names = "".join(f"{len(name)}:{name}" for name in sorted(names))
    return lengths_and_names.encode("utf-8", "surrogatepass") + rank[column.cat.codes.to_numpy()].tobytes()


def _check(dataset: Dataset) -> None:
    """Refuse a dataset that no method could use; the loaders promise the rest."""
    name, X, y = dataset.name, dataset.X, dataset.y
    if not len(X):
        raise DataError(f"dataset {name!r} has no rows")
    if not X.shape[1]:
        raise DataError(f"dataset {name!r} has no feature beside its target {y.name!r}: keep at least one column")
    if len(y) != len(X):
        raise DataError(f"dataset {name!r} has {plural(len(X), 'row')} of features and {len(y)} of target")
    if not X.columns.is_unique:
        twice = sorted({str(c) for c in X.columns[X.columns.duplicated()]})
        raise DataError(f"dataset {name!r} has more than one column named {', '.join(twice)}: rename them")
    _check_dtypes(name, X)
    if y.isna().any():
        gaps = plural(int(y.isna().sum()), "row")
        raise DataError(f"dataset {name!r}: target {y.name!r} is missing in {gaps}: drop them")
    is_category = isinstance(y.dtype, pd.CategoricalDtype)
    if is_category != (dataset.task == "classification"):
        raise DataError(f"dataset {name!r}: task {dataset.task!r} does not fit a target of type {y.dtype}")
    if y.nunique() < 2:
        only = repr(y.iloc[0]) if is_category else f"{y.iloc[0]:.6g}"
        raise DataError(f"dataset {name!r}: target {y.name!r} has one value only, {only}: nothing to predict")
    if not is_category and (largest := float(y.abs().max())) > _LARGEST_TARGET:
        raise DataError(
            f"dataset {name!r}: target {y.name!r} has values up to {largest:.3g}, whose squared errors no number can "
            "hold: give it in a larger unit"
        )
    for extra in ("parts", "groups", "time", "file_rows"):
        value = getattr(dataset, extra)
        if value is not None and len(value) != len(X):
            raise DataError(f"dataset {name!r} has {plural(len(X), 'row')} and {plural(len(value), 'row')} of {extra}")
    if dataset.parts is not None:
        unknown = sorted(set(dataset.parts.astype(object).stack().dropna()) - set(PARTS))
        if unknown or dataset.parts.isna().any(axis=None):
            raise DataError(f"dataset {name!r}: a part must be one of {PARTS}, not {unknown or 'missing'}")


def _check_dtypes(name: str, X: pd.DataFrame) -> None:
    for column, dtype in X.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            if not all(isinstance(category, str) for category in dtype.categories):
                raise DataError(f"dataset {name!r}: categories of {column!r} must be strings, not {dtype.categories}")
        elif dtype not in (np.float64, DATE):
            raise DataError(f"dataset {name!r}: column {column!r} must be float64, category or {DATE}, not {dtype}")
    numbers = X.select_dtypes(np.float64)
    infinite = np.isinf(numbers.to_numpy()).any(axis=0)
    if infinite.any():
        first = numbers.columns[infinite][0]
        raise DataError(f"dataset {name!r}: column {first!r} has infinite values: replace or remove them")
