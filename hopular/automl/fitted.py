"""Fitted: the model that came out on top, with all it takes to use it on new rows; in memory and as a folder.

The folder holds no pickle. `hopular-model.json` describes it and is written last, so a folder that has one is whole.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hopular import __version__, formatting
from hopular.automl.intervals import check_level, cv_plus
from hopular.data.schema import Schema, learn_features, without_codes
from hopular.evaluation.metrics import evaluate
from hopular.evaluation.results import Delivered, Results, model_title, title
from hopular.methods.saved import load_model
from hopular.util import InputError

FORMAT = 3  # of the folder; raised when an older reader would misunderstand it
NOTE_FILE, MODEL_FOLDER, ROWS_FILE = "hopular-model.json", "fitted", "training-rows.npy"
_NO_FOLDS = "the model keeps no out-of-fold predictions, which intervals are made of: fit it again with this version"
RESULTS_FOLDER, REPORT_FILE, COMMAND_FILE = "results", "report.html", "command.txt"


class ModelError(InputError):
    """A folder that holds no usable model; the message says what to do."""


@dataclass(frozen=True)
class Facts:
    """Facts about a fitted model, its columns aside."""

    method: str
    members: tuple[tuple[str, float], ...]  # methods and weights; one for a single model
    rows: tuple[int, ...]  # that each member was trained on
    table_rows: int
    no_refit: str  # why a member was trained on the training rows alone; empty if none was
    dataset: str
    fingerprint: str
    seed: int
    metrics: Mapping[str, Mapping[str, float]]  # of "validation" and "test" rows, before the refit
    seconds: float  # that it took to find it
    command: str
    version: str = __version__

    @property
    def title(self) -> str:
        """Name the model in words: 'LightGBM', or 'ensemble of LightGBM 60 %, Hopular 40 %'."""
        return model_title([(title(name), weight) for name, weight in self.members])

    @property
    def trained_on(self) -> str:
        """Name the rows in words: 'trained on all 150 rows', or on how many of them and why not on all."""
        who = "trained on" if len(set(self.rows)) == 1 else "members trained on"
        if self.no_refit and len(set(self.rows)) == 1:
            return f"{who} the {self.rows[0]:,} training rows of {self.table_rows:,}: {self.no_refit}"
        said = f"{who} {formatting.of_rows(self.rows, self.table_rows)}"
        if self.no_refit:
            return f"{said}: {self.no_refit}"
        return said if min(self.rows) == self.table_rows else f"{said}; validation rows tell networks when to stop"

    @property
    def delivered(self) -> Delivered:
        """Return the model as a report names it."""
        members = tuple((name, weight, rows) for (name, weight), rows in zip(self.members, self.rows, strict=True))
        return Delivered(self.method, self.trained_on, members)


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """The rows of the table that were held out once, and what the model says of each without having seen it.

    No row scores a choice that it took part in.
    """

    rows: np.ndarray[Any, Any]  # (n,) positions in the table
    fold: np.ndarray[Any, Any]  # (n,) number of the fold that held the row out
    truth: np.ndarray[Any, Any]  # (n,) text for classes
    predictions: np.ndarray[Any, Any]  # (n, classes) probabilities, or (n,) numbers


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model. `leaderboard` has a row per method with its scores; `results` is what a report is made of."""

    schema: Schema
    facts: Facts
    leaderboard: pd.DataFrame
    results: Results
    left_out: Mapping[str, str]  # methods that were not used, and why
    folder: Path  # of the saved model
    _keeper: Any = field(default=None, repr=False)  # removes the folder when nobody needs it any more
    out_of_fold: OutOfFold | None = None  # None of a model of an earlier version

    @cached_property
    def model(self) -> Any:
        """Load the estimator itself."""
        try:
            return load_model(self.folder / MODEL_FOLDER)
        except (ValueError, OSError, ImportError) as error:
            raise ModelError(f"the model in {str(self.folder)!r} is damaged: {error} Or fit it again.") from error

    def predict(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Return the class or number of each row of a table, whose columns are found by name."""
        return np.asarray(self.model.predict(self.read(frame)[0]))

    def predict_proba(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the probability of each class, one column per class."""
        if self.schema.task != "classification":
            raise ModelError(f"the model predicts numbers of {self.schema.target!r}, which have no probabilities")
        features = self.read(frame)[0]
        return pd.DataFrame(self.model.predict_proba(features), columns=list(self.model.classes_), index=frame.index)

    def predict_folds(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Return what the models of each fold say about new rows: (K, n) numbers or (K, n, classes) probabilities."""
        raise ModelError(_NO_FOLDS)

    def predict_interval(self, frame: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Return bounds `low` and `high` that hold the number of a new row with a probability of about `level`."""
        check_level(level)
        if self.schema.task == "classification":
            raise ModelError(
                f"intervals are of numbers, and the model predicts classes of {self.schema.target!r}: use probabilities"
            )
        if (held := self.out_of_fold) is None:
            raise ModelError(_NO_FOLDS)
        low, high = cv_plus(self.predict_folds(frame), held.fold, held.truth - held.predictions, level)
        return pd.DataFrame({"low": low, "high": high}, index=frame.index)

    def score(self, X: pd.DataFrame, y: Any) -> float:
        """Return the accuracy, or R² of a regression, on rows whose target is known; rows without it do not count."""
        truth = self.read_truth(y)
        known = truth.notna().to_numpy()
        if len(truth) != len(X) or not known.any():
            raise InputError(f"a score needs a value of {self.schema.target!r} for each of {len(X)} rows, got {len(y)}")
        rows = X[known]
        if self.schema.task == "regression":
            return evaluate("regression", truth[known], self.predict(rows), metrics=["r2"])["r2"]
        shares = self.predict_proba(rows)
        return float(np.mean(shares.columns.to_numpy()[shares.to_numpy().argmax(axis=1)] == truth[known].to_numpy()))

    def read_truth(self, values: Any) -> pd.Series[Any]:
        """Return true values of the target as the model would predict them, text for classes; NaN where they miss."""
        name = self.schema.target
        column = pd.Series(np.asarray(values) if not isinstance(values, pd.Series) else values.to_numpy(), name=name)
        known = without_codes(column.to_frame(), self.schema.missing)
        if known[name].isna().all():
            return known[name]
        kind = "categorical" if self.schema.task == "classification" else "continuous"
        learned = learn_features(known, {name: kind}).X
        if name not in learned:  # blank in all rows
            return pd.Series(np.nan, index=known.index, name=name)
        return learned[name].astype(object) if kind == "categorical" else learned[name]

    def read(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
        """Return the features of new rows as the model takes them, and notes on what is ignored or is missing."""
        return self.schema.apply(frame)

    def why(self, frame: pd.DataFrame, k: int = 3) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the k rows of the training table, from 0 on, that Hopular read each answer from, and their weights.

        ModelError if the model is another one, or an ensemble without Hopular.
        """
        members = getattr(self.model, "estimators_", None) if self.facts.method == "ensemble" else [self.model]
        names = [name for name, _ in self.facts.members]
        if "hopular" not in names:
            raise ModelError(
                f"there are no training rows behind an answer of {self.facts.title}: only Hopular reads its answers "
                "from them. Fit with --methods hopular to have it"
            )
        hopular = (members or [])[names.index("hopular")]
        rows = np.load(self.folder / ROWS_FILE, allow_pickle=False)
        places, weights = hopular.retrieve(self.read(frame)[0], k=min(k, len(hopular.train_index_)))
        return rows[places], weights

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model with report, results and command; an earlier model there is replaced, whole or not at all."""
        target = Path(folder).resolve()
        check_target(target)
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            self._write(part)
            if target.exists():
                old = part.with_name(f"{part.name}-old")
                os.replace(target, old)
                os.replace(part, target)
                shutil.rmtree(old)
            else:
                os.replace(part, target)
        except BaseException as error:
            shutil.rmtree(part, ignore_errors=True)
            if isinstance(error, OSError):
                raise _unwritable(target, error) from error
            raise
        return Path(folder)

    def _write(self, folder: Path) -> None:
        from hopular.evaluation.verdict import Standings
        from hopular.report.page import write_report

        os.chmod(folder, 0o755)  # a temporary folder is for its owner alone
        shutil.copytree(self.folder / MODEL_FOLDER, folder / MODEL_FOLDER)
        if (self.folder / ROWS_FILE).is_file():
            shutil.copy2(self.folder / ROWS_FILE, folder / ROWS_FILE)
        self.results.save(folder / RESULTS_FOLDER)
        write_report(Standings(self.results), folder / REPORT_FILE)
        (folder / COMMAND_FILE).write_text(f"{self.facts.command}\n", encoding="utf-8")
        note = {
            "format": FORMAT,
            "facts": asdict(self.facts),
            "schema": self.schema.to_json(),
            "leaderboard": json.loads(self.leaderboard.to_json(orient="records")),
            "left_out": dict(self.left_out),
        }
        (folder / NOTE_FILE).write_text(json.dumps(note, indent=1, ensure_ascii=False), encoding="utf-8")


def load_fitted(folder: str | os.PathLike[str]) -> Fitted:
    """Read what `Fitted.save` wrote; ModelError if it is damaged, of another version, or something else."""
    path = Path(folder)
    note = _read_note(path)
    try:
        results = Results.load(path / RESULTS_FOLDER)
        facts = note["facts"] if note["format"] == FORMAT else _older_facts(note["facts"], results.datasets[0].rows)
        members = tuple((str(name), float(share)) for name, share in facts["members"])
        rows = tuple(int(count) for count in facts["rows"])
        return Fitted(
            schema=Schema.from_json(note["schema"]),
            facts=Facts(**{**facts, "members": members, "rows": rows}),
            leaderboard=pd.DataFrame(note["leaderboard"]),
            results=results,
            left_out=note["left_out"],
            folder=path,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"the model in {str(path)!r} is damaged ({error}): fit it again") from error


def _older_facts(values: Mapping[str, Any], table_rows: int) -> dict[str, Any]:
    """Return the facts of a note up to format 2, which had one number of rows for all members."""
    rest = {name: value for name, value in values.items() if name != "trained_on"}
    no_refit = "" if values["trained_on"] == "all rows" else "it was not refitted"
    return {**rest, "rows": [values["rows"]] * len(values["members"]), "table_rows": table_rows, "no_refit": no_refit}


def check_target(folder: Path) -> None:
    """Refuse to write over anything but an earlier model or an empty folder, or where nothing can be written.

    The folder above is made if need be: better before hours of work than after them.
    """
    if folder.is_file():
        raise ModelError(f"{str(folder)!r} is a file: name a folder for the model")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / NOTE_FILE).is_file():
        raise ModelError(f"{str(folder)!r} holds other files than a model of hopular: name another folder")
    if folder.resolve() == Path.cwd() or os.path.ismount(folder):
        raise ModelError(f"{str(folder)!r} cannot be replaced by a model: name a folder in it")
    try:
        above = folder.resolve().parent
        above.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(prefix=".hopular-", dir=above).cleanup()
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> ModelError:
    why = f"{error.strerror}: {error.filename}" if error.filename else error.strerror or str(error)
    return ModelError(f"no model can be written to {str(folder)!r} ({why}): make room, or name another folder")


def _read_note(folder: Path) -> dict[str, Any]:
    file = folder / NOTE_FILE
    if not folder.is_dir():
        raise ModelError(f"there is no folder {str(folder)!r}: make a model with hopular fit FILE --target COLUMN")
    if not file.is_file():
        raise ModelError(f"{str(folder)!r} is no model of hopular fit: it has no {NOTE_FILE}")
    try:
        note: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        found = note["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{str(file)!r} is damaged ({error}): fit the model again") from error
    if found not in (1, 2, FORMAT):
        raise ModelError(
            f"the model in {str(folder)!r} has format {found!r}, and this version of hopular reads up to {FORMAT}: "
            "fit it again, or use the version that made it"
        )
    return note
