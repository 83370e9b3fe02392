"""Checks of splits as sets of rows: copies across parts, classes without rows, test parts that overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from hopular.data.audit.finding import Finding, Severity, listing, of, percent, verb
from hopular.data.audit.rows import beyond_chance
from hopular.data.audit.table import Ints, Table
from hopular.data.splits import Split

MANY_COPIES = 0.1  # share of test rows that occur in training
RARE = 0.01  # the share to expect by chance below which such rows must be copies


def duplicates(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Test rows whose features occur in training."""
    shares = [_trained_share(table.same, split) for split in splits]
    worst = int(np.argmax(shares))
    if not shares[worst]:
        return
    chance = float(np.mean([_trained_share(rows, splits[worst]) for rows in table.shuffled]))
    count, total = round(shares[worst] * len(splits[worst].test)), len(splits[worst].test)
    severity: Severity = "note"
    text = f"{of(count, total, 'test rows')} {verb(count, 'has', 'have')} the features of a training row"
    text = f"{where(splits, [i for i, share in enumerate(shares) if share], worst)}{text}"
    if not beyond_chance(shares[worst], chance):
        text += "; so few different values make that likely"
    elif shares[worst] >= MANY_COPIES:
        severity = "serious" if chance < RARE else "warning"
        text += f", where shuffled columns would make it {percent(chance)}: methods that remember rows are rewarded"
    yield Finding("duplicates-across-parts", severity, f"{text}.", split=splits[worst].id)


def _trained_share(rows: Ints, split: Split) -> float:
    return float(np.isin(rows[split.test], rows[split.train]).mean()) if len(split.test) else 0.0


def classes(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Classes without a row in a part; worst if they are tested but not trained."""
    if table.dataset.task != "classification":
        return
    names = np.array(table.dataset.classes, dtype=object)
    everything = np.arange(len(names))
    untrained = [np.setdiff1d(table.target[s.test], table.target[s.train]) for s in splits]
    yield from _absent("classes-not-in-training", "serious", untrained, splits, names, "tested but not trained")
    for part, rows in (("validation", [s.valid for s in splits]), ("test", [s.test for s in splits])):
        absent = [np.setdiff1d(everything, table.target[r]) if len(r) else everything[:0] for r in rows]
        yield from _absent(f"classes-not-in-{part}", "note", absent, splits, names, f"not in the {part} part")


def _absent(
    check: str,
    severity: Severity,
    absent: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]],
    splits: Sequence[Split],
    names: np.ndarray[tuple[int], np.dtype[np.object_]],
    what: str,
) -> Iterator[Finding]:
    found = [i for i, missing in enumerate(absent) if len(missing)]
    if found:
        worst = max(found, key=lambda i: len(absent[i]))
        which = names[absent[worst]].tolist()
        text = f"{where(splits, found, worst)}{len(which)} of {len(names)} classes "
        text += f"{verb(len(which), 'is', 'are')} {what}: {listing(which)}."
        yield Finding(check, severity, text, split=splits[worst].id)


def shared_test_rows(table: Table, splits: Sequence[Split]) -> Iterator[Finding]:
    """Splits that test on the same rows, so that their scores are not independent."""
    shared = [len(np.intersect1d(a.test, b.test)) for a, b in combinations(splits, 2)]
    if not any(shared):
        return
    if len({split.test.tobytes() for split in splits}) == 1:
        text = f"All {len(splits)} splits test on the same {len(splits[0].test):,} rows: "
        text += "the spread of their scores says nothing about other test rows."
    else:
        text = f"Test parts overlap, two of the {len(splits)} splits in up to {max(shared):,} rows: "
        text += "their scores are not independent."
    yield Finding("shared-test-rows", "note", text)


def where(splits: Sequence[Split], found: Sequence[int], worst: int) -> str:
    """The beginning of a sentence about some of the splits, with the numbers of the worst one."""
    if len(splits) == 1:
        return ""
    if len(found) == 1:
        return f"In split '{splits[worst].id}' of {len(splits)}: "
    some = f"all {len(splits)}" if len(found) == len(splits) else f"{len(found)} of {len(splits)}"
    return f"In {some} splits (worst '{splits[worst].id}'): "
