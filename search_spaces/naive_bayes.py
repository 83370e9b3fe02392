"""Naive Bayes: what is added to every variance, as a share of the largest."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw from almost nothing to almost the same variance everywhere."""
    return {
        "var_smoothing": trial.suggest_float("var_smoothing", 1e-6, 1.0, log=True),
    }
