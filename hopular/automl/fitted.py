"""Fitted: the model that came out on top, with all it takes to use it on new rows; in memory and as a folder.

The folder holds no pickle. `hopular-model.json` describes it and is written last, so a folder that has one is whole.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hopular import __version__, formatting
from hopular.automl.choice import OutOfFold
from hopular.automl.explain import permutation_importance
from hopular.automl.intervals import check_level, cv_plus
from hopular.data.dataset import Dataset
from hopular.data.schema import Schema
from hopular.evaluation.metrics import evaluate
from hopular.evaluation.results import DatasetFacts, model_title, title
from hopular.methods.saved import load_model
from hopular.trials.trial import Trial
from hopular.util import InputError

FORMAT = 4  # of the folder; raised when an older reader would misunderstand it
NOTE_FILE, MODEL_FOLDER, ROWS_FILE = "hopular-model.json", "fitted", "training-rows.npy"
EVIDENCE_FILE, REPORT_FILE, COMMAND_FILE = "out-of-fold.npz", "report.html", "command.txt"
Array = np.ndarray[Any, Any]


class ModelError(InputError):
    """A folder that holds no usable model; the message says what to do."""


@dataclass(frozen=True)
class Facts:
    """Facts about a fitted model, its columns aside."""

    method: str  # of all members, or "ensemble"
    members: tuple[tuple[str, float, Mapping[str, Any]], ...]  # methods, weights and parameters; one for a single model
    rows: int  # that a member's fold models were trained on together
    table_rows: int
    folds: int
    held_out: int  # rows that were held out once, which the score is of
    test_rows: int  # that nothing saw before the model was there
    temperature: float
    multipliers: tuple[float, ...] | None  # of each class's probability, before a class is predicted
    row_seconds: float  # that the model needs for a row
    dataset: str
    fingerprint: str
    seed: int
    metric: str  # that decided
    metrics: Mapping[str, Mapping[str, float]]  # of "out_of_fold" and, if there were any, "test" rows
    intervals: Mapping[str, Mapping[str, tuple[float, float]]]  # 95 %
    seconds: float  # that it took to find it
    spent: Mapping[str, float]  # seconds by what they were spent on
    command: str
    version: str = __version__

    @property
    def title(self) -> str:
        """Name the model in words: 'LightGBM', or 'ensemble of LightGBM 60 %, Hopular 40 %'."""
        return model_title([(title(name), weight) for name, weight, _ in self.members])

    @property
    def trained_on(self) -> str:
        """Name the rows in words: '8 fold models of each member, together trained on all 150 rows'."""
        rows = formatting.of_rows([self.rows], self.table_rows)
        if self.folds == 1:
            return f"trained on {rows}; the others told when to stop, and which model is best"
        return (
            f"{self.folds} fold models{' of each member' if len(self.members) > 1 else ''}, trained on {rows} together"
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model. `leaderboard` has a row per method with its cross-fitted scores."""

    schema: Schema
    facts: Facts
    leaderboard: pd.DataFrame
    out_of_fold: OutOfFold
    importance: pd.DataFrame | None  # of the columns: what shuffling one costs, with an interval
    curve: Sequence[tuple[float, float]]  # seconds, and the lowest out-of-fold loss of a trial by then
    described: DatasetFacts
    left_out: Mapping[str, str]  # methods that were not used, and why
    folder: Path  # of the saved model
    tested: OutOfFold | None = field(default=None, repr=False)  # what it says of test rows; in memory only
    test_table: pd.DataFrame | None = field(default=None, repr=False)  # the features of those
    dataset: Dataset | None = field(default=None, repr=False)  # that it was fitted to, in memory only
    trials: tuple[Trial, ...] = field(default=(), repr=False)  # all of them, in memory only
    _keeper: Any = field(default=None, repr=False)  # removes the folder when nobody needs it any more

    @cached_property
    def model(self) -> Any:
        """Load the estimator itself."""
        try:
            return load_model(self.folder / MODEL_FOLDER)
        except (ValueError, OSError, ImportError) as error:
            raise ModelError(f"the model in {str(self.folder)!r} is damaged: {error} Or fit it again.") from error

    def predict(self, frame: pd.DataFrame) -> Array:
        """Return the class or number of each row of a table, whose columns are found by name."""
        return np.asarray(self.model.predict(self.read(frame)[0]))

    def predict_proba(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the probability of each class, one column per class."""
        if self.schema.task != "classification":
            raise ModelError(f"the model predicts numbers of {self.schema.target!r}, which have no probabilities")
        features = self.read(frame)[0]
        return pd.DataFrame(self.model.predict_proba(features), columns=list(self.model.classes_), index=frame.index)

    def predict_interval(self, frame: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Return bounds `low` and `high` that hold the number of a new row with a probability of about `level`."""
        check_level(level)
        if self.schema.task == "classification":
            raise ModelError(
                f"intervals are of numbers, and the model predicts classes of {self.schema.target!r}: use probabilities"
            )
        held = self.out_of_fold
        low, high = cv_plus(self.predict_folds(frame), held.fold, held.truth - held.predictions, level)
        return pd.DataFrame({"low": low, "high": high}, index=frame.index)

    def score(self, X: pd.DataFrame, y: Any) -> float:
        """Return the accuracy, or R² of a regression, on rows whose target is known; rows without it do not count."""
        truth = self.schema.read_truth(y)
        known = truth.notna().to_numpy()
        if len(truth) != len(X) or not known.any():
            raise InputError(f"a score needs a value of {self.schema.target!r} for each of {len(X)} rows, got {len(y)}")
        predicted, values = self.predict(X[known]), truth[known]
        if self.schema.task == "regression":
            return evaluate("regression", values, predicted, metrics=["r2"])["r2"]
        return float(np.mean(predicted.astype(str) == values.to_numpy().astype(str)))

    def read(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
        """Return the features of new rows as the model takes them, and notes on what is ignored or is missing."""
        return self.schema.apply(frame)

    def predict_folds(self, frame: pd.DataFrame) -> Array:
        """Return what each fold's models predict, without the others: (folds, rows), or with classes."""
        X = self.read(frame)[0]
        return np.stack([self.model.predict_fold(X, fold, self.facts.folds) for fold in range(self.facts.folds)])

    def feature_importance(self) -> pd.DataFrame:
        """Return what shuffling a column costs on rows held out: column, importance, low, high; the largest first."""
        return self.measure_importance() if self.importance is None else self.importance

    def measure_importance(self, should_stop: Callable[[], bool] = lambda: False) -> pd.DataFrame:
        """Measure the importance of the columns; those that there is no time for are absent."""
        if self.dataset is None:
            raise ModelError("the importance of columns needs the table: it is measured when the model is fitted")
        evidence = self.out_of_fold
        return permutation_importance(
            lambda fold, rows: self.model.predict_fold(rows, fold, self.facts.folds),
            self.dataset.X.iloc[evidence.rows].reset_index(drop=True),
            evidence.truth,
            self.schema.classes or None,
            evidence.fold,
            seed=self.facts.seed,
            should_stop=should_stop,
        )

    def why(self, frame: pd.DataFrame, k: int = 3) -> tuple[Array, Array]:
        """Return the k rows of the training table, from 0 on, that Hopular read each answer from, and their weights.

        ModelError if it is not part of the model.
        """
        names = [name for name, _, _ in self.facts.members]
        if "hopular" not in names:
            raise ModelError(
                f"there are no training rows behind an answer of {self.facts.title}: only Hopular reads its answers "
                "from them. Fit with --methods hopular to have it"
            )
        hopular = self.model.estimators_[names.index("hopular")]
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
        from hopular.automl.story import write_report

        os.chmod(folder, 0o755)  # a temporary folder is for its owner alone
        shutil.copytree(self.folder / MODEL_FOLDER, folder / MODEL_FOLDER)
        if (self.folder / ROWS_FILE).is_file():
            shutil.copy2(self.folder / ROWS_FILE, folder / ROWS_FILE)
        evidence = {name: value for name, value in vars(self.out_of_fold).items() if value is not None}
        np.savez_compressed(folder / EVIDENCE_FILE, **evidence)
        (folder / COMMAND_FILE).write_text(f"{self.facts.command}\n", encoding="utf-8")
        note = {
            "format": FORMAT,
            "facts": asdict(self.facts),
            "schema": self.schema.to_json(),
            "leaderboard": _records(self.leaderboard),
            "importance": None if self.importance is None else _records(self.importance),
            "curve": [list(point) for point in self.curve],
            "described": asdict(self.described),
            "left_out": dict(self.left_out),
        }
        (folder / NOTE_FILE).write_text(json.dumps(note, indent=1, ensure_ascii=False), encoding="utf-8")
        write_report(self, folder / REPORT_FILE)


def _records(table: pd.DataFrame) -> Any:
    return json.loads(table.to_json(orient="records", double_precision=15))


def load_fitted(folder: str | os.PathLike[str]) -> Fitted:
    """Read what `Fitted.save` wrote; ModelError if it is damaged, of another version, or something else."""
    path = Path(folder)
    note = _read_note(path)
    try:
        facts, described = note["facts"], note["described"]
        members = tuple((str(name), float(share), params) for name, share, params in facts["members"])
        multipliers = None if facts["multipliers"] is None else tuple(facts["multipliers"])
        intervals = {
            part: {name: (float(low), float(high)) for name, (low, high) in found.items()}
            for part, found in facts["intervals"].items()
        }
        findings, notes = tuple(map(tuple, described["findings"])), tuple(described["notes"])
        with np.load(path / EVIDENCE_FILE, allow_pickle=False) as evidence:
            out_of_fold = OutOfFold(**{name: evidence[name] for name in evidence.files})
        return Fitted(
            schema=Schema.from_json(note["schema"]),
            facts=Facts(**{**facts, "members": members, "multipliers": multipliers, "intervals": intervals}),
            leaderboard=pd.DataFrame(note["leaderboard"]),
            out_of_fold=out_of_fold,
            importance=None if note["importance"] is None else pd.DataFrame(note["importance"]),
            curve=[(float(seconds), float(loss)) for seconds, loss in note["curve"]],
            described=DatasetFacts(**{**described, "findings": findings, "notes": notes}),
            left_out=note["left_out"],
            folder=path,
        )
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ModelError(f"the model in {str(path)!r} is damaged ({error}): fit it again") from error


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
    if found != FORMAT:
        raise ModelError(
            f"the model in {str(folder)!r} has format {found!r}, and this version of hopular reads {FORMAT}: "
            "fit it again, or use the version that made it"
        )
    return note
