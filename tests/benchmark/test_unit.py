"""Units: what they are known by, and what they are made with."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hopular.benchmark.unit import commit


def test_the_commit_says_whether_the_tree_was_clean(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        known = ("-c", "user.name=A", "-c", "user.email=a@b.c")
        return subprocess.run(["git", *known, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    def found() -> str:
        commit.cache_clear()
        return commit(tmp_path)

    assert found() == ""
    git("init", "-q")
    (tmp_path / "hopular").mkdir()
    (tmp_path / "hopular" / "a.py").write_text("a = 1")
    (tmp_path / "README.md").write_text("Read me.")
    git("add", "README.md")
    git("commit", "-qm", "One")
    assert found() == ""  # the source is not of this repository
    git("add", "-A")
    git("commit", "-qm", "Two")
    head = git("rev-parse", "HEAD").strip()
    (tmp_path / "notes.txt").write_text("mine")
    assert found() == head
    (tmp_path / "hopular" / "new.py").write_text("b = 1")
    assert found() == f"{head} (changed)"
    (tmp_path / "hopular" / "new.py").unlink()
    (tmp_path / "README.md").write_text("Read me again.")
    assert found() == f"{head} (changed)"
    commit.cache_clear()
