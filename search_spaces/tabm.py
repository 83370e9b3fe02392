"""TabM: learning rate, dropout, weight decay, and width and number of the blocks, around its defaults."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw a setting; the space is the same for small and medium datasets."""
    return {
        "lr": trial.suggest_float("lr", 1e-4, 3e-3, log=True),
        "dropout": trial.suggest_float("dropout", 0.0, 0.5),
        "weight_decay": trial.suggest_float("weight_decay", 1e-4, 1e-1, log=True),
        "d_block": trial.suggest_int("d_block", 128, 512, step=128),
        "n_blocks": trial.suggest_int("n_blocks", 1, 4),
    }
