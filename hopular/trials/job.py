"""What a search and its worker processes tell one another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hopular.methods import Run
from hopular.trials.criterion import DEFAULT, Criterion
from hopular.trials.record import Kind, Record, State


@dataclass(frozen=True)
class Job:
    """One setting to fit on the problem that the process holds.

    Jobs may be fitted together if they differ in parameters that their method `shares`, in seed and in slot only.
    """

    method: str
    params: dict[str, Any]
    run: Run
    deadline: float | None = None  # of the search, in seconds since 1970: the fit is to end by itself in time for it
    study: str = ""  # of which this is a trial; the process keeps the best model of the last study it worked for
    slot: int = 0
    X_test: Any = None  # rows to predict once the model is chosen; a search never has any
    folder: Path | None = None  # where to save the fitted model
    criterion: Criterion = DEFAULT  # by which it is scored


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with results, stopped by the pruner, or failed with a kind."""

    state: State
    metrics: dict[str, float] = field(default_factory=dict)
    score: float | None = None  # on the validation rows by the job's criterion, higher is better
    predictions: Any = None  # of the validation rows: probabilities, or numbers
    test_predictions: Any = None  # of the job's test rows
    classes: list[str] = field(default_factory=list)  # of the columns of probabilities
    unsaved: str = ""  # why the model could not be saved, if it could not
    fit_seconds: float = 0.0  # of a shared fit this one's share, as `max_seconds`
    predict_seconds: float = 0.0
    peak_memory: int = 0
    shared_by: int = 1
    rounds: int | None = None
    rows: int = 0  # that the model was trained on
    members: list[tuple[int, float, int | None]] = field(default_factory=list)  # of an ensemble: place, weight, rounds
    max_seconds: float | None = None  # after which the fit was to end by itself
    kind: Kind | None = None
    message: str = ""

    def as_record(
        self, slot: int, seed: int, params: dict[str, Any], curve: Iterable[tuple[int, float]] = ()
    ) -> Record:
        """What is kept of it as a trial of a search."""
        return Record(
            slot=slot,
            seed=seed,
            params=params,
            state=self.state,
            score=self.score,
            metrics=self.metrics,
            curve=sorted(dict(curve).items()),
            fit_seconds=self.fit_seconds,
            predict_seconds=self.predict_seconds,
            peak_memory=self.peak_memory,
            shared_by=self.shared_by,
            rounds=self.rounds,
            max_seconds=self.max_seconds,
            kind=self.kind,
            message=self.message or self.unsaved,
        )
