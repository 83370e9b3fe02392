"""Trial: one setting of a method on a problem, from proposal to record; and the job that has it fitted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from hopular.trials.budget import DEFAULT_CRITERION, Criterion

State = Literal["running", "complete", "pruned", "failed"]
Failure = Literal["invalid-parameters", "out-of-memory", "time-out", "crash", "error"]


@dataclass(frozen=True)
class Trial:
    """One setting: what is tried, how it did, what it cost, and why it failed if it did.

    The record of a trial is its JSON form, which leaves out predictions and what else belongs to the fitted model.
    """

    slot: int  # its place in the budget, from 0 on
    seed: int
    params: dict[str, Any]  # all that the method's `make` gets: the setting tried, and what the budget adds to it
    state: State = "running"
    score: float | None = None  # on the validation rows by the search's criterion, higher is better
    metrics: dict[str, float] = field(default_factory=dict)
    curve: list[tuple[int, float]] = field(default_factory=list)  # percent of training done, or of its folds, and score
    fit_seconds: float = 0.0  # of a fit that trials share, this one's share; so is `max_seconds`
    predict_seconds: float = 0.0
    row_seconds: float | None = None  # that its model needs for a single row; of a model that is saved
    peak_memory: int = 0  # bytes of the trial's process
    shared_by: int = 1  # trials that were fitted together, this one included: seconds are divided among them
    rounds: int | None = None  # of boosting, up to the best one
    max_seconds: float | None = None  # after which the fit was to end by itself, which may have shortened it
    failure: Failure | None = None
    message: str = ""
    method: str = ""
    predictions: Any = field(
        default=None, compare=False, repr=False
    )  # of the validation rows: probabilities, or numbers
    test_predictions: Any = field(default=None, compare=False, repr=False)  # of the job's test rows
    classes: tuple[str, ...] = field(default=(), compare=False, repr=False)  # of the columns of probabilities
    rows: int = field(default=0, compare=False, repr=False)  # that the model was trained on
    members: tuple[tuple[int, float, int | None], ...] = field(
        default=(), compare=False, repr=False
    )  # of an ensemble: place, weight, rounds
    unsaved: str = field(default="", compare=False, repr=False)  # why the model could not be saved, if it could not

    @property
    def seconds(self) -> float:
        """Return what the trial took, fit and prediction."""
        return self.fit_seconds + self.predict_seconds

    @property
    def rank(self) -> tuple[float, float, int]:
        """Return what trials are sorted by: the score, then the lower loss, then the earlier slot is better."""
        loss = self.metrics.get("log_loss", self.metrics.get("mse", 0.0))
        return float("inf") if self.score is None else -self.score, loss, self.slot

    def to_json(self) -> dict[str, Any]:
        """Return the record of the trial."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.compare}

    @staticmethod
    def from_json(values: dict[str, Any]) -> Trial:
        """Return the trial that a record is of."""
        return Trial(**{**values, "curve": [(int(step), float(score)) for step, score in values["curve"]]})


@dataclass(frozen=True)
class Job:
    """A trial to be fitted on the problem that a worker process holds, and the circumstances of the fit.

    Jobs may be fitted together if their trials differ in parameters that their method `shares`, in seed and in slot
    only.
    """

    trial: Trial
    threads: int = 1
    device: str = "cpu"
    max_seconds: float | None = None  # after which a fit that can end by itself is to do so
    deadline: float | None = None  # of the search, in seconds since 1970: the fit is to end by itself in time for it
    study: str = ""  # of which this is a trial; the process keeps the best model of the last study it worked for
    X_test: Any = None  # rows to predict once the model is chosen; a search never has any
    folder: Path | None = None  # where to save the fitted model
    least_score: float | None = None  # a trial below it is not worth saving
    criterion: Criterion = DEFAULT_CRITERION  # by which it is scored


def trial_seed(seed: int, slot: int) -> int:
    """Return the seed of a search's trial, which only these two decide: done again it is the same trial."""
    digest = hashlib.sha256(f"trial {seed} {slot}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1
