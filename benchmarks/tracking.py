"""Measure what it costs to log a trial to MLflow: `python -m benchmarks.tracking`.

A trial here has twenty parameters and a learning curve of a hundred points. One process writes, then four at once, each
to a unit of its own in one sqlite store, as the workers of a benchmark do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from multiprocessing import get_context

from rich.console import Console
from rich.table import Table

AIMS = {1: 60, 4: 150}  # milliseconds a trial, by number of writers


def log_trials(place: int, trials: int) -> list[float]:
    """Seconds that each trial took to log, to a unit of this place."""
    from flows.tracking.runs import Lineage, TrialLog, start_unit
    from flows.tracking.store import open_store
    from hopular.trials.trial import Trial

    client = open_store()
    lineage = Lineage("bench", dataset="example", dataset_fingerprint="0" * 64, method=f"method{place}", split="fold-0")
    log = TrialLog(client, start_unit(client, lineage, f"unit {place} of {trials}", None), lineage)
    params, curve = {f"p{i}": i / 7 for i in range(20)}, [(i, i / 100) for i in range(100)]
    seconds = []
    for slot in range(trials + 1):
        record = Trial(slot, slot, params, "complete", 0.9, {"accuracy": 0.9, "log_loss": 0.3}, curve, 1.0, 0.1)
        start = time.perf_counter()
        log(record)
        seconds.append(time.perf_counter() - start)
    assert not log.waiting, log.problem
    return seconds[1:]  # the first one fills caches


def measure(writers: int, trials: int) -> list[float]:
    """Seconds a trial, of all writers together."""
    from flows.tracking.store import open_store

    open_store()
    if writers == 1:
        return log_trials(0, trials)
    with get_context("spawn").Pool(writers) as pool:
        parts = pool.starmap(log_trials, [(place + 1, trials) for place in range(writers)], chunksize=1)
    return [seconds for part in parts for seconds in part]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60, help="that each writer logs")
    trials = parser.parse_args().trials
    table = Table("writers", "median", "90 %", "slowest", "aim", title="milliseconds to log a trial")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOPULAR_RUNS"] = folder
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        for writers, aim in AIMS.items():
            times = sorted(1000 * seconds for seconds in measure(writers, trials))
            median, late = statistics.median(times), times[int(0.9 * len(times))]
            table.add_row(str(writers), f"{median:.0f}", f"{late:.0f}", f"{times[-1]:.0f}", f"≤ {aim}")
    Console().print(table)


if __name__ == "__main__":
    main()
