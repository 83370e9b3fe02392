"""Passwords and tokens that are given in addresses come back in nothing that is shown or kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Hopular
from tests.data.loopback import Reply, serve

SECRET = "hunter2.Tr0ub4dor"
ROWS = "\n".join(["height,age,tree", *(f"{n % 10},{n % 7},{'oak' if n % 10 > 4 else 'elm'}" for n in range(80))])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))


def test_a_token_of_the_data_is_not_in_the_model_nor_on_the_screen(hopular: Hopular, runs: Path) -> None:
    folder = runs.parent / "model"
    with serve() as server:
        address = server.answer(f"/trees.csv?token={SECRET}&part=1", Reply(f"{ROWS}\n1,1,\n".encode()))
        words = ("fit", address, "-t", "tree", "-m", "2", "--methods", "majority", "-o", str(folder))
        outcome = hopular(*words)
        looked = hopular("datasets", address, "-t", "tree")
    assert (outcome.code, looked.code) == (0, 0), outcome.err
    for text in (outcome.out, outcome.err, looked.out, looked.err):
        assert SECRET not in text
    kept = [path for root in (folder, runs) for path in root.rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
    assert "trees.csv?token=***" in (folder / "report.html").read_text()
    assert "token=***" in (folder / "command.txt").read_text()


@pytest.mark.parametrize("address", [f"http://me:{SECRET}@127.0.0.1:1", f"postgresql://me:{SECRET}@127.0.0.1:1/x"])
def test_a_password_of_the_tracking_store_is_not_shown_by_the_doctor(
    address: str, hopular: Hopular, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    outcome = hopular("doctor")
    assert outcome.code == 1
    assert "fail  tracking" in outcome.out
    assert "127.0.0.1:1" in outcome.out
    assert SECRET not in outcome.out + outcome.err


def test_nor_by_the_pages(hopular: Hopular, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"https://me:{SECRET}@mlflow.example")
    assert hopular("ui").out == "ok    MLflow UI     https://mlflow.example\n"


def test_a_database_of_studies_is_known_by_its_short_name_too(
    hopular: Hopular, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPULAR_STORAGE", f"postgresql://me:{SECRET}@127.0.0.1:1/studies")
    outcome = hopular("doctor")
    assert "psycopg2" not in outcome.out
    assert "fail  studies       postgresql://127.0.0.1:1/studies cannot be used" in outcome.out
    assert SECRET not in outcome.out + outcome.err


def test_a_doctor_says_how_an_address_and_a_port_are_written(hopular: Hopular, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_STORAGE", "garbage")
    monkeypatch.setenv("HOPULAR_MLFLOW_PORT", "abc")
    outcome = hopular("doctor")
    assert "HOPULAR_STORAGE is not the URL of a database: use sqlite:////folder/file.db or postgres" in outcome.out
    assert "HOPULAR_MLFLOW_PORT is 'abc': use a number from 1 to 65535, or unset it" in outcome.out
