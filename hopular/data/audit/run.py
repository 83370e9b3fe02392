"""The audit itself: every check on one dataset, in the order of severity."""

from __future__ import annotations

from collections.abc import Sequence

from hopular.data.audit import columns, information, leaks, missing, parts, rows, shift, target, values
from hopular.data.audit.finding import Finding, in_order
from hopular.data.audit.table import make_table
from hopular.data.dataset import Dataset
from hopular.data.errors import DataError
from hopular.data.splits import Split, make_splits

TABLE_CHECKS = (
    *(rows.duplicates, rows.conflicts, rows.order),
    *(columns.constant, columns.id_like, columns.redundant),
    *(missing.overall, missing.by_column, missing.by_row, missing.by_target),
    *(target.imbalance, target.small_classes, leaks.leaks, information.information),
)
SPLIT_CHECKS = (parts.duplicates, parts.classes, parts.shared_test_rows, values.unseen, shift.features, shift.target)


def audit(dataset: Dataset, splits: Sequence[Split] | None = None) -> list[Finding]:
    """What is wrong or odd with a dataset, the worst first; the same every time.

    `splits` are by default those of the dataset's own protocol; an empty list leaves out the checks of splits.
    """
    table = make_table(dataset)
    findings = [finding for check in TABLE_CHECKS for finding in check(table)]
    if splits is None:
        try:
            splits = make_splits(dataset)
        except DataError as error:
            findings.append(Finding("no-splits", "warning", f"The rows cannot be divided as they should be: {error}."))
            splits = []
    for split in splits:
        _check_positions(split, len(dataset))
    if splits:
        findings += [finding for check in SPLIT_CHECKS for finding in check(table, splits)]
    return in_order(findings)


def _check_positions(split: Split, count: int) -> None:
    highest = max((int(rows[-1]) for rows in (split.train, split.valid, split.test) if len(rows)), default=-1)
    if highest >= count:
        raise DataError(
            f"split {split.id!r} has row {highest}, but the dataset has {count} rows, 0 to {count - 1}: "
            "audit a dataset with its own splits"
        )
