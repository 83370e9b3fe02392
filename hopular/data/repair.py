"""Corrected variants of datasets that were damaged before they were published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from hopular.data.dataset import Dataset
from hopular.data.registry import Entry, Repair


def repair(dataset: Dataset, entry: Entry) -> Dataset:
    """The variant NAME:repaired of a dataset of the paper."""
    assert entry.repaired is not None, f"{entry.name} has no repaired variant"
    changed = _true_target(dataset, entry.repaired) if entry.repaired.how == "target" else _ranks_within_parts(dataset)
    notes = (*dataset.notes, entry.repaired.remark)
    return replace(changed, name=f"{entry.name}:repaired", defects=(), notes=notes)


def _true_target(dataset: Dataset, how: Repair) -> Dataset:
    """The true class takes the target's place, and the false one becomes the feature that it is."""
    X = dataset.X.drop(columns=how.target)
    X.insert(0, how.feature, dataset.y)
    return replace(dataset, X=X, y=dataset.X[how.target].rename(str(dataset.y.name)))


def _ranks_within_parts(dataset: Dataset) -> Dataset:
    """Undo that training and test rows were standardised each by themselves: only the order of values is kept.

    A category gets its rank in its part as code. A continuous value gets the share of its part's known values that are
    below it (ties half), which is alike in both parts if they were drawn alike.
    """
    assert dataset.parts is not None, "published folds are needed to tell the parts"
    test = (dataset.parts.iloc[:, 0] == "test").to_numpy()
    columns = {}
    for name in dataset.X.columns:
        column = dataset.X[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            columns[name] = _rank_categories(column, test)
        else:
            columns[name] = column.groupby(test).transform(lambda part: (part.rank() - 0.5) / part.count())
    return replace(dataset, X=pd.DataFrame(columns))


def _rank_categories(column: pd.Series[Any], test: np.ndarray[Any, Any]) -> pd.Series[Any]:
    codes = column.cat.codes.to_numpy()
    ranks = np.full(len(codes), -1)
    for part in (test, ~test):
        known = part & (codes >= 0)
        ranks[known] = np.unique(codes[known], return_inverse=True)[1]
    categories = pd.Index([str(rank) for rank in range(ranks.max() + 1)])
    return pd.Series(pd.Categorical.from_codes(ranks, categories), index=column.index, name=column.name)
