"""A Prefect server and toy methods for tests that break things; each prints what it tried and what survived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.toys import TOYS, toy_methods


@pytest.fixture(scope="module")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that the tests of a file share, and the toy methods here and in workers."""
    from prefect.settings import PREFECT_API_URL, PREFECT_LOCAL_STORAGE_PATH, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    results = {PREFECT_LOCAL_STORAGE_PATH: tmp_path_factory.mktemp("results")}
    with toy_methods(), prefect_test_harness(server_startup_timeout=120), temporary_settings(results):
        yield str(PREFECT_API_URL.value())


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs folder of this test, used by what it does in this process."""
    folder = tmp_path / "runs"
    monkeypatch.setenv("HOPULAR_RUNS", str(folder))
    monkeypatch.setenv("HOPULAR_CACHE", str(folder / "cache"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


@pytest.fixture
def benchmark(prefect_server: str, runs: Path) -> Callable[..., SimpleNamespace]:
    """Run a benchmark in this process on the smallest budget; its outcome, with all that was told on the way."""

    def run(**values: Any) -> SimpleNamespace:
        from flows.benchmark import hopular_benchmark
        from flows.plan import Plan
        from flows.progress import Event, watch

        events: list[Event] = []
        with watch(events.append):
            outcome: Any = hopular_benchmark(Plan(**{"budget": "smoke", **values}))
        return SimpleNamespace(**outcome, events=events)

    return run


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print what was tried and what survived, past pytest's capture."""

    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\n  {text}", flush=True)

    return say


@pytest.fixture
def through_server(prefect_server: str) -> dict[str, str]:
    """Variables by which a command uses the shared server, which spares it the start of its own."""
    return {"PREFECT_API_URL": prefect_server, "HOPULAR_PLUGINS": str(TOYS)}
