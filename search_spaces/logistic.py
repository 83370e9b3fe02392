"""Logistic regression: inverse strength of the ridge penalty."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw from almost constant to almost unpenalised."""
    return {
        "C": trial.suggest_float("C", 1e-4, 1e3, log=True),
    }
