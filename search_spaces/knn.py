"""Nearest neighbours: how many, how they count, and the distance (1 is Manhattan, 2 Euclidean)."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw more neighbours for medium datasets."""
    return {
        "n_neighbors": trial.suggest_int("n_neighbors", 1, 50 if size == "small" else 200, log=True),
        "weights": trial.suggest_categorical("weights", ["uniform", "distance"]),
        "p": trial.suggest_categorical("p", [1, 2]),
    }
