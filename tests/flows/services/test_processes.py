"""Real processes: found with certainty, and ended whatever they do."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from flows.services.processes import MARK, end, family, find, launch, marked, roots
from flows.services.state import Process, State, read_state, state_file, write_state
from flows.services.stop import is_running, stop

SLEEP = "import time; time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"
# A child in a session of its own, as flow runs are.
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True); {SLEEP}"


@contextmanager
def started(tmp_path: Path, code: str, mark: str, name: str = "worker") -> Iterator[Process]:
    environment = {**os.environ, MARK: mark}
    process = launch(name, [sys.executable, "-c", code], environment, tmp_path, tmp_path / "logs" / "out.log")
    try:
        yield process
    finally:
        # A process that has only just started may not show its environment yet, hence the one we know by number too.
        left = {*marked(mark), *family(find(process))}
        for member in left:
            member.kill()
        psutil.wait_procs(left, timeout=5)


def wait_for(condition: object) -> None:
    deadline = time.monotonic() + 10
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen within 10 s"
        time.sleep(0.02)


def test_a_process_is_found_while_it_runs(tmp_path: Path) -> None:
    with started(tmp_path, "print('hello')", "m1") as process:
        wait_for(lambda: find(process) is None)  # it is a zombie by now, for its parent is this test
    assert (tmp_path / "logs" / "out.log").read_text() == "hello\n"
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
        assert {member.pid for member in family(find(process))} == {found.pid for found in marked("m2")}
    assert marked("m2") == []


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, STUBBORN, "m3") as process:
        wait_for(lambda: (tmp_path / "logs" / "out.log").read_text())
        found = find(process)
        assert found is not None
        start = time.monotonic()
        end([found], patience=0.3)
        assert 0.3 <= time.monotonic() - start < 5
        assert find(process) is None


def test_stop_ends_what_a_crashed_worker_left_behind(tmp_path: Path) -> None:
    with started(tmp_path, PARENT, "m4") as process:
        state = State("m4", "127.0.0.1", 1, 2, processes=(process,))
        write_state(state)
        wait_for(lambda: len(marked("m4")) == 2)
        psutil.Process(process.pid).kill()
        wait_for(lambda: not is_running(state))
        assert len(marked("m4")) == 1
        stop(state)
        assert marked("m4") == []
        assert not state_file().exists()
        stop(state)


def test_stop_spares_a_stranger_who_has_the_number_now(tmp_path: Path) -> None:
    with started(tmp_path, SLEEP, "stranger") as process:
        state = State("m5", "127.0.0.1", 1, 2, processes=(replace(process, started=process.started - 3600),))
        write_state(state)
        stop(state)
        assert find(process) is not None
        assert read_state() is None


def test_stop_leaves_the_record_of_a_later_start_alone() -> None:
    later = State("later", "127.0.0.1", 1, 2)
    write_state(later)
    stop(State("earlier", "127.0.0.1", 1, 2))
    assert read_state() == later


@pytest.mark.parametrize("order", [("worker", "prefect"), ("prefect", "worker")])
def test_the_worker_ends_before_the_server(tmp_path: Path, order: tuple[str, str]) -> None:
    code = (
        "import signal, sys, time, pathlib\n"
        "def end(*_):\n"
        f"    with open({str(tmp_path / 'ends')!r}, 'a') as file: file.write(sys.argv[1] + ' ')\n"
        "    time.sleep(0.3); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); pathlib.Path(sys.argv[1]).touch(); time.sleep(60)"
    )
    processes = tuple(
        launch(name, [sys.executable, "-c", code, name], {**os.environ, MARK: "m6"}, tmp_path, tmp_path / "out.log")
        for name in order
    )
    wait_for(lambda: all((tmp_path / name).exists() for name in order))
    stop(State("m6", "127.0.0.1", 1, 2, processes=processes))
    assert (tmp_path / "ends").read_text() == "worker prefect "
    assert marked("m6") == []
