"""What the tests of several folders share: Ctrl-C that works, and a Prefect server."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by whoever started the tests; what they start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = (  # files that take half a minute or more, the longest first
    "flows/test_benchmark.py",
    "flows/test_champion_flow.py",
    "e2e/test_deployments.py",
    "faults/test_stop.py",
    "flows/services/test_lifecycle.py",
    "model/test_sklearn_checks.py",
    "test_docs.py",
    "contracts/test_methods.py",
    "automl/test_fit.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files: each goes to one process as a whole, and none is to be left alone at the end."""
    places = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests of faults tried and what survived; also of those that ran in other processes."""
    reports = [found for kind in ("passed", "failed") for found in terminalreporter.stats.get(kind, [])]
    lines = [text for found in reports for name, text in found.user_properties if name == "said"]
    if lines:
        terminalreporter.section("what was tried, and what survived")
        for line in lines:
            terminalreporter.line(f"  {line}")


@pytest.fixture(scope="session")
def prefect_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prefect server with a database of its own: its start takes many seconds, so that one has to do for all."""
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    database = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('prefect') / 'prefect.db'}"
    server = SubprocessASGIServer(port=port)
    with temporary_settings({PREFECT_SERVER_DATABASE_CONNECTION_URL: database}):
        server.start(timeout=120)
    yield server.api_url
    server.stop()


@pytest.fixture(scope="module")
def prefect_server(prefect_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of that server. Flows called by the tests of a file run on it; the toy methods are there as well."""
    from prefect.settings import PREFECT_API_URL, PREFECT_LOCAL_STORAGE_PATH, temporary_settings

    from tests.toys import toy_methods

    own = {PREFECT_API_URL: prefect_address, PREFECT_LOCAL_STORAGE_PATH: tmp_path_factory.mktemp("results")}
    with toy_methods(), temporary_settings(own):
        yield prefect_address


@pytest.fixture(scope="module")
def shared_workers() -> Iterator[None]:
    """Worker processes of `fit_table` that last as long as the tests of a file, since the imports of one take seconds.

    Not for tests that set variables which a method reads.
    """
    from hopular.trials.worker import WorkerPool

    with WorkerPool(2) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopular.automl.fit.WorkerPool", lambda limit: nullcontext(pool))
        yield
