"""Divide the rows of a table: those that each member trains on, and those that decide when it stops."""

from __future__ import annotations

from typing import Any

import numpy as np

Places = np.ndarray[Any, np.dtype[np.int64]]


def _shuffled_classes(n: int, classes: np.ndarray[Any, Any] | None, seed: int) -> list[Places]:
    """Return the places of the rows of each class, or of all rows, in random order."""
    random = np.random.default_rng(seed)
    groups = [np.arange(n)] if classes is None else [np.flatnonzero(classes == c) for c in np.unique(classes)]
    return [random.permutation(group) for group in groups]


def hold_out(n: int, fraction: float, classes: np.ndarray[Any, Any] | None, seed: int) -> tuple[Places, Places]:
    """Return sorted places of training and held-out rows, stratified by class; every class keeps a training row."""
    groups = _shuffled_classes(n, classes, seed)
    held_out = [group[: min(round(fraction * len(group)), len(group) - 1)] for group in groups]
    chosen = np.sort(np.concatenate(held_out)).astype(np.int64)
    return np.setdiff1d(np.arange(n), chosen), chosen


def assign_folds(n: int, n_folds: int, classes: np.ndarray[Any, Any] | None, seed: int) -> Places:
    """Return the fold of every row: folds differ by one row at most, and each class is spread over them as evenly."""
    folds = np.empty(n, dtype=np.int64)
    folds[np.concatenate(_shuffled_classes(n, classes, seed))] = np.arange(n) % n_folds
    return folds
