"""Write the report of one fit: what the model is, how good it is, what it depends on, and where it may be wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from hopular import formatting
from hopular.evaluation.metrics import LABEL_METRICS, METRICS, evaluate, quick_bootstrap, row_losses
from hopular.evaluation.results import DatasetFacts
from hopular.report import plots
from hopular.report.plots import Scale
from hopular.report.templates import load_template, moment
from hopular.util import InputError

Array = np.ndarray[Any, Any]
FEW_ROWS = 30.0  # with fewer effective rows a score is mostly chance
_DOMINANT, _UNEQUAL = (
    0.8,
    5.0,
)  # share of the largest class, and its size in smallest classes, from which they are uneven
_SHOWN_COLUMNS = 8  # features beside a doubtful row
_MOST_COLUMNS = 20  # of the importances
_MOST_CLASSES = 20  # with more, the confusion matrix is a list of its largest cells
_MOST_CONFUSIONS = 15
_MOST_DOTS = 1_500
_SHOWN_METRICS = {
    "classification": ("accuracy", "log_loss", "roc_auc", "balanced_accuracy"),
    "regression": ("rmse", "mae", "r2", "mse"),
}
_HEADLINE = {"log_loss": "accuracy", "mse": "rmse"}  # what people ask of a model that was chosen by these
_MEANINGS = {
    "accuracy": "share of rows that are right",
    "balanced_accuracy": "the same, averaged over classes, so that each counts as much",
    "macro_f1": "F1 score, averaged over classes",
    "log_loss": "lower is better; punishes being sure and wrong",
    "roc_auc": "how well it sorts rows of one class from the others; 0.5 is chance",
    "brier": "squared error of the probabilities",
    "ece": "gap between what is said and what is found",
    "rmse": "in the target's unit; large errors count more",
    "mae": "in the target's unit; the error of an average row",
    "r2": "share of the variance that is explained; 0 is the mean, 1 is perfect",
    "mse": "in the square of the target's unit",
    "mse_x1000": "in the square of the target's unit, times 1000",
}


# ------------------------------------------------------------------------------------------------------ what is told


@dataclass(frozen=True)
class Estimate:
    """A score with its 95 % interval, NaN where there is none."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows with their true values, and what models that had not seen them predict.

    `predictions` are numbers, or probabilities in the order of the classes. `labels` are the classes that the model
    says, if they are not always the likeliest ones. `file_rows` are positions in the table's file, from 0 on.
    """

    truth: Array
    predictions: Array
    file_rows: Array
    features: pd.DataFrame
    labels: Array | None = None


@dataclass(frozen=True)
class Member:
    """One of the models whose mean is the prediction."""

    title: str
    group: str
    share: float
    rows: str  # that it knows, as in "8 fold models, together all 150 rows"
    setting: str = ""


@dataclass(frozen=True)
class MethodRow:
    """A method on the leaderboard; NaN is unknown."""

    title: str
    group: str
    score: float  # of its best setting, by the criterion
    seconds: float
    trials: int
    share: float = 0.0  # in the final model
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Coverage:
    """The share of true values found within intervals that were made to hold a share `level` of them."""

    level: float
    measured: float
    width: float  # mean, in the target's unit
    rows: int


@dataclass(frozen=True)
class ReadRow:
    """A training row that Hopular read an answer from."""

    file_row: int
    weight: float
    truth: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """A row, Hopular's answer, and the training rows that it was read from, the weightiest first."""

    file_row: int
    truth: str
    predicted: str
    values: Mapping[str, Any]
    read: tuple[ReadRow, ...]


@dataclass(frozen=True, eq=False)
class FitStory:
    """All that the report of a fit tells; what is empty has no section.

    `scored` are the rows that were held out once, with cross-fitted predictions; `holdout` are rows that nothing saw.
    `importance`, `uncertain`, `wrong` and `reliability` are tables of `hopular.automl.explain` about `scored`.
    """

    facts: DatasetFacts
    target: str
    classes: tuple[str, ...]  # none for regression
    criterion: str  # the metric that models were chosen by, and that leaderboard and curve are in
    members: tuple[Member, ...]
    scored: Scored
    holdout: Scored | None = None
    units: int | None = None  # groups of rows that belong together, if the rows were divided by them
    temperature: float | None = None
    multipliers: Mapping[str, float] | None = None  # of each class's probability, where labels are wanted
    importance: pd.DataFrame | None = None
    reliability: pd.DataFrame | None = None
    uncertain: pd.DataFrame | None = None
    wrong: pd.DataFrame | None = None
    coverage: tuple[Coverage, ...] = ()
    curve: tuple[tuple[float, float], ...] = ()  # seconds, and the score of the best choice so far
    methods: tuple[MethodRow, ...] = ()
    untried: tuple[tuple[str, str], ...] = ()  # methods that were not tried, and why
    readings: tuple[Reading, ...] = ()
    seconds: float = math.nan  # that the fit took
    spent: tuple[tuple[str, float], ...] = ()  # what the seconds were spent on
    limits: tuple[str, ...] = ()  # sentences about what a limit has excluded
    command: str = ""
    made_with: Mapping[str, str] | None = None  # versions, machine, seed
    next_steps: tuple[tuple[str, str], ...] = ()  # commands, and what they do
    created: str = ""

    def __post_init__(self) -> None:
        if self.criterion not in METRICS or METRICS[self.criterion].task != self.facts.task:
            raise InputError(f"criterion {self.criterion!r} is no metric of {self.facts.task}")

    @cached_property
    def judged(self) -> Scored:
        """Return the rows that the headline's score is of: those of the hold-out if there is one."""
        return self.holdout or self.scored

    @property
    def headline_metric(self) -> str:
        """Return the metric of the headline: the criterion, in a form that people can read."""
        return _HEADLINE.get(self.criterion, self.criterion)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics to show: those that everybody asks for, and the criterion."""
        return tuple(dict.fromkeys((*_SHOWN_METRICS[self.facts.task], self.criterion)))

    @cached_property
    def estimates(self) -> Mapping[str, Estimate]:
        """Return the metrics of the rows that the headline's score is of."""
        return {name: estimate(self.judged, name, self.classes) for name in self.metrics}

    @cached_property
    def out_of_fold(self) -> Mapping[str, Estimate]:
        """Return the metrics of the rows that were held out once."""
        if self.holdout is None:
            return self.estimates
        return {name: estimate(self.scored, name, self.classes) for name in self.metrics}


def write_fit_report(story: FitStory, path: Path) -> Path:
    """Write the page and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_fit(story), encoding="utf-8")
    return path


def render_fit(story: FitStory) -> str:
    """Return the page as text."""
    headline, lead = describe_fit(story)
    columns = _shown_features(story)
    return load_template("fit_page.html.jinja").render(
        story=story,
        headline=headline,
        lead=lead,
        meta=_meta(story),
        tiles=_tiles(story),
        notices=warnings(story),
        scores=_score_rows(story),
        judged_by=_judged_by(story),
        adjustments=_adjustments(story),
        importance=_importance(story),
        confusion=_confusion(story),
        confusions=_top_confusions(story),
        reliability=_reliability(story),
        residuals=_residuals(story),
        uncertain=_odd_rows(story, story.uncertain, columns),
        wrong=_odd_rows(story, story.wrong, columns),
        columns=columns,
        curve=_curve(story),
        criterion=METRICS[story.criterion],
        has_intervals=any(math.isfinite(row.low) for row in story.methods),
        readings=_readings(story, columns),
        spent=_spent(story),
    )


# ------------------------------------------------------------------------------------------------- scores and words


def estimate(scored: Scored, metric: str, classes: Sequence[str]) -> Estimate:
    """Return a metric of these rows, with its bootstrap interval."""
    task, predictions = METRICS[metric].task, np.asarray(scored.predictions, dtype=np.float64)
    if metric in LABEL_METRICS and scored.labels is not None:
        predictions = np.asarray(_text(scored.labels)[:, None] == _text(classes)[None, :], dtype=np.float64)
    known = list(classes) or None
    value = evaluate(task, scored.truth, predictions, known, metrics=[metric])[metric]
    return Estimate(value, *quick_bootstrap(task, scored.truth, predictions, known, metric))


def describe_fit(story: FitStory) -> tuple[str, str]:
    """Return a sentence about the model and its score, and a few that say how much that is worth."""
    judged, metric = story.judged, story.headline_metric
    found = story.estimates[metric]
    interval = f" (95 % interval {_between(metric, found)})" if math.isfinite(found.low) else ""
    said = _write(metric, found.value)
    score = f"right on {said} of the rows" if metric == "accuracy" else f"{_in_text(metric)} {said}"
    lead = []
    truth = judged.truth
    if story.classes:
        majority, share = _majority(truth)
        lead.append(f"Always saying “{majority}” would be right on {formatting.percent(share, 1)}.")
        if _is_uneven(truth, story.classes):
            others = (name for name in ("roc_auc", "balanced_accuracy") if name != metric)
            told = (f"{_in_text(name)} {_told(name, story.estimates[name])}" for name in others)
            lead.append(f"The classes are uneven, so that accuracy alone misleads: {', '.join(told)}.")
    else:
        values = np.asarray(truth, dtype=np.float64)
        r2 = story.estimates["r2"].value
        explained = f"; the model explains {formatting.percent(r2, 0)} of the variance" if r2 > 0 else ""
        spread = formatting.score(float(values.std()))
        lead.append(f"Always answering the mean would have a root mean squared error of {spread}{explained}.")
    lead.append(how_scored(story))
    return f"{model_name(story.members)} predicts {story.target}: {score}{interval}.", " ".join(lead)


def how_scored(story: FitStory) -> str:
    """Say which rows the headline's score is of, and why it is honest."""
    if story.holdout is not None:
        return f"Scored on {formatting.plural(len(story.holdout.truth), 'row')} set aside, which nothing had seen."
    rows = formatting.of_rows([len(story.scored.truth)], story.facts.rows)
    return (
        f"Scored on {rows}, each predicted by models that had not seen it; no row scored a choice that it took part in."
    )


def warnings(story: FitStory) -> list[str]:
    """Say what a reader must know to trust the model no more than it deserves."""
    judged, found = story.judged, []
    count = effective_rows(judged.truth, story.facts.task, story.units if story.holdout is None else None)
    if count < FEW_ROWS:
        shown = formatting.plural(int(count), "row")
        found.append(
            f"The score rests on {shown} that can tell models apart: another sample may well give another one. "
            f"From some {FEW_ROWS:.0f} rows on it says more."
        )
    if (baseline := _no_better(story)) is not None:
        found.append(baseline)
    if story.units is not None:
        found.append(
            f"The rows form {formatting.plural(story.units, 'group')}. Rows of a group are alike, so that the "
            "intervals are narrower than they should be."
        )
    found += (sentence for severity, _, sentence in story.facts.findings if severity == "serious")
    return found


def effective_rows(truth: Any, task: str, units: int | None = None) -> float:
    """Count the rows that can tell models apart: of classes, twice those outside the largest; at most a row per group.

    A thousand rows of which ten are positive say no more than twenty of two even classes.
    """
    count = float(len(truth))
    if task == "classification":
        count = min(count, 2 * (count - Counter(map(str, truth)).most_common(1)[0][1]))
    return min(count, float(units)) if units is not None else count


def model_name(members: Sequence[Member]) -> str:
    """Name a model in a few words."""
    if len(members) == 1:
        return members[0].title
    titles = list(dict.fromkeys(member.title for member in members))
    if len(titles) == 1:
        return f"An ensemble of {len(members)} settings of {titles[0]}"
    if len(titles) <= 3:
        return f"An ensemble of {', '.join(titles[:-1])} and {titles[-1]}"
    return f"An ensemble of {formatting.some(titles, 2)}"


def _no_better(story: FitStory) -> str | None:
    """Say if the model is no better than a constant, by more than the noise of the rows; None if it is."""
    judged = story.judged
    if story.facts.task == "regression":
        truth = np.asarray(judged.truth, dtype=np.float64)
        if _is_more((truth - truth.mean()) ** 2 - row_losses("regression", truth, judged.predictions)):
            return None
        return "Within what chance explains, the model is no better than always answering the mean: do not rely on it."
    truth, (majority, share) = _text(judged.truth), _majority(judged.truth)
    shares = Counter(truth.tolist())
    bare = np.array([-math.log(shares[name] / len(truth)) for name in truth])
    knows = _is_more(bare - row_losses("classification", truth, judged.predictions, story.classes))
    is_right = np.asarray(_said(judged, story.classes) == truth, dtype=np.float64)
    hits = _is_more(is_right - (truth == majority))
    constant = f"always saying “{majority}” ({formatting.percent(share, 1)} of the rows)"
    if knows and hits:
        return None
    if knows:
        return (
            f"Within what chance explains, its class is right no more often than {constant}. "
            "Its probabilities do tell rows apart: use them, with a threshold that fits what errors cost."
        )
    if hits:
        return (
            "Within what chance explains, its probabilities are no better than the bare shares of the classes: rely on "
            "the class it says, not on how sure it is."
        )
    return f"Within what chance explains, the model is no better than {constant}: do not rely on it."


def _is_more(gains: Array) -> bool:
    """Tell if the mean of gains is above 0 by more than its standard error explains."""
    if len(gains) < 2:
        return False
    return bool(gains.mean() - 1.96 * gains.std(ddof=1) / math.sqrt(len(gains)) > 0)


def _majority(truth: Any) -> tuple[str, float]:
    name, count = Counter(map(str, truth)).most_common(1)[0]
    return name, count / len(truth)


def _is_uneven(truth: Any, classes: Sequence[str]) -> bool:
    counts = Counter(map(str, truth))
    most, least = max(counts.values()), min(counts.get(str(name), 0) for name in classes)
    return most >= _DOMINANT * len(truth) or most >= _UNEQUAL * least


def _said(scored: Scored, classes: Sequence[str]) -> Array:
    """Return the class that the model says of each row."""
    if scored.labels is not None:
        return _text(scored.labels)
    labels: Array = _text(classes)[np.asarray(scored.predictions).argmax(axis=1)]
    return labels


def _text(values: Any) -> Array:
    return np.asarray([str(value) for value in values], dtype=object)


def _write(metric: str, value: float) -> str:
    return formatting.percent(value, 1) if metric == "accuracy" else formatting.score(value).replace("-", "−")


def _between(metric: str, found: Estimate) -> str:
    return f"{_write(metric, found.low)} to {_write(metric, found.high)}" if math.isfinite(found.low) else ""


def _told(metric: str, found: Estimate) -> str:
    between = _between(metric, found)
    return f"{_write(metric, found.value)}{f' ({between})' if between else ''}"


def _in_text(metric: str) -> str:
    """Write a metric's title as it stands within a sentence."""
    title = METRICS[metric].title
    return title if title[:2].isupper() or title.startswith("R²") else title[0].lower() + title[1:]


def _judged_by(story: FitStory) -> str:
    sentence = f"Models were chosen by {_in_text(story.criterion)}. Intervals hold 95 % of a bootstrap over the rows."
    return f"{how_scored(story)} {sentence}"


def _adjustments(story: FitStory) -> list[str]:
    """Say what is done to the mean of the members before it is the prediction."""
    found = []
    if story.temperature is not None and not math.isclose(story.temperature, 1.0, rel_tol=1e-3):
        effect = "less" if story.temperature > 1 else "more"
        found.append(f"Temperature {formatting.number(story.temperature)}: probabilities are made {effect} sure.")
    if story.multipliers:
        factors = ", ".join(f"{name} × {formatting.number(value)}" for name, value in story.multipliers.items())
        found.append(
            f"The class is the one with the highest probability after these factors, chosen for "
            f"{_in_text(story.criterion)}: {factors}."
        )
    return found


def _meta(story: FitStory) -> list[str]:
    facts = story.facts
    shape = f"{formatting.whole(facts.rows)} rows × {formatting.plural(facts.features, 'feature')}"
    kind = f"{formatting.plural(len(story.classes), 'class')}" if story.classes else "regression"
    parts = [facts.name, shape, kind]
    if math.isfinite(story.seconds):
        parts.append(f"fitted in {formatting.seconds(story.seconds)}")
    return [*parts, moment(story.created)] if story.created else parts


# ------------------------------------------------------------------------------------------- what the template shows


@dataclass(frozen=True)
class _ScoreRow:
    title: str
    meaning: str
    out_of_fold: tuple[str, str]  # value, interval
    holdout: tuple[str, str] | None
    is_emphasised: bool


@dataclass(frozen=True)
class _Tile:
    label: str
    value: str
    note: str


@dataclass(frozen=True)
class _ImportanceRow:
    column: str
    value: float
    text: str
    bar: Markup
    interval: str


@dataclass(frozen=True)
class _Importances:
    rows: tuple[_ImportanceRow, ...]
    unit: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _ConfusionRow:
    actual: str
    cells: tuple[tuple[int, int, bool], ...]  # count, percent of the true class, is right
    total: int
    right: float


@dataclass(frozen=True)
class _OddRow:
    file_row: int  # from 1 on
    truth: str
    predicted: str
    figures: tuple[str, ...]
    values: tuple[str, ...]


def _score_rows(story: FitStory) -> list[_ScoreRow]:
    uneven = bool(story.classes) and _is_uneven(story.scored.truth, story.classes)
    emphasised = {"roc_auc", "balanced_accuracy"} if uneven else {story.headline_metric}

    def written(name: str, found: Estimate) -> tuple[str, str]:
        return _write(name, found.value), _between(name, found) or formatting.UNKNOWN

    return [
        _ScoreRow(
            METRICS[name].title,
            _MEANINGS[name],
            written(name, story.out_of_fold[name]),
            written(name, story.estimates[name]) if story.holdout is not None else None,
            name in emphasised,
        )
        for name in story.metrics
    ]


def _tiles(story: FitStory) -> list[_Tile]:
    judged, metric = story.judged, story.headline_metric
    shown = [metric]
    if story.classes:
        shown += ["balanced_accuracy" if _is_uneven(judged.truth, story.classes) else "log_loss", "roc_auc"]
    else:
        shown += ["mae", "r2"]
    tiles = []
    for name in dict.fromkeys(shown):
        found = story.estimates[name]
        tiles.append(_Tile(METRICS[name].title, _write(name, found.value), _between(name, found)))
    rows = formatting.whole(len(judged.truth))
    tiles.append(_Tile("Rows that scored it", rows, "set aside" if story.holdout else "each held out once"))
    return tiles


def _importance(story: FitStory) -> _Importances | None:
    table = story.importance
    if table is None or not len(table):
        return None
    shown = table.head(_MOST_COLUMNS)
    scale = Scale(min(0.0, float(shown["low"].min())), max(float(shown["high"].max()), 1e-12), 0, 100)
    largest = float(shown[["low", "high"]].abs().to_numpy().max())
    digits = min(max(2 - math.floor(math.log10(largest)), 0), 8) if largest > 0 else 2

    def write(value: float) -> str:
        return f"{value:z,.{digits}f}".replace("-", "−")

    rows = tuple(
        _ImportanceRow(
            str(row["column"]),
            float(row["importance"]),
            write(row["importance"]),
            Markup(plots.bar(row["importance"], scale, row["low"], row["high"])),
            f"{write(row['low'])} to {write(row['high'])}",
        )
        for row in shown.to_dict("records")
    )
    notes = []
    if len(table) > len(shown):
        notes.append(f"{formatting.plural(len(table) - len(shown), 'more column')} matter less.")
    if len(table) < story.facts.features:
        missing = formatting.plural(story.facts.features - len(table), "column")
        notes.append(f"There was no time for {missing}: nothing is known of how much they matter.")
    unit = f"root mean squared error of {story.target}" if not story.classes else "log loss"
    return _Importances(rows, unit, tuple(notes))


def _confusion(story: FitStory) -> list[_ConfusionRow]:
    """Count true against predicted classes; empty if there are too many to read."""
    if not story.classes or len(story.classes) > _MOST_CLASSES:
        return []
    pairs = Counter(zip(_text(story.scored.truth), _said(story.scored, story.classes), strict=True))
    rows = []
    for actual in map(str, story.classes):
        total = sum(count for (one, _), count in pairs.items() if one == actual)
        counts = [(pairs[actual, str(guess)], str(guess) == actual) for guess in story.classes]
        cells = tuple((count, round(100 * count / total) if total else 0, is_right) for count, is_right in counts)
        rows.append(_ConfusionRow(actual, cells, total, pairs[actual, actual] / total if total else math.nan))
    return rows


def _top_confusions(story: FitStory) -> list[tuple[str, str, int, float]]:
    """List the most frequent errors: true class, predicted class, rows, share of the true class."""
    if not story.classes:
        return []
    truth = _text(story.scored.truth)
    totals = Counter(truth)
    pairs = Counter(zip(truth, _said(story.scored, story.classes), strict=True))
    wrong = [(actual, guess, count) for (actual, guess), count in pairs.most_common() if actual != guess]
    return [(actual, guess, count, count / totals[actual]) for actual, guess, count in wrong[:_MOST_CONFUSIONS]]


def _reliability(story: FitStory) -> Markup:
    if story.reliability is None or not len(story.reliability):
        return Markup()
    return Markup(plots.reliability(list(story.reliability.itertuples(index=False, name=None))))


def _residuals(story: FitStory) -> list[Markup]:
    """Draw predictions against true values, and what is left against predictions."""
    if story.classes:
        return []
    truth, said = (np.asarray(x, dtype=np.float64) for x in (story.scored.truth, story.scored.predictions))
    places = np.linspace(0, len(truth) - 1, min(len(truth), _MOST_DOTS)).astype(int)
    actual, answered = truth[places].tolist(), said[places].tolist()
    rest = (truth - said)[places].tolist()
    return [
        Markup(plots.scatter(answered, actual, f"predicted {story.target}", f"true {story.target}", line="diagonal")),
        Markup(plots.scatter(answered, rest, f"predicted {story.target}", "true minus predicted", line="zero")),
    ]


def _shown_features(story: FitStory) -> list[str]:
    """Return the features to show beside a row: the most important, then others in the order of the table."""
    names = [str(name) for name in story.scored.features.columns]
    important = [] if story.importance is None else [str(name) for name in story.importance["column"]]
    return list(dict.fromkeys([name for name in important if name in names] + names))[:_SHOWN_COLUMNS]


def _odd_rows(story: FitStory, table: pd.DataFrame | None, columns: Sequence[str]) -> list[_OddRow]:
    if table is None:
        return []
    scored, rows = story.scored, []
    labels = _said(scored, story.classes) if story.classes else None
    names = {str(name): place for place, name in enumerate(story.classes)}
    for place in table["place"]:
        answer = scored.predictions[place]
        if labels is not None:
            truth, said = str(scored.truth[place]), str(labels[place])
            sure = [answer[names[name]] if name in names else 0.0 for name in (said, truth)]
            figures = tuple(formatting.percent(float(share), 1) for share in sure)
        else:
            value = float(scored.truth[place])
            truth, said = _number(value), _number(float(answer))
            figures = (formatting.difference(value - float(answer)),)
        values = tuple(_value(scored.features[name].iloc[place]) for name in columns)
        rows.append(_OddRow(int(scored.file_rows[place]) + 1, truth, said, figures, values))
    return rows


def _readings(story: FitStory, columns: Sequence[str]) -> list[tuple[Reading, tuple[str, ...], list[tuple[str, ...]]]]:
    """Return each example with the values shown of its row and of the rows that were read."""

    def values(of: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_value(of.get(name)) for name in columns)

    return [
        (reading, values(reading.values), [values(row.values) for row in reading.read]) for reading in story.readings
    ]


def _curve(story: FitStory) -> Markup:
    if len(story.curve) < 2:
        return Markup()
    return Markup(plots.progress(story.curve, METRICS[story.criterion].title, story.seconds))


def _spent(story: FitStory) -> list[tuple[str, float, float, Markup]]:
    """Return what the time was spent on: seconds, share, bar."""
    total = sum(seconds for _, seconds in story.spent)
    if not total > 0:
        return []
    scale = Scale(0, max(seconds for _, seconds in story.spent), 0, 100)
    return [(what, seconds, seconds / total, Markup(plots.bar(seconds, scale))) for what, seconds in story.spent]


def _value(value: Any) -> str:
    """Write a feature's value; what is missing is a dash."""
    if value is None or (not isinstance(value, str) and pd.isna(value)):
        return formatting.UNKNOWN
    if isinstance(value, float | np.floating):
        return _number(float(value))
    return str(value) if len(str(value)) <= 60 else f"{str(value)[:59]}…"


def _number(value: float) -> str:
    """Write a number of the table: whole ones as they are, others with five significant digits."""
    if value == int(value) and abs(value) < 1e9 if math.isfinite(value) else False:
        return f"{value:.0f}".replace("-", "−")
    return f"{value:.5g}".replace("-", "−") if math.isfinite(value) else formatting.UNKNOWN
