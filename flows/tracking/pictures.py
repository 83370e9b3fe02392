"""Pictures of a unit: how its model errs, how it learned, and what the search found out about its parameters.

Of a model that retrieves training rows also a page with those that it read some predictions from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hopular.report import figures
from hopular.trials.select import best_of
from hopular.trials.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

    from hopular.data.dataset import Task

Array = np.ndarray[Any, Any]
ROWS, NEIGHBOURS = 5, 5  # test rows shown, and training rows of each
_PAGE_COLUMNS = 12  # of neighbours shown on the page; the JSON has them all
_PAGE = """<!doctype html><meta charset=utf-8><title>Retrieved neighbours</title><style>
body{font:14px system-ui,sans-serif;margin:2em;color-scheme:light dark}
table{border-collapse:collapse;margin:1em 0}
td,th{padding:.3em .7em;text-align:right;border-bottom:1px solid #8884;font-variant-numeric:tabular-nums}
tr.row{font-weight:600}
</style>
{%- macro text(value) -%}
{{ "–" if value is none else "%.5g" | format(value) if value is float else value }}
{%- endmacro %}
<h1>Retrieved neighbours</h1><p>Each prediction is read from stored training rows. These weigh most.</p>
{% for row in rows -%}
<h2>Test row {{ loop.index0 }}: predicted {{ text(row.predicted) }}, truly {{ text(row.truth) }}</h2><table>
<tr><th></th><th>weight</th><th>target</th>{% for name in names %}<th>{{ name }}</th>{% endfor %}</tr>
<tr class=row><td>test row</td><td></td><td>{{ text(row.truth) }}</td>
  {%- for name in names %}<td>{{ text(row.features[name]) }}</td>{% endfor %}</tr>
{% for one in row.neighbours -%}
<tr><td>training row {{ one.row }}</td><td>{{ "{:.1%}".format(one.weight) }}</td><td>{{ text(one.target) }}</td>
  {%- for name in names %}<td>{{ text(one.features[name]) }}</td>{% endfor %}</tr>
{% endfor -%}
</table>
{% endfor %}"""
_MAX_TRIALS = 1000  # that importances are computed from
_MAX_SLICES = 12
_WIDE = 100.0  # a ratio of the largest to the smallest value from which an axis is logarithmic


def draw_pictures(
    folder: Path, task: Task, classes: Sequence[str], truth: Any, predictions: Array, trials: Sequence[Trial]
) -> list[str]:
    """Draw whatever there is something to see in, as files in `folder`; return their names.

    `predictions` are of the test rows: probabilities in the order of `classes`, or numbers.
    """
    drawn: dict[str, str] = {}
    if task == "regression":
        drawn["residuals"] = figures.residuals(truth, predictions)
    else:
        names = np.asarray([str(name) for name in classes], dtype=object)
        drawn["confusion"] = figures.confusion(truth, names[predictions.argmax(axis=1)], classes)
        drawn["calibration"] = figures.calibration(truth, predictions, classes)
    best = best_of(list(trials))
    if best is not None and len(best.curve) > 1:
        drawn["learning_curve"] = figures.curve(best.curve)
    if found := parameter_importance(trials):
        title = "importance for the validation score"
        drawn["parameter_importance"] = figures.importance(list(found), list(found.values()), title)
    if panels := _panels(trials):
        drawn["parameter_slices"] = figures.slices(panels)
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in drawn.items():
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    return list(drawn)


def parameter_importance(records: Sequence[Trial]) -> dict[str, float]:
    """Return how much each hyperparameter decides the score (PED-ANOVA), the most important first; empty if unknown."""
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    complete = _complete(records)[:_MAX_TRIALS]
    varied = [name for name in _varied(complete) if all(name in record.params for record in complete)]
    if len(complete) < 4 or not varied:  # fewer say nothing
        return {}
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(direction="maximize")
        ranges = {name: _range([record.params[name] for record in complete]) for name in varied}
        for record in complete:
            params = {name: _plain(record.params[name]) for name in varied}
            study.add_trial(optuna.create_trial(value=record.score, params=params, distributions=ranges))
        found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    finally:
        optuna.logging.set_verbosity(verbosity)
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}


def _panels(trials: Sequence[Trial]) -> list[tuple[str, list[Any], list[float]]]:
    """Return each varied hyperparameter's values with their scores; conditional ones where they are set."""
    complete = _complete(trials)
    found = []
    for name in _varied(complete)[:_MAX_SLICES]:
        points = [(_plain(trial.params[name]), trial.score) for trial in complete if name in trial.params]
        found.append((name, [value for value, _ in points], [float(score or 0.0) for _, score in points]))
    return found


def _complete(records: Sequence[Trial]) -> list[Trial]:
    return [r for r in records if r.state == "complete" and r.score is not None and np.isfinite(r.score)]


def _varied(records: Sequence[Trial]) -> list[str]:
    """Return the hyperparameters that had more than one value."""
    names = dict.fromkeys(name for record in records for name in record.params)
    return [name for name in names if len({str(record.params.get(name)) for record in records}) > 1]


def _plain(value: Any) -> Any:
    """Return a value as Optuna takes it: numbers, truth values and text."""
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _range(values: Sequence[Any]) -> Any:
    """Return the distribution that these values could have come from."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    plain = [_plain(value) for value in values]
    if all(isinstance(value, int) and not isinstance(value, bool) for value in plain):
        return IntDistribution(min(plain), max(plain))
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in plain):
        is_log = min(plain) > 0 and max(plain) / min(plain) >= _WIDE
        return FloatDistribution(min(plain), max(plain), log=is_log)
    return CategoricalDistribution(list(dict.fromkeys(plain)))


def write_neighbours(
    folder: Path,
    estimator: Any,
    X_train: pd.DataFrame,
    y_train: pd.Series[Any],
    X_test: pd.DataFrame,
    y_test: pd.Series[Any],
) -> None:
    """Write the training rows that an estimator reads the predictions of a few test rows from, as JSON and as a page.

    `X_train` and `y_train` are what it was fitted to.
    """
    from jinja2 import Environment

    shown = _find_neighbours(estimator, X_train, y_train, X_test.iloc[:ROWS], y_test.iloc[:ROWS])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "neighbours.json").write_text(json.dumps(shown, indent=1), encoding="utf-8")
    page = Environment(autoescape=True).from_string(_PAGE)
    names = list(map(str, X_test.columns))[:_PAGE_COLUMNS]
    (folder / "neighbours.html").write_text(page.render(rows=shown, names=names), encoding="utf-8")


def _find_neighbours(
    estimator: Any, X_train: pd.DataFrame, y_train: pd.Series[Any], X_test: pd.DataFrame, y_test: pd.Series[Any]
) -> list[dict[str, Any]]:
    """Return for each test row its features, truth and prediction, and the training rows of the largest weights."""
    places, weights = estimator.retrieve(X_test, k=min(NEIGHBOURS, len(estimator.train_index_)))
    predicted = np.asarray(estimator.predict(X_test))
    return [
        {
            "features": _cell_row(X_test.iloc[row]),
            "truth": _cell(y_test.iloc[row]),
            "predicted": _cell(predicted[row]),
            "neighbours": [
                {
                    "row": int(place),
                    "weight": float(weight),
                    "target": _cell(y_train.iloc[place]),
                    "features": _cell_row(X_train.iloc[place]),
                }
                for place, weight in zip(places[row], weights[row], strict=True)
            ],
        }
        for row in range(len(X_test))
    ]


def _cell_row(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(name): _cell(value) for name, value in row.items()}


def _cell(value: Any) -> Any:
    """Return a number or text; None if missing."""
    if value is None or value != value:
        return None
    return value.item() if isinstance(value, np.generic) else value
