"""AdaBoost: number and depth of the trees, and how much each counts."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw more trees for medium datasets."""
    return {
        "n_estimators": trial.suggest_int("n_estimators", 25, 400 if size == "small" else 800, log=True),
        "learning_rate": trial.suggest_float("learning_rate", 0.02, 2.0, log=True),
        "max_depth": trial.suggest_int("max_depth", 1, 6),
    }
