"""Stores that are locked, away, full or damaged: work goes on, or stops clearly and a restart completes it."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest

from hopular.automl import fit_table, load_fitted
from hopular.methods import Run, get_method
from hopular.methods.saved import load_model, save_model
from hopular.trials import worker
from hopular.trials.budget import Budget
from hopular.trials.problem import make_problem
from hopular.trials.run import search
from hopular.trials.study import StorageError, Study, open_storage
from tests.automl.conftest import flowers
from tests.faults.whole import all_runs, check_store, score_table, store_of
from tests.toys import toy_methods
from tests.trials.conftest import InlineWorker, make_dataset, make_split

pytestmark = pytest.mark.slow
SMALL = {"datasets": ["iris", "diabetes"], "methods": ["glm", "majority", "mean"]}


@contextmanager
def locked(file, seconds):
    """Hold the write lock of a sqlite file for some seconds, as another process would, from the start of the block."""
    holder = sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")

    def release():
        time.sleep(seconds)
        holder.execute("ROLLBACK")

    thread = threading.Thread(target=release)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        holder.close()


def test_a_search_waits_for_a_locked_database(runs, monkeypatch, said):
    monkeypatch.setattr(worker, "Worker", InlineWorker)
    problem, seconds = make_problem(make_dataset(), make_split()), 7.0  # longer than sqlite waits by itself
    with toy_methods():
        open_storage().engine.dispose()
        start = time.monotonic()
        with locked(runs / "optuna.db", seconds):
            result = search(problem, "constant", Budget(trials=5))
    assert time.monotonic() - start >= seconds
    assert [record.state for record in result.trials] == ["complete"] * 5
    said(f"optuna.db locked for {seconds:g} s: the search waited and has all 5 trials")


def test_a_damaged_database_of_studies_is_named(runs):
    storage = open_storage()
    Study(storage, "study").close()
    storage.engine.dispose()
    file = runs / "optuna.db"
    content = file.read_bytes()
    for damaged in (b"no database" * 1000, content[: len(content) // 2], content[:8192] + os.urandom(50_000)):
        for path in runs.glob("optuna.db*"):
            path.unlink()
        file.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"the database of studies sqlite:///.*optuna\.db cannot be opened"):
            Study(open_storage(), "study")


def test_a_damaged_tracking_store_is_named(runs):
    from flows.tracking.store import open_store

    runs.mkdir()
    (runs / "mlflow.db").write_bytes(b"no database" * 1000)
    with pytest.raises(ValueError, match=r"sqlite:///.*mlflow\.db is damaged \(file is not a database\): put a copy"):
        open_store()


@pytest.mark.parametrize("method", ["glm", "xgboost", "lightgbm", "catboost", "majority", "mlp"])
def test_a_damaged_model_file_is_named(method, tmp_path):
    problem = make_problem(make_dataset(), make_split())
    y = problem.y_train.gt(0).map({True: "high", False: "low"}).astype("category")
    params = {"max_epochs": 1} if get_method(method).has_curve else {}
    save_model(get_method(method).make("classification", params, Run()).fit(problem.X_train, y), tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        whole = path.read_bytes()
        place = random.randrange(len(whole))
        flipped = whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :]
        for content in (b"", whole[: len(whole) // 2], os.urandom(len(whole)), flipped):
            path.write_bytes(content)
            assert str(tmp_path) in refusal(tmp_path) or content == flipped  # one letter of a name may go unnoticed
        path.write_bytes(whole)
    load_model(tmp_path)


def refusal(folder):
    """The message with which a model is refused; "" if it is loaded."""
    try:
        load_model(folder)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.soak
def test_a_damaged_result_is_made_again(benchmark, runs, said):
    benchmark(**SMALL)
    before = score_table(runs)
    folder = next(path.parent for path in _result_files() if "search-" in path.name)
    kept = sorted(path for path in folder.iterdir() if path.name.startswith(("search-", "train-", "evaluate-")))
    for path, size in zip(random.sample(kept, 4), (0, 10, 100, None), strict=True):
        content = path.read_bytes()
        path.write_bytes(os.urandom(200) if size is None else content[:size])
    again = benchmark(**SMALL)
    assert (again.units, again.failed) == (4, {})
    assert score_table(runs).equals(before)
    with store_of(runs) as client:
        check_store(client, units=4)
    said("4 damaged task results of 12: those units were done again, same scores")


def _result_files():
    from prefect.settings import get_current_settings

    return list(get_current_settings().results.local_storage_path.iterdir())


@pytest.fixture
def small_disk():
    """Mounts a small disk on a folder, and gives how to make it larger."""
    mounted = []

    def mount(folder, size):
        folder.mkdir(parents=True, exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode:
            pytest.skip("mounting a small disk needs root")
        mounted.append(folder)
        return lambda: subprocess.run(["mount", "-o", "remount,size=300m", str(folder)], check=True)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.soak
def test_a_full_disk_is_named_and_a_restart_completes(small_disk, benchmark, tmp_path, monkeypatch, said):
    folder = tmp_path / "disk"
    enlarge = small_disk(folder, "2m")
    monkeypatch.setenv("HOPULAR_RUNS", str(folder / "runs"))
    monkeypatch.setenv("HOPULAR_CACHE", str(folder / "cache"))
    message = trouble(benchmark)
    assert re.search(r"[Nn]o space left on device|disk is full|disk I/O error", message), message
    enlarge()
    outcome = benchmark(**SMALL)
    assert (outcome.units, outcome.failed) == (4, {})
    with store_of(folder / "runs") as client:
        check_store(client, units=4)
        assert len(all_runs(client)) == 4 + 6 + 1
    said(f"a disk of 2 MB: stopped with '{message[:90]}...', and with room completed")


@pytest.mark.soak
@pytest.mark.parametrize("place", ["artifacts", "cache"])
def test_a_disk_full_of_artifacts_or_cache(place, small_disk, benchmark, runs, said):
    """The databases have room, and what is written beside them has not."""
    enlarge = small_disk(runs / place, "8k")
    message = trouble(benchmark)
    if place == "artifacts":
        assert "No space left on device" in message, message
    else:  # costs time later, not the dataset now
        assert message == ""
    enlarge()
    outcome = benchmark(**SMALL)
    assert (outcome.units, outcome.failed) == (4, {})
    with store_of(runs) as client:
        check_store(client, units=4)
    said(f"a full disk of {place} beside databases with room: '{message[:90]}', and with room completed")


@pytest.mark.soak
def test_a_disk_full_of_a_model(small_disk, runs, tmp_path, said):
    fitted = fit_table(flowers(), 60, methods=["majority"])
    enlarge = small_disk(tmp_path / "disk", "16k")
    with pytest.raises(ValueError, match=r"no model can be written to .*model' \(No space left on device") as caught:
        fitted.save(tmp_path / "disk" / "model")
    assert os.listdir(tmp_path / "disk") == []
    enlarge()
    load_fitted(fitted.save(tmp_path / "disk" / "model")).predict(flowers().X)
    said(f"a full disk for a model: '{caught.value}', nothing left of it, and with room it was written")


def trouble(benchmark):
    """How a benchmark says that something went wrong."""
    try:
        return "; ".join(benchmark(**SMALL).failed.values())
    except Exception as error:
        return str(error)
