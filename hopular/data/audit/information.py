"""Information: whether the features tell anything of the target.

The best of three small models (linear, and two kinds of forest) is judged on rows it was not fitted on, in five folds
of at most 2,000 rows of the 20 largest classes. Identical rows share a fold, unless less than a quarter are different.
Most tables are seen to be informative by the first model; the others are fitted only in doubt.

- `no-information` (serious): no model gets more rows right than the largest class has, beyond noise, and even the upper
  end of the best AUC (one-sided, 95 %) is below 0.7, by custom the least that is called acceptable. A trace of
  information may be left: the sentence then says 'next to nothing' for 'nothing'.
- `weak-information` (warning): the same, but the upper end is above: too few rows to call it nothing.

A number as target is judged by R² in place of the rows right and by rank correlation, limit 0.3, in place of AUC.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hopular.data.audit.finding import Finding, Severity, percent
from hopular.data.audit.hidden import hidden_target
from hopular.data.audit.reference import DEEP_FOREST, FOLDS, FOREST, LINEAR, Skill, encode, skill
from hopular.data.audit.table import SEED, Ints, Table, renumber

MOST_ROWS = 2000
MOST_CLASSES = 20
MOST_COPIES = 4  # of a row, on average; with more, rows are alike since there are few different ones
FEWEST = (20, 10)  # rows, and rows outside the largest class, below which there is nothing to measure
ENOUGH = (100, 50)  # the same, below which the lack of information is a warning only
ACCEPTABLE = {"classification": 0.7, "regression": 0.3}  # AUC, rank correlation
CHANCE = {"classification": 0.5, "regression": 0.0}  # a trace of information is three standard errors above


def information(table: Table) -> Iterator[Finding]:
    """Features that tell next to nothing of the target, and a feature that may be the true one."""
    is_classes = table.dataset.task == "classification"
    rows = np.arange(len(table.codes))
    if is_classes:
        rows = rows[np.isin(table.target, np.argsort(-np.bincount(table.target), kind="stable")[:MOST_CLASSES])]
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(SEED).permutation(rows)[:MOST_ROWS])
    classes = renumber(table.target[rows])
    others = len(rows) - int(np.bincount(classes).max())
    inputs = np.hstack(encode(table.dataset.X.iloc[rows]))
    if len(rows) < FEWEST[0] or others < FEWEST[1] or not inputs.shape[1]:
        return
    numbers = None if is_classes else table.dataset.y.to_numpy(dtype=np.float64)[rows]
    groups, limit = _groups(table, rows), ACCEPTABLE[table.dataset.task]
    models = (LINEAR, FOREST, DEEP_FOREST)
    found = skill(inputs, classes if is_classes else None, numbers, groups, models, enough=limit)
    if found.beats or found.lower > limit:
        return
    if found.upper >= limit:
        yield _finding("weak-information", "warning", "little", found, table)
    elif len(rows) < ENOUGH[0] or others < ENOUGH[1]:
        yield _finding("no-information", "warning", "next to nothing, as far as so few rows can show,", found, table)
    else:
        trace = found.order - 3 * found.error > CHANCE[table.dataset.task]
        yield _finding("no-information", "serious", "next to nothing" if trace else "nothing", found, table)
        yield from hidden_target(table, rows, groups)


def _finding(check: str, severity: Severity, much: str, found: Skill, table: Table) -> Finding:
    text = f"The features tell {much} about the target '{table.dataset.y.name}': the best of three models "
    if table.dataset.task == "classification":
        text += f"is right on {percent(found.score, 1)} of new rows, always saying the most frequent class on "
        text += f"{percent(found.base, 1)}, and its AUC is {found.order:.2f} ± {found.error:.2f} (0.5 is chance)."
    else:
        text += f"has R² {found.score:z.2f} on new rows and rank correlation {found.order:z.2f} ± {found.error:.2f}."
    return Finding(check, severity, text)


def _groups(table: Table, rows: Ints) -> Ints:
    """Rows that must share a fold: the dataset's groups, or else identical rows, unless they must repeat."""
    if table.dataset.groups is not None:
        groups = pd.factorize(table.dataset.groups.iloc[rows])[0].astype(np.int64)
        alone = groups < 0  # without a group, a row is one by itself
        groups[alone] = len(rows) + np.arange(alone.sum())
        enough = 2 * FOLDS
    else:
        groups, enough = table.same[rows], len(rows) // MOST_COPIES
    return groups if len(np.unique(groups)) >= enough else np.arange(len(rows))
