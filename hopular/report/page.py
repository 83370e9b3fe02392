"""Write the report: one HTML file with everything in it, that needs no network and no other file."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hopular import formatting
from hopular.evaluation.compare import Comparison
from hopular.evaluation.metrics import METRICS, PRIMARY
from hopular.evaluation.results import Delivered, Maker, Results, UnitResult, model_title
from hopular.evaluation.results import title as title_of
from hopular.evaluation.scores import untried_units
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


@dataclass(frozen=True)
class _ModelView:
    """The model that a fit hands out, as the page shows it."""

    method: str
    title: str
    sentence: str  # which rows it was trained on
    members: tuple[tuple[str, str, float, int], ...]  # title, group, weight, rows
    metrics: tuple[tuple[str, float], ...]  # on the test rows, of models trained on the training rows alone


@dataclass(frozen=True)
class _Tile:
    """One figure at the top of the page."""

    label: str
    value: str
    note: str


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
    drawn = {"ranks": significance(standings).diagram}
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
    rows = [{**row, "mark": mark} for row, mark in zip(board.to_dict("records"), rank_marks(board), strict=True)]
    return load_template("template.html.jinja").render(
        headline=in_two(standings.headline),
        model=_model(results),
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
        significance=significance(standings),
        pairs=pair_table(standings),
        chances=leader_chances(standings),
        costs=cost_plots(standings),
        groups=list(dict.fromkeys(board["group"])),
        sections=dataset_sections(standings),
        has_ours=OURS in set(board["method"]),
        ours_title=results.title(OURS),
        paper=_paper_views(standings, footprint),
        failures=[(results.title(unit.method), unit) for unit in standings.failed],
        command=results.command,
        provenance=results.made_with,
        makers=_makers(results),
        settings=results.settings,
        id=results.id,
        created=moment(results.created),
    )


def _meta(results: Results, board: pd.DataFrame) -> list[str]:
    splits = len({(unit.dataset, unit.split) for unit in results.units})
    counts = ((len(results.datasets), "dataset"), (len(board), "method"), (splits, "split"))
    return [*(formatting.plural(count, noun) for count, noun in counts), moment(results.created)]


def _model(results: Results) -> _ModelView | None:
    delivered = results.delivered
    if delivered is None:
        return None
    scores = results.scores[results.scores["method"] == delivered.method].set_index("metric")["value"]
    title = model_title([(results.title(name), weight) for name, weight, _ in delivered.members])
    return _ModelView(
        delivered.method,
        title[0].upper() + title[1:],
        delivered.trained_on[0].upper() + delivered.trained_on[1:],
        tuple((results.title(name), results.group(name), weight, rows) for name, weight, rows in delivered.members),
        tuple((METRICS[str(name)].title, float(value)) for name, value in scores.items()),
    )


def _tiles(standings: Standings) -> list[_Tile]:
    results, placed = standings.results, standings.table[standings.table["place"].notna()]
    if results.delivered is not None:
        return [*_model_tiles(results, results.delivered), *_run_tiles(standings)]
    tiles = []
    best = placed[placed["place"] == 1]
    if len(best):
        leader = best["title"].iloc[0] if len(best) == 1 else f"{len(best)} methods tie"
        tiles.append(_Tile("Best mean rank", leader, f"mean rank {formatting.number(best['mean_rank'].iloc[0])}"))
    for _, mine in placed[placed["method"] == OURS].iterrows():
        place = f"{formatting.place(mine['place'])} of {len(placed)}"
        tiles.append(_Tile(mine["title"], place, f"mean rank {formatting.number(mine['mean_rank'])}"))
    doubtful = sum(facts.is_doubtful for facts in results.datasets)
    note = f"{doubtful} with serious findings" if doubtful else "none with serious findings"
    return [*tiles, _Tile("Datasets", formatting.whole(len(results.datasets)), note), *_run_tiles(standings)]


def _model_tiles(results: Results, delivered: Delivered) -> list[_Tile]:
    """Show the fitted model, its score and its rows."""
    task, total = results.datasets[0].task, results.datasets[0].rows
    metric, rows = METRICS[PRIMARY[task]], [rows for _, _, rows in delivered.members]
    scores = results.scores[(results.scores["method"] == delivered.method) & (results.scores["metric"] == metric.name)]
    used = formatting.whole(min(rows)) if min(rows) == max(rows) else f"{min(rows):,} to {max(rows):,}"
    shares = formatting.plural(len(delivered.members), "member")
    return [
        _Tile(
            "The model",
            results.title(delivered.method),
            shares if len(delivered.members) > 1 else "chosen by validation",
        ),
        _Tile(metric.title, formatting.score(float(scores["value"].iloc[0])), "on the test rows"),
        _Tile("Rows trained on", used, f"of {total:,}"),
    ]


def _run_tiles(standings: Standings) -> list[_Tile]:
    """Show how many searches were run, and for how long."""
    results, failed, untried = standings.results, len(standings.failed), len(untried_units(standings.results))
    note = f"{failed} failed" if failed else "none failed"
    searches = formatting.whole(len(results.units) - untried)
    tiles = [_Tile("Searches", searches, f"{note}, {untried} not tried" if untried else note)]
    spent = sum(unit.search_seconds for unit in results.units)
    if spent:
        tiles.append(_Tile("Search time", formatting.seconds(spent), "summed over all processes"))
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
    untried = untried_units(results)
    if untried:
        names = ", ".join(results.title(unit.method) for unit in untried)
        notices.append(f"Not tried, because there was no time for a first fit: {names}.")
    if failed := standings.failed:
        names = ", ".join(dict.fromkeys(results.title(unit.method) for unit in failed))
        searches = formatting.plural(len(results.units) - len(untried), "search")
        notices.append(f"{len(failed)} of {searches} failed ({names}); see Failures.")
    return notices


@dataclass(frozen=True)
class _MakerRow:
    """Units of one method that were made with the same code, libraries and device."""

    title: str
    units: str
    maker: Maker  # of the first of them


def _makers(results: Results) -> list[_MakerRow]:
    """List what the units of each method were made with, in one row unless they differ."""
    groups: dict[tuple[object, ...], list[tuple[UnitResult, Maker]]] = defaultdict(list)
    for unit in results.units:
        if (maker := unit.maker) is not None:
            same = (maker.commit, maker.code, tuple(maker.versions.items()), maker.device)
            groups[unit.method, *same].append((unit, maker))
    counts = Counter(unit.method for unit in results.units)
    return [
        _MakerRow(
            title=results.title(units[0][0].method),
            units=formatting.plural(len(units), "unit")
            if len(units) == counts[units[0][0].method]
            else ", ".join(f"{unit.dataset} {unit.split}" for unit, _ in units),
            maker=min((maker for _, maker in units), key=lambda maker: maker.made),
        )
        for units in groups.values()
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


@dataclass(frozen=True)
class _Heading:
    """A column of a table."""

    heading: str
    is_number: bool


@dataclass(frozen=True)
class _PaperView:
    """A table of the paper, ready to be shown; each cell is a value to sort by and its text."""

    title: str
    note: str
    has_ours: bool
    columns: tuple[_Heading, ...]
    rows: tuple[tuple[tuple[Any, str], ...], ...]


def _paper_views(standings: Standings, footprint: pd.DataFrame | None) -> list[_PaperView]:
    """Return all tables, those first of which something was run here."""
    views = [_view(table) for table in paper_tables(standings, footprint)]
    return sorted(views, key=lambda view: not view.has_ours)


def _view(table: PaperTable) -> _PaperView:
    frame = table.frame
    if "title" in frame.columns:  # the paper's name of a method says more than ours
        frame = frame.drop(columns="method")
    if "method" in frame.columns:
        frame = frame.assign(method=[title_of(name) for name in frame["method"]])
    columns = tuple(
        _Heading(
            _HEADINGS.get(name, name.replace("_", " ").capitalize()),
            pd.api.types.is_numeric_dtype(frame[name]) and not pd.api.types.is_bool_dtype(frame[name]),
        )
        for name in frame.columns
    )
    cells = [_cells(frame[name], is_difference=name == "difference") for name in frame.columns]
    rows = tuple(zip(*cells, strict=True))
    return _PaperView(table.title, " ".join((f"{table.source}.", *table.notes)), table.has_ours, columns, rows)


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
