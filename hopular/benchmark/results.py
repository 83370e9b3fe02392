"""Results of a benchmark: collected from its units, and written as files that people read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from hopular import settings
from hopular.benchmark.plan import Plan
from hopular.evaluation.compare import Comparison
from hopular.evaluation.results import DatasetFacts, Results, UnitResult, describe_machine, make_table
from hopular.evaluation.verdict import Standings
from hopular.paper.footprint import kept_footprint
from hopular.report.leaderboard import to_csv, to_latex, to_markdown
from hopular.report.page import write_plots, write_report
from hopular.util import OperationError


class BenchmarkError(OperationError):
    """Nothing came of a benchmark; the message says what went wrong first."""


def collect(plan: Plan, benchmark: str, datasets: Sequence[DatasetFacts], units: Sequence[UnitResult]) -> Results:
    """Return the results of a benchmark, failed units included; BenchmarkError if every unit failed."""
    if all(unit.state == "failed" for unit in units):
        first = units[0]
        what = f"{first.method} on {first.dataset} {first.split}"
        raise BenchmarkError(f"every unit failed, first {what}: {first.reason}")
    return Results(
        id=benchmark,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        scores=make_table(score for unit in units for score in unit.scores),
        datasets=tuple(datasets),
        units=tuple(units),
        settings=plan.public(),
        provenance={"machine": describe_machine(), "seed": str(plan.seed), "runner": plan.runner},
        command=plan.command(),
    )


def report_folder(benchmark: str) -> Path:
    """Return where the files of a benchmark's report are on this machine."""
    return settings.runs_folder() / "reports" / benchmark


def write_files(standings: Standings, changes: Comparison | None = None) -> Path:
    """Write results, report, leaderboard in every form and plots into the report's folder; return the page's path."""
    folder, table = report_folder(standings.results.id), standings.table
    standings.results.save(folder)
    page = write_report(standings, folder / "report.html", changes=changes, footprint=_footprint())
    for name, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table))):
        (folder / f"leaderboard.{name}").write_text(text, encoding="utf-8")
    write_plots(standings, folder / "plots")
    return page


def _footprint() -> pd.DataFrame | None:
    """Return what was measured on this machine; a damaged file of it is no reason to lose a benchmark's report."""
    try:
        return kept_footprint()
    except ValueError as error:
        logging.getLogger(__name__).warning("%s", error)
        return None
