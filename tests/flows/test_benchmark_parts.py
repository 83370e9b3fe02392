"""Parts of the benchmark flow that need no server."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flows import benchmark
from flows.benchmark import missing_splits, refusals
from flows.schedule import Course
from hopular.benchmark.plan import Plan


def facts(name: str, task: str) -> dict[str, str]:
    return {"name": name, "task": task}


def test_a_dataset_that_no_method_is_for_is_named() -> None:
    found = {"iris": facts("iris", "classification"), "diabetes": facts("diabetes", "regression")}
    [(reference, reason)] = refusals(Plan(methods=["majority"]), found)
    assert reference == "diabetes"
    assert reason == "none of the methods majority is for regression, which 'diabetes' is: add one"
    assert list(refusals(Plan(methods=["majority", "mean"]), found)) == []


def test_the_second_of_two_files_of_one_name_is_refused() -> None:
    found = {name: facts("table", "regression") for name in ("/a/table.csv", "/b/table.parquet")}
    [(reference, reason)] = refusals(Plan(methods=["mean"]), found)
    assert reference == "/b/table.parquet"
    assert reason == "/b/table.parquet is called 'table', as /a/table.csv is: rename one of them"


def test_what_was_begun_and_not_finished_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def course(key: str, futures: int, results: int) -> Course:
        return Course(SimpleNamespace(key=key), futures=[None] * futures, results=[{}] * results)  # type: ignore[arg-type]

    closed: list[set[str]] = []
    monkeypatch.setattr(benchmark, "open_store", lambda: None)
    monkeypatch.setattr(benchmark, "end_running", lambda _, keys, *__: closed.append(keys))
    benchmark._end_units([course("new", 0, 0), course("queued", 1, 1), course("running", 2, 1), course("done", 3, 3)])
    assert closed == [{"queued", "running"}]


def test_more_splits_than_there_are_are_refused_with_the_number() -> None:
    with pytest.raises(ValueError, match=r"^splits is 99, but iris has 5: use 1 to 5, or all$"):
        missing_splits(99, {"iris": 5})
    with pytest.raises(ValueError, match=r"^splits is 9, but no dataset has more than 5: use 1 to 5, or all$"):
        missing_splits(9, {"iris": 5, "eye": 1})
    with pytest.raises(ValueError, match=r"^splits is 2, but eye has 1: use 1, or all$"):
        missing_splits(2, {"eye": 1})


def test_a_dataset_with_fewer_splits_than_others_is_noted() -> None:
    notes = missing_splits(4, {"iris": 5, "eye": 1, "glass": 4})
    assert notes == ["eye has 1 of the 4 splits asked for, and is run on these"]
