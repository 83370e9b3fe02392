"""Extra-trees: features a split looks at, and rows a split needs."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw a setting; the trees are always 500, since more are never worse, only slower."""
    return {
        "max_features": trial.suggest_categorical("max_features", ["sqrt", "log2", 0.3, 0.6, 1.0]),
        "min_samples_split": trial.suggest_int("min_samples_split", 2, 40, log=True),
    }
