"""Summaries: results go into the store and come back from it alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flows.tracking.runs import Lineage
from flows.tracking.summary import list_benchmarks, load_results, save_summary
from hopular.evaluation.results import SCORE_COLUMNS, DatasetFacts, Results, UnitResult


def results(name: str, created: str) -> Results:
    rows = [("flowers", "xgboost", "fold-0", 1, "accuracy", 0.9, 0.8, 0.95, 1.5, 0.1, 1e6)]
    return Results(
        id=name,
        created=created,
        scores=pd.DataFrame(rows, columns=list(SCORE_COLUMNS)),
        datasets=(DatasetFacts("flowers", "classification", 60, 2, 1, 2, 0.0, "file", "a" * 64),),
        units=(
            UnitResult("flowers", "fold-0", "xgboost", "complete", params={"depth": 3}),
            UnitResult("f", "s", "knn", "failed"),
        ),
        command="hopular benchmark flowers.csv",
    )


def test_results_come_back_as_they_were(client: Any, lineage: Lineage, tmp_path: Path) -> None:
    files = tmp_path / "files"
    (files / "plots").mkdir(parents=True)
    (files / "report.html").write_text("<p>report</p>")
    (files / "plots" / "ranks.svg").write_text("<svg/>")
    saved = results("bench-1", "2030-01-01T10:00:00")
    run_id = save_summary(client, saved, lineage, {"rank_xgboost": 1.0}, files)
    loaded = load_results(client, "bench-1")
    pd.testing.assert_frame_equal(loaded.scores, saved.scores)
    assert (loaded.units, loaded.datasets, loaded.command) == (saved.units, saved.datasets, saved.command)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["hopular.kind"] == "benchmark"
    assert run.data.tags["hopular.methods"] == "knn, xgboost"
    assert run.data.metrics == {"units": 2, "units_failed": 1, "datasets": 1, "rank_xgboost": 1.0}
    assert {item.path for item in client.list_artifacts(run_id)} == {"plots", "report.html", "results"}


def test_one_run_per_benchmark_and_the_latest_first(client: Any, lineage: Lineage) -> None:
    assert list_benchmarks(client) == []
    later, earlier = results("late", "2030-01-02"), results("early", "2030-01-01")
    first = save_summary(client, later, lineage)
    save_summary(client, earlier, lineage)
    assert save_summary(client, later, lineage) == first
    assert [found.id for found in list_benchmarks(client)] == ["late", "early"]
    assert list_benchmarks(client)[0].datasets == "flowers"
    assert load_results(client).id == "late"
    assert load_results(client, "early").id == "early"


def test_a_benchmark_that_is_done_again_is_of_now(client: Any, lineage: Lineage) -> None:
    run_id = save_summary(client, results("again", "2030-01-01"), lineage)
    save_summary(client, results("between", "2030-01-02"), lineage)
    save_summary(client, results("again", "2030-01-03"), replace(lineage, flow_run="flow-2"))
    tags = client.get_run(run_id).data.tags
    assert (tags["hopular.flow_run"], tags["hopular.created"]) == ("flow-2", "2030-01-03")
    assert (tags["hopular.seed"], tags["hopular.device"]) == ("3", "cpu")
    assert tags["hopular.fingerprints"] == "flowers aaaaaaaaaaaa"
    assert load_results(client).id == "again"


def test_a_wrong_name_gets_the_nearest(client: Any, lineage: Lineage) -> None:
    with pytest.raises(ValueError, match=r"no results in sqlite:.*run a benchmark first"):
        load_results(client)
    save_summary(client, results("bench-1", "2030-01-01"), lineage)
    with pytest.raises(ValueError, match=r"there is no benchmark 'bench-2'\..*bench-1"):
        load_results(client, "bench-2")


def test_files_that_were_moved_are_named(client: Any, lineage: Lineage) -> None:
    run_id = save_summary(client, results("bench-1", "2030-01-01"), lineage)
    folder = Path(client.get_run(run_id).info.artifact_uri.removeprefix("file://"))
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(ValueError, match=rf"of benchmark 'bench-1' are not at {folder} any more: move"):
        load_results(client)
