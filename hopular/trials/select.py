"""Select: which trial is best, and which trials are worth combining; always by the validation rows alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hopular.methods.ensemble import Member, greedy_weights, log_loss_of, squared_error_of, write_ensemble
from hopular.trials.problem import Problem
from hopular.trials.trial import Trial
from hopular.util import InputError

MAX_MEMBERS = 10  # an ensemble has no more members, since each has to be trained again
MAX_ROWS = 20_000  # of more validation rows every second, third, ... one decides on weights
Array = np.ndarray[Any, Any]


def ranked(trials: Iterable[Trial]) -> list[Trial]:
    """Return the complete trials, the best one first."""
    complete = [trial for trial in trials if trial.state == "complete" and trial.score is not None]
    return sorted(complete, key=lambda trial: trial.rank)


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """Return the best complete trial."""
    return next(iter(ranked(trials)), None)


def combine(problem: Problem, predictions: Sequence[Array]) -> list[tuple[int, float]]:
    """Choose greedily which predictions of the validation rows have the best mean: their places and weights.

    The weightiest comes first, and the weights add up to one.
    """
    step = -(-len(problem.y_valid) // MAX_ROWS)
    weights = greedy_weights([values[::step].astype(np.float64) for values in predictions], _loss(problem, step))
    order = sorted(np.flatnonzero(weights), key=lambda place: (-weights[place], place))[:MAX_MEMBERS]
    total = weights[order].sum()
    return [(int(place), float(weights[place] / total)) for place in order]


def choose_members(
    problem: Problem, tried: Mapping[str, Iterable[Trial]], predictions: Mapping[str, Path]
) -> list[Member]:
    """Choose the trials worth combining among all complete trials of all methods.

    `predictions` names for each method the folder in which its search kept the validation predictions. The result is
    what the method `ensemble` takes as its members, the most often drawn first.
    """
    found: list[tuple[str, Trial, Array]] = []
    for method, trials in tried.items():
        for trial in trials:
            path = predictions[method] / f"{trial.slot}.npy"
            if trial.state == "complete" and path.exists():
                found.append((method, trial, np.load(path, allow_pickle=False)))
    if not found:
        raise InputError("no complete trial with validation predictions to build an ensemble from")
    chosen = [found[place] for place, _ in combine(problem, [values for _, _, values in found])]
    return [(method, trial.params, trial.seed) for method, trial, _ in chosen]


def _loss(problem: Problem, step: int) -> Any:
    if problem.task == "regression":
        return squared_error_of(problem.y_valid.to_numpy(dtype=np.float64)[::step])
    places = {label: place for place, label in enumerate(problem.classes)}
    return log_loss_of(np.array([places.get(str(label), -1) for label in problem.y_valid[::step]]))


def write_model(
    members: Sequence[tuple[str, float, Path]], n_features: int, classes: Sequence[str], folder: Path
) -> None:
    """Write a model as `hopular.methods.saved.save_model` does, from saved members: method, weight, folder of each."""
    if len(members) == 1:
        shutil.copytree(members[0][2], folder)
    else:
        write_ensemble(folder, members, n_features, classes or None)
