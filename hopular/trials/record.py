"""Record: all that is kept of a finished trial."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

State = Literal["complete", "pruned", "failed"]
Kind = Literal["invalid-parameters", "out-of-memory", "time-out", "crash", "error"]


@dataclass(frozen=True)
class Record:
    """One finished trial: its setting, how it did, what it cost, and why it failed if it did."""

    slot: int  # its place in the budget, from 0 on
    seed: int
    params: dict[str, Any]  # all that the method's `make` got: the setting tried, and what the budget adds to it
    state: State
    score: float | None = None  # on the validation rows by the search's criterion, higher is better
    metrics: dict[str, float] = field(default_factory=dict)
    curve: list[tuple[int, float]] = field(default_factory=list)  # percent of training done, score
    fit_seconds: float = 0.0  # of a fit that trials share, this one's share; so is `max_seconds`
    predict_seconds: float = 0.0
    peak_memory: int = 0  # bytes of the trial's process
    shared_by: int = 1  # trials that were fitted together, this one included: seconds are divided among them
    rounds: int | None = None  # of boosting, up to the best one
    max_seconds: float | None = None  # after which the fit was to end by itself, which may have shortened it
    kind: Kind | None = None  # of failure
    message: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> Record:
        return Record(**{**values, "curve": [(int(step), float(score)) for step, score in values["curve"]]})


def trial_seed(seed: int, slot: int) -> int:
    """The seed of a search's trial, which only these two decide: done again it is the same trial."""
    digest = hashlib.sha256(f"trial {seed} {slot}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1


def ranked(records: Iterable[Record]) -> list[Record]:
    """Return the complete trials, the best one first."""
    complete = [record for record in records if record.state == "complete" and record.score is not None]
    return sorted(complete, key=lambda record: rank_of(record.score, record.metrics, record.slot))


def best_of(records: Iterable[Record]) -> Record | None:
    """Return the best complete trial."""
    return next(iter(ranked(records)), None)


def rank_of(score: float | None, metrics: Mapping[str, float], slot: int) -> tuple[float, float, int]:
    """Return what trials are sorted by: the score; between equals the lower loss, then the earlier trial is better."""
    loss = metrics.get("log_loss", metrics.get("mse", 0.0))
    return float("inf") if score is None else -score, loss, slot
