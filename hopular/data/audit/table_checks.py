"""Checks of a table: columns, missing values, classes, rows, and single columns that give the target away."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import chi2_contingency, pearsonr, rankdata

from hopular.data.audit.table import Finding, Floats, Ints, Severity, Table, listing, of, shortened, verb
from hopular.formatting import percent

# -------------------------------------------------------------------------------------------------------------- columns


_ROWS_FOR_ID = 20  # below, a column with all values different means nothing
_NEARLY_ALL = 0.95  # share of different values that makes categories look like names of rows


def constant(table: Table) -> Iterator[Finding]:
    """Report columns with no value, one value, or one value and missing ones."""
    known = (table.codes >= 0).sum(axis=0)
    one = table.distinct == 1
    yield from _useless("all-missing-columns", "warning", known == 0, "no value at all and can be left out", table)
    everywhere = one & (known == len(table.codes))
    yield from _useless("constant-columns", "warning", everywhere, "one value only and can be left out", table)
    what = "one value beside missing ones: all there is to learn from is what is missing"
    yield from _useless("constant-or-missing-columns", "note", one & ~everywhere, what, table)


def _useless(
    check: str, severity: Severity, found: npt.NDArray[np.bool_], what: str, table: Table
) -> Iterator[Finding]:
    names = [name for name, is_one in zip(table.names, found, strict=True) if is_one]
    if names:
        who = f"{len(names)} columns ({listing(names)}) have" if len(names) > 1 else f"Column '{names[0]}' has"
        yield Finding(check, severity, f"{who} {what}.", tuple(names))


def id_like(table: Table) -> Iterator[Finding]:
    """Report columns that name or number the rows: nothing can be learned from them, or only the order of the rows.

    Dates, and the time by which rows are divided, may well rise with them.
    """
    for j, name in enumerate(table.names):
        codes = table.codes[:, j]
        known = int((codes >= 0).sum())
        if known < _ROWS_FOR_ID or name == table.clock or table.dataset.kinds[name] == "date":
            continue
        if table.is_categorical[j]:
            if table.distinct[j] >= _NEARLY_ALL * known:
                text = f"has {table.distinct[j]:,} different values in {known:,} rows"
                yield _id_like(name, f"{text}: it names the rows rather than describing them")
        elif table.distinct[j] == len(codes):
            how = _running(table.dataset.X.iloc[:, j].to_numpy(dtype=np.float64))
            if how:
                yield _id_like(name, f"{how}: it numbers the rows rather than describing them")


def _id_like(name: str, text: str) -> Finding:
    return Finding("id-like-columns", "warning", f"Column '{name}' {text}.", (name,))


def _running(values: Floats) -> str:
    """Say how a column without repeated or missing values counts the rows; empty if it does not."""
    whole = bool((values == np.round(values)).all())
    steps = np.diff(values)
    if whole and values.max() - values.min() == len(values) - 1:
        return f"has every whole number from {values.min():.0f} to {values.max():.0f} once"
    if (steps > 0).all() or (steps < 0).all():
        moves = "rises" if steps[0] > 0 else "falls"
        if whole:
            return f"has whole numbers and {moves} from row to row without exception"
        if np.ptp(steps) < 1e-6 * abs(steps[0]):
            return f"{moves} by the same step from row to row"
    return ""


def redundant(table: Table) -> Iterator[Finding]:
    """Report columns that say the same as another one."""
    for columns in table.redundant:
        names = tuple(table.names[j] for j in columns)
        text = f"Columns {listing(names)} say the same: each value of one goes with one value of the other"
        yield Finding("redundant-columns", "note", f"{text}.", names)


# ------------------------------------------------------------------------------------------------------- missing values


_MUCH_MISSING = 0.25  # share of missing cells worth a warning
_MOSTLY = 0.5  # share of missing cells that makes a column or row mostly missing
_MANY_ROWS = 0.05  # share of rows, mostly missing, worth a warning
_DIFFERENT = 0.1  # difference of missing shares, or correlation with the target, worth a note
_ROWS_FOR_SHARE = 10  # of a class, or missing and known, to speak of a share
_FALSE_NOTES = 0.001  # chance of a false note, over all columns


def overall(table: Table) -> Iterator[Finding]:
    """Report how many cells are missing."""
    missing = table.codes < 0
    count, columns = int(missing.sum()), int(missing.any(axis=0).sum())
    if count:
        severe = count / missing.size >= _MUCH_MISSING
        text = f"{of(count, missing.size, 'cells')} {verb(count, 'is', 'are')} missing"
        text += f", in {columns} of {missing.shape[1]} columns."
        yield Finding("missing-values", "warning" if severe else "note", text)


def by_column(table: Table) -> Iterator[Finding]:
    """Report columns that are mostly, but not wholly, missing."""
    share = (table.codes < 0).mean(axis=0)
    worst = [j for j in np.argsort(-share, kind="stable") if _MOSTLY <= share[j] < 1]
    if worst:
        names = tuple(table.names[j] for j in sorted(worst))
        text = f"{len(worst)} of {len(share)} columns {verb(len(worst), 'is', 'are')} at least half missing, "
        text += f"most of all '{table.names[worst[0]]}' ({percent(share[worst[0]])}): {listing(names)}."
        yield Finding("mostly-missing-columns", "warning", text, names)


def by_row(table: Table) -> Iterator[Finding]:
    """Report rows that are mostly or wholly missing."""
    share = (table.codes < 0).mean(axis=1)
    count, empty = int((share >= _MOSTLY).sum()), int((share == 1).sum())
    if count:
        text = f"{of(count, len(share), 'rows')} {verb(count, 'lacks', 'lack')} at least half of the features"
        text += f", {empty:,} of them all" if empty else ""
        severe = empty or count / len(share) >= _MANY_ROWS
        yield Finding("mostly-missing-rows", "warning" if severe else "note", f"{text}.")


def by_target(table: Table) -> Iterator[Finding]:
    """Report columns that are missing more often for some classes, or for higher or lower targets."""
    missing = table.codes < 0
    some = [j for j in range(missing.shape[1]) if 0 < missing[:, j].mean() < 1]
    found = [j for j in some if _goes_with_target(table, missing[:, j], _FALSE_NOTES / len(some))]
    if not found:
        return
    names = tuple(table.names[j] for j in found)
    what = verb(len(names), "column is missing", "columns are missing")
    if table.dataset.task == "classification":
        text = f"{len(names)} {what} more often in some classes than in others: {listing(names)}"
        counts = np.bincount(table.target)
        shares = np.where(counts >= _ROWS_FOR_SHARE, np.bincount(table.target, missing[:, found[0]]) / counts, np.nan)
        low, high = int(np.nanargmin(shares)), int(np.nanargmax(shares))
        text += f" ('{names[0]}': {percent(shares[low])} in class '{table.dataset.classes[low]}', "
        text += f"{percent(shares[high])} in class '{table.dataset.classes[high]}')"
    else:
        text = f"{len(names)} {what} more often where the target is low, or where it is high: {listing(names)}"
    yield Finding("missing-by-target", "note", f"{text}. What is missing tells of the target.", names)


def _goes_with_target(table: Table, missing: np.ndarray[tuple[int], np.dtype[np.bool_]], level: float) -> bool:
    if table.dataset.task == "classification":
        classes = len(table.dataset.classes)
        counts = np.stack([np.bincount(table.target[rows], minlength=classes) for rows in (missing, ~missing)])
        large = counts[:, counts.sum(axis=0) >= _ROWS_FOR_SHARE]
        if large.shape[1] < 2 or not large.sum(axis=1).all():
            return False
        shares = large[0] / large.sum(axis=0)
        return bool(np.ptp(shares) >= _DIFFERENT and chi2_contingency(large).pvalue < level)
    y = table.dataset.y.to_numpy(dtype=np.float64)
    if min(missing.sum(), (~missing).sum()) < _ROWS_FOR_SHARE:
        return False
    correlation = pearsonr(missing, y)
    return bool(abs(correlation.statistic) >= _DIFFERENT and correlation.pvalue < level)


# -------------------------------------------------------------------------------------------------------------- classes


_DOMINANT = 0.9  # share of rows of the largest class worth a warning
_UNEQUAL = 10  # times as many rows in the largest class as in the smallest
_SMALL = 10  # rows; a smaller class is too small to say how well it is predicted


def imbalance(table: Table) -> Iterator[Finding]:
    """Report a class with nearly all rows, or many times the rows of another."""
    if table.dataset.task != "classification":
        return
    counts, classes = np.bincount(table.target), table.dataset.classes
    most, least = int(counts.argmax()), int(counts.argmin())
    text = f"Class '{classes[most]}' has {percent(counts[most] / counts.sum())} of the rows"
    if counts[most] >= _DOMINANT * counts.sum():
        text += ", so always predicting it is right as often: do not judge by accuracy alone"
        yield Finding("imbalance", "warning", f"{text}.")
    elif counts[most] >= _UNEQUAL * counts[least]:
        text += f", {counts[most] / counts[least]:.0f} times as many as class '{classes[least]}'"
        yield Finding("imbalance", "note", f"{text}.")


def small_classes(table: Table) -> Iterator[Finding]:
    """Report classes of a few rows."""
    if table.dataset.task != "classification":
        return
    counts = np.bincount(table.target)
    small = [c for c in np.argsort(counts, kind="stable") if counts[c] < _SMALL]
    if small:
        what = shortened([f"'{table.dataset.classes[c]}' ({counts[c]})" for c in small])
        text = (
            f"{len(small)} of {len(counts)} classes {verb(len(small), 'has', 'have')} fewer than {_SMALL} rows: {what}"
        )
        yield Finding("small-classes", "warning", f"{text}. How well such classes are predicted is largely chance.")


# ----------------------------------------------------------------------------------------------------------------- rows


_ROWS_FOR_ORDER = 20  # to speak of an order
_MANY_COPIES = 0.05  # share of rows
_MUCH_CONFLICT = 0.05  # share of rows that nothing can predict right, or of the target's variance
_IN_BLOCKS = 0.5  # autocorrelation, or share of the runs of equal labels in shuffled rows that is lacking
_MUCH_ALIKE = 0.8  # the same, in the order of dates, that makes a score on random rows worthless


def duplicates(table: Table) -> Iterator[Finding]:
    """Report rows that repeat an earlier one, target included."""
    total = len(table.same)
    copies = int(pd.DataFrame({"row": table.same, "target": table.target}).duplicated().sum())
    if not copies:
        return
    repeats, chance = _repeats(table.same), float(np.mean([_repeats(rows) for rows in table.shuffled]))
    text = f"{of(copies, total, 'rows')} {verb(copies, 'repeats', 'repeat')} an earlier row, target included"
    if beyond_chance(repeats, chance):
        text += f"; by features alone it is {percent(repeats)}, where shuffled columns would make it {percent(chance)}"
        text += ": a case may be entered twice."
        yield Finding("duplicate-rows", "warning" if copies >= _MANY_COPIES * total else "note", text)
    else:
        yield Finding("duplicate-rows", "note", f"{text}; so few different values make that likely.")


def _repeats(rows: Ints) -> float:
    """Return the share of rows that repeat an earlier one."""
    return 1 - (int(rows.max()) + 1) / len(rows)


def beyond_chance(share: float, chance: float) -> bool:
    """Tell whether a share of repeated rows is clearly more than the values of the columns make likely."""
    return share >= 2 * chance


def conflicts(table: Table) -> Iterator[Finding]:
    """Report rows that agree in every feature, but not in the target."""
    frame = pd.DataFrame({"row": table.same, "target": table.target})
    conflicting = int((frame.groupby("row")["target"].transform("nunique") > 1).sum())
    if not conflicting:
        return
    text = f"{of(conflicting, len(frame), 'rows')} have the features of a row with another target"
    if table.dataset.task == "classification":
        lost = 1 - int(frame.value_counts().groupby("row").max().sum()) / len(frame)
        text += f"; no method can be right on more than {percent(1 - lost)} of the rows."
    else:
        y = table.dataset.y.to_numpy(dtype=np.float64)
        spread = y - pd.Series(y).groupby(table.same).transform("mean").to_numpy()
        lost = float(spread @ spread / ((y - y.mean()) @ (y - y.mean())))
        text += f"; {percent(lost)} of the target's variance is between such rows, and no method can explain it."
    yield Finding("conflicting-targets", "warning" if lost >= _MUCH_CONFLICT else "note", text)


def order(table: Table) -> Iterator[Finding]:
    """Report a target that is alike in neighbouring rows, in time or in the file: random parts then mislead.

    Rows that are divided in the order of time are as they should be.
    """
    if len(table.target) < _ROWS_FOR_ORDER or table.clock is not None:
        return
    in_time = [finding for j in range(len(table.names)) if (finding := _in_time(table, j))]
    yield from in_time[:1]
    if in_time:
        return
    alike, how = _likeness(table, np.arange(len(table.target)))
    if alike < _IN_BLOCKS:
        return
    steps, text = np.diff(table.target), f"{how}. {_IF_TIME}"
    is_sorted, is_numbers = (steps >= 0).all() or (steps <= 0).all(), table.dataset.task == "regression"
    if is_sorted and not is_numbers:
        text = "Rows are sorted by class: shuffle them before cutting them into parts."
    yield Finding("sorted-rows", "warning" if is_numbers and not is_sorted else "note", text)


def _in_time(table: Table, j: int) -> Finding | None:
    """Look at the rows in the order of a column of dates."""
    codes, name = table.codes[:, j], table.names[j]
    if table.dataset.kinds[name] != "date" or table.distinct[j] < _ROWS_FOR_ORDER:
        return None
    rows = np.argsort(codes, kind="stable")
    alike, how = _likeness(table, rows[codes[rows] >= 0])
    if alike < _IN_BLOCKS:
        return None
    text = f"In the order of '{name}', {how[0].lower()}{how[1:]}: a score on rows drawn at random says little of "
    text += (
        f"later ones, since it is read from their neighbours in time. To test on later rows: --time {shlex.quote(name)}"
    )
    return Finding("sorted-rows", "serious" if alike >= _MUCH_ALIKE else "warning", text, (name,))


_IF_TIME = (
    "If the order is that of time, test on later rows, by --time COLUMN: parts drawn at random make the test easier "
    "than it will be."
)


def _likeness(table: Table, rows: Ints) -> tuple[float, str]:
    """Measure how much the target of rows in this order is like that of the row before, 0 (not) to 1, and say so."""
    if table.dataset.task == "regression":
        values = table.dataset.y.to_numpy(dtype=np.float64)[rows]
        centred = values - values.mean()
        alike = float(centred[1:] @ centred[:-1] / max(centred @ centred, np.finfo(float).tiny))
        return alike, f"The target of a row is much like that of the row before (autocorrelation {alike:.2f})"
    y = table.target[rows]
    runs = 1 + int((y[1:] != y[:-1]).sum())
    expected = len(y) + 1 - float((np.bincount(y) ** 2).sum()) / len(y)
    text = f"Neighbours are often of one class ({runs:,} blocks, where shuffled rows make {expected:,.0f})"
    return 1 - runs / expected, text


# ---------------------------------------------------------------------------------------------------------------- leaks


_ROWS_FOR_LEAK = 50
_ERRORS_FOR_LEAK = 10  # rows that the constant guess gets wrong
_MOST_CLASSES = 100  # with more, the check would take too long
_SERIOUS = {"classification": 0.98, "regression": 0.999}  # share of the constant guess's error that is removed
_SUSPECT = {"classification": 0.95, "regression": 0.99}


def leaks(table: Table) -> Iterator[Finding]:
    """Report columns that predict the target, or the order of its values, almost perfectly by themselves."""
    task, classes = table.dataset.task, table.target
    ranks = rankdata(classes) if task == "regression" else None
    if len(table.dataset.classes) > _MOST_CLASSES:
        return
    for j, name in enumerate(table.names):
        rows = _rows_to_judge(table, j)
        count, wrong = len(rows), len(rows) - int(np.bincount(classes[rows]).max())
        if count < _ROWS_FOR_LEAK or wrong < _ERRORS_FOR_LEAK:
            continue
        numbers = None if ranks is None else ranks[rows]
        removed = error_removed(table.codes[rows, j], table.is_categorical[j], classes[rows], numbers)
        if removed < _SUSPECT[task]:
            continue
        if task == "classification":
            text = f"is enough to predict {percent(1 - (1 - removed) * wrong / count)} of the rows right"
            text += f", where always predicting the most frequent class is right on {percent(1 - wrong / count)}"
        else:
            text = f"tells the order of the target by itself ({percent(removed)} of the variance of its ranks)"
        text = f"Column '{name}' {text}: it may be made from the target, or known only after it."
        yield Finding("leaking-columns", "serious" if removed >= _SERIOUS[task] else "warning", text, (name,))


def _rows_to_judge(table: Table, j: int) -> Ints:
    """Pick the rows to judge a column by: no copies if its values hardly repeat, since these would tell the target."""
    different = table.different
    if len(different) >= _ROWS_FOR_LEAK and table.distinct[j] > len(different) / 2:
        return different
    return np.arange(len(table.codes))


def error_removed(codes: Ints, is_categorical: bool, classes: Ints, numbers: Floats | None = None) -> float:
    """Return the share of a constant guess's error that disappears if each row is predicted from one column.

    A row is predicted by the other rows with its value; if there are none and values have an order, by those with the
    next value on either side. Error is the number of rows wrong, or the sum of squares for `numbers`.
    """
    if numbers is not None:
        centred = (numbers - numbers.mean())[:, None]
        rest = centred - _from_others(codes, is_categorical, centred)
        return float(1 - (rest**2).sum() / (centred**2).sum())
    indicators = np.eye(int(classes.max()) + 1)[classes]
    guesses = _from_others(codes, is_categorical, indicators).argmax(axis=1)
    return float(1 - (guesses != classes).sum() / (len(classes) - np.bincount(classes).max()))


def _from_others(codes: Ints, is_categorical: bool, targets: Floats) -> Floats:
    """Average the target of the other rows with the same value, or else with the next values, or else of all rows."""
    values = codes + 1  # 0 is missing
    counts = np.bincount(values, minlength=2).astype(np.float64)[:, None]
    sums = np.column_stack([np.bincount(values, weights=column, minlength=2) for column in targets.T])
    predicted = (sums[values] - targets) / np.maximum(counts[values] - 1, 1)
    alone = counts[values, 0] == 1
    predicted[alone] = (targets.sum(axis=0) - targets[alone]) / (len(targets) - 1)
    if not is_categorical:
        means = sums[1:] / np.maximum(counts[1:], 1)
        nearby = (np.vstack([means[1:2], means[:-1]]) + np.vstack([means[1:], means[-2:-1]])) / 2
        numbered = alone & (codes >= 0) & (len(means) > 1)
        predicted[numbered] = nearby[codes[numbered]]
    return np.asarray(predicted, dtype=np.float64)
