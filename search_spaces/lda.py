"""Linear discriminant analysis: how far the covariance is shrunk to a multiple of the identity."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw from almost nothing to all the way."""
    return {
        "shrinkage": trial.suggest_float("shrinkage", 1e-4, 1.0, log=True),
    }
