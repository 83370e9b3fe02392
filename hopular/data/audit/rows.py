"""Checks of rows against each other: copies, contradictions and their order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hopular.data.audit.finding import Finding, of, percent, verb
from hopular.data.audit.table import Floats, Ints, Table

ENOUGH_ROWS = 20  # to speak of an order
MANY_COPIES = 0.05  # share of rows
MUCH_CONFLICT = 0.05  # share of rows that nothing can predict right, or of the target's variance
IN_BLOCKS = 0.5  # runs of equal labels, as a share of those expected of shuffled rows; autocorrelation of a number


def duplicates(table: Table) -> Iterator[Finding]:
    """Rows that repeat an earlier one, target included."""
    total = len(table.same)
    copies = int(pd.DataFrame({"row": table.same, "target": table.target}).duplicated().sum())
    if not copies:
        return
    repeats, chance = _repeats(table.same), float(np.mean([_repeats(rows) for rows in table.shuffled]))
    text = f"{of(copies, total, 'rows')} {verb(copies, 'repeats', 'repeat')} an earlier row, target included"
    if beyond_chance(repeats, chance):
        text += f"; by features alone it is {percent(repeats)}, where shuffled columns would make it {percent(chance)}"
        text += ": a case may be entered twice."
        yield Finding("duplicate-rows", "warning" if copies >= MANY_COPIES * total else "note", text)
    else:
        yield Finding("duplicate-rows", "note", f"{text}; so few different values make that likely.")


def _repeats(rows: Ints) -> float:
    """The share of rows that repeat an earlier one."""
    return 1 - (int(rows.max()) + 1) / len(rows)


def beyond_chance(share: float, chance: float) -> bool:
    """Whether a share of repeated rows is clearly more than the values of the columns make likely."""
    return share >= 2 * chance


def conflicts(table: Table) -> Iterator[Finding]:
    """Rows that agree in every feature, but not in the target."""
    frame = pd.DataFrame({"row": table.same, "target": table.target})
    conflicting = int((frame.groupby("row")["target"].transform("nunique") > 1).sum())
    if not conflicting:
        return
    text = f"{of(conflicting, len(frame), 'rows')} have the features of a row with another target"
    if table.dataset.task == "classification":
        lost = 1 - int(frame.value_counts().groupby("row").max().sum()) / len(frame)
        text += f"; no method can be right on more than {percent(1 - lost)} of the rows."
    else:
        y = table.dataset.y.to_numpy(dtype=np.float64)
        spread = y - pd.Series(y).groupby(table.same).transform("mean").to_numpy()
        lost = float(spread @ spread / ((y - y.mean()) @ (y - y.mean())))
        text += f"; {percent(lost)} of the target's variance is between such rows, and no method can explain it."
    yield Finding("conflicting-targets", "warning" if lost >= MUCH_CONFLICT else "note", text)


def order(table: Table) -> Iterator[Finding]:
    """Rows sorted by target, or neighbours alike: dividing them without shuffling, or at random, may mislead.

    Rows that are divided in the order of time are as they should be.
    """
    y = table.target
    if len(y) < ENOUGH_ROWS or table.clock is not None:
        return
    if table.dataset.task == "classification":
        runs = 1 + int((y[1:] != y[:-1]).sum())
        expected = len(y) + 1 - float((np.bincount(y) ** 2).sum()) / len(y)
        if runs < IN_BLOCKS * expected:
            text = (
                f"Neighbours are often of one class: {runs:,} blocks, where shuffled rows make {expected:,.0f}. {_TIME}"
            )
            if runs == y.max() + 1:
                text = "Rows are sorted by class: shuffle them before cutting them into parts."
            yield Finding("sorted-rows", "note", text)
        return
    alike = _autocorrelation(table.dataset.y.to_numpy(dtype=np.float64))
    if alike > IN_BLOCKS:
        text = f"The target of a row is much like that of the row before (autocorrelation {alike:.2f})"
        yield Finding("sorted-rows", "note", f"{text}. {_TIME}")


_TIME = "If the order is that of time, test on later rows: parts drawn at random make the test easier than it will be."


def _autocorrelation(values: Floats) -> float:
    centred = values - values.mean()
    return float(centred[1:] @ centred[:-1] / (centred @ centred))
