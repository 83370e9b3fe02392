"""A real tracking server that goes away and comes back, and a champion that is served."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import mlflow
import pandas as pd
import pytest

from flows.tracking.champion import Candidate, champion, decide, promote
from flows.tracking.models import log_model
from flows.tracking.runs import Lineage, TrialLog, children, finish_unit, reconcile, start_unit
from flows.tracking.store import open_store
from flows.tracking.summary import load_results, save_summary
from hopular.data.dataset import Dataset
from hopular.evaluation.results import SCORE_COLUMNS, Results
from hopular.methods import Run, get_method
from hopular.methods.saved import save_model
from hopular.trials.trial import Trial

pytestmark = pytest.mark.slow
STARTING = 120  # seconds


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def running(command: list[str], health: str, log: Path, **environment: str) -> Iterator[None]:
    """A server in a process group of its own, from the moment it answers until it is stopped."""
    with log.open("a") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", *command],
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", **environment},
            cwd=log.parent,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + STARTING
        while not answers(health):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.3)
        yield
    finally:
        with suppress(ProcessLookupError):  # it ended by itself
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


def answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=2) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


@pytest.mark.soak
def test_nothing_finished_is_lost_while_the_server_is_away(
    runs: Path,
    lineage: Lineage,
    flowers: Dataset,
    make_record: Callable[..., Trial],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    port = free_port()
    address, command = f"http://127.0.0.1:{port}", server_command(runs, port)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    client = open_store()
    with running(command, f"{address}/health", runs / "server.log"):
        unit = start_unit(client, lineage, "key", flowers)
        experiment = client.get_run(unit).info.experiment_id
        log = TrialLog(client, unit, lineage)
        log(make_record(0))
        assert log.waiting == []
    start = time.monotonic()
    log(make_record(1))
    log(make_record(2))
    assert time.monotonic() - start < 20
    assert len(log.waiting) == 2
    with running(command, f"{address}/health", runs / "server.log"):
        log._next = 0.0
        log(make_record(3))  # the next success brings the others
        assert log.waiting == []
        assert reconcile(client, unit, lineage, [make_record(slot) for slot in range(5)]) == 1
        assert start_unit(client, lineage, "key", flowers) == unit
        finish_unit(client, unit, "FINISHED")
        found = children(client, experiment, unit)
    assert [int(run.data.tags["hopular.slot"]) for run in found] == [0, 1, 2, 3, 4]
    assert {run.info.status for run in found} == {"FINISHED"}
    assert capfd.readouterr().out == ""


@pytest.mark.soak
@pytest.mark.parametrize("files", ["local", "server"])
def test_models_and_results_go_through_a_server(
    files: str,
    runs: Path,
    lineage: Lineage,
    flowers: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with running(server_command(runs, port, files), f"{address}/health", runs / "server.log"):
        client = open_store()
        model_id = make_champion(client, lineage, flowers, tmp_path)[1]
        scores = pd.DataFrame([("flowers", "xgboost", "s", 1, "accuracy", 0.9, *[0.0] * 5)], columns=SCORE_COLUMNS)
        save_summary(client, Results("bench-1", "2030-01-01", scores, (), ()), lineage)
        assert load_results(client).id == "bench-1"
        found = champion(client, "flowers")
        assert found is not None
        assert found.source == client.get_logged_model(model_id).artifact_location
        model = mlflow.pyfunc.load_model("models:/hopular-flowers@champion")
        assert set(model.predict(flowers.X)) == {"lily", "rose"}
    if files == "local":  # the same store without its server
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
        assert load_results(open_store()).id == "bench-1"


def server_command(runs: Path, port: int, files: str = "local") -> list[str]:
    """A server of this store; its files lie in the runs folder, or are sent to it."""
    command = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{runs}/mlflow.db"]
    if files == "server":
        return [*command, "--artifacts-destination", str(runs / "sent")]
    return [*command, "--no-serve-artifacts", "--default-artifact-root", (runs / "artifacts").as_uri()]


def make_champion(client: Any, lineage: Lineage, flowers: Dataset, folder: Path) -> tuple[Any, str]:
    unit = start_unit(client, lineage, "key", flowers)
    estimator = get_method("xgboost").make("classification", {"n_estimators": 5}, Run()).fit(flowers.X, flowers.y)
    save_model(estimator, folder / "saved")
    arguments: Any = ("xgboost", "classification", flowers.classes, flowers.X, {})
    model_id = log_model(client, unit, folder / "saved", *arguments)
    decision = decide(client, "flowers", [Candidate(unit, "xgboost", "s", "b" * 64, "a" * 64, 0.9, 1)])
    promote(client, decision, model_id, "60", "trained on all 60 rows")
    return estimator, model_id


def test_a_champion_is_served(client: Any, runs: Path, lineage: Lineage, flowers: Dataset, tmp_path: Path) -> None:
    estimator, _ = make_champion(client, lineage, flowers, tmp_path)
    port = free_port()
    command = ["models", "serve", "-m", "models:/hopular-flowers@champion", "--env-manager", "local"]
    rows = flowers.X.astype({"colour": object}).head(6)  # with a missing number and a missing category
    body = {"dataframe_split": json.loads(rows.to_json(orient="split", index=False))}
    with running(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        f"http://127.0.0.1:{port}/ping",
        runs / "serving.log",
        MLFLOW_TRACKING_URI=client.tracking_uri,
        PYTHONPATH=str(Path(__file__).parents[2]),
        PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),  # as in an active environment
    ):
        labels = ask(port, body)
        chances = ask(port, {**body, "params": {"probabilities": True}})
    assert labels == list(estimator.predict(flowers.X.head(6)))
    assert [[row["lily"], row["rose"]] for row in chances] == pytest.approx(
        estimator.predict_proba(flowers.X.head(6)), abs=1e-6
    )


def ask(port: int, body: dict[str, Any]) -> Any:
    request = Request(
        f"http://127.0.0.1:{port}/invocations", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=30) as response:
        return json.loads(response.read())["predictions"]
