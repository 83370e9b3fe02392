"""Problem: what a search may see of a dataset. The test rows are not in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hopular.data.dataset import Dataset, Task

if TYPE_CHECKING:  # it brings scikit-learn, which a worker process need not wait for
    from hopular.data.splits import Split

SMALL = 1_000  # the largest dataset of the paper's small suite has so many rows
Rows = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Fold:
    """Positions of the rows that a trial is trained on, and of those that it is then judged by."""

    train: Rows
    valid: Rows


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows that a search may see. Whoever holds only this cannot look at the test rows.

    Trials are judged by its folds; one published validation set is one fold.
    """

    name: str
    task: Task
    rows: int  # of the whole dataset, which decides between the small and the medium search space
    fingerprint: str
    X: pd.DataFrame
    y: pd.Series[Any]
    folds: tuple[Fold, ...]  # with positions in X and y

    @property
    def size(self) -> str:
        """Return which search space is used: "small" or "medium"."""
        return "small" if self.rows <= SMALL else "medium"

    @property
    def classes(self) -> list[str]:
        """Return the classes that are trained on, in the order of the columns of probabilities; none for regression."""
        if self.task == "regression":
            return []
        trained = np.unique(np.concatenate([fold.train for fold in self.folds]))
        return [str(label) for label in np.unique(np.asarray(self.y.iloc[trained]))]

    @property
    def X_train(self) -> pd.DataFrame:  # noqa: N802
        """Return the training rows of the only fold."""
        return self.X.iloc[self._only.train].reset_index(drop=True)

    @property
    def y_train(self) -> pd.Series[Any]:
        """Return the target of the training rows of the only fold."""
        return self.y.iloc[self._only.train].reset_index(drop=True)

    @property
    def X_valid(self) -> pd.DataFrame:  # noqa: N802
        """Return the validation rows, fold after fold, as trials' predictions are ordered."""
        return self.X.iloc[self._valid].reset_index(drop=True)

    @property
    def y_valid(self) -> pd.Series[Any]:
        """Return the target of the validation rows, fold after fold."""
        return self.y.iloc[self._valid].reset_index(drop=True)

    def of_fold(self, fold: Fold) -> Problem:
        """Return the problem with one of its folds alone."""
        return Problem(self.name, self.task, self.rows, self.fingerprint, self.X, self.y, (fold,))

    @property
    def _only(self) -> Fold:
        if len(self.folds) != 1:
            raise ValueError(f"{self.name} has {len(self.folds)} folds: ask one of them for its training rows")
        return self.folds[0]

    @property
    def _valid(self) -> Rows:
        return np.concatenate([fold.valid for fold in self.folds])


def make_problem(dataset: Dataset, split: Split, folds: Sequence[Fold] = ()) -> Problem:
    """Return the part of a dataset that a search on `split` is given.

    `folds` divide the training and validation rows of the split, with positions in the dataset; without them the
    split's own two parts are the only fold.
    """
    digest = hashlib.sha256(f"{dataset.fingerprint} {split.fingerprint}".encode())
    for fold in folds:
        digest.update(repr((fold.train.tolist(), fold.valid.tolist())).encode())
    seen = np.concatenate([split.train, split.valid])
    places = np.full(len(dataset), -1, dtype=np.int64)
    places[seen] = np.arange(len(seen))
    own = tuple(Fold(places[fold.train], places[fold.valid]) for fold in folds or [Fold(split.train, split.valid)])
    if any((rows < 0).any() for fold in own for rows in (fold.train, fold.valid)):
        raise ValueError(f"a fold of {dataset.name} {split.id} has rows that a search on this split may not see")
    return Problem(
        name=f"{dataset.name} {split.id}",
        task=dataset.task,
        rows=len(dataset),
        fingerprint=digest.hexdigest(),
        X=_seen(dataset.X, seen),
        y=_seen(dataset.y.to_frame(), seen).iloc[:, 0],
        folds=own,
    )


def _seen(table: pd.DataFrame, rows: Rows) -> pd.DataFrame:
    """Return some rows, without the categories that occur in others alone."""
    seen = table.iloc[rows].reset_index(drop=True)
    for place in range(seen.shape[1]):
        column = seen.iloc[:, place]
        if isinstance(column.dtype, pd.CategoricalDtype):
            seen.isetitem(place, column.cat.remove_unused_categories().array)
    return seen
