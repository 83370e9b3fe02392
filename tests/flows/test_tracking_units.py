"""Units: one run per content key, in its dataset's experiment, continued and not repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.tracking.experiments import dataset_experiment
from flows.tracking.lineage import Lineage
from flows.tracking.store import open_store
from flows.tracking.trials import PARENT
from flows.tracking.units import (
    end_running,
    finish_unit,
    is_there,
    log_best,
    log_scores,
    reasons,
    start_unit,
    unit_metrics,
)
from hopular.data.dataset import Dataset
from hopular.evaluation.results import SCORE_COLUMNS
from hopular.trials.trial import Trial


def test_a_unit_has_lineage_parameters_and_its_dataset(
    client: Any, runs: Path, lineage: Lineage, flowers: Dataset
) -> None:
    run = client.get_run(start_unit(client, lineage, "key", flowers))
    assert run.info.run_name == "xgboost kfold5-seed0-0"
    assert run.info.status == "RUNNING"
    assert run.info.artifact_uri.startswith(f"file://{runs}/artifacts/hopular-flowers/")
    assert run.data.tags["hopular.method"] == "xgboost"
    assert run.data.tags["hopular.in.bench-1"] == "made"
    assert run.data.params["split"] == "kfold5-seed0-0"
    [given] = run.inputs.dataset_inputs
    assert given.dataset.name == "flowers"
    assert flowers.fingerprint.startswith(given.dataset.digest)
    assert json.loads(given.dataset.profile)["num_rows"] == 60
    assert client.get_experiment(run.info.experiment_id).name == "hopular/flowers"


def test_a_unit_is_continued_by_a_resumed_benchmark_and_by_another(
    client: Any, lineage: Lineage, flowers: Dataset
) -> None:
    first = start_unit(client, lineage, "key", flowers)
    finish_unit(client, first, "FAILED", "the disk was full")
    assert client.get_run(first).data.tags["hopular.reason"] == "the disk was full"
    assert start_unit(client, lineage, "key", flowers) == first
    assert client.get_run(first).info.status == "RUNNING"
    assert start_unit(client, replace(lineage, benchmark="bench-2"), "key", flowers) == first
    tags = client.get_run(first).data.tags
    assert tags["hopular.benchmark"] == "bench-1"
    assert tags["hopular.in.bench-2"] == "reused"
    finish_unit(client, first, "FINISHED")
    run = client.get_run(first)
    assert run.info.status == "FINISHED"
    assert "hopular.reason" not in run.data.tags
    assert len(run.inputs.dataset_inputs) == 1
    assert start_unit(client, lineage, "another key", flowers) != first


def test_a_unit_is_of_whoever_finishes_it(client: Any, lineage: Lineage, flowers: Dataset) -> None:
    first = start_unit(client, lineage, "key", flowers)
    start_unit(client, replace(lineage, commit="e" * 40, versions="python 3.12.0"), "key", flowers)
    tags = client.get_run(first).data.tags
    assert tags["hopular.commit"] == tags["mlflow.source.git.commit"] == "e" * 40
    assert (tags["hopular.versions"], tags["hopular.code"]) == ("python 3.12.0", lineage.code)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"code": "e" * 12}, "its code has changed since "),
        ({"versions": "python 3.12.1, hopular 9, xgboost 3.3.0"}, "xgboost 3.2.0 is now 3.3.0"),
        ({"device": "cuda"}, "was run on cpu, now on cuda"),
        ({"device": "cuda", "code": "e" * 12}, "was run on cpu, now on cuda; its code has changed since "),
        ({"versions": "python 3.12.1, hopular 9, xgboost 3.2.0"}, "its members or its scoring have changed since "),
    ],
)
def test_a_unit_that_is_computed_again_has_a_reason(
    client: Any, lineage: Lineage, flowers: Dataset, changes: dict[str, str], reason: str
) -> None:
    start_unit(client, replace(lineage, code="0" * 12), "oldest", flowers)
    start_unit(client, lineage, "key", flowers)
    found = reasons(client, {"new": replace(lineage, **changes), "key": lineage})  # type: ignore[arg-type]
    assert list(found) == ["new"]
    today = f"{datetime.now().day} {datetime.now():%B}"
    assert found["new"] == (f"{reason}{today}" if reason.endswith(" ") else reason)


def test_a_unit_of_before_its_code_was_noted_says_so(client: Any, lineage: Lineage, flowers: Dataset) -> None:
    run_id = start_unit(client, replace(lineage, code=""), "key", flowers)
    assert "hopular.code" not in client.get_run(run_id).data.tags
    assert reasons(client, {"new": lineage})["new"].startswith("was made on ")


@pytest.mark.parametrize(
    "other",
    [
        *({"method": "knn"}, {"seed": 4}, {"budget": "quick"}, {"dataset": "trees"}),
        *({"split_fingerprint": "c" * 64}, {"dataset_fingerprint": "c" * 64}),
    ],
)
def test_what_was_never_asked_for_is_new(
    client: Any, lineage: Lineage, flowers: Dataset, other: dict[str, Any]
) -> None:
    assert reasons(client, {"new": lineage}) == {}  # nothing is there yet
    start_unit(client, lineage, "key", flowers)
    assert reasons(client, {"new": replace(lineage, **other)}) == {}


def test_benchmarks_are_found_by_their_tag(client: Any, lineage: Lineage) -> None:
    run = start_unit(client, lineage, "key", None)
    start_unit(client, replace(lineage, benchmark="bench-2", method="knn"), "other", None)
    experiment = client.get_run(run).info.experiment_id
    found = client.search_runs([experiment], "tags.`hopular.in.bench-1` LIKE '%' and tags.hopular.method = 'xgboost'")
    assert [item.info.run_id for item in found] == [run]


def test_threads_that_start_a_unit_at_once_get_the_same(runs: Path, lineage: Lineage) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: start_unit(open_store(), lineage, "key", None), range(12)))
    assert len(set(found)) == 1
    client = open_store()
    assert len(client.search_runs([client.get_run(found[0]).info.experiment_id])) == 1


def test_two_datasets_of_one_name_do_not_share_an_experiment(client: Any, lineage: Lineage) -> None:
    first = dataset_experiment(client, lineage)
    changed = replace(lineage, dataset_fingerprint="c" * 64)
    moved = replace(lineage, source="/elsewhere/flowers.csv")
    other = replace(lineage, source="/elsewhere/flowers.csv", dataset_fingerprint="d" * 64)
    assert dataset_experiment(client, changed) == first
    assert dataset_experiment(client, moved) == first
    second = dataset_experiment(client, other)
    assert second != first
    assert client.get_experiment(second).name == "hopular/flowers dddddddd"
    assert dataset_experiment(client, other) == second


def test_an_experiment_that_was_deleted_comes_back(client: Any, lineage: Lineage) -> None:
    experiment = dataset_experiment(client, lineage)
    client.delete_experiment(experiment)
    run = start_unit(client, lineage, "key", None)
    assert client.get_run(run).info.experiment_id == experiment


def test_scores_have_the_same_names_for_every_method(client: Any, lineage: Lineage) -> None:
    rows = [
        ("flowers", "xgboost", "s", seed, metric, value, value - 0.1, value + 0.1, 2.0, 0.5, 3e6)
        for seed in (0, 1)
        for metric, value in (("accuracy", 0.8 + 0.1 * seed), ("ece", float("nan")))
    ]
    metrics = unit_metrics(pd.DataFrame(rows, columns=list(SCORE_COLUMNS)))
    run = start_unit(client, lineage, "key", None)
    log_scores(client, run, {**metrics, "valid_accuracy": 0.9, "undefined": float("nan")})
    found = client.get_run(run).data.metrics
    assert found == pytest.approx(
        {
            "test_accuracy": 0.85,
            "test_accuracy_low": 0.75,
            "test_accuracy_high": 0.95,
            "test_accuracy_error": 0.05,
            "fit_seconds": 2.0,
            "predict_seconds": 0.5,
            "peak_memory_mb": 3.0,
            "seeds": 2.0,
            "valid_accuracy": 0.9,
        }
    )


def test_no_scores_are_no_metrics() -> None:
    assert unit_metrics(pd.DataFrame(columns=list(SCORE_COLUMNS))) == {}


def test_the_best_setting_may_change(client: Any, lineage: Lineage, make_record: Callable[..., Trial]) -> None:
    run = start_unit(client, lineage, "key", None)
    log_best(client, run, make_record(0), "accuracy")
    log_best(client, run, make_record(1, params={"depth": np.int64(9)}), "accuracy")
    data = client.get_run(run).data
    assert {name: value for name, value in data.tags.items() if name.startswith("best.")} == {"best.depth": "9"}
    assert data.tags["hopular.best_slot"] == "1"
    assert data.tags["hopular.chosen_by"] == "valid_accuracy"
    assert data.metrics["valid_accuracy"] == pytest.approx(0.51)
    assert data.metrics["valid_score"] == pytest.approx(0.51)


def test_units_that_nobody_works_on_are_closed_with_their_trials(client: Any, lineage: Lineage) -> None:
    begun, other, done = (start_unit(client, lineage, key, None) for key in ("begun", "other", "done"))
    finish_unit(client, done, "FINISHED")
    experiment = client.get_run(begun).info.experiment_id
    half = client.create_run(experiment, tags={PARENT: begun}).info.run_id
    end_running(client, {"begun", "done"}, "KILLED", "the benchmark was stopped")
    assert [client.get_run(run).info.status for run in (begun, other, done)] == ["KILLED", "RUNNING", "FINISHED"]
    assert client.get_run(begun).data.tags["hopular.reason"] == "the benchmark was stopped"
    assert not is_there(client, half)


def test_a_run_that_was_deleted_is_not_there(client: Any, lineage: Lineage) -> None:
    run = start_unit(client, lineage, "key", None)
    assert is_there(client, run)
    client.delete_run(run)
    assert not is_there(client, run)
    assert not is_there(client, "0" * 32)
