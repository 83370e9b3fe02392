"""Lineage: what a run came from, as tags by which people filter and trace it. No secret is among them."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from hopular.redaction import without_secrets

Kind = Literal["benchmark", "unit", "trial"]

PACKAGES = (
    *("hopular", "torch", "scikit-learn", "xgboost", "lightgbm", "catboost"),
    *("numpy", "pandas", "optuna", "mlflow", "prefect"),
)


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

    def tags(self) -> dict[str, str]:
        """The tags of a run, all beginning with `hopular.` but for those that MLflow's own pages show."""
        return dict(self._tags())

    def _tags(self) -> Iterator[tuple[str, str]]:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value not in ("", None):
                yield f"hopular.{name}", without_secrets(str(value))
        yield "hopular.versions", versions()
        yield "mlflow.source.name", "hopular"
        yield "mlflow.source.type", "JOB"
        if commit():
            yield "hopular.commit", commit()
            yield "mlflow.source.git.commit", commit().partition(" ")[0]


@cache
def versions() -> str:
    """Python and the packages that results depend on, in one line."""
    return ", ".join([f"python {platform.python_version()}", *(f"{name} {found}" for name, found in _installed())])


def _installed() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


@cache
def commit() -> str:
    """The commit of this source tree, '(changed)' if files differ from it; empty where there is no repository."""
    folder = Path(__file__).parent
    found = _git(folder, "rev-parse", "HEAD")
    return f"{found} (changed)" if found and _git(folder, "status", "--porcelain", "-uno") else found


def _git(folder: Path, *command: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
