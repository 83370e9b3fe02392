"""Retries: another try for the machine and the network, none for what would fail again."""

from __future__ import annotations

from http.client import HTTPMessage
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
from prefect.states import Failed
from prefect.task_engine import TaskRunTimeoutError

from flows import retries, stopping
from flows.retries import is_infrastructure, try_again
from flows.tasks import UnitError, fetch
from hopular.data import download
from hopular.data.dataset import DataError
from hopular.data.download import UnreachableError
from hopular.data.sources import openml
from hopular.trials.worker import InfrastructureError
from tests.data.loopback import Reply, serve


@pytest.mark.parametrize(
    ("error", "is_worth_it"),
    [
        (InfrastructureError("the worker could not be started"), True),
        (UnreachableError("OpenML cannot be reached"), True),
        (ConnectionError("refused"), True),
        (TimeoutError("the server is slow"), True),
        (TaskRunTimeoutError("Scope timed out after 10 second(s)."), False),
        (DataError("column 'y' is missing"), False),
        (UnitError("no trial succeeded"), False),
        (MemoryError(), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, is_worth_it: bool) -> None:
    assert is_infrastructure(None, None, Failed(data=error)) is is_worth_it


def test_a_fetch_is_tried_again() -> None:
    assert (fetch.retries, fetch.retry_condition_fn) == (2, try_again)


def test_pauses_double_and_end_when_all_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(stopping, "wait", lambda seconds: pauses.append(seconds))
    for attempt in (1, 2, 3):
        assert try_again(None, SimpleNamespace(run_count=attempt), Failed(data=ConnectionError()))
    expected = [retries.PAUSE, 2 * retries.PAUSE, 4 * retries.PAUSE]
    assert pauses == [pytest.approx(pause, rel=0.31) for pause in expected]
    monkeypatch.setattr(stopping, "wait", lambda _: True)
    assert not try_again(None, SimpleNamespace(run_count=1), Failed(data=ConnectionError()))


@pytest.mark.parametrize(
    ("error", "is_worth_it"),
    [
        (URLError("no route to host"), True),
        (HTTPError("u", 503, "busy", HTTPMessage(), None), True),
        (HTTPError("u", 429, "too many", HTTPMessage(), None), True),
        (HTTPError("u", 404, "not found", HTTPMessage(), None), False),
    ],
)
def test_openml_that_does_not_answer_is_unreachable(
    error: Exception, is_worth_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise error

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)
    with pytest.raises(DataError) as caught:
        openml._fetch(31)
    assert isinstance(caught.value, UnreachableError) is is_worth_it


@pytest.mark.parametrize(("status", "is_worth_it"), [(503, True), (404, False)])
def test_a_download_that_a_busy_server_refuses_is_unreachable(
    status: int, is_worth_it: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PAUSES", (0.01, 0.02))
    monkeypatch.setenv("NO_PROXY", "*")
    with serve() as server:
        url = server.answer("/table.csv", Reply(status=status))
        with pytest.raises(DataError) as caught:
            download.fetch(url, tmp_path / "table.csv")
    assert isinstance(caught.value, UnreachableError) is is_worth_it
