"""Measure what the pipeline costs beside fits and predictions: `python -m benchmarks.pipeline`, part of `make bench`.

A benchmark is run by `hopular benchmark`, server start and imports included, with state of its own. Two figures are
read from its tracking store, so that another version can be measured too (PYTHONPATH names its checkout):

- the overhead of a unit: the time from the start to the end of its run, without the fits and predictions of its trials
  and of its training; the median over the units of a method, since the first one also starts processes and imports;
- the share of the wall time in which the machine's cores were not fitting or predicting.

Then the units are run once more in this process, without Prefect: the processor seconds that it takes for each are what
a unit costs beside its fits, which are in processes of their own, and do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

UNIT_SECONDS = 2.0  # aim for the overhead of a unit of a fast method
SHARE = 0.25  # aim for that of the whole
DATASETS, METHOD = ["iris", "wine", "diabetes"], "xgboost"
WORDS = [*DATASETS, "--methods", METHOD, "--workers", "1"]


def measure(folder: Path) -> tuple[float, dict[str, list[float]]]:
    """Return the seconds of all fits and predictions in a store, and by method the overhead of each unit."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    runs = client.search_runs([found.experiment_id for found in client.search_experiments()], max_results=5000)
    busy: dict[str, float] = defaultdict(float)  # by unit
    for run in runs:
        parent, metrics = run.data.tags.get("mlflow.parentRunId"), run.data.metrics
        if parent:
            busy[parent] += metrics.get("fit_seconds", 0) + metrics.get("predict_seconds", 0)
    units = [run for run in runs if run.data.tags.get("hopular.kind") == "unit"]
    overheads: dict[str, list[float]] = defaultdict(list)
    for unit in units:
        seeds = unit.data.metrics["seeds"] - 1  # the first is the model of the best trial
        busy[unit.info.run_id] += seeds * unit.data.metrics["fit_seconds"]
        wall = (unit.info.end_time - unit.info.start_time) / 1000
        overheads[unit.data.tags["hopular.method"]].append(wall - busy[unit.info.run_id])
    return sum(busy.values()), overheads


def processor_seconds(datasets: list[str], method: str) -> list[float]:
    """Return the processor seconds of this process for each unit: search, records in MLflow, pictures, model."""
    from flows.tracking.store import open_store
    from flows.tracking.tracker import MlflowTracker
    from hopular.benchmark.plan import Plan
    from hopular.benchmark.run import Context, fetch, run_unit, split
    from hopular.benchmark.unit import make_units
    from hopular.trials.worker import WorkerPool

    found = {name: (fetch(name, None), split(name, None)[:1]) for name in datasets}
    spent = []
    with WorkerPool(1) as pool:
        context = Context(MlflowTracker(open_store(), "benchmarks.pipeline"), pool=pool)
        for unit in make_units(Plan(datasets=datasets, methods=[method], workers=1), found):
            start = time.process_time()
            assert run_unit(unit, context=context).state == "complete"
            spent.append(time.process_time() - start)
    return spent


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    words = parser.parse_known_args(args)[1] or WORDS
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    workers = int(words[words.index("--workers") + 1]) if "--workers" in words else len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HOPULAR_RUNS": folder}
        command = [str(Path(sys.executable).parent / "hopular"), "benchmark", *words]
        start = time.perf_counter()
        done = subprocess.run(command, env=environment)
        wall = time.perf_counter() - start
        if done.returncode:
            sys.exit(done.returncode)
        busy, overheads = measure(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOPULAR_RUNS"] = folder
        spent = processor_seconds(DATASETS, METHOD)
    load = os.getloadavg()[0]
    table = Table("pipeline", "measured", "aim", title=" ".join(command[1:]), caption=f"load of the machine {load:.1f}")
    for method, seconds in overheads.items():
        units, median = ", ".join(f"{one:.1f}" for one in seconds), statistics.median(seconds)
        table.add_row(f"overhead of a unit of {method}: {units} s", f"{median:.1f} s", f"<= {UNIT_SECONDS:.0f} s")
    units, median = ", ".join(f"{one:.1f}" for one in spent), statistics.median(spent)
    table.add_row(f"processor time of a unit of {METHOD}: {units} s", f"{median:.1f} s", f"<= {UNIT_SECONDS:.0f} s")
    table.add_row("wall time", f"{wall:.0f} s", "")
    table.add_row(f"fits and predictions, {workers} side by side", f"{busy / workers:.0f} s", "")
    table.add_row("overhead, of the wall time", f"{1 - busy / workers / wall:.0%}", f"<= {SHARE:.0%} of the demo")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
