"""What must hold after all disturbances: every score, run and trial there, once, and nothing left lying about."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.faults.command import processes_of, scratch_of, wait_for

SAME = ["dataset", "method", "split", "seed", "metric", "value", "low", "high"]  # all but what it cost
LEFT = re.compile(r"\.tmp$|\.part$|^tmp|^\..*-\d+\.npy$|^\.new-datasets")


def score_table(runs: Path) -> pd.DataFrame:
    """The scores of the one benchmark in a runs folder, without what they cost."""
    (file,) = (runs / "reports").glob("*/scores.csv")
    return pd.read_csv(file)[SAME].sort_values(SAME[:5], ignore_index=True)


@contextmanager
def store_of(runs: Path, address: str | None = None) -> Any:
    """A client of the tracking store of a runs folder."""
    from flows.tracking.store import open_store

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(runs))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        if address is not None:
            patch.setenv("MLFLOW_TRACKING_URI", address)
        yield open_store()


def all_runs(client: Any) -> list[Any]:
    experiments = [found.experiment_id for found in client.search_experiments()]
    return list(client.search_runs(experiments, max_results=10_000))


def check_store(client: Any, units: int) -> Counter[tuple[str, str]]:
    """Every run finished, every unit once, its slots complete and single, its model whole; returns trials by unit."""
    found = all_runs(client)
    assert {run.info.status for run in found} == {"FINISHED"}
    of_kind = {kind: [run for run in found if run.data.tags["hopular.kind"] == kind] for kind in ("unit", "trial")}
    names = Counter((run.data.tags["hopular.dataset"], run.data.tags["hopular.method"]) for run in of_kind["unit"])
    assert len(names) == units
    assert set(names.values()) == {1}
    slots: dict[str, list[int]] = {run.info.run_id: [] for run in of_kind["unit"]}
    for trial in of_kind["trial"]:
        slots[trial.data.tags["mlflow.parentRunId"]].append(int(trial.data.tags["hopular.slot"]))
    for run in of_kind["unit"]:
        assert sorted(slots[run.info.run_id]) == list(range(len(slots[run.info.run_id])))
        models = client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run.info.run_id}'")
        assert {str(model.status) for model in models} == {"READY"}
        registered = {found.source for found in client.search_model_versions(f"run_id = '{run.info.run_id}'")}
        kept = {model.model_id for model in models if model.artifact_location in registered}  # never deleted
        assert {model.model_id for model in models} - kept <= {run.data.tags["hopular.model"]}
        assert run.data.tags["hopular.model"] in {model.model_id for model in models}
    return Counter(
        {
            (r.data.tags["hopular.dataset"], r.data.tags["hopular.method"]): len(slots[r.info.run_id])
            for r in of_kind["unit"]
        }
    )


def study_slots(runs: Path) -> Counter[tuple[str, int]]:
    """Count each slot of each study in the database of studies; what is leased or running still is an error."""
    with sqlite3.connect(runs / "optuna.db") as connection:
        rows = connection.execute(
            "SELECT study_name, value_json FROM trials JOIN studies USING (study_id) "
            "JOIN trial_user_attributes USING (trial_id) WHERE key = 'record'"
        ).fetchall()
        assert connection.execute("SELECT count(*) FROM hopular_leases").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM trials WHERE state = 'RUNNING'").fetchone() == (0,)
    connection.close()
    return Counter((name, json.loads(text)["slot"]) for name, text in rows)


def check_nothing_left(runs: Path) -> None:
    """No process of this runs folder, no temporary file in it nor beside it."""
    wait_for(lambda: not processes_of(runs), 15, "the end of all processes")
    scratch = scratch_of(runs)
    assert not scratch.is_dir() or os.listdir(scratch) == []
    files = [path for path in runs.rglob("*") if path.is_file() and "prefect" not in path.parts]
    assert [path for path in files if LEFT.search(path.name) or path.is_relative_to(runs / "tmp")] == []


def check_whole(runs: Path, expected: pd.DataFrame, units: int) -> None:
    """A benchmark that was disturbed has ended as an undisturbed one does."""
    pd.testing.assert_frame_equal(score_table(runs), expected)
    with store_of(runs) as client:
        trials = check_store(client, units)
    slots = study_slots(runs)
    assert set(slots.values()) == {1}
    assert sum(slots.values()) == sum(trials.values())
    check_nothing_left(runs)
