"""After the search: seeds to train the best setting with, what to combine, and the rows of a model to be handed out.

A model that is handed out is trained on all rows it can use: boosting with the number of rounds that was best on the
validation rows, networks without the validation rows, which tell them when to stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopular.data.dataset import Dataset
from hopular.methods import Method
from hopular.methods.ensemble import Member, greedy_weights, log_loss_of, squared_error_of
from hopular.trials.problem import Problem
from hopular.trials.record import Record

if TYPE_CHECKING:
    from hopular.data.splits import Split

Rows = np.ndarray[Any, np.dtype[np.int64]]
MAX_MEMBERS = 10  # of an ensemble: each one has to be trained again


def replicate_seeds(record: Record, replicates: int) -> list[int]:
    """The seeds to train a setting with: the trial's own first, which gives the trial's own model."""
    return [record.seed + 7919 * place for place in range(replicates)]


def refit_rows(method: Method, split: Split) -> Rows:
    """Return the rows that a model of the method is refitted on: all of the split, for a network all but validation."""
    parts = (split.train, split.test) if method.needs_validation else (split.train, split.valid, split.test)
    return np.sort(np.concatenate(parts))


def refit_problem(dataset: Dataset, split: Split, method: Method) -> Problem:
    """Return the problem whose training rows are those of a refit."""
    rows = refit_rows(method, split)
    return Problem(
        name=f"{dataset.name} all rows",
        task=dataset.task,
        rows=len(dataset),
        fingerprint=dataset.fingerprint,
        X_train=dataset.X.iloc[rows].reset_index(drop=True),
        y_train=dataset.y.iloc[rows].reset_index(drop=True),
        X_valid=dataset.X.iloc[split.valid].reset_index(drop=True),
        y_valid=dataset.y.iloc[split.valid].reset_index(drop=True),
    )


def refit_record(record: Record) -> Record:
    """Return the setting of a refit: with the best number of rounds, since no rows are left to find it by."""
    rounds = {} if record.rounds is None else {"n_estimators": max(1, record.rounds)}
    return replace(record, params={**record.params, **rounds})


def choose_members(
    problem: Problem, tried: Mapping[str, Iterable[Record]], predictions: Mapping[str, Path]
) -> list[Member]:
    """The trials worth combining: chosen greedily on the validation rows among all complete trials of all methods.

    `predictions` names for each method the folder in which its search kept the validation predictions. The result is
    what the method `ensemble` takes as its members, the most often drawn first.
    """
    found: list[tuple[str, Record, np.ndarray[Any, Any]]] = []
    for method, records in tried.items():
        for record in records:
            path = predictions[method] / f"{record.slot}.npy"
            if record.state == "complete" and path.exists():
                found.append((method, record, np.load(path, allow_pickle=False).astype(np.float64)))
    if not found:
        raise ValueError("no complete trial with validation predictions to build an ensemble from")
    weights = greedy_weights([values for _, _, values in found], _loss(problem))
    order = sorted(np.flatnonzero(weights), key=lambda place: (-weights[place], place))[:MAX_MEMBERS]
    return [(method, record.params, record.seed) for method, record, _ in (found[place] for place in order)]


def _loss(problem: Problem) -> Any:
    if problem.task == "regression":
        return squared_error_of(problem.y_valid.to_numpy(dtype=np.float64))
    classes = {label: place for place, label in enumerate(np.unique(np.asarray(problem.y_train)))}
    return log_loss_of(np.array([classes.get(label, -1) for label in problem.y_valid]))
