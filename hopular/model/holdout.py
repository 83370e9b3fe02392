"""The inner hold-out of `fit`: which rows decide when to stop."""

from __future__ import annotations

from typing import Any

import numpy as np


def holdout(
    n: int, fraction: float, classes: np.ndarray[Any, Any] | None, seed: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Sorted positions of the training and the held-out rows, stratified by class; every class keeps a training row."""
    random = np.random.default_rng(seed)
    groups = [np.arange(n)] if classes is None else [np.flatnonzero(classes == c) for c in np.unique(classes)]
    held_out = []
    for group in groups:
        size = min(round(fraction * len(group)), len(group) - 1)
        held_out.append(random.permutation(group)[:size])
    chosen = np.sort(np.concatenate(held_out)).astype(int)
    return np.setdiff1d(np.arange(n), chosen), chosen
