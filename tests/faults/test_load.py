"""Many writers, many files and many runs: all of it arrives, once, and the looks at it stay quick."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.command import HOPULAR
from tests.trials.conftest import postgres  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow
WRITER = """
import sys
from flows.tracking.runs import Lineage
from flows.tracking.store import open_store
from flows.tracking.runs import log_trial
from hopular.trials.trial import Trial
from hopular.trials.study import Study, open_storage

parent, slots = sys.argv[1], int(sys.argv[2])
client, study = open_store(), Study(open_storage(), "load")
experiment, lineage = client.get_run(parent).info.experiment_id, Lineage("bench", dataset="load", method="none")
while (slot := study.lease(range(slots))) is not None:
    record = Trial(slot, slot, {"p": slot}, "complete", 0.5, {"accuracy": 0.5})
    study.start(slot, {}, {})
    if study.add(record):
        log_trial(client, parent, lineage, record, experiment)
"""


def write(writers, trials):
    """Let processes share so many trials each; return the slots in study and store, and trials a second."""
    from flows.tracking.runs import Lineage, children, start_unit
    from flows.tracking.store import open_store
    from hopular.trials.study import Study, open_storage

    client, slots = open_store(), writers * trials
    study = Study(open_storage(), "load")
    unit = start_unit(client, Lineage("bench", dataset="load", method="none"), "load", None)
    start = time.monotonic()
    command = [sys.executable, "-W", "ignore", "-c", WRITER, unit, str(slots)]
    processes = [subprocess.Popen(command, cwd=Path(__file__).parents[2]) for _ in range(writers)]
    assert [process.wait(1800) for process in processes] == [0] * writers
    rate = slots / (time.monotonic() - start)
    logged = Counter(int(run.data.tags["hopular.slot"]) for run in children(client, _experiment(client, unit), unit))
    studied = Counter(trial.user_attrs["record"]["slot"] for trial in study._study.get_trials(deepcopy=False))
    study.close()
    return studied, logged, rate


def _experiment(client, unit):
    return client.get_run(unit).info.experiment_id


@pytest.mark.soak
def test_writers_share_a_study_and_a_store(runs, said):
    studied, logged, rate = write(3, 15)
    assert studied == logged == Counter(range(45))
    said(f"3 writers x 15 trials into sqlite: all there, none double, {rate:.1f} trials a second, starts included")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_eight_writers(kind, runs, request, monkeypatch, said):
    if kind == "postgresql":
        server = request.getfixturevalue("postgres")
        for name, variable in (("studies", "HOPULAR_STORAGE"), ("tracking", "MLFLOW_TRACKING_URI")):
            server.psql(f"CREATE DATABASE {name}")
            url = server.get_uri().replace("postgresql://", "postgresql+psycopg://").replace("/postgres?", f"/{name}?")
            monkeypatch.setenv(variable, url)
    studied, logged, rate = write(8, 200)
    assert studied == logged == Counter(range(1600))
    said(
        f"8 writers x 200 trials into {kind}: all 1,600 there, none double, {rate:.1f} trials a second, starts included"
    )


def test_an_idle_look_at_many_datasets_is_quick(tmp_path, said):
    from flows.new_datasets import Entry, Ledger, _stamp, scan

    folder, count = tmp_path / "datasets", 2000
    folder.mkdir()
    entries = {}
    for number in range(count):
        path = folder / f"table-{number}.csv"
        path.write_text("a,y\n1,2\n")
        entries[str(path)] = Entry(_stamp(str(path), None), f"{number:064}")
    start = time.monotonic()
    seen = scan(folder, [], Ledger(entries))
    took = time.monotonic() - start
    assert len(seen.usable) == count
    assert seen.refused == {}
    assert took <= 5
    said(f"an idle look at {count:,} datasets took {took:.2f} s")


@pytest.mark.soak
def test_a_report_beside_ten_thousand_trials(benchmark, runs, said):
    """The rows of trials are copied within the database, since writing them one by one is not what is measured."""
    benchmark(datasets=["iris"], methods=["glm", "majority"])
    copies, count = _copy_trials(runs / "mlflow.db", 10_000)
    assert copies == count
    start = time.monotonic()
    done = subprocess.run([str(HOPULAR), "report"], env={**os.environ}, capture_output=True, text=True, timeout=300)
    took = time.monotonic() - start
    assert done.returncode == 0, done.stderr
    assert took <= 60
    said(f"`hopular report` beside {count:,} trial runs took {took:.1f} s")


def _copy_trials(file, count):
    """Copy the rows of one trial until there are `count` more; returns how many there are more, and `count`."""
    import sqlite3

    with sqlite3.connect(file) as connection:
        (trial,) = connection.execute(
            "SELECT run_uuid FROM tags WHERE key = 'hopular.kind' AND value = 'trial' LIMIT 1"
        ).fetchone()
        before = connection.execute("SELECT count(*) FROM runs").fetchone()[0]
        for table in ("runs", "tags", "params", "latest_metrics", "metrics"):
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            cells = ", ".join("printf('%032x', number)" if name == "run_uuid" else name for name in names)
            connection.execute(
                f"WITH RECURSIVE n(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n WHERE number < {count}) "
                f"INSERT INTO {table} ({', '.join(names)}) SELECT {cells} FROM {table}, n WHERE run_uuid = ?",
                (trial,),
            )
        after = connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    connection.close()
    return after - before, count
