"""Checks of missing values: how many, in which columns and rows, and whether they tell the target."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import chi2_contingency, pearsonr

from hopular.data.audit.finding import Finding, listing, of, percent, verb
from hopular.data.audit.table import Table

MUCH = 0.25  # share of missing cells worth a warning
MOSTLY = 0.5  # share of missing cells that makes a column or row mostly missing
MANY_ROWS = 0.05  # share of rows, mostly missing, worth a warning
DIFFERENT = 0.1  # difference of missing shares, or correlation with the target, worth a note
ENOUGH_ROWS = 10  # of a class, or missing and known, to speak of a share
SURE = 0.001  # chance of a false note, over all columns


def overall(table: Table) -> Iterator[Finding]:
    """How many cells are missing."""
    missing = table.codes < 0
    count, columns = int(missing.sum()), int(missing.any(axis=0).sum())
    if count:
        severe = count / missing.size >= MUCH
        text = f"{of(count, missing.size, 'cells')} {verb(count, 'is', 'are')} missing"
        text += f", in {columns} of {missing.shape[1]} columns."
        yield Finding("missing-values", "warning" if severe else "note", text)


def by_column(table: Table) -> Iterator[Finding]:
    """Columns mostly, but not wholly, missing."""
    share = (table.codes < 0).mean(axis=0)
    worst = [j for j in np.argsort(-share, kind="stable") if MOSTLY <= share[j] < 1]
    if worst:
        names = tuple(table.names[j] for j in sorted(worst))
        text = f"{len(worst)} of {len(share)} columns {verb(len(worst), 'is', 'are')} at least half missing, "
        text += f"most of all '{table.names[worst[0]]}' ({percent(share[worst[0]])}): {listing(names)}."
        yield Finding("mostly-missing-columns", "warning", text, names)


def by_row(table: Table) -> Iterator[Finding]:
    """Rows mostly or wholly missing."""
    share = (table.codes < 0).mean(axis=1)
    count, empty = int((share >= MOSTLY).sum()), int((share == 1).sum())
    if count:
        text = f"{of(count, len(share), 'rows')} {verb(count, 'lacks', 'lack')} at least half of the features"
        text += f", {empty:,} of them all" if empty else ""
        severe = empty or count / len(share) >= MANY_ROWS
        yield Finding("mostly-missing-rows", "warning" if severe else "note", f"{text}.")


def by_target(table: Table) -> Iterator[Finding]:
    """Columns that are missing more often for some classes, or for higher or lower targets."""
    missing = table.codes < 0
    some = [j for j in range(missing.shape[1]) if 0 < missing[:, j].mean() < 1]
    found = [j for j in some if _goes_with_target(table, missing[:, j], SURE / len(some))]
    if not found:
        return
    names = tuple(table.names[j] for j in found)
    what = verb(len(names), "column is missing", "columns are missing")
    if table.dataset.task == "classification":
        text = f"{len(names)} {what} more often in some classes than in others: {listing(names)}"
        counts = np.bincount(table.target)
        shares = np.where(counts >= ENOUGH_ROWS, np.bincount(table.target, missing[:, found[0]]) / counts, np.nan)
        low, high = int(np.nanargmin(shares)), int(np.nanargmax(shares))
        text += f" ('{names[0]}': {percent(shares[low])} in class '{table.dataset.classes[low]}', "
        text += f"{percent(shares[high])} in class '{table.dataset.classes[high]}')"
    else:
        text = f"{len(names)} {what} more often where the target is low, or where it is high: {listing(names)}"
    yield Finding("missing-by-target", "note", f"{text}. What is missing tells of the target.", names)


def _goes_with_target(table: Table, missing: np.ndarray[tuple[int], np.dtype[np.bool_]], level: float) -> bool:
    if table.dataset.task == "classification":
        classes = len(table.dataset.classes)
        counts = np.stack([np.bincount(table.target[rows], minlength=classes) for rows in (missing, ~missing)])
        large = counts[:, counts.sum(axis=0) >= ENOUGH_ROWS]
        if large.shape[1] < 2 or not large.sum(axis=1).all():
            return False
        shares = large[0] / large.sum(axis=0)
        return bool(np.ptp(shares) >= DIFFERENT and chi2_contingency(large).pvalue < level)
    y = table.dataset.y.to_numpy(dtype=np.float64)
    if min(missing.sum(), (~missing).sum()) < ENOUGH_ROWS:
        return False
    correlation = pearsonr(missing, y)
    return bool(abs(correlation.statistic) >= DIFFERENT and correlation.pvalue < level)
