"""What is seen while a benchmark or a fit runs: a picture on a terminal, lines elsewhere, and no noise."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hopular.cli import display
from hopular.trials.events import Event
from hopular.trials.trial import Trial

UNIT = ("iris", "s0", "glm")
EVENTS = (
    Event("planned", trials=3, message="demo-1"),
    Event("trial", *UNIT, trial=1, trials=5, best=-0.9, message="log_loss"),
    Event("done", *UNIT, best=0.95, message="accuracy"),
    Event("reused", "a[/b]", "s0", "mean", best=0.5, message="accuracy"),
)
CHANGED = Event("note", method="knn", message="its code has changed since 12 May")


PLANNED = Event("planned", trials=2)


def ended(loss: float, method: str = "glm") -> Event:
    record = Trial(0, 0, {}, "complete", score=-loss, metrics={"accuracy": 0.9, "log_loss": loss})
    return Event("trial", method=method, result=replace(record, method=method))


def drawn(picture: Any) -> str:
    screen = Console(width=100, force_terminal=True, color_system=None, highlight=False)
    with screen.capture() as captured:
        screen.print(picture.draw())
    return captured.get()


def test_a_benchmark_elsewhere_than_on_a_terminal_is_lines(capfd: pytest.CaptureFixture[str]) -> None:
    with display.show_progress(is_verbose=True) as listener:
        for event in EVENTS:
            listener(event)
    first, trial, done, reused = capfd.readouterr().err.splitlines()
    assert first == "demo-1: 3 units"
    assert trial == "  iris s0 glm: trial 1 of 5, best validation log loss so far 0.9"
    assert done == "[1/3, about 0:00 left] iris s0 glm: accuracy 0.95"
    assert reused == "[2/3, about 0:00 left] a[/b] s0 mean: accuracy 0.5 (finished before)"
    with display.show_progress() as listener:
        for event in EVENTS:
            listener(event)
    assert "trial" not in capfd.readouterr().err
    with display.show_progress(is_quiet=True) as listener:
        listener(EVENTS[0])
    assert capfd.readouterr().err == ""
    with display.show_progress() as listener:
        listener(Event("planned", trials=1, message="demo-2"))
        listener(Event("done", *UNIT, best=-0.0, message="MSE"))
    assert capfd.readouterr().err.splitlines() == ["demo-2: 1 unit", "[1/1] iris s0 glm: MSE 0"]
    with display.show_progress() as listener:
        listener(Event("note", message="eye has 1 split"))
    assert capfd.readouterr().err == "note: eye has 1 split\n"


def test_why_a_method_is_computed_again_is_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    with display.show_progress() as listener:
        listener(CHANGED)
    assert capfd.readouterr().err == "knn: its code has changed since 12 May\n"
    picture = display._BenchmarkPicture()
    picture(EVENTS[0])
    picture(CHANGED)
    assert "knn" not in drawn(picture)  # where it is a line above


def test_the_picture_of_a_benchmark() -> None:
    picture = display._BenchmarkPicture()
    assert "Preparing" in drawn(picture)
    for event in EVENTS:
        picture(event)
    picture(Event("trial", "iris", "s1", "xgboost", trial=2, trials=5, best=-0.25, message="mse"))
    shown = drawn(picture)
    assert "2 of 3 units, 0:00, about 0:00 left" in shown
    assert "iris  xgboost  trial 2 of 5, best validation mse so far 0.25" in shown
    assert "a[/b]" in shown
    picture(Event("failed", "iris", "s1", "xgboost", message="it broke"))
    assert "✗ xgboost on iris: it broke" in drawn(picture)


def test_a_fit_elsewhere_than_on_a_terminal_is_lines_with_the_time_left(capfd: pytest.CaptureFixture[str]) -> None:
    with display.show_fit(90) as listener:
        for event in (PLANNED, ended(0.5), ended(0.7, "pls"), ended(-0.0), Event("write")):
            listener(event)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "0:00  1:30 left  trying 2 methods"
    assert "best so far: Generalised linear model, accuracy 0.9000, log loss 0.5 on rows held out" in lines[1]
    assert lines[2].endswith("log loss 0 on rows held out")
    assert lines[3].endswith("writing model and report")
    assert len(lines) == 4


def test_the_picture_of_a_fit() -> None:
    picture = display._FitPicture(90, None)
    for event in (PLANNED, Event("start", method="pls"), ended(0.5)):
        picture(event)
    shown = drawn(picture)
    assert "1:30 left, trying 2 methods" in shown
    assert "best so far, 1 of 2 methods" in shown
    assert "now  Partial least squares 0 s" in shown


def test_on_a_terminal_noise_goes_to_the_log(runs: Path) -> None:
    code = """
import sys
from hopular.trials.events import Event
from hopular.cli.benchmark import errors_to_log
from hopular.cli.display import show_fit, show_progress
with show_progress() as listener:
    listener(Event("note", method="knn", message="its code has changed since 12 May"))
with show_progress(is_verbose=True) as listener, errors_to_log():
    print("noise", file=sys.stderr)
    listener(Event("trial", "iris", "s0", "glm", trial=1, trials=5))
with show_fit(9), errors_to_log():
    print("noise", file=sys.stderr)
"""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "HOPULAR_RUNS": str(runs), "TERM": "xterm"}
    done = subprocess.run([sys.executable, "-c", code], stderr=theirs, env=environment, cwd=Path(__file__).parents[2])
    os.close(theirs)
    screen = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.returncode == 0, screen
    assert "noise" not in screen
    assert "iris s0 glm: trial 1 of 5" in screen
    assert "knn: its code has changed since 12 May" in screen
    assert (runs / "logs" / "hopular.log").read_text() == "noise\nnoise\n"
