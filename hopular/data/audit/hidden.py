"""Hidden target: where the given target cannot be predicted, a feature that can be, and so may be the true one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hopular.data.audit.finding import Finding, percent
from hopular.data.audit.leaks import error_removed
from hopular.data.audit.reference import FOREST, LINEAR, Inputs, Model, Skill, encode, skill
from hopular.data.audit.table import Ints, Table, renumber

MOST_CLASSES = 20
ENOUGH = (100, 50)  # known values, and those that are not the most frequent one
SCREENED = 0.25  # share of the constant guess's errors that a linear model must avoid
PREDICTED = 0.5  # the same for the best model
DERIVED = 0.98  # the same from one column alone: then the feature is made from that column, and no target
COMPARED = 2  # features that a forest predicts as well
SCREEN = replace(LINEAR, rounds=1)
SMALL_FOREST = replace(FOREST, rounds=10)


def hidden_target(table: Table, rows: Ints, groups: Ints) -> Iterator[Finding]:
    """The categorical feature that the others predict best, if they do it well."""
    codes, inputs = table.codes[rows], encode(table.dataset.X.iloc[rows])
    screened = {}
    for j in np.flatnonzero(table.is_categorical).tolist():
        found = _skill(codes[:, j], inputs[:j] + inputs[j + 1 :], groups, (SCREEN,))
        if found and _avoided(found) >= SCREENED and not _is_derived(table, codes, j):
            screened[j] = found
    good = {}
    for j in sorted(screened, key=lambda j: -screened[j].order)[:COMPARED]:
        found = _skill(codes[:, j], inputs[:j] + inputs[j + 1 :], groups, (LINEAR, SMALL_FOREST))
        if found and _avoided(found) >= PREDICTED:
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


def _skill(codes: Ints, inputs: Sequence[Inputs], groups: Ints, models: Sequence[Model]) -> Skill | None:
    """How well a feature is predicted from the others, if it has the makings of a target."""
    known = codes >= 0
    values, others = renumber(codes[known]), np.hstack(inputs)[known] if inputs else np.empty((0, 0), np.float32)
    counts = np.bincount(values, minlength=1)
    if len(counts) > MOST_CLASSES or known.sum() < ENOUGH[0] or known.sum() - counts.max() < ENOUGH[1]:
        return None
    return skill(others, values, None, groups[known], models) if others.shape[1] else None


def _avoided(found: Skill) -> float:
    """The share of the constant guess's errors that are avoided."""
    return (found.score - found.base) / (1 - found.base)


def _is_derived(table: Table, codes: Ints, j: int) -> bool:
    """Whether one other column gives a feature away."""
    codes = codes[codes[:, j] >= 0]
    values = renumber(codes[:, j])
    return any(
        error_removed(renumber(codes[:, i]), categorical, values) >= DERIVED
        for i, categorical in enumerate(table.is_categorical)
        if i != j
    )
