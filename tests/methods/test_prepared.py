"""Classical models on disk without pickle, and how frames become matrices for them."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from hopular.methods import methods
from hopular.methods.prepared import (
    FORMAT,
    LARGEST,
    MAX_CATEGORIES,
    PreparedClassifier,
    PreparedRegressor,
    learn_preparation,
)
from tests.methods.test_classical import CASES, FLOORS, classes_of, make, output, table, target

pytestmark = pytest.mark.filterwarnings("error")

# ------------------------------------------------------------------------------------------------------ saving, loading


@pytest.mark.parametrize(("name", "task"), CASES)
def test_saved_and_loaded_models_predict_the_same_bits(name, task, tmp_path):
    X, number = table(80)
    model = make(name, task).fit(X, target(number, task))
    model.save(tmp_path / "new" / "model")
    loaded = type(model).load(tmp_path / "new" / "model")
    assert np.array_equal(output(loaded, X, task), output(model, X, task))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert sorted(file.name for file in (tmp_path / "new" / "model").iterdir()) == ["model.json", "model.skops"]


@pytest.fixture
def saved(tmp_path):
    X, number = table(40)
    make("decision_tree").fit(X, classes_of(number, 2)).save(tmp_path)
    return tmp_path


def write(folder, content, **header):
    """A file that fits its header, whatever it holds."""
    (folder / "model.skops").write_bytes(content)
    header = {"format": FORMAT, "class": "PreparedClassifier", "sha256": hashlib.sha256(content).hexdigest(), **header}
    (folder / "model.json").write_text(json.dumps(header))


@pytest.mark.parametrize("damage", [lambda b: b[:-100], lambda b: b"", lambda b: bytes([b[0] ^ 1]) + b[1:]])
def test_damaged_models_are_named(saved, damage):
    content = damage((saved / "model.skops").read_bytes())
    (saved / "model.skops").write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.skops' is damaged"):
        PreparedClassifier.load(saved)
    write(saved, b"nothing")
    with pytest.raises(ValueError, match=r"model\.skops' is damaged or no skops file"):
        PreparedClassifier.load(saved)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', "null"])
def test_damaged_headers_are_named(saved, text):
    (saved / "model.json").write_text(text)
    with pytest.raises(ValueError, match=r"model\.json' is damaged"):
        PreparedClassifier.load(saved)


def test_models_of_another_class_or_format(saved, tmp_path):
    with pytest.raises(ValueError, match=r"load it with PreparedClassifier\.load"):
        PreparedRegressor.load(saved)
    content = (saved / "model.skops").read_bytes()
    write(saved, content, **{"class": "PreparedRegressor"})
    with pytest.raises(ValueError, match="holds a PreparedClassifier"):
        PreparedRegressor.load(saved)
    write(saved, content, format=FORMAT - 1)
    with pytest.raises(ValueError, match=rf"model format {FORMAT - 1}, .* reads {FORMAT}\. Fit again"):
        PreparedClassifier.load(saved)
    with pytest.raises(FileNotFoundError, match=r"model\.json"):
        PreparedClassifier.load(tmp_path / "absent")


class Foreign(ClassifierMixin, BaseEstimator):
    """A type that no model of this package holds."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self


def renamed(content, module, name):
    """The same file, with another name for the type Foreign."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(changed, "w") as copy:
        for file in source.namelist():
            text = source.read(file)
            if file == "schema.json":
                text = text.replace(Foreign.__module__.encode(), module.encode()).replace(b"Foreign", name.encode())
            copy.writestr(file, text)
    return changed.getvalue()


OTHERS = ["other.T", "hopular.methods.absent.T", "hopular.methods.prepared.Path", "hopular.methods.prepared.os.system"]


@pytest.mark.parametrize("name", OTHERS)
def test_files_with_other_types_are_refused(saved, name):
    X, number = table(40)
    model = PreparedClassifier(Foreign()).fit(X, classes_of(number, 2))
    with pytest.raises(ValueError, match=r"cannot be saved.*Foreign"):
        model.save(saved)
    write(saved, renamed(skops.io.dumps(model), *name.rsplit(".", 1)))
    with pytest.raises(ValueError, match=f"does not have: {name}"):
        PreparedClassifier.load(saved)


@pytest.mark.parametrize("name", FLOORS)
def test_an_unfitted_model_is_not_saved(name, tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        make(name, methods()[name].tasks[0]).save(tmp_path)


# --------------------------------------------------------------------------------------------------------- preparation


def test_scaled_is_standardised_filled_and_one_hot():
    X = pd.DataFrame({"n": [1.0, 3.0, np.nan, 5.0], "c": pd.Categorical(["a", "b", None, "a"])})
    preparation, matrix = learn_preparation(X, "scaled")
    assert np.array_equal(preparation.matrix(X), matrix)
    expected = np.sqrt(1.5)
    np.testing.assert_allclose(matrix[:, 0], [-expected, 0, 0, expected])
    assert matrix[:, 1:].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]]
    assert preparation.categorical == [False, False, True, True, True]
    new = preparation.matrix(pd.DataFrame({"n": [3e300], "c": ["unseen"]}))
    assert new.tolist() == [[LARGEST, 0, 0, 0, 0]]


def test_a_transformer_that_was_fitted_to_a_frame_prepares_the_same():
    """Models of format 2 were saved with one."""
    X = pd.DataFrame({"n": [1.0, 3.0, np.nan, 5.0], "c": ["a", "b", None, "a"], "one": [2.0, 2.0, np.nan, 2.0]})
    preparation, matrix = learn_preparation(X, "scaled")
    groups = [(name, step, [f"x{i}" for i in columns]) for name, step, columns in preparation.transformer.transformers]
    frame = pd.DataFrame({"x0": X["n"], "x1": X["one"], "x2": pd.Series(["a", "b", None, "a"], dtype=object)})
    fitted_to_a_frame = clone(preparation.transformer).set_params(transformers=groups).fit(frame)
    assert np.array_equal(replace(preparation, transformer=fitted_to_a_frame).matrix(X), matrix)


def test_ordinal_keeps_gaps_and_filled_has_none():
    """A constant number says only where it is missing."""
    X = pd.DataFrame({"n": [2.0, np.nan, 2.0], "c": pd.Categorical(["10", "9", None])})
    new = pd.DataFrame({"n": [7.0], "c": ["11"]})
    ordinal, filled = learn_preparation(X, "ordinal")[0], learn_preparation(X, "filled")[0]
    np.testing.assert_array_equal(ordinal.matrix(X), [[0, 1], [1, 0], [0, np.nan]])
    np.testing.assert_array_equal(ordinal.matrix(new), [[0, np.nan]])
    assert filled.matrix(X).tolist() == [[0, 1], [1, 0], [0, -1]]
    assert filled.matrix(new).tolist() == [[0, -1]]


def test_rare_and_unseen_categories_share_a_column():
    names = [f"c{i}" for i in range(MAX_CATEGORIES + 5)]
    X = pd.DataFrame({"c": pd.Categorical(names + names[5:])})
    preparation, _ = learn_preparation(X, "scaled")
    assert preparation.matrix(X).shape[1] == MAX_CATEGORIES + 1
    rare = preparation.matrix(pd.DataFrame({"c": ["c0", "unseen", "c7", None]}))
    assert rare[:, -1].tolist() == [1, 1, 0, 1]
    assert rare.sum(1).tolist() == [1, 1, 1, 1]


def test_the_order_of_categories_and_unused_ones_do_not_matter():
    values = ["b", "a", "c", "a", "b", "c"] * 5
    plain = pd.DataFrame({"c": pd.Categorical(values)})
    other = pd.DataFrame({"c": pd.Categorical(values, categories=["z", "c", "b", "a"])})
    for way in ("scaled", "ordinal", "filled"):
        assert np.array_equal(learn_preparation(plain, way)[1], learn_preparation(other, way)[1])


def test_other_types_of_columns():
    X = pd.DataFrame(
        {
            "date": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "mixed": pd.Series([1, "a", None], dtype=object),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "Int64": pd.array([1, None, 3], dtype="Int64"),
            "object": pd.Series([1, 2.5, None], dtype=object),
        }
    )
    preparation, _ = learn_preparation(X, "ordinal")
    assert preparation.categorical == [False, False, False, True, True]
    assert np.array_equal(np.isnan(preparation.matrix(X)), X[["date", "Int64", "object", "mixed", "flag"]].isna())


def test_numbers_whose_squares_are_not_finite():
    preparation, _ = learn_preparation(pd.DataFrame({"n": [1e300, -1e300, 0.0, np.nan]}), "scaled")
    matrix = preparation.matrix(pd.DataFrame({"n": [1e300, 1e308, -1e300, 0.0, np.nan]}))
    expected = np.sqrt(1.5)
    np.testing.assert_allclose(matrix, [[expected, 0], [expected, 0], [-expected, 0], [0, 0], [0, 1]])
