"""The flow from data to report, with a real Prefect server and a real tracking store, on the smallest budget."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace

import mlflow
import pandas as pd
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate

from flows import new_datasets, runners
from flows.benchmark import run_here
from flows.new_datasets import ATTEMPTS, BAD, NEW, hopular_new_datasets, read_ledger
from flows.tracking.champion import champion
from flows.tracking.store import open_store
from flows.tracking.summary import load_results
from hopular.benchmark.plan import Plan
from hopular.benchmark.results import BenchmarkError
from hopular.cli import app
from hopular.cli.frame import run as run_command
from hopular.evaluation.metrics import METRICS
from hopular.evaluation.results import Results
from hopular.model.architecture import ARCHITECTURES
from hopular.trials.refit import StoppedError

pytestmark = pytest.mark.slow
TABLE = "a,b,y\n" + "".join(f"{i % 7},{'uv'[i % 2]},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(60))


@pytest.fixture(scope="module")
def runs(tmp_path_factory, prefect_server):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(folder))
        patch.setenv("HOPULAR_CACHE", str(folder / "cache"))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


def run(**values):
    """A benchmark on the smallest budget, with all that it told on the way."""
    events = []
    published = run_here(Plan(budget="smoke", **values), events.append)
    return SimpleNamespace(**published.to_json(), events=events)


def all_runs(client):
    experiments = [found.experiment_id for found in client.search_experiments()]
    return client.search_runs(experiments, max_results=5000)


def runs_of(client, dataset):
    return [found for found in all_runs(client) if found.data.tags.get("hopular.dataset") == dataset]


@pytest.fixture(scope="module")
def first(runs):
    return run(datasets=["iris", "diabetes"], methods=["hopular", "glm", "majority", "mean"], replicates=2)


def test_every_unit_has_a_run_with_its_trials_scores_and_model(first):
    client = open_store()
    assert (first.units, first.reused, first.failed) == (6, 0, {})
    units = [found for found in all_runs(client) if found.data.tags.get("hopular.kind") == "unit"]
    assert len(units) == 6
    for unit in units:
        tags, metrics = unit.data.tags, unit.data.metrics
        assert unit.info.status == "FINISHED"
        primary = "test_mse" if tags["hopular.dataset"] == "diabetes" else "test_accuracy"
        assert metrics[f"{primary}_low"] <= metrics[primary] <= metrics[f"{primary}_high"]
        assert {"fit_seconds", "valid_score", "peak_memory_mb"} <= set(metrics)
        assert metrics["seeds"] == 2
        assert tags[f"hopular.in.{first.benchmark}"] == "yes"
        trials = [found for found in all_runs(client) if found.data.tags.get("mlflow.parentRunId") == unit.info.run_id]
        expected = {"hopular": 1, "glm": 2}.get(tags["hopular.method"], 1)
        assert len(trials) == expected
        assert {found.info.status for found in trials} == {"FINISHED"}
        names = {item.path for item in client.list_artifacts(unit.info.run_id)}
        assert {"predictions", "pictures"} <= names
        assert ("neighbours" in names) == (tags["hopular.method"] == "hopular")


def test_the_champion_is_the_winner_by_validation(first):
    client = open_store()
    for dataset in ("iris", "diabetes"):
        units = [u for u in Results.load(Path(first.report).parent).units if u.dataset == dataset]
        best = max(units, key=lambda unit: unit.valid_score)
        assert champion(client, dataset).run_id == best.run_id
        assert best.method in first.champions[dataset]


def test_the_results_are_in_the_store_and_in_the_files(first):
    kept, written = load_results(open_store(), first.benchmark), Results.load(Path(first.report).parent)
    pd.testing.assert_frame_equal(kept.scores, written.scores)
    assert set(kept.scores["metric"]) == set(METRICS)
    assert kept.command == (
        "hopular benchmark iris diabetes --methods hopular,glm,majority,mean --budget smoke --replicates 2"
    )
    assert len(kept.scores.groupby(["dataset", "method", "seed"])) == 12
    assert {facts.name: facts.task for facts in kept.datasets} == {"iris": "classification", "diabetes": "regression"}
    assert Path(first.report).stat().st_size > 20_000


def test_what_is_shown_on_the_way(first):
    stages = [event.stage for event in first.events]
    assert stages[0] == "planned"
    assert first.events[0].trials == 6
    assert stages.count("done") == 6
    assert stages.count("trial") == 1 + 2 + 1 + 1 + 2 + 1


def test_the_second_time_nothing_is_trained(first):
    before = len(all_runs(open_store()))
    again = run(datasets=["iris", "diabetes"], methods=["hopular", "glm", "majority", "mean"], replicates=2)
    assert (again.units, again.reused) == (6, 6)
    assert again.benchmark == first.benchmark
    assert len(all_runs(open_store())) == before
    assert {event.stage for event in again.events} == {"planned", "reused"}
    with get_client(sync_client=True) as client:
        latest = client.read_flow_runs(limit=1, sort="START_TIME_DESC")[0]
    assert latest.state.message == "nothing was trained: all 6 units were finished before"


def test_a_setting_to_copy_has_all_that_made_the_model_and_what_chose_it(runs):
    """The epochs of the budget too: in the results, and in the parameters of the trial in the tracking store."""
    outcome, client = run(datasets=["iris"], methods=["mlp"]), open_store()
    (unit,) = Results.load(Path(outcome.report).parent).units
    assert unit.params["max_epochs"] == 10
    assert set(unit.params) > {"max_epochs"}
    assert unit.chosen_by == "log_loss"
    assert unit.valid_score == -unit.valid_metrics["log_loss"]
    parent = client.get_run(unit.run_id)
    trials = [found for found in all_runs(client) if found.data.tags.get("mlflow.parentRunId") == unit.run_id]
    best = max(trials, key=lambda found: found.data.metrics["valid_score"])
    assert {name: best.data.params[name] for name in unit.params} == {k: str(v) for k, v in unit.params.items()}
    assert parent.data.tags["best.max_epochs"] == "10"
    assert parent.data.tags["hopular.chosen_by"] == "valid_log_loss"
    assert best.data.metrics["valid_score"] == -best.data.metrics["valid_log_loss"]
    messages = {event.message for event in outcome.events if event.stage == "trial"}
    assert messages == {"log_loss"}


def test_a_unit_that_fails_is_named_and_the_others_go_on(runs, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "raise")
    outcome = run(datasets=["diabetes"], methods=["actor", "mean"])
    assert list(outcome.failed) == ["actor on diabetes kfold5-seed1-0"]
    assert "the matrix is sad" in outcome.failed["actor on diabetes kfold5-seed1-0"]
    results = load_results(open_store(), outcome.benchmark)
    assert {unit.method: unit.state for unit in results.units} == {"actor": "failed", "mean": "complete"}
    failed = [found for found in all_runs(open_store()) if found.info.status == "FAILED"]
    kinds = {found.data.tags["hopular.kind"]: found.data.tags["hopular.reason"] for found in failed}
    assert "the matrix is sad" in kinds["unit"]
    assert "the matrix is sad" in kinds["trial"]
    assert "actor" in Path(outcome.report).read_text()


def test_if_everything_fails_so_does_the_run(runs, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "refuse")
    with pytest.raises(BenchmarkError, match=r"every unit failed, first actor on diabetes .*colour must be one of"):
        run(datasets=["diabetes"], methods=["actor"], seed=1)


def test_a_dataset_that_cannot_be_loaded_does_not_stop_the_others(runs, tmp_path):
    (tmp_path / "bad.csv").write_text("y\n1\n")
    outcome = run(datasets=["iris", str(tmp_path / "bad.csv")], methods=["idle"], target="y")
    assert [Path(name).name for name in outcome.failed] == ["bad.csv"]
    assert outcome.units == 1


def test_every_figure_of_hopular_says_which_architecture_it_is_of(runs, tmp_path):
    (tmp_path / "yes.csv").write_text(TABLE)
    plan = {"datasets": [str(tmp_path / "yes.csv")], "target": "y", "methods": ["hopular", "majority"]}
    plan["limits"] = {"max_epochs": 1}
    client, found = open_store(), {}
    for architecture, named in ((None, "default"), ("paper", "paper")):
        outcome = run(**plan, architecture=architecture)
        folder, title = Path(outcome.report).parent, f"Hopular ({named} architecture)"
        results = Results.load(folder)
        ours = next(unit for unit in results.units if unit.method == "hopular")
        assert ours.params["architecture"] == named
        assert {event.method for event in outcome.events[1:]} == {f"hopular ({named} architecture)", "majority"}
        assert title in outcome.headline
        for file in ("report.html", "leaderboard.md", "leaderboard.csv", "leaderboard.tex"):
            assert title in (folder / file).read_text(encoding="utf-8"), file
        unit = client.get_run(ours.run_id)
        assert unit.data.params["architecture"] == unit.data.tags["hopular.architecture"] == named
        assert client.get_run(outcome.run_id).data.tags["hopular.architecture"] == named
        model = mlflow.pyfunc.load_model(client.get_logged_model(unit.data.tags["hopular.model"]).artifact_location)
        parts = model.unwrap_python_model().estimator._parts()
        assert parts == ARCHITECTURES[named]
        found[named] = outcome
    assert len({outcome.benchmark for outcome in found.values()}) == 2
    assert [outcome.reused for outcome in found.values()] == [0, 1]  # the majority class, whatever Hopular is


def test_an_ensemble_is_built_from_what_the_others_tried(first):
    outcome = run(datasets=["iris"], methods=["ensemble", "glm", "majority"], replicates=2)
    assert outcome.reused == 2
    results = load_results(open_store(), outcome.benchmark)
    ensemble = next(unit for unit in results.units if unit.method == "ensemble")
    assert ensemble.state == "complete", ensemble.reason
    assert {member[0] for member in ensemble.params["members"]} <= {"glm", "majority"}


def test_stopped_and_started_again_it_completes(runs):
    stop = threading.Event()

    def listen(event):
        if event.stage == "trial":
            stop.set()

    plan = Plan(datasets=["wine"], methods=["idle", "majority"], budget="smoke")
    with pytest.raises(BenchmarkError, match="was stopped"):
        run_here(plan, listen, stop)
    statuses = [
        found.info.status for found in all_runs(open_store()) if found.data.tags.get("hopular.dataset") == "wine"
    ]
    assert "KILLED" in statuses
    assert "RUNNING" not in statuses
    outcome = run(datasets=["wine"], methods=["idle", "majority"])
    assert (outcome.units, outcome.failed) == (2, {})
    found = [r for r in all_runs(open_store()) if r.data.tags.get("hopular.dataset") == "wine"]
    assert {r.info.status for r in found} == {"FINISHED"}
    assert len([r for r in found if r.data.tags["hopular.kind"] == "trial"]) == 3


def test_dask_gives_the_same_scores(runs, first):
    before = load_results(open_store(), first.benchmark).scores
    outcome = run(datasets=["iris"], methods=["glm"], replicates=2, seed=0, runner="dask", workers=1)
    scores = load_results(open_store(), outcome.benchmark).scores
    columns = ["dataset", "method", "split", "seed", "metric", "value"]
    expected = before[(before["dataset"] == "iris") & (before["method"] == "glm")]
    assert scores[columns].values.tolist() == expected[columns].values.tolist()


def test_new_datasets_are_benchmarked_once(runs, tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(
        new_datasets, "emit_event", lambda name, resource, payload: events.append((name, Path(payload["dataset"]).name))
    )
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text(TABLE.replace("0,", f"{len(name)}0,"))
    (tmp_path / "bad.csv").write_text("only\n")
    plan = Plan(budget="smoke", methods=["idle", "majority"], target="y")

    def look():
        return hopular_new_datasets(str(tmp_path), [], plan)

    first = look()
    assert [Path(name).stem for name in first["new"]] == ["one", "two"]
    assert [Path(name).name for name in first["refused"]] == ["bad.csv"]
    assert sorted(events) == [(NEW, "one.csv"), (NEW, "two.csv"), (BAD, "bad.csv")]
    second = look()
    assert len(events) == 3
    assert (second["new"], second["refused"]) == ([], {})
    (tmp_path / "two.csv").write_text(TABLE + "3,u,yes\n")
    third = look()
    assert [Path(name).stem for name in third["new"]] == ["two"]
    assert events[3:] == [(NEW, "two.csv")]
    page = Path(third["all"]["report"])
    results = Results.load(page.parent)
    assert {facts.name: facts.rows for facts in results.datasets} == {"one": 60, "two": 61}
    assert "changed" in page.read_text()
    assert json.loads((page.parent / "benchmark.json").read_text())["id"].startswith("new-datasets-smoke-")


def test_more_splits_than_a_dataset_has_are_a_mistake(runs, prefect_server, monkeypatch, capfd):
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)
    before = len(all_runs(open_store()))
    assert run_command(app, ["benchmark", "iris", "--methods", "idle", "--budget", "smoke", "--splits", "99"]) == 2
    assert "error: splits is 99, but iris has 5: use 1 to 5, or all" in capfd.readouterr().err
    assert len(all_runs(open_store())) == before


def test_a_dataset_with_fewer_splits_is_noted_and_run_on_those_it_has(runs, tmp_path):
    (tmp_path / "short.csv").write_text(TABLE)
    (tmp_path / "short.toml").write_text('target = "y"\n[protocol]\nscheme = "holdout"\n')
    outcome = run(datasets=["iris", str(tmp_path / "short.csv")], methods=["idle"], splits=2)
    assert outcome.units == 3
    notes = [event.message for event in outcome.events if event.stage == "note"]
    assert notes == ["short has 1 of the 2 splits asked for, and is run on these"]


def test_a_benchmark_of_nothing_says_why(runs):
    with pytest.raises(BenchmarkError, match="none of the methods majority is for regression, which 'diabetes' is"):
        run(datasets=["diabetes"], methods=["majority"])


def test_a_unit_whose_run_was_deleted_is_done_again(runs):
    client = open_store()
    first = load_results(client, run(datasets=["iris"], methods=["idle"]).benchmark).units[0].run_id
    client.delete_run(first)
    again = run(datasets=["iris"], methods=["idle"])
    assert (again.units, again.reused, again.failed) == (1, 0, {})
    [unit] = load_results(client, again.benchmark).units
    assert unit.run_id != first
    assert client.get_run(unit.run_id).info.status == "FINISHED"


def test_if_nothing_comes_of_new_datasets_that_was_an_attempt(runs, tmp_path):
    (tmp_path / "sad.csv").write_text(TABLE)
    with pytest.raises(BenchmarkError, match="none of the methods mean is for classification"):
        hopular_new_datasets(str(tmp_path), [], Plan(budget="smoke", methods=["mean"], target="y"))
    assert [count for count in read_ledger().attempts.values() if count < ATTEMPTS] == [1]


def test_the_limit_of_gpus_is_made_once_holds_and_does_not_hold_up_a_stop(prefect_server, monkeypatch):
    runners.make_limit()
    with get_client(sync_client=True) as client:
        assert client.read_global_concurrency_limit_by_name(runners.GPU_LIMIT).limit == runners.gpu_count()
        client.update_global_concurrency_limit(runners.GPU_LIMIT, GlobalConcurrencyLimitUpdate(limit=1))
        runners.make_limit()
        assert client.read_global_concurrency_limit_by_name(runners.GPU_LIMIT).limit == 1
        answers = iter([False, False, True])
        stop = SimpleNamespace(is_set=lambda: next(answers))
        monkeypatch.setattr(runners, "GPU_POLL", 2.0)
        with runners.gpu_slot(stop, "cuda"):
            assert client.read_global_concurrency_limit_by_name(runners.GPU_LIMIT).active_slots == 1
            with pytest.raises(StoppedError, match="waiting for a GPU"), runners.gpu_slot(stop, "cuda"):
                pass
            with runners.gpu_slot(stop, "cpu"):
                pass
        assert client.read_global_concurrency_limit_by_name(runners.GPU_LIMIT).active_slots == 0
