"""`hopular benchmark`: what it refuses before anything is started."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Hopular


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is started: whatever gets so far fails."""
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    monkeypatch.setitem(sys.modules, "flows.benchmark", None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trees.csv"
    path.write_text("\n".join(["height,tree", *(f"{n % 10 / 4},{'oak' if n % 2 else 'elm'}" for n in range(30))]))
    return path


def test_a_file_without_its_target_is_refused_at_once(hopular: Hopular, file: Path) -> None:
    for words, message in (
        ((str(file),), "which column is to be predicted? Name it with target (--target)"),
        ((str(file), "-t", "tre"), "target names a column 'tre' that is not there. Did you mean 'tree'?"),
    ):
        outcome = hopular("benchmark", *words)
        assert outcome.code == 2
        assert message in outcome.err
        assert "DataError" not in outcome.err


def test_one_file_that_can_be_used_is_enough(hopular: Hopular, file: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3,4\n")
    for others in ([str(file)], ["iris"]):
        outcome = hopular("benchmark", str(tmp_path / "bad.csv"), *others, "-t", "tree")
        assert "flows.benchmark" in outcome.err  # it has come to the start


def test_the_command_to_go_on_with_is_whole() -> None:
    from hopular.benchmark.plan import Plan

    plan = Plan(datasets=["iris"], budget="smoke", runner="dask", address="tcp://me:hush@host:8786")
    assert plan.command() == "hopular benchmark iris --budget smoke --runner dask --address tcp://host:8786"
    plan = Plan(datasets=["iris"], architecture="released")
    assert plan.command() == "hopular benchmark iris --budget quick --architecture released"


def test_numbers_devices_and_addresses_that_are_none(hopular: Hopular, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for words, message in (
        (("--splits", "x"), "error: --splits is 'x': use a whole number from 1 on, or all\n"),
        (("--splits", "0"), "error: --splits is '0': use a whole number from 1 on, or all\n"),
        (
            ("--architecture", "relesed"),
            "error: there is no architecture 'relesed'. Did you mean 'released'? There are",
        ),
        (("--device", "cuda"), "does not find here: use cpu or auto"),
        (("--runner", "dask", "--address", "nonsense"), "--address is 'nonsense': use one such as tcp://host:8786"),
        (("--runner", "dask", "--address", f"tcp://127.0.0.1:{port}"), "start the cluster first"),
    ):
        outcome = hopular("benchmark", *words)
        assert outcome.code == 2, outcome.err
        assert message in outcome.err
