"""Tables that are hard to fit: `hopular fit` gives a model, or a refusal that names the reason, within its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.automl import fit_table
from hopular.data import load
from hopular.data.dataset import DataError

pytestmark = pytest.mark.soak
SECONDS = 30.0
LATE = 15.0  # seconds that a busy machine may take longer
RNG = np.random.default_rng(0)


def made(rows: int, columns: int = 5) -> pd.DataFrame:
    frame = pd.DataFrame(RNG.normal(size=(rows, columns)), columns=[f"x{place}" for place in range(columns)])
    return frame.assign(y=np.where(frame["x0"] + RNG.normal(size=rows) > 0, "yes", "no"))


def rare_class() -> pd.DataFrame:
    frame = made(80)
    frame.loc[7, "y"] = "once"
    return frame


def mostly_missing() -> pd.DataFrame:
    frame = made(300)
    features = frame.columns[:-1]
    frame[features] = frame[features].mask(RNG.random((300, 5)) < 0.95)
    return frame


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "30 rows": lambda: made(30),
    "100,000 rows": lambda: made(100_000),
    "200 columns": lambda: made(200, 200),
    "100 classes": lambda: made(1_000).assign(y=[f"class {place % 100}" for place in range(1_000)]),
    "a class of one row": rare_class,
    "empty columns": lambda: made(100).assign(nothing=np.nan, blank=""),
    "95 % missing": mostly_missing,
    "numbers": lambda: made(100).assign(y=RNG.normal(size=100)),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_a_model_within_the_time(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path / "runs"))
    frame = TABLES[name]()
    frame.to_csv(tmp_path / "table.csv", index=False)
    dataset = load(str(tmp_path / "table.csv"), target="y")
    start = time.monotonic()
    fitted = fit_table(dataset, SECONDS)
    fitted.save(tmp_path / "model")
    seconds = time.monotonic() - start
    print(f"{name}: {fitted.facts.title}, {seconds:.0f} s")
    assert seconds < SECONDS + LATE
    answers = fitted.predict(frame.drop(columns="y").head(20))
    assert len(answers) == 20
    assert pd.notna(answers).all()


def test_a_constant_target_is_refused(tmp_path: Path) -> None:
    made(50).assign(y="same").to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(DataError, match="target 'y' has one value only"):
        load(str(tmp_path / "table.csv"), target="y")
