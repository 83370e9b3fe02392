"""What every part of the project relies on: suggestions, retries, whole files, cores."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hopular.util import cores, did_you_mean, retry, whole_file


def test_a_name_that_is_almost_right_is_suggested() -> None:
    assert did_you_mean("irs", ["iris", "wine"]) == " Did you mean 'iris'?"
    assert did_you_mean("xyz", ["iris", "wine"]) == ""


def test_an_action_is_repeated_with_growing_pauses_until_it_succeeds() -> None:
    pauses: list[float] = []

    def action() -> str:
        if len(pauses) < 4:
            raise ConnectionError("away")
        return "done"

    is_away = lambda error: isinstance(error, ConnectionError)  # noqa: E731
    assert retry(action, should_retry=is_away, seconds=60, pauses=(1, 4), sleep=pauses.append) == "done"
    assert all(low <= pause <= low + 1 for low, pause in zip((1, 2, 4, 4), pauses, strict=True))


def test_an_error_not_worth_another_try_is_raised_at_once_and_the_last_one_when_time_is_up() -> None:
    calls: list[int] = []

    def action() -> None:
        calls.append(1)
        raise ValueError(f"try {len(calls)}")

    with pytest.raises(ValueError, match="try 1"):
        retry(action, should_retry=lambda _: False, seconds=60, pauses=(1, 1))
    with pytest.raises(ValueError, match=r"try [2-9]"):
        retry(action, should_retry=lambda _: True, seconds=0.2, pauses=(0.05, 0.05))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file.txt"
    with whole_file(file) as part:
        part.write_text("one")

    def fail() -> None:
        with whole_file(file) as part:
            part.write_text("tw")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fail()
    assert file.read_text() == "one"
    assert list(file.parent.iterdir()) == [file]


def test_two_threads_that_write_a_file_at_once_leave_it_whole(tmp_path: Path) -> None:
    file, both_write = tmp_path / "file.txt", threading.Barrier(2, timeout=20)

    def write(text: str) -> None:
        with whole_file(file) as part:
            part.write_text(text)
            both_write.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ("one" * 1000, "two" * 1000)))
    assert file.read_text() in ("one" * 1000, "two" * 1000)
    assert list(tmp_path.iterdir()) == [file]


def test_cores_are_those_of_the_process_or_fewer_if_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cores() >= 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert cores() == 1
