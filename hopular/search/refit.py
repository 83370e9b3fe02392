"""After the search: the seeds to train the best setting with, and what to combine of all that was tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hopular.methods.ensemble import Member, greedy_weights, log_loss_of, squared_error_of
from hopular.search.problem import Problem
from hopular.search.record import Record

MAX_MEMBERS = 10  # of an ensemble: each one has to be trained again


def replicate_seeds(record: Record, replicates: int) -> list[int]:
    """The seeds to train a setting with: the trial's own first, which gives the trial's own model."""
    return [record.seed + 7919 * place for place in range(replicates)]


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
