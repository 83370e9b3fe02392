"""Splits: scikit-learn's own where it can, rare classes kept in training, groups and time respected, clear errors."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    train_test_split,
)

from hopular.data.dataset import DataError, Dataset, Protocol
from hopular.data.splits import FEW_ROWS, MANY_FOLDS, SOME_FOLDS, SOME_ROWS, Split, inner_folds, make_splits

CLASSES = list("abc")
seeds = st.integers(0, 2**32 - 1)
shares = st.floats(0.01, 0.99)


def table(y, **extra):
    """Make a dataset with target `y`: strings are classes, numbers a regression."""
    y = pd.Series(list(y))
    task = "regression" if pd.api.types.is_numeric_dtype(y) else "classification"
    y = y.astype("float64" if task == "regression" else "category")
    extra = {name: pd.Series(value) if name in ("groups", "time") else value for name, value in extra.items()}
    return Dataset("toy", pd.DataFrame({"x": np.arange(len(y), dtype=float)}), y, task, "made up", **extra)


def some_classes(n, seed=0, p=(0.6, 0.3, 0.1)):
    return np.random.default_rng(seed).choice(CLASSES, n, p=p)


def rows(*positions):
    return np.array(positions, dtype=np.int64)


def parts(split):
    return split.train, split.valid, split.test


def same(split, train, valid, test):
    return all(np.array_equal(a, np.sort(b)) for a, b in zip(parts(split), (train, valid, test), strict=True))


def check(dataset, splits, complete=True):
    """Check what holds of every split that is made: no part empty, no row twice, and no row lost."""
    for split in splits:
        assert all(len(part) for part in parts(split))
        union = np.concatenate(parts(split))
        assert len(np.unique(union)) == len(union)
        assert not complete or len(union) == len(dataset)


# ------------------------------------------------------------------------------------------------ one with scikit-learn


@pytest.mark.parametrize(("folds", "share", "seed"), [(5, 0.2, 1), (5, 0.125, 1), (2, 0.5, 0), (10, 0.33, 12345)])
@pytest.mark.parametrize("order", ["stratified", "plain", "regression"])
def test_kfold_is_the_one_of_the_paper(order, folds, share, seed):
    y = np.random.default_rng(5).normal(size=503) if order == "regression" else some_classes(503)
    stratified = order == "stratified"
    protocol = Protocol(folds=folds, valid_share=share, seed=seed, order="plain" if order == "plain" else None)
    splits = make_splits(table(y), protocol)
    maker = (StratifiedKFold if stratified else KFold)(n_splits=folds, shuffle=True, random_state=seed)
    assert len(splits) == folds
    for i, (rest, test) in enumerate(maker.split(np.zeros(len(y)), y)):
        train, valid = train_test_split(
            rest, test_size=share, random_state=seed, shuffle=True, stratify=y[rest] if stratified else None
        )
        assert same(splits[i], train, valid, test)
        assert splits[i].id == f"kfold{folds}-seed{seed}-{i}"


def test_sizes_are_those_published_for_blastchar():
    splits = make_splits(table(["n"] * 5164 + ["y"] * 1857), Protocol(folds=5, valid_share=0.2, seed=1))
    assert [tuple(map(len, parts(s))) for s in splits] == [(4492, 1124, 1405)] + [(4493, 1124, 1404)] * 4


@pytest.mark.parametrize("order", ["stratified", "plain"])
def test_holdout_is_two_draws_of_scikit_learn(order):
    y = some_classes(301)

    def draw(positions, share):
        labels = y[positions] if order == "stratified" else None
        return train_test_split(positions, test_size=share, random_state=7, shuffle=True, stratify=labels)

    rest, test = draw(np.arange(len(y)), 0.3)
    [split] = make_splits(table(y), Protocol("holdout", test_share=0.3, valid_share=0.1, seed=7, order=order))
    assert same(split, *draw(np.sort(rest), 0.1), test)
    assert split.id == "holdout-seed7"


@pytest.mark.parametrize("maker", [StratifiedGroupKFold, GroupKFold])
def test_grouped_test_parts_are_those_of_scikit_learn(maker):
    groups = np.repeat(np.arange(40), 6)
    y = some_classes(240, p=(0.4, 0.3, 0.3)) if maker is StratifiedGroupKFold else np.arange(240.0)
    splits = make_splits(table(y, groups=groups), Protocol(folds=4, seed=3))
    expected = maker(4, shuffle=True, random_state=3).split(y, y, groups)
    assert all(np.array_equal(s.test, test) for s, (_, test) in zip(splits, expected, strict=True))


def test_time_windows_are_those_of_scikit_learn():
    time = np.random.default_rng(0).permutation(103).astype(float)
    splits = make_splits(table(np.arange(103.0), time=time), Protocol(folds=4, valid_share=0.25))
    by_time = np.argsort(time)
    for split, (rest, test) in zip(splits, TimeSeriesSplit(4).split(time), strict=True):
        valid = int(np.ceil(0.25 * len(rest)))
        assert same(split, by_time[rest[:-valid]], by_time[rest[-valid:]], by_time[test])


def test_order_of_categories_does_not_matter():
    y = pd.Series(some_classes(90))
    X = pd.DataFrame({"x": np.zeros(90)})
    types = [pd.CategoricalDtype(list(order)) for order in ("abc", "cab", "zcba")]
    sets = [Dataset("toy", X, y.astype(dtype), "classification", "") for dtype in types]
    assert len({tuple(s.fingerprint for s in make_splits(d)) for d in sets}) == 1


# ------------------------------------------------------------------------------------------------- any table, any order


@given(st.integers(15, 60), st.integers(2, 8), shares, seeds)
@settings(max_examples=40, deadline=None)
def test_plain(n, folds, share, seed):
    dataset = table(np.arange(float(n)))
    splits = make_splits(dataset, Protocol(folds=folds, valid_share=share, seed=seed))
    check(dataset, splits)
    assert np.array_equal(np.sort(np.concatenate([s.test for s in splits])), np.arange(n))
    holdout = make_splits(dataset, Protocol("holdout", test_share=0.3, valid_share=share, seed=seed))
    check(dataset, holdout)


messy_classes = st.lists(st.sampled_from("aaaaaabbbcdefghi"), max_size=50).map(lambda y: [*"aaaabbbb", *y])


@given(messy_classes, st.integers(2, 7), shares, seeds)
@settings(max_examples=80, deadline=None)
def test_stratified_keeps_rare_classes_in_training(y, folds, share, seed):
    dataset = table(y)
    counts = dataset.y.value_counts()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        splits = make_splits(dataset, Protocol(folds=folds, valid_share=share, seed=seed))
    check(dataset, splits)
    assert np.array_equal(np.sort(np.concatenate([s.test for s in splits])), np.flatnonzero(counts[y] > 1))
    sizes = [len(s.test) for s in splits]
    assert max(sizes) - min(sizes) <= 1
    for split in splits:
        assert set(dataset.y.iloc[split.train]) == set(y)
        tested = dataset.y.iloc[split.test].value_counts()
        assert all(abs(tested[c] - counts[c] / folds) < 1 for c in counts.index if counts[c] > 1)


@given(messy_classes, shares, st.floats(0.01, 0.5), seeds)
@settings(max_examples=80, deadline=None)
def test_stratified_holdout_keeps_rare_classes_in_training(y, valid_share, test_share, seed):
    dataset = table(y)
    splits = make_splits(dataset, Protocol("holdout", test_share=test_share, valid_share=valid_share, seed=seed))
    check(dataset, splits)
    assert set(dataset.y.iloc[splits[0].train]) == set(y)


def test_stratified_parts_have_the_proportions_of_the_whole():
    y = some_classes(1000)
    counts = pd.Series(y).value_counts()
    for split in make_splits(table(y)):
        for part, share in zip(parts(split), (0.64, 0.16, 0.2), strict=True):
            assert ((pd.Series(y[part]).value_counts() - counts * share).abs() <= 2).all()


def test_more_folds_than_rows_of_any_class_are_dealt_out_by_class():
    y = np.array(list("aaabbbccc"))
    splits = make_splits(table(y), Protocol(folds=4))
    assert sorted(len(s.test) for s in splits) == [2, 2, 2, 3]
    assert all(len(set(y[s.test])) == len(s.test) for s in splits)
    assert all(set(y[s.train]) == set("abc") for s in splits)


@given(st.data(), st.integers(2, 4), st.booleans(), shares, seeds)
@settings(max_examples=60, deadline=None)
def test_groups_stay_together(data, folds, classes, share, seed):
    """Eight groups with two to six rows, each of classes a and b at least, and rows without a group."""
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=8, max_size=8))
    groups = [*range(8), *range(8), *np.repeat(range(8), sizes), *[None] * data.draw(st.integers(0, 9))]
    n = len(groups)
    y = np.array([*"aaaaaaaabbbbbbbb", *some_classes(n - 16, seed % 100)]) if classes else np.arange(float(n))
    dataset = table(y, groups=pd.Series(groups, dtype="object"))
    kfold = make_splits(dataset, Protocol(folds=folds, valid_share=share, seed=seed))
    holdout = make_splits(dataset, Protocol("holdout", test_share=0.3, valid_share=share, seed=seed))
    check(dataset, kfold + holdout)
    groups = np.array([f"row {i}" if g is None else g for i, g in enumerate(groups)], dtype=object)
    for split in kfold + holdout:
        assert sum(len(set(groups[part])) for part in parts(split)) == len(set(groups))
        assert not classes or set(y[split.train]) == set(y)
    tested = np.concatenate([s.test for s in kfold])
    assert len(np.unique(tested)) == len(tested)
    assert classes or len(tested) == n


def test_a_group_that_holds_a_whole_class_always_trains():
    y, groups = ["a"] * 12 + ["b"] * 3, [*np.arange(12) // 2, 6, 6, 6]
    for scheme in ("kfold", "holdout"):
        for split in make_splits(table(y, groups=groups), Protocol(scheme, folds=3)):
            assert set(rows(12, 13, 14)) <= set(split.train)


def test_the_only_group_that_need_not_train_validates():
    dataset = fixed("ttttttee", y=list("adbcabab"), groups=[0, 0, 1, 1, 2, 2, 3, 3])
    [split] = make_splits(dataset)
    assert same(split, range(4), [4, 5], [6, 7])


def test_groups_with_more_folds_than_rows_of_any_class():
    y, groups = np.array(list("aabbccdd")), np.arange(8)
    splits = make_splits(table(y, groups=groups), Protocol(folds=4))
    check(y, splits)
    assert all(len(s.test) in (1, 2) for s in splits)
    assert all(set(y[s.train]) == set(y) for s in splits)


def test_a_class_whose_groups_are_tested_together_gets_one_back():
    """StratifiedGroupKFold tests both groups with class b in one fold; the first of them trains instead."""
    made_of = ["aaaaab", "aaacccc", "aaaaa", "aacc", "a", "aaaaccccb"]
    y = np.array(list("".join(made_of)))
    groups = np.repeat(np.arange(6), [len(group) for group in made_of])
    expected = list(StratifiedGroupKFold(2, shuffle=True, random_state=1).split(y, y, groups))
    [robbed] = [i for i, (rest, _) in enumerate(expected) if "b" not in y[rest]]
    splits = make_splits(table(y, groups=groups), Protocol(folds=2))
    assert np.array_equal(splits[1 - robbed].test, expected[1 - robbed][1])
    test = expected[robbed][1]
    assert np.array_equal(splits[robbed].test, test[groups[test] != 0])
    assert all(set(y[s.train]) == set("abc") for s in splits)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.8])
def test_share_of_groups(share):
    dataset = table(np.arange(400.0), groups=np.arange(400) // 4)
    [split] = make_splits(dataset, Protocol("holdout", test_share=share, valid_share=share))
    assert len(split.test) == pytest.approx(share * 400, abs=4)
    assert len(split.valid) == pytest.approx(share * (400 - len(split.test)), abs=4)


@given(st.lists(st.integers(0, 30), min_size=20, max_size=60), st.integers(2, 4), shares, shares)
@settings(max_examples=100, deadline=None)
def test_time_moves_forward(time, folds, test_share, share):
    time = np.array([*time, 31, 32, 33, 34, 35, 36], dtype=float)
    dataset = table(np.arange(float(len(time))), time=time)
    kfold = make_splits(dataset, Protocol(folds=folds, valid_share=share))
    holdout = make_splits(dataset, Protocol("holdout", test_share=test_share, valid_share=share))
    check(dataset, kfold, complete=False)
    check(dataset, holdout)
    for split in kfold + holdout:
        assert time[split.train].max() < time[split.valid].min() <= time[split.valid].max() < time[split.test].min()
    for earlier, later in pairwise(kfold):
        assert np.array_equal(np.sort(np.concatenate(parts(earlier))), np.union1d(later.train, later.valid))
    check(dataset, kfold[-1:])


def test_a_cut_in_time_moves_to_the_nearest_change():
    time = [0.0] * 3 + [1.0] * 3 + [2.0] * 5 + [3.0]
    [split] = make_splits(table(np.arange(12.0), time=time), Protocol("holdout", test_share=0.25, valid_share=0.4))
    assert same(split, range(6), range(6, 11), [11])
    [split] = make_splits(table(np.arange(12.0), time=time), Protocol("holdout", test_share=0.4, valid_share=0.4))
    assert same(split, range(3), range(3, 6), range(6, 12))


@pytest.mark.parametrize("extra", [{}, {"groups": np.arange(200) // 2}])
@pytest.mark.parametrize("scheme", ["kfold", "holdout"])
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_the_seed_decides(task, scheme, extra):
    dataset = table(some_classes(200) if task == "classes" else np.arange(200.0), **extra)

    def prints(seed):
        return [s.fingerprint for s in make_splits(dataset, Protocol(scheme, seed=seed))]

    assert prints(1) == prints(1)
    assert not set(prints(1)) & set(prints(2))


@pytest.mark.parametrize(
    ("extra", "order"),
    [
        ({}, "stratified"),
        ({"groups": np.arange(60) // 3}, "grouped"),
        ({"time": np.arange(60.0)}, "time"),
        ({"groups": np.arange(60) // 3, "time": np.arange(60.0)}, "time"),
    ],
)
def test_order_by_default(extra, order):
    dataset = table(some_classes(60, p=(0.4, 0.3, 0.3)), **extra)
    given_order = [s.fingerprint for s in make_splits(dataset, Protocol(order=order))]
    assert [s.fingerprint for s in make_splits(dataset)] == given_order


def test_protocol_of_the_dataset_is_the_default():
    dataset = table(some_classes(60), protocol=Protocol(folds=3, seed=4))
    assert [s.id for s in make_splits(dataset)] == ["kfold3-seed4-0", "kfold3-seed4-1", "kfold3-seed4-2"]


# ---------------------------------------------------------------------------------------------------------- fixed parts


def fixed(*columns, y=None, **extra):
    marks = {"t": "train", "v": "valid", "e": "test", "-": "unused"}
    frame = pd.DataFrame({f"fold {i}": [marks[m] for m in column] for i, column in enumerate(columns)})
    y = np.arange(float(len(frame))) if y is None else y
    return table(y, parts=frame, protocol=Protocol("fixed"), **extra)


def test_fixed_parts_as_marked():
    first, second = make_splits(fixed("ttvve-", "eetv--"))
    assert (first.id, second.id) == ("fixed-0", "fixed-1")
    assert same(first, [0, 1], [2, 3], [4])
    assert same(second, [2], [3], [0, 1])


def test_fixed_parts_as_categories():
    dataset = fixed("ttvve-")
    as_category = table(dataset.y, parts=dataset.parts.astype("category"), protocol=Protocol("fixed"))
    assert make_splits(as_category)[0].fingerprint == make_splits(dataset)[0].fingerprint


def test_fixed_without_validation_draws_it_from_training():
    y = np.array(["a", "b"] * 15)
    train = np.arange(20)
    expected = train_test_split(train, test_size=0.3, random_state=6, shuffle=True, stratify=y[train])
    dataset = fixed("t" * 20 + "e" * 8 + "--", y=y)
    [split] = make_splits(dataset, Protocol("fixed", valid_share=0.3, seed=6))
    assert same(split, *expected, range(20, 28))


def test_fixed_without_validation_keeps_groups_and_time():
    [split] = make_splits(fixed("t" * 20 + "eeee", groups=np.arange(24) // 4))
    assert len(split.valid) == 4
    assert len(set(split.valid // 4)) == 1
    [split] = make_splits(fixed("t" * 20 + "eeee", time=-np.arange(24.0)))
    assert same(split, range(4, 20), range(4), range(20, 24))


def test_fixed_with_validation_needs_no_time():
    [split] = make_splits(fixed("tve-", time=[np.nan, 1.0, 2.0, np.nan]))
    assert same(split, [0], [1], [2])


# ---------------------------------------------------------------------------------------------------------- fingerprint


@given(st.lists(st.sampled_from("tve-"), min_size=3, max_size=8), st.lists(st.sampled_from("tve-"), max_size=8))
def test_fingerprint_is_of_the_rows(one, other):
    def split(marks, name="x"):
        return Split(name, *(np.flatnonzero(np.array(marks, dtype=str) == m).astype(np.int64) for m in "tve"))

    equal = all(np.array_equal(a, b) for a, b in zip(parts(split(one)), parts(split(other)), strict=True))
    assert (split(one).fingerprint == split(other).fingerprint) == equal
    assert split(one, "x").fingerprint == split(one, "y").fingerprint


def test_fingerprint_stays():
    """Stored results go by this name: a change here makes them all void."""
    expected = "96cebb2e3b34e7cccf6fdb3be78a1cce8849ba6559a4467230040da560b6c5c5"
    assert Split("x", rows(0, 1, 4), rows(2), rows(3, 5)).fingerprint == expected


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
            table(NUMBERS, time=pd.Series([1, 2, np.nan, 3, np.nan, 4], name="when")),
            None,
            f"dataset 'toy': the time 'when' is missing in 2 rows: drop them, fill it in, or {ORDER}",
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


# --------------------------------------------------------------------------------------------------------- inner folds


def inner(dataset, rows=None, seed=0):
    """Return the inner folds, after a check of what holds of all of them."""
    rows = np.arange(len(dataset)) if rows is None else rows
    folds = inner_folds(dataset, rows, seed)
    for train, valid in folds:
        assert len(train)
        assert len(valid)
        assert np.isin(train, rows).all()
        assert not np.intersect1d(train, valid).size
        assert (np.diff(train) > 0).all()
        assert (np.diff(valid) > 0).all()
    held_out = np.concatenate([valid for _, valid in folds])
    assert len(np.unique(held_out)) == len(held_out), "no row is held out twice"
    return folds, np.sort(held_out)


@pytest.mark.parametrize("y", [some_classes(200), np.arange(200.0)], ids=["classes", "numbers"])
def test_inner_folds_hold_each_of_the_given_rows_out_once(y):
    given = np.setdiff1d(np.arange(200), np.arange(0, 200, 7))
    folds, held_out = inner(table(y), given)
    assert len(folds) == MANY_FOLDS
    assert np.array_equal(held_out, given)
    assert all(np.array_equal(np.union1d(train, valid), given) for train, valid in folds)


@pytest.mark.parametrize(
    ("n", "count"), [(FEW_ROWS, MANY_FOLDS), (FEW_ROWS + 1, SOME_FOLDS), (SOME_ROWS, SOME_FOLDS), (SOME_ROWS + 1, 1)]
)
def test_larger_tables_have_fewer_inner_folds_and_the_largest_a_single_one(n, count):
    folds, held_out = inner(table(np.arange(float(n))))
    assert len(folds) == count
    assert len(held_out) == (n if count > 1 else np.ceil(0.2 * n))


def test_inner_folds_have_the_classes_in_proportion():
    dataset = table(np.repeat(CLASSES, [80, 40, 16]))
    for _, valid in inner(dataset)[0]:
        assert dataset.y.iloc[valid].value_counts().to_dict() == {"a": 10, "b": 5, "c": 2}


def test_a_class_of_one_row_trains_in_every_inner_fold():
    folds, held_out = inner(table([*CLASSES[:2] * 20, "c"]))
    assert all(40 in train for train, _ in folds)
    assert np.array_equal(held_out, np.arange(40))


@settings(max_examples=30, deadline=None)
@given(seed=seeds, sizes=st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_rare_classes_train_in_every_inner_fold(seed, sizes):
    sizes = [30, *sizes]
    dataset = table(np.repeat(list("abcdef")[: len(sizes)], sizes))
    for train, _ in inner(dataset, seed=seed)[0]:
        assert set(dataset.y.iloc[train]) == set(dataset.y)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, groups=st.lists(st.integers(0, 12), min_size=40, max_size=60), with_classes=st.booleans())
def test_inner_folds_keep_groups_together(seed, groups, with_classes):
    y = some_classes(len(groups), seed % 1000) if with_classes else np.arange(float(len(groups)))
    groups[:3] = [0, 1, 2]
    for train, valid in inner(table(y, groups=groups), seed=seed)[0]:
        assert not {groups[i] for i in train} & {groups[i] for i in valid}


def test_fewer_groups_than_inner_folds_make_as_many_folds():
    folds, held_out = inner(table(np.arange(30.0), groups=np.arange(30) % 3))
    assert len(folds) == 3
    assert len(held_out) == 30


@settings(max_examples=30, deadline=None)
@given(time=st.lists(st.integers(0, 50), min_size=30, max_size=80))
def test_inner_folds_in_time_validate_on_later_rows(time):
    time[:2] = [0, 51]
    time = np.array(time, dtype=float)
    for train, valid in inner(table(np.arange(float(len(time))), time=time))[0]:
        assert time[train].max() < time[valid].min()


def test_inner_folds_in_time_begin_in_the_middle():
    time = np.random.default_rng(0).permutation(160).astype(float)
    folds, held_out = inner(table(np.arange(160.0), time=time))
    assert len(folds) == MANY_FOLDS
    assert sorted(time[held_out]) == list(range(80, 160))
    assert [len(train) for train, _ in folds] == list(range(80, 160, 10))


def test_few_different_times_make_a_single_inner_fold():
    folds, held_out = inner(table(np.arange(40.0), time=np.arange(40) // 8))
    assert len(folds) == 1
    assert list(held_out) == list(range(32, 40))


def test_thirty_rows_have_as_many_inner_folds_as_larger_tables():
    folds, held_out = inner(table(CLASSES * 10))
    assert len(folds) == MANY_FOLDS
    assert len(held_out) == 30


def test_inner_folds_come_from_the_seed():
    dataset = table(some_classes(100))
    first, again, other = (inner_folds(dataset, np.arange(100), seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            table(np.arange(20.0), groups=[7] * 20),
            "dataset 'toy' has left 1 group, too few to take validation rows from: use more data, or another order",
        ),
        (
            table(list("ab")),
            "dataset 'toy' has left 0 rows (beside 2 that must train with a whole class), too few to take validation "
            "rows from: use more data, or another order",
        ),
        (
            table(np.arange(20.0), time=[3.0] * 20),
            "dataset 'toy' has 1 different time to take validation rows from, fewer than the 2 needed: "
            "use another order",
        ),
    ],
    ids=["one group", "two rows", "one time"],
)
def test_rows_that_cannot_be_divided_within_are_refused(dataset, message):
    with pytest.raises(DataError) as error:
        inner_folds(dataset, np.arange(len(dataset)))
    assert str(error.value) == message
