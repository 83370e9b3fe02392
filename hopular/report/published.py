"""The paper's tables with our figures beside them, as the page shows them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hopular import formatting
from hopular.evaluation.results import Results
from hopular.evaluation.results import title as title_of
from hopular.paper.published import PaperTable
from hopular.paper.tables import paper_tables

HEADINGS = {
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


def paper_views(results: Results, footprint: pd.DataFrame | None) -> list[PaperView]:
    """All tables, those first of which something was run here."""
    views = [_view(table) for table in paper_tables(results, footprint)]
    return sorted(views, key=lambda view: not view.has_ours)


def _view(table: PaperTable) -> PaperView:
    frame = table.frame
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
    cells = [_cells(frame[name], is_difference=name == "difference") for name in frame.columns]
    rows = tuple(zip(*cells, strict=True))
    return PaperView(table.title, " ".join((f"{table.source}.", *table.notes)), table.has_ours, columns, rows)


def _cells(values: pd.Series[Any], *, is_difference: bool) -> list[tuple[Any, str]]:
    """What to sort by and what to show; all numbers of a column have as many digits after the point."""
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
