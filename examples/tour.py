"""A tour from a raw CSV to a served model, in about two minutes: python examples/tour.py [FOLDER]

Everything it makes is in FOLDER, by default a temporary one that is removed at the end.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd

BIN = Path(sys.executable).parent  # where the environment keeps its commands
SECONDS = 20  # for the model of step 3
PATIENCE = 120  # seconds that a server may take to start


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["HOPULAR_RUNS"] = str(folder / "runs")  # results and stores of this tour alone
    table = write_table(folder / "flats.csv")
    look_at(table)
    find_model(table, folder / "model")
    benchmark(table)
    serve_champion(table, folder)


def write_table(path: Path) -> Path:
    """1. A file as people have it: semicolons, decimal commas, dates, gaps, and a column of no use."""
    random = np.random.default_rng(0)
    rows = 300
    area, district = random.normal(75, 25, rows).clip(20), random.choice(["north", "south", "old town"], rows)
    rent = 9 * area + 180 * (district == "old town") + random.normal(0, 60, rows)
    frame = pd.DataFrame(
        {
            "id": np.arange(rows) + 1000,
            "area": area.round(1),
            "rooms": (area / 25).round(),
            "district": district,
            "built": pd.to_datetime("1950-01-01") + pd.to_timedelta(random.integers(0, 25_000, rows), unit="D"),
            "rent": rent.round(2),
        }
    )
    frame.loc[random.random(rows) < 0.1, ["area", "district"]] = None
    frame.to_csv(path, sep=";", decimal=",", index=False)
    print(f"1. a table: {path}\n{path.read_text(encoding='utf-8')[:120]}...\n")
    return path


def look_at(table: Path) -> None:
    """2. How the file is read, and what is wrong with it."""
    from hopular.data import load
    from hopular.data.audit import audit

    dataset = load(str(table), target="rent")
    print(f"2. read as {dataset}")
    for remark in (*dataset.notes, *(finding.sentence for finding in audit(dataset))):
        print(f"   {remark}")


def find_model(table: Path, folder: Path) -> None:
    """3. The best model that a few seconds find; saved, loaded again, and asked."""
    from hopular.automl import fit_table, load_fitted
    from hopular.data import load

    fitted = fit_table(load(str(table), target="rent"), seconds=SECONDS)
    print(f"\n3. the best of {SECONDS} seconds is {fitted.facts.title}")
    print(fitted.leaderboard[["title", "rmse", "share", "seconds"]].head(5).to_string(index=False))
    fitted.save(folder)
    flats = {"area": [50.0, 120.0], "rooms": [2, 5], "district": ["old town", "north"], "built": "1999-05-01"}
    rents = load_fitted(folder).predict(pd.DataFrame(flats))
    print(f"   rents of two new flats: {rents.round()}; the report is {folder / 'report.html'}")


def benchmark(table: Path) -> None:
    """4. The same table through the pipeline: every trial on record, and the winner registered as champion."""
    words = ["--target", "rent", "--methods", "hopular,lightgbm,glm,mean", "--budget", "smoke", "--json"]
    command = [str(BIN / "hopular"), "benchmark", str(table), *words]
    outcome = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(f"\n4. {outcome['headline']}\n   {outcome['champions']['flats']}\n   the report is {outcome['report']}")


def serve_champion(table: Path, folder: Path) -> None:
    """5. The champion behind an address of this machine, asked for one flat."""
    from hopular.data import load

    row = load(str(table), target="rent").X.head(1)
    with served("models:/hopular-flats@champion", folder / "serving.log") as address:
        request = Request(
            f"{address}/invocations",
            data=json.dumps({"dataframe_records": json.loads(row.to_json(orient="records"))}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
    print(f"\n5. asked for {row.to_dict('records')[0]}\n   the server answers: {answer}")


@contextmanager
def served(model: str, log: Path) -> Iterator[str]:
    """Serve a model and give its address. The server and its children are one group, stopped at the end."""
    from flows.tracking.store import tracking_uri

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = ["models", "serve", "-m", model, "--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as output:
        server = subprocess.Popen(
            [str(BIN / "mlflow"), *command],
            env={**os.environ, "MLFLOW_TRACKING_URI": tracking_uri(), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
    try:
        while not is_up(address):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the model server did not start:\n{log.read_text(encoding='utf-8')}")
            time.sleep(0.3)
        yield address
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def is_up(address: str) -> bool:
    try:
        with urlopen(f"{address}/ping", timeout=2) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


if __name__ == "__main__":  # worker processes import this file too
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
