"""The README keeps its promises: its Python runs, its commands exist, its tables say what the code says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from hopular.cli import EXIT_CODES
from hopular.cli.methods import methods as methods_command
from hopular.methods import methods
from tests.documented import ROOT, check_line, run_python, shell_lines, write_houses

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the README's table, and results of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")  # no command may look for a server here
    for name in ("MLFLOW_TRACKING_URI", "HOPULAR_STORAGE", "HOPULAR_DATA"):
        monkeypatch.delenv(name, raising=False)
    write_houses(tmp_path)
    return tmp_path


def test_python_blocks_run(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = run_python(README)
    assert session["rows"].shape == (3, 4)
    assert set(session["fitted"].leaderboard["method"]) >= {"hopular", "lightgbm"}
    assert "LightGBM" in capsys.readouterr().out
    assert (elsewhere / "model.safetensors").is_file()


@pytest.mark.parametrize("line", shell_lines(README))
def test_shell_lines_hold(line: str) -> None:
    if line.startswith("make") and shutil.which("make") is None:
        pytest.skip("make is not installed")
    check_line(line)


def test_the_two_commands_come_first() -> None:
    assert shell_lines(README)[:2] == ["make benchmark", "make test"]


def test_a_wrong_line_would_be_noticed() -> None:
    for line, error in (
        ("hopular benchmark small --buget quick", "Unknown option"),
        ("hopular benchmark smal", "no dataset or suite 'smal'"),
        ("hopular benchmark small --methods hopula", "no method 'hopula'"),
        ("prefect deployment run hopular-benchmrk", "hopular-benchmrk"),
        ("pip install 'hopular[desk]'", "desk"),
        ("sudo hopular", "no check for 'sudo'"),
    ):
        with pytest.raises(Exception, match=error):
            check_line(line)


def test_table_of_methods_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    methods_command()
    printed = [line.split("\t") for line in capsys.readouterr().out.splitlines() if line.count("\t") == 4][1:]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (\w+) \| (\w+) \| (\w*) ?\|$", TEXT, re.M)
    assert [list(row) for row in rows] == printed
    assert len(rows) == len(methods())


def test_every_setting_is_documented() -> None:
    sources = [path for package in ("hopular", "flows", "search_spaces") for path in (ROOT / package).rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"HOPULAR_[A-Z_]+[A-Z]", path.read_text(encoding="utf-8"))}
    read -= {"HOPULAR_OWNER", "HOPULAR_SERVICES"}  # marks on our own processes, not settings
    for page in (README, ROOT / "docs" / "reference" / "settings.md"):
        told = set(re.findall(r"`(HOPULAR_[A-Z_]+)`", page.read_text(encoding="utf-8")))
        assert told == read, page


def test_exit_codes_are_those_of_the_command() -> None:
    codes = re.findall(r"\d+", EXIT_CODES)
    sentence = re.search(r"Commands exit with (.+?)\. ", TEXT, re.S)
    assert sentence is not None
    assert re.findall(r"\d+", sentence[1]) == codes
