"""`hopular predict`: predictions of new rows by a model of `hopular fit`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from hopular.cli.screen import complain, console
from hopular.formatting import plural, score, some
from hopular.util import InputError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from hopular.automl import Fitted
    from hopular.data.read import RawTable

Model = Annotated[Path, Parameter(help="A folder that hopular fit has written.")]
File = Annotated[
    Path,
    Parameter(
        help="A table with the columns of the training table; - reads CSV from the input.",
        allow_leading_hyphen=True,
    ),
]
Output = Annotated[str, Parameter(name=["--output", "-o"], help="A CSV file; - prints it.")]
Keep = Annotated[str, Parameter(name=["--keep", "-k"], help="Comma-separated columns to copy, or all.")]
Interval = Annotated[float | None, Parameter(help="Add bounds that hold this share of true numbers, such as 0.9.")]
Why = Annotated[bool, Parameter(negative="", show_default=False, help="Add the training rows behind each answer.")]
STANDARD_INPUT = "-"
NEIGHBOURS = 3  # training rows that --why adds
SCORES = {"classification": ("accuracy", "log_loss"), "regression": ("rmse", "r2")}


def predict(
    model: Model,
    file: File,
    /,
    *,
    output: Output = "-",
    keep: Keep = "",
    interval: Interval = None,
    why: Why = False,
) -> int:
    """Predict the rows of a new file.

    Writes a row per row of the file, in its order: the prediction and, for
    classes, the probability of each. Values that the model has never seen
    count as missing. --keep copies columns of the file in front of the
    answers. If the file has the target, the score is printed. With --why the
    data rows of the training file that Hopular read the answer from are added,
    with their weights.

    For example
      hopular predict houses-model new.csv -o predictions.csv
      hopular predict houses-model new.csv --keep id --interval 0.9
      hopular predict houses-model - --keep all < new.csv
    """
    from hopular.automl import load_fitted
    from hopular.cli.benchmark import errors_to_log

    if output != "-":
        _check_output(Path(output))
    fitted = load_fitted(model)
    _check_interval(interval, fitted)
    table, written = _read_file(file)
    names = _kept_names(keep, [str(name) for name in table.frame.columns])
    with errors_to_log():
        answers, notes = _predict_table(fitted, table.frame, interval, why)
        scores = _scores(fitted, table.frame, answers)
    kept = _kept(written(), names, answers) if names else answers[[]]
    for note in (*table.notes, *notes):
        complain(note, style="yellow")
    for line in scores:
        console(stderr=True).print(escape(line))
    text = kept.join(answers).to_csv(index=False, lineterminator="\n")
    if output == "-":
        sys.stdout.write(text)
    else:
        _write(Path(output), text)
        count = f"{plural(len(answers), 'prediction')} of {fitted.schema.target} {'is' if len(answers) == 1 else 'are'}"
        console(stderr=True).print(escape(f"{count} in {output}"))
    return 0


# ------------------------------------------------------------------------------------------------------------- reading


def _read_file(file: Path) -> tuple[RawTable, Callable[[], pd.DataFrame]]:
    """Read the rows of a file or of standard input; the function returned gives the same rows as they are written."""
    from hopular.data.read import TEXT_SUFFIXES, RawTable, read_bytes
    from hopular.data.sources.file import read_rows
    from hopular.data.text import read_text, to_utf8

    def text(place: Path, data: bytes) -> pd.DataFrame:
        return read_text(place, to_utf8(place, data), as_written=True)[0]

    if str(file) != STANDARD_INPUT:
        table = read_rows(file)

        def again() -> pd.DataFrame:
            name, data = read_bytes(file)
            return text(file, data) if name.lower().endswith(TEXT_SUFFIXES) else table.frame

        return table, again
    place, data = Path("standard input"), sys.stdin.buffer.read()
    if not data or data.isspace():
        raise InputError("standard input is empty: give it CSV with a line of column names")
    frame, style, notes = read_text(place, to_utf8(place, data))
    if not len(frame):
        raise InputError("standard input has column names but no rows: give it a line per row")
    return RawTable(frame, style, tuple(notes)), lambda: text(place, data)


def _check_interval(interval: float | None, fitted: Fitted) -> None:
    if interval is None:
        return
    if not 0 < interval < 1:
        raise InputError(f"--interval is {interval:g}: use a number between 0 and 1, such as 0.9")
    if fitted.schema.task == "classification":
        raise InputError(
            f"--interval is for numbers, and the model predicts classes of {fitted.schema.target!r}: leave it out, "
            "the probability of each class is there without it"
        )


def _kept_names(keep: str, columns: list[str]) -> list[str]:
    """Return the columns to copy that --keep names, in its order."""
    if keep == "all" and "all" not in columns:
        return columns
    names = list(dict.fromkeys(name.strip() for name in keep.split(",") if name.strip()))
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, columns)
            raise InputError(
                f"--keep names a column {name!r} that is not in the file.{hint} It has {some(columns, 12)}"
            )
    return names


def _check_output(path: Path) -> None:
    """Refuse a file that cannot be written before anything is computed for it."""
    if path.is_dir():
        raise InputError(f"--output {str(path)!r} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"--output {str(path)!r} is in a folder that is not there: make it, or name another")


# ---------------------------------------------------------------------------------------------------------- predicting


def _predict_table(
    fitted: Fitted, frame: pd.DataFrame, interval: float | None = None, why: bool = False
) -> tuple[pd.DataFrame, list[str]]:
    """Return the answers for all rows as a table, and notes on what was ignored or could not be had."""
    import pandas as pd

    from hopular.automl.fitted import ModelError

    _, notes = fitted.read(frame)
    if fitted.schema.task == "classification":
        shares = fitted.predict_proba(frame)
        answers = pd.DataFrame({"prediction": fitted.predict(frame)}, index=shares.index)
        answers[[f"p({name})" for name in shares.columns]] = shares
    else:
        answers = pd.DataFrame({"prediction": fitted.predict(frame) + 0.0})  # no -0.0
    if interval is not None:
        answers = answers.join(fitted.predict_interval(frame, interval) + 0.0)
    if why:
        try:
            rows, weights = fitted.why(frame, NEIGHBOURS)
        except ModelError as error:
            return answers, [*notes, str(error)]
        for place in range(rows.shape[1]):
            answers[f"why_row_{place + 1}"] = rows[:, place] + 1
            answers[f"why_weight_{place + 1}"] = weights[:, place].round(4)
    return answers, notes


def _kept(frame: pd.DataFrame, names: list[str], answers: pd.DataFrame) -> pd.DataFrame:
    """Return the columns to copy."""
    twice = [name for name in names if name in answers]
    if twice:
        raise InputError(
            f"--keep would copy a column {twice[0]!r}, and the answers have one of that name: rename it in the file, "
            "or name the columns to keep without it"
        )
    return frame.set_axis([str(name) for name in frame.columns], axis=1)[names]


def _scores(fitted: Fitted, frame: pd.DataFrame, answers: pd.DataFrame) -> list[str]:
    """Say how right the answers are, with 95 % intervals, if the file has the target: a line for each metric."""
    from hopular.data.dataset import DataError
    from hopular.evaluation.metrics import METRICS, bootstrap, evaluate

    target, task, classes = fitted.schema.target, fitted.schema.task, None
    if target not in frame:
        return []
    try:
        truth = fitted.schema.read_truth(frame[target])
    except DataError as error:
        return [f"no score: {error}"]
    known = truth.notna()
    if not known.any():
        return []
    predicted: np.ndarray[Any, Any] = answers["prediction"].to_numpy()
    if task == "classification":
        shares = answers.filter(regex=r"^p\(")
        predicted, classes = shares.to_numpy(), [name[2:-1] for name in shares.columns]
    given = (task, truth[known].to_numpy(), predicted[known.to_numpy()], classes)
    values = evaluate(*given, metrics=SCORES[task])
    rows = "" if known.all() else f" of {len(truth):,}"
    lines = [f"score over {plural(int(known.sum()), 'row')}{rows} with {target}, with 95 % intervals:"]
    for name, value in values.items():
        low, high = bootstrap(*given, name)
        lines.append(f"  {METRICS[name].title:<24} {score(value)}  ({score(low)} to {score(high)})")
    unseen = sorted(set(truth[known]) - set(classes)) if classes is not None else []
    return [*lines, *([f"  classes new to the model count as wrong: {some(unseen, 8)}"] if unseen else [])]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--output {str(path)!r} cannot be written ({error.strerror}): name another file") from error
