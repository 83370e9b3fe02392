"""Highway networks: layers and dropout after Klambauer et al. 2017; widths as for their others.

Their learning rates (0.01, 0.1, 1) are for SGD. Those for AdamW and its weight decay are in the range of Gorishniy et
al. 2021, as for self-normalising networks.
"""

from __future__ import annotations

from typing import Any

LAYERS = (2, 3, 4, 8, 16, 32)
WIDTHS = (256, 512, 1024)
DROPOUT = (0.0, 0.5)


def suggest(trial: Any, size: str) -> dict[str, Any]:
    """The same space for small and medium-sized datasets."""
    return {
        "n_layers": trial.suggest_categorical("n_layers", LAYERS),
        "width": trial.suggest_categorical("width", WIDTHS),
        "dropout": trial.suggest_categorical("dropout", DROPOUT),
        "learning_rate": trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
        "weight_decay": trial.suggest_float("weight_decay", 1e-6, 1e-1, log=True),
    }
