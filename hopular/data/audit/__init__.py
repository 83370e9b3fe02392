"""Audit: what is wrong or odd with a dataset and its splits, found from the data alone."""

from __future__ import annotations

from collections.abc import Sequence

from hopular.data.audit import split_checks, table_checks
from hopular.data.audit.information import information
from hopular.data.audit.table import Finding, by_severity, make_table
from hopular.data.dataset import DataError, Dataset
from hopular.data.splits import Split, make_splits

__all__ = ["Finding", "audit"]

_TABLE_CHECKS = (
    *(table_checks.duplicates, table_checks.conflicts, table_checks.order),
    *(table_checks.constant, table_checks.id_like, table_checks.redundant),
    *(table_checks.overall, table_checks.by_column, table_checks.by_row, table_checks.by_target),
    *(table_checks.imbalance, table_checks.small_classes, table_checks.leaks, information),
)
_SPLIT_CHECKS = (
    *(split_checks.duplicates, split_checks.classes, split_checks.shared_test_rows),
    *(split_checks.unseen, split_checks.features, split_checks.target),
)


def audit(dataset: Dataset, splits: Sequence[Split] | None = None) -> list[Finding]:
    """Find what is wrong or odd with a dataset, the worst first; the same every time.

    `splits` are by default those of the dataset's own protocol; an empty list leaves out the checks of splits.
    """
    table = make_table(dataset)
    findings = [finding for check in _TABLE_CHECKS for finding in check(table)]
    if splits is None:
        try:
            splits = make_splits(dataset)
        except DataError as error:
            findings.append(Finding("no-splits", "warning", f"The rows cannot be divided as they should be: {error}."))
            splits = []
    for split in splits:
        _check_positions(split, len(dataset))
    if splits:
        findings += [finding for check in _SPLIT_CHECKS for finding in check(table, splits)]
    return by_severity(findings)


def _check_positions(split: Split, count: int) -> None:
    highest = max((int(rows[-1]) for rows in (split.train, split.valid, split.test) if len(rows)), default=-1)
    if highest >= count:
        raise DataError(
            f"split {split.id!r} has row {highest}, but the dataset has {count} rows, 0 to {count - 1}: "
            "audit a dataset with its own splits"
        )
