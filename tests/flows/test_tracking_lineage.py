"""Lineage: the tags of a run, and that no secret gets into them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from flows.tracking.lineage import Lineage, commit, in_line, make_maker, read_versions


def test_every_field_is_a_tag_and_empty_ones_are_not(lineage: Lineage) -> None:
    tags = lineage.tags()
    assert tags["hopular.benchmark"] == "bench-1"
    assert tags["hopular.dataset_fingerprint"] == "a" * 64
    assert tags["hopular.seed"] == "3"
    assert tags["hopular.kind"] == "unit"
    assert tags["hopular.versions"] == "python 3.11.7, hopular 0.1.0, xgboost 3.2.0"
    assert tags["mlflow.source.git.commit"] == tags["hopular.commit"] == "c" * 40
    assert "hopular.device" not in replace(lineage, device="").tags()
    assert replace(lineage, seed=0).tags()["hopular.seed"] == "0"


def test_tags_have_no_secrets(lineage: Lineage) -> None:
    tags = replace(lineage, source="https://ann:hush@host/flowers.csv?token=hush").tags()
    assert not [name for name, value in tags.items() if "hush" in value]
    assert tags["hopular.source"] == "https://host/flowers.csv?token=***"


def test_a_unit_carries_commit_code_versions_and_device() -> None:
    maker = make_maker("xgboost", "cuda:1")
    assert maker.device == "cuda"
    assert maker.versions["xgboost"] == version("xgboost")
    assert list(maker.versions)[:2] == ["python", "hopular"]
    assert "torch" not in maker.versions
    assert read_versions(in_line(maker.versions)) == maker.versions
    assert maker.code == make_maker("xgboost", "cpu").code != make_maker("knn", "cpu").code


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


def test_units_of_several_commits_have_no_commit_of_mlflow(lineage: Lineage) -> None:
    tags = replace(lineage, commit=f"{'a' * 40} (2 units) and {'b' * 40} (1 unit)").tags()
    assert "mlflow.source.git.commit" not in tags
    assert replace(lineage, commit=f"{'a' * 40} (changed)").tags()["mlflow.source.git.commit"] == "a" * 40
