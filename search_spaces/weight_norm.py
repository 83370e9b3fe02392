"""Weight-normalised networks: layers, width and shape."""

from __future__ import annotations

from typing import Any

from optuna import Trial

from search_spaces._networks import suggest_network


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw from the published space."""
    return suggest_network(trial)
