"""Tracker: where a benchmark notes what its units do. `flows.tracking` writes to MLflow, the one here nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from hopular.benchmark.unit import Evaluated, Searched, Trained, Unit
from hopular.evaluation.results import Maker
from hopular.trials.run import SearchResult
from hopular.trials.trial import Trial


class Tracker(Protocol):
    """Methods that the steps of a unit call; `run_id` is what `start` returned, for the later steps in any process."""

    def start(self, unit: Unit, maker: Maker) -> str:
        """Begin the unit's run, or go on with the one that is there, and return its id."""

    def log_trial(self, run_id: str, trial: Trial) -> None:
        """Note a finished trial."""

    def log_search(self, run_id: str, found: SearchResult, chosen_by: str) -> None:
        """Note how a search ended: all of its trials, and the best one."""

    def log_model(self, unit: Unit, run_id: str, folder: Path, outcome: Trial, losses: Sequence[float]) -> str:
        """Keep the first replicate's model, which is in `folder`, and its losses on the validation rows.

        Return the model's id; nothing if it cannot be kept.
        """

    def log_scores(self, unit: Unit, searched: Searched, trained: Trained, evaluated: Evaluated) -> None:
        """Note scores and predictions on the test rows, and finish the unit's run."""

    def fail(self, run_id: str, error: BaseException, is_stopped: bool) -> None:
        """End the unit's run because of an error, or because it was stopped."""


class NullTracker:
    """A tracker that notes nothing."""

    def start(self, unit: Unit, maker: Maker) -> str:
        return ""

    def log_trial(self, run_id: str, trial: Trial) -> None: ...

    def log_search(self, run_id: str, found: SearchResult, chosen_by: str) -> None: ...

    def log_model(self, unit: Unit, run_id: str, folder: Path, outcome: Trial, losses: Sequence[float]) -> str:
        return ""

    def log_scores(self, unit: Unit, searched: Searched, trained: Trained, evaluated: Evaluated) -> None: ...

    def fail(self, run_id: str, error: BaseException, is_stopped: bool) -> None: ...
