"""More than one machine: the scores of one alone, also when one of the machines is lost half-way."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pandas as pd
import psutil
import pytest

from flows.services.health import ask
from tests.faults.command import REPOSITORY, environment, running, wait_for, words_of
from tests.faults.servers import (
    POOL,
    dask_cluster,
    free_port,
    kill_host,
    postgresql,
    prefect_server,
    prefect_worker,
    processes_on,
)
from tests.faults.whole import all_runs, check_store, check_whole, score_table, store_of
from tests.trials.conftest import leases, raw_trials

pytestmark = [pytest.mark.slow, pytest.mark.soak]
DATASETS, METHODS = ["iris", "diabetes"], ["glm", "decision_tree", "majority", "mean"]
LIMITS = {"trials": 8, "grid_trials": 4}
WORDS = ["benchmark", *DATASETS, "--methods", ",".join(METHODS), "--budget", "smoke", "--verbose"]
WORDS += ["--trials", "8", "--grid-trials", "4"]
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
UNITS = 6  # on each dataset two methods that learn, and the floor of its task


@pytest.fixture(scope="module")
def calm(prefect_address, tmp_path_factory):
    """The score table of the same benchmark on this machine alone, on sqlite."""
    runs = tmp_path_factory.mktemp("calm") / "runs"
    with running(WORDS, runs, PREFECT_API_URL=prefect_address) as command:
        assert command.end() == 0, command.text
    return score_table(runs)


@pytest.fixture
def databases():
    """Addresses of PostgreSQL databases: those of studies and tracking as variables, and Prefect's."""
    with postgresql() as place:
        stores = {name: f"postgresql+psycopg://{place}/{name}" for name in ("studies", "mlflow")}
        variables = {"HOPULAR_STORAGE": stores["studies"], "MLFLOW_TRACKING_URI": stores["mlflow"]}
        yield variables, f"postgresql+asyncpg://{place}/prefect"


def check_databases(runs, variables):
    """Every unit and trial is there once, in studies and store, and no lease is left."""
    with store_of(runs, variables["MLFLOW_TRACKING_URI"]) as client:
        trials = check_store(client, UNITS)
    assert len(raw_trials(variables["HOPULAR_STORAGE"])) == sum(trials.values())
    assert leases(variables["HOPULAR_STORAGE"]) == []


def test_postgresql_behind_all_three(tmp_path, calm, databases, said):
    runs, (variables, database) = tmp_path / "runs", databases
    with prefect_server(runs, free_port(), database) as api:
        with running(WORDS, runs, PREFECT_API_URL=api, **variables) as command:
            assert command.end() == 0, command.text
        (run,) = ask(f"{api}/flow_runs/filter", {})
        assert run["state"]["type"] == "COMPLETED"
        assert not list(runs.glob("*.db"))
    pd.testing.assert_frame_equal(score_table(runs), calm)
    check_databases(runs, variables)
    said(f"PostgreSQL behind Prefect, MLflow and Optuna: the same {len(calm)} scores as on sqlite")


def test_one_of_two_prefect_workers_is_killed_half_way(tmp_path, calm, databases, said):
    runs, (variables, database) = tmp_path / "runs", databases
    with prefect_server(runs, free_port(), database) as api:
        variables = {"PREFECT_API_URL": api, **variables}
        with prefect_worker("one", runs, variables) as one, prefect_worker("two", runs, variables) as two:
            wait_for(lambda: workers_online(api) == {"one", "two"}, 120, "a report of both workers")
            prefect(runs, variables, "--no-prompt", "deploy", "--all")
            started = {start(runs, variables, dataset): dataset for dataset in DATASETS}
            wait_for(lambda: flow_runs_on(one) and flow_runs_on(two), 180, "a flow run on each worker")
            (lost,) = flow_runs_on(one)
            done = wait_for_unit(runs, variables, lost)
            kill_host(one)
            again = start(runs, variables, started[lost])
            others = [again, *(run for run in started if run != lost)]
            wait_for(lambda: all(state_of(api, run) in ENDED for run in others), 900, "the end of the other runs")
            states = [(state_of(api, run), message_of(api, run)) for run in others]
        assert [state for state, _ in states] == ["COMPLETED"] * 2, states
        assert "finished before" in states[0][1]
        left = state_of(api, lost)
    found = pd.concat(pd.read_csv(file) for file in (runs / "reports").glob("*/scores.csv"))
    found = found[list(calm.columns)].sort_values(list(calm.columns[:5]), ignore_index=True)
    pd.testing.assert_frame_equal(found, calm)
    check_databases(runs, variables)
    said(
        f"two workers of one pool, one killed after {done} of 3 units of its run: run again, the other completed it "
        f"({states[0][1]}), the same scores, nothing missing or double; Prefect shows the lost run as {left}"
    )


def prefect(runs, variables, *words):
    """The output of one of Prefect's commands, which must succeed."""
    home = runs.with_name(f"{runs.name}-desk")
    home.mkdir(exist_ok=True)
    own = {"HOME": str(home), "PWD": str(REPOSITORY), **variables}
    command = [Path(sys.executable).with_name("prefect"), *words]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment(runs, own), capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def start(runs, variables, dataset):
    """Ask for a benchmark of a dataset; the id of its flow run."""
    plan = {"datasets": [dataset], "methods": METHODS, "budget": "smoke", "limits": LIMITS}
    told = prefect(runs, variables, "deployment", "run", "hopular-benchmark", "--param", f"plan={json.dumps(plan)}")
    return re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", told).group()


def workers_online(api):
    try:
        found = ask(f"{api}/work_pools/{POOL}/workers/filter", {})
    except OSError:  # the first worker makes the pool
        return set()
    return {worker["name"] for worker in found if worker["status"] == "ONLINE"}


def flow_runs_on(home):
    """The flow runs that a machine has processes of."""
    found = set()
    for process in processes_on(home):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            found.add(process.environ().get("PREFECT__FLOW_RUN_ID"))
    return found - {None}


def wait_for_unit(runs, variables, flow_run):
    """Until a flow run has finished a unit and its result is kept; how many it has."""
    done = []

    def look():
        with store_of(runs, variables["MLFLOW_TRACKING_URI"]) as client:
            of_run = [run for run in all_runs(client) if run.data.tags.get("hopular.flow_run") == flow_run]
        done[:] = [run for run in of_run if (run.data.tags["hopular.kind"], run.info.status) == ("unit", "FINISHED")]
        return done

    wait_for(look, 300, "a finished unit of the flow run")
    time.sleep(1)
    return len(done)


def state_of(api, flow_run):
    return ask(f"{api}/flow_runs/{flow_run}", seconds=30)["state"]["type"]


def message_of(api, flow_run):
    return ask(f"{api}/flow_runs/{flow_run}", seconds=30)["state"]["message"]


@pytest.mark.parametrize("is_killed", [False, True], ids=["calm", "killed"])
def test_a_dask_cluster_of_two(is_killed, tmp_path, calm, prefect_address, said):
    runs = tmp_path / "runs"
    with dask_cluster(runs, {"PREFECT_API_URL": prefect_address}) as (address, homes):
        words = [*WORDS, "--runner", "dask", "--address", address]
        with running(words, runs, PREFECT_API_URL=prefect_address) as command:
            wait_for(lambda: all(map(fits_on, homes)) or not command.is_running, 300, "fits on both workers")
            used = [bool(fits_on(home)) for home in homes]
            if is_killed:
                assert command.is_running, command.text
                kill_host(homes[0])
            assert command.end() == 0, command.text
    assert used == [True, True]
    check_whole(runs, calm, UNITS)
    said(f"a Dask cluster of two{', one of them killed half-way' if is_killed else ''}: the same {len(calm)} scores")


def fits_on(home):
    """The processes that fit on a machine."""
    return [process for process in processes_on(home) if "hopular.trials.worker" in " ".join(words_of(process))]


@pytest.mark.parametrize("seconds", [1, 60])
def test_the_prefect_server_is_killed_and_started_again_in_the_midst_of_a_run(seconds, tmp_path, calm, said):
    runs, port = tmp_path / "runs", free_port()
    with ExitStack() as server:
        api = server.enter_context(prefect_server(runs, port))
        with running(WORDS, runs, PREFECT_API_URL=api) as command:
            assert command.wait_for_line(4), command.text
            server.close()
            killed = time.monotonic()
            time.sleep(seconds)
            server.enter_context(prefect_server(runs, port))
            gap = time.monotonic() - killed
            code = command.end()
            took = time.monotonic() - killed
        end = "the run finished"
        if code:
            assert "the Prefect server does not answer any more" in command.text, command.text
            assert "go on with: hopular benchmark iris diabetes" in command.text
            end = f"the run said so after {took:.0f} s, and a restart completed it"
            with running(WORDS, runs, PREFECT_API_URL=api) as command:
                assert command.end() == 0, command.text
    check_whole(runs, calm, UNITS)
    said(f"the Prefect server of a run killed and back after {gap:.0f} s: {end}, the same {len(calm)} scores")
