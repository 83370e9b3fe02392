"""Write the leaderboard, the table of `Standings`, for the terminal, Markdown, CSV, LaTeX and the HTML page."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from hopular import formatting

if TYPE_CHECKING:
    from rich.table import Table

OURS = "hopular"  # the method that the benchmark is about
_LATEX = {
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
    """A column as readers see it: its heading, how its values are written, and which end of it is better."""

    name: str
    heading: str
    write: Callable[[Any], str] = str
    better: Literal["low", "high"] | None = None  # None for text
    note: str = ""
    bounds: tuple[str, str] | None = None  # columns of its interval, which follows in brackets

    def text(self, row: Mapping[Hashable, Any]) -> str:
        """Write a row's value in this column."""
        written = self.write(row[self.name])
        low, high = (row[name] for name in self.bounds) if self.bounds else (math.nan, math.nan)
        return f"{written} ({low:.3g}–{high:.3g})" if math.isfinite(low) and math.isfinite(high) else written


COLUMNS = (
    Column("place", "#", formatting.whole, "low"),
    Column("title", "Method"),
    Column("group", "Group"),
    Column(
        "mean_rank", "Mean rank", formatting.number, "low", "over datasets; 1 is best, ties share their average rank"
    ),
    Column(
        *("median_rank", "Median rank", formatting.number, "low", "over datasets, with its 95 % interval"),
        bounds=("median_low", "median_high"),
    ),
    Column(
        "sound_rank", "Without doubtful", formatting.number, "low", "mean rank over datasets without serious findings"
    ),
    Column(
        *("sound_median", "Median without doubtful", formatting.number, "low"),
        "median rank over datasets without serious findings",
    ),
    Column(
        "relative",
        "Relative score",
        formatting.number,
        "high",
        "on each dataset 1 for the best method, 0 for the worst",
    ),
    Column("wins", "Wins", formatting.whole, "high", "datasets on which no method was better"),
    Column("datasets", "Datasets", formatting.whole, "high", "on which it has a rank"),
    Column("failed", "Failed", formatting.whole, "low", "units that failed; a method ranks last where it failed"),
    Column("seconds", "Training", formatting.seconds, "low", "mean time of one training"),
    Column("memory", "Memory", formatting.memory, "low", "peak memory of a training process"),
)
# The columns that a narrow terminal drops, in this order.
_DISPENSABLE = ("sound_median", "group", "datasets", "median_rank", "relative", "memory", "wins")


def shown_columns(board: pd.DataFrame) -> list[Column]:
    """Return the columns that say something: failures and doubtful datasets only if there are any."""
    idle = set()
    if not board["failed"].any():
        idle.add("failed")
    if board["sound_rank"].equals(board["mean_rank"]):
        idle |= {"sound_rank", "sound_median"}
    if board["datasets"].nunique() == 1:
        idle.add("datasets")
    return [column for column in COLUMNS if column.name not in idle]


def to_rich(board: pd.DataFrame, title: str, width: int) -> Table:
    """Write it for a terminal; a narrow one gets the columns that matter most."""
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
    """Write it for a pull request, a README or a Prefect artifact."""
    columns = shown_columns(board)
    lines = [[column.heading for column in columns], ["---:" if column.better else "---" for column in columns]]
    lines += [[_escape_markdown(cell) for cell in cells] for cells in _cells(board, columns)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def to_csv(board: pd.DataFrame) -> str:
    """Write it for other programs: all columns in full precision."""
    return board.to_csv(index=False, lineterminator="\n")


def to_latex(board: pd.DataFrame) -> str:
    """Write it for a paper; needs the package booktabs."""
    columns = shown_columns(board)
    rows = [[column.heading for column in columns], *_cells(board, columns)]
    head, *body = (" & ".join(_escape_latex(cell) for cell in cells) + r" \\" for cells in rows)
    shape = "".join("r" if column.better else "l" for column in columns)
    return "\n".join(
        [rf"\begin{{tabular}}{{{shape}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""]
    )


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _fitting(board: pd.DataFrame, width: int) -> list[Column]:
    """Return the shown columns that fit into a width."""
    columns = shown_columns(board)
    rows = board.to_dict("records")
    widths = {column.name: max(map(len, [column.heading, *map(column.text, rows)])) for column in columns}
    for name in _DISPENSABLE:
        if sum(widths.values()) + 2 * (len(widths) - 1) <= width:
            break
        widths.pop(name, None)
    return [column for column in columns if column.name in widths]


def _cells(board: pd.DataFrame, columns: list[Column]) -> list[list[str]]:
    return [[column.text(row) for column in columns] for row in board.to_dict("records")]


def _escape_markdown(cell: str) -> str:
    """Escape what Markdown would interpret, on one line."""
    escaped = "".join(f"\\{letter}" if letter in "\\`*_[]|~" else letter for letter in cell)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
