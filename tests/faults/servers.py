"""Servers and workers in processes of their own, as on machines of their own, to be stopped and killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from flows.services.health import problem
from tests.faults.command import REPOSITORY, environment, processes_with, wait_for

HOST = "HOPULAR_TEST_HOST"  # which of the machines that a test plays a process is on
POOL = "hopular-pool"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def on_host(host: str, words: list[str], runs: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """A program of this environment on a machine of its own, with a home of its own; yields the file of its output.

    At the end of the block it is killed with all that it has started.
    """
    home = runs.with_name(f"{runs.name}-{host}")
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    log, own = home / "log", {"HOME": str(home), "TMPDIR": str(home / "tmp"), HOST: str(home), "DO_NOT_TRACK": "true"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [Path(sys.executable).with_name(words[0]), *words[1:]],
            cwd=REPOSITORY,
            env=environment(runs, {**own, **variables}),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        kill_host(home)
        process.wait(20)


def kill_host(home: Path) -> None:
    """SIGKILL for all processes of a machine, also those that start while this is being done."""
    while found := processes_on(home):
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


def processes_on(home: Path) -> list[psutil.Process]:
    return processes_with(HOST, str(home))


@contextmanager
def prefect_server(runs: Path, port: int, database: str = "") -> Iterator[str]:
    """A Prefect server, on sqlite unless a database is given; yields its address once it answers."""
    address = f"http://127.0.0.1:{port}/api"
    variables = {"HOPULAR_RUNS": str(runs.with_name("none"))}  # a server has no part in it
    if database:
        variables["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database
    words = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with on_host("prefect", words, runs, variables) as log:
        try:
            wait_for(lambda: problem(f"{address}/health") is None, 180, "an answer of the Prefect server")
        except AssertionError as error:
            error.add_note(log.read_text()[-3000:])
            raise
        yield address


@contextmanager
def prefect_worker(host: str, runs: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """A worker of the pool that takes one flow run at a time; yields its home."""
    words = ["prefect", "worker", "start", "--pool", POOL, "--type", "process", "--limit", "1", "--name", host]
    with on_host(host, words, runs, {"PREFECT_WORKER_QUERY_SECONDS": "2", **variables}) as log:
        yield log.parent


@contextmanager
def dask_cluster(runs: Path, variables: Mapping[str, str]) -> Iterator[tuple[str, list[Path]]]:
    """A scheduler and two workers, none of which is started again when it dies; yields address and homes."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ["dask", "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = ["dask", "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    with (
        on_host("scheduler", scheduler, runs, variables),
        on_host("dask-one", worker, runs, variables) as one,
        on_host("dask-two", worker, runs, variables) as two,
    ):
        wait_for(lambda: all("Registered to" in log.read_text() for log in (one, two)), 90, "the start of both workers")
        yield address, [one.parent, two.parent]


@contextmanager
def postgresql() -> Iterator[str]:
    """The system's PostgreSQL: Prefect needs its extension pg_trgm, which the one of the Python package has not.

    Yields the address of its databases `studies`, `mlflow` and `prefect`, without driver and name.
    """
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("there is no PostgreSQL with pg_trgm, which Prefect needs: apt-get install postgresql")
    folder, port = Path(tempfile.mkdtemp(prefix="hopular-pg-")), free_port()
    user = None
    if os.geteuid() == 0:  # as whom PostgreSQL refuses to run
        user = "postgres"
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    initdb = [programs[-1] / "initdb", "-D", folder / "data", "-A", "trust", "-U", "hopular"]
    subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=folder)
    options = ["-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1", "-F"]
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(
            [programs[-1] / "postgres", "-D", folder / "data", *options], stdout=log, stderr=log, user=user, cwd=folder
        )
    try:
        at = ["-h", "127.0.0.1", "-p", str(port), "-U", "hopular"]
        ready = [programs[-1] / "pg_isready", *at]
        wait_for(lambda: subprocess.run(ready, capture_output=True).returncode == 0, 30, "an answer of PostgreSQL")
        for name in ("studies", "mlflow", "prefect"):
            subprocess.run([programs[-1] / "createdb", *at, name], check=True)
        yield f"hopular@127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGQUIT)  # at once, whoever is connected
        server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)
