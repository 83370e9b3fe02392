"""Exit codes, messages and the log file."""

from __future__ import annotations

import logging
import shutil
import warnings
from pathlib import Path

import pytest
from cyclopts import App
from pydantic import BaseModel

import search_spaces
from hopular import methods
from hopular.cli.frame import run
from hopular.data.dataset import DataError, Protocol
from hopular.util import OperationError

toy = App(name="toy", result_action="return_value", suppress_keyboard_interrupt=False)


class Plan(BaseModel):
    trials: int
    name: str


@toy.command
def mistake() -> None:
    Protocol(folds=1)


@toy.command
def wrong_plan() -> None:
    Plan.model_validate({"trials": "many", "name": "x"})


@toy.command
def bug() -> None:
    raise KeyError("unknown")


@toy.command
def leak() -> None:
    raise KeyError("https://ann:hush@host/x?token=hush")


@toy.command
def plugin(name: str) -> None:
    methods.import_own(name)


@toy.command
def failure() -> None:
    raise OperationError("the server is gone: start it again")


@toy.command
def library() -> None:
    int("seven")


@toy.command
def interrupted() -> None:
    raise KeyboardInterrupt


@toy.command
def noise() -> None:
    logging.getLogger("some.library").warning("chatter")
    warnings.warn("old function", DeprecationWarning, stacklevel=1)


@toy.command
def seven() -> int:
    return 7


def log(runs: Path) -> str:
    return (runs / "logs" / "hopular.log").read_text()


def test_a_mistake_is_one_message_and_its_traceback_is_in_the_log(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(toy, ["mistake"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "error: protocol: folds is 1: use a whole number from 2 on\n"
    assert captured.out == ""
    assert "Traceback" in log(runs)
    assert DataError.__name__ in log(runs)


def test_refused_fields_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(toy, ["wrong-plan"]) == 2
    assert capsys.readouterr().err.startswith("error: trials: Input should be a valid integer")


@pytest.mark.parametrize(("command", "what"), [("bug", "KeyError: 'unknown'"), ("library", "ValueError: invalid lit")])
def test_what_is_unexpected_names_the_log(
    runs: Path, capsys: pytest.CaptureFixture[str], command: str, what: str
) -> None:
    assert run(toy, [command]) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"error: unexpected {what}")
    assert str(runs / "logs" / "hopular.log") in message
    assert "Traceback" not in message
    assert f"hopular {command}\nTraceback" in log(runs)


def test_a_failure_with_a_remedy_is_one_message(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(toy, ["failure"]) == 1
    assert capsys.readouterr().err == "error: the server is gone: start it again\n"
    assert "Traceback" in log(runs)


def test_without_a_log_file_the_traceback_is_shown(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs.write_text("a file where the folder should be")
    assert run(toy, ["bug"]) == 1
    message = capsys.readouterr().err
    assert "Traceback" in message
    assert "Its traceback is above" in message


def test_a_mistake_shows_no_traceback_even_without_a_log_file(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs.write_text("a file where the folder should be")
    assert run(toy, ["mistake"]) == 2
    assert capsys.readouterr().err == "error: protocol: folds is 1: use a whole number from 2 on\n"


def test_secrets_of_an_unexpected_error_are_not_shown(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # with a log file, then without
        assert run(toy, ["leak"]) == 1
        assert "hush" not in capsys.readouterr().err
        assert "hush" not in (log(runs) if runs.is_dir() else "")
        shutil.rmtree(runs, ignore_errors=True)
        runs.write_text("a file where the folder should be")


@pytest.mark.parametrize("code", ["def broken(:\n", "import no_such_module\n"])
@pytest.mark.parametrize("folder", ["methods", "search_spaces"])
def test_a_broken_plug_in_is_named(
    folder: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOPULAR_PLUGINS", str(tmp_path))
    package = {"methods": methods, "search_spaces": search_spaces}[folder]
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / folder)])
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "mine.py").write_text(code)
    assert run(toy, ["plugin", f"{package.__name__}.mine"]) == 2
    assert f"the plug-in {tmp_path / folder / 'mine.py'} cannot be used" in capsys.readouterr().err


def test_a_broken_file_of_our_own_is_unexpected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    (tmp_path / "mine.py").write_text("import no_such_module\n")
    assert run(toy, ["plugin", "hopular.methods.mine"]) == 1
    assert "unexpected ModuleNotFoundError" in capsys.readouterr().err


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(toy, ["interrupted"]) == 130
    assert capsys.readouterr().err == "note: interrupted\n"


def test_noise_of_libraries_goes_to_the_log(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run(toy, ["noise"]) == 0
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
    assert "WARNING some.library: chatter" in log(runs)
    assert "old function" in log(runs)


def test_the_code_of_a_command_is_that_of_the_program() -> None:
    assert run(toy, ["seven"]) == 7


@pytest.mark.parametrize(
    ("words", "message", "see"),
    [
        (["sevn"], 'Unknown command "sevn". Did you mean "seven"?', "See: toy --help"),
        (["seven", "--loud"], "Unknown option", "See: toy seven --help"),
    ],
)
def test_a_wrong_command_line_says_where_help_is(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str, see: str
) -> None:
    assert run(toy, words) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert see in shown
