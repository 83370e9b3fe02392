"""The paper's tables with our figures beside them and, where they can be compared, whether a difference is noise.

The paper is Schäfl et al. 2022, "Hopular: Modern Hopfield Networks for Tabular Data".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Literal

import numpy as np
import pandas as pd

from hopular.data.registry import canonical, entries
from hopular.data.registry import median_ranks as registered_ranks
from hopular.evaluation.results import Results, architecture_of
from hopular.evaluation.scores import nan_median, noise_of_difference, rank_interval, rank_table, widened
from hopular.evaluation.verdict import Standings
from hopular.methods import methods

_OF, _SMALL, _MEDIUM = 29, 21, 6  # rows of the paper's table of ranks, and datasets of its suites
_NEARLY_ALL = 26  # of the rows: with fewer, ranks among them say little of ranks among all
_MORE_THAN_NOISE = (
    "More than noise: the paper's rank lies outside the 95 % bootstrap interval of our median rank over datasets."
)
_PUBLISHED = (
    "Published accuracies are of Fernandez-Delgado et al. 2014, rounded to three digits: of each group its median "
    "method, with settings that were chosen more optimistically than ours."
)
_REPLICATES = 3  # of the paper's results on the medium suite
_OUR_MODELS = "Our Hopular is trained by the paper's recipe with the paper's architecture."
_SCALE = {"accuracy %": 100.0, "MSE x 1000": 1000.0}  # of the primary metrics, accuracy and mean squared error
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
        """Tell if anything of it was run."""
        return bool(self.frame["ours"].notna().any())


def paper_tables(standings: Standings, footprint: pd.DataFrame | None) -> list[PaperTable]:
    """Return all tables; `footprint` is what `measure_paper` found, if it ran."""
    return [
        _rank_comparison(standings),
        _medium_rank_comparison(standings),
        _medium_comparison(standings),
        _size_comparison(standings.results, "small"),
        _size_comparison(standings.results, "medium"),
        _memory_comparison(footprint),
        _time_comparison(footprint),
    ]


def _rank_comparison(standings: Standings) -> PaperTable:
    """Compare median ranks on the small suite: the paper's among 29 rows, ours among those that have accuracies.

    `origin` says whose accuracies a rank is of: "ours", or "published" ones of a group of which we ran no method.
    `low` and `high` bound a 95 % interval of `ours`; `ours_sound` is `ours` without datasets that have serious audit
    findings, if there are any. A rank depends on what else is ranked, so there is a `difference` only if nearly all of
    the paper's rows have a rank on all datasets.
    """
    table = published_ranks()
    table["method"] = table["method"].fillna("")
    ranks = _small_ranks(standings, table)
    columns = [m if m in ranks.columns else title for title, m in zip(table["title"], table["method"], strict=True)]
    is_ours = [m in ranks.columns for m in table["method"]]
    is_ranked = [column in ranks.columns for column in columns]
    table["origin"] = np.where(is_ours, "ours", np.where(is_ranked, "published", ""))
    table = _with_median_ranks(table, ranks.reindex(columns=columns))
    doubtful = {facts.name for facts in standings.results.datasets if facts.is_doubtful} & set(ranks.index)
    if doubtful:
        table["ours_sound"] = ranks.drop(index=list(doubtful)).median(axis=0).reindex(columns).to_numpy(dtype=float)
    frame = _judged(table, first=["title", "method", "origin"], of=_SMALL, least=_NEARLY_ALL)
    n_ours, n_rows, n_full = sum(is_ours), sum(is_ranked), int((table["datasets"] == _SMALL).sum())
    return PaperTable(
        name="median-ranks",
        title="Median rank on the small suite",
        source="Table 'Median rank of compared methods' (appendix)",
        frame=frame,
        notes=(
            f"The paper ranks {_OF} rows on {_SMALL} datasets; ours are ranks among {n_rows} rows on {len(ranks)} of "
            f"them: {n_ours} by our accuracies, {n_rows - n_ours} by published ones.",
            _PUBLISHED,
            _MORE_THAN_NOISE
            if "difference" in frame.columns
            else f"No difference from the paper's ranks is shown: that takes {_NEARLY_ALL} rows with a rank on all "
            f"{_SMALL} datasets, and there are {n_full}.",
            *_which_hopular(standings.results),
            "A rank depends on what else is ranked: other competitors can move it without any change in a method.",
        ),
    )


def _small_ranks(standings: Standings, table: pd.DataFrame) -> pd.DataFrame:
    """Rank our methods of the paper's rows, and groups for the other rows, on the small datasets that were run.

    A column is named after our method, or after the row if its accuracies are published ones.
    """
    matrix = standings.scores
    small = set(published_sizes("small")["dataset"])
    matrix = matrix.loc[[name for name in matrix.index if name in small]]
    missing = standings.missing.loc[matrix.index]
    kept = [name for name in table["method"] if name in matrix.columns and not missing[name].all()]
    if not kept:
        return pd.DataFrame(dtype=float)
    groups = group_accuracies().pivot(index="dataset", columns="group", values="accuracy")
    others = groups.drop(columns=table.loc[table["method"].isin(kept), "title"], errors="ignore")
    matrix = pd.concat([matrix[kept], others.loc[matrix.index]], axis=1)
    missing = missing.reindex(columns=matrix.columns, fill_value=False)
    return rank_table(matrix, pd.Series(True, index=matrix.index, dtype=bool), missing)


def _with_median_ranks(table: pd.DataFrame, ranks: pd.DataFrame) -> pd.DataFrame:
    """Add the median of each column of `ranks`, its 95 % interval, and the number of datasets."""
    low, high = rank_interval(ranks, nan_median)
    figures = {"ours": ranks.median(axis=0), "low": low, "high": high, "datasets": ranks.notna().sum(axis=0)}
    return table.assign(**{name: values.to_numpy() for name, values in figures.items()})


def _judged(table: pd.DataFrame, first: list[str], of: int, least: int) -> pd.DataFrame:
    """Return the columns of a table of ranks in their order.

    The difference and its verdict are among them only if `least` rows have a rank on all `of` datasets.
    """
    shown = [*first, "paper", "ours", "low", "high"]
    is_full = table["datasets"] == of
    if is_full.sum() >= least:
        is_outside = (table["paper"] < table["low"]) | (table["paper"] > table["high"])
        difference = (table["ours"] - table["paper"]).where(is_full)
        table = table.assign(difference=difference, is_more_than_noise=is_outside & is_full)
        shown += ["difference", "is_more_than_noise"]
    return table[[*shown, *(name for name in ("ours_sound", "datasets", "note") if name in table.columns)]]


# ------------------------------------------------------------------------------------------------------ medium datasets


def _medium_rank_comparison(standings: Standings) -> PaperTable:
    """Compare median ranks of five methods on the six medium datasets; a difference only if all were run on all."""
    table = published_medium_ranks()
    ranks = _medium_ranks(standings, list(table["method"]))
    table = _with_median_ranks(table, ranks.reindex(columns=table["method"]))
    frame = _judged(table, first=["method"], of=_MEDIUM, least=len(table))
    return PaperTable(
        name="medium-ranks",
        title="Median rank on the medium suite",
        source="Section 'Medium-Sized Tabular Datasets'",
        frame=frame,
        notes=(
            f"The paper ranks {len(table)} methods on {_MEDIUM} datasets; ours are ranks among "
            f"{int(ranks.notna().any().sum())} of them on {len(ranks)} of the datasets.",
            *_which_hopular(standings.results),
            _MORE_THAN_NOISE
            if "difference" in frame.columns
            else "No difference from the paper's ranks is shown: that takes all five methods on all six datasets.",
        ),
    )


def _medium_ranks(standings: Standings, names: list[str]) -> pd.DataFrame:
    """Rank some methods among themselves on the medium datasets that were run."""
    matrix = standings.scores
    medium = set(published_sizes("medium")["dataset"])
    matrix = matrix.loc[[name for name in matrix.index if name in medium], [n for n in names if n in matrix.columns]]
    return rank_table(matrix, standings.directions, standings.missing).dropna(how="all")


def _medium_comparison(standings: Standings) -> PaperTable:
    """Compare the scores of five methods on the six medium datasets."""
    table = published_scores()
    values = standings.summary.reindex(pd.MultiIndex.from_frame(table[["dataset", "method"]])).reset_index()
    scale = table["unit"].map(_SCALE)
    values[["mean", "standard_error", "uncertainty"]] = values[["mean", "standard_error", "uncertainty"]].mul(
        scale, axis=0
    )
    table["ours"], table["ours_error"] = values["mean"], values["standard_error"]
    table["difference"] = table["ours"] - table["paper"]
    table["noise"] = np.where(
        values["uncertainty"].notna(),
        noise_of_difference(widened(table["paper_error"], _REPLICATES), values["uncertainty"]),
        np.nan,
    )
    table["is_more_than_noise"] = table["difference"].abs() > table["noise"]
    table["fits"] = values["count"].fillna(0).astype(int)
    return PaperTable(
        name="medium",
        title="Results on the medium suite",
        source="Table 'Results of all compared methods on the subset of medium-sized tabular datasets'",
        frame=table,
        notes=(
            "Accuracy in percent (higher is better), or mean squared error times 1000 (lower is better).",
            *_which_hopular(standings.results),
            "The paper's standard error is over three replicates. Ours pools all splits and seeds that were run as if "
            "they were independent, so it also holds what differs between splits.",
            "More than noise: the difference exceeds 95 % intervals, the paper's and ours combined: by Student's t "
            "over replicates and splits, or by our bootstrap over test rows if that is wider.",
        ),
    )


def _which_hopular(results: Results) -> Iterator[str]:
    """Say which architecture our figures of Hopular are of: the paper's are of its own."""
    units = [unit for unit in results.units if unit.method == "hopular" and unit.state == "complete"]
    names = {architecture_of(unit) for unit in units}
    if names == {"paper"}:
        yield "Our Hopular has the paper's architecture."
    elif "" in names:
        yield "Which architecture our Hopular has was not recorded everywhere: it may not be the paper's."
    elif names:
        yield f"Ours is {results.title('hopular')}, not the paper's: a difference may be due to that."


def _size_comparison(results: Results, suite: Literal["small", "medium"]) -> PaperTable:
    """Compare rows and features as the paper counts them with those of our datasets; counts have no noise."""
    table = published_sizes(suite).rename(columns={"rows": "paper"})
    facts = {one.name: (one.rows, one.features - one.categorical, one.categorical) for one in results.datasets}
    counts = [facts.get(name, (np.nan,) * 3) for name in table["dataset"]]
    table[["ours", "ours_continuous", "ours_categorical"]] = np.array(counts, dtype=float)
    table["difference"] = table["ours"] - table["paper"]
    pairs = (("paper", "ours"), ("continuous", "ours_continuous"), ("categorical", "ours_categorical"))
    table["is_more_than_noise"] = False
    for theirs, ours in pairs:
        table["is_more_than_noise"] |= table[ours].notna() & (table[theirs] != table[ours])
    title = "Overview of small-sized datasets" if suite == "small" else "Medium-sized datasets"
    columns = ["paper", "ours", "difference", "continuous", "ours_continuous", "categorical", "ours_categorical"]
    return PaperTable(
        name=f"{suite}-sizes",
        title=f"Sizes of the {suite} datasets",
        source=f"Table '{title}' (appendix)",
        frame=table[["dataset", *columns, "is_more_than_noise"]],
        notes=(
            "Paper and ours are numbers of rows; what differs is marked, also in the numbers of features.",
            "The registry's remarks say why.",
        ),
    )


def _memory_comparison(footprint: pd.DataFrame | None) -> PaperTable:
    """Compare the memory of Hopular and NPTs in GiB: single sample and full batch, smallest and largest model."""
    published = published_footprint()
    keys = ["dataset", "method", "batch"]
    parts = [published[keys].assign(model=model, paper=published[f"{model}_gib"]) for model in ("smallest", "largest")]
    parts[0]["is_out_of_memory"], parts[1]["is_out_of_memory"] = False, published["is_out_of_memory"]
    table = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)
    table = _beside(table, footprint, [*keys, "model"], "gib")
    return PaperTable(
        name="memory",
        title="Memory footprint in GiB",
        source="Table 'Memory footprint of Hopular and NPTs' (appendix)",
        frame=table,
        notes=(
            f"The paper's figures are of one A100; ours are what model, data and steps add on {_device(footprint)}. "
            "Devices differ, so no difference is judged.",
            "Where the paper ran out of memory its figure is the 80 GiB of the device.",
            _OUR_MODELS,
        ),
    )


def _time_comparison(footprint: pd.DataFrame | None) -> PaperTable:
    """Compare the milliseconds of a training step; the paper does not name the model, so ours are of the largest."""
    published = published_footprint()
    keys = ["dataset", "method", "batch"]
    table = published[keys].assign(paper=published["milliseconds"], paper_error=published["milliseconds_error"])
    measured = None if footprint is None else footprint[footprint["model"] == "largest"]
    return PaperTable(
        name="step-time",
        title="Step time in milliseconds",
        source="Table 'Step time of Hopular and NPTs' (appendix)",
        frame=_beside(table, measured, keys, "milliseconds"),
        notes=(
            f"The paper's figures are of one A100; ours of {_device(footprint)}, with the largest model. Devices "
            "differ, so no difference is judged.",
            _OUR_MODELS,
        ),
    )


def _device(footprint: pd.DataFrame | None) -> str:
    """Name the device that was measured."""
    if footprint is None or "device" not in footprint.columns or footprint.empty:
        return "this device"
    return f"the {footprint['device'].iloc[0]} of this machine"


def _beside(table: pd.DataFrame, measured: pd.DataFrame | None, keys: list[str], value: str) -> pd.DataFrame:
    """Add `value` of our measurement, which is of another device; `reason` says why one that was tried has none."""
    if measured is None:
        table = table.assign(ours=np.nan)
    else:
        ours = measured[[*keys, value, "failure"]].rename(columns={value: "ours", "failure": "reason"})
        table = table.merge(ours, how="left", on=keys, validate="one_to_one").fillna({"reason": ""})
        if (table["reason"] == "").all():
            table = table.drop(columns="reason")
    return table.assign(difference=table["ours"] - table["paper"])


# ------------------------------------------------------------------------------------------------ the published figures


def published_ranks() -> pd.DataFrame:
    """Return `title` and median rank (`paper`) of the paper's 29 methods, and our `method` of the kind, if any.

    `note` says why there is none, or in what it differs.
    """
    ours = {method.paper_name: method for method in methods().values() if method.paper_name}
    rows = [
        (title, ours[title].name, rank, ours[title].paper_note)
        if title in ours
        else (title, None, rank, WITHOUT_METHOD[title])
        for title, rank in registered_ranks().items()
    ]
    return pd.DataFrame(rows, columns=["title", "method", "paper", "note"])


def published_medium_ranks() -> pd.DataFrame:
    """Return the median rank (`paper`) of five methods over the six medium datasets, from their published scores."""
    table = published_scores()
    is_higher_better = table["unit"] == "accuracy %"
    oriented = table["paper"].where(is_higher_better, -table["paper"])
    ranks = oriented.groupby(table["dataset"]).rank(ascending=False)
    medians = ranks.groupby(table["method"], sort=False).median()
    return medians.rename("paper").rename_axis("method").reset_index()


def published_scores() -> pd.DataFrame:
    """Return score (`paper`) and standard error (`paper_error`) of five methods on the medium datasets, in `unit`."""
    rows = [
        (entry.name, method, "accuracy %" if entry.task == "classification" else "MSE x 1000", *figures)
        for entry in entries().values()
        if entry.suite == "medium"
        for method, figures in (entry.published or {}).items()
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "unit", "paper", "paper_error"])


def published_sizes(suite: Literal["small", "medium"]) -> pd.DataFrame:
    """Return the rows, continuous and categorical features that the paper counts in the datasets of a suite."""
    rows = [
        (entry.name, entry.paper.rows, entry.paper.continuous, entry.paper.categorical)
        for entry in entries().values()
        if entry.suite == suite
    ]
    return pd.DataFrame(rows, columns=["dataset", "rows", "continuous", "categorical"])


def published_footprint() -> pd.DataFrame:
    """Return the memory of the smallest and largest model and the milliseconds of a step, on one A100 (appendix)."""
    with resources.files("hopular.paper").joinpath("footprint.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def group_accuracies() -> pd.DataFrame:
    """Return the accuracy (0 to 1) of the 17 classical groups of methods on the 21 small datasets, and its `method`.

    The figures are of Fernandez-Delgado et al. 2014, whose datasets and splits the paper uses, each group represented
    by its median method. They chose settings more optimistically than on validation rows, and published three digits.
    """
    with resources.files("hopular.paper").joinpath("uci_method_groups.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, comment="#")
    return table.assign(dataset=table["dataset"].map(canonical))
