"""Select: which trial is best, and which trials are worth combining; always by the validation rows alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopular.evaluation.metrics import evaluate
from hopular.methods.ensemble import Member, greedy_weights, log_loss_of, squared_error_of, write_ensemble
from hopular.trials.budget import DEFAULT_CRITERION, score_of
from hopular.trials.problem import Problem
from hopular.trials.trial import Trial
from hopular.util import InputError

if TYPE_CHECKING:
    from hopular.trials.run import MethodSearch

MAX_MEMBERS = 10  # an ensemble has no more members, since each has to be trained again
MAX_ROWS = 20_000  # of more validation rows every second, third, ... one decides on weights
METRICS = {"classification": ("accuracy", "log_loss"), "regression": ("mse", "mae")}
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


@dataclass(frozen=True)
class Chosen:
    """A trial's model and its share in the answer."""

    search: MethodSearch
    trial: Trial
    weight: float
    folder: Path  # of the saved model
    rows: int  # that it was trained on
    is_refit: bool = False  # on all rows it can use

    @property
    def method(self) -> str:
        """Return the name of its method."""
        return self.search.method.name


@dataclass(frozen=True)
class Choice:
    """A model that could be the final one: a single member, or several as an ensemble, the weightiest first."""

    method: str
    members: tuple[Chosen, ...]
    metrics: Mapping[str, float]  # on the validation rows

    @property
    def loss(self) -> float:
        """Return the loss that decides: the lower, the better."""
        return -score_of(DEFAULT_CRITERION, self.metrics)

    def test_predictions(self) -> Array:
        """Return the answer for the test rows, from what the members said when they were trained."""
        return _mean([(one.weight, one.search.predictions(one.trial, "-test")) for one in self.members])


def rank_choices(searches: Sequence[MethodSearch]) -> list[Choice]:
    """Return the best model of each method and their ensemble, the best on the validation rows first."""
    kept = [(search, trial) for search in searches for trial in search.kept]
    singles = [
        Choice(search.method.name, (_chosen(search, found[0], 1.0),), found[0].metrics)
        for search in searches
        if (found := search.kept)
    ]
    ensemble = _ensemble(kept)
    return sorted([*singles, *([ensemble] if ensemble else [])], key=lambda choice: choice.loss)


def _ensemble(kept: Sequence[tuple[MethodSearch, Trial]]) -> Choice | None:
    """Return the kept models with the weights that are best on the validation rows; None if a single one is."""
    if len(kept) < 2:
        return None
    problem = kept[0][0].problem
    answers = [search.predictions(trial) for search, trial in kept]
    chosen = combine(problem, answers)
    if len(chosen) < 2:
        return None
    members = tuple(_chosen(*kept[place], share) for place, share in chosen)
    mean, names = _mean([(share, answers[place]) for place, share in chosen]), METRICS[problem.task]
    truth, classes = problem.y_valid.to_numpy(), problem.classes or None
    return Choice("ensemble", members, evaluate(problem.task, truth, mean, classes, metrics=names))


def _chosen(search: MethodSearch, trial: Trial, weight: float) -> Chosen:
    rows = np.unique(np.concatenate([fold.train for fold in search.problem.folds]))
    return Chosen(search, trial, weight, search.model(trial), len(rows))


def _mean(weighted: Sequence[tuple[float, Array]]) -> Array:
    mean = np.asarray(sum(weight * answer.astype(np.float64) for weight, answer in weighted))
    return mean if mean.ndim == 1 else np.asarray(mean / mean.sum(axis=1, keepdims=True))


def write_model(
    members: Sequence[tuple[str, float, Path]], n_features: int, classes: Sequence[str], folder: Path
) -> None:
    """Write a model as `hopular.methods.saved.save_model` does, from saved members: method, weight, folder of each."""
    if len(members) == 1:
        shutil.copytree(members[0][2], folder)
    else:
        write_ensemble(folder, members, n_features, classes or None)
