"""Write the report: one HTML file with everything in it, that needs no network and no other file."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pandas as pd

from hopular import formatting
from hopular.evaluation.compare import Comparison
from hopular.evaluation.metrics import METRICS, PRIMARY
from hopular.evaluation.results import Maker, Results, UnitResult
from hopular.evaluation.results import title as title_of
from hopular.evaluation.verdict import Standings
from hopular.paper.tables import PaperTable, paper_tables
from hopular.report import plots
from hopular.report.leaderboard import OURS, shown_columns, to_csv, to_latex, to_markdown
from hopular.report.sections import (
    cost_plots,
    dataset_sections,
    leader_chances,
    pair_table,
    rank_marks,
    significance,
)
from hopular.report.templates import FOLDER, in_two, load_template, moment

# The page's style for a plot in a file of its own, which has no dark mode.
_ALONE = "svg.plot { color-scheme: light; background: var(--page); font-family: system-ui, sans-serif; }"

# Headings of the paper's tables that are not just the names of their columns.
_HEADINGS = {
    "title": "Method",
    "origin": "Accuracies",
    "low": "95 % from",
    "high": "95 % to",
    "paper_error": "Paper's std. error",
    "ours_error": "Our std. error",
    "ours_sound": "Ours without doubtful",
    "ours_continuous": "Ours, continuous",
    "ours_categorical": "Ours, categorical",
    "is_more_than_noise": "More than noise",
    "is_out_of_memory": "Out of memory",
}


_Tile = tuple[str, str, str]  # a figure at the top of the page: its label, value and note


def write_report(
    standings: Standings,
    path: Path,
    *,
    changes: Comparison | None = None,
    footprint: pd.DataFrame | None = None,
) -> Path:
    """Write the page and return its path; `footprint` is what `hopular.paper.footprint` measured on this device."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(standings, changes=changes, footprint=footprint), encoding="utf-8")
    return path


def write_plots(standings: Standings, folder: Path) -> None:
    """Write the report's plots as files of their own, with the style that they have on the page."""
    drawn = {"ranks": significance(standings)[0]}
    drawn |= {f"cost-{number}": plot for number, plot in enumerate(cost_plots(standings), 1)}
    css = (FOLDER / "page.css").read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, plot in drawn.items():
        if plot:
            (folder / f"{name}.svg").write_text(plots.stand_alone(str(plot), css + _ALONE), encoding="utf-8")


def render(
    standings: Standings,
    *,
    changes: Comparison | None = None,
    footprint: pd.DataFrame | None = None,
) -> str:
    """Return the page as text."""
    results, board = standings.results, standings.table
    diagram, sentences = significance(standings)
    rows = [{**row, "mark": mark} for row, mark in zip(board.to_dict("records"), rank_marks(board), strict=True)]
    return load_template("template.html.jinja").render(
        headline=in_two(standings.headline),
        results=results,
        meta=_meta(results, board),
        tiles=_tiles(standings),
        judged_by=" or ".join(
            METRICS[PRIMARY[task]].title.lower() for task in sorted({f.task for f in results.datasets})
        ),
        columns=[column for column in shown_columns(board) if column.name != "group"],  # a colour shows it
        board=rows,
        has_rank_intervals=bool(board["rank_low"].notna().any()),
        copies={"Markdown": to_markdown(board), "CSV": to_csv(board), "LaTeX": to_latex(board)},
        notices=_notices(standings),
        changes=_changes(changes) if changes else None,
        diagram=diagram,
        sentences=sentences,
        pairs=pair_table(standings),
        chances=leader_chances(standings),
        costs=cost_plots(standings),
        groups=list(dict.fromkeys(board["group"])),
        sections=dataset_sections(standings),
        has_ours=OURS in set(board["method"]),
        ours_title=results.title(OURS),
        paper=[(table, *_columns_and_rows(table)) for table in paper_tables(standings, footprint)],
        failures=standings.failed,
        makers=_makers(results),
    )


def _meta(results: Results, board: pd.DataFrame) -> list[str]:
    splits = len({(unit.dataset, unit.split) for unit in results.units})
    counts = ((len(results.datasets), "dataset"), (len(board), "method"), (splits, "split"))
    return [*(formatting.plural(count, noun) for count, noun in counts), moment(results.created)]


def _tiles(standings: Standings) -> list[_Tile]:
    results, placed = standings.results, standings.table[standings.table["place"].notna()]
    tiles = []
    best = placed[placed["place"] == 1]
    if len(best):
        leader = best["title"].iloc[0] if len(best) == 1 else f"{len(best)} methods tie"
        tiles.append(("Best mean rank", leader, f"mean rank {formatting.number(best['mean_rank'].iloc[0])}"))
    for _, mine in placed[placed["method"] == OURS].iterrows():
        place = f"{formatting.place(mine['place'])} of {len(placed)}"
        tiles.append((mine["title"], place, f"mean rank {formatting.number(mine['mean_rank'])}"))
    doubtful = sum(facts.is_doubtful for facts in results.datasets)
    note = f"{doubtful} with serious findings" if doubtful else "none with serious findings"
    return [*tiles, ("Datasets", formatting.whole(len(results.datasets)), note), *_run_tiles(standings)]


def _run_tiles(standings: Standings) -> list[_Tile]:
    """Show how many searches were run, and for how long."""
    results, failed = standings.results, len(standings.failed)
    note = f"{failed} failed" if failed else "none failed"
    searches = formatting.whole(len(results.units))
    tiles = [("Searches", searches, note)]
    spent = sum(unit.search_seconds for unit in results.units)
    if spent:
        tiles.append(("Search time", formatting.seconds(spent), "summed over all processes"))
    return tiles


def _notices(standings: Standings) -> list[str]:
    """Say what a reader must know to trust the leaderboard no more than it deserves."""
    results, board = standings.results, standings.table
    notices = []
    doubtful = [facts.name for facts in results.datasets if facts.is_doubtful]
    if doubtful:
        effect = "Without doubtful datasets, every method keeps its place."
        moved = board[(board["sound_place"] != board["place"]) & board["sound_place"].notna() & board["place"].notna()]
        if board["sound_place"].isna().all():
            effect = "There are no other datasets to rank by."
        elif len(moved):
            places = (f"{row['title']} {row['place']:.0f} → {row['sound_place']:.0f}" for _, row in moved.iterrows())
            effect = f"Without doubtful datasets, places change: {', '.join(places)}."
        notices.append(f"The audit found something serious in {', '.join(doubtful)}. {effect}")
    partial = board[board["place"].isna() & (board["datasets"] > 0)]
    if len(partial):
        notices.append(
            f"Without a place, because they were not run on every dataset: {', '.join(partial['title'])}. "
            "Their mean ranks are over the datasets they were run on."
        )
    if failed := standings.failed:
        names = ", ".join(dict.fromkeys(results.title(unit.method) for unit in failed))
        searches = formatting.plural(len(results.units), "search")
        notices.append(f"{len(failed)} of {searches} failed ({names}); see Failures.")
    return notices


def _makers(results: Results) -> list[tuple[str, str, Maker]]:
    """Return titles of methods, their units, and what those were made with: in one row unless that differs."""
    groups: dict[tuple[Any, ...], list[tuple[UnitResult, Maker]]] = defaultdict(list)
    for unit in results.units:
        if (maker := unit.maker) is not None:
            same = (maker.commit, maker.code, tuple(maker.versions.items()), maker.device)
            groups[unit.method, *same].append((unit, maker))
    counts = Counter(unit.method for unit in results.units)
    return [
        (
            results.title(method),
            formatting.plural(len(units), "unit")
            if len(units) == counts[method]
            else ", ".join(f"{unit.dataset} {unit.split}" for unit, _ in units),
            min((maker for _, maker in units), key=lambda maker: maker.made),
        )
        for (method, *_), units in groups.items()
    ]


def _changes(changes: Comparison) -> dict[str, Any]:
    """Describe a comparison, with titles for names."""
    moved, leaders = changes.moved, changes.leaders[changes.leaders["is_changed"]]
    lists = (
        ("New datasets", changes.new_datasets),
        ("Datasets no longer included", changes.gone_datasets),
        ("Datasets whose contents changed, so that their scores are not compared", changes.changed_datasets),
        ("New methods", [title_of(name) for name in changes.new_methods]),
        ("Methods no longer included", [title_of(name) for name in changes.gone_methods]),
        ("Not the same method", [f"{old} before, {new} now" for old, new in changes.renamed]),
        ("Newly failed", [f"{title_of(method)} on {dataset}" for dataset, method in changes.newly_failed]),
        ("No longer failing", [f"{title_of(method)} on {dataset}" for dataset, method in changes.recovered]),
    )
    summary = (
        f"{len(moved)} of {formatting.plural(len(changes.scores), 'score')} moved by more than noise; "
        f"{len(leaders)} of {formatting.plural(len(changes.leaders), 'dataset')} "
        f"{'has' if len(leaders) == 1 else 'have'} a new leader."
    )
    return {
        "before": changes.before,
        "sentences": [summary, *(f"{label}: {', '.join(names)}." for label, names in lists if names)],
        "leaders": [
            {**row, "before": _titles(row["before"]), "after": _titles(row["after"])}
            for row in leaders.to_dict("records")
        ],
        "moved": [
            {**row, "method": title_of(row["method"]), "metric": METRICS[row["metric"]].title}
            for row in moved.to_dict("records")
        ],
    }


def _titles(names: str) -> str:
    return ", ".join(title_of(name) for name in names.split(", ")) if names else "none"


# -------------------------------------------------------------------------------------------------- the paper's tables


def _columns_and_rows(table: PaperTable) -> tuple[list[tuple[str, bool]], list[tuple[tuple[Any, str], ...]]]:
    """Return the heading of each column and whether it has numbers; and rows, of each cell what to sort by and show."""
    frame = table.frame
    if "title" in frame.columns:  # the paper's name of a method says more than ours
        frame = frame.drop(columns="method")
    if "method" in frame.columns:
        frame = frame.assign(method=[title_of(name) for name in frame["method"]])
    columns = [
        (
            _HEADINGS.get(name, name.replace("_", " ").capitalize()),
            pd.api.types.is_numeric_dtype(frame[name]) and not pd.api.types.is_bool_dtype(frame[name]),
        )
        for name in frame.columns
    ]
    cells = [_cells(frame[name], is_difference=name == "difference") for name in frame.columns]
    return columns, list(zip(*cells, strict=True))


def _cells(values: pd.Series[Any], *, is_difference: bool) -> list[tuple[Any, str]]:
    """Return what to sort by and what to show, with the same digits after the point in a whole column."""
    if pd.api.types.is_bool_dtype(values):
        return [("yes", "yes") if value else ("", "") for value in values]
    if not pd.api.types.is_numeric_dtype(values):
        return [("", formatting.UNKNOWN) if pd.isna(value) else (value, str(value)) for value in values]
    digits = 0 if (values.dropna() % 1 == 0).all() else 2
    return [_number(float(value), digits, is_difference) for value in values]


def _number(value: float, digits: int, is_difference: bool) -> tuple[Any, str]:
    if not math.isfinite(value):
        return "", formatting.UNKNOWN
    sign = "−" if value < 0 else "+" if is_difference and value > 0 else ""
    return value, f"{sign}{abs(value):,.{digits}f}"
