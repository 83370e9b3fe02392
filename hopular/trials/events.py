"""Events: what a benchmark or a fit tells whoever watches it, such as the display of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hopular.trials.trial import Trial

Stage = Literal["planned", "note", "audit", "search", "start", "trial", "train", "evaluate", "refit", "choose", "write"]
End = Literal["done", "reused", "failed"]


@dataclass(frozen=True)
class Event:
    """Something happened to one method on one split; for the first three and "write", to the run as a whole.

    A benchmark plans units, a fit plans methods. A note of a method says why it is computed again. "start" and "trial"
    are the beginning and the end of a trial, "audit" is the end of the audit, "done" that of a unit.
    """

    stage: Stage | End
    dataset: str = ""
    split: str = ""
    method: str = ""
    trial: int = 0  # finished so far; for "planned" those of an interrupted fit that this one goes on with
    trials: int = 0  # in the budget; for "planned" the number of units or methods
    best: float | None = None  # validation score so far, higher is better; for "done" the primary test metric
    message: str = ""  # for "trial" and "done" the metric that `best` is in
    result: Trial | None = None  # of a fit: the trial that has ended
