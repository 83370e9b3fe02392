"""Plan: what a benchmark is to run, the one parameter of the flow; wrong names are refused before anything starts."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hopular.data import expand
from hopular.data.dataset import Task
from hopular.methods import get_method, methods_named
from hopular.methods.fingerprint import scoring_code, take_fingerprint
from hopular.redaction import without_secrets
from hopular.trials.budget import Budget, preset
from hopular.util import cores

DEFAULT_METHODS = ("hopular", "catboost", "xgboost", "lightgbm", "glm", "majority", "mean")
Count = Annotated[int, Field(ge=1)]


class Plan(BaseModel):
    """The datasets, methods and budget of a benchmark; how its work is divided; on which device it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    datasets: list[str] = Field(
        ["demo"], min_length=1, description="Suites, names of datasets, openml:ID, files, folders or addresses"
    )
    target: str | None = Field(None, description="Column to predict, for your own files without a sidecar")
    methods: list[str] = Field(
        list(DEFAULT_METHODS), min_length=1, description="Methods, groups of them (boosting, deep, ...), or all"
    )
    budget: str = Field("quick", description="smoke, quick or paper")
    limits: dict[str, int | float | None] = Field(
        {}, description="Limits of the budget to change: trials, seconds, ..."
    )
    architecture: str | None = Field(
        None, description="Of Hopular: default, paper or released; without it, paper at the budget paper"
    )
    splits: Count | Literal["all"] = Field(1, description="How many splits of each dataset's protocol, or all")
    replicates: Count | None = Field(None, description="Seeds to train the best setting with, by default the budget's")
    seed: int = Field(0, ge=0, lt=2**31)
    runner: Literal["local", "dask", "ray"] = Field("local", description="Where the tasks run")
    address: str | None = Field(None, description="Of a Dask scheduler or Ray head that runs already")
    workers: Count | None = Field(None, description="Tasks side by side, by default one per core")
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"

    @field_validator("datasets")
    @classmethod
    def _known_datasets(cls, references: list[str]) -> list[str]:
        found = [_absolute(reference) for reference in references]
        expand(found)
        return found

    @field_validator("methods")
    @classmethod
    def _known_methods(cls, names: list[str]) -> list[str]:
        select_methods(names)
        return names

    @model_validator(mode="after")
    def _valid_budget(self) -> Plan:
        _ = self.limited_budget
        return self

    @property
    def limited_budget(self) -> Budget:
        """Return the named budget with the plan's own limits."""
        given = {"replicates": self.replicates, "architecture": self.architecture}
        return preset(self.budget, **self.limits | {name: value for name, value in given.items() if value is not None})

    @property
    def width(self) -> int:
        """Return how many tasks run side by side on this machine: as many as cores, unless the plan says otherwise."""
        return self.workers or cores()

    @property
    def threads(self) -> int:
        """Return the threads of each fit, so that all cores are used once."""
        return max(1, cores() // self.width)

    def device_found(self) -> str:
        """Return the device for methods that can use a GPU; torch is asked only where there may be one."""
        if self.device != "auto":
            return self.device
        if sys.platform != "darwin" and not os.path.exists("/dev/nvidia0"):
            return "cpu"
        import torch

        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"

    def references(self) -> list[str]:
        """Return every dataset, each once."""
        return expand(self.datasets)

    def target_of(self, reference: str) -> str | None:
        """Return the target of a dataset: the plan's for files, here or on the web; others know theirs."""
        is_file = Path(reference).exists() or reference.startswith(("http://", "https://"))
        return self.target if is_file else None

    def methods_for(self, task: Task) -> list[str]:
        """Return the methods that can be used for a task; the ensemble, which needs the others, comes last."""
        names = [name for name in select_methods(self.methods) if task in get_method(name).tasks]
        return sorted(names, key=lambda name: get_method(name).is_ensemble)

    def wanted(self) -> str:
        """Hash all that results depend on beside the data: the code and libraries of the methods as well."""
        device = self.device_found()
        makers = [take_fingerprint(name, device).digest for name in sorted(select_methods(self.methods))]
        parts = [*makers, scoring_code(), repr(self.limited_budget), self.splits, self.seed]
        return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()

    def digest(self, fingerprints: Sequence[str]) -> str:
        """Return a name for the benchmark that changes with what its results depend on, and with nothing else."""
        digest = hashlib.sha256("\n".join([*sorted(fingerprints), self.wanted()]).encode()).hexdigest()
        first = re.sub(r"[^\w-]+", "-", Path(self.datasets[0].partition("?")[0]).stem).strip("-")[:30] or "table"
        more = f"-and-{len(self.datasets) - 1}" if len(self.datasets) > 1 else ""
        return f"{first}{more}-{self.budget}-{digest[:8]}"

    def command(self) -> str:
        """Return the command that runs this plan, without the options that are as by default."""
        words = ["hopular", "benchmark", *(_short(reference) for reference in self.datasets)]
        if self.methods != list(DEFAULT_METHODS):
            words += ["--methods", ",".join(self.methods)]
        for name, field in Plan.model_fields.items():
            value = getattr(self, name)
            if name in ("datasets", "methods", "limits") or (value == field.default and name != "budget"):
                continue
            words += [f"--{name}", without_secrets(str(value))]
        for name, value in self.limits.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def public(self) -> dict[str, Any]:
        """Return the plan as results and reports show it."""
        values = self.model_dump(mode="json")
        return {**values, "datasets": [without_secrets(reference) for reference in self.datasets]}


def select_methods(names: Sequence[str]) -> list[str]:
    """Return methods by name, by group, or all that are installed; each once, in the order asked for."""
    found = [(name, method) for name in names for method in methods_named(name)]
    wanted = [method.name for name, method in found if method.name == name or not method.missing_packages]
    return [get_method(name).name for name in dict.fromkeys(wanted)]


def _absolute(reference: str) -> str:
    """Return a file by its full path, so that a worker elsewhere in the tree finds it; other names as they are."""
    path = Path(reference).expanduser()
    return str(path.resolve()) if path.exists() and (path.name != reference or path.is_file()) else reference


def _short(reference: str) -> str:
    """Return a file below the working folder by its relative path, and an address without what it may hide."""
    path = Path(reference)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return without_secrets(reference)
