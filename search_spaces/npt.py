"""NPT's grid (Table "Complete listing of all evaluated hyperparameter settings for NPTs", appendix).

The learning rate of 0.001 and the dropout of 0.1, the same for all, belong to the "paper" recipe and the estimator. The
paper took "exactly the same hyperparameter settings" that Kossen et al. used. What its table calls "cosine" is
"flat-and-anneal" there: constant for half of training, then annealed along a cosine.
"""

from __future__ import annotations

from typing import Any

BASE = {
    "n_layers": 8,
    "n_heads": 8,
    "label_mask_probability": 1.0,
    "feature_mask_probability": 0.15,
    "schedule": "flat-and-anneal",
}
CHANGES: tuple[dict[str, Any], ...] = (  # one row of the table each
    {},
    {"n_layers": 16},
    {"n_heads": 16},
    {"n_layers": 16, "n_heads": 16},
    {"label_mask_probability": 0.1},
    {"label_mask_probability": 0.5},
    {"feature_mask_probability": 0.2},
    {"schedule": "cosine-cyclic"},
)
EMBEDDING = (32, 128)  # the second for small datasets alone


def grid(size: str) -> list[dict[str, Any]]:
    """Return 8 settings for medium datasets; for small ones each with both embedding dimensions."""
    dimensions = EMBEDDING if size == "small" else EMBEDDING[:1]
    return [{**BASE, **change, "embedding_dim": e} for e in dimensions for change in CHANGES]
