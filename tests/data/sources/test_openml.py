"""OpenML by id, through scikit-learn, against a server on loopback that answers as OpenML does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hopular.data.dataset import DataError
from hopular.data.sources import openml
from tests.data.loopback import Reply, Server, serve
from tests.data.openml_server import HEADER, ROWS, publish, stand_in


@pytest.fixture
def server(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve() as running:
        stand_in(running, monkeypatch)
        monkeypatch.setattr(openml, "DELAY", 0.01)
        yield running


def test_a_dataset_by_id(server: Server) -> None:
    publish(server, 31, ("play",))
    dataset = openml.load("openml:31")
    assert dataset.name == "openml:31"
    assert dataset.source == "OpenML 31, weather version 2"
    assert dataset.kinds == {"outlook": "categorical", "temperature": "continuous", "windy": "categorical"}
    assert dataset.task == "classification"
    assert dataset.y.tolist() == ["no", "yes", "yes", "no"]
    assert dataset.X["temperature"].isna().tolist() == [False, True, False, False]
    assert dataset.X["outlook"].isna().sum() == 1
    assert "1 row without a target left out" in dataset.notes


def test_it_is_downloaded_once(server: Server) -> None:
    publish(server, 31, ("play",))
    first = openml.load("openml:31")
    asked = len(server.requests)
    server.script.clear()
    assert openml.load("OpenML:31").fingerprint == first.fingerprint
    assert len(server.requests) == asked


def test_a_server_that_fails_at_first_is_asked_again(server: Server) -> None:
    publish(server, 31, ("play",))
    info = server.script["/info/31"]
    server.script["/info/31"] = [Reply(status=500), *info]
    with pytest.warns(UserWarning, match="network error"):
        assert len(openml.load("openml:31")) == 4


@pytest.mark.parametrize(("targets", "found"), [((), "none"), (("play", "windy"), "2")])
def test_targets_must_be_one(server: Server, targets: tuple[str, ...], found: str) -> None:
    publish(server, 5, targets)
    with pytest.raises(DataError, match=f"openml:5 has {found} default targets: save it as a file"):
        openml.load("openml:5")


@pytest.mark.filterwarnings("ignore:A network error occurred")
def test_an_unknown_id_is_named(server: Server) -> None:
    with pytest.raises(
        DataError, match=r"OpenML answered 404 for dataset 99: look it up at https://www.openml.org/d/99"
    ):
        openml.load("openml:99")


@pytest.mark.filterwarnings("ignore:A network error occurred")
def test_without_a_network_the_error_says_what_to_do(server: Server) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match=r"OpenML cannot be reached for dataset 31 .*try again; once downloaded"):
        openml.load("openml:31")


@pytest.mark.filterwarnings("ignore:Invalid cache")
def test_a_damaged_file_is_refused(server: Server) -> None:
    publish(server, 31, ("play",))
    server.answer("/download/31/weather.arff", Reply((HEADER + ROWS.replace("85", "58")).encode()))
    with pytest.raises(DataError, match=r"openml:31 cannot be used: .*md5"):
        openml.load("openml:31")


@pytest.mark.parametrize("name", ["openml:", "openml:x", "openml:1.5", "openml"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=f"such as openml:31, not {name!r}"):
        openml.load(name)
