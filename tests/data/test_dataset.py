"""What a Dataset accepts, and what its fingerprint depends on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopular.data.dataset import DataError, Dataset


def table(**changes: object) -> Dataset:
    values = {
        "name": "table",
        "X": pd.DataFrame({"size": [1.0, np.nan, 3.0], "colour": pd.Categorical(["red", "blue", None])}),
        "y": pd.Series(pd.Categorical(["a", "b", "a"]), name="kind"),
        "task": "classification",
        "source": "here",
    }
    return Dataset(**{**values, **changes})  # type: ignore[arg-type]


def test_kinds_and_classes() -> None:
    dataset = table()
    assert dataset.kinds == {"size": "continuous", "colour": "categorical"}
    assert dataset.classes == ["a", "b"]
    assert len(dataset) == 3
    assert repr(dataset) == "Dataset('table', 3 rows, 2 features, classification)"
    assert table(y=pd.Series([1.0, 2.0, 3.0], name="t"), task="regression").classes == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": pd.DataFrame({"a": []}), "y": pd.Series([], dtype="category", name="k")}, "'table' has no rows"),
        ({"X": pd.DataFrame(index=range(3))}, "no feature beside its target 'kind'"),
        ({"y": pd.Series(pd.Categorical(["a", "b"]), name="kind")}, "3 rows of features and 2 of target"),
        ({"X": pd.DataFrame([[1.0, 2.0]] * 3, columns=["a", "a"])}, "more than one column named a: rename"),
        ({"X": pd.DataFrame({"a": [1, 2, 3]})}, r"column 'a' must be float64, category or datetime64\[us\], not int64"),
        ({"X": pd.DataFrame({"a": [1.0, np.inf, 3.0]})}, "column 'a' has infinite values"),
        ({"X": pd.DataFrame({"a": pd.Categorical([1, 2, 3])})}, "categories of 'a' must be strings"),
        ({"y": pd.Series(pd.Categorical(["a", None, "b"]), name="kind")}, "'kind' is missing in 1 row:"),
        ({"y": pd.Series(pd.Categorical(["a", "a", "a"]), name="kind")}, "one value only, 'a'"),
        ({"y": pd.Series([2.0, 2.0, 2.0], name="kind"), "task": "regression"}, "one value only, 2: nothing"),
        ({"task": "regression"}, "task 'regression' does not fit"),
        (
            {"task": "regression", "y": pd.Series([1.0, -1e200, 2.0], name="mass")},
            r"target 'mass' has values up to 1e\+200, .*: give it in a larger unit",
        ),
        ({"time": pd.Series([1.0])}, "3 rows and 1 row of time"),
        ({"parts": pd.DataFrame({"s": ["train", "tset", "test"]})}, r"must be one of .* not \['tset'\]"),
        ({"parts": pd.DataFrame({"s": ["train", None, "test"]})}, "not missing"),
    ],
)
def test_what_no_method_could_use_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        table(**changes)


def test_fingerprint_depends_on_content_kinds_target_and_task() -> None:
    first = table()
    others = [
        table(X=first.X.assign(size=[1.0, np.nan, 4.0])),
        table(X=first.X.assign(colour=pd.Categorical(["red", "red", None]))),
        table(X=first.X.rename(columns={"size": "Size"})),
        table(X=first.X[["colour", "size"]]),
        table(X=first.X.assign(size=pd.Categorical(["1", None, "3"]))),
        table(y=pd.Series(pd.Categorical(["a", "b", "b"]), name="kind")),
        table(y=first.y.rename("sort")),
        table(X=first.X.iloc[::-1].reset_index(drop=True), y=first.y.iloc[::-1].reset_index(drop=True)),
        table(y=pd.Series([0.0, 1.0, 0.0], name="kind"), task="regression"),
    ]
    assert len({dataset.fingerprint for dataset in [first, *others]}) == 1 + len(others)


def test_fingerprint_ignores_names_notes_and_the_order_of_categories() -> None:
    first = table()
    colours = pd.Categorical(["red", "blue", None], categories=["unused", "red", "blue"])
    assert table(name="other", source="there", notes=("n",)).fingerprint == first.fingerprint
    assert table(X=first.X.assign(colour=colours)).fingerprint == first.fingerprint
    assert replace(first, X=first.X.copy()).fingerprint == first.fingerprint


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.floats(allow_infinity=False), st.none()), min_size=2, max_size=20), st.data())
def test_fingerprint_changes_with_any_number(values: list[float | None], data: st.DataObject) -> None:
    y = pd.Series(np.arange(len(values), dtype=float), name="y")

    def of(numbers: list[float | None]) -> str:
        X = pd.DataFrame({"x": np.array(numbers, dtype=float)})
        return Dataset("d", X, y, "regression", "here").fingerprint

    place = data.draw(st.integers(0, len(values) - 1))
    new = data.draw(st.floats(allow_nan=False, allow_infinity=False))
    changed = [new if i == place else value for i, value in enumerate(values)]
    old = values[place]
    same = old is not None and old == new
    assert (of(changed) == of(values)) == same
    assert of(values) == of(list(values))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=5), st.none()), min_size=2, max_size=20), st.randoms(use_true_random=False))
def test_fingerprint_of_categories_knows_their_values_alone(values: list[str | None], random: object) -> None:
    y = pd.Series(np.arange(len(values), dtype=float), name="y")
    known = sorted({value for value in values if value is not None})
    shuffled = [*known, "another"]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    frames = [pd.DataFrame({"x": pd.Categorical(values, categories=c)}) for c in (known, shuffled)]
    prints = [Dataset("d", X, y, "regression", "here").fingerprint for X in frames]
    assert prints[0] == prints[1]
