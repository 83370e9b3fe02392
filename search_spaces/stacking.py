"""Stacking: the main setting of each of its three base models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """The same for all sizes."""
    return {
        "C": trial.suggest_float("C", 1e-3, 1e2, log=True),
        "n_neighbors": trial.suggest_int("n_neighbors", 1, 50, log=True),
        "min_samples_leaf": trial.suggest_int("min_samples_leaf", 1, 20, log=True),
    }
