"""Multilayer perceptrons: a space of our own, after that of Gorishniy et al. 2021 (Table of MLP hyperparameters)."""

from __future__ import annotations

from typing import Any

from optuna import Trial


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw up to four layers for small datasets, up to eight for medium ones."""
    return {
        "n_layers": trial.suggest_int("n_layers", 1, 4 if size == "small" else 8),
        "width": trial.suggest_int("width", 32, 512, log=True),
        "norm": trial.suggest_categorical("norm", ("batch", "layer", "none")),
        "dropout": trial.suggest_float("dropout", 0.0, 0.5),
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
        "weight_decay": trial.suggest_float("weight_decay", 1e-6, 1e-1, log=True),
    }
