"""Out-of-fold predictions that cope with rare classes, for calibration and stacking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hopular.methods.prepared import fit_estimator

Array = np.ndarray[Any, Any]


def assign_folds(labels: Array, n_folds: int, seed: int) -> Array:
    """The fold of each row: every label is dealt out evenly, and one that occurs once is simply in one fold."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    folds = np.empty(len(labels), dtype=int)
    folds[order] = np.arange(len(labels)) % min(n_folds, len(labels))
    return folds


def out_of_fold(
    estimator: Any, X: Array, y: Array, folds: Array, predict: Callable[[Any, Array], Array]
) -> Iterator[tuple[Array, Any, Array]]:
    """For each fold its rows, the estimator fitted to the others, and what that predicts for these rows."""
    for fold in np.unique(folds):
        held_out = folds == fold
        model = fit_estimator(estimator, X[~held_out], y[~held_out])
        yield np.flatnonzero(held_out), model, predict(model, X[held_out])


def all_classes(values: Array, known: Array, n_classes: int, absent: float) -> Array:
    """Columns of the known classes among those of all, the others filled with `absent`."""
    full = np.full((len(values), n_classes), absent)
    full[:, known] = values
    return full
