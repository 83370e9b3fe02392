"""`hopular report`, `compare` and `paper`: show results from the tracking store again."""

from __future__ import annotations

import math
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from hopular.cli.screen import Json, console, say, show_json, show_table
from hopular.formatting import plural

if TYPE_CHECKING:
    import pandas as pd

    from hopular.evaluation.compare import Comparison
    from hopular.evaluation.results import Results
    from hopular.evaluation.verdict import Standings

Benchmarks = Annotated[str, Parameter(help="Ids of benchmarks; several are merged. The default is the latest.")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"], help="File to write.")]
Form = Annotated[Literal["html", "terminal", "markdown", "csv", "latex"], Parameter(name=["--form", "-f"])]
List = Annotated[bool, Parameter(name=["--list", "-l"], negative="", show_default=False, help="List the benchmarks.")]


def report(
    *benchmarks: Benchmarks,
    output: Output = None,
    form: Form = "html",
    list: List = False,
    json: Json = False,
) -> None:
    """Write the report of a benchmark again, from the tracking store alone.

    For example
      hopular report --list
      hopular report small-quick-1a2b3c4d -o report.html
      hopular report A B --form latex
    """
    if list:
        _show_list(json)
        return
    from hopular.evaluation.verdict import Standings

    standings = Standings(_load(*benchmarks))
    if json:
        show_json({"id": standings.results.id, "leaderboard": _records(standings.table)})
    elif form == "html":
        from hopular.paper.footprint import kept_footprint
        from hopular.report.page import write_report

        path = output or Path(f"{standings.results.id}.html")
        write_report(standings, path, footprint=kept_footprint())
        say(f"report   {path.resolve()}")
    else:
        _write(standings, form, output)


def _write(standings: Standings, form: str, output: Path | None) -> None:
    """Write the leaderboard in one of its plain forms, to a file or to standard output."""
    from hopular.report.leaderboard import to_csv, to_latex, to_markdown, to_rich

    if form == "terminal":
        console().print(to_rich(standings.table, standings.results.id, console().width))
        return
    text = {"markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form](standings.table)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
        say(f"written  {output.resolve()}")


def _show_list(is_json: bool) -> None:
    from dataclasses import asdict

    from flows.tracking.store import open_store
    from flows.tracking.summary import list_benchmarks

    found = list_benchmarks(open_store())
    if is_json:
        show_json([asdict(benchmark) for benchmark in found])
        return
    rows = [(item.id, item.created[:16].replace("T", " "), item.datasets, item.methods) for item in found]
    show_table(("benchmark", "finished (UTC)", "datasets", "methods"), rows)


def compare(
    before: Annotated[str, Parameter(help="Id of the earlier benchmark.")],
    after: Annotated[str, Parameter(help="Id of the later benchmark.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Show what changed between two benchmarks, and whether it is noise.

    For example
      hopular compare demo-smoke-1a2b3c4d demo-quick-5e6f7a8b
    """
    from hopular.evaluation.compare import compare as compare_results

    changes = compare_results(_load(before), _load(after))
    if json:
        tables = {"leaders": _records(changes.leaders), "scores": _records(changes.scores)}
        show_json({**tables, **{name: getattr(changes, name) for name in (*_LISTS, *_PAIRS, "renamed")}})
        return
    _show_changes(changes)


# Fields of a comparison: lists of names, and lists of datasets with methods.
_LISTS = ("new_datasets", "gone_datasets", "changed_datasets", "new_methods", "gone_methods")
_PAIRS = ("newly_failed", "recovered")


def _show_changes(changes: Comparison) -> None:
    for what in _LISTS:
        if names := getattr(changes, what):
            say(f"{what.replace('_', ' ')}: {', '.join(names)}")
    for old, new in changes.renamed:
        say(f"not the same method: {old} before, {new} now")
    for what in _PAIRS:
        if pairs := getattr(changes, what):
            say(f"{what.replace('_', ' ')}: {', '.join(f'{method} on {dataset}' for dataset, method in pairs)}")
    leaders = changes.leaders[changes.leaders["is_changed"]]
    if len(leaders):
        lead = {None: "unknown", True: "noise", False: "real"}
        rows = [
            (str(row["dataset"]), row["before"] or "none", row["after"] or "none", lead[row["is_noise"]])
            for row in leaders.to_dict("records")
        ]
        show_table(("dataset", "led before", "leads now", "its lead is"), rows)
    if len(changes.moved):
        moved = [
            (
                *(row["dataset"], row["method"], row["metric"], f"{row['before']:z.4g}", f"{row['after']:z.4g}"),
                "better" if row["is_better"] else "worse",
            )
            for row in changes.moved.to_dict("records")
        ]
        show_table(("dataset", "method", "metric", "before", "after", "is"), moved, right=("before", "after"))
    scores = f"{len(changes.moved)} of {plural(len(changes.scores), 'score')} moved by more than noise"
    say(f"{scores}; {plural(len(leaders), 'new leader')}.")


def paper(
    *benchmarks: Benchmarks,
    footprint: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Measure memory and step time here, and keep the figures."),
    ] = False,
    json: Json = False,
) -> None:
    """Print the paper's tables with our figures beside them.

    For example
      hopular paper
      hopular paper small-paper-1a2b3c4d
    """
    from hopular.evaluation.verdict import Standings
    from hopular.paper.footprint import Case, kept_footprint, measure_paper
    from hopular.paper.tables import paper_tables

    def announce(case: Case) -> None:
        console(stderr=True).print(
            f"measuring {case.method}, {case.model} model, {case.batch} batch, "
            f"{case.rows:,} rows x {plural(case.features, 'feature')}",
            style="dim",
        )

    standings = Standings(_load(*benchmarks))
    measured = measure_paper(announce) if footprint else kept_footprint()
    tables = paper_tables(standings, measured)
    if json:
        show_json({table.name: _records(table.frame) for table in tables})
        return
    for table in tables:
        say(f"\n{table.title} ({table.source})", style="bold")
        frame = table.frame.drop(columns="note", errors="ignore")
        show_table(list(frame.columns), [tuple(_cell(value) for value in row) for row in frame.itertuples(index=False)])
        for note in (*table.notes, *_notes_of_rows(table.frame)):
            say(note, style="dim")


def _notes_of_rows(frame: pd.DataFrame) -> list[str]:
    """Return the notes on rows of a table, each once: a column of sentences is too wide for a terminal."""
    if "note" not in frame.columns:
        return []
    noted = frame[frame["note"] != ""].groupby("note", sort=False)["title"]
    return [f"{', '.join(titles)}: {note}" for note, titles in noted]


def _records(table: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """Return the rows of a table for JSON, where NaN and infinity become null."""
    return [
        {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()}
        for row in table.to_dict("records")
    ]


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return "" if value != value else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:z.4g}"
    return str(value)


def _load(*benchmarks: str) -> Results:
    """Load the results of benchmarks from the tracking store and merge them; by default those of the latest."""
    from flows.tracking.store import open_store
    from flows.tracking.summary import load_results
    from hopular.evaluation.compare import merge

    client = open_store()
    if not benchmarks:
        return load_results(client)
    found = [load_results(client, name) for name in benchmarks]
    return found[0] if len(found) == 1 else merge(found)
