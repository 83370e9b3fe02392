"""The inner hold-out: disjoint, complete, stratified, repeatable, and never all of a class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopular.model.holdout import holdout


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    fraction=st.floats(0, 1, exclude_max=True),
    seed=st.integers(0, 2**31),
)
def test_disjoint_complete_and_stratified_within_one_row(sizes, fraction, seed):
    classes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    train, held_out = holdout(len(classes), fraction, classes, seed)
    assert sorted([*train, *held_out]) == list(range(len(classes)))
    assert (np.diff(train) > 0).all()
    assert (np.diff(held_out) > 0).all()
    for c, size in enumerate(sizes):
        assert abs((classes[held_out] == c).sum() - fraction * size) <= 1
        assert (classes[train] == c).any()


def test_string_classes():
    classes = np.array(["no"] * 80 + ["yes"] * 20)
    train, held_out = holdout(100, 0.2, classes, seed=0)
    assert np.unique(classes[held_out], return_counts=True)[1].tolist() == [16, 4]
    assert len(train) == 80


def test_without_classes_any_row_may_be_held_out():
    train, held_out = holdout(100, 0.2, None, seed=0)
    assert len(held_out) == 20
    assert len(np.union1d(train, held_out)) == 100
    assert held_out.max() - held_out.min() > 50


def test_repeatable_by_seed():
    classes = np.arange(100) % 3
    first, again, other = (holdout(100, 0.2, classes, seed)[1] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("classes", [None, np.arange(10) % 2], ids=["regression", "classification"])
def test_fraction_zero_holds_out_nothing(classes):
    train, held_out = holdout(10, 0.0, classes, seed=0)
    assert train.tolist() == list(range(10))
    assert len(held_out) == 0
    assert held_out.dtype == train.dtype == int
