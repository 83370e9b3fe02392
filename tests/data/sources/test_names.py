"""References to datasets: what they mean, and what a wrong one is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopular.data import sources
from hopular.data.dataset import DataError

CSV = "x,z,y\n" + "".join(f"{i * 3 % 11},{i * i % 7},{'ab'[i % 2]}\n" for i in range(20))


@pytest.fixture
def folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data"
    path.mkdir()
    (path / "one.csv").write_text(CSV)
    (path / "two.csv").write_text(CSV)
    return path


def test_suites() -> None:
    suites = sources.suites()
    assert {name: len(members) for name, members in suites.items()} == {
        "demo": 4,
        "small": 21,
        "medium": 6,
        "paper": 27,
    }
    assert suites["small"][0] == "conn-bench"
    assert suites["paper"][-1] == "eye"


def test_references_become_datasets_each_once(folder: Path) -> None:
    assert sources.expand("glass") == ["glass"]
    assert sources.expand(["demo", "iris", "Haberman", "monks_2:repaired", "openml:31"]) == [
        *sources.DEMO,
        "haberman-survival",
        "monks-2:repaired",
        "openml:31",
    ]
    assert sources.expand("data") == ["data/one.csv", "data/two.csv"]
    assert sources.expand(["data/one.csv", str(folder)]) == ["data/one.csv", *map(str, sorted(folder.iterdir()))]
    assert sources.expand("https://example.org/t.csv") == ["https://example.org/t.csv"]


def test_a_name_comes_before_a_file_of_that_name(folder: Path) -> None:
    Path("glass").mkdir()
    assert sources.expand("glass") == ["glass"]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("glas", r"no dataset or suite 'glas'. Did you mean 'glass'\? Suites: demo, small, medium, paper;"),
        ("smal", r"Did you mean 'small'\?"),
        ("glass:repaired", "no dataset or suite 'glass:repaired'"),
        ("qqqqqqqq", "'qqqqqqqq'. Suites"),
        ("data/three.csv", "there is no file 'data/three.csv': check the path"),
        ("three.csv", "there is no file 'three.csv'"),
    ],
)
def test_wrong_references(folder: Path, reference: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        sources.expand(["iris", reference])


def test_load_finds_the_source(folder: Path) -> None:
    assert sources.load("iris").name == "iris"
    own = sources.load("data/one.csv", target="y")
    assert (own.name, own.task, list(own.X.columns)) == ("one", "classification", ["x", "z"])


def test_load_wants_one_dataset_and_a_target_for_files_alone(folder: Path) -> None:
    with pytest.raises(DataError, match=r"'demo' means 4 datasets: load them one by one \(iris, wine"):
        sources.load("demo")
    with pytest.raises(DataError, match="target='x' can be given for your own file only; 'iris' has its target"):
        sources.load("iris", target="x")
