"""`hopular predict`: predictions of new rows by a model of `hopular fit`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.markup import escape

from hopular.cli.screen import complain, console
from hopular.formatting import plural
from hopular.util import InputError

if TYPE_CHECKING:
    import pandas as pd

    from hopular.automl import Fitted

Model = Annotated[Path, Parameter(help="A folder that hopular fit has written.")]
File = Annotated[Path, Parameter(help="A table with the columns of the training table.")]
Output = Annotated[str, Parameter(name=["--output", "-o"], help="A CSV file; - prints it.")]
Why = Annotated[bool, Parameter(negative="", show_default=False, help="Add the training rows behind each answer.")]
NEIGHBOURS = 3  # training rows that --why adds


def predict(model: Model, file: File, /, *, output: Output = "-", why: Why = False) -> int:
    """Predict the rows of a new file.

    Writes a row per row of the file, in its order: the prediction and, for
    classes, the probability of each. Values that the model has never seen
    count as missing. With --why the data rows of the training file that
    Hopular read the answer from are added, with their weights.

    For example
      hopular predict houses-model new.csv -o predictions.csv
      hopular predict houses-model new.csv --why
    """
    from hopular.automl import load_fitted
    from hopular.cli.benchmark import errors_to_log
    from hopular.data.sources.file import read_rows

    if output != "-":
        _check_output(Path(output))
    fitted = load_fitted(model)
    table = read_rows(file)
    with errors_to_log():
        answers, notes = _predict_table(fitted, table.frame, why)
    for note in (*table.notes, *notes):
        complain(note, style="yellow")
    text = answers.to_csv(index=False, lineterminator="\n")
    if output == "-":
        sys.stdout.write(text)
    else:
        _write(Path(output), text)
        count = f"{plural(len(answers), 'prediction')} of {fitted.schema.target} {'is' if len(answers) == 1 else 'are'}"
        console(stderr=True).print(escape(f"{count} in {output}"))
    return 0


def _check_output(path: Path) -> None:
    """Refuse a file that cannot be written before anything is computed for it."""
    if path.is_dir():
        raise InputError(f"--output {str(path)!r} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"--output {str(path)!r} is in a folder that is not there: make it, or name another")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--output {str(path)!r} cannot be written ({error.strerror}): name another file") from error


def _predict_table(fitted: Fitted, frame: pd.DataFrame, why: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """Return the answers for all rows as a table, and notes on what was ignored or could not be had."""
    import pandas as pd

    from hopular.automl.fitted import ModelError

    _, notes = fitted.read(frame)
    if fitted.schema.task == "classification":
        shares = fitted.predict_proba(frame)
        answers = pd.DataFrame({"prediction": shares.idxmax(axis=1)})
        answers[[f"p({name})" for name in shares.columns]] = shares
    else:
        answers = pd.DataFrame({"prediction": fitted.predict(frame) + 0.0})  # no -0.0
    if why:
        try:
            rows, weights = fitted.why(frame, NEIGHBOURS)
        except ModelError as error:
            return answers, [*notes, str(error)]
        for place in range(rows.shape[1]):
            answers[f"why_row_{place + 1}"] = rows[:, place] + 1
            answers[f"why_weight_{place + 1}"] = weights[:, place].round(4)
    return answers, notes
