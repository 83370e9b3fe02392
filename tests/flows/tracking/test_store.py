"""The store: where it is, that it opens quietly and once, and which errors mean that it is away."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE

from flows.tracking.store import artifact_location, is_unavailable, open_store, retry_store, tracking_uri
from hopular.trials.refit import StoppedError

OPEN = """
from flows.tracking.runs import Lineage
from flows.tracking.store import open_store
from flows.tracking.runs import start_unit
run = start_unit(open_store(), Lineage("b", dataset="d", method="m", split="s"), "one", None)
with open("RUN-" + __import__("os").environ["NUMBER"], "w") as file:
    file.write(run)
"""


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_it_is_in_the_runs_folder_whatever_the_working_directory(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tracking_uri() == f"sqlite:///{runs}/mlflow.db"
    assert artifact_location("hopular-x") == f"file://{runs}/artifacts/hopular-x"
    client = open_store()
    assert client.tracking_uri == tracking_uri()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_commits_to_it_do_not_wait_for_the_disk(client: Any, runs: Path, tmp_path: Path) -> None:
    def setting(file: Path) -> Any:
        with sqlalchemy.create_engine(f"sqlite:///{file}").connect() as connection:
            return connection.exec_driver_sql("PRAGMA synchronous").scalar()

    assert setting(runs / "mlflow.db") == 1  # NORMAL
    assert setting(tmp_path / "another.db") == 2  # FULL: it is not ours


def test_a_server_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert tracking_uri() == "http://127.0.0.1:9"
    assert artifact_location("x") is None  # the server knows


def test_a_database_server_still_keeps_files_in_the_runs_folder(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql+psycopg://me:word@host/db")
    assert artifact_location("x") == f"file://{runs}/artifacts/x"


def test_no_server_is_unavailable_and_found_out_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{closed_port()}")
    client, start = open_store(), time.monotonic()
    with pytest.raises(MlflowException) as caught:
        client.search_experiments()
    assert is_unavailable(caught.value)
    assert time.monotonic() - start < 10


def test_a_refused_request_is_not_away(client: Any) -> None:
    with pytest.raises(MlflowException) as caught:
        client.get_run("0" * 32)
    assert not is_unavailable(caught.value)
    assert not is_unavailable(ValueError("API request to x failed with exception"))


def test_a_locked_database_is_unavailable() -> None:
    assert is_unavailable(MlflowException("database is locked", TEMPORARILY_UNAVAILABLE))
    assert is_unavailable(MlflowException("API request to endpoint /api/x failed with error code 502 != 200. Body: ''"))
    assert not is_unavailable(
        MlflowException("API request to endpoint /api/x failed with error code 404 != 200. Body: ''")
    )
    assert is_unavailable(ConnectionRefusedError())


def test_patience_waits_while_it_is_unavailable_and_no_longer() -> None:
    tries: list[int] = []

    def answer() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError
        return "back"

    stop = threading.Event()
    assert retry_store(answer, stop, 20) == "back"
    assert len(tries) == 3
    with pytest.raises(KeyError):
        retry_store(lambda: {}["wrong"], stop)
    with pytest.raises(ConnectionError):
        retry_store(lambda: (_ for _ in ()).throw(ConnectionError()), stop, 0.1)


def test_it_is_not_waited_for_when_all_is_stopped() -> None:
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise ConnectionError

    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError, match="stopped while the tracking store was unavailable"):
        retry_store(fail, stop)
    assert len(tries) == 1


@pytest.mark.slow
def test_processes_that_race_for_a_new_store_make_one_and_print_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    environment |= {"HOPULAR_RUNS": str(tmp_path / "new"), "PYTHONPATH": str(Path(__file__).parents[3])}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN],
            cwd=tmp_path,
            env={**environment, "NUMBER": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    outputs = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert outputs == ["", ""]
    assert len({path.read_text() for path in tmp_path.glob("RUN-*")}) == 1
    client = MlflowClient(f"sqlite:///{tmp_path}/new/mlflow.db")
    experiment = client.get_experiment_by_name("hopular/d")
    assert experiment is not None
    assert len(client.search_runs([experiment.experiment_id])) == 1
