"""Support vector machine: cost and width of the radial kernel."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw a setting; costs that take too long on medium datasets are left out there."""
    return {
        "C": trial.suggest_float("C", 0.03, 1000.0 if size == "small" else 30.0, log=True),
        "gamma": trial.suggest_float("gamma", 1e-4, 1.0, log=True),
    }
