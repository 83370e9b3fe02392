"""Choice: which of the trials become the model, what it is worth, and how the methods compare; all out of fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from hopular.data.dataset import Task
from hopular.evaluation.metrics import LABEL_METRICS, METRICS, evaluate, quick_bootstrap
from hopular.evaluation.results import title
from hopular.trials.blend import Blend, Candidate, choose, cross_fit, cross_fit_single
from hopular.trials.problem import Problem
from hopular.trials.run import MethodSearch
from hopular.trials.trial import Trial
from hopular.util import InputError, did_you_mean

DEFAULT_METRIC: dict[Task, str] = {"classification": "log_loss", "regression": "rmse"}
CHOICES: dict[Task, tuple[str, ...]] = {
    "classification": ("log_loss", "accuracy", "balanced_accuracy", "f1", "roc_auc"),
    "regression": ("rmse", "mae", "r2"),
}
SHOWN: dict[Task, tuple[str, ...]] = {"classification": ("log_loss", "accuracy"), "regression": ("rmse", "r2")}
NAMES = {"f1": "macro_f1"}  # of metrics, as people ask for them and as they are called here
Array = np.ndarray[Any, Any]


def metric_named(name: str | None, task: Task) -> str:
    """Return the metric that a name stands for, by default the one of the task."""
    if name is None:
        return DEFAULT_METRIC[task]
    if name not in CHOICES[task]:
        hint = did_you_mean(name, CHOICES[task])
        raise InputError(f"metric {name!r} cannot decide in a {task}.{hint} Use one of {', '.join(CHOICES[task])}")
    return NAMES.get(name, name)


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions of rows that the models in question were not trained on, and that had no part in the choice."""

    rows: Array  # positions in the table
    fold: Array  # number of the fold that held the row out
    truth: Array  # text for classes
    predictions: Array  # (rows, classes) or (rows,)
    labels: Array | None = None  # predicted classes as text, where they are not simply the most probable ones


@dataclass(frozen=True)
class Member:
    """A trial's bag and its share in the model."""

    search: MethodSearch
    trial: Trial
    weight: float


@dataclass(frozen=True, eq=False)
class Choice:
    """The model: its members, the weightiest first, what it says out of fold, and the methods beside it."""

    members: tuple[Member, ...]
    temperature: float
    multipliers: tuple[float, ...] | None
    metric: str
    out_of_fold: OutOfFold
    metrics: dict[str, float]  # cross-fitted
    intervals: dict[str, tuple[float, float]]
    leaderboard: pd.DataFrame
    excluded: dict[str, str] = field(default_factory=dict)  # methods whose models are beyond a limit, and by how much

    @property
    def title(self) -> str:
        """Name the kind of model: that of its only method, or "ensemble"."""
        names = {member.search.method.name for member in self.members}
        return names.pop() if len(names) == 1 else "ensemble"


def choose_model(
    problem: Problem,
    searches: Sequence[MethodSearch],
    metric: str,
    seed: int = 0,
    *,
    rows: Array | None = None,
    max_row_seconds: float | None = None,
) -> Choice:
    """Choose the model among the trials whose models were kept, and score the choice by cross-fitting.

    `rows` are the positions of the problem's rows in the table. Members that need more than `max_row_seconds` together
    for a row are not chosen.
    """
    kept = [(search, trial) for search in searches for trial in search.kept]
    allowed = [(s, t) for s, t in kept if max_row_seconds is None or (t.row_seconds or 0.0) <= max_row_seconds]
    excluded = _excluded(kept, allowed, max_row_seconds)
    truth, classes = problem.y_valid.to_numpy(), problem.classes or None
    fold = np.repeat(np.arange(len(problem.folds)), [len(fold.valid) for fold in problem.folds])
    while True:
        if not allowed:
            assert max_row_seconds is not None
            raise InputError(
                f"no model predicts a row within {1000 * max_row_seconds:g} ms ({'; '.join(excluded.values())}): "
                "allow more, or name quicker methods"
            )
        candidates = [Candidate(s.method.name, t.slot, s.predictions(t)) for s, t in allowed]
        blend = choose(candidates, truth, classes, metric, seed)
        members = [(place, allowed[place][1].row_seconds or 0.0) for place in blend.places]
        if max_row_seconds is None or sum(seconds for _, seconds in members) <= max_row_seconds:
            break
        del allowed[max(members, key=lambda member: member[1])[0]]
    crossed = cross_fit(candidates, truth, classes, fold, metric, seed)
    labels = None
    if classes is not None and crossed.labels is not None and _has_multipliers(blend):
        labels = np.array([*classes, ""], dtype=object)[crossed.labels].astype(str)
    held_out = np.concatenate([fold.valid for fold in problem.folds])
    places = held_out if rows is None else np.asarray(rows)[held_out]
    is_known = ~np.isnan(crossed.predictions.reshape(len(truth), -1)).any(axis=1)
    evidence = OutOfFold(
        places[is_known],
        fold[is_known],
        np.asarray(truth if classes is None else [str(label) for label in truth])[is_known],
        crossed.predictions[is_known],
        None if labels is None else labels[is_known],
    )
    metrics, intervals = score(problem.task, evidence.truth, evidence.predictions, classes, evidence.labels, metric)
    board = _leaderboard(problem, searches, allowed, fold, metric, seed)
    chosen = tuple(Member(*allowed[place], w) for place, w in zip(blend.places, blend.weights, strict=True))
    multipliers = blend.multipliers if _has_multipliers(blend) else None
    shares = {name: sum(m.weight for m in chosen if m.search.method.name == name) for name in board["method"]}
    board["share"] = board["method"].map(shares)
    return Choice(chosen, blend.temperature, multipliers, metric, evidence, metrics, intervals, board, excluded)


def score(
    task: Task, truth: Any, predictions: Array, classes: Sequence[str] | None, labels: Array | None, metric: str
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Return all metrics of the task, and intervals of those that are shown, of predictions and chosen labels."""
    metrics = evaluate(task, truth, predictions, classes)
    named = predictions if labels is None or classes is None else one_hot(labels, classes)
    if labels is not None:
        metrics |= {name: evaluate(task, truth, named, classes, metrics=[name])[name] for name in LABEL_METRICS}
    shown = dict.fromkeys([metric, *SHOWN[task], *(("balanced_accuracy", "roc_auc") if classes else ("mae",))])
    intervals = {
        name: quick_bootstrap(task, truth, named if name in LABEL_METRICS else predictions, classes, name)
        for name in shown
    }
    return metrics, intervals


def one_hot(labels: Array, classes: Sequence[str]) -> Array:
    """Return labels as probabilities of 0 and 1."""
    return np.asarray(np.asarray(labels, dtype=object)[:, None] == np.asarray(list(classes), dtype=object), dtype=float)


def _has_multipliers(blend: Blend) -> bool:
    return any(value != 1.0 for value in blend.multipliers)


def _excluded(
    kept: Sequence[tuple[MethodSearch, Trial]], allowed: Sequence[tuple[MethodSearch, Trial]], limit: float | None
) -> dict[str, str]:
    """Say which methods have no model that is quick enough."""
    names = {search.method.name for search, _ in allowed}
    quickest: dict[str, float] = {}
    for search, trial in kept:
        if search.method.name not in names:
            quickest[search.method.name] = min(quickest.get(search.method.name, np.inf), trial.row_seconds or 0.0)
    return {
        name: f"{title(name)} needs {1000 * seconds:.3g} ms for a row, the limit is {1000 * (limit or 0):g} ms"
        for name, seconds in quickest.items()
    }


def _leaderboard(
    problem: Problem,
    searches: Sequence[MethodSearch],
    allowed: Sequence[tuple[MethodSearch, Trial]],
    fold: Array,
    metric: str,
    seed: int,
) -> pd.DataFrame:
    """Return a row per method, the best score first; those without a model come last, with the reason.

    A method's score is that of its best setting, chosen for each fold by the others. `seconds` are those of all its
    trials.
    """
    truth, classes = problem.y_valid.to_numpy(), problem.classes or None
    names = list(dict.fromkeys([metric, *SHOWN[problem.task]]))
    rows: list[dict[str, Any]] = []
    for search in searches:
        own = [trial for one, trial in allowed if one is search]
        tried = search.trials
        row: dict[str, Any] = {"method": search.method.name, "title": search.method.title}
        row |= {"trials": len(tried), "seconds": search.seconds, "reason": "" if own else why_none(search)}
        row |= dict.fromkeys(names, np.nan)
        if own:
            candidates = [Candidate(search.method.name, trial.slot, search.predictions(trial)) for trial in own]
            crossed = cross_fit_single(candidates, truth, classes, fold, metric, seed)
            known = ~np.isnan(crossed.predictions.reshape(len(truth), -1)).any(axis=1)
            row |= evaluate(problem.task, truth[known], crossed.predictions[known], classes, metrics=names)
            if classes is not None and crossed.labels is not None and metric in LABEL_METRICS:
                labels = np.array([*classes, ""], dtype=object)[crossed.labels[known]]
                row |= evaluate(problem.task, truth[known], one_hot(labels, classes), classes, metrics=[metric])
        rows.append(row)
    board = pd.DataFrame(rows)[["method", "title", *names, "trials", "seconds", "reason"]]
    return board.sort_values(
        metric, ascending=not METRICS[metric].higher_is_better, na_position="last", kind="stable", ignore_index=True
    )


def why_none(search: MethodSearch) -> str:
    """Say why a method has no model."""
    if not search.trials:
        return "no time or trial was left for it"
    for trial in search.trials:
        if trial.unsaved or trial.message:
            return trial.unsaved or f"{trial.failure}: {trial.message}"
    return "its models are beyond a limit"
