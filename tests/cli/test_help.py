"""Help: quick, short, and with an example."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from hopular.cli import COMMANDS
from tests.cli.conftest import Hopular

SLOW = ("mlflow", "numpy", "optuna", "pandas", "prefect", "pydantic", "scipy", "sklearn", "torch")

PROMISED = 0.5  # seconds of the processor


def test_the_overview_names_every_command_and_the_exit_codes(hopular: Hopular) -> None:
    outcome = hopular("--help")
    assert outcome.code == 0
    for command, _ in COMMANDS:
        assert f"│ {command.__name__}" in outcome.out
    assert "Exit codes: 0 done, 1 failed, 2 wrong command or data, 130 interrupted" in outcome.out
    assert "--install-completion" in outcome.out
    assert len(outcome.out.splitlines()) <= 40


@pytest.mark.parametrize("command", [command.__name__ for command, _ in COMMANDS])
def test_every_command_has_an_example_and_fits_a_screen(hopular: Hopular, command: str) -> None:
    outcome = hopular(command, "--help")
    assert outcome.code == 0
    assert f"For example\n  hopular {command}" in outcome.out
    assert len(outcome.out.splitlines()) <= 40
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_help_loads_nothing_slow(tmp_path: Path) -> None:
    code = (
        "import sys; from hopular.cli import app; from hopular.cli.frame import run\n"
        f"run(app, ['--help']); sys.exit(' '.join(name for name in {SLOW!r} if name in sys.modules) or 0)"
    )
    seconds = []
    while min(seconds, default=1.0) > PROMISED and len(seconds) < 5:  # a busy machine takes its time
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) <= PROMISED


def test_help_and_version_write_no_log(hopular: Hopular, runs: Path) -> None:
    from hopular import __version__

    assert hopular("--version").out.strip() == __version__
    assert not runs.exists()


def test_completion_can_be_generated() -> None:
    from hopular.cli import app

    script = app.generate_completion(shell="bash")
    assert "hopular" in script
    assert "prefect-port" in script
