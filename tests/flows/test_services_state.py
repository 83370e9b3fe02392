"""The record of the services: a start that has begun is not taken for what a crash left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flows.services.start import Places, is_left_behind, new_state
from flows.services.state import Process, claim_state, read_state


def test_of_two_commands_at_once_the_second_leaves_the_first_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path))
    first = new_state(Places(), None)
    assert claim_state(first)
    assert read_state() == first
    assert not claim_state(new_state(Places(), None))
    assert not is_left_behind(first)
    assert is_left_behind(replace(first, starter=Process("up", 2**22 + 1, 0.0)))
    assert is_left_behind(replace(first, is_ready=True))  # its services have ended since
