"""Commands that only look: datasets, methods, doctor, and the services while there are none."""

from __future__ import annotations

import json
import signal
import socket
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from flows.services.state import Process, State, write_state
from hopular.cli.services import _watch
from tests.cli.conftest import Hopular


def test_suites_are_listed(hopular: Hopular) -> None:
    outcome = hopular("datasets")
    assert outcome.code == 0
    assert "demo\t4\tiris, wine, breast-cancer-wisconsin, diabetes" in outcome.out
    assert set(json.loads(hopular("datasets", "--json").out)) == {"demo", "small", "medium", "paper"}


def test_a_suite_lists_the_sizes_of_its_datasets(hopular: Hopular) -> None:
    assert "eye\tclassification\t10,936\t19\t3\tEye Movements" in hopular("datasets", "medium").out
    first, *_ = json.loads(hopular("datasets", "demo", "--json").out)
    assert first == {
        "name": "iris",
        "task": "classification",
        "rows": 150,
        "continuous": 4,
        "categorical": 0,
        "date": 0,
        "title": "comes with scikit-learn",
    }


def test_a_dataset_is_described_and_audited(hopular: Hopular) -> None:
    outcome = hopular("datasets", "iris")
    assert outcome.code == 0
    assert "features      4 continuous, 0 categorical" in outcome.out
    assert "Rows are sorted by class" in outcome.out
    facts = json.loads(hopular("datasets", "iris", "--json").out)
    assert facts["classes"] == {"setosa": 0.3333, "versicolor": 0.3333, "virginica": 0.3333}
    assert any("sorted by class" in finding["sentence"] for finding in facts["findings"])


def test_a_file_of_ones_own(hopular: Hopular, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))
    lines = [f"{number},{number % 7},{'yes' if number % 3 else 'no'}" for number in range(60)]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,sold", *lines]))
    outcome = hopular("datasets", str(tmp_path / "own.csv"), "--target", "sold")
    assert outcome.code == 0, outcome.err
    assert "target        sold (classification)" in outcome.out


def test_a_suite_has_its_own_targets(hopular: Hopular) -> None:
    outcome = hopular("datasets", "demo", "--target", "y")
    assert outcome.code == 2
    assert "--target is for a file of your own: 'demo' is 4 datasets that have theirs" in outcome.err


def test_a_wrong_name_is_a_mistake_with_the_nearest(hopular: Hopular) -> None:
    outcome = hopular("datasets", "irs")
    assert outcome.code == 2
    assert "there is no dataset or suite 'irs'. Did you mean 'iris'?" in outcome.err


def test_methods_are_listed(hopular: Hopular) -> None:
    outcome = hopular("methods")
    assert outcome.code == 0
    assert "hopular\tHopular\tdeep\tboth\tyes" in outcome.out
    assert "majority\tMost frequent class\tfloor\tclasses\t" in outcome.out
    facts = {method["name"]: method for method in json.loads(hopular("methods", "--json").out)}
    assert facts["lda"]["tasks"] == ["classification"]


def test_a_tracking_server_that_is_away_is_named(hopular: Hopular, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hush@127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    outcome = hopular("report")
    assert outcome.code == 1
    assert "error: the tracking store cannot be used: API request to" in outcome.err
    assert "hush" not in outcome.err


def test_a_doctor_finds_a_sound_installation(hopular: Hopular) -> None:
    outcome = hopular("doctor", "--json")
    answer = json.loads(outcome.out)
    failed = [check for check in answer["checks"] if check["state"] == "fail"]
    assert failed == []
    assert outcome.code == 0
    names = {check["name"] for check in answer["checks"]}
    assert {"python", "packages", "machine", "GPU", "results", "studies", "tracking", "servers", "data"} <= names


def test_a_doctor_says_how_to_mend(hopular: Hopular, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.mkdir()
    (runs / "mlflow.db").write_text("not a database" * 100)
    (runs / "mirror").mkdir()
    monkeypatch.setenv("HOPULAR_DATA", str(runs / "mirror"))
    write_state(State("abc", "127.0.0.1", 1, 2, processes=(Process("prefect", 1, 1.0),)))
    outcome = hopular("doctor")
    assert outcome.code == 1
    assert "fail  tracking" in outcome.out
    assert "mlflow.db cannot be used (file is not a database): move the file away" in outcome.out
    assert "lacks 91 of 91 files" in outcome.out
    assert "fail  Prefect       has stopped" in outcome.out
    assert "must be fixed." in outcome.out


def test_a_doctor_warns_of_a_taken_port(hopular: Hopular, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HOPULAR_PREFECT_PORT", str(server.getsockname()[1]))
        outcome = hopular("doctor")
    assert outcome.code == 0
    assert "warn  servers" in outcome.out
    assert "with 1 warning" in outcome.out


def test_status_and_down_without_services(hopular: Hopular, runs: Path) -> None:
    status = hopular("status")
    assert status.code == 1
    assert status.err == "note: no services are running: start them with `hopular up`\n"
    answer = json.loads(hopular("status", "--json").out)
    assert answer == {"healthy": False, "services": {}, "addresses": {}, "file": str(runs / "services.json")}
    assert hopular("down").out == "No services are running.\n"
    assert hopular("down", "--quiet").out == ""


def test_down_clears_what_a_crash_left_behind(hopular: Hopular, runs: Path) -> None:
    write_state(State("gone", "127.0.0.1", 1, 2, is_ready=True, processes=(Process("prefect", 2**22 - 1, 1.0),)))
    status = hopular("status")
    assert status.code == 1
    assert "fail  Prefect       has stopped" in status.out
    assert "start again: `hopular down`, then `hopular up`" in status.err
    assert hopular("down").code == 0
    assert not (runs / "services.json").exists()


def test_up_in_the_foreground_stops_when_a_service_is_lost(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = psutil.Process()
    alive = Process("supervisor", own.pid, own.create_time())
    state = State("lost", "127.0.0.1", 1, 2, is_ready=True, processes=(alive,))
    write_state(replace(state, given_up=("mlflow",), processes=(alive, Process("mlflow", 2**22 - 1, 1.0))))
    assert _watch(state, quiet=True) == 1
    shown = capsys.readouterr().err
    assert "mlflow ended and was restarted; its log is" in shown
    assert f"mlflow has ended for good, so the others are stopped too; its log is {runs / 'logs'}" in shown
    assert _watch(state, quiet=True) == 0  # as after `hopular down`
    lost = replace(state, processes=())
    write_state(lost)
    assert _watch(lost, quiet=True) == 1
    assert "supervisor has ended for good" in capsys.readouterr().err


def test_up_and_ui_refuse_a_port_in_use(hopular: Hopular) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        up = hopular("up", "--prefect-port", port)
        ui = hopular("ui", "--port", port)
    assert (up.code, ui.code) == (2, 2)
    assert f"port {port} for Prefect is in use by" in up.err
    assert f"port {port} for MLflow is in use by" in ui.err
    assert "with --port or HOPULAR_MLFLOW_PORT" in ui.err
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("command", ["benchmark", "up"])
def test_a_runs_folder_that_is_none_is_named(hopular: Hopular, runs: Path, command: str) -> None:
    runs.write_text("a file where the folder should be")
    outcome = hopular(command)
    assert outcome.code == 2
    assert (
        f"error: results cannot be kept in {runs} (File exists): name another folder with HOPULAR_RUNS" in outcome.err
    )


def test_ui_shows_the_tracking_server_of_the_user(hopular: Hopular, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mlflow.example")
    assert hopular("ui").out == "ok    MLflow UI     https://mlflow.example\n"
