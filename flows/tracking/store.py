"""The tracking store: where it is, how it is opened, and how to tell that it is unavailable for now."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hopular import settings
from hopular.util import InputError, retry

if TYPE_CHECKING:
    from mlflow import MlflowClient

_DEFAULTS = {  # unless the user has said otherwise; MLflow reads them from the environment whenever it needs them
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds, instead of 120: training must not wait for an absent server
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # instead of 7
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}
_LOUD = {"mlflow": logging.ERROR, "mlflow.store.db.utils": logging.CRITICAL, "alembic": logging.WARNING}
_LOCK_SECONDS = 120  # a new database takes a few seconds; a busy machine some more
_UNAVAILABLE_CODES = {"TEMPORARILY_UNAVAILABLE", "DEADLINE_EXCEEDED", "REQUEST_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED"}
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")  # that MLflow opens directly; others are servers
# MLflow keeps neither the cause nor the status of a request that found no server, or only a gateway before it.
_NO_ANSWER = re.compile(r"API request to (endpoint )?\S+ failed with ((timeout )?exception|error code (429|5\d\d)) ")
_FULL = "disk is full"  # as sqlite puts it
_RETRY_SECONDS = 180.0  # a server that is started again on a busy machine takes one minute of them
T = TypeVar("T")
for _name, _value in _DEFAULTS.items():
    os.environ.setdefault(_name, _value)


def tracking_uri() -> str:
    """Return MLFLOW_TRACKING_URI, or else a sqlite file in the runs folder, whatever the working directory."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{settings.runs_folder() / 'mlflow.db'}"


def _is_database(uri: str) -> bool:
    """Tell whether MLflow opens this store itself, without a server that would say where files go."""
    return uri.partition(":")[0].partition("+")[0] in _DATABASES


def artifact_location(name: str) -> str | None:
    """Return where an experiment of this name keeps its files; None leaves it to the server."""
    if not _is_database(tracking_uri()):
        return None
    return (settings.runs_folder() / "artifacts" / name).as_uri()


def open_store() -> MlflowClient:
    """Return a client of the store, which is made ready first if it is a new database. Quiet and without telemetry.

    Open it once and pass it on: threads may share it.
    """
    from mlflow import MlflowClient

    for logger, level in _LOUD.items():
        logging.getLogger(logger).setLevel(level)
    uri = tracking_uri()
    if _is_database(uri):
        _initialise(uri)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _initialise(uri: str) -> None:
    """Create the tables of a database once: processes that race to do so would crash in its migrations."""
    import sqlalchemy
    from mlflow import MlflowClient

    if not sqlalchemy.event.contains(sqlalchemy.Engine, "connect", _relax):
        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", _relax)
    with one_at_a_time("store"):
        try:
            if uri.startswith("sqlite:"):
                make_sqlite(uri)
            MlflowClient(tracking_uri=uri, registry_uri=uri).search_experiments(max_results=1)
        except sqlalchemy.exc.OperationalError:  # it is unavailable or locked, which may pass
            raise
        except sqlalchemy.exc.DatabaseError as error:
            place = sqlalchemy.make_url(uri).render_as_string(hide_password=True)
            raise InputError(
                f"the tracking store {place} is damaged ({error.orig}): put a copy of it back, or move it away, and a "
                "new one is made"
            ) from error


def make_sqlite(uri: str) -> None:
    """Make a sqlite store if there is none, so that readers do not wait for a writer, which the file remembers.

    Its tables are made in another file that is then renamed: MLflow can never open one that it was killed in making.
    """
    import sqlalchemy

    url = sqlalchemy.make_url(uri)
    file = Path(url.database or "")
    if not file.is_file() or not file.stat().st_size:
        from mlflow import MlflowClient

        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        try:
            part.unlink(missing_ok=True)
            aside = url.set(database=str(part)).render_as_string(hide_password=False)
            MlflowClient(tracking_uri=aside, registry_uri=aside).search_experiments(max_results=1)
            os.replace(part, file)
        finally:
            part.unlink(missing_ok=True)
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    engine.dispose()


def _relax(connection: Any, _: Any) -> None:
    """Let commits to our own file not wait for the disk, which halves the time of a trial.

    A power cut may take the last ones back, but never damages the file, and `reconcile` writes them again.
    """
    if isinstance(connection, sqlite3.Connection):
        file = connection.execute("PRAGMA database_list").fetchone()[2]
        if file and Path(file) == settings.runs_folder() / "mlflow.db":
            connection.execute("PRAGMA synchronous=NORMAL")


@contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Keep the other processes and threads of this machine from doing the same at the same time."""
    from filelock import FileLock

    folder = settings.runs_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{what}.lock", timeout=_LOCK_SECONDS, thread_local=False):
        yield


def retry_store(action: Callable[[], T], stop: threading.Event, seconds: float = _RETRY_SECONDS) -> T:
    """Do something with the store; while it is unavailable, again after a pause, until `seconds` are over.

    StoppedError if `stop` is set meanwhile.
    """

    from hopular.trials.refit import StoppedError

    def wait(pause: float) -> None:
        if stop.wait(pause):
            raise StoppedError("stopped while the tracking store was unavailable")

    return retry(action, should_retry=is_unavailable, seconds=seconds, pauses=(0.5, 5.0), sleep=wait)


def is_unavailable(error: BaseException) -> bool:
    """Tell whether the store could not be reached or was locked; a request that it refused is another matter."""
    import requests
    import sqlalchemy
    from mlflow.exceptions import MlflowException, RestException

    if _FULL in str(error):  # it will not pass by waiting
        return False
    if isinstance(error, RestException):
        return error.error_code in _UNAVAILABLE_CODES
    if isinstance(error, MlflowException):
        if error.error_code in _UNAVAILABLE_CODES:
            return True
        return _NO_ANSWER.match(error.message) is not None
    if isinstance(error, requests.HTTPError) and error.response is not None:  # of a file sent to a server
        return error.response.status_code == 429 or error.response.status_code >= 500
    unreachable = (requests.ConnectionError, requests.Timeout, sqlalchemy.exc.OperationalError, ConnectionError)
    return isinstance(error, (*unreachable, TimeoutError))
