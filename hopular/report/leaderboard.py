"""The leaderboard: one table of all methods, for the terminal, Markdown, CSV, LaTeX and the HTML page."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from hopular import formatting
from hopular.evaluation.cost import cost_table
from hopular.evaluation.ranks import rank_results, summary
from hopular.evaluation.results import Results
from hopular.evaluation.scores import directions, failed_units, leaderboard_matrix, missing_units, relative_scores
from hopular.evaluation.scores import without_doubtful as sound_only
from hopular.evaluation.significance import full_methods
from hopular.methods import methods

if TYPE_CHECKING:
    from rich.table import Table

OURS = "hopular"  # the method that the benchmark is about
LATEX = {
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
}


@dataclass(frozen=True)
class Column:
    """A column as readers see it: its heading, how its values are written, and which end of it is the better one."""

    name: str
    heading: str
    write: Callable[[Any], str] = str
    better: Literal["low", "high"] | None = None  # None for words
    note: str = ""
    bounds: tuple[str, str] | None = None  # columns of its interval, which is written behind it

    def text(self, row: Mapping[Hashable, Any]) -> str:
        """A row's value in this column."""
        written = self.write(row[self.name])
        low, high = (row[name] for name in self.bounds) if self.bounds else (math.nan, math.nan)
        return f"{written} ({low:.3g}–{high:.3g})" if math.isfinite(low) and math.isfinite(high) else written


COLUMNS = (
    Column("place", "#", formatting.whole, "low"),
    Column("title", "Method"),
    Column("group", "Group"),
    Column(
        "mean_rank", "Mean rank", formatting.number, "low", "over datasets; 1 is best, ties share their average place"
    ),
    Column(
        *("median_rank", "Median rank", formatting.number, "low", "over datasets, with its 95 % interval"),
        bounds=("median_low", "median_high"),
    ),
    Column(
        "sound_rank", "Without doubtful", formatting.number, "low", "mean rank without datasets with serious findings"
    ),
    Column(
        *("sound_median", "Median without doubtful", formatting.number, "low"),
        "median rank over datasets without serious findings",
    ),
    Column(
        "relative", "Relative score", formatting.number, "high", "per dataset 1 for the best method and 0 for the worst"
    ),
    Column("wins", "Wins", formatting.whole, "high", "datasets on which no method was better"),
    Column("datasets", "Datasets", formatting.whole, "high", "on which it has a rank"),
    Column("failed", "Failed", formatting.whole, "low", "dataset x split pairs; a method that failed ranks last there"),
    Column("seconds", "Training", formatting.seconds, "low", "mean duration of one training"),
    Column("memory", "Memory", formatting.memory, "low", "peak of a training process"),
)


# What a narrow terminal does without, the first of them first.
LUXURY = ("sound_median", "group", "datasets", "median_rank", "relative", "memory", "wins")


def leaderboard(results: Results) -> pd.DataFrame:
    """All methods, the best mean rank first; behind them, without a `place`, those that were not run on every dataset.

    A mean over fewer datasets is another figure, and may be good because they were the easy ones. `rank_low` and
    `rank_high` bound a 95 % interval of the mean rank, `median_low` and `median_high` of the median; `sound_rank` and
    `sound_median` are without datasets that have serious audit findings, `sound_place` is the place by the mean.
    """
    table = rank_results(results)
    ranks = summary(table)
    is_full = ranks.index.isin(full_methods(table))
    ranks = pd.concat([ranks[is_full], ranks[~is_full]])
    has_place = ranks.index.isin(full_methods(table))
    sound = summary(rank_results(sound_only(results)), rounds=1).reindex(ranks.index)
    relative = relative_scores(leaderboard_matrix(results), directions(results), missing_units(results))
    cost = cost_table(results).reindex(ranks.index)
    failed = pd.Series([unit.method for unit in failed_units(results)], dtype=object).value_counts()
    board = pd.DataFrame(
        {
            "place": ranks["mean"].where(has_place).rank(method="min"),
            "title": [results.title(name) for name in ranks.index],
            "group": [group_of(name) for name in ranks.index],
            "mean_rank": ranks["mean"],
            "median_rank": ranks["median"],
            "rank_low": ranks["low"],
            "rank_high": ranks["high"],
            "median_low": ranks["median_low"],
            "median_high": ranks["median_high"],
            "sound_rank": sound["mean"],
            "sound_median": sound["median"],
            "sound_place": sound["mean"].where(has_place).rank(method="min"),
            "relative": relative.reindex(ranks.index),
            "wins": ranks["wins"],
            "datasets": ranks["count"],
            "failed": failed.reindex(ranks.index, fill_value=0).astype(int),
            "seconds": cost["seconds"],
            "memory": cost["memory"],
        },
        index=ranks.index,
    )
    return board.reset_index(names="method")


def group_of(name: str) -> str:
    """A method's group."""
    found = methods().get(name)
    return found.group if found else "other"


def shown_columns(board: pd.DataFrame) -> list[Column]:
    """The columns that say something: failures and doubtful datasets only if there are any."""
    idle = set()
    if not board["failed"].any():
        idle.add("failed")
    if board["sound_rank"].equals(board["mean_rank"]):
        idle |= {"sound_rank", "sound_median"}
    if board["datasets"].nunique() == 1:
        idle.add("datasets")
    return [column for column in COLUMNS if column.name not in idle]


def to_rich(board: pd.DataFrame, title: str = "Leaderboard", width: int = 120) -> Table:
    """For the terminal; a narrow one gets the columns that matter most."""
    from rich.table import Table
    from rich.text import Text

    columns = _fitting(board, width)
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.heading, justify="right" if column.better else "left", no_wrap=True)
    for method, cells in zip(board["method"], _cells(board, columns), strict=True):
        style = "bold cyan" if method == OURS else ""
        table.add_row(*(Text(cell, style=style) for cell in cells))
    return table


def to_markdown(board: pd.DataFrame) -> str:
    """For a pull request, a README or a Prefect artifact."""
    columns = shown_columns(board)
    lines = [[column.heading for column in columns], ["---:" if column.better else "---" for column in columns]]
    lines += [[_plain_markdown(cell) for cell in cells] for cells in _cells(board, columns)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def to_csv(board: pd.DataFrame) -> str:
    """For other programs: all columns, full precision."""
    return board.to_csv(index=False, lineterminator="\n")


def to_latex(board: pd.DataFrame) -> str:
    """For a paper; needs the package booktabs."""
    columns = shown_columns(board)
    rows = [[column.heading for column in columns], *_cells(board, columns)]
    head, *body = (" & ".join(escape_latex(cell) for cell in cells) + r" \\" for cells in rows)
    shape = "".join("r" if column.better else "l" for column in columns)
    return "\n".join(
        [rf"\begin{{tabular}}{{{shape}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""]
    )


def escape_latex(words: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(LATEX.get(letter, letter) for letter in words)


def _fitting(board: pd.DataFrame, width: int) -> list[Column]:
    """The columns shown, without as many of LUXURY as it takes to keep within a width."""
    columns = shown_columns(board)
    rows = board.to_dict("records")
    widths = {column.name: max(map(len, [column.heading, *map(column.text, rows)])) for column in columns}
    for name in LUXURY:
        if sum(widths.values()) + 2 * (len(widths) - 1) <= width:
            break
        widths.pop(name, None)
    return [column for column in columns if column.name in widths]


def _cells(board: pd.DataFrame, columns: list[Column]) -> list[list[str]]:
    return [[column.text(row) for column in columns] for row in board.to_dict("records")]


def _plain_markdown(cell: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    escaped = "".join(f"\\{letter}" if letter in "\\`*_[]|~" else letter for letter in cell)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
