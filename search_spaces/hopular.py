"""Hopular's grids: the published one (Table "Complete listing of all evaluated hyperparameter settings for Hopular",
appendix) for the architectures `paper` and `released`, and one of the same axes for the default architecture.

The latter doubles the default's own sizes as the published grid doubles its smallest ones. So the networks have the
same dimensions in both, e / M = 4 and 2. Its betas are lower: on tables that defaults are chosen on 1,000 was never
the best (docs/search.md).
"""

from __future__ import annotations

from itertools import product
from typing import Any

BLOCKS = (4, 8)
NETWORKS = {"default": (2, 4), "paper": (8, 16), "released": (8, 16)}
BETA = {"default": (1.0, 10.0, 100.0), "paper": (1.0, 100.0, 1000.0), "released": (1.0, 100.0, 1000.0)}
GAMMA = (1.0, 0.5)  # start value; the second for medium-sized datasets alone
UNREGULARISED = {
    "mask_probability": 0.0,
    "replace_probability": 0.0,
    "weight_decay": 0.0,
    "dropout_embedding": 0.0,
    "dropout_block": 0.0,
    "dropout_summary": 0.0,
}


def grid(size: str, architecture: str = "default") -> list[dict[str, Any]]:
    """Return 12 settings for small datasets; for medium ones each with both gammas, and unregularised ones."""
    networks, betas = NETWORKS[architecture], BETA[architecture]
    gammas = GAMMA if size == "medium" else GAMMA[:1]
    settings: list[dict[str, Any]] = [
        {"n_blocks": n_blocks, "n_networks": n_networks, "beta": beta, "gamma": gamma}
        for gamma, n_blocks, n_networks, beta in product(gammas, BLOCKS, networks, betas)
    ]
    if size == "medium":
        largest = {"n_blocks": BLOCKS[-1], "n_networks": networks[-1], "beta": betas[0], **UNREGULARISED}
        settings += [{**largest, "gamma": gamma} for gamma in gammas]
    return settings
