"""The paper's tables with our figures beside them, and where they can be compared, whether a difference is noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pandas as pd

from hopular.evaluation.compare import noise_of_difference, primary_summary
from hopular.evaluation.ranks import interval, median, rank_table
from hopular.evaluation.results import Results, architecture_of
from hopular.evaluation.scores import directions, leaderboard_matrix, missing_units, widened
from hopular.paper import published as paper
from hopular.paper.published import PaperTable

OF, SMALL, MEDIUM = 29, 21, 6  # rows of the paper's table of ranks, and datasets of its suites
NEARLY_ALL = 26  # of the rows: with fewer, ranks among them say little of ranks among all
MORE_THAN_NOISE = (
    "More than noise: the paper's rank lies outside the 95 % bootstrap interval of our median over datasets."
)
PUBLISHED = (
    "Published accuracies are of Fernandez-Delgado et al. 2014, rounded to three digits: of each group its median "
    "method, with settings that were chosen more optimistically than ours."
)
REPLICATES = 3  # of the paper's results on the medium suite
OUR_MODELS = "Our Hopular is trained by the paper's recipe with the paper's architecture."
SCALE = {"accuracy %": 100.0, "MSE x 1000": 1000.0}  # of the primary metrics, accuracy and mean squared error


def paper_tables(results: Results, footprint: pd.DataFrame | None = None) -> list[PaperTable]:
    """All tables; `footprint` is of `measure_paper`."""
    return [
        rank_comparison(results),
        medium_rank_comparison(results),
        medium_comparison(results),
        size_comparison(results, "small"),
        size_comparison(results, "medium"),
        memory_comparison(footprint),
        time_comparison(footprint),
    ]


def rank_comparison(results: Results) -> PaperTable:
    """Median ranks on the small suite: the paper's among 29 rows, ours among those that have accuracies.

    `origin` says whose accuracies a rank is of: "ours", or "published" ones of a group of which we ran no method.
    `low` and `high` bound a 95 % interval of `ours`; `ours_sound` is `ours` without datasets that have serious audit
    findings, if there are any. A rank depends on who else is ranked, so there is a `difference` only if nearly all of
    the paper's rows have a rank on all datasets.
    """
    table = paper.median_ranks()
    table["method"] = table["method"].fillna("")
    ranks = _small_ranks(results, table)
    columns = [m if m in ranks.columns else title for title, m in zip(table["title"], table["method"], strict=True)]
    is_ours = [m in ranks.columns for m in table["method"]]
    is_ranked = [column in ranks.columns for column in columns]
    table["origin"] = np.where(is_ours, "ours", np.where(is_ranked, "published", ""))
    table = _with_median_ranks(table, ranks.reindex(columns=columns))
    doubtful = {facts.name for facts in results.datasets if facts.is_doubtful} & set(ranks.index)
    if doubtful:
        table["ours_sound"] = ranks.drop(index=list(doubtful)).median(axis=0).reindex(columns).to_numpy(dtype=float)
    frame = _judged(table, first=["title", "method", "origin"], of=SMALL, least=NEARLY_ALL)
    n_ours, n_rows, n_full = sum(is_ours), sum(is_ranked), int((table["datasets"] == SMALL).sum())
    return PaperTable(
        name="median-ranks",
        title="Median rank on the small suite",
        source="Table 'Median rank of compared methods' (appendix)",
        frame=frame,
        notes=(
            f"The paper ranks {OF} rows on {SMALL} datasets; ours are ranks among {n_rows} rows on {len(ranks)} of "
            f"them: {n_ours} by our accuracies, {n_rows - n_ours} by published ones.",
            PUBLISHED,
            MORE_THAN_NOISE
            if "difference" in frame.columns
            else f"No difference to the paper's ranks is shown: that takes {NEARLY_ALL} rows with a rank on all "
            f"{SMALL} datasets, and there are {n_full}.",
            *_which_hopular(results),
            "A rank depends on who else is ranked: other competitors can move it without any change of a method.",
        ),
    )


def _small_ranks(results: Results, table: pd.DataFrame) -> pd.DataFrame:
    """Ranks on the small datasets that were run: of our methods of the paper's rows, and of groups for the other rows.

    A column is called as our method, or as the row if its accuracies are published ones.
    """
    matrix = leaderboard_matrix(results, "accuracy")
    small = set(paper.sizes("small")["dataset"])
    matrix = matrix.loc[[name for name in matrix.index if name in small]]
    missing = missing_units(results).loc[matrix.index]
    kept = [name for name in table["method"] if name in matrix.columns and not missing[name].all()]
    if not kept:
        return pd.DataFrame(dtype=float)
    groups = paper.group_accuracies().pivot(index="dataset", columns="group", values="accuracy")
    others = groups.drop(columns=table.loc[table["method"].isin(kept), "title"], errors="ignore")
    matrix = pd.concat([matrix[kept], others.loc[matrix.index]], axis=1)
    missing = missing.reindex(columns=matrix.columns, fill_value=False)
    return rank_table(matrix, pd.Series(True, index=matrix.index, dtype=bool), missing)


def _with_median_ranks(table: pd.DataFrame, ranks: pd.DataFrame) -> pd.DataFrame:
    """The table with the median of each column of `ranks`, its 95 % interval, and the number of datasets."""
    low, high = interval(ranks, median)
    figures = {"ours": ranks.median(axis=0), "low": low, "high": high, "datasets": ranks.notna().sum(axis=0)}
    return table.assign(**{name: values.to_numpy() for name, values in figures.items()})


def _judged(table: pd.DataFrame, first: list[str], of: int, least: int) -> pd.DataFrame:
    """The columns of a table of ranks in their order.

    The difference, and what it is worth, are among them if `least` rows have a rank on all `of` datasets.
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


def medium_rank_comparison(results: Results) -> PaperTable:
    """Median ranks of the five methods over the six medium datasets; a difference only if all were run on all."""
    table = paper.medium_ranks()
    ranks = _medium_ranks(results, list(table["method"]))
    table = _with_median_ranks(table, ranks.reindex(columns=table["method"]))
    frame = _judged(table, first=["method"], of=MEDIUM, least=len(table))
    return PaperTable(
        name="medium-ranks",
        title="Median rank on the medium suite",
        source="Section 'Medium-Sized Tabular Datasets'",
        frame=frame,
        notes=(
            f"The paper ranks {len(table)} methods on {MEDIUM} datasets; ours are ranks among "
            f"{int(ranks.notna().any().sum())} of them on {len(ranks)} of the datasets.",
            *_which_hopular(results),
            MORE_THAN_NOISE
            if "difference" in frame.columns
            else "No difference to the paper's ranks is shown: that takes all five methods on all six datasets.",
        ),
    )


def _medium_ranks(results: Results, names: list[str]) -> pd.DataFrame:
    """Ranks of some methods, among themselves, on the medium datasets that were run."""
    matrix = leaderboard_matrix(results)
    medium = set(paper.sizes("medium")["dataset"])
    matrix = matrix.loc[[name for name in matrix.index if name in medium], [n for n in names if n in matrix.columns]]
    return rank_table(matrix, directions(results), missing_units(results)).dropna(how="all")


def medium_comparison(results: Results) -> PaperTable:
    """Scores of the five methods on the six medium datasets."""
    table = paper.medium_results()
    values = primary_summary(results).reindex(pd.MultiIndex.from_frame(table[["dataset", "method"]])).reset_index()
    scale = table["unit"].map(SCALE)
    values[["mean", "standard_error", "uncertainty"]] = values[["mean", "standard_error", "uncertainty"]].mul(
        scale, axis=0
    )
    table["ours"], table["ours_error"] = values["mean"], values["standard_error"]
    table["difference"] = table["ours"] - table["paper"]
    table["noise"] = np.where(
        values["uncertainty"].notna(),
        noise_of_difference(widened(table["paper_error"], REPLICATES), values["uncertainty"]),
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
            *_which_hopular(results),
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


def size_comparison(results: Results, suite: Literal["small", "medium"]) -> PaperTable:
    """Rows and features of the datasets as the paper counts them and as they are; counts have no noise."""
    table = paper.sizes(suite).rename(columns={"rows": "paper"})
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


def memory_comparison(footprint: pd.DataFrame | None = None) -> PaperTable:
    """Memory of Hopular and NPTs in GiB: single sample and full batch, smallest and largest model."""
    published = paper.footprint()
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
            OUR_MODELS,
        ),
    )


def time_comparison(footprint: pd.DataFrame | None = None) -> PaperTable:
    """Milliseconds of a training step; the paper does not say of which model, so ours are of the largest."""
    published = paper.footprint()
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
            OUR_MODELS,
        ),
    )


def _device(footprint: pd.DataFrame | None) -> str:
    """The device that was measured."""
    if footprint is None or "device" not in footprint.columns or footprint.empty:
        return "this device"
    return f"the {footprint['device'].iloc[0]} of this machine"


def _beside(table: pd.DataFrame, measured: pd.DataFrame | None, keys: list[str], value: str) -> pd.DataFrame:
    """A table of the paper's figures with `value` of our measurement, which is of another device.

    `reason` says why there is none of ours where it was tried.
    """
    if measured is None:
        table = table.assign(ours=np.nan)
    else:
        ours = measured[[*keys, value, "failure"]].rename(columns={value: "ours", "failure": "reason"})
        table = table.merge(ours, how="left", on=keys, validate="one_to_one").fillna({"reason": ""})
        if (table["reason"] == "").all():
            table = table.drop(columns="reason")
    return table.assign(difference=table["ours"] - table["paper"])
