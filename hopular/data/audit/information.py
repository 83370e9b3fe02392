"""Information: do the features tell anything of the target, and if not, is another feature the true target?

The best of three small models (linear, and two kinds of forest) is judged on rows it was not fitted on, in five folds
of at most 2,000 rows of the 20 largest classes. Identical rows share a fold, unless less than a quarter are different.
Most tables are seen to be informative by the first model; the others are fitted only in doubt.

- `no-information` (serious): no model gets more rows right than the largest class has, beyond noise, and even the upper
  end of the best AUC (one-sided, 95 %) is below 0.7, the least that is commonly called acceptable. A trace of
  information may be left: the sentence then says 'next to nothing' for 'nothing'.
- `weak-information` (warning): the same, but the upper end is above: too few rows to call it nothing.

A number as target is judged by R² in place of the rows right and by rank correlation, limit 0.3, in place of AUC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import binom, rankdata
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from hopular.data.audit.table import SEED, Finding, Floats, Ints, Severity, Table, renumber
from hopular.data.audit.table_checks import error_removed
from hopular.data.dataset import DATE
from hopular.data.dates import date_parts, varying_parts
from hopular.data.notation import since_1970
from hopular.formatting import percent

# ----------------------------------------------------------------------------------------------------- reference models


_Inputs = npt.NDArray[np.float32]
_FOLDS = 5
_FEW_ROWS = 600  # with more rows, the rounds are fewer in proportion
_MOST_CATEGORIES = 20  # of a column; rarer ones count as none of them
_MOST_INDICATORS = 300  # of all columns together, or two for each if that is more
_MOST_COLUMNS = 100  # that a tree tries at a split
_BOUND = 1.645  # standard errors to the end of a one-sided 95 % interval
_BEATEN = 0.005  # chance of seeming to beat the constant guess


@dataclass(frozen=True)
class _Model:
    """A model fitted anew in each fold of several rounds, each with other folds; a row's predictions are averaged.

    So a tree becomes a forest that predicts every row by trees that have not seen it. Classes are predicted by their
    indicators.
    """

    make: Callable[[int, int, int], Any]  # from the numbers of rows and columns, and a seed
    rounds: int


def _tried(columns: int, share: float) -> int:
    return max(1, min(round(share * columns), _MOST_COLUMNS))


_LINEAR = _Model(lambda rows, columns, seed: Ridge(alpha=0.3 * rows), rounds=2)
_FOREST = _Model(  # of large leaves, for weak signals in few rows
    lambda rows, columns, seed: DecisionTreeRegressor(
        min_samples_leaf=10, max_features=_tried(columns, 1 / 3), random_state=seed
    ),
    rounds=25,
)
_DEEP_FOREST = _Model(  # of small leaves and random splits, for features that tell something only together
    lambda rows, columns, seed: ExtraTreeRegressor(
        min_samples_leaf=5, max_features=_tried(columns, 0.6), random_state=seed
    ),
    rounds=25,
)


@dataclass(frozen=True)
class _Skill:
    """Skill of the best model on rows it was not fitted on: AUC and share of rows right, or rank correlation and R²."""

    order: float  # AUC, the mean of each class against the rest; or rank correlation
    error: float  # its standard error
    score: float  # share of rows right, or R²
    base: float  # the score of a constant guess
    beats: bool  # whether any model beats the constant guess by more than noise

    @property
    def lower(self) -> float:
        """Return the lower end of the order."""
        return self.order - _BOUND * self.error

    @property
    def upper(self) -> float:
        """Return the upper end of the order."""
        return self.order + _BOUND * self.error


def _skill(
    inputs: _Inputs,
    classes: Ints | None,
    numbers: Floats | None,
    groups: Ints,
    models: Sequence[_Model],
    enough: float | None = None,
) -> _Skill:
    """Measure the best of some models, by order, on classes or numbers; rows of a group share a fold.

    With `enough`, models are tried in turn until one beats the constant guess or its order is surely above that.
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


def _predictions(inputs: _Inputs, targets: Floats, groups: Ints, classes: Ints | None, model: _Model) -> Floats:
    """Predict each row by models that were fitted on rows of other groups."""
    random = np.random.default_rng(SEED)
    predicted = np.zeros_like(targets)
    rounds = max(1, min(model.rounds, model.rounds * _FEW_ROWS // len(targets)))
    for _ in range(rounds):
        folds = _folds(groups, classes, random)
        for fold in range(_FOLDS):
            held_out = folds == fold
            if held_out.any() and not held_out.all():
                fitted = model.make(len(inputs), inputs.shape[1], int(random.integers(2**31)))
                fitted.fit(inputs[~held_out], targets[~held_out])
                predicted[held_out] += fitted.predict(inputs[held_out]).reshape(-1, targets.shape[1])
    return predicted / rounds


def _folds(groups: Ints, classes: Ints | None, random: np.random.Generator) -> Ints:
    """Assign a fold to each row: groups stay together and, in each fold, classes have about the same shares."""
    first, place = np.unique(groups, return_index=True, return_inverse=True)[1:]
    dealt = random.permutation(len(first))
    if classes is not None:
        dealt = dealt[np.argsort(classes[first][dealt], kind="stable")]
    fold = np.empty(len(first), dtype=np.int64)
    fold[dealt] = np.arange(len(first)) % _FOLDS
    return fold[place]


def _classes_skill(classes: Ints, predicted: Floats) -> _Skill:
    counts = np.bincount(classes)
    area, spread = 0.0, np.zeros(len(classes))
    for c, count in enumerate(counts):
        own, share = classes == c, count / len(classes)
        # For each row, the share of rows in and out of the class that it is ranked correctly against (DeLong).
        ranks, right = rankdata(predicted[:, c]), np.empty(len(classes))
        right[own] = (ranks[own] - rankdata(predicted[own, c])) / (~own).sum()
        right[~own] = 1 - (ranks[~own] - rankdata(predicted[~own, c])) / count
        area += share * right[own].mean()
        spread += share * (right - right[own].mean()) / np.where(own, count, (~own).sum())
    hits, base = int((predicted.argmax(axis=1) == classes).sum()), counts.max() / len(classes)
    beats = binom.sf(hits - 1, len(classes), base) < _BEATEN
    return _Skill(float(area), float(np.sqrt(spread @ spread)), hits / len(classes), float(base), bool(beats))


def _numbers_skill(numbers: Floats, predicted: Floats) -> _Skill:
    before, after = (numbers - numbers.mean()) ** 2, (numbers - predicted) ** 2
    gain = before - after
    beats = gain.mean() > 2.6 * gain.std() / np.sqrt(len(gain))  # about the same chance as _BEATEN
    ranks = (rankdata(numbers), rankdata(predicted))
    order = float(np.corrcoef(*ranks)[0, 1]) if np.ptp(predicted) else 0.0
    return _Skill(order, (1 - order**2) / np.sqrt(len(numbers) - 1), 1 - after.sum() / before.sum(), 0.0, bool(beats))


def _encode(X: pd.DataFrame) -> list[_Inputs]:
    """Standardise each feature as numbers: an indicator per frequent category, and one if values are missing."""
    kinds = [isinstance(X[name].dtype, pd.CategoricalDtype) for name in X.columns]
    most = min(max(_MOST_INDICATORS // max(sum(kinds), 1), 2), _MOST_CATEGORIES)
    return [_encode_column(X[name], most) for name in X.columns]


def _encode_column(column: pd.Series[Any], most: int) -> _Inputs:
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy()
        frequent = pd.Series(codes).value_counts().index[:most]
        numbers = np.column_stack([codes == code for code in sorted(frequent)]).astype(np.float64)
        numbers = numbers[:, numbers.shape[1] == column.nunique(dropna=False) == 2 :]  # the second says it all
    elif column.dtype == DATE:
        seconds = since_1970(column)
        parts = date_parts(seconds, varying_parts(seconds)).values()
        return np.hstack([_encode_column(part, most) for part in (pd.Series(seconds), *parts)])
    else:
        values = column.to_numpy(dtype=np.float64)
        missing = np.isnan(values)
        filled = np.where(missing, np.median(values[~missing]) if not missing.all() else 0.0, values)
        numbers = np.column_stack([missing, filled])
    largest = np.abs(numbers).max(axis=0)
    numbers = numbers[:, largest > 0] / largest[largest > 0]  # sums of the largest numbers must not overflow
    numbers = numbers[:, np.ptp(numbers, axis=0) > 0]
    return np.asarray((numbers - numbers.mean(axis=0)) / numbers.std(axis=0), dtype=np.float32)


# ---------------------------------------------------------------------------------------------------------- information


_MOST_ROWS = 2000
_MOST_CLASSES = 20
_MOST_COPIES = 4  # of a row, on average; with more, rows are alike because few different ones are possible
_FEWEST = (20, 10)  # rows, and rows outside the largest class, below which there is nothing to measure
_ENOUGH = (100, 50)  # the same, below which the lack of information is a warning only
_ACCEPTABLE = {"classification": 0.7, "regression": 0.3}  # AUC, rank correlation
_CHANCE = {"classification": 0.5, "regression": 0.0}  # a trace of information is three standard errors above


def information(table: Table) -> Iterator[Finding]:
    """Report features that tell next to nothing of the target, and a feature that may be the true one."""
    is_classes = table.dataset.task == "classification"
    rows = np.arange(len(table.codes))
    if is_classes:
        rows = rows[np.isin(table.target, np.argsort(-np.bincount(table.target), kind="stable")[:_MOST_CLASSES])]
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(SEED).permutation(rows)[:_MOST_ROWS])
    classes = renumber(table.target[rows])
    others = len(rows) - int(np.bincount(classes).max())
    inputs = np.hstack(_encode(table.dataset.X.iloc[rows]))
    if len(rows) < _FEWEST[0] or others < _FEWEST[1] or not inputs.shape[1]:
        return
    numbers = None if is_classes else table.dataset.y.to_numpy(dtype=np.float64)[rows]
    groups, limit = _groups(table, rows), _ACCEPTABLE[table.dataset.task]
    models = (_LINEAR, _FOREST, _DEEP_FOREST)
    found = _skill(inputs, classes if is_classes else None, numbers, groups, models, enough=limit)
    if found.beats or found.lower > limit:
        return
    if found.upper >= limit:
        yield _finding("weak-information", "warning", "little", found, table)
    elif len(rows) < _ENOUGH[0] or others < _ENOUGH[1]:
        yield _finding("no-information", "warning", "next to nothing, as far as so few rows can show,", found, table)
    else:
        trace = found.order - 3 * found.error > _CHANCE[table.dataset.task]
        yield _finding("no-information", "serious", "next to nothing" if trace else "nothing", found, table)
        yield from _hidden_target(table, rows, groups)


def _finding(check: str, severity: Severity, much: str, found: _Skill, table: Table) -> Finding:
    text = f"The features tell {much} about the target '{table.dataset.y.name}': the best of three models "
    if table.dataset.task == "classification":
        text += f"is right on {percent(found.score, 1)} of new rows, always predicting the most frequent class on "
        text += f"{percent(found.base, 1)}, and its AUC is {found.order:.2f} ± {found.error:.2f} (0.5 is chance)."
    else:
        text += f"has R² {found.score:z.2f} on new rows and rank correlation {found.order:z.2f} ± {found.error:.2f}."
    return Finding(check, severity, text)


def _groups(table: Table, rows: Ints) -> Ints:
    """Return which rows must share a fold: the dataset's groups, or else identical rows, unless few are different."""
    if table.dataset.groups is not None:
        groups = pd.factorize(table.dataset.groups.iloc[rows])[0].astype(np.int64)
        alone = groups < 0  # without a group, a row is one by itself
        groups[alone] = len(rows) + np.arange(alone.sum())
        enough = 2 * _FOLDS
    else:
        groups, enough = table.same[rows], len(rows) // _MOST_COPIES
    return groups if len(np.unique(groups)) >= enough else np.arange(len(rows))


# -------------------------------------------------------------------------------------------------------- hidden target


_SCREENED = 0.25  # share of the constant guess's errors that a linear model must avoid
_PREDICTED = 0.5  # the same for the best model
_DERIVED = 0.98  # the same from one column alone: then the feature is made from that column, and no target
_COMPARED = 2  # best features by the linear model, which a forest predicts as well
_SCREEN = replace(_LINEAR, rounds=1)
_SMALL_FOREST = replace(_FOREST, rounds=10)


def _hidden_target(table: Table, rows: Ints, groups: Ints) -> Iterator[Finding]:
    """Report the categorical feature that the others predict best, if they predict it well."""
    codes, inputs = table.codes[rows], _encode(table.dataset.X.iloc[rows])
    screened = {}
    for j in np.flatnonzero(table.is_categorical).tolist():
        found = _feature_skill(codes[:, j], inputs[:j] + inputs[j + 1 :], groups, (_SCREEN,))
        if found and _avoided(found) >= _SCREENED and not _is_derived(table, codes, j):
            screened[j] = found
    good = {}
    for j in sorted(screened, key=lambda j: -screened[j].order)[:_COMPARED]:
        found = _feature_skill(codes[:, j], inputs[:j] + inputs[j + 1 :], groups, (_LINEAR, _SMALL_FOREST))
        if found and _avoided(found) >= _PREDICTED:
            good[j] = found
    if not good:
        return
    best, *others = sorted(good, key=lambda j: -good[j].order)
    name, found = table.names[best], good[best]
    text = f"The true target may be the feature '{name}': unlike the target given, it can be predicted from the other "
    text += f"features, {percent(found.score, 1)} of new rows right where its most frequent value has "
    text += f"{percent(found.base, 1)} (AUC {found.order:.2f})"
    if others:
        text += "; next comes " + ", then ".join(f"'{table.names[j]}' ({good[j].order:.2f})" for j in others)
    yield Finding("hidden-target", "serious", f"{text}.", (name,))


def _feature_skill(codes: Ints, inputs: Sequence[_Inputs], groups: Ints, models: Sequence[_Model]) -> _Skill | None:
    """Measure how well the others predict a feature; None if it could not be a target."""
    known = codes >= 0
    values, others = renumber(codes[known]), np.hstack(inputs)[known] if inputs else np.empty((0, 0), np.float32)
    counts = np.bincount(values, minlength=1)
    if len(counts) > _MOST_CLASSES or known.sum() < _ENOUGH[0] or known.sum() - counts.max() < _ENOUGH[1]:
        return None
    return _skill(others, values, None, groups[known], models) if others.shape[1] else None


def _avoided(found: _Skill) -> float:
    """Return the share of the constant guess's errors that are avoided."""
    return (found.score - found.base) / (1 - found.base)


def _is_derived(table: Table, codes: Ints, j: int) -> bool:
    """Tell whether one other column gives a feature away."""
    codes = codes[codes[:, j] >= 0]
    values = renumber(codes[:, j])
    return any(
        error_removed(renumber(codes[:, i]), categorical, values) >= _DERIVED
        for i, categorical in enumerate(table.is_categorical)
        if i != j
    )
