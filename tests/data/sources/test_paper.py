"""The paper's datasets as loaded agree with the files' facts and the paper, except where the registry says why."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.data.dataset import DataError, Dataset
from hopular.data.registry import Entry, entries, paper_names
from hopular.data.sources import paper
from hopular.data.splits import make_splits
from tests.data.loopback import Reply, serve

NAMES = list(entries())
Load = Callable[[str], Dataset]


@pytest.fixture
def load(mirror: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.setenv("HOPULAR_CACHE", str(shared_cache))
    return paper.load


@pytest.fixture(scope="session")
def facts(mirror: Path) -> pd.DataFrame:
    path = mirror / "FACTS.csv"
    if not path.exists():
        pytest.skip("the mirror HOPULAR_DATA has no FACTS.csv to compare with")
    return pd.read_csv(path).set_index("dataset")


def explained(entry: Entry, *words: str) -> bool:
    return any(all(word in remark for word in words) for remark in entry.remarks)


@pytest.mark.parametrize("name", NAMES)
def test_rows_kinds_and_classes(name: str, load: Load, facts: pd.DataFrame) -> None:
    entry, dataset = entries()[name], load(name)
    fact = facts.loc[entry.folder]
    assert dataset.name == name
    assert len(dataset) == fact["rows_after_dedupe"]
    assert dataset.X.shape[1] == fact["features_used"]
    kinds = list(dataset.kinds.values())
    continuous, categorical = kinds.count("continuous"), kinds.count("categorical")
    if (continuous, categorical) != (fact["numeric_in_code"], fact["discrete_in_code"]):
        assert explained(entry, "released code")
    if (continuous, categorical) != (entry.paper.continuous, entry.paper.categorical):
        assert explained(entry, "paper", "features") or explained(entry, "paper", "categorical"), entry.remarks
    if len(dataset) != entry.paper.rows:
        assert explained(entry, f"The paper counts {entry.paper.rows} rows")
    if entry.task == "classification":
        expected = sorted(ast.literal_eval(fact["class_counts"]).items())
        assert dataset.y.value_counts().sort_index().tolist() == [count for _, count in expected]
    else:
        assert fact["class_counts"] == "regression"
    assert dataset.defects == entry.defects


@pytest.mark.parametrize("name", NAMES)
def test_published_folds(name: str, load: Load, facts: pd.DataFrame) -> None:
    dataset = load(name)
    sizes = [f"{len(s.train)}/{len(s.valid)}/{len(s.test)}" for s in make_splits(dataset)]
    assert " ; ".join(sizes) == facts.loc[entries()[name].folder]["published_train/val/test_per_fold"]


@pytest.mark.parametrize("name", [n for n in NAMES if entries()[n].suite == "small"])
def test_small_folds_are_the_rows_of_the_files(name: str, load: Load, mirror: Path) -> None:
    entry, dataset = entries()[name], load(name)
    test, valid = (np.loadtxt(mirror / file, delimiter=",") == 1 for file in entry.files[2:])
    for k, split in enumerate(make_splits(dataset)):
        assert split.id == f"fixed-{k}"
        np.testing.assert_array_equal(split.test, np.flatnonzero(test[:, k]))
        np.testing.assert_array_equal(split.valid, np.flatnonzero(valid[:, k] & ~test[:, k]))
        np.testing.assert_array_equal(split.train, np.flatnonzero(~test[:, k] & ~valid[:, k]))


@pytest.mark.parametrize("name", [n for n in NAMES if entries()[n].suite == "small"])
def test_small_values_are_those_of_the_file(name: str, load: Load, mirror: Path) -> None:
    """Continuous columns unchanged, codes one to one with the values, and only listed codes missing."""
    entry, dataset = entries()[name], load(name)
    raw = pd.read_csv(mirror / entry.files[0], header=None).to_numpy()
    listed = {code.column: code.rows for code in entry.missing}
    for j, (column, kind) in enumerate(dataset.kinds.items()):
        values = dataset.X[column]
        assert values.isna().sum() == listed.get(column, 0)
        known = values.notna().to_numpy()
        if kind == "continuous":
            np.testing.assert_array_equal(values[known], raw[known, j])
        else:
            pairs = pd.DataFrame({"code": values[known].astype(str), "value": raw[known, j]}).drop_duplicates()
            assert pairs["code"].is_unique
            assert pairs["value"].is_unique
            assert pairs.sort_values("value")["code"].astype(int).is_monotonic_increasing


def test_missing_values_become_missing(load: Load, mirror: Path) -> None:
    missing = {name: int(load(name).X.isna().sum().sum()) for name in NAMES}
    listed = json.loads((mirror / "colleges/missing.json").read_text())
    assert sum(len(columns) for columns in listed.values()) == 104_305
    in_dropped_column = sum(5 in columns for columns in listed.values())
    assert missing["colleges"] == 104_305 - in_dropped_column == 104_249
    assert {name: count for name, count in missing.items() if count and name != "colleges"} == {
        "breast-cancer": 9,
        "heart-cleveland": 2,
        "primary-tumor": 218,
        "horse-colic": 1927,
        "cylinder-bands": 214,
        "credit-approval": 39,
        "mammographic": 160,
        "blastchar": 11,
    }
    assert load("blastchar").X["TotalCharges"].isna().sum() == 11


def test_colleges_cells_are_the_listed_ones(load: Load, mirror: Path) -> None:
    X = load("colleges").X
    header = list(pd.read_csv(mirror / "colleges/colleges.csv", nrows=0).columns)
    listed = json.loads((mirror / "colleges/missing.json").read_text())
    missing = X.isna()
    for row in range(0, len(X), 97):
        expected = {header[j] for j in listed[str(row)]} - {"school_webpage"}
        assert set(X.columns[missing.iloc[row]]) == expected
    assert "Master's Colleges and Universities (larger programs)" in X["carnegie_basic_classification"].cat.categories


def monks_rule(codes: pd.DataFrame) -> pd.Series:
    """MONK-2: exactly two of the six attributes have their first value."""
    return (codes == 0).sum(axis=1) == 2


def test_repaired_monks_obey_the_rule(load: Load) -> None:
    damaged, repaired = load("monks-2"), load("monks-2:repaired")
    codes = repaired.X.astype(int)
    assert codes.max().tolist() == [2, 2, 1, 2, 3, 1]
    np.testing.assert_array_equal(monks_rule(codes), repaired.y == "1")
    assert (monks_rule(damaged.X.astype(int)) == (damaged.y == "1")).mean() < 0.9
    assert repaired.defects == ()
    assert "ranked per column" in repaired.notes[-1]


def test_repaired_horse_colic_shares_its_categories(load: Load) -> None:
    def unseen(dataset: Dataset) -> float:
        test = dataset.parts["fold-0"] == "test"  # type: ignore[index]
        cells = [
            ~dataset.X.loc[test, c].dropna().isin(dataset.X.loc[~test, c])
            for c, kind in dataset.kinds.items()
            if kind == "categorical"
        ]
        return float(pd.concat(cells).mean())

    damaged, repaired = load("horse-colic"), load("horse-colic:repaired")
    assert unseen(damaged) == 1.0
    assert unseen(repaired) == 0.0
    numbers = repaired.X.select_dtypes("float64")
    assert ((numbers > 0) & (numbers < 1) | numbers.isna()).all(axis=None)
    assert damaged.X.isna().equals(repaired.X.isna())


def test_repaired_australian_credit_predicts_the_true_class(load: Load) -> None:
    damaged, repaired = (load(f"statlog-australian-credit{v}") for v in ("", ":repaired"))
    assert repaired.y.tolist() == damaged.X["x13"].tolist()
    assert repaired.X["A1"].tolist() == damaged.y.tolist()
    assert "x13" not in repaired.X.columns
    assert repaired.y.value_counts().to_dict() == {"0": 383, "1": 307}
    assert [s.fingerprint for s in make_splits(repaired)] == [s.fingerprint for s in make_splits(damaged)]


def test_fingerprints_differ(load: Load) -> None:
    assert len({load(name).fingerprint for name in paper_names()}) == 30


def test_a_wrong_or_absent_file_of_the_mirror_is_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPULAR_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"has no file glass_identification/glass_identification_py.dat: complete"):
        paper.load("glass")
    (tmp_path / "glass_identification").mkdir()
    (tmp_path / "glass_identification/glass_identification_py.dat").write_text("1,2\n")
    with pytest.raises(DataError, match=r"glass_identification_py.dat is not the authors' file: SHA-256 [0-9a-f]{64}"):
        paper.load("glass")


def test_download_from_the_authors_repository(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come as they do from the network, but from a server on loopback with files of its own."""
    monkeypatch.delenv("HOPULAR_DATA", raising=False)
    random = np.random.default_rng(0)
    rows, fold = random.normal(size=(40, 9)).round(4), np.arange(40) % 4
    folds = (fold[:, None] == np.arange(4)).astype(int)

    def text(values: np.ndarray) -> bytes:
        return "\n".join(",".join(map(str, row)) for row in np.atleast_2d(values)).encode() + b"\n"

    entry = entries()["glass"]
    contents = (text(rows), text((fold % 3)[:, None]), text(folds), text(np.roll(folds, 1, axis=1)))
    files = dict(zip(entry.files, contents, strict=True))
    sums = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    monkeypatch.setattr(paper, "checksums", lambda: sums)
    with serve() as server:
        for file, content in files.items():
            server.answer(f"/{file}", Reply(content))
        monkeypatch.setattr(paper, "ADDRESS", server.url)
        dataset = paper.load("glass")
        assert len(server.requests) == 4
        np.testing.assert_array_equal(dataset.X.to_numpy(), rows)
        assert sorted(p.name for p in (cache / "paper/glass_identification").iterdir()) == sorted(
            file.split("/")[1] for file in files
        )
        for split in make_splits(dataset):
            assert len(split.test) == len(split.valid) == 10
        assert paper.load("glass").fingerprint == dataset.fingerprint
        assert len(server.requests) == 4
