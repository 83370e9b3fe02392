"""Plan: what a benchmark is to run, the one parameter of the flow; wrong names are refused before anything starts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hopular.data import expand
from hopular.data.dataset import Task
from hopular.methods import get_method, methods
from hopular.methods.fingerprint import scoring_code, take_fingerprint
from hopular.methods.method import Group
from hopular.trials.budget import Budget, preset
from hopular.util import did_you_mean

DEFAULT_METHODS = ("hopular", "catboost", "xgboost", "lightgbm", "glm", "majority", "mean")
Count = Annotated[int, Field(ge=1)]


class Plan(BaseModel):
    """Which datasets, methods and budget; how the work is divided; on which device."""

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
        found = [absolute(reference) for reference in references]
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
        given = {"replicates": self.replicates, "architecture": self.architecture}
        return preset(self.budget, **self.limits | {name: value for name, value in given.items() if value is not None})

    def references(self) -> list[str]:
        """Every dataset, each once."""
        return expand(self.datasets)

    def methods_for(self, task: Task) -> list[str]:
        """The methods that can be used for a task; the ensemble, which needs the others, last."""
        names = [name for name in select_methods(self.methods) if task in get_method(name).tasks]
        return sorted(names, key=lambda name: get_method(name).is_ensemble)

    def wanted(self) -> str:
        """A hash of all that results depend on beside the data: the code and libraries of the methods as well."""
        from flows.runners import device_of  # Prefect, which a plan does without

        makers = [take_fingerprint(name, device_of(self)).digest for name in sorted(select_methods(self.methods))]
        parts = [*makers, scoring_code(), repr(self.limited_budget), self.splits, self.seed]
        return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()

    def digest(self, fingerprints: Sequence[str]) -> str:
        """A name for the benchmark that changes with what its results depend on, and with nothing else."""
        digest = hashlib.sha256("\n".join([*sorted(fingerprints), self.wanted()]).encode()).hexdigest()
        first = re.sub(r"[^\w-]+", "-", Path(self.datasets[0].partition("?")[0]).stem).strip("-")[:30] or "table"
        more = f"-and-{len(self.datasets) - 1}" if len(self.datasets) > 1 else ""
        return f"{first}{more}-{self.budget}-{digest[:8]}"


def absolute(reference: str) -> str:
    """A file by its full path, so that a worker elsewhere in the tree finds it; other names as they are."""
    path = Path(reference).expanduser()
    return str(path.resolve()) if path.exists() and (path.name != reference or path.is_file()) else reference


def select_methods(names: Sequence[str]) -> list[str]:
    """Methods by name, by group, or all that are installed; each once, in the order asked for."""
    chosen: dict[str, None] = {}
    groups = get_args(Group)
    for name in names:
        if name == "all" or (name in groups and name not in methods()):
            usable = [m.name for m in methods().values() if not m.missing_packages and name in ("all", m.group)]
            chosen |= dict.fromkeys(usable)
        elif name in methods():
            chosen[get_method(name).name] = None
        else:
            known = list(dict.fromkeys([*methods(), *groups, "all"]))
            raise ValueError(f"there is no method {name!r}.{did_you_mean(name, known)} There are: {', '.join(known)}")
    return list(chosen)
