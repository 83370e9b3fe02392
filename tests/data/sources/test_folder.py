"""A folder of data files: which count, and how one is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopular.data.dataset import DataError
from hopular.data.sources import folder

CSV = "x,y\n" + "".join(f"{i / 7},{'ab'[i % 2]}\n" for i in range(20))


@pytest.fixture
def data(tmp_path: Path, cache: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    for name in ("wine.csv", "iris.tsv", "Beer.csv"):
        (path / name).write_text(CSV.replace(",", "\t") if name.endswith("tsv") else CSV)
        (path / name).with_suffix(".toml").write_text('target = "y"')
    return path


def test_every_data_file_is_found_in_order(data):
    (data / ".hidden.csv").write_text(CSV)
    (data / "~$open.xlsx").write_text("")
    (data / "README.md").write_text("")
    (data / "inner.csv").mkdir()
    (data / "inner").mkdir()
    (data / "inner" / "deep.csv").write_text(CSV)
    assert [path.name for path in folder.files(data)] == ["Beer.csv", "iris.tsv", "wine.csv"]


def test_a_dataset_is_loaded_by_name(data):
    wine = folder.load(data, "wine")
    assert (wine.name, wine.source, wine.task) == ("wine", str(data / "wine.csv"), "classification")
    assert folder.load(data, "iris.tsv").name == "iris"


@pytest.mark.parametrize("hold", [[], ["README.md", "wine.toml", ".wine.csv"]])
def test_a_folder_without_data_says_what_counts(tmp_path, hold):
    for name in hold:
        (tmp_path / name).write_text("")
    with pytest.raises(DataError) as error:
        folder.files(tmp_path)
    assert str(error.value).startswith(f"{tmp_path} holds no data file: one has a suffix of .csv, .tsv, ")


def test_an_absent_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"^there is no folder .*nowhere$"):
        folder.files(tmp_path / "nowhere")


def test_an_unknown_name_gets_the_nearest(data):
    with pytest.raises(DataError) as error:
        folder.load(data, "win")
    assert str(error.value) == f"{data} holds no dataset 'win', but Beer, iris, wine. Did you mean 'wine'?"


def test_a_name_of_two_files_needs_its_suffix(data):
    (data / "wine.tsv").write_text(CSV.replace(",", "\t"))
    with pytest.raises(DataError) as error:
        folder.load(data, "wine")
    assert str(error.value) == f"{data} holds more than one 'wine': wine.csv, wine.tsv. Add the suffix"
    assert folder.load(data, "wine.tsv").name == "wine"
