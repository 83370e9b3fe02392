"""Candidate: one method in the race, with what it has tried so far and the models of its best settings on disk.

Every finished trial is a file, so a race that was interrupted goes on with them. Settings are proposed again in the
same order, which tells Optuna what is known by now.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from optuna.trial import create_trial

from hopular.automl.portfolio import cost_of
from hopular.methods import get_method
from hopular.methods.saved import CLASS_FILE
from hopular.search.job import Outcome
from hopular.search.problem import Problem
from hopular.search.record import Record, best_of
from hopular.search.space import Proposal, Proposer
from hopular.search.storage import STATES

KEPT = 3  # models of each method that are kept for the ensemble
HOPELESS = 2  # failures without a success before a method is given up
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Setting:
    """What to try next; `proposal` is None for the method's own defaults, which come first."""

    slot: int
    seed: int
    params: dict[str, Any]
    proposal: Proposal | None


class Candidate:
    """A method's trials on one problem, kept in `folder`: a record, a model and predictions each."""

    def __init__(self, method: str, problem: Problem, seed: int, folder: Path) -> None:
        self.method, self.folder, self._seed = get_method(method), folder, seed
        self.cost = cost_of(self.method)
        self.records: list[Record] = []
        self.seconds = 0.0  # spent on it, in this race and those it goes on with
        self.is_running = False
        self._proposer = Proposer(method, problem.size, seed)
        self._resume()

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def best(self) -> Record | None:
        return best_of(self.records)

    @property
    def family(self) -> str:
        """Methods of one family share their processes: they use the same libraries, which take seconds to import."""
        return self.name if self.method.group == "boosting" else {"floor": "classical"}.get(self.method.group, "deep")\
            if self.method.group not in ("classical",) else "classical"

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to try, or no hope."""
        if self.best is None and len(self.records) >= HOPELESS:
            return True
        grid = self._proposer.grid
        return self.method.group == "floor" and bool(self.records) or (grid is not None and len(self.records) > len(grid))
