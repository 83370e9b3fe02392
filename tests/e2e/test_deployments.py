"""The product as people use it: `hopular up`, then `prefect deployment run hopular-benchmark`, then MLflow."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from flows.services.health import ask
from hopular.data.sources import suites
from tests.report.browser import CHROMIUM, column, faultless_page, is_dark, open_browser

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PLAN = {"datasets": ["demo"], "methods": ["hopular", "glm", "majority", "mean"], "budget": "smoke"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The servers of this repository with state of their own, and command lines that find them by themselves."""
    runs = tmp_path_factory.mktemp("runs")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = one.getsockname()[1], two.getsockname()[1]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_"))}
    environment = {**own, "HOPULAR_RUNS": str(runs), "HOPULAR_CACHE": str(runs / "cache"), "COLUMNS": "200"}

    def call(name, *words):
        command = [str(BIN / name), *words]
        return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300)

    up = call("hopular", "up", "--detach", "--prefect-port", str(ports[0]), "--mlflow-port", str(ports[1]))
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        api, mlflow = f"http://127.0.0.1:{ports[0]}/api", f"http://127.0.0.1:{ports[1]}"
        yield SimpleNamespace(runs=runs, call=call, api=api, mlflow=mlflow)
    finally:
        down = call("hopular", "down")
    assert down.returncode == 0, down.stdout + down.stderr


@pytest.fixture
def store(project, monkeypatch):
    from flows.tracking.store import open_store

    monkeypatch.setenv("HOPULAR_RUNS", str(project.runs))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", project.mlflow)
    return open_store()


def runs_of(store, **tags):
    experiments = [found.experiment_id for found in store.search_experiments()]
    found = store.search_runs(experiments, max_results=5000)
    return [r for r in found if all(r.data.tags.get(f"hopular.{name}") == value for name, value in tags.items())]


def deploy_and_watch(project, *options, plan=PLAN):
    parameters = ("--param", f"plan={json.dumps(plan)}")
    return project.call("prefect", "deployment", "run", "hopular-benchmark", *parameters, *options)


def latest_message(project):
    own = {"deployments": {"name": {"any_": ["hopular-benchmark"]}}}  # not the runs that a schedule makes
    (run,) = ask(f"{project.api}/flow_runs/filter", {**own, "sort": "START_TIME_DESC", "limit": 1})
    return run["state"]["type"], run["state"]["message"]


def test_the_deployment_runs_by_its_name_and_mlflow_holds_all_of_it(project, store):
    done = deploy_and_watch(project, "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert latest_message(project) == ("COMPLETED", "12 units run")
    assert len(runs_of(store, kind="benchmark")) == 1
    units, trials = runs_of(store, kind="unit"), runs_of(store, kind="trial")
    assert len(units) == 4 * 3  # on each dataset Hopular, a linear model and the floor of its task
    assert len(trials) == 4 * (1 + 2 + 1)
    assert {run.info.status for run in units + trials} == {"FINISHED"}
    assert all(run.data.tags["hopular.flow_run"] for run in units)
    for unit in units:
        model = store.get_logged_model(unit.data.tags["hopular.model"])
        assert str(model.status) == "READY"
        assert "valid_score" in unit.data.metrics
    champions = {f"hopular-{dataset}" for dataset in suites()["demo"]}
    assert {model.name for model in store.search_registered_models()} == champions
    for name in champions:
        assert store.get_model_version_by_alias(name, "champion").version == "1"


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")
def test_its_report_opens_in_a_browser_sorts_and_has_both_colour_schemes(project):
    (report,) = project.runs.glob("reports/*/report.html")
    with open_browser() as browser:
        with faultless_page(browser, report, "dark") as page:
            assert is_dark(page)
        with faultless_page(browser, report) as page:
            assert not is_dark(page)
            heading = page.locator("#board th", has_text="Median rank")
            place = heading.evaluate("cell => cell.cellIndex + 1")
            for _ in range(2):
                heading.locator("button").click()
            ranks = [float(value) for value in column(page, place) if value]
            assert len(ranks) > 1
            assert ranks == sorted(ranks, reverse=True)
            page.locator("#open-all").click()
            assert page.locator("details.dataset[open]").count() == len(suites()["demo"])


def test_the_second_run_trains_nothing_and_says_so(project, store):
    before = {run.info.run_id for run in runs_of(store)}
    done = deploy_and_watch(project, "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert latest_message(project) == ("COMPLETED", "nothing was trained: all 12 units were finished before")
    assert {run.info.run_id for run in runs_of(store)} == before


def test_the_nightly_look_at_new_datasets_is_scheduled(project):
    nightly = {"deployments": {"name": {"any_": ["hopular-new-datasets"]}}, "limit": 1}

    def scheduled():
        return ask(f"{project.api}/flow_runs/filter", {**nightly, "sort": "EXPECTED_START_TIME_ASC"})

    wait_for(scheduled, 90)  # the server looks at schedules once a minute
    (run,) = scheduled()
    assert run["state"]["type"] == "SCHEDULED"
    assert run["expected_start_time"][11:19] == "03:00:00"
    assert run["auto_scheduled"]


def test_the_champion_loads_in_a_fresh_process_and_predicts_as_it_did(project, store):
    script = (
        "import mlflow\nfrom hopular.data import load\n"
        "model = mlflow.pyfunc.load_model('models:/hopular-iris@champion')\n"
        "print((model.predict(load('iris').X) == load('iris').y.astype(str)).mean())"
    )
    environment = {**os.environ, "MLFLOW_TRACKING_URI": project.mlflow}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.8


def test_cancelling_stops_the_work_soon_and_leaves_nothing_running(project, store):
    plan = {"datasets": ["breast-cancer-wisconsin"], "methods": ["hopular"], "budget": "paper"}
    started = deploy_and_watch(project, plan=plan)
    assert started.returncode == 0, started.stdout + started.stderr
    run_id = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", started.stdout).group()
    wait_for(lambda: workers(project), 90)
    cancelled = project.call("prefect", "flow-run", "cancel", run_id)
    assert cancelled.returncode == 0, cancelled.stderr
    asked = time.monotonic()
    wait_for(lambda: not workers(project), 15)
    wait_for(lambda: ask(f"{project.api}/flow_runs/{run_id}")["state"]["type"] == "CANCELLED", 30)
    assert time.monotonic() - asked < 30
    wait_for(lambda: all(r.info.status != "RUNNING" for r in runs_of(store, dataset="breast-cancer-wisconsin")), 15)
    assert "KILLED" in {r.info.status for r in runs_of(store, dataset="breast-cancer-wisconsin", kind="unit")}


def workers(project):
    """Processes that fit for the servers of this test."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            if "hopular.trials.worker" in (process.info["cmdline"] or []):
                found += [process] * (process.environ().get("HOPULAR_RUNS") == str(project.runs))
        except psutil.Error:
            continue
    return found


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {seconds} s"
        time.sleep(0.2)
