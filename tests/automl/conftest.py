"""Small tables, and a runs folder of their own for every test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.automl import Fitted, fit_table
from hopular.data.dataset import Dataset
from hopular.trials.events import Event

QUICK = ["majority", "pls"]  # ten settings in all: once they are tried, there is no reason to wait


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    monkeypatch.setenv("HOPULAR_RUNS", str(folder))
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOPULAR_STORAGE", raising=False)
    return folder


@dataclass(frozen=True)
class Watched:
    """A fit, and what it told."""

    fitted: Fitted
    events: list[Event]


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """The table of flowers, fitted once for all tests that only look."""
    events: list[Event] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(tmp_path_factory.mktemp("runs")))
        return Watched(
            fit_table(flowers(), 100, methods=QUICK, command="hopular fit flowers.csv", on_event=events.append), events
        )


def flowers(rows: int = 90) -> Dataset:
    """Three classes that two numbers tell apart, and a colour that does not."""
    rng = np.random.default_rng(0)
    kind = np.arange(rows) % 3
    X = pd.DataFrame(
        {
            "length": kind + rng.normal(scale=0.4, size=rows),
            "width": -kind + rng.normal(scale=0.4, size=rows),
            "colour": pd.Categorical(rng.choice(["blue", "red"], rows)),
        }
    )
    y = pd.Series(pd.Categorical(np.array(["ash", "birch", "cedar"])[kind]), name="tree")
    return Dataset("flowers", X, y, "classification", source="made up")


def prices(rows: int = 80) -> Dataset:
    """Numbers that depend on one other number."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"size": rng.uniform(20, 200, rows), "floor": rng.normal(size=rows)})
    y = pd.Series(3 * X["size"] + rng.normal(scale=5, size=rows), name="price")
    return Dataset("prices", X, y, "regression", source="made up")
