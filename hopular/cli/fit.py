"""`hopular fit`: the best model for a table of your own, within the time you give it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from hopular.cli.frame import INTERRUPTED
from hopular.cli.screen import Json, Quiet, complain, say, show_json, show_mark, show_table, waiting
from hopular.redaction import without_secrets
from hopular.util import InputError

if TYPE_CHECKING:
    import pandas as pd

    from hopular.automl import Fitted
    from hopular.data import Dataset

File = Annotated[str, Parameter(help="A table: CSV, TSV, Parquet, Excel, ARFF, ...; with --more, a model.")]
Target = Annotated[str | None, Parameter(name=["--target", "-t"], help="The column to predict.")]
Minutes = Annotated[float, Parameter(name=["--minutes", "-m"], help="The time it may take altogether.")]
Output = Annotated[
    Path | None, Parameter(name=["--output", "-o"], help="Folder for the model; NAME-model if not given.")
]
Methods = Annotated[str | None, Parameter(help="Comma-separated methods or groups, instead of all.")]
Metric = Annotated[
    str | None,
    Parameter(help="What decides: log_loss, accuracy, f1, rmse, mae, ..."),
]
Trials = Annotated[int | None, Parameter(help="So many settings instead of minutes.")]
Holdout = Annotated[float, Parameter(help="A share of the rows to set aside.")]
TestFile = Annotated[str | None, Parameter(name="--test", help="A file to score the finished model on.")]
Time = Annotated[str | None, Parameter(help="A column by which rows are ordered.")]
Group = Annotated[str | None, Parameter(help="A column whose groups stay in one fold.")]
PredictMs = Annotated[float | None, Parameter(help="Milliseconds the model may need for a row.")]
Memory = Annotated[float | None, Parameter(help="Bytes that a fit may use.")]
Track = Annotated[str | None, Parameter(help="Register the model in MLflow as this.")]
More = Annotated[float | None, Parameter(help="Minutes to go on with the model FILE.")]
TARGETS = ("target", "label", "class", "y", "outcome", "response", "result", "price", "survived", "churn", "diagnosis")
LISTED = 12  # columns, where the target is not said
FINDINGS = 4  # of the audit that are shown; the report has them all


@dataclass(frozen=True)
class Request:
    """The options of one fit, from which its command can be written."""

    file: str
    target: str | None = None
    minutes: float = 5.0
    output: Path | None = None
    methods: str | None = None
    metric: str | None = None
    trials: int | None = None
    holdout: float = 0.0
    test: str | None = None
    time: str | None = None
    group: str | None = None
    max_predict_ms: float | None = None
    memory: float | None = None
    track: str | None = None
    seed: int = 0

    @property
    def command(self) -> str:
        """Return the command, without secrets that the addresses of files may contain."""
        words = ["hopular", "fit", without_secrets(self.file)]
        for item in fields(self)[1:]:
            value = getattr(self, item.name)
            if value is not None and (value != item.default or item.name == "minutes") and not self._is_idle(item.name):
                text = f"{value:g}" if isinstance(value, float) else without_secrets(str(value))
                words += [f"--{item.name.replace('_', '-')}", text]
        return " ".join(_quoted(word) for word in words)

    def _is_idle(self, name: str) -> bool:
        return name == "minutes" and self.trials is not None


def fit(
    file: File,
    /,
    *,
    target: Target = None,
    minutes: Minutes = 5.0,
    output: Output = None,
    methods: Methods = None,
    metric: Metric = None,
    trials: Trials = None,
    holdout: Holdout = 0.0,
    test: TestFile = None,
    time: Time = None,
    group: Group = None,
    max_predict_ms: PredictMs = None,
    memory: Memory = None,
    track: Track = None,
    more: More = None,
    seed: int = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find the best model for a table of your own.

    Audits the file, tries all suitable methods within the time on the same
    inner folds of all rows, and writes the best blend of them with a report
    and the command. The score is that of rows which had no part in the choice.
    Stop it at any moment: the same command continues where it left off.

    For example
      hopular fit houses.csv --target price
      hopular fit houses.csv -t price --minutes 20 -o price-model
      hopular fit --more 10 price-model
    """
    start = monotonic()
    for name, value in (("minutes", minutes), ("more", more)):
        if value is not None and not value > 0:
            raise InputError(f"--{name} is {value:g}: use a number above 0")
    request = Request(
        file, target, minutes, output, methods, metric, trials, holdout, test, time, group, max_predict_ms, memory,
        track, seed,
    )  # fmt: skip
    if more is not None:
        request = replace(_earlier(Path(file)), output=Path(file), minutes=more, trials=None)
    is_silent = quiet or json
    try:
        fitted, folder = _fit(request, start, more is not None, is_silent)
    except KeyboardInterrupt:
        command = request.command if more is None else f"hopular fit --more {more:g} {_quoted(file)}"
        complain(f"stopped. What was tried is kept; go on with: {command}", style="yellow")
        return INTERRUPTED
    if json:
        show_json(_summary(fitted, folder, monotonic() - start))
    elif not quiet:
        _show(fitted, folder, monotonic() - start)
    return 0


def _fit(request: Request, start: float, goes_on: bool, is_silent: bool) -> tuple[Fitted, Path]:
    """Read, check, fit and write; return the model and its folder."""
    with waiting(is_silent) as tell:
        tell(f"reading {without_secrets(request.file)}")
        from hopular.automl import fit_table
        from hopular.automl.choice import metric_named
        from hopular.automl.fitted import check_target
        from hopular.automl.portfolio import choose_methods

        dataset = _read_dataset(request)
        folder = request.output or Path(f"{dataset.name.replace(':', '-')}-model")
        check_target(folder)
        names = [name.strip() for name in request.methods.split(",") if name.strip()] if request.methods else None
        choose_methods(dataset.task, 60 * request.minutes, names)
        metric_named(request.metric, dataset.task)
        if request.track is not None:
            from flows.tracking.fit import check_name

            check_name(request.track)
        test = None if request.test is None else _read_test(dataset, request.test)
    if not is_silent:
        _show_dataset(dataset)
    from hopular.cli.benchmark import errors_to_log
    from hopular.cli.display import show_fit

    seconds = 60 * request.minutes
    left = None if request.trials else seconds - (monotonic() - start)
    with show_fit(left, request.trials, is_silent) as listener, errors_to_log():
        fitted = fit_table(
            dataset,
            seconds,
            methods=names,
            metric=request.metric,
            trials=request.trials,
            holdout=request.holdout,
            test=test,
            max_predict_ms=request.max_predict_ms,
            memory=request.memory,
            seed=request.seed,
            command=request.command,
            start=start,
            goes_on=goes_on,
            on_event=listener,
        )
        fitted.save(folder)
    if request.track is not None:
        from flows.tracking.fit import log_fit

        address = log_fit(fitted, request.track)
        if not is_silent:
            show_mark("ok", "tracked", f"{request.track}, run {address}")
    return fitted, folder


# ------------------------------------------------------------------------------------------------------------- reading


def _earlier(folder: Path) -> Request:
    """Return the request that a finished fit was made by, from its command."""
    import shlex

    from hopular.automl import load_fitted

    words = shlex.split(load_fitted(folder).facts.command)
    if words[:2] != ["hopular", "fit"]:
        raise InputError(f"{str(folder)!r} was not made by hopular fit on the command line: fit its table again")
    values: dict[str, Any] = {"file": words[2]}
    for option, text in zip(words[3::2], words[4::2], strict=True):
        name = option.removeprefix("--").replace("-", "_")
        kinds: dict[str, Any] = {"trials": int, "seed": int, "output": Path}
        kinds |= dict.fromkeys(("minutes", "holdout", "max_predict_ms", "memory"), float)
        values[name] = kinds.get(name, str)(text)
    return Request(**values)


def _read_dataset(request: Request) -> Dataset:
    """Read the dataset in a file; without a target, suggest the likely one."""
    from hopular.data import load
    from hopular.data.dataset import DataError
    from hopular.data.read import is_data_file
    from hopular.data.sidecar import read_sidecar, sidecar_of
    from hopular.data.sources.file import read_rows

    file, path = request.file, Path(request.file).expanduser()
    if request.target is None and path.is_file() and is_data_file(path):
        beside = sidecar_of(path)
        if not beside.is_file() or read_sidecar(beside).target is None:
            columns = [str(name) for name in read_rows(path).frame.columns]
            more = f" and {len(columns) - LISTED} more" if len(columns) > LISTED else ""
            raise DataError(
                f"which column of {file} is to be predicted? It has {', '.join(columns[:LISTED])}{more}. "
                f"Perhaps: --target {_quoted(likely_target(columns))}"
            )
    return load(file, target=request.target, time=request.time, group=request.group)


def _read_test(dataset: Dataset, file: str) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Read rows to score the finished model on, as the table was read: features and target."""
    from hopular.data.schema import Schema
    from hopular.data.sources.file import read_rows

    frame, schema = read_rows(Path(file)).frame, Schema.of(dataset)
    if schema.target not in frame:
        raise InputError(f"--test {file} has no column {schema.target!r}, the target: add it, to be able to score")
    truth = schema.read_truth(frame[schema.target])
    known = truth.notna()
    return schema.apply(frame)[0][known], truth[known]


def likely_target(columns: list[str]) -> str:
    """Return the column that people mostly want to predict: one with a telling name, or the last one."""
    by_name = {column.lower(): column for column in columns}
    return next((by_name[name] for name in TARGETS if name in by_name), columns[-1])


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)


# ------------------------------------------------------------------------------------------------------------- showing


def _show_dataset(dataset: Dataset) -> None:
    from hopular.formatting import percent

    kinds = list(dataset.kinds.values())
    counts = [(kinds.count(kind), kind) for kind in ("continuous", "categorical", "date") if kind in kinds]
    say(dataset.name, style="bold")
    show_mark("fact", "rows", f"{len(dataset):,}")
    show_mark("fact", "features", ", ".join(f"{count:,} {kind}" for count, kind in counts))
    show_mark("fact", "target", f"{dataset.y.name} ({_range(dataset)})")
    missing = float(dataset.X.isna().to_numpy().mean())
    if missing:
        show_mark("fact", "missing", f"{percent(missing)} of the values")
    for note in dataset.notes:
        show_mark("fact", "note", note)


def _range(dataset: Dataset) -> str:
    from hopular.data.audit.table import shortened
    from hopular.formatting import percent

    if dataset.task == "regression":
        return f"numbers from {dataset.y.min():z.4g} to {dataset.y.max():z.4g}"
    shares = dataset.y.value_counts(normalize=True)
    shares = shares[shares > 0]
    return shortened([f"{label} {percent(float(share))}" for label, share in shares.items()], limit=5)


def _show(fitted: Fitted, folder: Path, seconds: float) -> None:
    from hopular.automl.story import tell_story
    from hopular.formatting import plural
    from hopular.report.fit_page import warnings

    findings = fitted.described.findings
    marks = {"serious": "fail", "warning": "warn", "note": "note"}
    shown = [finding for finding in findings if finding[0] != "note" or finding[1] == "sorted-rows"]
    for severity, _, sentence in shown[:FINDINGS]:
        show_mark(marks[severity], severity, sentence)
    if len(shown) > FINDINGS:
        show_mark("fact", "", f"{plural(len(shown) - FINDINGS, 'more finding')} in the report")
    say("")
    _show_board(fitted)
    say("")
    for line in _unused(fitted):
        show_mark("note", "without", line)
    facts = fitted.facts
    show_mark("ok", "model", f"{folder}{'' if str(folder).endswith('/') else '/'}, {facts.title}")
    show_mark("fact", "rows", facts.trained_on)
    for part, label, rows in (("out_of_fold", "held out", facts.held_out), ("test", "test rows", facts.test_rows)):
        if part in facts.metrics:
            show_mark("fact", "score", f"{_scores(fitted, part)} on {plural(rows, 'row')} {label}")
    for sentence in warnings(tell_story(fitted)):
        if all(sentence != told for _, _, told in findings):
            show_mark("warn", "warning", sentence)
    show_mark("next", "report", str(folder / "report.html"))
    show_mark("next", "predict", f"hopular predict {_quoted(str(folder))} NEW.csv -o out.csv")
    spent = ", ".join(f"{what} {spent:.0f} s" for what, spent in facts.spent.items() if spent >= 0.5)
    show_mark("fact", "took", f"{seconds:.0f} s: {spent}")


def _scores(fitted: Fitted, part: str) -> str:
    """Write the scores of a part with their 95 % intervals."""
    from hopular import formatting
    from hopular.automl.choice import SHOWN
    from hopular.evaluation.metrics import METRICS

    facts = fitted.facts
    texts = []
    for name in dict.fromkeys([facts.metric, *SHOWN[fitted.schema.task]]):
        low, high = facts.intervals[part][name]
        value = formatting.score(facts.metrics[part][name])
        texts.append(f"{METRICS[name].title.lower()} {value} ({formatting.score(low)} to {formatting.score(high)})")
    return ", ".join(texts)


def _show_board(fitted: Fitted) -> None:
    from hopular import formatting
    from hopular.automl.choice import SHOWN
    from hopular.evaluation.metrics import METRICS

    board, facts = fitted.leaderboard, fitted.facts
    names = list(dict.fromkeys([facts.metric, *SHOWN[fitted.schema.task]]))
    columns = ("", "method", *(METRICS[name].title.lower() for name in names), "share", "settings", "time")
    own = [formatting.score(facts.metrics["out_of_fold"][name]) for name in names]
    rows = [["›", f"the model: {facts.title}", *own, "", "", ""]]
    for row in board[board[facts.metric].notna()].to_dict("records"):
        scores = [formatting.score(float(row[name])) for name in names]
        share = f"{100 * row['share']:.0f} %" if row["share"] else ""
        rows.append(["", str(row["title"]), *scores, share, str(row["trials"]), formatting.seconds(row["seconds"])])
    say(f"On rows held out of {formatting.plural(facts.folds, 'fold')}; {METRICS[facts.metric].title} decides.", "bold")
    show_table(columns, rows, right=columns[2:])


def _unused(fitted: Fitted) -> list[str]:
    """Say which methods have no model, and why: a line for each reason."""
    from hopular.evaluation.results import title

    board = fitted.leaderboard
    failed = board[board[fitted.facts.metric].isna()]
    reasons: dict[str, list[str]] = {}
    pairs = [*zip(failed["method"], failed["reason"], strict=True), *fitted.left_out.items()]
    for method, reason in dict(pairs).items():
        reasons.setdefault(str(reason), []).append(title(str(method)))
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _summary(fitted: Fitted, folder: Path, seconds: float) -> dict[str, Any]:
    """Return what scripts want to know."""
    import json
    from dataclasses import asdict

    return {
        **asdict(fitted.facts),
        "title": fitted.facts.title,
        "trained_on": fitted.facts.trained_on,
        "target": fitted.schema.target,
        "task": fitted.schema.task,
        "folder": str(folder),
        "report": str(folder / "report.html"),
        "seconds": round(seconds, 1),
        "leaderboard": json.loads(fitted.leaderboard.to_json(orient="records")),
        "left_out": dict(fitted.left_out),
    }
