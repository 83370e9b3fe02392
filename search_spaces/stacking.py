"""Stacking: the main setting of each of its three base models."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw a setting; the space is the same for small and medium datasets."""
    return {
        "C": trial.suggest_float("C", 1e-3, 1e2, log=True),
        "n_neighbors": trial.suggest_int("n_neighbors", 1, 50, log=True),
        "min_samples_leaf": trial.suggest_int("min_samples_leaf", 1, 20, log=True),
    }
