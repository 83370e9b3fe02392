"""The figures that the paper (Schäfl et al. 2022, "Hopular") publishes, each as a table with a row per figure."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Literal

import pandas as pd

from hopular.data.registry import canonical, entries
from hopular.data.registry import median_ranks as registered_ranks
from hopular.methods import methods

COLUMNS = ("dataset", "group", "method", "accuracy")  # of a file of published figures per dataset


@dataclass(frozen=True, eq=False)
class PaperTable:
    """A table of the paper with our figures beside it.

    Beside the columns that say what a row is about it has `paper`, `ours` (NaN where not run), `difference` (ours
    minus paper) and, where differences can be judged, `is_more_than_noise`.
    """

    name: str
    title: str
    source: str  # which table of the paper
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def has_ours(self) -> bool:
        """Whether anything of it was run."""
        return bool(self.frame["ours"].notna().any())


def median_ranks() -> pd.DataFrame:
    """`title` and median rank (`paper`) of the paper's 29 methods, and our `method` of the kind, if there is one."""
    ours = {method.paper_name: name for name, method in methods().items() if method.paper_name}
    rows = [(name, ours.get(name), rank) for name, rank in registered_ranks().items()]
    return pd.DataFrame(rows, columns=["title", "method", "paper"])


def medium_results() -> pd.DataFrame:
    """Score (`paper`) and standard error (`paper_error`) of five methods on the six medium datasets, in `unit`."""
    rows = [
        (entry.name, method, "accuracy %" if entry.task == "classification" else "MSE x 1000", *figures)
        for entry in entries().values()
        if entry.suite == "medium"
        for method, figures in (entry.published or {}).items()
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "unit", "paper", "paper_error"])


def sizes(suite: Literal["small", "medium"]) -> pd.DataFrame:
    """Rows, continuous and categorical features that the paper counts in the datasets of a suite."""
    rows = [
        (entry.name, entry.paper.rows, entry.paper.continuous, entry.paper.categorical)
        for entry in entries().values()
        if entry.suite == suite
    ]
    return pd.DataFrame(rows, columns=["dataset", "rows", "continuous", "categorical"])


def footprint() -> pd.DataFrame:
    """Memory of the smallest and largest model and milliseconds of a step, on one A100 (two tables of the appendix)."""
    with resources.files("hopular.paper").joinpath("footprint.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def with_published(matrix: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """A matrix of accuracies (datasets x methods) with a column 'GROUP (published)' for each published group.

    `published` has the columns dataset, group, method and accuracy. Only datasets for which every group has a figure
    are kept, since ranks need them all; datasets are matched by the names and aliases of the registry.
    """
    lacking = [name for name in COLUMNS if name not in published.columns]
    if lacking:
        raise ValueError(f"the published figures lack {', '.join(lacking)}: their columns must be {', '.join(COLUMNS)}")
    outside = published[~published["accuracy"].between(0, 1)]
    if len(outside):
        first = outside.iloc[0]
        raise ValueError(
            f"the published accuracy of {first['group']} on {first['dataset']} is {first['accuracy']}: "
            "give shares from 0 to 1, not percent"
        )
    named = published.assign(dataset=[canonical(name) or name for name in published["dataset"]])
    twice = named[named.duplicated(["dataset", "group"])]
    if len(twice):
        first = twice.iloc[0]
        raise ValueError(f"there are several published figures of {first['group']} on {first['dataset']}: keep one")
    added = named.pivot(index="dataset", columns="group", values="accuracy").dropna()
    shared = [name for name in matrix.index if (canonical(name) or name) in added.index]
    if not shared:
        names = ", ".join(sorted(named["dataset"].unique()))
        raise ValueError(f"none of the datasets has figures of all published groups: there are figures for {names}")
    added = added.loc[[canonical(name) or name for name in shared]]
    added = added.rename(columns=published_label).set_axis(shared, axis=0)
    return pd.concat([matrix.loc[shared], added], axis=1)


def published_label(group: str) -> str:
    """The column of a published group."""
    return f"{group} (published)"
