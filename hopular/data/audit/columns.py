"""Checks of single columns: constant ones, running numbers, and those that repeat another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hopular.data.audit.finding import Finding, Severity, listing
from hopular.data.audit.table import Floats, Table

ENOUGH_ROWS = 20  # below, a column with all values different means nothing
NEARLY_ALL = 0.95  # share of different values that makes categories look like names of rows


def constant(table: Table) -> Iterator[Finding]:
    """Columns with no value, one value, or one value and missing ones."""
    known = (table.codes >= 0).sum(axis=0)
    one = table.distinct == 1
    yield from _useless("all-missing-columns", "warning", known == 0, "no value at all and can be left out", table)
    everywhere = one & (known == len(table.codes))
    yield from _useless("constant-columns", "warning", everywhere, "one value only and can be left out", table)
    what = "one value beside missing ones: all there is to learn from is what is missing"
    yield from _useless("constant-or-missing-columns", "note", one & ~everywhere, what, table)


def _useless(
    check: str, severity: Severity, found: npt.NDArray[np.bool_], what: str, table: Table
) -> Iterator[Finding]:
    names = [name for name, is_one in zip(table.names, found, strict=True) if is_one]
    if names:
        who = f"{len(names)} columns ({listing(names)}) have" if len(names) > 1 else f"Column '{names[0]}' has"
        yield Finding(check, severity, f"{who} {what}.", tuple(names))


def id_like(table: Table) -> Iterator[Finding]:
    """Columns that name or number the rows: nothing can be learned from them, or only the order of the rows.

    The time by which rows are divided may well rise with them.
    """
    for j, name in enumerate(table.names):
        codes = table.codes[:, j]
        known = int((codes >= 0).sum())
        if known < ENOUGH_ROWS or name == table.clock:
            continue
        if table.is_categorical[j]:
            if table.distinct[j] >= NEARLY_ALL * known:
                text = f"has {table.distinct[j]:,} different values in {known:,} rows"
                yield _id_like(name, f"{text}: it names the rows rather than describing them")
        elif table.distinct[j] == len(codes):
            how = _running(table.dataset.X.iloc[:, j].to_numpy(dtype=np.float64))
            if how:
                yield _id_like(name, f"{how}: it numbers the rows rather than describing them")


def _id_like(name: str, text: str) -> Finding:
    return Finding("id-like-columns", "warning", f"Column '{name}' {text}.", (name,))


def _running(values: Floats) -> str:
    """How a column without repeated or missing values counts the rows, if it does."""
    whole = bool((values == np.round(values)).all())
    steps = np.diff(values)
    if whole and values.max() - values.min() == len(values) - 1:
        return f"has every whole number from {values.min():.0f} to {values.max():.0f} once"
    if (steps > 0).all() or (steps < 0).all():
        moves = "rises" if steps[0] > 0 else "falls"
        if whole:
            return f"has whole numbers and {moves} from row to row without exception"
        if np.ptp(steps) < 1e-6 * abs(steps[0]):
            return f"{moves} by the same step from row to row"
    return ""


def redundant(table: Table) -> Iterator[Finding]:
    """Columns that say the same as another one."""
    for columns in table.redundant:
        names = tuple(table.names[j] for j in columns)
        text = f"Columns {listing(names)} say the same: each value of one goes with one value of the other"
        yield Finding("redundant-columns", "note", f"{text}.", names)
