"""Generalised linear model: strength of the penalty per row, and the share of the lasso in it."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw from ridge to lasso."""
    return {
        "alpha": trial.suggest_float("alpha", 1e-4, 1.0, log=True),
        "l1_ratio": trial.suggest_float("l1_ratio", 0.0, 1.0),
    }
