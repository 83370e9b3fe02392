"""The champion at the end of a benchmark: a model of all rows it can use, registered beside the unit's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from flows.benchmark import Published, run_here
from flows.tracking import champion as champions
from flows.tracking.champion import champion
from flows.tracking.store import open_store
from hopular.benchmark.plan import Plan
from hopular.data import load, make_splits
from hopular.trials.events import Event

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def runs(tmp_path_factory: pytest.TempPathFactory, prefect_server: Any) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(folder))
        patch.setenv("HOPULAR_CACHE", str(folder / "cache"))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


def run(*methods: str, **values: Any) -> tuple[Published, list[Event]]:
    events: list[Event] = []
    plan = Plan(datasets=["iris"], methods=list(methods), budget="smoke", **values)
    return run_here(plan, events.append), events


def stages(events: list[Event]) -> list[str]:
    return [event.stage for event in events]


def tasks_of_latest() -> list[str]:
    """The tasks of the latest run, as Prefect's graph shows them."""
    with get_client(sync_client=True) as client:
        latest = client.read_flow_runs(limit=1, sort="START_TIME_DESC")[0]
        found = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[latest.id])), limit=200)
    return [task.name.partition(" ")[0].partition("-")[0] for task in found]


def test_it_is_trained_on_all_rows_and_replaced_beyond_noise_only(monkeypatch: pytest.MonkeyPatch) -> None:
    client, iris = open_store(), load("iris")
    first, events = run("decision_tree", "majority")
    assert first.champions["iris"].startswith(
        "hopular-iris is now decision_tree, version 1, trained on all 150 rows: validation loss"
    )
    assert stages(events).count("refit") == 1
    assert tasks_of_latest().count("refit") == 1
    found = champion(client, "iris")
    assert found is not None
    assert found.tags["hopular.rows"] == "150"
    assert "trained on all 150 rows" in found.description
    unit = client.get_run(found.run_id)
    models = client.search_logged_models([unit.info.experiment_id], f"source_run_id = '{found.run_id}'")
    by_id = {model.model_id: model for model in models}
    own, whole = by_id[unit.data.tags["hopular.model"]], by_id[unit.data.tags["hopular.refit_model"]]
    assert (found.source, whole.tags["hopular.rows"]) == (whole.artifact_location, "150")
    seen = {
        one.model_id: mlflow.pyfunc.load_model(one.artifact_location).unwrap_python_model().estimator
        for one in (own, whole)
    }
    rows = {name: int(model.estimator_.tree_.weighted_n_node_samples[0]) for name, model in seen.items()}
    assert rows == {own.model_id: len(make_splits(iris)[0].train), whole.model_id: 150}

    again, events = run("decision_tree", "majority")
    assert again.champions["iris"] == "hopular-iris stays decision_tree, version 1: nothing did better."
    assert "refit" not in stages(events)

    monkeypatch.setattr(champions, "lead", lambda *_: (1.0, 0.5))  # were the next ahead by more than noise
    monkeypatch.setattr("hopular.benchmark.run.refit", _fails)
    sad, _ = run("naive_bayes", "majority")
    assert sad.champions["iris"] == (
        "hopular-iris stays decision_tree, version 1: naive_bayes did better, but its refit failed: RefitError: no luck"
    )
    assert sad.failed == {}
    assert int(champion(client, "iris").version) == 1  # type: ignore[union-attr]


def _fails(*_: Any, **__: Any) -> Any:
    from hopular.trials.refit import RefitError

    raise RefitError("no luck")


def test_an_ensemble_keeps_its_weights_and_networks_their_validation_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(champions, "lead", lambda *_: (1.0, 0.5))
    outcome, _ = run("ensemble", "decision_tree", "mlp", seed=1)
    client = open_store()
    found = champion(client, "iris")
    assert found is not None
    assert int(found.version) == 2, outcome.champions
    estimator = mlflow.pyfunc.load_model(found.source).unwrap_python_model().estimator
    rows = 150 - len(make_splits(load("iris"))[0].valid)
    members = getattr(estimator, "estimators_", [estimator])
    counts = [len(member.train_index_) if hasattr(member, "train_index_") else 150 for member in members]
    assert set(counts) <= {rows, 150}
    assert found.tags["hopular.rows"] == "-".join(dict.fromkeys([str(min(counts)), str(max(counts))]))
    if len(members) > 1:
        assert np.isclose(sum(estimator.weights_), 1.0)
