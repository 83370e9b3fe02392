"""The README's code blocks run as they stand: Python in one session, shell as a dry run of make."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [code for language, code in BLOCKS if language == "python"]
    assert len(blocks) >= 4
    session: dict[str, Any] = {}
    for code in blocks:
        exec(compile(code, "README.md", "exec"), session)
    assert session["rows"].shape == (3, 4)
    assert "yes" in capsys.readouterr().out
    assert (tmp_path / "model.safetensors").is_file()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_shell_blocks_name_real_targets() -> None:
    lines = [line for language, code in BLOCKS if language == "sh" for line in code.strip().splitlines()]
    assert lines == ["make benchmark", "make test"]
    for line in lines:
        result = subprocess.run([*line.split(), "-n"], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert "python" in result.stdout
