"""Checks of splits: copies across parts, classes without rows, values never seen in training, and shifts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import kolmogorov
from scipy.stats import chi2

from hopular.data.audit.table import Finding, Floats, Ints, Severity, Table, listing, of, verb
from hopular.data.audit.table_checks import beyond_chance
from hopular.data.splits import Split
from hopular.formatting import percent

# ----------------------------------------------------------------------------------------------------- rows and classes


_MANY_COPIES = 0.1  # share of test rows that occur in training
_RARE = 0.01  # the share to expect by chance below which such rows must be copies


def duplicates(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Report test rows whose features occur in training."""
    shares = [_trained_share(table.same, split) for split in splits]
    worst = int(np.argmax(shares))
    if not shares[worst]:
        return
    chance = float(np.mean([_trained_share(rows, splits[worst]) for rows in table.shuffled]))
    count, total = round(shares[worst] * len(splits[worst].test)), len(splits[worst].test)
    severity: Severity = "note"
    text = f"{of(count, total, 'test rows')} {verb(count, 'has', 'have')} the features of a training row"
    text = f"{_where(splits, [i for i, share in enumerate(shares) if share], worst)}{text}"
    if not beyond_chance(shares[worst], chance):
        text += "; so few different values make that likely"
    elif shares[worst] >= _MANY_COPIES:
        severity = "serious" if chance < _RARE else "warning"
        text += f", _where shuffled columns would make it {percent(chance)}: methods that remember rows are rewarded"
    yield Finding("duplicates-across-parts", severity, f"{text}.", split=splits[worst].id)


def _trained_share(rows: Ints, split: Split) -> float:
    return float(np.isin(rows[split.test], rows[split.train]).mean()) if len(split.test) else 0.0


def classes(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Report classes without a row in a part; worst are those that are tested but not trained."""
    if table.dataset.task != "classification":
        return
    names = np.array(table.dataset.classes, dtype=object)
    everything = np.arange(len(names))
    untrained = [np.setdiff1d(table.target[s.test], table.target[s.train]) for s in splits]
    yield from _absent("classes-not-in-training", "serious", untrained, splits, names, "tested but not trained")
    for part, rows in (("validation", [s.valid for s in splits]), ("test", [s.test for s in splits])):
        absent = [np.setdiff1d(everything, table.target[r]) if len(r) else everything[:0] for r in rows]
        yield from _absent(f"classes-not-in-{part}", "note", absent, splits, names, f"not in the {part} part")


def _absent(
    check: str,
    severity: Severity,
    absent: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]],
    splits: Sequence[Split],
    names: np.ndarray[tuple[int], np.dtype[np.object_]],
    what: str,
) -> Iterator[Finding]:
    found = [i for i, missing in enumerate(absent) if len(missing)]
    if found:
        worst = max(found, key=lambda i: len(absent[i]))
        which = names[absent[worst]].tolist()
        text = f"{_where(splits, found, worst)}{len(which)} of {len(names)} classes "
        text += f"{verb(len(which), 'is', 'are')} {what}: {listing(which)}."
        yield Finding(check, severity, text, split=splits[worst].id)


def shared_test_rows(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Report splits that test on the same rows, so that their scores are not independent."""
    shared = [len(np.intersect1d(a.test, b.test)) for a, b in combinations(splits, 2)]
    if not any(shared):
        return
    if len({split.test.tobytes() for split in splits}) == 1:
        text = f"All {len(splits)} splits test on the same {len(splits[0].test):,} rows: "
        text += "the spread of their scores says nothing about other test rows."
    else:
        text = f"Test parts overlap, two of the {len(splits)} splits in up to {max(shared):,} rows: "
        text += "their scores are not independent."
    yield Finding("shared-test-rows", "note", text)


def _where(splits: Sequence[Split], found: Sequence[int], worst: int) -> str:
    """Begin a sentence about some of the splits, whose numbers are those of the worst one."""
    if len(splits) == 1:
        return ""
    if len(found) == 1:
        return f"In split '{splits[worst].id}' of {len(splits)}: "
    some = f"all {len(splits)}" if len(found) == len(splits) else f"{len(found)} of {len(splits)}"
    return f"In {some} splits (worst '{splits[worst].id}'): "


# -------------------------------------------------------------------------------------------------------- unseen values


_FEW_VALUES = 20  # different values up to which a number is checked like a category
_FEW_ROWS = 5  # rows per value that this takes at least
_MANY_CELLS = 0.2  # share of all test cells, unseen beyond chance, that is serious
_BEYOND_CHANCE = 0.1  # share of a column's test cells, unseen beyond chance, worth a warning
_BY_CHANCE = 0.2  # share of a column's test cells, unseen even if by chance, worth a warning


@dataclass(frozen=True, eq=False)
class _Unseen:
    """For one split, per checked column: known test cells, those unseen, and those that chance would leave unseen."""

    known: Floats
    unseen: Floats
    expected: Floats
    rows: float  # share of test rows with an unseen value
    cells: int  # all test cells, of unchecked columns too

    @property
    def beyond(self) -> float:
        """Return the share of all test cells unseen beyond chance."""
        return float(np.maximum(self.unseen - self.expected, 0).sum() / self.cells)

    def columns(self, share: float, by_chance: bool) -> Ints:
        """Return the columns with at least a share of their cells unseen, with or without what chance explains."""
        extra = self.unseen if by_chance else self.unseen - self.expected - 3 * np.sqrt(self.expected + 1)
        return np.flatnonzero((extra > 0) & (extra >= share * self.known))


def unseen(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Report test values that no training row has, of categories and of numbers with few different values."""
    few = (table.distinct <= _FEW_VALUES) & (table.distinct * _FEW_ROWS <= len(table.codes))
    checked = np.flatnonzero(np.array(table.is_categorical) | few)
    counts = [_count_unseen(table, split, checked) for split in splits]
    if not any(count.unseen.any() for count in counts):
        return
    worst = max(range(len(splits)), key=lambda i: (counts[i].beyond, counts[i].unseen.sum()))
    count = counts[worst]
    start = _where(splits, [i for i, each in enumerate(counts) if each.unseen.any()], worst)
    share = float(count.unseen.sum() / count.known.sum())
    beyond, many = count.columns(_BEYOND_CHANCE, by_chance=False), count.columns(_BY_CHANCE, by_chance=True)
    text = f"{start}{percent(share)} of the test values in {len(checked)} categorical or few-valued "
    text += f"{verb(len(checked), 'column', 'columns')}, in {percent(count.rows)} of the test rows, "
    text += "are in no training row"
    severity: Severity = "warning" if len(beyond) or len(many) else "note"
    if len(beyond):
        chance = float(count.expected.sum() / count.known.sum())
        text += f", _where a random division would leave {percent(chance)} of the values"
        if count.beyond >= _MANY_CELLS:
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
    elsewhere = len(split.test) / max(
        len(split.train) + len(split.test), 1
    )  # the chance that another row is not in training
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


# ---------------------------------------------------------------------------------------------------------------- shift


_FEATURE_SHIFT = 0.25  # difference of a column's distributions, 0 (the same) to 1 (nothing in common), worth a warning
_TARGET_SHIFT = 0.1  # the same for the target
_FALSE_WARNINGS = 0.001  # chance of a false warning, over all columns and splits


def features(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Report columns distributed differently in training and test rows, the time that divides them aside."""
    level = _FALSE_WARNINGS / (len(splits) * len(table.names))
    found: dict[int, dict[int, float]] = {}
    for i, split in enumerate(splits):
        for j, categorical in enumerate(table.is_categorical):
            if table.names[j] == table.clock:
                continue
            size = _difference(table.codes[split.train, j], table.codes[split.test, j], categorical, level)
            if size >= _FEATURE_SHIFT:
                found.setdefault(i, {})[j] = size
    if found:
        worst = max(found, key=lambda i: (len(found[i]), max(found[i].values())))
        names, size = tuple(table.names[j] for j in found[worst]), max(found[worst].values())
        text = f"{_where(splits, list(found), worst)}{len(names)} of {len(table.names)} columns "
        text += f"{verb(len(names), 'is', 'are')} distributed differently in training and test rows "
        text += f"(by up to {size:.2f} of 1): "
        yield Finding("feature-shift", "warning", f"{text}{listing(names)}.", names, splits[worst].id)


def target(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Report a target that is distributed differently in training and test rows."""
    categorical = table.dataset.task == "classification"
    sizes = [
        _difference(table.target[split.train], table.target[split.test], categorical, _FALSE_WARNINGS / len(splits))
        for split in splits
    ]
    found = [i for i, size in enumerate(sizes) if size >= _TARGET_SHIFT]
    if found:
        worst = max(found, key=lambda i: sizes[i])
        what = "classes have other shares" if categorical else "the target is distributed differently"
        text = f"{_where(splits, found, worst)}{what} in training and test rows (by {sizes[worst]:.2f} of 1)."
        yield Finding("target-shift", "warning", text[0].upper() + text[1:], split=splits[worst].id)


def _difference(train: Ints, test: Ints, categorical: bool, level: float) -> float:
    """Measure how much two samples of a column differ, missing values and unseen categories aside; 0 if by chance.

    For categories it is the share of rows to be changed to make them equal, for numbers the largest difference of the
    cumulative shares (Kolmogorov-Smirnov).
    """
    train, test = train[train >= 0], test[test >= 0]
    if categorical:
        test = test[np.isin(test, train)]
    if not len(train) or not len(test):
        return 0.0
    size = int(max(train.max(), test.max())) + 1
    counts = np.stack([np.bincount(train, minlength=size), np.bincount(test, minlength=size)])
    gap = counts[0] / len(train) - counts[1] / len(test)
    if not categorical:
        distance = float(np.abs(np.cumsum(gap)).max())
        chance = kolmogorov(distance * np.sqrt(len(train) * len(test) / (len(train) + len(test))))
        return distance if chance < level else 0.0
    expected = np.outer([len(train), len(test)], counts.sum(axis=0)) / (len(train) + len(test))
    usual = expected.min(axis=0) >= 1  # rarer values say little, and the test does not hold for them
    statistic = ((counts - expected)[:, usual] ** 2 / expected[:, usual]).sum()
    chance = chi2.sf(statistic, max(int(usual.sum()) - 1, 1))
    return float(np.abs(gap[usual]).sum() / 2) if chance < level else 0.0
