"""`hopular report`, `compare` and `paper`: results that are in the tracking store, looked at again."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from hopular.cli.screen import Json, console, say, show_json, show_table
from hopular.formatting import plural

if TYPE_CHECKING:
    import pandas as pd

    from hopular.evaluation.results import Results

Benchmarks = Annotated[str, Parameter(help="Ids of benchmarks; several are merged. By default the latest.")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"], help="File to write.")]
Form = Annotated[Literal["html", "terminal", "markdown", "csv", "latex"], Parameter(name=["--form", "-f"])]
List = Annotated[bool, Parameter(name=["--list", "-l"], negative="", show_default=False, help="List what there is.")]


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
    results = load(*benchmarks)
    if json:
        from hopular.report.leaderboard import leaderboard

        show_json({"id": results.id, "leaderboard": records(leaderboard(results))})
        return
    if form == "html":
        from hopular.paper.footprint import kept_footprint
        from hopular.report.page import write_report

        path = output or Path(f"{results.id}.html")
        write_report(results, path, footprint=kept_footprint())
        say(f"report   {path.resolve()}")
        return
    _write(results, form, output)


def _write(results: Results, form: str, output: Path | None) -> None:
    """The leaderboard in one of its plain forms, to a file or to standard output."""
    from hopular.report.leaderboard import leaderboard, to_csv, to_latex, to_markdown, to_rich

    board = leaderboard(results)
    if form == "terminal":
        console().print(to_rich(board, results.id, console().width))
        return
    text = {"markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form](board)
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
    before: Annotated[str, Parameter(help="Id of a benchmark.")],
    after: Annotated[str, Parameter(help="Id of another one.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Show what changed between two benchmarks, and whether it is noise.

    For example
      hopular compare demo-smoke-1a2b3c4d demo-quick-5e6f7a8b
    """
    from hopular.evaluation.compare import compare as compare_results

    changes = compare_results(load(before), load(after))
    if json:
        show_json(
            {
                "leaders": records(changes.leaders),
                "scores": records(changes.scores),
                "new_datasets": changes.new_datasets,
                "gone_datasets": changes.gone_datasets,
                "changed_datasets": changes.changed_datasets,
                "new_methods": changes.new_methods,
                "gone_methods": changes.gone_methods,
                "newly_failed": changes.newly_failed,
                "recovered": changes.recovered,
                "renamed": changes.renamed,
            }
        )
        return
    for what in ("new_datasets", "gone_datasets", "changed_datasets", "new_methods", "gone_methods"):
        if names := getattr(changes, what):
            say(f"{what.replace('_', ' ')}: {', '.join(names)}")
    for old, new in changes.renamed:
        say(f"not the same method: {old} before, {new} now")
    for what in ("newly_failed", "recovered"):
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
            (row["dataset"], row["method"], row["metric"], f"{row['before']:z.4g}", f"{row['after']:z.4g}", _sense(row))
            for row in changes.moved.to_dict("records")
        ]
        show_table(("dataset", "method", "metric", "before", "after", "is"), moved, right=("before", "after"))
    compared = len(changes.scores)
    scores = f"{len(changes.moved)} of {plural(compared, 'score')} moved by more than noise"
    say(f"{scores}; {plural(len(leaders), 'new leader')}.")


def _sense(row: Mapping[Hashable, Any]) -> str:
    return "better" if row["is_better"] else "worse"


def paper(
    *benchmarks: Benchmarks,
    footprint: Annotated[
        bool, Parameter(negative="", show_default=False, help="Measure memory and step time here, once.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the paper's tables with its figures beside ours.

    For example
      hopular paper
      hopular paper small-paper-1a2b3c4d
    """
    from hopular.paper.footprint import Case, kept_footprint, measure_paper
    from hopular.paper.tables import paper_tables

    def announce(case: Case) -> None:
        console(stderr=True).print(
            f"measuring {case.method}, {case.model} model, {case.batch} batch, "
            f"{case.rows:,} rows x {plural(case.features, 'feature')}",
            style="dim",
        )

    results = load(*benchmarks)
    measured = measure_paper(on_case=announce) if footprint else kept_footprint()
    tables = paper_tables(results, measured)
    if json:
        show_json({table.name: records(table.frame) for table in tables})
        return
    for table in tables:
        say(f"\n{table.title} ({table.source})", style="bold")
        frame = table.frame.drop(columns="note", errors="ignore")
        show_table(list(frame.columns), [tuple(_cell(value) for value in row) for row in frame.itertuples(index=False)])
        for note in (*table.notes, *_notes_of_rows(table.frame)):
            say(note, style="dim")


def _notes_of_rows(frame: pd.DataFrame) -> list[str]:
    """The notes on rows of a table, each once; a column of sentences is too wide for a terminal."""
    if "note" not in frame.columns:
        return []
    noted = frame[frame["note"] != ""].groupby("note", sort=False)["title"]
    return [f"{', '.join(titles)}: {note}" for note, titles in noted]


def records(table: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """The rows of a table for JSON, which knows neither NaN nor infinity: both are null."""
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


def load(*benchmarks: str) -> Results:
    """The results of benchmarks from the tracking store, merged; by default the latest."""
    from flows.tracking.store import open_store
    from flows.tracking.summary import load_results
    from hopular.evaluation.compare import merge

    client = open_store()
    if not benchmarks:
        return load_results(client)
    found = [load_results(client, name) for name in benchmarks]
    return found[0] if len(found) == 1 else merge(found)
