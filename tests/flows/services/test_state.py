from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flows.services.state import (
    Process,
    State,
    claim_state,
    forget_state,
    read_state,
    service_environment,
    state_file,
    write_state,
)

STATE = State("abc", "127.0.0.1", 4200, 5000, processes=(Process("prefect", 12, 1.5),))


def test_it_is_read_as_it_was_written() -> None:
    assert read_state() is None
    write_state(STATE)
    assert read_state() == STATE
    write_state(replace(STATE, given_up=("mlflow",)))
    assert read_state() == replace(STATE, given_up=("mlflow",))
    forget_state()
    forget_state()
    assert read_state() is None


def test_only_one_of_two_can_claim_it() -> None:
    assert claim_state(STATE)
    assert not claim_state(State("other", "127.0.0.1", 1, 2))
    assert read_state() == STATE


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"processes": [{"pid": 1}]}'])
def test_a_damaged_file_is_named(runs: Path, text: str) -> None:
    runs.mkdir()
    state_file().write_text(text)
    with pytest.raises(ValueError, match=r"services\.json cannot be read .* delete it"):
        read_state()


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:4200"),
        ("0.0.0.0", "http://127.0.0.1:4200"),
        ("::1", "http://[::1]:4200"),
        ("box.lan", "http://box.lan:4200"),
    ],
)
def test_addresses_can_be_reached_from_this_machine(host: str, address: str) -> None:
    state = State("abc", host, 4200, 5000)
    assert state.prefect_url == address
    assert state.api_url == f"{address}/api"


def test_a_tracking_server_of_the_users_is_the_one_that_is_used() -> None:
    assert State("abc", "127.0.0.1", 1, 2, tracking="https://mlflow.lan").mlflow_url == "https://mlflow.lan"


def test_processes_are_found_by_name_and_replaced_when_restarted() -> None:
    assert STATE.process("prefect") == Process("prefect", 12, 1.5)
    assert STATE.process("worker") is None
    restarted = STATE.with_process(Process("worker", 13, 2.5)).with_process(Process("prefect", 14, 3.5))
    assert restarted.processes == (Process("worker", 13, 2.5), Process("prefect", 14, 3.5))


def test_the_environment_is_local_and_quiet(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "intern.lan")
    environment = service_environment(STATE, "worker")
    assert environment["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
    assert environment["PREFECT_HOME"] == str(runs / "prefect")
    assert environment["HOPULAR_RUNS"] == str(runs)
    assert environment["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:5000"
    assert environment["NO_PROXY"] == "intern.lan,127.0.0.1,localhost,::1"
    assert environment["DO_NOT_TRACK"] == environment["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
