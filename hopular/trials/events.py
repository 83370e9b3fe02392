"""Events: what a benchmark or a fit tells whoever watches it, such as the display of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal["planned", "note", "search", "trial", "train", "evaluate", "refit", "done", "reused", "failed"]


@dataclass(frozen=True)
class Event:
    """Something happened to one method on one split; for "planned" and "note", to the benchmark as a whole.

    A note of a method says why it is computed again.
    """

    stage: Stage
    dataset: str = ""
    split: str = ""
    method: str = ""
    trial: int = 0  # finished so far
    trials: int = 0  # in the budget; for "planned" the number of units
    best: float | None = None  # validation score so far, higher is better; for "done" the primary test metric
    message: str = ""  # for "trial" and "done" the metric that `best` is in
