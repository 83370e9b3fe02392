"""Bagging: rows and features that each tree gets, as shares."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw shares; the trees are always 200, since more are never worse, only slower."""
    return {
        "max_samples": trial.suggest_float("max_samples", 0.3, 1.0),
        "max_features": trial.suggest_float("max_features", 0.3, 1.0),
    }
