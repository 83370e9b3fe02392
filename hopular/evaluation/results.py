"""Results: all that is known after a benchmark, as plain data; ranks, statistics and reports need nothing else."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from hopular.data.dataset import Task

FORMAT = 1  # of the files; raised when an older reader would misunderstand them
SCORES_FILE, FACTS_FILE = "scores.csv", "benchmark.json"
# The tidy table of scores: one row per metric of one fitted model on the test rows of one split. `low` and `high` bound
# a 95 % bootstrap interval over the test rows (NaN if there is none), `seconds` is the fit, `memory` its peak in bytes.
SCORE_COLUMNS = (
    *("dataset", "method", "split", "seed", "metric", "value"),
    *("low", "high", "seconds", "predict_seconds", "memory"),
)
TEXT_COLUMNS = ("dataset", "method", "split", "metric")


@dataclass(frozen=True)
class DatasetFacts:
    """What a report says of a dataset."""

    name: str
    task: Task
    rows: int
    features: int
    categorical: int  # of the features
    classes: int  # 0 for regression
    missing: float  # share of feature values
    source: str
    fingerprint: str
    suite: str | None = None  # "small" or "medium" for the paper's
    findings: tuple[tuple[str, str, str], ...] = ()  # of the audit: severity, check, sentence; the worst first

    @property
    def is_doubtful(self) -> bool:
        """Whether the audit found something serious."""
        return any(severity == "serious" for severity, _, _ in self.findings)


@dataclass(frozen=True)
class Unit:
    """One method on one split of one dataset: how its search and training went."""

    dataset: str
    split: str
    method: str
    state: Literal["complete", "failed"]
    reason: str = ""  # of a failure: its kind and message
    params: Mapping[str, Any] = field(default_factory=dict)  # the best setting
    chosen_by: str = ""  # the metric on the validation rows that chose the setting
    valid_score: float | None = None  # of the best trial in that metric; minus the metric if lower is better
    valid_metrics: Mapping[str, float] = field(default_factory=dict)  # of the best trial, on the validation rows
    curve: tuple[tuple[int, float], ...] = ()  # of the best trial: percent of training done, validation score
    trials: Mapping[str, int] = field(default_factory=dict)  # how many were complete, pruned, failed
    search_seconds: float = 0.0
    run_id: str = ""  # of the tracking store
    is_reused: bool = False  # nothing was trained for it in this benchmark: it was finished before


@dataclass(frozen=True, eq=False)
class Results:
    """A benchmark: its scores, its datasets, its units (failed ones included), and what made it."""

    id: str
    created: str  # ISO time
    scores: pd.DataFrame  # SCORE_COLUMNS
    datasets: tuple[DatasetFacts, ...]
    units: tuple[Unit, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # the parameters of the benchmark
    provenance: Mapping[str, str] = field(default_factory=dict)  # versions, commit, hardware, seeds
    command: str = ""  # that reproduces it

    def __post_init__(self) -> None:
        lacking = [name for name in SCORE_COLUMNS if name not in self.scores.columns]
        if lacking:
            raise ValueError(f"the table of scores lacks {', '.join(lacking)}: its columns are {SCORE_COLUMNS}")

    def save(self, folder: Path) -> None:
        """Write two files that a person can read: the scores as CSV, all else as JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SCORES_FILE).write_text(self.scores.to_csv(index=False, lineterminator="\n"), encoding="utf-8")
        rest = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "scores"}
        rest["datasets"] = [asdict(item) for item in self.datasets]
        rest["units"] = [asdict(item) for item in self.units]
        text = json.dumps({"format": FORMAT, **rest}, indent=1, ensure_ascii=False, default=str)
        (folder / FACTS_FILE).write_text(text, encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> Results:
        """Read what `save` wrote; ValueError names the file that is missing or damaged."""
        try:
            values = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))
            if values.pop("format") != FORMAT:
                raise ValueError(f"it is of another version than {FORMAT}")
            values["datasets"] = tuple(_facts(item) for item in values["datasets"])
            values["units"] = tuple(_unit(item) for item in values["units"])
            return Results(scores=read_scores((folder / SCORES_FILE).read_text(encoding="utf-8")), **values)
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"the results in {str(folder)!r} cannot be read ({error}): run the benchmark again"
            ) from error


def read_scores(text: str) -> pd.DataFrame:
    """A table of scores from CSV; names stay as they are, also such as 'NA' or '007'."""
    numbers = {name: [""] for name in SCORE_COLUMNS if name not in TEXT_COLUMNS}
    texts = dict.fromkeys(TEXT_COLUMNS, str)
    return pd.read_csv(io.StringIO(text), dtype=texts, keep_default_na=False, na_values=numbers)


def _facts(values: Mapping[str, Any]) -> DatasetFacts:
    findings = tuple((str(a), str(b), str(c)) for a, b, c in values["findings"])
    return DatasetFacts(**{**values, "findings": findings})


def _unit(values: Mapping[str, Any]) -> Unit:
    return Unit(**{**values, "curve": tuple((int(step), float(score)) for step, score in values["curve"])})
