"""Measure what loading adds to bare pandas, on a table like the paper's largest: `python -m benchmarks.data`.

With HOPULAR_DATA set the table is gesture-phase itself, otherwise random numbers of the same shape.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from hopular import settings
from hopular.data.sources import file, paper

ROWS, FEATURES, REPEATS = 9873, 32, 15


def table(folder: Path) -> Path:
    """Return a CSV file of the shape of gesture-phase."""
    mirror = settings.mirror()
    if mirror is not None:
        return mirror / "gesture_phase" / "gesture_phase.csv"
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(ROWS, FEATURES)).round(8)).add_prefix("X")
    frame["Phase"] = random.choice(list("DHPRS"), ROWS)
    path = folder / "gesture_phase.csv"
    frame.to_csv(path, index=False)
    return path


def seconds(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the shortest time of each run, taken in turns."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(REPEATS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    os.environ["HOPULAR_CACHE"] = str(folder / "cache")
    csv, parquet = table(folder), folder / "bare.parquet"
    pd.read_csv(csv).to_parquet(parquet)

    def first_time() -> None:
        os.environ["HOPULAR_CACHE"] = tempfile.mkdtemp(dir=folder)
        file.load(csv, target="Phase")
        os.environ["HOPULAR_CACHE"] = str(folder / "cache")

    def no_cache() -> None:
        file._build(csv, "gesture_phase", str(csv), file.Sidecar(target="Phase"))

    runs: dict[str, Callable[[], object]] = {
        "bare pd.read_csv": lambda: pd.read_csv(csv),
        "own file, from CSV": no_cache,
        "own file, from CSV and into the cache": first_time,
        "bare pd.read_parquet": lambda: pd.read_parquet(parquet),
        "own file, from the cache": lambda: file.load(csv, target="Phase"),
    }
    bare = dict.fromkeys(runs, "bare pd.read_csv") | {"own file, from the cache": "bare pd.read_parquet"}
    if settings.mirror() is not None:
        entry, _ = paper.find("gesture")
        runs |= {
            "paper suite, from CSV": lambda: paper._medium(entry),
            "paper suite, from the cache": lambda: paper.load("gesture"),
        }
        bare |= {"paper suite, from CSV": "bare pd.read_csv", "paper suite, from the cache": "bare pd.read_parquet"}
    best = seconds(runs)
    result = Table("load", "ms", "ratio to bare pandas", "aim", title=f"{ROWS} rows, {FEATURES + 1} columns")
    for name, value in best.items():
        ratio = value / best[bare[name]]
        aim = "" if name.startswith("bare") else "<= 3" if "from the cache" in name else "<= 1.5"
        result.add_row(name, f"{1e3 * value:.1f}", "" if name.startswith("bare") else f"{ratio:.2f}", aim)
    Console(width=100).print(result)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
