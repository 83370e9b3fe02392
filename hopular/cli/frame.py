"""The frame around every command: exit codes, errors in one clear message, and a log file for all the rest.

The type of an error says what it means: InputError is a mistake of the user's, OperationError a failure whose message
says all, and anything else is unexpected, even a ValueError.
"""

from __future__ import annotations

import logging
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType

from cyclopts import App, CycloptsError

from hopular import settings
from hopular.cli.screen import complain
from hopular.redaction import without_secrets
from hopular.util import InputError, OperationError

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
_logger = logging.getLogger("hopular")


def run(app: App, words: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    with _logging_to_file():
        return _run(app, words)


def _run(app: App, words: Sequence[str]) -> int:
    try:
        code = app(list(words), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        return _wrong_command(app, words, error)
    except KeyboardInterrupt:
        complain("interrupted", style="yellow")
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stderr.close()
        return 0
    except Exception as error:
        return _report(error, words)
    return code if isinstance(code, int) else 0


@contextmanager
def ending_in_good_order() -> Iterator[None]:
    """Let a request to end, or the loss of the terminal, end this command as an exception does."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wrong_command(app: App, words: Sequence[str], error: CycloptsError) -> int:
    """Say what is wrong with the command line."""
    command = app.parse_commands(list(words))[0]
    complain(f"{error}\nSee: {' '.join((app.name[0], *command, '--help'))}")
    return MISTAKE


def _report(error: Exception, words: Sequence[str]) -> int:
    """Say what went wrong; the traceback goes to the log file."""
    is_kept = _keep_traceback(error, words)
    if _is_mistake(error):
        complain(_explain(error))
        return MISTAKE
    if isinstance(error, OperationError):
        complain(str(error))
        return FAILED
    if _is_of_mlflow(error):
        complain(f"the tracking store cannot be used: {error}\nSee: hopular doctor")
        return FAILED
    where = f"The traceback is in {log_file()}" if is_kept else "Its traceback is above"
    complain(f"unexpected {type(error).__name__}: {error}\n{where}")
    return FAILED


def _is_of_mlflow(error: BaseException) -> bool:
    module = sys.modules.get("mlflow.exceptions")
    return module is not None and isinstance(error, module.MlflowException)


def _is_mistake(error: BaseException) -> bool:
    """Return whether an error is about what the user gave us: refused by this project, or by pydantic."""
    pydantic = sys.modules.get("pydantic_core")
    return isinstance(error, InputError) or (pydantic is not None and isinstance(error, pydantic.ValidationError))


def _explain(error: BaseException) -> str:
    """Return the message of an error, with one line for each field that pydantic refused."""
    if not hasattr(error, "errors"):
        return str(error)
    lines = []
    for item in error.errors():
        place = ".".join(str(part) for part in item["loc"])
        message = item["msg"].removeprefix("Value error, ")
        lines.append(f"{place}: {message}" if place else message)
    return "\n".join(lines)


def log_file() -> Path:
    """Return the file that warnings, log records and tracebacks go to."""
    return settings.runs_folder() / "logs" / "hopular.log"


class _LogFile(RotatingFileHandler):
    """Creates the file, with its folder, when there is something to write. Prefect leaves it in place."""

    def _open(self):  # type: ignore[no-untyped-def]
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Ignore a log that cannot be written: the command can go on, and `hopular doctor` tells."""


class _PublicFormatter(logging.Formatter):
    """Removes passwords and tokens from the addresses in a record, its traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


@contextmanager
def _logging_to_file() -> Iterator[None]:
    """Send log records and warnings of all libraries to the log file instead of the terminal."""
    root = logging.getLogger()
    handler = _LogFile(log_file(), maxBytes=5_000_000, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(_PublicFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    _logger.setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)
        handler.close()


def _keep_traceback(error: Exception, words: Sequence[str]) -> bool:
    """Write the traceback to the log file; to the terminal if the file cannot be written and it is no mistake."""
    before = _size(log_file())
    _logger.error("hopular %s", " ".join(words), exc_info=error)
    if _size(log_file()) != before:
        return True
    if not _is_mistake(error):
        print(without_secrets("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    return False


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1
