"""Logistic regression: inverse strength of the ridge penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """From almost constant to almost unpenalised."""
    return {
        "C": trial.suggest_float("C", 1e-4, 1e3, log=True),
    }
