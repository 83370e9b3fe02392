"""Real processes: found with certainty, and ended whatever they do. Ports: who has them, and how to use others."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from flows.services.processes import check_port, end, find, marked, roots
from flows.services.state import log_file
from tests.flows.services.conftest import PARENT, SLEEP, free_port, started, wait_for

STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"


def test_a_process_is_found_while_it_runs(tmp_path: Path) -> None:
    with started(tmp_path, "print('hello')", "m1") as process:
        wait_for(lambda: find(process) is None)  # it is a zombie by now, for its parent is this test
    assert log_file("worker").read_text() == "hello\n"
    with started(tmp_path, SLEEP, "m1") as process:
        found = find(process)
        assert found is not None
        assert found.pid == process.pid
        assert find(replace(process, started=process.started - 60)) is None
    wait_for(lambda: find(process) is None)
    assert find(None) is None


def test_the_mark_finds_children_in_other_sessions(tmp_path: Path) -> None:
    with started(tmp_path, PARENT, "m2") as process:
        wait_for(lambda: len(marked("m2")) == 2)
        assert [root.pid for root in roots(marked("m2"))] == [process.pid]
        assert marked("m2:worker") == marked("m2")
        assert marked("m2:mlflow") == marked("m") == []
    assert marked("m2") == []


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, STUBBORN, "m3") as process:
        wait_for(lambda: log_file("worker").read_text())
        found = find(process)
        assert found is not None
        start = time.monotonic()
        end([found], seconds=0.3)
        assert 0.3 <= time.monotonic() - start < 5
        assert find(process) is None


def test_ports_and_hosts_that_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"port 0 for Prefect does not exist: use a number from 1 to 65535"):
        check_port("prefect", "127.0.0.1", 0)
    with pytest.raises(ValueError, match=r"host 'no\.such\.host\.invalid' is unknown"):
        check_port("prefect", "no.such.host.invalid", 4200)
    with pytest.raises(ValueError, match=r"MLflow cannot listen on 192\.0\.2\.1 port \d+ .* with --port"):
        check_port("ui", "192.0.2.1", free_port())
