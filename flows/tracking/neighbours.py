"""Neighbours: the training rows that Hopular read a prediction from, for a few test rows, as a page and as JSON."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient

FOLDER = "neighbours"
ROWS, NEIGHBOURS = 5, 5
MAX_COLUMNS = 12  # shown on the page; the JSON has them all
STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em;color-scheme:light dark}"
    "table{border-collapse:collapse;margin:1em 0}"
    "td,th{padding:.3em .7em;text-align:right;border-bottom:1px solid #8884;font-variant-numeric:tabular-nums}"
    "tr.row{font-weight:600}"
)


def log_neighbours(
    client: MlflowClient,
    run_id: str,
    estimator: Any,
    X_train: pd.DataFrame,
    y_train: pd.Series[Any],
    X_test: pd.DataFrame,
    y_test: pd.Series[Any],
) -> bool:
    """Keep them in the run's folder `neighbours`; whether the estimator retrieves training rows at all.

    `X_train` and `y_train` are what it was fitted to.
    """
    if not hasattr(estimator, "retrieve"):
        return False
    shown = find_neighbours(estimator, X_train, y_train, X_test.iloc[:ROWS], y_test.iloc[:ROWS])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "neighbours.json").write_text(json.dumps(shown, indent=1), encoding="utf-8")
        Path(folder, "neighbours.html").write_text("".join(_page(shown)), encoding="utf-8")
        client.log_artifacts(run_id, folder, FOLDER)
    return True


def find_neighbours(
    estimator: Any, X_train: pd.DataFrame, y_train: pd.Series[Any], X_test: pd.DataFrame, y_test: pd.Series[Any]
) -> list[dict[str, Any]]:
    """For each test row its features, truth and prediction, and the training rows of the largest weights."""
    places, weights = estimator.retrieve(X_test, k=min(NEIGHBOURS, len(estimator.train_index_)))
    predicted = np.asarray(estimator.predict(X_test))
    return [
        {
            "features": _plain_row(X_test.iloc[row]),
            "truth": _plain(y_test.iloc[row]),
            "predicted": _plain(predicted[row]),
            "neighbours": [
                {
                    "row": int(place),
                    "weight": float(weight),
                    "target": _plain(y_train.iloc[place]),
                    "features": _plain_row(X_train.iloc[place]),
                }
                for place, weight in zip(places[row], weights[row], strict=True)
            ],
        }
        for row in range(len(X_test))
    ]


def _plain_row(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(name): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """A number or text; None if missing."""
    if value is None or value != value:
        return None
    return value.item() if isinstance(value, np.generic) else value


def _page(shown: list[dict[str, Any]]) -> Iterator[str]:
    yield f"<!doctype html><meta charset=utf-8><title>Retrieved neighbours</title><style>{STYLE}</style>"
    yield "<h1>Retrieved neighbours</h1><p>Each prediction is read from stored training rows. These weigh most.</p>"
    for place, row in enumerate(shown):
        names = list(row["features"])[:MAX_COLUMNS]
        yield f"<h2>Test row {place}: predicted {_text(row['predicted'])}, truly {_text(row['truth'])}</h2><table>"
        yield _line("th", ["", "weight", "target", *names])
        yield _line("td", ["test row", "", row["truth"], *(row["features"][name] for name in names)], "row")
        for found in row["neighbours"]:
            values = (found["features"][name] for name in names)
            yield _line("td", [f"training row {found['row']}", f"{found['weight']:.1%}", found["target"], *values])
        yield "</table>"


def _line(tag: str, values: list[Any], kind: str = "") -> str:
    cells = "".join(f"<{tag}>{_text(value)}</{tag}>" for value in values)
    return f"<tr class='{kind}'>{cells}</tr>"


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return escape(f"{value:.5g}" if isinstance(value, float) else str(value))
