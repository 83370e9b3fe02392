"""Material of every check of an audit: the cells of a dataset as numbers, and findings with their wording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from hopular.data.dataset import DATE, Dataset
from hopular.data.notation import since_1970
from hopular.data.splits import order_of
from hopular.formatting import percent

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the worst first


@dataclass(frozen=True)
class Finding:
    """One problem or oddity: the check that found it, how bad it is, and a sentence with the numbers."""

    check: str
    severity: Severity
    sentence: str
    columns: tuple[str, ...] = ()  # all that are concerned
    split: str | None = None  # id of the split concerned, or of the worst one


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings, the worst first, then by check."""
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.check, f.columns, f.split or ""))


def of(count: int, total: int, what: str) -> str:
    """Format a count as '3 of 12 rows (25 %)'."""
    return f"{count:,} of {total:,} {what} ({percent(count / total)})"


def verb(count: int, one: str, many: str) -> str:
    """Return the form of a verb, or of anything else, that goes with a count."""
    return one if count == 1 else many


def listing(names: Sequence[str]) -> str:
    """List the first few names in quotes."""
    return shortened([f"'{name}'" for name in names])


def shortened(items: Sequence[str], limit: int = 5) -> str:
    """List the first few items, and say how many more there are."""
    items = list(items)
    if len(items) > limit + 1:
        items = [*items[:limit], f"{len(items) - limit:,} more"]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


# ------------------------------------------------------------------------------------------------------------ the cells


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
SEED = 1
_SHUFFLES = 3


@dataclass(frozen=True, eq=False)
class Table:
    """A dataset whose cells are numbered: equal values of a column have equal numbers, in ascending order."""

    dataset: Dataset
    codes: Ints  # rows x columns; -1 is missing

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [str(name) for name in self.dataset.X.columns]

    @cached_property
    def is_categorical(self) -> list[bool]:
        """Tell for each column whether it is categorical."""
        return [kind == "categorical" for kind in self.dataset.kinds.values()]

    @cached_property
    def clock(self) -> str | None:
        """Return the name of the column by which rows are divided in the order of time, if they are."""
        dataset = self.dataset
        if dataset.time is None or order_of(dataset, dataset.protocol) != "time":
            return None
        return str(dataset.time.name)

    @cached_property
    def distinct(self) -> Ints:
        """Count the different values of each column, missing ones aside."""
        return np.asarray(self.codes.max(axis=0) + 1, dtype=np.int64)

    @cached_property
    def target(self) -> Ints:
        """Number the target like a column; classes are in the order of `dataset.classes`."""
        return _number(self.dataset.y)

    @cached_property
    def same(self) -> Ints:
        """Number the rows, with one number for rows that agree in every feature."""
        return _number_rows(self.codes)

    @cached_property
    def different(self) -> Ints:
        """Return the positions of the rows that do not repeat an earlier one in every feature."""
        return np.sort(np.unique(self.same, return_index=True)[1])

    @cached_property
    def redundant(self) -> list[list[int]]:
        """Group columns that have equal values in exactly the same rows; copies of rows do not count.

        Values that hardly repeat say nothing by that, so such numbers must have the same, or the opposite, order.
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
        """Return `same` for columns shuffled independently: it tells which rows agree by chance.

        Columns that say the same as another one are left out, since they make no combination rarer.
        """
        copies = {j for _, *others in self.redundant for j in others}
        once = [j for j in range(self.codes.shape[1]) if j not in copies]
        random = np.random.default_rng(SEED)
        return [_number_rows(random.permuted(self.codes[:, once], axis=0)) for _ in range(_SHUFFLES)]


def make_table(dataset: Dataset) -> Table:
    """Give the cells of a dataset numbers."""
    return Table(dataset, np.column_stack([_number(dataset.X[name]) for name in dataset.X.columns]))


def _number(column: pd.Series[Any]) -> Ints:
    """Rank each value among the different values of a column; -1 if missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories().cat.codes.to_numpy().astype(np.int64)
    values = since_1970(column) if column.dtype == DATE else column.to_numpy(dtype=np.float64)
    codes = np.full(len(values), -1, dtype=np.int64)
    known = ~np.isnan(values)
    codes[known] = np.unique(values[known], return_inverse=True)[1]
    return codes


def renumber(codes: Ints) -> Ints:
    """Give the values of some rows of a column new numbers, from 0 on."""
    return np.unique(codes, return_inverse=True)[1] - int((codes < 0).any())


def _number_rows(codes: Ints) -> Ints:
    rows = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        rows = pd.factorize(rows * (int(column.max()) + 2) + column + 1)[0].astype(np.int64)
    return rows
