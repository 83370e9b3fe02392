"""The report: one HTML file with everything in it, that needs no network and no other file."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup

from hopular import formatting
from hopular.evaluation.compare import Comparison
from hopular.evaluation.metrics import METRICS, PRIMARY
from hopular.evaluation.results import Delivered, Maker, Results, UnitResult, model_title
from hopular.evaluation.results import title as title_of
from hopular.evaluation.scores import failed_units, untried_units
from hopular.evaluation.verdict import headline
from hopular.report.datasets import dataset_sections
from hopular.report.leaderboard import OURS, group_of, leaderboard, shown_columns, to_csv, to_latex, to_markdown
from hopular.report.published import paper_views
from hopular.report.statistics import cost_plots, leader_chances, pair_table, rank_marks, significance

if TYPE_CHECKING:
    from jinja2 import Template

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class ModelView:
    """The model that a fit hands out, as the page shows it."""

    method: str
    title: str
    sentence: str  # which rows it was trained on
    members: tuple[tuple[str, str, float, int], ...]  # title, group, weight, rows
    metrics: tuple[tuple[str, float], ...]  # on the test rows, of models of the training rows alone


@dataclass(frozen=True)
class Tile:
    """One figure at the top of the page."""

    label: str
    value: str
    note: str


def write_report(
    results: Results,
    path: Path,
    *,
    changes: Comparison | None = None,
    footprint: pd.DataFrame | None = None,
) -> Path:
    """Write the page and return its path; `footprint` is what `hopular.paper.footprint` measured on this device."""
    page = render(results, changes=changes, footprint=footprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def render(
    results: Results,
    *,
    changes: Comparison | None = None,
    footprint: pd.DataFrame | None = None,
) -> str:
    """The page as text."""
    board = leaderboard(results)
    sections = dataset_sections(results)
    rows = [{**row, "mark": mark} for row, mark in zip(board.to_dict("records"), rank_marks(board), strict=True)]
    return _template().render(
        headline=_in_two(headline(results)),
        model=_model(results),
        meta=_meta(results, board),
        tiles=_tiles(results, board),
        judged_by=" or ".join(
            METRICS[PRIMARY[task]].title.lower() for task in sorted({f.task for f in results.datasets})
        ),
        columns=[column for column in shown_columns(board) if column.name != "group"],  # its place is taken by a colour
        board=rows,
        has_rank_intervals=bool(board["rank_low"].notna().any()),
        copies={"Markdown": to_markdown(board), "CSV": to_csv(board), "LaTeX": to_latex(board)},
        notices=_notices(results, board),
        changes=_changes(changes) if changes else None,
        significance=significance(results),
        pairs=pair_table(results, list(board["method"])),
        chances=leader_chances(results, board),
        costs=cost_plots(results),
        groups=list(dict.fromkeys(board["group"])),
        sections=sections,
        has_ours=OURS in set(board["method"]),
        ours_title=results.title(OURS),
        paper=paper_views(results, footprint),
        failures=[(results.title(unit.method), unit) for unit in failed_units(results)],
        command=results.command,
        provenance=results.made_with,
        makers=_makers(results),
        settings=results.settings,
        id=results.id,
        created=_moment(results.created),
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined)
    environment.tests["finite"] = math.isfinite
    environment.globals |= {
        "formatting": formatting,
        "moment": _moment,
        "nan": math.nan,
        "ours": OURS,
        "css": Markup((FOLDER / "page.css").read_text(encoding="utf-8")),
        "js": Markup((FOLDER / "page.js").read_text(encoding="utf-8")),
    }
    return environment.get_template("template.html.jinja")


def _in_two(text: str) -> tuple[str, str]:
    """The first sentence, which is the title of the page, and what follows it."""
    first, *rest = re.split(r"(?<=\.) (?=[A-Z0-9])", text, maxsplit=1)
    return first, "".join(rest)


def _meta(results: Results, board: pd.DataFrame) -> list[str]:
    splits = len({(unit.dataset, unit.split) for unit in results.units})
    counts = ((len(results.datasets), "dataset"), (len(board), "method"), (splits, "split"))
    return [*(formatting.plural(count, noun) for count, noun in counts), _moment(results.created)]


def _model(results: Results) -> ModelView | None:
    delivered = results.delivered
    if delivered is None:
        return None
    scores = results.scores[results.scores["method"] == delivered.method].set_index("metric")["value"]
    title = model_title([(results.title(name), weight) for name, weight, _ in delivered.members])
    return ModelView(
        delivered.method,
        title[0].upper() + title[1:],
        delivered.trained_on[0].upper() + delivered.trained_on[1:],
        tuple((results.title(name), group_of(name), weight, rows) for name, weight, rows in delivered.members),
        tuple((METRICS[str(name)].title, float(value)) for name, value in scores.items()),
    )


def _tiles(results: Results, board: pd.DataFrame) -> list[Tile]:
    placed = board[board["place"].notna()]
    if results.delivered is not None:
        return [*_model_tiles(results, results.delivered), *_run_tiles(results)]
    tiles = []
    best = placed[placed["place"] == 1]
    if len(best):
        leader = best["title"].iloc[0] if len(best) == 1 else f"{len(best)} methods tie"
        tiles.append(Tile("Best mean rank", leader, f"mean rank {formatting.number(best['mean_rank'].iloc[0])}"))
    for _, mine in placed[placed["method"] == OURS].iterrows():
        place = f"{formatting.place(mine['place'])} of {len(placed)}"
        tiles.append(Tile(mine["title"], place, f"mean rank {formatting.number(mine['mean_rank'])}"))
    doubtful = sum(facts.is_doubtful for facts in results.datasets)
    note = f"{doubtful} with serious findings" if doubtful else "none with serious findings"
    return [*tiles, Tile("Datasets", formatting.whole(len(results.datasets)), note), *_run_tiles(results)]


def _model_tiles(results: Results, delivered: Delivered) -> list[Tile]:
    """The model, its score and its rows."""
    task, total = results.datasets[0].task, results.datasets[0].rows
    metric, rows = METRICS[PRIMARY[task]], [rows for _, _, rows in delivered.members]
    scores = results.scores[(results.scores["method"] == delivered.method) & (results.scores["metric"] == metric.name)]
    used = formatting.whole(min(rows)) if min(rows) == max(rows) else f"{min(rows):,} to {max(rows):,}"
    shares = formatting.plural(len(delivered.members), "member")
    return [
        Tile(
            "The model",
            results.title(delivered.method),
            shares if len(delivered.members) > 1 else "chosen by validation",
        ),
        Tile(metric.title, formatting.score(float(scores["value"].iloc[0])), "on the test rows"),
        Tile("Rows trained on", used, f"of {total:,}"),
    ]


def _run_tiles(results: Results) -> list[Tile]:
    """Count what was run and for how long."""
    failed, untried = len(failed_units(results)), len(untried_units(results))
    note = f"{failed} failed" if failed else "none failed"
    searches = formatting.whole(len(results.units) - untried)
    tiles = [Tile("Searches", searches, f"{note}, {untried} not tried" if untried else note)]
    spent = sum(unit.search_seconds for unit in results.units)
    if spent:
        tiles.append(Tile("Time of searches", formatting.seconds(spent), "summed over all processes"))
    return tiles


def _notices(results: Results, board: pd.DataFrame) -> list[str]:
    """What a reader of the leaderboard must know to trust it no more than it deserves."""
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
            "Their ranks are means over those alone."
        )
    untried = untried_units(results)
    if untried:
        names = ", ".join(results.title(unit.method) for unit in untried)
        notices.append(f"Not tried, because there was no time for a first fit: {names}.")
    failed = failed_units(results)
    if failed:
        names = ", ".join(dict.fromkeys(results.title(unit.method) for unit in failed))
        searches = formatting.plural(len(results.units) - len(untried), "search")
        notices.append(f"{len(failed)} of {searches} failed ({names}); see Failures.")
    return notices


@dataclass(frozen=True)
class MakerRow:
    """The units of one method that were made with the same."""

    title: str
    units: str
    maker: Maker  # of the first of them


def _makers(results: Results) -> list[MakerRow]:
    """List what the units of each method were made with: in one row, unless they differ."""
    groups: dict[tuple[object, ...], list[tuple[UnitResult, Maker]]] = defaultdict(list)
    for unit in results.units:
        if (maker := unit.maker) is not None:
            same = (maker.commit, maker.code, tuple(maker.versions.items()), maker.device)
            groups[unit.method, *same].append((unit, maker))
    counts = Counter(unit.method for unit in results.units)
    return [
        MakerRow(
            title=results.title(units[0][0].method),
            units=formatting.plural(len(units), "unit")
            if len(units) == counts[units[0][0].method]
            else ", ".join(f"{unit.dataset} {unit.split}" for unit, _ in units),
            maker=min((maker for _, maker in units), key=lambda maker: maker.made),
        )
        for units in groups.values()
    ]


def _changes(changes: Comparison) -> dict[str, Any]:
    """What the comparison comes to, with titles for names."""
    moved, leaders = changes.moved, changes.leaders[changes.leaders["is_changed"]]
    lists = (
        ("New datasets", changes.new_datasets),
        ("Datasets no longer in it", changes.gone_datasets),
        ("Datasets whose contents changed: scores are not compared, leaders are", changes.changed_datasets),
        ("New methods", [title_of(name) for name in changes.new_methods]),
        ("Methods no longer in it", [title_of(name) for name in changes.gone_methods]),
        ("Not the same method", [f"{old} before, {new} now" for old, new in changes.renamed]),
        ("Failed now", [f"{title_of(method)} on {dataset}" for dataset, method in changes.newly_failed]),
        ("Failed before, and no longer", [f"{title_of(method)} on {dataset}" for dataset, method in changes.recovered]),
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


def _moment(created: str) -> str:
    """A moment as people write it; what is not a time stays as it is."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    utc = moment.astimezone(UTC) if moment.tzinfo else moment
    return f"{utc.day} {utc:%B %Y, %H:%M}{' UTC' if moment.tzinfo else ''}"
