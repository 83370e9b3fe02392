"""Self-normalising networks: layers, width, shape and alpha dropout, 0.1 being added to the published 0 and 0.05."""

from __future__ import annotations

from typing import Any

from optuna import Trial

from search_spaces._networks import suggest_network


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw from the published space and that dropout."""
    return suggest_network(trial, dropout=(0.0, 0.05, 0.1))
