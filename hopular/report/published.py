"""The paper's tables with our figures beside them, as the page shows them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hopular.evaluation.results import Results
from hopular.evaluation.verdict import title as title_of
from hopular.paper.published import PaperTable
from hopular.paper.tables import paper_tables
from hopular.report import words

HIDDEN = {"low", "high", "rank"}  # they explain `ours`, which the notes do in words
HEADINGS = {
    "title": "Method",
    "paper_error": "Paper's std. error",
    "ours_error": "Our std. error",
    "ours_continuous": "Ours, continuous",
    "ours_categorical": "Ours, categorical",
    "is_more_than_noise": "More than noise",
    "is_out_of_memory": "Out of memory",
}


@dataclass(frozen=True)
class Heading:
    """A column of a table."""

    heading: str
    is_number: bool


@dataclass(frozen=True)
class PaperView:
    """A table of the paper, ready to be shown: each cell is a value to sort by and its text."""

    title: str
    note: str
    has_ours: bool
    columns: tuple[Heading, ...]
    rows: tuple[tuple[tuple[Any, str], ...], ...]


def paper_views(results: Results, published: pd.DataFrame | None, footprint: pd.DataFrame | None) -> list[PaperView]:
    """All tables, those first of which something was run here."""
    views = [_view(table) for table in paper_tables(results, published, footprint)]
    return sorted(views, key=lambda view: not view.has_ours)


def _view(table: PaperTable) -> PaperView:
    frame = table.frame.drop(columns=[name for name in table.frame.columns if name in HIDDEN])
    if "title" in frame.columns:  # the paper's name of a method says more than ours
        frame = frame.drop(columns="method")
    if "method" in frame.columns:
        frame = frame.assign(method=[title_of(name) for name in frame["method"]])
    columns = tuple(
        Heading(
            HEADINGS.get(name, name.replace("_", " ").capitalize()),
            pd.api.types.is_numeric_dtype(frame[name]) and not pd.api.types.is_bool_dtype(frame[name]),
        )
        for name in frame.columns
    )
    rows = tuple(
        tuple(_cell(value, name == "difference") for name, value in row.items()) for row in frame.to_dict("records")
    )
    return PaperView(table.title, " ".join((f"{table.source}.", *table.notes)), table.has_ours, columns, rows)


def _cell(value: Any, is_difference: bool) -> tuple[Any, str]:
    if isinstance(value, bool):
        return ("yes", "yes") if value else ("", "")
    if isinstance(value, str):
        return value, value
    if not math.isfinite(value):
        return "", words.UNKNOWN
    text = f"{abs(value):,.0f}" if float(value).is_integer() else f"{abs(value):,.2f}"
    sign = "−" if value < 0 else "+" if is_difference and value > 0 else ""
    return value, sign + text
