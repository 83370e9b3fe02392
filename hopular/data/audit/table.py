"""Table: the cells of a dataset as numbers, which every check counts with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hopular.data.dataset import Dataset
from hopular.data.splits import order_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
SEED = 1
SHUFFLES = 3


@dataclass(frozen=True, eq=False)
class Table:
    """A dataset whose cells are numbered: equal values of a column have equal numbers, in ascending order."""

    dataset: Dataset
    codes: Ints  # rows x columns; -1 is missing

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [str(name) for name in self.dataset.X.columns]

    @cached_property
    def is_categorical(self) -> list[bool]:
        """For each column, whether it is categorical."""
        return [kind == "categorical" for kind in self.dataset.kinds.values()]

    @cached_property
    def clock(self) -> str | None:
        """The name of the column by which rows are divided in the order of time, if they are."""
        dataset = self.dataset
        if dataset.time is None or order_of(dataset, dataset.protocol) != "time":
            return None
        return str(dataset.time.name)

    @cached_property
    def distinct(self) -> Ints:
        """The number of different values of each column, missing ones aside."""
        return np.asarray(self.codes.max(axis=0) + 1, dtype=np.int64)

    @cached_property
    def target(self) -> Ints:
        """The target, numbered like a column; classes in the order of `dataset.classes`."""
        return number(self.dataset.y)

    @cached_property
    def same(self) -> Ints:
        """A number per row, the same for rows that agree in every feature."""
        return _number_rows(self.codes)

    @cached_property
    def different(self) -> Ints:
        """The positions of the rows that repeat no earlier one in every feature."""
        return np.sort(np.unique(self.same, return_index=True)[1])

    @cached_property
    def redundant(self) -> list[list[int]]:
        """Columns that have equal values in just the rows in which another one has; copies of rows do not count.

        For values that hardly repeat this says nothing, so numbers must then have the same, or the opposite, order.
        """
        codes = self.codes[self.different]
        alike: dict[bytes, list[int]] = {}
        for j in np.flatnonzero(self.distinct > 1).tolist():
            column = codes[:, j]
            if self.distinct[j] <= len(codes) / 2:
                alike.setdefault(pd.factorize(column)[0].tobytes(), []).append(j)
            elif not self.is_categorical[j]:
                flipped = np.where(column >= 0, self.distinct[j] - 1 - column, -1)
                alike.setdefault(min(column.tobytes(), flipped.tobytes()), []).append(j)
        return [columns for columns in alike.values() if len(columns) > 1]

    @cached_property
    def shuffled(self) -> list[Ints]:
        """What `same` would be had the columns nothing to do with each other: which rows agree by chance.

        Columns that say the same as another one are left out, since they make no row rarer.
        """
        copies = {j for _, *others in self.redundant for j in others}
        once = [j for j in range(self.codes.shape[1]) if j not in copies]
        random = np.random.default_rng(SEED)
        return [_number_rows(random.permuted(self.codes[:, once], axis=0)) for _ in range(SHUFFLES)]


def make_table(dataset: Dataset) -> Table:
    """Number the cells of a dataset."""
    return Table(dataset, np.column_stack([number(dataset.X[name]) for name in dataset.X.columns]))


def number(column: pd.Series[Any]) -> Ints:
    """The rank of each value among the different values of a column; -1 if missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories().cat.codes.to_numpy().astype(np.int64)
    values = column.to_numpy(dtype=np.float64)
    codes = np.full(len(values), -1, dtype=np.int64)
    known = ~np.isnan(values)
    codes[known] = np.unique(values[known], return_inverse=True)[1]
    return codes


def renumber(codes: Ints) -> Ints:
    """Number again, from 0 on, the values that some rows of a column have."""
    return np.unique(codes, return_inverse=True)[1] - int((codes < 0).any())


def _number_rows(codes: Ints) -> Ints:
    rows = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        rows = pd.factorize(rows * (int(column.max()) + 2) + column + 1)[0].astype(np.int64)
    return rows
