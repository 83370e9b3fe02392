"""The paper's tables with our figures beside them, the difference, and whether it is more than noise."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from hopular.evaluation.compare import noise_of_difference, primary_summary
from hopular.evaluation.ranks import interval, median, rank_table
from hopular.evaluation.results import Results
from hopular.evaluation.scores import leaderboard_matrix, missing_units, widened
from hopular.paper import published as paper
from hopular.paper.published import PaperTable, published_label, with_published

OF, SMALL = 29, 21  # methods that the paper ranks, and datasets of its small suite
NEARLY_ALL = 26  # of the methods: with fewer, ranks among them say little of ranks among all
REPLICATES = 3  # of the paper's results on the medium suite
SCALE = {"accuracy %": 100.0, "MSE x 1000": 1000.0}  # of the primary metrics, accuracy and mean squared error


def paper_tables(
    results: Results, published: pd.DataFrame | None = None, footprint: pd.DataFrame | None = None
) -> list[PaperTable]:
    """All tables; `published` are figures per dataset (see `with_published`), `footprint` is of `measure_paper`."""
    return [
        rank_comparison(results, published),
        medium_comparison(results),
        size_comparison(results, "small"),
        size_comparison(results, "medium"),
        memory_comparison(footprint),
        time_comparison(footprint),
    ]


def rank_comparison(results: Results, published: pd.DataFrame | None = None) -> PaperTable:
    """Median ranks on the small suite: the paper's among 29 methods, ours among those that ran.

    `origin` says whether a rank is of our own measurement or of a published figure per dataset; published groups of
    which we ran a method of our own are left out. `ours` is stretched to 29 places, `rank` is the rank as it is,
    `ours_sound` is `ours` without datasets that have serious audit findings, if there are any. A rank depends on who
    else is ranked, so `is_more_than_noise` is there only if nearly all of the paper's methods were, on all datasets.
    """
    table = paper.median_ranks()
    ours = dict(zip(table["title"], table["method"], strict=True))
    ranks, is_published = _small_ranks(results, published, ours)
    count, n = int((ranks.notna().any(axis=0)).sum()), int(ranks.notna().any(axis=1).sum())
    low, high = interval(ranks, median)
    doubtful = {facts.name for facts in results.datasets if facts.is_doubtful}
    sound = ranks[~ranks.index.isin(doubtful)].median(axis=0)
    columns = [name if name in ranks.columns else published_label(title) for title, name in ours.items()]
    table["method"] = [name if isinstance(name, str) else "" for name in table["method"]]
    table["origin"] = ["published" if c in is_published else "measured" if c in ranks.columns else "" for c in columns]
    table["rank"] = ranks.median(axis=0).reindex(columns).to_numpy(dtype=float)
    table["datasets"] = ranks.notna().sum(axis=0).reindex(columns, fill_value=0).to_numpy(dtype=int)
    stretch = (OF - 1) / (count - 1) if count > 1 else np.nan
    own = table["rank"].set_axis(columns)
    for name, values in (("ours", own), ("ours_sound", sound), ("low", low), ("high", high)):
        table[name] = 1 + (values.reindex(columns).to_numpy(dtype=float) - 1) * stretch
    table["difference"] = table["ours"] - table["paper"]
    is_outside = (table["paper"] < table["low"]) | (table["paper"] > table["high"])
    table["is_more_than_noise"] = is_outside & (table["datasets"] == SMALL)
    is_comparable = int((table["datasets"] == SMALL).sum()) >= NEARLY_ALL
    shown = ["title", "method", "origin", "paper", "ours", "difference"]
    shown += ["is_more_than_noise"] if is_comparable else []
    shown += ["ours_sound"] if doubtful & set(ranks.index) else []
    judged = (
        "More than noise: the paper's rank lies outside the 95 % bootstrap interval of our median over datasets."
        if is_comparable
        else f"Differences are not judged: that takes at least {NEARLY_ALL} of the methods on all {SMALL} datasets."
    )
    return PaperTable(
        name="median-ranks",
        title="Median rank on the small suite",
        source="Table 'Median rank of compared methods' (appendix)",
        frame=table[[*shown, "low", "high", "rank", "datasets"]],
        notes=(
            f"The paper ranks {OF} methods on {SMALL} datasets; ours are ranks among {count} methods on {n} of them, "
            f"stretched to {OF} places.",
            judged,
            "A rank depends on who else is ranked: other competitors can move it without any change of a method.",
        ),
    )


def _small_ranks(
    results: Results, published: pd.DataFrame | None, ours: dict[str, str | None]
) -> tuple[pd.DataFrame, set[str]]:
    """Ranks of the paper's methods on its small datasets, and which columns are of published figures."""
    matrix = leaderboard_matrix(results, "accuracy")
    small = set(paper.sizes("small")["dataset"])
    matrix = matrix.loc[[name for name in matrix.index if name in small]]
    missing = missing_units(results).loc[matrix.index]
    kept = [name for name in ours.values() if name in matrix.columns and not missing[name].all()]
    matrix, missing, labels = matrix[kept], missing[kept], set()
    if published is not None and len(matrix):
        others = published[~published["group"].isin([title for title, name in ours.items() if name in kept])]
        if len(others):
            matrix = with_published(matrix, others)
            labels = set(matrix.columns) - set(kept)
            missing = missing.reindex(index=matrix.index, columns=matrix.columns, fill_value=False)
    return rank_table(matrix, pd.Series(True, index=matrix.index, dtype=bool), missing), labels


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
            "The paper's standard error is over three replicates, ours over all splits and seeds that were run.",
            "More than noise: the difference exceeds 95 % intervals, the paper's and ours combined: by Student's t "
            "over replicates and splits, or by our bootstrap over test rows if that is wider.",
        ),
    )


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
