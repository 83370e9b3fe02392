"""A real store of its own for each test: a copy of an empty one, since making its tables takes seconds."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.tracking.runs import Lineage
from flows.tracking.store import open_store
from hopular.data.dataset import Dataset
from hopular.trials.trial import Trial


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(folder))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        open_store()
    with sqlite3.connect(folder / "mlflow.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / "mlflow.db"


@pytest.fixture
def runs(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs folder of this test, with an empty store."""
    folder = tmp_path / "runs"
    folder.mkdir()
    shutil.copy(empty_store, folder / "mlflow.db")
    monkeypatch.setenv("HOPULAR_RUNS", str(folder))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


@pytest.fixture
def client(runs: Path) -> Any:
    return open_store()


@pytest.fixture
def lineage() -> Lineage:
    return Lineage(
        benchmark="bench-1",
        flow_run="flow-1",
        dataset="flowers",
        dataset_fingerprint="a" * 64,
        source="/data/flowers.csv",
        split="kfold5-seed0-0",
        split_fingerprint="b" * 64,
        method="xgboost",
        seed=3,
        budget="smoke",
        device="cpu",
        commit="c" * 40,
        code="d" * 12,
        versions="python 3.11.7, hopular 0.1.0, xgboost 3.2.0",
    )


@pytest.fixture
def flowers() -> Dataset:
    random = np.random.default_rng(0)
    X = pd.DataFrame({"size": random.normal(size=60), "colour": pd.Categorical(random.choice(["red", "blue"], 60))})
    X.loc[3, "size"] = np.nan
    X.loc[4, "colour"] = np.nan
    y = pd.Series(pd.Categorical(np.where(X["size"] > 0, "rose", "lily")), name="kind")
    return Dataset("flowers", X, y, "classification", source="/data/flowers.csv")


@pytest.fixture
def make_record() -> Callable[..., Trial]:
    def make(slot: int, **changes: Any) -> Trial:
        values: dict[str, Any] = {
            "slot": slot,
            "seed": 100 + slot,
            "params": {"depth": 3 + slot % 4, "rate": 0.1 * (slot + 1), "kind": "ab"[slot % 2]},
            "state": "complete",
            "score": 0.5 + 0.01 * slot,
            "metrics": {"accuracy": 0.5 + 0.01 * slot, "log_loss": 0.7},
            "curve": [(10, 0.3), (50, 0.4), (100, 0.5)],
            "fit_seconds": 2.0,
            "predict_seconds": 0.5,
            "peak_memory": 50_000_000,
        }
        return Trial(**{**values, **changes})

    return make
