"""Candidate: one method in the race, with what it has tried so far and the models of its best settings on disk.

Every finished trial is a file, so a race that was interrupted goes on with them. Settings are proposed again in the
same order, which tells Optuna what is known by now.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hopular.methods import get_method
from hopular.methods.saved import CLASS_FILE
from hopular.trials.budget import Budget
from hopular.trials.problem import Problem
from hopular.trials.select import best_of, ranked
from hopular.trials.space import Proposal, Proposer
from hopular.trials.study import as_trial
from hopular.trials.trial import Trial, trial_seed

KEPT = 3  # models of each method that are kept for the ensemble
HOPELESS = 2  # failures without a success before a method is given up
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Setting:
    """What to try next; `proposal` is None for the method's own defaults, which come first."""

    trial: Trial
    proposal: Proposal | None


class Candidate:
    """A method's trials on one problem, kept in `folder`: a record, a model and predictions of each."""

    def __init__(self, method: str, problem: Problem, seed: int, folder: Path) -> None:
        self.method, self.folder, self._seed = get_method(method), folder, seed
        self.cost = self.method.cost
        self.records: list[Trial] = []
        self.seconds = 0.0  # spent on it, also in an earlier race that this one goes on with
        self.is_running = False
        self._proposer = Proposer(method, problem.size, seed)
        grid = self._proposer.grid
        self._places = None if grid is None else [place for place, params in enumerate(grid) if params]
        folder.mkdir(parents=True, exist_ok=True)
        self._resume()

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def best(self) -> Trial | None:
        return best_of(self.records)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to try, or no hope."""
        if self.best is None and len(self.records) >= HOPELESS:
            return True
        return self._places is not None and len(self.records) > len(self._places)

    @property
    def kept(self) -> list[Trial]:
        """The best trials, whose models are on disk; the best one first."""
        return [record for record in ranked(self.records)[:KEPT] if (self.model(record) / CLASS_FILE).is_file()]

    def model(self, record: Trial) -> Path:
        """The folder of a trial's model."""
        return self.folder / str(record.slot)

    def test_predictions(self, record: Trial) -> Array:
        """The answer of a trial's model for the test rows, which nothing but its test score is made of."""
        return np.asarray(np.load(self.folder / f"{record.slot}-test.npy", allow_pickle=False), dtype=np.float64)

    def next_setting(self) -> Setting:
        """The defaults of the method, then what its search space proposes."""
        slot, proposal = len(self.records), None
        if slot > 0:
            proposal = self._proposer.propose(slot - 1 if self._places is None else self._places[slot - 1])
        params = Budget().settings_of(self.method, proposal.settings if proposal else {})
        return Setting(Trial(slot, trial_seed(self._seed, slot), params, method=self.name), proposal)

    def add(self, setting: Setting, record: Trial) -> Trial:
        """Keep a finished trial; the record comes last, so what has one is whole."""
        if record.state == "complete":
            np.save(self.folder / f"{record.slot}-test.npy", record.test_predictions)
            np.save(self.folder / f"{record.slot}.npy", record.predictions)
        part = self.folder / "record.part"
        part.write_text(json.dumps(record.to_json()), encoding="utf-8")
        os.replace(part, self.folder / f"{record.slot}.json")
        self._learn(setting, record)
        self._forget_others()
        return record

    def _resume(self) -> None:
        while (file := self.folder / f"{len(self.records)}.json").is_file():
            self._learn(self.next_setting(), Trial.from_json(json.loads(file.read_text(encoding="utf-8"))))

    def _learn(self, setting: Setting, record: Trial) -> None:
        self.records.append(record)
        self.seconds += record.fit_seconds + record.predict_seconds
        if setting.proposal is None:
            return
        self._proposer.forget(setting.proposal)
        trial = as_trial(record, setting.proposal.params, setting.proposal.distributions)
        self._proposer.learn({record.slot: trial})

    def _forget_others(self) -> None:
        """Delete models and validation predictions of all but the best trials."""
        for record in set(range(len(self.records))) - {record.slot for record in ranked(self.records)[:KEPT]}:
            shutil.rmtree(self.folder / str(record), ignore_errors=True)
            (self.folder / f"{record}.npy").unlink(missing_ok=True)
