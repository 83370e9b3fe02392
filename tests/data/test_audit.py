"""The audit finds what is wrong with a dataset, keeps quiet about what is not, and knows the paper's data by itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hopular.data.audit import Finding, audit
from hopular.data.audit.table import SEVERITIES, listing
from hopular.data.dataset import DataError, Dataset
from hopular.data.registry import paper_names
from hopular.data.sources import paper
from hopular.data.splits import Split, make_splits

N = 300
RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=(N, 4))


def cat(values: Sequence[Any] | np.ndarray) -> pd.Series:
    return pd.Series(pd.Categorical([None if pd.isna(value) else str(value) for value in values]), name="y")


def made(X: dict[str, Any], y: pd.Series) -> Dataset:
    task = "classification" if isinstance(y.dtype, pd.CategoricalDtype) else "regression"
    return Dataset("test", pd.DataFrame(X), y.rename("y"), task, "made for a test")


def clean(task: str = "classification", **columns: Any) -> Dataset:
    """Make a dataset with nothing to find, and what else is given."""
    signal = NOISE[:, 0] + NOISE[:, 1] / 2
    X: dict[str, Any] = {"a": signal, "b": NOISE[:, 2], "c": cat(["red", "green", "blue"] * (N // 3))}
    y = cat(np.where(signal + NOISE[:, 3] / 2 > 0, "yes", "no")) if task == "classification" else None
    return made(X | columns, pd.Series(signal + NOISE[:, 3] / 2) if y is None else y)


def telling(y: pd.Series) -> Dataset:
    """Make a dataset with a given target, which its features tell of."""
    number = y.cat.codes if isinstance(y.dtype, pd.CategoricalDtype) else y
    return made({"a": number + NOISE[: len(y), 0] / 2, "b": NOISE[: len(y), 1]}, y)


def split(train: Any, test: Any, valid: Any = ()) -> Split:
    return Split("s", *(np.sort(np.asarray(rows, dtype=np.int64)) for rows in (train, valid, test)))


HALVES = split(range(0, N, 2), range(1, N, 2))


def found(dataset: Dataset, check: str, splits: Sequence[Split] = ()) -> Finding:
    matching = [finding for finding in audit(dataset, splits) if finding.check == check]
    assert len(matching) == 1, f"{len(matching)} findings of {check}"
    return matching[0]


def checks(dataset: Dataset, splits: Sequence[Split] = ()) -> set[str]:
    return {finding.check for finding in audit(dataset, splits)}


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_nothing_is_found_where_nothing_is_wrong(task):
    assert audit(clean(task)) == []  # with the splits of its own protocol


def test_worst_first_repeatable_and_the_data_untouched():
    dataset = clean(same=np.ones(N), copy=NOISE[:, 2] * 2, leak=cat(NOISE[:, 0] > 0), number=np.arange(N) * 1.0)
    dataset = replace(dataset, y=cat(NOISE[:, 0] > 0))
    before = dataset.fingerprint, dataset.X.copy(deep=True)
    findings = audit(dataset, [HALVES])
    assert {finding.severity for finding in findings} == set(SEVERITIES)
    assert findings == sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.check))
    assert audit(replace(dataset, name="monks-2", defects=("broken",), notes=("x",)), [HALVES]) == findings
    pd.testing.assert_frame_equal(dataset.X, before[1])
    assert dataset.fingerprint == before[0]


def test_splits_are_the_dataset_s_own_unless_given():
    dataset = made({"a": NOISE[:, 0]}, cat(["yes"] * (N - 1) + ["no"]))
    assert audit(dataset) == audit(dataset, make_splits(dataset))
    assert "no-splits" not in checks(dataset)
    few = made({"a": NOISE[:3, 0]}, cat(["yes", "no", "no"]))
    assert "fewer than 5 folds" in next(f for f in audit(few) if f.check == "no-splits").sentence
    assert "no-splits" not in checks(few, [])
    with pytest.raises(DataError, match="has row 300, but the dataset has 300 rows"):
        audit(clean(), [split([0], [N])])


@pytest.mark.parametrize(
    ("columns", "check", "names", "words"),
    [
        ({"k": np.ones(N), "l": cat(["x"] * N)}, "constant-columns", ("k", "l"), "2 columns ('k' and 'l') have one"),
        ({"k": np.full(N, np.nan)}, "all-missing-columns", ("k",), "Column 'k' has no value at all"),
        ({"k": [1.0, np.nan] * (N // 2)}, "constant-or-missing-columns", ("k",), "one value beside missing ones"),
        ({"k": cat(range(N))}, "id-like-columns", ("k",), "300 different values in 300 rows: it names the rows"),
        ({"k": RNG.permutation(N) + 5.0}, "id-like-columns", ("k",), "every whole number from 5 to 304 once"),
        ({"k": np.arange(N) ** 2.0}, "id-like-columns", ("k",), "whole numbers and rises from row to row"),
        ({"k": np.arange(N, 0, -1) / 7}, "id-like-columns", ("k",), "falls by the same step"),
        ({"k": 3 - NOISE[:, 2] ** 3}, "redundant-columns", ("b", "k"), "'b' and 'k' say the same"),
        ({"k": cat(["r", "g", "b"] * (N // 3))}, "redundant-columns", ("c", "k"), "'c' and 'k' say the same"),
    ],
)
def test_columns(columns, check, names, words):
    finding = found(clean(**columns), check)
    assert finding.columns == names
    assert words in finding.sentence


def test_columns_that_are_as_they_should_be():
    columns = {
        "k": np.sort(NOISE[:, 3]),  # in order, but not counting
        "l": np.round(NOISE[:, 3] * 1e6),  # whole numbers, all different
        "m": cat(RNG.integers(0, 150, N)),  # many categories
        "n": RNG.integers(0, 3, N) * 1.0,
    }
    assert checks(clean(**columns)) == set()


def test_duplicate_rows_are_told_from_coincidence():
    dataset = clean()
    twice = np.r_[0:N, 0:50]
    copied = made(dict(dataset.X.iloc[twice].reset_index(drop=True)), dataset.y.iloc[twice].reset_index(drop=True))
    finding = found(copied, "duplicate-rows")
    assert finding.severity == "warning"
    assert "50 of 350 rows (14 %) repeat an earlier row" in finding.sentence
    across = found(copied, "duplicates-across-parts", [split(range(250), range(250, 350))])
    assert across.severity == "serious"
    assert across.split == "s"
    assert "50 of 100 test rows (50 %) have the features of a training row" in across.sentence
    few = RNG.integers(0, 3, (N, 2))
    natural = made({"a": few[:, 0] * 1.0, "b": cat(few[:, 1])}, cat(few.sum(axis=1) + NOISE[:, 0] > 2))
    findings = [f for f in audit(natural, [HALVES]) if f.check.startswith("duplicate")]
    assert [f.severity for f in findings] == ["note", "note"]
    assert all("so few different values make that likely" in f.sentence for f in findings)


def test_conflicting_targets():
    X = {"a": np.repeat(np.arange(N / 2), 2), "b": np.repeat(NOISE[: N // 2, 0], 2)}
    y = cat(["yes", "yes", "no", "no"] * 70 + ["yes", "no"] * 10)
    classes = found(made(X, y), "conflicting-targets")
    assert "20 of 300 rows (6.7 %)" in classes.sentence
    assert "right on more than 97 %" in classes.sentence
    y = pd.Series(X["b"] + np.tile([-1.0, 1.0], N // 2))
    numbers = found(made(X, y), "conflicting-targets")
    assert numbers.severity == "warning"
    assert "300 of 300 rows" in numbers.sentence
    assert "of the target's variance is between such rows" in numbers.sentence


def test_order_of_rows():
    dataset = clean()
    order = np.argsort(dataset.y.cat.codes.to_numpy(), kind="stable")
    ordered = made(dict(dataset.X.iloc[order].reset_index(drop=True)), dataset.y.iloc[order].reset_index(drop=True))
    assert found(ordered, "sorted-rows").sentence.startswith("Rows are sorted by class")
    blocks = telling(cat(np.repeat(np.arange(N // 10) % 2, 10)))
    assert "30 blocks, where shuffled rows make 151" in found(blocks, "sorted-rows").sentence
    walk = found(telling(pd.Series(np.cumsum(NOISE[:, 1]))), "sorted-rows")
    assert "autocorrelation 0.9" in walk.sentence
    assert (walk.severity, walk.columns) == ("warning", ())
    assert "test on later rows, by --time COLUMN" in walk.sentence
    assert found(telling(pd.Series(np.arange(float(N)))), "sorted-rows").severity == "note", "sorted by the target"


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize(("noise", "severity"), [(0.0, "serious"), (0.55, "warning")])
def test_a_target_that_is_alike_in_time_is_said_loudly_whatever_the_order_of_rows(task, noise, severity):
    walk = 4 * np.sin(np.arange(N) / 10)
    walk = np.sign(walk) if task == "classification" else walk
    random = np.random.default_rng(3)
    share = noise if task == "regression" else noise / 2
    walk = np.where(random.random(N) < share / 2, random.permutation(walk), walk)
    y = cat(walk > 0) if task == "classification" else pd.Series(walk)
    shuffled = random.permutation(N)
    days = pd.Series(pd.date_range("2024-01-01", periods=N).as_unit("us"))
    X = {name: values.iloc[shuffled].reset_index(drop=True) for name, values in telling(y).X.assign(day=days).items()}
    dataset = made(X, y.iloc[shuffled].reset_index(drop=True))
    finding = found(dataset, "sorted-rows")
    assert (finding.severity, finding.columns) == (severity, ("day",))
    assert finding.sentence.startswith("In the order of 'day', ")
    assert finding.sentence.endswith("To test on later rows: --time day")
    assert "id-like-columns" not in {finding.check for finding in audit(dataset)}
    in_time = replace(dataset, time=dataset.X["day"].astype("int64").astype(float).rename("day"))
    assert "sorted-rows" not in {finding.check for finding in audit(in_time, [])}


def test_a_date_that_says_nothing_of_the_target_is_no_finding():
    days = pd.Series(pd.date_range("2024-01-01", periods=N).as_unit("us"))
    assert not {"sorted-rows", "id-like-columns"} & {finding.check for finding in audit(clean(day=days), [])}


def test_information_in_the_parts_of_a_date_is_found():
    since = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(np.random.default_rng(0).permutation(N), unit="D"))
    is_open = since.dt.day_of_week < 4
    dataset = made({"since": since.dt.as_unit("us"), "noise": NOISE[:, 0]}, cat(np.where(is_open, "yes", "no")))
    assert not {"no-information", "weak-information"} & {finding.check for finding in audit(dataset, [])}


def test_classes_of_unequal_size():
    y = ["a"] * 280 + ["b"] * 16 + ["c"] * 3 + ["d"]
    dataset = telling(cat(y))
    assert found(dataset, "imbalance").severity == "warning"
    assert "Class 'a' has 93 % of the rows" in found(dataset, "imbalance").sentence
    assert "2 of 4 classes have fewer than 10 rows: 'd' (1) and 'c' (3)" in found(dataset, "small-classes").sentence
    milder = found(telling(cat(["a"] * 250 + ["b"] * 30 + ["c"] * 20)), "imbalance")
    assert milder.severity == "note"
    assert "12 times as many as class 'c'" in milder.sentence


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_missing_values(task):
    dataset = clean(task)
    high = dataset.y == "yes" if task == "classification" else dataset.y > 0
    columns = {f"m{i}": np.where(RNG.random(N) < 0.6, np.nan, NOISE[:, i]) for i in range(4)}
    findings = audit(clean(task, told=np.where(high & (RNG.random(N) < 0.4), np.nan, NOISE[:, 3]), **columns), [])
    by_check = {finding.check: finding for finding in findings}
    assert set(by_check) == {"missing-values", "mostly-missing-columns", "mostly-missing-rows", "missing-by-target"}
    assert "in 5 of 8 columns" in by_check["missing-values"].sentence
    assert set(columns) <= set(by_check["mostly-missing-columns"].columns)
    assert by_check["missing-by-target"].columns == ("told",)
    assert by_check["missing-by-target"].severity == "note"
    few = np.where(RNG.random(N) < 0.1, np.nan, NOISE[:, 3])
    assert [(f.check, f.severity) for f in audit(clean(task, few=few), [])] == [("missing-values", "note")]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_leaking_columns(task):
    dataset = clean(task)
    y, leak = dataset.y, np.where(dataset.y == "yes", 1, -1) * np.abs(NOISE[:, 3])
    if task == "regression":
        y, leak = pd.Series(NOISE[:, 3] * 10), np.exp(2 * NOISE[:, 3])
    finding = found(made({**dict(dataset.X), "leak": leak}, y), "leaking-columns")
    assert finding.severity == "serious"
    assert finding.columns == ("leak",)
    assert "it may be made from the target" in finding.sentence
    strong = y * 1.0 + NOISE[:, 2] * 3 if task == "regression" else cat(np.where(NOISE[:, 2] > 1.5, "no", y))
    assert "leaking-columns" not in checks(made({**dict(dataset.X), "strong": strong}, y))
    code = cat(["x", "y", "z"] * (N // 3))
    y = code if task == "classification" else pd.Series([1.0, 5, 2] * (N // 3))
    assert found(made({"a": NOISE[:, 0], "code": code}, y), "leaking-columns").columns == ("code",)


def test_classes_of_parts():
    dataset = telling(cat(["a"] * 100 + ["b"] * 190 + ["c"] * 10))
    bad = split(range(0, 290, 2), [1, 101, 299], valid=[3, 103])
    training = found(dataset, "classes-not-in-training", [HALVES, bad])
    assert (training.severity, training.split) == ("serious", "s")
    assert "In split 's' of 2: 1 of 3 classes is tested but not trained: 'c'" in training.sentence
    assert "not in the validation part: 'c'" in found(dataset, "classes-not-in-validation", [bad]).sentence
    late = split(range(250), [250, 299])
    assert "not in the test part: 'a'" in found(dataset, "classes-not-in-test", [late]).sentence
    assert not {c for c in checks(dataset, [HALVES]) if c.startswith("classes")}


def test_shared_test_rows():
    assert "All 2 splits test on the same 150 rows" in found(clean(), "shared-test-rows", [HALVES, HALVES]).sentence
    overlapping = [HALVES, split(range(100, N), range(100))]
    assert "in up to 50 rows" in found(clean(), "shared-test-rows", overlapping).sentence
    assert "shared-test-rows" not in checks(clean(), [HALVES, split(range(1, N, 2), range(0, N, 2))])


def test_unseen_values():
    other = np.arange(N) % 2
    moved = {
        "k": cat([f"{v}{o}" for v, o in zip(RNG.integers(0, 4, N), other, strict=True)]),
        "l": RNG.integers(0, 5, N) + 0.5 * other,
    }
    serious = found(clean(**moved), "unseen-values", [HALVES])
    assert (serious.severity, serious.columns) == ("serious", ("k", "l"))
    assert "67 % of the test values in 3 categorical or few-valued columns, in 100 % of" in serious.sentence
    assert "a random division would leave 0 %" in serious.sentence.replace("less than 0.1 %", "0 %")
    wide = clean(**moved, **{f"n{i}": RNG.normal(size=N) for i in range(10)})
    assert found(wide, "unseen-values", [HALVES]).severity == "warning"
    rare = found(clean(k=cat(RNG.integers(0, 200, N))), "unseen-values", [HALVES])
    assert (rare.severity, rare.columns) == ("warning", ("k",))
    assert "as rare values are in any division" in rare.sentence
    one = found(clean(k=cat(["x", "new", *["y", "x"] * (N // 2 - 1)])), "unseen-values", [HALVES])
    assert (one.severity, one.columns) == ("note", ("k",))


def test_shift_between_parts():
    late = np.arange(N) % 2
    dataset = clean(k=NOISE[:, 3] + 2 * late, l=cat(np.where(RNG.random(N) < 0.2 + 0.6 * late, "x", "z")))
    shifted = found(dataset, "feature-shift", [HALVES])
    assert shifted.columns == ("k", "l")
    assert "2 of 5 columns are distributed differently" in shifted.sentence
    y = cat(np.where(RNG.random(N) < 0.3 + 0.4 * late, "yes", "no"))
    assert "Classes have other shares" in found(telling(y), "target-shift", [HALVES]).sentence
    moved = telling(pd.Series(NOISE[:, 2] + late))
    assert "The target is distributed differently" in found(moved, "target-shift", [HALVES]).sentence
    assert not {c for c in checks(clean(), [HALVES]) if c.endswith("shift")}


@pytest.mark.parametrize("y", [cat(RNG.integers(0, 2, N)), pd.Series(RNG.normal(size=N))], ids=["classes", "numbers"])
def test_no_information(y):
    finding = found(made(dict(clean().X), y), "no-information")
    assert finding.severity == "serious"
    assert "The features tell nothing about the target 'y'" in finding.sentence
    short = audit(made(dict(clean().X.iloc[:80]), y.iloc[:80]), [])
    assert {f.severity for f in short if f.check.endswith("-information")} == {"warning"}


def test_copies_of_rows_are_no_information():
    twice = np.r_[0:150, 0:150, 0:150]
    dataset = made({"a": NOISE[twice, 0], "b": NOISE[twice, 1]}, cat(RNG.integers(0, 2, 150)[twice]))
    assert found(dataset, "no-information").severity == "serious"
    assert not checks(dataset) & {"leaking-columns", "redundant-columns"}


def test_information_that_is_hard_to_see():
    bits = RNG.integers(0, 2, (N, 4))
    parity = made({f"b{i}": cat(bits[:, i]) for i in range(4)} | {"n": NOISE[:, 0]}, cat(bits[:, 0] ^ bits[:, 1]))
    code = RNG.integers(0, 30, N)
    one_column = made({"code": cat(code)}, cat((code % 2) ^ (RNG.random(N) < 0.1)))
    rare = RNG.random(2000) < 0.04  # no guess beats the larger class, yet the features tell a lot
    rare_class = made({"a": RNG.normal(size=2000) + 2 * rare, "b": RNG.normal(size=2000)}, cat(rare))
    for dataset in (parity, one_column, rare_class):
        assert not {c for c in checks(dataset) if c.endswith("-information")}


def test_hidden_target():
    signal = NOISE[:, 0] + NOISE[:, 1]
    X = {
        "a": NOISE[:, 0],
        "b": NOISE[:, 1],
        "true": cat(signal > 0),
        "derived": cat(NOISE[:, 0] > 0.2),
        "c": cat(RNG.integers(0, 3, N)),
    }
    hidden = found(made(X, cat(RNG.integers(0, 2, N))), "hidden-target")
    assert (hidden.severity, hidden.columns) == ("serious", ("true",))
    assert "The true target may be the feature 'true'" in hidden.sentence
    assert "hidden-target" not in checks(made(X, cat(signal + NOISE[:, 2] > 0)))  # a target that can be predicted
    assert "hidden-target" not in checks(made({"a": NOISE[:, 0], "c": X["c"]}, cat(RNG.integers(0, 2, N))))


def test_lists_of_names():
    assert listing(["a"]) == "'a'"
    assert listing(list("abcdef")) == "'a', 'b', 'c', 'd', 'e' and 'f'"
    assert listing(list("abcdefg")) == "'a', 'b', 'c', 'd', 'e' and 2 more"


EXPECTED = {
    "monks-2": {"unseen-values"},
    "horse-colic": {"unseen-values"},
    "congressional-voting": {"no-information"},
    "statlog-australian-credit": {"no-information", "hidden-target"},
}


@pytest.mark.skipif(
    not os.environ.get("HOPULAR_DATA"), reason="HOPULAR_DATA is not set: the paper's files are needed for this test"
)
@pytest.mark.parametrize("name", paper_names())
def test_damage_of_the_paper_s_data(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path))
    dataset = paper.load(name)
    serious = [finding for finding in audit(dataset) if finding.severity == "serious"]
    assert {finding.check for finding in serious} == EXPECTED.get(name, set())
    for finding in serious:
        if finding.check == "hidden-target":
            assert finding.columns == ("x13",)
        if finding.check == "unseen-values":
            assert "100 % of the test values" in finding.sentence


def test_numbers_near_the_ends_of_floats_are_audited():
    """Sums of such numbers would overflow, and their squares vanish."""
    huge, tiny = (np.where(NOISE[:, 2] > 0, value, 0.0) for value in (1e308, 5e-324))
    assert not [finding for finding in audit(clean(huge=huge, tiny=tiny)) if finding.severity == "serious"]
