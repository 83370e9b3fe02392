"""RealMLP: learning rate, dropout, weight decay and spread of the numerical embeddings, around its tuned defaults."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw a setting; the space is the same for small and medium datasets."""
    return {
        "lr": trial.suggest_float("lr", 0.01, 0.3, log=True),
        "p_drop": trial.suggest_categorical("p_drop", [0.0, 0.15, 0.3]),
        "wd": trial.suggest_categorical("wd", [0.0, 0.02]),
        "plr_sigma": trial.suggest_float("plr_sigma", 0.03, 1.0, log=True),
    }
