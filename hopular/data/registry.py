"""The registry: facts about the paper's 27 datasets, read from registry.toml beside this file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from hopular.data.dataset import DataError, Task
from hopular.util import did_you_mean


@dataclass(frozen=True)
class Missing:
    """A code that stood for a missing value: the rank of the code in its column, and how many rows have it."""

    column: str
    rank: int
    rows: int


@dataclass(frozen=True)
class PaperSize:
    """The size of a dataset by the paper's overview tables."""

    rows: int
    continuous: int
    categorical: int


@dataclass(frozen=True)
class Repair:
    """The way to the variant NAME:repaired: values ranked within each part, or the true target put in its place."""

    how: Literal["ranks", "target"]
    remark: str
    target: str = ""
    feature: str = ""


@dataclass(frozen=True)
class Entry:
    """One dataset of the paper."""

    name: str
    title: str
    suite: Literal["small", "medium"]
    folder: str
    task: Task
    paper: PaperSize
    target: str = "class"
    openml: int | None = None
    uci: int | None = None
    aliases: tuple[str, ...] = ()
    categorical: tuple[str, ...] | Literal["all"] = ()
    drop: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    missing_within_parts: bool = False
    valid_share: float = 0.2
    published: dict[str, tuple[float, float]] | None = None  # method: test score and its standard error
    remarks: tuple[str, ...] = ()  # where the paper and the files disagree
    defects: tuple[str, ...] = ()
    repaired: Repair | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Return its files, relative to the folder of all datasets."""
        if self.suite == "medium":
            return (f"{self.folder}/{self.folder}.csv",)
        names = (f"{self.folder}_py.dat", "labels_py.dat", "folds_py.dat", "validation_folds_py.dat")
        return tuple(f"{self.folder}/{name}" for name in names)


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(resources.files("hopular.data").joinpath("registry.toml").read_text("utf-8"))


def _entry(name: str, facts: dict[str, Any]) -> Entry:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
    values["paper"] = PaperSize(**facts["paper"])
    values["missing"] = tuple(Missing(**code) for code in facts.get("missing", ()))
    if "published" in facts:
        values["published"] = {method: tuple(score) for method, score in facts["published"].items()}
    if "repaired" in facts:
        values["repaired"] = Repair(**facts["repaired"])
    return Entry(name, **values)


@cache
def entries() -> dict[str, Entry]:
    """Return all entries by name, in the paper's order."""
    return {name: _entry(name, facts) for name, facts in _document()["datasets"].items()}


def paper_names() -> list[str]:
    """Return all names that can be loaded: the 27 datasets and their repaired variants."""
    return [
        name
        for entry in entries().values()
        for name in (entry.name, *([f"{entry.name}:repaired"] if entry.repaired else []))
    ]


def median_ranks() -> dict[str, float]:
    """Return the paper's median rank of each method over the small suite."""
    return dict(_document()["suites"]["small"]["median_ranks"])


def canonical(name: str) -> str | None:
    """Spell a name, an alias or a variant of either (any case, _ for -) as the registry does; None if unknown."""
    base, colon, variant = name.strip().lower().replace("_", "-").partition(":")
    for entry in entries().values():
        if base == entry.name or base in entry.aliases:
            full = f"{entry.name}{colon}{variant}"
            return full if full in paper_names() else None
    return None


def find(name: str) -> tuple[Entry, bool]:
    """Return the entry of a dataset, and whether its repaired variant is meant."""
    full = canonical(name)
    if full is None:
        raise DataError(
            f"no dataset of the paper is called {name!r}.{did_you_mean(name, paper_names())} "
            f"They are: {', '.join(paper_names())}"
        )
    base, _, variant = full.partition(":")
    return entries()[base], bool(variant)
