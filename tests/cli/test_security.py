"""What comes from outside stays outside: no secret is shown or kept, no pickle is written, no name becomes code."""

from __future__ import annotations

import io
import re
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from hopular.cli import app
from hopular.cli.frame import run
from hopular.trials.study import Study, open_storage
from tests.cli.conftest import Hopular
from tests.data.loopback import Reply, serve

SECRET = "hunter2.Tr0ub4dor"
PICKLE = re.compile(rb"\A\x80[\x02-\x05]")
SCRIPT = "<script>alert(1)</script>"
EVIL = "o'neil \"; DROP TABLE runs; -- <img src=x onerror=alert(1)>"


@dataclass(frozen=True)
class Fit:
    """A fit of a table with wicked names, from an address with a token: all that was shown, and where all is kept."""

    shown: str
    model: Path
    runs: Path


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    folder = tmp_path_factory.mktemp("fit")
    frame = pd.DataFrame(
        {SCRIPT: [n % 10 / 4 for n in range(81)], "[/b]": [f"{'uv'[n % 2]}{SCRIPT}" for n in range(81)]}
    )
    frame[EVIL] = [None, *(SCRIPT if n % 10 > 4 else EVIL for n in range(80))]  # the first row has no target
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, serve() as server, redirect_stdout(shown), redirect_stderr(shown):
        patch.setenv("HOPULAR_RUNS", str(folder / "runs"))
        patch.setenv("HOPULAR_CACHE", str(folder / "cache"))
        address = server.answer(f"/trees.csv?token={SECRET}&part=1", Reply(frame.to_csv(index=False).encode()))
        words = ["-t", EVIL, "-m", "2", "--methods", "majority,pls", "-o", str(folder / "model")]
        assert run(app, ["fit", address, *words]) == 0, shown.getvalue()
        assert run(app, ["datasets", address, "-t", EVIL]) == 0, shown.getvalue()
    return Fit(shown.getvalue(), folder / "model", folder / "runs")


def files_of(fit: Fit) -> list[Path]:
    return [path for folder in (fit.model, fit.runs) for path in folder.rglob("*") if path.is_file()]


def test_a_token_of_the_data_is_not_in_the_model_nor_on_the_screen(fit: Fit) -> None:
    assert SECRET not in fit.shown
    assert [path for path in files_of(fit) if SECRET.encode() in path.read_bytes()] == []
    assert "trees.csv?token=***" in (fit.model / "report.html").read_text()
    assert "token=***" in (fit.model / "command.txt").read_text()


def test_no_file_of_a_model_is_a_pickle(fit: Fit) -> None:
    assert len(files_of(fit)) > 5
    for path in files_of(fit):
        assert path.suffix not in (".pkl", ".pickle", ".joblib"), path
        assert not PICKLE.match(path.read_bytes()), path
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as members:
                assert not any(PICKLE.match(members.read(name)) for name in members.namelist()), path


def test_names_from_a_file_are_no_code(fit: Fit) -> None:
    page = (fit.model / "report.html").read_text()
    assert "DROP TABLE" in page  # the name is shown,
    assert SCRIPT not in page  # and only shown
    assert "<img src=x" not in page
    assert "[/b]" in (fit.model / "hopular-model.json").read_text()


def test_names_are_no_code_of_the_database_of_studies(runs: Path) -> None:
    study = Study(open_storage(), EVIL)
    assert study.lease(range(1)) == 0
    assert len(Study(open_storage(), EVIL)._leases()) == 1


def test_servers_that_others_can_reach_are_warned_of(hopular: Hopular, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not here")

    monkeypatch.setattr("flows.services.lifecycle.start", refuse)
    warned = hopular("up", "--host", "0.0.0.0", "--quiet")
    assert "note: listening on 0.0.0.0: whoever can reach that address can run code on this machine" in warned.err
    assert "listening" not in hopular("up", "--quiet").err


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
