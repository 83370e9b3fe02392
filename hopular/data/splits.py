"""Splits: the rows of a dataset divided into training, validation and test rows as its protocol says.

A test part is taken first, then validation rows from what is left, with the same seed; every part has at least one row.

- `stratified` and `plain` are scikit-learn's StratifiedKFold, KFold and train_test_split with the same arguments, as in
  the paper. Classes are taken in the order of their names, whatever the order of the categories.
- `grouped` keeps the rows of a group together; a row without a group is a group of its own. Folds are those of
  StratifiedGroupKFold (classes) or GroupKFold. A single part is made of groups in random order, each taken if that
  brings the part nearer to its share of the rows.
- `time` tests on rows later than all training rows and validates on the latest share of those. Folds are the expanding
  windows of TimeSeriesSplit, so the earliest rows are never tested. Each cut moves to the nearest change of time.

Rare classes (`stratified`, and `grouped` with classes; the other orders take no notice of classes):

- A row, or a group, that holds the whole of a class always trains. Shares and folds are of the other rows: each of
  those is a test row of exactly one fold.
- If all rows of a class were drawn nonetheless, the first of them, or its group, goes back to training. With groups it
  is then tested in no fold; single rows of a class are never all in one fold.
- Where scikit-learn refuses to stratify, because no class has as many rows as there are folds, rows sorted by class are
  dealt out in turn; because a part has fewer rows than there are classes, it is drawn without regard to classes.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold, train_test_split

from hopular.data.dataset import PARTS, DataError, Dataset, Order, Protocol
from hopular.formatting import plural

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Row positions of the training, validation and test rows: sorted, and no row in two parts."""

    id: str
    train: Rows
    valid: Rows
    test: Rows

    def __post_init__(self) -> None:
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        for name, rows in parts.items():
            if rows.dtype != np.int64 or rows.ndim != 1:
                raise DataError(f"split {self.id!r}: {name} must be a list of int64, not {rows.ndim}-d {rows.dtype}")
            if len(rows) and (rows[0] < 0 or (np.diff(rows) <= 0).any()):
                raise DataError(f"split {self.id!r}: {name} must be row positions from 0 on, sorted, none twice")
        for one, other in combinations(parts, 2):
            both = np.intersect1d(parts[one], parts[other])
            if len(both):
                raise DataError(f"split {self.id!r}: row {both[0]} is in both {one} and {other}")

    @cached_property
    def fingerprint(self) -> str:
        """Hash the rows of each part, whatever the split is called."""
        digest = hashlib.sha256(b"split 1")
        for rows in (self.train, self.valid, self.test):
            digest.update(f"\n{len(rows)}:".encode() + rows.astype("<i8").tobytes())
        return digest.hexdigest()


def make_splits(dataset: Dataset, protocol: Protocol | None = None) -> list[Split]:
    """Divide the rows of `dataset` as `protocol` says, by default its own; the module says by which rules."""
    protocol = protocol or dataset.protocol
    table = _table(dataset, order_of(dataset, protocol))
    if protocol.scheme == "fixed":
        return _fixed(dataset, protocol, table)
    rows = np.arange(len(dataset), dtype=np.int64)
    if protocol.scheme == "kfold":
        name = f"kfold{protocol.folds}-seed{protocol.seed}-{{}}"
        pairs = _folds(rows, protocol, table)
    else:
        name = f"holdout-seed{protocol.seed}"
        pairs = [_draw(rows, protocol.test_share, protocol.seed, table, "test")]
    splits = []
    for i, (rest, test) in enumerate(pairs):
        train, valid = _draw(rest, protocol.valid_share, protocol.seed, table, "validation")
        splits.append(Split(name.format(i), train, valid, test))
    return splits


def _fixed(dataset: Dataset, protocol: Protocol, table: _Table) -> list[Split]:
    """Make a split of each column of the dataset's parts; validation rows come from training if it marks none."""
    if dataset.parts is None or not dataset.parts.shape[1]:
        raise DataError(
            f"dataset {dataset.name!r} has no parts, which scheme 'fixed' needs: "
            "name its split column, or use scheme 'kfold' or 'holdout'"
        )
    splits = []
    for i, column in enumerate(dataset.parts.columns):
        marks = dataset.parts.iloc[:, i].to_numpy(dtype=object)
        train, valid, test = (np.flatnonzero(marks == part).astype(np.int64) for part in PARTS[:3])
        for part, rows in (("train", train), ("test", test)):
            if not len(rows):
                raise DataError(f"dataset {dataset.name!r}: column {column!r} marks no row as {part!r}: mark some")
        if not len(valid):
            train, valid = _draw(train, protocol.valid_share, protocol.seed, table, "validation")
        splits.append(Split(f"fixed-{i}", train, valid, test))
    return splits


FEW_ROWS, MANY_FOLDS = 1_000, 8  # tables of no more rows have so many inner folds
SOME_ROWS, SOME_FOLDS = 20_000, 5  # larger ones have so many, and those beyond it a single one


def inner_folds(dataset: Dataset, rows: Rows, seed: int = 0) -> list[tuple[Rows, Rows]]:
    """Divide `rows` again and again into those to train on and those to validate on, in the order of the dataset.

    Each row is a validation row once, but for rows that always train: those of rare classes, and with an order in time
    the earlier half, which the folds' expanding windows begin with. A large table has a single fold.
    """
    table = _table(dataset, order_of(dataset, dataset.protocol))
    share = dataset.protocol.valid_share
    if len(rows) > SOME_ROWS:
        return [_draw(rows, share, seed, table, "validation")]
    wanted = MANY_FOLDS if len(rows) <= FEW_ROWS else SOME_FOLDS
    if table.order == "time":
        assert table.time is not None
        moments = len(np.unique(table.time[rows]))
        if moments <= wanted:  # too few to cut as often
            return [_draw(rows, share, seed, table, "validation")]
        starts = np.linspace(len(rows) // 2, len(rows), wanted, endpoint=False).astype(int)
        blocks = _time_blocks(rows, starts.tolist(), table, "validation")
        return [(np.sort(np.concatenate(blocks[:i])), np.sort(blocks[i])) for i in range(1, wanted + 1)]
    free = rows[~_lone(rows, table)]
    folds = min(wanted, len(np.unique(table.units[free])))
    if folds < 2:
        return [_draw(rows, share, seed, table, "validation")]  # which says what is wrong
    parts = _test_parts(free, folds, seed, table)
    pairs = [_keep_classes(np.setdiff1d(rows, part, assume_unique=True), part, table) for part in parts]
    return [(train, valid) for train, valid in pairs if len(valid)]


@dataclass(frozen=True)
class _Table:
    """The facts that decide where the rows of a dataset go."""

    name: str
    order: Order
    classes: Rows | None  # a number per class; None if the order takes no notice of them
    units: Rows  # a number per group; without groups, per row
    time: npt.NDArray[np.float64] | None
    clock: str  # the name of the column with the time


def order_of(dataset: Dataset, protocol: Protocol) -> Order:
    """Return the order asked for, or else the one that fits the dataset."""
    possible: dict[Order, bool] = {
        "time": dataset.time is not None,
        "grouped": dataset.groups is not None,
        "stratified": dataset.task == "classification",
        "plain": True,
    }
    if protocol.order is None:
        return next(order for order in possible if possible[order])
    order = protocol.order
    if not possible[order]:
        lacks = {"time": "time column", "grouped": "group column", "stratified": "classes"}[order]
        remedy = "use order 'plain'" if order == "stratified" else f"name its {lacks}, or use another order"
        raise DataError(f"dataset {dataset.name!r} has no {lacks}, which order {order!r} needs: {remedy}")
    return order


def _table(dataset: Dataset, order: Order) -> _Table:
    classes, units, time = None, np.arange(len(dataset)), None
    if dataset.task == "classification" and order in ("stratified", "grouped"):
        classes = np.unique(dataset.y.to_numpy(dtype=object), return_inverse=True)[1]
    if order == "grouped" and dataset.groups is not None:
        units = pd.factorize(dataset.groups)[0].astype(np.int64)
        none = units < 0
        units[none] = units.max() + 1 + np.arange(none.sum())
    if order == "time" and dataset.time is not None:
        time = dataset.time.to_numpy(dtype=np.float64)
    clock = "" if dataset.time is None else str(dataset.time.name)
    return _Table(dataset.name, order, classes, units, time, clock)


def _folds(rows: Rows, protocol: Protocol, table: _Table) -> list[tuple[Rows, Rows]]:
    """Return the rows to train and validate on, and the test rows, of each fold."""
    folds, seed = protocol.folds, protocol.seed
    if table.order == "time":
        size = max(1, len(rows) // (folds + 1))
        blocks = _time_blocks(rows, range(len(rows) - folds * size, len(rows), size), table, "test")
        return [(np.sort(np.concatenate(blocks[:i])), np.sort(blocks[i])) for i in range(1, folds + 1)]
    free = rows[~_lone(rows, table)]
    if len(np.unique(table.units[free])) < folds:
        raise DataError(
            f"dataset {table.name!r} has {_census(rows, free, table)}, fewer than {folds} folds: "
            "ask for fewer folds, or use another order"
        )
    tests = _test_parts(free, folds, seed, table)
    return [_keep_classes(np.setdiff1d(rows, test, assume_unique=True), test, table) for test in tests]


def _test_parts(rows: Rows, folds: int, seed: int, table: _Table) -> list[Rows]:
    """Draw the test rows of each fold, as scikit-learn does if it can."""
    groups = table.units[rows] if table.order == "grouped" else None
    classes = None if table.classes is None else table.classes[rows]
    most = 0 if classes is None else np.bincount(classes).max()
    if table.order == "stratified" and classes is not None and most < folds:
        shuffled = np.random.RandomState(seed).permutation(len(rows))
        dealt = rows[shuffled[np.argsort(classes[shuffled], kind="stable")]]
        return [np.sort(dealt[i::folds]) for i in range(folds)]
    if table.order == "grouped":
        maker = StratifiedGroupKFold if most >= folds else GroupKFold
    else:
        maker = StratifiedKFold if table.order == "stratified" else KFold
    with warnings.catch_warnings():  # they are of small classes, which are taken care of here
        warnings.simplefilter("ignore", UserWarning)
        drawn = list(maker(folds, shuffle=True, random_state=seed).split(rows, classes, groups))
    return [rows[test] for _, test in drawn]


def _draw(rows: Rows, share: float, seed: int, table: _Table, part: str) -> tuple[Rows, Rows]:
    """Divide `rows` into those kept and a share of them drawn for `part`."""
    if table.order == "time":
        kept, drawn = _time_blocks(rows, [len(rows) - math.ceil(share * len(rows))], table, part)
        return np.sort(kept), np.sort(drawn)
    free = rows[~_lone(rows, table)]
    if not len(free) or len(np.unique(table.units[rows])) < 2:
        has = "has" if part == "test" else "has left"
        raise DataError(
            f"dataset {table.name!r} {has} {_census(rows, free, table)}, too few to take {part} rows from: "
            "use more data, or another order"
        )
    if table.order == "grouped":
        drawn = _draw_groups(free, share, seed, table.units)
    else:
        count = min(math.ceil(share * len(free)), len(free) - 1)
        classes = None if table.classes is None else table.classes[free]
        if classes is not None and len(np.unique(classes)) > min(count, len(free) - count):
            classes = None
        drawn = train_test_split(free, test_size=count, random_state=seed, shuffle=True, stratify=classes)[1]
    return _keep_classes(np.setdiff1d(rows, drawn, assume_unique=True), np.sort(drawn), table)


def _draw_groups(rows: Rows, share: float, seed: int, units: Rows) -> Rows:
    """Draw random groups, as near to `share` of the rows as sizes allow: at least one, and never all of several."""
    groups, sizes = np.unique(units[rows], return_counts=True)
    wanted, drawn, taken = share * len(rows), 0, []
    for i in np.random.RandomState(seed).permutation(len(groups)):
        if drawn + sizes[i] / 2 < wanted and drawn + sizes[i] < len(rows):
            taken.append(groups[i])
            drawn += sizes[i]
    return rows[np.isin(units[rows], taken or groups[sizes.argmin()])]


def _lone(rows: Rows, table: _Table) -> npt.NDArray[np.bool_]:
    """Tell which of `rows` belong to a unit that holds the whole of a class."""
    if table.classes is None:
        return np.zeros(len(rows), dtype=bool)
    base = table.units.max() + 1
    classes, units = np.divmod(np.unique(table.classes[rows] * base + table.units[rows]), base)  # each pair once
    return np.isin(table.units[rows], units[np.bincount(classes)[classes] == 1])


def _census(rows: Rows, free: Rows, table: _Table) -> str:
    """Say for an error how many rows or groups can be divided, and how many must train."""
    units = len(np.unique(table.units[free]))
    lone = len(np.unique(table.units[rows])) - units
    counted = plural(units, "group" if table.order == "grouped" else "row")
    return counted + (f" (beside {lone} that must train with a whole class)" if lone else "")


def _keep_classes(kept: Rows, drawn: Rows, table: _Table) -> tuple[Rows, Rows]:
    """Give back the first row drawn, with its group, of each class that would be gone from `kept`."""
    if table.classes is not None:
        gone = np.setdiff1d(table.classes[drawn], table.classes[kept])
        while len(gone):
            back = table.units[drawn] == table.units[drawn[table.classes[drawn] == gone[0]][0]]
            kept, drawn = np.union1d(kept, drawn[back]), drawn[~back]
            gone = np.setdiff1d(gone, table.classes[kept])
    return kept, drawn


def _time_blocks(rows: Rows, wanted: Sequence[int], table: _Table, part: str) -> list[Rows]:
    """Cut `rows`, sorted by time, near each wanted position where time moves on.

    Before the first test block two different times are left, one to train on and one to validate on.
    """
    assert table.time is not None
    times = table.time[rows]
    if np.isnan(times).any():
        raise DataError(
            f"dataset {table.name!r}: the time {table.clock!r} is missing in "
            f"{plural(int(np.isnan(times).sum()), 'row')}: drop them, fill it in, or use another order"
        )
    by_time = np.argsort(times, kind="stable")
    cuts = np.flatnonzero(times[by_time][1:] != times[by_time][:-1]) + 1
    low = 1 if part == "test" else 0
    if len(cuts) < low + len(wanted):
        folds = "ask for fewer folds, or " if len(wanted) > 1 else ""
        raise DataError(
            f"dataset {table.name!r} has {plural(len(cuts) + 1, 'different time')} to take {part} rows from, "
            f"fewer than the {low + len(wanted) + 1} needed: {folds}use another order"
        )
    chosen = []
    for i, place in enumerate(wanted):
        high = len(cuts) - len(wanted) + i + 1  # leaves a cut for each block to come
        low += int(np.abs(cuts[low:high] - place).argmin())
        chosen.append(cuts[low])
        low += 1
    return np.split(rows[by_time], chosen)
