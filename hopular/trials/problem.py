"""Problem: what a search may see of a dataset. The test rows are not in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hopular.data.dataset import Dataset, Task

if TYPE_CHECKING:  # it brings scikit-learn, which a worker process need not wait for
    from hopular.data.splits import Split

SMALL = 1_000  # rows of the largest dataset of the paper's small suite


@dataclass(frozen=True, eq=False)
class Problem:
    """Training and validation rows of one split. Whoever holds only this cannot look at the test rows."""

    name: str
    task: Task
    rows: int  # of the whole dataset, which decides between the small and the medium search space
    fingerprint: str
    X_train: pd.DataFrame
    y_train: pd.Series[Any]
    X_valid: pd.DataFrame
    y_valid: pd.Series[Any]

    @property
    def size(self) -> str:
        return "small" if self.rows <= SMALL else "medium"


def make_problem(dataset: Dataset, split: Split) -> Problem:
    """The part of a dataset that a search on `split` is given."""
    digest = hashlib.sha256(f"{dataset.fingerprint} {split.fingerprint}".encode())
    X_train, X_valid = _take(dataset.X, split)
    y_train, y_valid = _take(dataset.y.to_frame(), split)
    return Problem(
        name=f"{dataset.name} {split.id}",
        task=dataset.task,
        rows=len(dataset),
        fingerprint=digest.hexdigest(),
        X_train=X_train,
        y_train=y_train.iloc[:, 0],
        X_valid=X_valid,
        y_valid=y_valid.iloc[:, 0],
    )


def _take(table: pd.DataFrame, split: Split) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and validation rows, without the categories that occur in test rows alone."""
    seen = table.iloc[np.concatenate([split.train, split.valid])]
    for place in range(seen.shape[1]):
        column = seen.iloc[:, place]
        if isinstance(column.dtype, pd.CategoricalDtype):
            seen.isetitem(place, column.cat.remove_unused_categories().array)
    train, valid = seen.iloc[: len(split.train)], seen.iloc[len(split.train) :]
    return train.reset_index(drop=True), valid.reset_index(drop=True)
