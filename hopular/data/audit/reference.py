"""Reference models: how well a target can be predicted, measured on rows that a model was not fitted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import binom, rankdata
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from hopular.data.audit.table import SEED, Floats, Ints

Inputs = npt.NDArray[np.float32]
FOLDS = 5
FEW_ROWS = 600  # with more, as many fewer rounds do
MOST_CATEGORIES = 20  # of a column; rarer ones count as none of them
MOST_INDICATORS = 300  # of all columns, if that leaves two for each
MOST_COLUMNS = 100  # tried at a split of a tree
BOUND = 1.645  # standard errors to the end of a one-sided 95 % interval
BEATEN = 0.005  # chance of seeming to beat the constant guess


@dataclass(frozen=True)
class Model:
    """A model fitted anew in each fold of several rounds, each with other folds; a row's predictions are averaged.

    So a tree becomes a forest that predicts every row by trees that have not seen it. Classes are predicted by their
    indicators.
    """

    make: Callable[[int, int, int], Any]  # from the numbers of rows and columns, and a seed
    rounds: int


def _tried(columns: int, share: float) -> int:
    return max(1, min(round(share * columns), MOST_COLUMNS))


LINEAR = Model(lambda rows, columns, seed: Ridge(alpha=0.3 * rows), rounds=2)
FOREST = Model(  # of large leaves, for weak signals in few rows
    lambda rows, columns, seed: DecisionTreeRegressor(
        min_samples_leaf=10, max_features=_tried(columns, 1 / 3), random_state=seed
    ),
    rounds=25,
)
DEEP_FOREST = Model(  # of small leaves and random splits, for features that tell something only together
    lambda rows, columns, seed: ExtraTreeRegressor(
        min_samples_leaf=5, max_features=_tried(columns, 0.6), random_state=seed
    ),
    rounds=25,
)


@dataclass(frozen=True)
class Skill:
    """How well the best model does: AUC and share of rows right, or rank correlation and R²."""

    order: float  # AUC, the mean of each class against the rest; or rank correlation
    error: float  # its standard error
    score: float  # share of rows right, or R²
    base: float  # the score of a constant guess
    beats: bool  # whether any model beats the constant guess by more than noise

    @property
    def lower(self) -> float:
        """The least that the order may be."""
        return self.order - BOUND * self.error

    @property
    def upper(self) -> float:
        """The most that the order may be."""
        return self.order + BOUND * self.error


def skill(
    inputs: Inputs,
    classes: Ints | None,
    numbers: Floats | None,
    groups: Ints,
    models: Sequence[Model],
    enough: float | None = None,
) -> Skill:
    """The best of some models, by order, of classes or numbers; rows of a group share a fold.

    With `enough`, models come in turn until one beats the constant guess or its order is surely above that.
    """
    best = None
    for model in models:
        if classes is not None:
            targets = np.eye(int(classes.max()) + 1)[classes]
            found = _classes_skill(classes, _predictions(inputs, targets, groups, classes, model))
        else:
            assert numbers is not None
            found = _numbers_skill(numbers, _predictions(inputs, numbers[:, None], groups, None, model)[:, 0])
        if best is not None:
            better = max(best, found, key=lambda each: each.order)
            found = replace(better, beats=best.beats or found.beats)
        best = found
        if enough is not None and (best.beats or best.lower > enough):
            break
    assert best is not None
    return best


def _predictions(inputs: Inputs, targets: Floats, groups: Ints, classes: Ints | None, model: Model) -> Floats:
    """Each row as predicted by models that were fitted on rows of other groups."""
    random = np.random.default_rng(SEED)
    predicted = np.zeros_like(targets)
    rounds = max(1, min(model.rounds, model.rounds * FEW_ROWS // len(targets)))
    for _ in range(rounds):
        folds = _folds(groups, classes, random)
        for fold in range(FOLDS):
            held_out = folds == fold
            if held_out.any() and not held_out.all():
                fitted = model.make(len(inputs), inputs.shape[1], int(random.integers(2**31)))
                fitted.fit(inputs[~held_out], targets[~held_out])
                predicted[held_out] += fitted.predict(inputs[held_out]).reshape(-1, targets.shape[1])
    return predicted / rounds


def _folds(groups: Ints, classes: Ints | None, random: np.random.Generator) -> Ints:
    """A fold for each row: groups stay together and, in each fold, classes have about the same shares."""
    first, place = np.unique(groups, return_index=True, return_inverse=True)[1:]
    dealt = random.permutation(len(first))
    if classes is not None:
        dealt = dealt[np.argsort(classes[first][dealt], kind="stable")]
    fold = np.empty(len(first), dtype=np.int64)
    fold[dealt] = np.arange(len(first)) % FOLDS
    return fold[place]


def _classes_skill(classes: Ints, predicted: Floats) -> Skill:
    counts = np.bincount(classes)
    area, spread = 0.0, np.zeros(len(classes))
    for c, count in enumerate(counts):
        own, share = classes == c, count / len(classes)
        # For each row, the share of rows on the other side of the class that it is ranked rightly against (DeLong).
        ranks, right = rankdata(predicted[:, c]), np.empty(len(classes))
        right[own] = (ranks[own] - rankdata(predicted[own, c])) / (~own).sum()
        right[~own] = 1 - (ranks[~own] - rankdata(predicted[~own, c])) / count
        area += share * right[own].mean()
        spread += share * (right - right[own].mean()) / np.where(own, count, (~own).sum())
    hits, base = int((predicted.argmax(axis=1) == classes).sum()), counts.max() / len(classes)
    beats = binom.sf(hits - 1, len(classes), base) < BEATEN
    return Skill(float(area), float(np.sqrt(spread @ spread)), hits / len(classes), float(base), bool(beats))


def _numbers_skill(numbers: Floats, predicted: Floats) -> Skill:
    before, after = (numbers - numbers.mean()) ** 2, (numbers - predicted) ** 2
    gain = before - after
    beats = gain.mean() > 2.6 * gain.std() / np.sqrt(len(gain))  # about the same chance as BEATEN
    ranks = (rankdata(numbers), rankdata(predicted))
    order = float(np.corrcoef(*ranks)[0, 1]) if np.ptp(predicted) else 0.0
    return Skill(order, (1 - order**2) / np.sqrt(len(numbers) - 1), 1 - after.sum() / before.sum(), 0.0, bool(beats))


def encode(X: pd.DataFrame) -> list[Inputs]:
    """Each feature as standardised numbers: an indicator per frequent category, and one if values are missing."""
    kinds = [isinstance(X[name].dtype, pd.CategoricalDtype) for name in X.columns]
    most = min(max(MOST_INDICATORS // max(sum(kinds), 1), 2), MOST_CATEGORIES)
    return [_encode(X[name], most) for name in X.columns]


def _encode(column: pd.Series[Any], most: int) -> Inputs:
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy()
        frequent = pd.Series(codes).value_counts().index[:most]
        numbers = np.column_stack([codes == code for code in sorted(frequent)]).astype(np.float64)
        numbers = numbers[:, numbers.shape[1] == column.nunique(dropna=False) == 2 :]  # the second says it all
    else:
        values = column.to_numpy(dtype=np.float64)
        missing = np.isnan(values)
        filled = np.where(missing, np.median(values[~missing]) if not missing.all() else 0.0, values)
        numbers = np.column_stack([missing, filled])
    largest = np.abs(numbers).max(axis=0)
    numbers = numbers[:, largest > 0] / largest[largest > 0]  # so that sums of the largest numbers do not overflow
    numbers = numbers[:, np.ptp(numbers, axis=0) > 0]
    return np.asarray((numbers - numbers.mean(axis=0)) / numbers.std(axis=0), dtype=np.float32)
