"""The figures that the paper (Schäfl et al. 2022, "Hopular") publishes, each as a table with a row per figure."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Literal

import pandas as pd

from hopular.data.registry import canonical, entries
from hopular.data.registry import median_ranks as registered_ranks
from hopular.methods import methods

# Rows of the paper's rank table without a method of ours, and why.
WITHOUT_METHOD = {
    "Multivariate Adaptive Reg. Splines": "No method of ours: py-earth was last released in 2017; mars-earth, of "
    "2026, takes minutes for a few hundred rows.",
    "Rule-Based Methods": "No method of ours: the RIPPER of wittgenstein and the rules of imodels are for two classes.",
    "Other Methods": "No method of ours: the group is whatever fits in no other.",
}


@dataclass(frozen=True, eq=False)
class PaperTable:
    """A table of the paper with our figures beside it.

    Beside the columns that say what a row is about it has `paper` and `ours` (NaN where not run); where the two can be
    compared also `difference` (ours minus paper), and `is_more_than_noise` where that can be judged.
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
    """`title` and median rank (`paper`) of the paper's 29 methods, and our `method` of the kind, if there is one.

    `note` says why there is none, or where it is not like for like.
    """
    ours = {method.paper_name: method for method in methods().values() if method.paper_name}
    rows = [
        (title, ours[title].name, rank, ours[title].paper_note)
        if title in ours
        else (title, None, rank, WITHOUT_METHOD[title])
        for title, rank in registered_ranks().items()
    ]
    return pd.DataFrame(rows, columns=["title", "method", "paper", "note"])


def medium_ranks() -> pd.DataFrame:
    """Median rank (`paper`) of five methods over the six medium datasets, as the ranks of their scores give it."""
    table = medium_results()
    is_higher_better = table["unit"] == "accuracy %"
    oriented = table["paper"].where(is_higher_better, -table["paper"])
    ranks = oriented.groupby(table["dataset"]).rank(ascending=False)
    medians = ranks.groupby(table["method"], sort=False).median()
    return medians.rename("paper").rename_axis("method").reset_index()


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


def group_accuracies() -> pd.DataFrame:
    """Accuracy (0 to 1) of the 17 classical groups of methods on the 21 small datasets, with the `method` it is of.

    The figures are of Fernandez-Delgado et al. 2014, whose datasets and splits the paper uses, each group represented
    by its median method. They chose settings more optimistically than on validation rows, and published three digits.
    """
    with resources.files("hopular.paper").joinpath("uci_method_groups.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, comment="#")
    return table.assign(dataset=table["dataset"].map(canonical))
