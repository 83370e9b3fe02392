"""Shift: training and test parts that do not look like samples of the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import kolmogorov
from scipy.stats import chi2

from hopular.data.audit.finding import Finding, listing, verb
from hopular.data.audit.parts import where
from hopular.data.audit.table import Ints, Table
from hopular.data.splits import Split

LARGE = 0.25  # difference of the distributions of a column, 0 (the same) to 1 (nothing in common), worth a warning
LARGE_TARGET = 0.1  # the same for the target
SURE = 0.001  # chance of a false warning, over all columns and splits


def features(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Columns distributed differently in training and test rows, but for the time that divides them."""
    level = SURE / (len(splits) * len(table.names))
    found: dict[int, dict[int, float]] = {}
    for i, split in enumerate(splits):
        for j, categorical in enumerate(table.is_categorical):
            if table.names[j] == table.clock:
                continue
            size = _difference(table.codes[split.train, j], table.codes[split.test, j], categorical, level)
            if size >= LARGE:
                found.setdefault(i, {})[j] = size
    if found:
        worst = max(found, key=lambda i: (len(found[i]), max(found[i].values())))
        names, size = tuple(table.names[j] for j in found[worst]), max(found[worst].values())
        text = f"{where(splits, list(found), worst)}{len(names)} of {len(table.names)} columns "
        text += f"{verb(len(names), 'is', 'are')} distributed differently in training and test rows "
        text += f"(by up to {size:.2f} of 1): "
        yield Finding("feature-shift", "warning", f"{text}{listing(names)}.", names, splits[worst].id)


def target(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """A target that is distributed differently in training and test rows."""
    categorical = table.dataset.task == "classification"
    sizes = [
        _difference(table.target[split.train], table.target[split.test], categorical, SURE / len(splits))
        for split in splits
    ]
    found = [i for i, size in enumerate(sizes) if size >= LARGE_TARGET]
    if found:
        worst = max(found, key=lambda i: sizes[i])
        what = "classes have other shares" if categorical else "the target is distributed differently"
        text = f"{where(splits, found, worst)}{what} in training and test rows (by {sizes[worst]:.2f} of 1)."
        yield Finding("target-shift", "warning", text[0].upper() + text[1:], split=splits[worst].id)


def _difference(train: Ints, test: Ints, categorical: bool, level: float) -> float:
    """How much two samples of a column differ, or 0 if that may be chance; missing values and unseen categories aside.

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
