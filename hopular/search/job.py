"""What a search and its worker processes tell one another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hopular.methods import Run
from hopular.search.record import Kind, State


@dataclass(frozen=True)
class Job:
    """One fit on the problem that the process holds."""

    method: str
    params: dict[str, Any]
    run: Run
    max_epochs: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with results, stopped by the pruner, or failed with a kind."""

    state: State
    metrics: dict[str, float] = field(default_factory=dict)
    score: float | None = None
    predictions: Any = None  # of the validation rows: probabilities, or numbers
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    peak_memory: int = 0
    rounds: int | None = None
    kind: Kind | None = None
    message: str = ""
