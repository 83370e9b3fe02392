"""`hopular fit`: the best model for a table of your own, within the time you give it."""

from __future__ import annotations

import time
from pathlib import Path
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

File = Annotated[str, Parameter(help="A table: CSV, TSV, Parquet, Excel, ARFF, ...")]
Target = Annotated[str | None, Parameter(name=["--target", "-t"], help="The column to predict.")]
Minutes = Annotated[float, Parameter(name=["--minutes", "-m"], help="The time it may take altogether.")]
Output = Annotated[
    Path | None, Parameter(name=["--output", "-o"], help="Folder for the model; NAME-model if not given.")
]
Methods = Annotated[str | None, Parameter(help="Comma-separated methods or groups, instead of all.")]
TARGETS = ("target", "label", "class", "y", "outcome", "response", "result", "price", "survived", "churn", "diagnosis")
LISTED = 12  # columns, where the target is not said
FINDINGS = 4  # of the audit that are shown; the report has them all


def fit(
    file: File,
    /,
    *,
    target: Target = None,
    minutes: Minutes = 5.0,
    output: Output = None,
    methods: Methods = None,
    seed: int = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find the best model for a table of your own.

    Audits the file, tries all suitable methods within the time, combines
    them, and writes the best model, a report and the command. Stop it at any
    moment: the same command continues where it left off.

    For example
      hopular fit houses.csv --target price
      hopular fit houses.csv -t price --minutes 20 -o price-model
    """
    start = time.monotonic()
    if not minutes > 0:
        raise InputError(f"--minutes is {minutes:g}: use a number above 0")
    is_silent = quiet or json
    with waiting(is_silent) as tell:
        tell(f"reading {without_secrets(file)}")
        from hopular.automl.fitted import check_target
        from hopular.automl.portfolio import choose_methods

        dataset = _read_dataset(file, target)
        folder = output or Path(f"{dataset.name.replace(':', '-')}-model")
        check_target(folder)
        names = [name.strip() for name in methods.split(",") if name.strip()] if methods else None
        choose_methods(dataset.task, 60 * minutes, names)
    if not is_silent:
        _show_dataset(dataset)
    command = _command(file, target, minutes, output, methods, seed)
    try:
        fitted = _fit(dataset, start + 60 * minutes, folder, names, seed, command, is_silent)
    except KeyboardInterrupt:
        complain(f"stopped. What was tried is kept; go on with: {command}", style="yellow")
        return INTERRUPTED
    if json:
        show_json(_summary(fitted, folder, time.monotonic() - start))
    elif not quiet:
        _show(fitted, folder, time.monotonic() - start)
    return 0


def _fit(
    dataset: Dataset,
    end: float,
    folder: Path,
    methods: list[str] | None,
    seed: int,
    command: str,
    is_silent: bool,
) -> Fitted:
    from hopular.automl import fit_table
    from hopular.automl.fit import LEAST_SECONDS
    from hopular.cli.benchmark import errors_to_log
    from hopular.cli.display import show_fit

    seconds = max(LEAST_SECONDS, end - time.monotonic())
    with show_fit(seconds, is_silent) as listener, errors_to_log():
        fitted = fit_table(
            dataset,
            seconds,
            methods=methods,
            seed=seed,
            command=command,
            on_event=listener,
        )
        fitted.save(folder)
    return fitted


# ------------------------------------------------------------------------------------------------------------- reading


def _read_dataset(file: str, target: str | None) -> Dataset:
    """Read the dataset in a file; without a target, suggest the likely one."""
    from hopular.data import load
    from hopular.data.dataset import DataError
    from hopular.data.read import is_data_file
    from hopular.data.sidecar import read_sidecar, sidecar_of
    from hopular.data.sources.file import read_rows

    path = Path(file).expanduser()
    if target is None and path.is_file() and is_data_file(path):
        beside = sidecar_of(path)
        if not beside.is_file() or read_sidecar(beside).target is None:
            columns = [str(name) for name in read_rows(path).frame.columns]
            more = f" and {len(columns) - LISTED} more" if len(columns) > LISTED else ""
            raise DataError(
                f"which column of {file} is to be predicted? It has {', '.join(columns[:LISTED])}{more}. "
                f"Perhaps: --target {_quoted(likely_target(columns))}"
            )
    return load(file, target=target)


def likely_target(columns: list[str]) -> str:
    """Return the column that people mostly want to predict: one with a telling name, or the last one."""
    by_name = {column.lower(): column for column in columns}
    return next((by_name[name] for name in TARGETS if name in by_name), columns[-1])


def _command(file: str, target: str | None, minutes: float, output: Path | None, methods: str | None, seed: int) -> str:
    options = (("--target", target), ("--minutes", f"{minutes:g}"), ("--output", output), ("--methods", methods))
    given = [str(word) for name, value in options if value for word in (name, value)]
    words = ["hopular", "fit", without_secrets(file), *given]
    return " ".join(_quoted(word) for word in [*words, *(["--seed", str(seed)] if seed else [])])


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
    from hopular.formatting import plural

    findings = fitted.results.datasets[0].findings
    marks = {"serious": "fail", "warning": "warn", "note": "note"}
    shown = [finding for finding in findings if finding[0] != "note" or finding[1] == "sorted-rows"]
    for severity, _, sentence in shown[:FINDINGS]:
        show_mark(marks[severity], severity, sentence)
    if len(shown) > FINDINGS:
        show_mark("fact", "", f"{plural(len(shown) - FINDINGS, 'more finding')} in the report")
    say("")
    _show_board(fitted.leaderboard)
    say("")
    for line in _unused(fitted):
        show_mark("note", "without", line)
    facts = fitted.facts
    show_mark("ok", "model", f"{folder}{'' if str(folder).endswith('/') else '/'}, {facts.title}")
    show_mark("warn" if facts.no_refit else "fact", "rows", facts.trained_on)
    show_mark("next", "report", str(folder / "report.html"))
    show_mark("next", "predict", f"hopular predict {_quoted(str(folder))} NEW.csv -o out.csv")
    show_mark("fact", "took", f"{seconds:.0f} s")


def _show_board(board: pd.DataFrame) -> None:
    from hopular import formatting
    from hopular.evaluation.metrics import METRICS

    metric = METRICS[str(board["metric"].iloc[0])]
    losses = ["log loss"] if metric.name == "accuracy" else []  # a regression's loss is its score
    columns = ("", "method", "validation", "test", *losses, "fit", "settings")
    rows = []
    for row in board[board["validation"].notna()].to_dict("records"):
        scores = [row["validation"], row["test"], *([row["loss"]] if losses else [])]
        cells = ["›" if row["is_chosen"] else "", str(row["title"]), *map(formatting.score, scores)]
        rows.append([*cells, formatting.seconds(row["seconds"]), str(row["trials"] or "")])
    decides = f" The {losses[0]} on the validation rows decides." if losses else ""
    say(f"{metric.title} on validation and test rows.{decides}", style="bold")
    show_table(columns, rows, right=columns[2:])


def _unused(fitted: Fitted) -> list[str]:
    """Say which methods have no model, and why: a line for each reason."""
    from hopular.evaluation.results import title

    board = fitted.leaderboard
    failed = board[board["validation"].isna()]
    reasons: dict[str, list[str]] = {}
    pairs = [*zip(failed["method"], failed["reason"], strict=True), *fitted.left_out.items()]
    for method, reason in pairs:
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
