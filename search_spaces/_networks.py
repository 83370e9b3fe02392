"""The space of the networks of Klambauer et al. 2017: layers, width, shape and dropout.

Their learning rates (0.01, 0.1, 1) are for SGD. Those for AdamW and its weight decay are in the range of Gorishniy et
al. 2021. The space is the same for small and medium datasets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna import Trial

LAYERS = (2, 3, 4, 8, 16, 32)
WIDTHS = (256, 512, 1024)


def suggest_network(
    trial: Trial,
    *,
    layers: Sequence[int] = LAYERS,
    shapes: Sequence[str] = ("rectangular", "conic"),
    dropout: Sequence[float] = (),
) -> dict[str, Any]:
    """Draw a network; without shapes or dropouts to choose from it has neither parameter."""
    settings: dict[str, Any] = {
        "n_layers": trial.suggest_categorical("n_layers", layers),
        "width": trial.suggest_categorical("width", WIDTHS),
    }
    if shapes:
        settings["shape"] = trial.suggest_categorical("shape", shapes)
    if dropout:
        settings["dropout"] = trial.suggest_categorical("dropout", dropout)
    settings["learning_rate"] = trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True)
    settings["weight_decay"] = trial.suggest_float("weight_decay", 1e-6, 1e-1, log=True)
    return settings
