"""Test values never seen in training: by chance, since they are rare, or since something went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hopular.data.audit.finding import Finding, Severity, listing, percent, verb
from hopular.data.audit.parts import where
from hopular.data.audit.table import Floats, Ints, Table
from hopular.data.splits import Split

FEW_VALUES = 20  # different values up to which a number is checked like a category
FEW_ROWS = 5  # rows per value from which it is
LARGE = 0.2  # share of all test cells, unseen beyond chance, that is serious
SOME = 0.1  # share of a column's test cells, unseen beyond chance, worth a warning
MANY = 0.2  # share of a column's test cells, unseen even if by chance, worth a warning


@dataclass(frozen=True, eq=False)
class _Unseen:
    """For one split: per checked column, known test cells, those unseen, and those expected of a random division."""

    known: Floats
    unseen: Floats
    expected: Floats
    rows: float  # share of test rows with an unseen value
    cells: int  # all test cells, of unchecked columns too

    @property
    def beyond(self) -> float:
        """The share of all test cells unseen beyond chance."""
        return float(np.maximum(self.unseen - self.expected, 0).sum() / self.cells)

    def columns(self, share: float, by_chance: bool) -> Ints:
        """Which columns have at least a share of their cells unseen, with or without what chance explains."""
        extra = self.unseen if by_chance else self.unseen - self.expected - 3 * np.sqrt(self.expected + 1)
        return np.flatnonzero((extra > 0) & (extra >= share * self.known))


def unseen(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Test values that no training row has, of categories and of numbers with few different values."""
    few = (table.distinct <= FEW_VALUES) & (table.distinct * FEW_ROWS <= len(table.codes))
    checked = np.flatnonzero(np.array(table.is_categorical) | few)
    counts = [_count_unseen(table, split, checked) for split in splits]
    if not any(count.unseen.any() for count in counts):
        return
    worst = max(range(len(splits)), key=lambda i: (counts[i].beyond, counts[i].unseen.sum()))
    count = counts[worst]
    start = where(splits, [i for i, each in enumerate(counts) if each.unseen.any()], worst)
    share = float(count.unseen.sum() / count.known.sum())
    beyond, many = count.columns(SOME, by_chance=False), count.columns(MANY, by_chance=True)
    text = f"{start}{percent(share)} of the test values in {len(checked)} categorical or few-valued "
    text += f"{verb(len(checked), 'column', 'columns')}, in {percent(count.rows)} of the test rows, "
    text += "are in no training row"
    severity: Severity = "warning" if len(beyond) or len(many) else "note"
    if len(beyond):
        chance = float(count.expected.sum() / count.known.sum())
        text += f", where a random division would leave {percent(chance)} of the values"
        if count.beyond >= LARGE:
            severity = "serious"
            text += ": the parts may have been coded or scaled separately"
    else:
        text += ", as rare values are in any division"
    columns = next(found for found in (beyond, many, np.flatnonzero(count.unseen)) if len(found))
    names = tuple(table.names[checked[j]] for j in columns)
    text += f". {verb(len(names), 'Column', 'Columns')}: {listing(names)}."
    yield Finding("unseen-values", severity, text, names, splits[worst].id)


def _count_unseen(table: Table, split: Split, checked: Ints) -> _Unseen:
    known, unseen, expected = np.zeros((3, len(checked)))
    rows = np.zeros(len(split.test), dtype=bool)
    elsewhere = len(split.test) / max(len(split.train) + len(split.test), 1)  # that another row is not in training
    for i, j in enumerate(checked):
        train, test = table.codes[split.train, j], table.codes[split.test, j]
        values = int(table.distinct[j])
        in_train = np.bincount(train[train >= 0], minlength=values)
        in_test = np.bincount(test[test >= 0], minlength=values)
        known[i], unseen[i] = in_test.sum(), in_test[in_train == 0].sum()
        expected[i] = (in_test * elsewhere ** np.maximum(in_train + in_test - 1.0, 0.0)).sum()
        rows |= (test >= 0) & (in_train[test] == 0) if values else False
    count = max(len(rows), 1)
    return _Unseen(known, unseen, expected, float(rows.sum() / count), count * len(table.names))
