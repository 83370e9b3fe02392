"""The choice: the best single model, or the ensemble of everything tried if it does better on the validation rows."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hopular.automl.candidate import Array, Candidate
from hopular.evaluation.metrics import evaluate
from hopular.methods.ensemble import write_ensemble
from hopular.trials.budget import DEFAULT_CRITERION, score_of
from hopular.trials.problem import Problem
from hopular.trials.select import combine
from hopular.trials.trial import Trial

METRICS = {"classification": ("accuracy", "log_loss"), "regression": ("mse", "mae")}


@dataclass(frozen=True)
class Member:
    """A trained model and its share in the answer."""

    candidate: Candidate
    record: Trial
    weight: float
    folder: Path  # of the saved model
    rows: int  # that it was trained on
    is_refit: bool = False  # whether on all rows it can use


@dataclass(frozen=True)
class Choice:
    """A model that could be the final one: a single member, or several as an ensemble, the weightiest first."""

    method: str
    members: tuple[Member, ...]
    metrics: Mapping[str, float]  # on the validation rows

    @property
    def loss(self) -> float:
        """Return the loss that decides: the lower, the better."""
        return -score_of(DEFAULT_CRITERION, self.metrics)

    def test_predictions(self) -> Array:
        """The answer for the test rows, from what the members said when they were trained."""
        return _mean([(m.weight, m.candidate.test_predictions(m.record)) for m in self.members])


def rank_choices(candidates: Sequence[Candidate], problem: Problem) -> list[Choice]:
    """The best model of each method and their ensemble, the best on the validation rows first."""
    singles = [
        Choice(one.name, (_member(one, one.kept[0], 1.0, problem),), one.kept[0].metrics)
        for one in candidates
        if one.kept
    ]
    ensemble = make_ensemble(candidates, problem)
    return sorted([*singles, *([ensemble] if ensemble else [])], key=lambda choice: choice.loss)


def make_ensemble(candidates: Sequence[Candidate], problem: Problem) -> Choice | None:
    """The kept models of all methods with the weights that are best on the validation rows; None if one model is."""
    found = [(one, record) for one in candidates for record in one.kept]
    if len(found) < 2:
        return None
    answers = [np.load(one.folder / f"{record.slot}.npy", allow_pickle=False) for one, record in found]
    chosen = combine(problem, answers)
    if len(chosen) < 2:
        return None
    members = tuple(_member(*found[place], share, problem) for place, share in chosen)
    mean = _mean([(share, answers[place]) for place, share in chosen])
    names = METRICS[problem.task]
    metrics = evaluate(problem.task, problem.y_valid.to_numpy(), mean, problem.classes or None, metrics=names)
    return Choice("ensemble", members, metrics)


def _member(candidate: Candidate, record: Trial, weight: float, problem: Problem) -> Member:
    return Member(candidate, record, weight, candidate.model(record), rows=len(problem.folds[0].train))


def _mean(weighted: Sequence[tuple[float, Array]]) -> Array:
    mean = np.asarray(sum(weight * answer.astype(np.float64) for weight, answer in weighted))
    return mean if mean.ndim == 1 else np.asarray(mean / mean.sum(axis=1, keepdims=True))


def write_model(choice: Choice, problem: Problem, folder: Path) -> None:
    """Write the chosen model as `hopular.methods.saved.save_model` does, from the saved members: none is loaded."""
    if len(choice.members) == 1:
        shutil.copytree(choice.members[0].folder, folder)
        return
    members = [(member.candidate.name, member.weight, member.folder) for member in choice.members]
    write_ensemble(folder, members, problem.X.shape[1], problem.classes or None)
