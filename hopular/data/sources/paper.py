"""The paper's 27 datasets: the authors' files with their published folds, from their repository or a local mirror.

Files are checked against checksums.txt wherever they come from. Features of the small suite are stored standardised;
categorical ones are turned back into codes here, and codes of missing values into missing values.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from importlib import resources
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from hopular import settings
from hopular.data.cache import cache_key, cached
from hopular.data.dataset import DataError, Dataset, Protocol
from hopular.data.download import fetch
from hopular.data.registry import Entry, Missing, Repair, find, paper_names

_COMMIT = "3e0c39fdc59568349373af573ee52c03305ca105"
ADDRESS = f"https://raw.githubusercontent.com/ml-jku/hopular/{_COMMIT}/hopular/auxiliary/resources"
_VERSION = "1"  # of what this module makes of the files
SEED = 1  # of the medium suite's folds


def names() -> list[str]:
    """Return the names of all datasets of the paper and their repaired variants."""
    return paper_names()


def load(name: str) -> Dataset:
    """Load a dataset of the paper by name, alias or NAME:repaired."""
    entry, repaired = find(name)
    sums = (checksums()[file] for file in entry.files)
    key = cache_key("paper", _VERSION, repr(entry), str(repaired), *sums)

    def build() -> Dataset:
        dataset = _small(entry) if entry.suite == "small" else _medium(entry)
        return _repair(dataset, entry) if repaired else dataset

    return cached(key, build)


@cache
def checksums() -> dict[str, str]:
    """Return the SHA-256 of each of the authors' files, by its path."""
    text = resources.files("hopular.data").joinpath("checksums.txt").read_text("utf-8")
    return dict(line.split() for line in text.splitlines())


def read(file: str) -> bytes:
    """Read one of the authors' files, from the mirror if there is one, and check it."""
    expected, mirror = checksums()[file], settings.mirror()
    if mirror is None:
        return fetch(f"{ADDRESS}/{file}", settings.cache_folder() / "paper" / file, expected).read_bytes()
    path = mirror / file
    if not path.is_file():
        raise DataError(f"HOPULAR_DATA={mirror} has no file {file}: complete the mirror, or unset it to download")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataError(f"{path} is not the authors' file: SHA-256 {found}, expected {expected}. Copy it again.")
    return content


def _small(entry: Entry) -> Dataset:
    features, labels, test, valid = (pd.read_csv(BytesIO(read(file)), header=None) for file in entry.files)
    X = features.astype(np.float64).set_axis([f"x{j}" for j in range(features.shape[1])], axis=1)
    parts = pd.DataFrame(
        {
            f"fold-{k}": np.select([test[k] == 1, valid[k] == 1], ["test", "valid"], "train").astype(object)
            for k in range(test.shape[1])
        }
    )
    is_test = (test[0] == 1).to_numpy() if entry.missing_within_parts else np.zeros(len(X), dtype=bool)
    for code in entry.missing:
        X[code.column] = X[code.column].mask(_has_code(X[code.column].to_numpy(), code, is_test, entry))
    for name in X.columns if entry.categorical == "all" else entry.categorical:
        X[name] = _codes(X[name])
    y = _codes(labels[0]).rename(entry.target)
    return _dataset(entry, X, y, Protocol("fixed"), parts)


def _has_code(
    values: np.ndarray[Any, Any], code: Missing, is_test: np.ndarray[Any, Any], entry: Entry
) -> np.ndarray[Any, Any]:
    """Find where a column has the code of a missing value."""
    found = np.zeros(len(values), dtype=bool)
    for part in (is_test, ~is_test):
        if part.any():
            found |= part & (values == np.unique(values[part])[code.rank])
    if found.sum() != code.rows:
        raise DataError(f"{entry.name}: {found.sum()} rows of {code.column} have the missing code, not {code.rows}")
    return found


def _codes(column: pd.Series[Any]) -> pd.Series[Any]:
    """Turn standardised codes into categories "0", "1", ... in the order of the values."""
    category = pd.Series(pd.Categorical(column), name=column.name)
    return category.cat.rename_categories([str(rank) for rank in range(len(category.cat.categories))])


def _medium(entry: Entry) -> Dataset:
    content = read(entry.files[0])
    header = content[: content.index(b"\n")].decode().strip().replace('"', "").split(",")
    # The files come from ARFF: single quotes, '?' or a blank for a missing value, and a header of its own style.
    frame = csv.read_csv(
        pa.BufferReader(content),
        csv.ReadOptions(skip_rows=1, column_names=header),
        csv.ParseOptions(quote_char="'", escape_char="\\"),
        csv.ConvertOptions(null_values=["?", " "], strings_can_be_null=True),
    ).to_pandas()
    frame = _without_duplicates(frame.drop(columns=list(entry.drop)))
    y = frame.pop(entry.target)
    y = _strings(y) if entry.task == "classification" else y.astype(np.float64)
    for name in entry.categorical:
        frame[name] = _strings(frame[name])
    whole = {str(name): np.float64 for name, dtype in frame.dtypes.items() if dtype == np.int64}
    frame = frame.astype(whole) if whole else frame
    return _dataset(entry, frame, y, Protocol("kfold", folds=5, valid_share=entry.valid_share, seed=SEED), None)


def _without_duplicates(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop rows that repeat an earlier one. A column or two mostly show that there are none, which is quick."""
    alike = np.arange(len(frame))
    for name in frame.columns:
        alike = alike[frame[name].iloc[alike].duplicated(keep=False).to_numpy()]
        if not len(alike):
            return frame
    return frame.drop_duplicates(ignore_index=True)


def _strings(column: pd.Series[Any]) -> pd.Series[Any]:
    category = pd.Series(pd.Categorical(column), name=column.name)
    return category.cat.rename_categories([str(value) for value in category.cat.categories])


def _dataset(
    entry: Entry, X: pd.DataFrame, y: pd.Series[Any], protocol: Protocol, parts: pd.DataFrame | None
) -> Dataset:
    return Dataset(
        name=entry.name,
        X=X,
        y=y,
        task=entry.task,
        source=f"ml-jku/hopular at {_COMMIT[:7]}, {entry.folder}",
        defects=entry.defects,
        notes=entry.remarks,
        protocol=protocol,
        parts=parts,
    )


# ---------------------------------------------------------------------------------------------------- repaired variants


def _repair(dataset: Dataset, entry: Entry) -> Dataset:
    """Make the variant NAME:repaired of a dataset of the paper."""
    assert entry.repaired is not None, f"{entry.name} has no repaired variant"
    changed = _true_target(dataset, entry.repaired) if entry.repaired.how == "target" else _ranks_within_parts(dataset)
    notes = (*dataset.notes, entry.repaired.remark)
    return replace(changed, name=f"{entry.name}:repaired", defects=(), notes=notes)


def _true_target(dataset: Dataset, how: Repair) -> Dataset:
    """Put the true class in the target's place; the false one becomes the feature that it is."""
    X = dataset.X.drop(columns=how.target)
    X.insert(0, how.feature, dataset.y)
    return replace(dataset, X=X, y=dataset.X[how.target].rename(str(dataset.y.name)))


def _ranks_within_parts(dataset: Dataset) -> Dataset:
    """Undo that training and test rows were standardised each by themselves: only the order of values is kept.

    A category gets its rank in its part as code. A continuous value gets the share of its part's known values that are
    below it (ties half), which is alike in both parts if they were drawn alike.
    """
    assert dataset.parts is not None, "published folds are needed to tell the parts"
    test = (dataset.parts.iloc[:, 0] == "test").to_numpy()
    columns = {}
    for name in dataset.X.columns:
        column = dataset.X[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            columns[name] = _rank_categories(column, test)
        else:
            columns[name] = column.groupby(test).transform(lambda part: (part.rank() - 0.5) / part.count())
    return replace(dataset, X=pd.DataFrame(columns))


def _rank_categories(column: pd.Series[Any], test: np.ndarray[Any, Any]) -> pd.Series[Any]:
    codes = column.cat.codes.to_numpy()
    ranks = np.full(len(codes), -1)
    for part in (test, ~test):
        known = part & (codes >= 0)
        ranks[known] = np.unique(codes[known], return_inverse=True)[1]
    categories = pd.Index([str(rank) for rank in range(ranks.max() + 1)])
    return pd.Series(pd.Categorical.from_codes(ranks, categories), index=column.index, name=column.name)
