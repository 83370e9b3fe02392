"""The contract of data sources: whatever a dataset comes from, methods and splits can rely on the same things."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.data.dataset import DataError, Dataset
from hopular.data.sources import bundled, file, openml, paper
from hopular.data.splits import make_splits
from tests.data.loopback import Reply, serve
from tests.data.openml_server import publish, stand_in


@dataclass(frozen=True)
class Case:
    """A way to load a dataset that exists and one that does not."""

    load: Callable[[], Dataset]
    load_unknown: Callable[[], Dataset]


def write_table(path: Path) -> Path:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"size": random.normal(size=60), "colour": random.choice(["red", "blue"], 60)})
    frame["kind"] = np.where(frame["size"] > 0, "large", "small")
    frame.loc[::7, "size"] = np.nan
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(params=["bundled", "paper", "openml", "file", "address"])
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data"
    data.mkdir()
    table = write_table(data / "table.csv")
    (data / "table.toml").write_text('target = "kind"\n')
    with serve() as server:
        stand_in(server, monkeypatch)
        monkeypatch.setattr(openml, "RETRIES", 1)
        publish(server, 31, ("play",), copies=6)
        address = server.answer("/table.csv", Reply(table.read_bytes()))
        cases = {
            "bundled": Case(lambda: bundled.load("iris"), lambda: bundled.load("none")),
            "paper": Case(lambda: paper.load("haberman"), lambda: paper.load("none")),
            "openml": Case(lambda: openml.load("openml:31"), lambda: openml.load("openml:32")),
            "file": Case(lambda: file.load(table), lambda: file.load(data / "none.csv")),
            "address": Case(lambda: file.load(address, target="kind"), lambda: file.load(f"{server.url}/none.csv")),
        }
        if request.param == "paper" and not os.environ.get("HOPULAR_DATA"):
            pytest.skip("HOPULAR_DATA is not set: the paper's files are needed for this test, and tests use no network")
        yield cases[request.param]


def test_it_gives_a_dataset_with_honest_types(case: Case) -> None:
    dataset = case.load()
    assert isinstance(dataset, Dataset)
    assert dataset.name
    assert dataset.source
    assert all(isinstance(name, str) for name in dataset.X.columns)
    for series in (*(dataset.X[c] for c in dataset.X.columns), dataset.y):
        assert series.dtype == np.float64 or isinstance(series.dtype, pd.CategoricalDtype)
    for table in (dataset.X, dataset.y):
        assert table.index.equals(pd.RangeIndex(len(dataset)))
    assert isinstance(dataset.notes, tuple)
    assert all(isinstance(note, str) for note in (*dataset.notes, *dataset.defects))


def test_loading_twice_gives_the_same(case: Case) -> None:
    first, second = case.load(), case.load()
    assert first.fingerprint == second.fingerprint
    assert (first.name, first.source, first.notes, first.protocol) == (
        second.name,
        second.source,
        second.notes,
        second.protocol,
    )
    pd.testing.assert_frame_equal(first.X, second.X)
    pd.testing.assert_series_equal(first.y, second.y)


def test_its_own_protocol_divides_it(case: Case) -> None:
    dataset = case.load()
    splits = make_splits(dataset)
    assert splits
    for split, again in zip(splits, make_splits(case.load()), strict=True):
        assert min(len(split.train), len(split.valid), len(split.test)) > 0
        assert split.fingerprint == again.fingerprint


@pytest.mark.filterwarnings("ignore:A network error occurred")
def test_what_does_not_exist_is_a_data_error_that_names_it(case: Case) -> None:
    with pytest.raises(DataError, match=r"none|32"):
        case.load_unknown()
