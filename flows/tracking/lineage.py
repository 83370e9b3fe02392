"""Lineage: what a run came from, as tags by which people filter and trace it. No secret is among them."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal

from hopular import __version__
from hopular.evaluation.results import Maker
from hopular.methods.fingerprint import take_fingerprint
from hopular.redaction import without_secrets

Kind = Literal["benchmark", "unit", "trial"]

SOURCE = ("flows", "hopular", "search_spaces")  # folders where a file that git does not know is a change
ONE_COMMIT = re.compile(r"[0-9a-f]{40,64}( \(changed\))?")  # a benchmark may have units of several
SHORT = 12  # characters of a fingerprint


@dataclass(frozen=True)
class Lineage:
    """Where a run came from. Fields that are empty make no tag."""

    benchmark: str  # id of the benchmark that first made the run
    kind: Kind = "unit"
    flow_run: str = ""
    dataset: str = ""
    dataset_fingerprint: str = ""
    source: str = ""
    split: str = ""
    split_fingerprint: str = ""
    method: str = ""
    seed: int | None = None
    budget: str = ""
    architecture: str = ""  # of Hopular
    device: str = ""
    commit: str = ""
    code: str = ""
    versions: str = ""

    def tags(self) -> dict[str, str]:
        """The tags of a run, all beginning with `hopular.` but for those that MLflow's own pages show."""
        return dict(self._tags())

    def _tags(self) -> Iterator[tuple[str, str]]:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value not in ("", None):
                yield f"hopular.{name}", without_secrets(str(value))
        yield "mlflow.source.name", "hopular"
        yield "mlflow.source.type", "JOB"
        if ONE_COMMIT.fullmatch(self.commit):
            yield "mlflow.source.git.commit", self.commit.partition(" ")[0]


def make_maker(method: str, device: str) -> Maker:
    """Note what a unit of a method is made with here and now."""
    found = take_fingerprint(method, device)
    versions = {"python": platform.python_version(), "hopular": __version__, **found.versions}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Maker(commit(), found.code[:SHORT], versions, found.device, now)


def in_line(versions: Mapping[str, str]) -> str:
    """Write versions as a tag has them: 'python 3.11.7, numpy 2.4.6'."""
    return ", ".join(f"{name} {found}" for name, found in versions.items())


def read_versions(line: str) -> dict[str, str]:
    """Read what `in_line` wrote."""
    return {name: found for name, _, found in (item.rpartition(" ") for item in line.split(", "))}


@cache
def commit(folder: Path = Path(__file__).parents[2]) -> str:
    """Name the commit of this source tree, '(changed)' if files differ from it; empty where it is in no repository."""
    if not _git(folder, "ls-files", *SOURCE):  # installed below a repository of somebody else's
        return ""
    found = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "-uno") or _git(folder, "status", "--porcelain", "--", *SOURCE)
    return f"{found} (changed)" if found and changed else found


def _git(folder: Path, *command: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
