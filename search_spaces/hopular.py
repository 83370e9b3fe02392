"""Hopular's grid (Table "Complete listing of all evaluated hyperparameter settings for Hopular", appendix)."""

from __future__ import annotations

from itertools import product
from typing import Any

BLOCKS = (4, 8)
NETWORKS = (8, 16)
BETA = (1.0, 100.0, 1000.0)
GAMMA = (1.0, 0.5)  # start value; the second for medium-sized datasets alone
UNREGULARISED = {
    "n_blocks": 8,
    "n_networks": 16,
    "beta": 1.0,
    "mask_probability": 0.0,
    "replace_probability": 0.0,
    "weight_decay": 0.0,
    "dropout_embedding": 0.0,
    "dropout_block": 0.0,
    "dropout_summary": 0.0,
}


def grid(size: str) -> list[dict[str, Any]]:
    """12 settings for small datasets; for medium ones each with both start values of gamma, and the unregularised."""
    gammas = GAMMA if size == "medium" else GAMMA[:1]
    settings: list[dict[str, Any]] = [
        {"n_blocks": blocks, "n_networks": networks, "beta": beta, "gamma": gamma}
        for gamma, blocks, networks, beta in product(gammas, BLOCKS, NETWORKS, BETA)
    ]
    if size == "medium":
        settings += [{**UNREGULARISED, "gamma": gamma} for gamma in gammas]
    return settings
