"""Splits that cannot be made: each says why, and what to do instead."""

from __future__ import annotations

import numpy as np
import pytest

from hopular.data.dataset import DataError, Protocol
from hopular.data.splits import Split, make_splits
from tests.data.test_splits import fixed, rows, table

# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((rows(0, 1), rows(2), rows(1, 3)), "split 'x': row 1 is in both train and test"),
        ((rows(0), rows(2, 3), rows(3)), "split 'x': row 3 is in both valid and test"),
        ((rows(1, 0), rows(2), rows(3)), "split 'x': train must be row positions from 0 on, sorted, none twice"),
        ((rows(0), rows(2, 2), rows(3)), "split 'x': valid must be row positions from 0 on, sorted, none twice"),
        ((rows(0), rows(2), rows(-1)), "split 'x': test must be row positions from 0 on, sorted, none twice"),
        ((np.zeros(1), rows(2), rows(3)), "split 'x': train must be a list of int64, not 1-d float64"),
        ((rows(0), rows(2), np.array([[3]])), "split 'x': test must be a list of int64, not 2-d int64"),
    ],
)
def test_bad_split(arrays, message):
    with pytest.raises(DataError) as error:
        Split("x", *arrays)
    assert str(error.value) == message


NUMBERS = np.arange(6.0)
ORDER = "use another order"


@pytest.mark.parametrize(
    ("dataset", "protocol", "message"),
    [
        (
            table(NUMBERS),
            Protocol(order="stratified"),
            "dataset 'toy' has no classes, which order 'stratified' needs: use order 'plain'",
        ),
        (
            table(NUMBERS),
            Protocol(order="grouped"),
            "dataset 'toy' has no group column, which order 'grouped' needs: "
            "name its group column, or use another order",
        ),
        (
            table(NUMBERS),
            Protocol(order="time"),
            "dataset 'toy' has no time column, which order 'time' needs: name its time column, or use another order",
        ),
        (
            table(NUMBERS),
            Protocol("fixed"),
            "dataset 'toy' has no parts, which scheme 'fixed' needs: "
            "name its split column, or use scheme 'kfold' or 'holdout'",
        ),
        (
            fixed("tve", "tvv"),
            None,
            "dataset 'toy': column 'fold 1' marks no row as 'test': mark some",
        ),
        (
            fixed("-ve"),
            None,
            "dataset 'toy': column 'fold 0' marks no row as 'train': mark some",
        ),
        (
            fixed("tee"),
            None,
            "dataset 'toy' has left 1 row, too few to take validation rows from: use more data, or another order",
        ),
        (
            table(NUMBERS),
            Protocol(folds=7),
            f"dataset 'toy' has 6 rows, fewer than 7 folds: ask for fewer folds, or {ORDER}",
        ),
        (
            table("aabcde"),
            Protocol(folds=3),
            "dataset 'toy' has 2 rows (beside 4 that must train with a whole class), fewer than 3 folds: "
            f"ask for fewer folds, or {ORDER}",
        ),
        (
            table("aabb"),
            Protocol(folds=2),
            "dataset 'toy' has left 0 rows (beside 2 that must train with a whole class), "
            "too few to take validation rows from: use more data, or another order",
        ),
        (
            table("abc"),
            Protocol("holdout"),
            "dataset 'toy' has 0 rows (beside 3 that must train with a whole class), "
            "too few to take test rows from: use more data, or another order",
        ),
        (
            table(NUMBERS, groups=[0, 0, 0, 1, 1, 2]),
            None,
            f"dataset 'toy' has 3 groups, fewer than 5 folds: ask for fewer folds, or {ORDER}",
        ),
        (
            table(NUMBERS, groups=[0, 0, 0, 1, 1, 1]),
            Protocol("holdout"),
            "dataset 'toy' has left 1 group, too few to take validation rows from: use more data, or another order",
        ),
        (
            table(NUMBERS, time=[1, 2, np.nan, 3, np.nan, 4]),
            None,
            f"dataset 'toy': time is missing in 2 rows: drop them, fill it in, or {ORDER}",
        ),
        (
            table(NUMBERS, time=[1, 2, 2, 3, 3, 4]),
            Protocol(folds=3),
            "dataset 'toy' has 4 different times to take test rows from, fewer than the 5 needed: "
            f"ask for fewer folds, or {ORDER}",
        ),
        (
            table(NUMBERS, time=[1, 1, 1, 1, 1, 2]),
            Protocol("holdout"),
            f"dataset 'toy' has 2 different times to take test rows from, fewer than the 3 needed: {ORDER}",
        ),
    ],
)
def test_bad_request(dataset, protocol, message):
    with pytest.raises(DataError) as error:
        make_splits(dataset, protocol)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"scheme": "kfolds"},
            "protocol: scheme 'kfolds' is unknown: use one of fixed, kfold, holdout. Did you mean 'kfold'?",
        ),
        (
            {"order": "x"},
            "protocol: order 'x' is unknown: use one of stratified, plain, grouped, time.",
        ),
        ({"scheme": None}, "protocol: scheme None is unknown: use one of fixed, kfold, holdout."),
        ({"folds": 1}, "protocol: folds is 1: use a whole number from 2 on"),
        ({"folds": 2.5}, "protocol: folds is 2.5: use a whole number from 2 on"),
        ({"test_share": 0.0}, "protocol: test_share is 0.0: use a number between 0 and 1, such as 0.2"),
        ({"valid_share": 1}, "protocol: valid_share is 1: use a number between 0 and 1, such as 0.2"),
        ({"valid_share": float("nan")}, "protocol: valid_share is nan: use a number between 0 and 1, such as 0.2"),
        ({"valid_share": "0.2"}, "protocol: valid_share is '0.2': use a number between 0 and 1, such as 0.2"),
        ({"seed": -1}, "protocol: seed is -1: use a whole number from 0 to 4294967295"),
        ({"seed": None}, "protocol: seed is None: use a whole number from 0 to 4294967295"),
        ({"seed": 2**32}, "protocol: seed is 4294967296: use a whole number from 0 to 4294967295"),
    ],
)
def test_bad_protocol(wrong, message):
    with pytest.raises(DataError) as error:
        Protocol(**wrong)
    assert str(error.value) == message
