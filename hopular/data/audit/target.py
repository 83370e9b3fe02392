"""Checks of the classes of a target: how unequal and how small they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hopular.data.audit.finding import Finding, percent, shortened, verb
from hopular.data.audit.table import Table

DOMINANT = 0.9  # share of rows of the largest class worth a warning
UNEQUAL = 10  # times as many rows in the largest class as in the smallest
SMALL = 10  # rows of a class too few to say how well it is predicted


def imbalance(table: Table) -> Iterator[Finding]:
    """One class with nearly all rows, or many times the rows of another."""
    if table.dataset.task != "classification":
        return
    counts, classes = np.bincount(table.target), table.dataset.classes
    most, least = int(counts.argmax()), int(counts.argmin())
    text = f"Class '{classes[most]}' has {percent(counts[most] / counts.sum())} of the rows"
    if counts[most] >= DOMINANT * counts.sum():
        text += ", so always saying so is right as often: do not judge by accuracy alone"
        yield Finding("imbalance", "warning", f"{text}.")
    elif counts[most] >= UNEQUAL * counts[least]:
        text += f", {counts[most] / counts[least]:.0f} times as many as class '{classes[least]}'"
        yield Finding("imbalance", "note", f"{text}.")


def small_classes(table: Table) -> Iterator[Finding]:
    """Classes of a few rows."""
    if table.dataset.task != "classification":
        return
    counts = np.bincount(table.target)
    small = [c for c in np.argsort(counts, kind="stable") if counts[c] < SMALL]
    if small:
        what = shortened([f"'{table.dataset.classes[c]}' ({counts[c]})" for c in small])
        text = (
            f"{len(small)} of {len(counts)} classes {verb(len(small), 'has', 'have')} fewer than {SMALL} rows: {what}"
        )
        yield Finding("small-classes", "warning", f"{text}. How well such classes are predicted is largely chance.")
