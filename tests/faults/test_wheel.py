"""The wheel, installed into an empty environment, runs a benchmark far from the source tree."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.faults.command import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.soak]
PARTS = ("flows", "hopular", "search_spaces", "pyproject.toml", "README.md", "LICENSE")


def test_a_wheel_in_an_empty_environment_runs_the_demo(tmp_path, said):
    source, python = tmp_path / "source", tmp_path / "venv" / "bin" / "python"
    source.mkdir()
    for part in PARTS:  # a copy, since the build leaves folders behind
        subprocess.run(["cp", "-r", str(REPOSITORY / part), str(source)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    pip = [str(python), "-m", "pip"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path / "dist"), str(source)], check=True)
    (wheel,) = (tmp_path / "dist").glob("hopular-*.whl")
    constraints = str(REPOSITORY / "constraints.txt")
    subprocess.run([*pip, "install", "--no-compile", "-c", constraints, str(wheel)], check=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HOPULAR", "PREFECT", "MLFLOW"))}
    own.pop("PYTHONPATH", None)
    words = [str(python.with_name("hopular")), "benchmark", "demo", "--budget", "smoke"]
    home = tmp_path / "elsewhere"
    home.mkdir()
    done = subprocess.run(
        words, cwd=home, env={**own, "HOPULAR_CACHE": str(home / "cache")}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (report,) = (home / "mlruns" / "reports").glob("*/report.html")
    assert "LightGBM" in report.read_text()
    said(f"{wheel.name} in an empty environment: the demo suite ran, and has its report")
