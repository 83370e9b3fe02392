"""What the pipeline costs beside fits and predictions: `python -m benchmarks.pipeline`.

The demo suite is run by `hopular benchmark` at the budget `quick`, server start and imports included, with state of its
own. Overhead is the share of the wall time in which the machine's cores were not fitting or predicting: one minus the
seconds of all fits and predictions, divided by the number of fits side by side and by the wall time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

AIM = 0.25


def busy_seconds(folder: Path) -> tuple[float, int]:
    """Seconds of all fits and predictions in a store, and the number of fits."""
    os.environ["HOPULAR_RUNS"] = str(folder)
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    from flows.tracking.store import open_store

    client = open_store()
    experiments = [found.experiment_id for found in client.search_experiments()]
    runs = client.search_runs(experiments, "tags.`hopular.kind` = 'trial'", max_results=5000)
    spent = [run.data.metrics.get("fit_seconds", 0) + run.data.metrics.get("predict_seconds", 0) for run in runs]
    return sum(spent), len(spent)


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    parser.add_argument("words", nargs="*", default=["demo"], help="arguments of hopular benchmark")
    options, more = parser.parse_known_args(args)
    workers = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HOPULAR_RUNS": folder}
        command = [str(Path(sys.executable).parent / "hopular"), "benchmark", *options.words, *more]
        start = time.perf_counter()
        done = subprocess.run(command, env=environment)
        wall = time.perf_counter() - start
        if done.returncode:
            sys.exit(done.returncode)
        busy, fits = busy_seconds(Path(folder))
    share = 1 - busy / workers / wall
    table = Table("pipeline", "measured", "aim", title=" ".join(command[1:]))
    table.add_row("wall time", f"{wall:.0f} s", "")
    table.add_row(f"fits and predictions of {fits} trials, {workers} side by side", f"{busy / workers:.0f} s", "")
    table.add_row("overhead, of the wall time", f"{share:.0%}", f"<= {AIM:.0%}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
