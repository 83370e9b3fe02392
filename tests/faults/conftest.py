"""Benchmarks for tests that break things; each prints what it tried and what survived."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.toys import TOYS


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

    def run(on_event: Callable[[Any], object] = lambda event: None, **values: Any) -> SimpleNamespace:
        from flows.benchmark import run_here
        from hopular.benchmark.plan import Plan
        from hopular.trials.events import Event

        events: list[Event] = []

        def listen(event: Event) -> None:
            events.append(event)
            on_event(event)

        published = run_here(Plan(**{"budget": "smoke", **values}), listen)
        return SimpleNamespace(**published.to_json(), events=events)

    return run


@pytest.fixture
def said(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Note what was tried and what survived; it is printed when all tests are over."""
    return partial(record_property, "said")


@pytest.fixture
def through_server(prefect_server: str) -> dict[str, str]:
    """Variables by which a command uses the shared server, which spares it the start of its own."""
    return {"PREFECT_API_URL": prefect_server, "HOPULAR_PLUGINS": str(TOYS)}
