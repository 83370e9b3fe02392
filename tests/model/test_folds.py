"""Which rows members train on: a hold-out, or folds; disjoint, complete, stratified, repeatable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopular.model.folds import assign_folds, hold_out

SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=5)
SEED = st.integers(0, 2**31)


def shuffled(sizes: list[int], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


# ---- a hold-out ----


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, fraction=st.floats(0, 1, exclude_max=True), seed=SEED)
def test_disjoint_complete_and_stratified_within_one_row(sizes, fraction, seed):
    classes = shuffled(sizes, seed)
    train, held_out = hold_out(len(classes), fraction, classes, seed)
    assert sorted([*train, *held_out]) == list(range(len(classes)))
    assert (np.diff(train) > 0).all()
    assert (np.diff(held_out) > 0).all()
    for c, size in enumerate(sizes):
        assert abs((classes[held_out] == c).sum() - fraction * size) <= 1
        assert (classes[train] == c).any()


def test_string_classes():
    classes = np.array(["no"] * 80 + ["yes"] * 20)
    train, held_out = hold_out(100, 0.2, classes, seed=0)
    assert np.unique(classes[held_out], return_counts=True)[1].tolist() == [16, 4]
    assert len(train) == 80


def test_without_classes_any_row_may_be_held_out():
    train, held_out = hold_out(100, 0.2, None, seed=0)
    assert len(held_out) == 20
    assert len(np.union1d(train, held_out)) == 100
    assert held_out.max() - held_out.min() > 50


def test_repeatable_by_seed():
    classes = np.arange(100) % 3
    first, again, other = (hold_out(100, 0.2, classes, seed)[1] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("classes", [None, np.arange(10) % 2], ids=["regression", "classification"])
def test_fraction_zero_holds_out_nothing(classes):
    train, held_out = hold_out(10, 0.0, classes, seed=0)
    assert train.tolist() == list(range(10))
    assert len(held_out) == 0
    assert held_out.dtype == train.dtype == int


# ---- folds ----


@settings(max_examples=100, deadline=None)
@given(sizes=SIZES, n_folds=st.integers(1, 12), stratified=st.booleans(), seed=SEED)
def test_every_row_is_in_one_fold_and_folds_are_equal_within_one_row(sizes, n_folds, stratified, seed):
    classes = shuffled(sizes, seed)
    folds = assign_folds(len(classes), n_folds, classes if stratified else None, seed)
    assert folds.shape == classes.shape
    assert folds.dtype == int
    counts = np.bincount(folds, minlength=n_folds)
    assert len(counts) == n_folds
    assert np.ptp(counts) <= 1
    if stratified:
        for c in range(len(sizes)):
            assert np.ptp(np.bincount(folds[classes == c], minlength=n_folds)) <= 1


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(2, 30), min_size=1, max_size=5), n_folds=st.integers(2, 12), seed=SEED)
def test_a_class_of_two_rows_or_more_is_never_held_out_as_a_whole(sizes, n_folds, seed):
    classes = shuffled(sizes, seed)
    folds = assign_folds(len(classes), n_folds, classes, seed)
    for fold in range(n_folds):
        assert set(classes[folds != fold]) == set(classes)


def test_folds_of_string_classes():
    classes = np.array(["no"] * 80 + ["yes"] * 20)
    folds = assign_folds(100, 5, classes, seed=0)
    assert np.bincount(folds[classes == "no"]).tolist() == [16] * 5
    assert np.bincount(folds[classes == "yes"]).tolist() == [4] * 5


@pytest.mark.parametrize("classes", [None, np.arange(100) % 3], ids=["regression", "classification"])
def test_folds_are_drawn_by_the_seed(classes):
    first, again, other = (assign_folds(100, 5, classes, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.ptp(np.flatnonzero(first == 0)) > 50  # not neighbouring rows
