"""Commands run in this process, with a runs folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hopular.cli import app
from hopular.cli.frame import run


@dataclass(frozen=True)
class Outcome:
    """What a command gave back."""

    code: int
    out: str
    err: str


Hopular = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    monkeypatch.setenv("HOPULAR_RUNS", str(folder))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("MLFLOW_TRACKING_URI", "HOPULAR_STORAGE", "HOPULAR_DATA", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def hopular(capsys: pytest.CaptureFixture[str]) -> Hopular:
    """Runs a command line."""

    def call(*words: str) -> Outcome:
        code = run(app, words)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
