"""Decision tree: depth, rows a leaf needs, and pruning."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw deeper trees for medium datasets."""
    return {
        "max_depth": trial.suggest_int("max_depth", 2, 12 if size == "small" else 24),
        "min_samples_leaf": trial.suggest_int("min_samples_leaf", 1, 50, log=True),
        "ccp_alpha": trial.suggest_float("ccp_alpha", 1e-6, 1e-1, log=True),
    }
