"""Results: all that is known after a benchmark, as plain data. Ranks, statistics and reports need nothing else."""

from __future__ import annotations

import io
import json
import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import psutil

from hopular.data.dataset import Task
from hopular.formatting import plural
from hopular.methods import methods
from hopular.redaction import without_secrets
from hopular.util import InputError

if TYPE_CHECKING:
    from hopular.data.audit import Finding
    from hopular.data.dataset import Dataset

_FORMAT = 1  # of the files; raised when an older reader would misunderstand them
SCORES_FILE, FACTS_FILE = "scores.csv", "benchmark.json"
_TEXT_COLUMNS = ("dataset", "method", "split", "metric")


@dataclass(frozen=True)
class Score:
    """A row of the tidy table of scores: one metric of one fitted model on the test rows of one split."""

    dataset: str
    method: str
    split: str
    seed: int
    metric: str
    value: float
    low: float  # these two bound a 95 % bootstrap interval over the test rows; NaN if there is none
    high: float
    seconds: float  # of the fit
    predict_seconds: float
    memory: float  # peak, in bytes


SCORE_COLUMNS = tuple(item.name for item in fields(Score))


@dataclass(frozen=True)
class DatasetFacts:
    """Facts about a dataset that a report shows."""

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
    notes: tuple[str, ...] = ()  # on how it was read

    @property
    def is_doubtful(self) -> bool:
        """Tell if the audit found something serious."""
        return any(severity == "serious" for severity, _, _ in self.findings)


@dataclass(frozen=True)
class MethodFacts:
    """Facts about a method that a report shows."""

    title: str
    group: str


@dataclass(frozen=True)
class Maker:
    """The code, libraries and device that made a unit, possibly in an earlier benchmark."""

    commit: str = ""  # with "(changed)" if files differed from it; empty where there is no repository
    code: str = ""  # fingerprint of the source that its method runs
    versions: Mapping[str, str] = field(default_factory=dict)  # of Python, of this project, of the method's libraries
    device: str = ""
    made: str = ""  # ISO time


@dataclass(frozen=True)
class UnitResult:
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
    maker: Maker | None = None  # None in older results, where it was not noted
    scores: tuple[
        Score, ...
    ] = ()  # of a unit just run, by seed and metric; those read from files are in the table only


@dataclass(frozen=True, eq=False)
class Results:
    """A benchmark: its scores, its datasets, its units (failed ones included), and what made it."""

    id: str
    created: str  # ISO time
    scores: pd.DataFrame  # SCORE_COLUMNS
    datasets: tuple[DatasetFacts, ...]
    units: tuple[UnitResult, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # the parameters of the benchmark
    provenance: Mapping[str, str] = field(default_factory=dict)  # what is the same for all units: hardware, seeds
    command: str = ""  # that reproduces it
    methods: Mapping[str, MethodFacts] = field(default_factory=dict)  # those not given are looked up

    def __post_init__(self) -> None:
        lacking = [name for name in SCORE_COLUMNS if name not in self.scores.columns]
        if lacking:
            raise InputError(f"the table of scores lacks {', '.join(lacking)}: its columns are {SCORE_COLUMNS}")
        names = {*self.scores["method"], *(unit.method for unit in self.units)}
        found = {name: self.methods.get(name) or _look_up(name) for name in sorted(names)}
        object.__setattr__(self, "methods", {name: facts for name, facts in found.items() if facts})

    def title(self, method: str) -> str:
        """Return the name of a method for people, with the architecture that its units had if it has several."""
        facts = self.methods.get(method) or _look_up(method)
        return _with_architectures(facts.title if facts else method, self._architectures[method])

    def group(self, method: str) -> str:
        """Return the group of a method; "other" if nothing is known of it."""
        return self.methods[method].group if method in self.methods else "other"

    @cached_property
    def _architectures(self) -> Mapping[str, set[str]]:
        """Return the architectures that the units of each method had."""
        found: dict[str, set[str]] = defaultdict(set)
        for unit in self.units:
            found[unit.method].add(architecture_of(unit))
        return found

    @property
    def made_with(self) -> dict[str, str]:
        """Sum up commits, versions and devices of the units, counted where they differ, and what all units share."""
        made = [unit for unit in self.units if unit.maker or unit.state == "complete"]
        makers = [unit.maker or Maker("not recorded") for unit in made]
        if all(unit.maker is None for unit in made):
            return dict(self.provenance)
        versions = {name: None for maker in makers for name in maker.versions}
        of_units = {
            "commit": _counted([maker.commit or "not in a git checkout" for maker in makers]),
            "versions": ", ".join(
                f"{name} {_counted([maker.versions[name] for maker in makers if name in maker.versions])}"
                for name in versions
            ),
            "device": _counted([maker.device for maker in makers if maker.device]),
        }
        return {**of_units, **{name: value for name, value in self.provenance.items() if name not in of_units}}

    def save(self, folder: Path) -> None:
        """Write two files that a person can read: the scores as CSV, all else as JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SCORES_FILE).write_text(self.scores.to_csv(index=False, lineterminator="\n"), encoding="utf-8")
        rest = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "scores"}
        rest["datasets"] = [asdict(item) for item in self.datasets]
        rest["units"] = [_without_scores(item) for item in self.units]
        rest["methods"] = {name: asdict(facts) for name, facts in self.methods.items()}
        text = json.dumps({"format": _FORMAT, **rest}, indent=1, ensure_ascii=False, default=str)
        (folder / FACTS_FILE).write_text(text, encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> Results:
        """Read what `save` wrote; ValueError names the file that is missing or damaged."""
        try:
            values = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))
            if values.pop("format") != _FORMAT:
                raise InputError(f"its format is not version {_FORMAT}")
            values["datasets"] = tuple(_facts(item) for item in values["datasets"])
            values["units"] = tuple(_unit(item) for item in values["units"])
            values["methods"] = {name: MethodFacts(**facts) for name, facts in values.get("methods", {}).items()}
            return Results(scores=_read_scores((folder / SCORES_FILE).read_text(encoding="utf-8")), **values)
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"the results in {str(folder)!r} cannot be read ({error}): run the benchmark again"
            ) from error


def architecture_of(unit: UnitResult) -> str:
    """Return the architecture that a unit's method had; empty if it has only one, or if none was recorded."""
    known = methods().get(unit.method)
    return known.architecture_of(unit.params) if known else ""


def title(method: str, *settings: Mapping[str, Any]) -> str:
    """Return the name of a method for people, with the architectures that `settings` name, as of several units."""
    known = methods().get(method)
    return _with_architectures(known.title, map(known.architecture_of, settings)) if known else method


def _with_architectures(title: str, architectures: Iterable[str]) -> str:
    names = sorted({*architectures} - {""})
    return f"{title} ({' and '.join(names)} architecture{'s' if len(names) > 1 else ''})" if names else title


def _look_up(method: str) -> MethodFacts | None:
    """Describe an installed method, for results that do not; None if there is no such method."""
    known = methods().get(method)
    return MethodFacts(known.title, known.group) if known else None


def model_title(members: Sequence[tuple[str, float]]) -> str:
    """Return a model in words, from titles and weights of its members: 'ensemble of LightGBM 60 %, Hopular 40 %'."""
    shares: dict[str, float] = {}
    for name, weight in members:
        shares[name] = shares.get(name, 0.0) + weight
    if len(members) == 1:
        return next(iter(shares))
    if len(shares) == 1:
        return f"ensemble of {len(members)} settings of {next(iter(shares))}"
    return f"ensemble of {', '.join(f'{name} {100 * share:.0f} %' for name, share in shares.items())}"


def describe(dataset: Dataset, findings: Sequence[Finding] = (), suite: str | None = None) -> DatasetFacts:
    """Return what a report says about a dataset, without secrets that its address may contain."""
    kinds = list(dataset.kinds.values())
    return DatasetFacts(
        name=dataset.name,
        task=dataset.task,
        rows=len(dataset),
        features=len(kinds),
        categorical=kinds.count("categorical"),
        classes=len(dataset.classes),
        missing=float(dataset.X.isna().to_numpy().mean()),
        source=without_secrets(dataset.source),
        fingerprint=dataset.fingerprint,
        suite=suite,
        findings=tuple((found.severity, found.check, found.sentence) for found in findings),
        notes=dataset.notes,
    )


def describe_machine() -> str:
    """Return this machine in words: 'Linux x86_64, 2 cores, 24 GB'."""
    cores, memory = plural(psutil.cpu_count() or 1, "core"), psutil.virtual_memory().total / 2**30
    return f"{platform.system()} {platform.machine()}, {cores}, {memory:.0f} GB"


def make_table(scores: Iterable[Score]) -> pd.DataFrame:
    """Return rows as the tidy table that ranks and reports are computed from."""
    numbers = [name for name in SCORE_COLUMNS if name not in _TEXT_COLUMNS]
    table = pd.DataFrame([asdict(score) for score in scores], columns=list(SCORE_COLUMNS))
    return table.astype({**dict.fromkeys(numbers, float), "seed": int})


def _read_scores(text: str) -> pd.DataFrame:
    """Read a table of scores from CSV; names such as 'NA' or '007' stay as they are."""
    numbers = {name: [""] for name in SCORE_COLUMNS if name not in _TEXT_COLUMNS}
    texts = dict.fromkeys(_TEXT_COLUMNS, str)
    return pd.read_csv(io.StringIO(text), dtype=texts, keep_default_na=False, na_values=numbers)


def _counted(values: Sequence[str]) -> str:
    """Write each value once, with its number of units if they differ: 'a (2 units) and b (1 unit)'."""
    counts = Counter(values)
    if len(counts) < 2:
        return "".join(counts)
    return " and ".join(f"{value} ({n} unit{'s' if n > 1 else ''})" for value, n in counts.most_common())


def _without_scores(unit: UnitResult) -> dict[str, Any]:
    """Return a unit as its file has it: the scores are in the table."""
    values = asdict(replace(unit, scores=()))
    del values["scores"]
    return values


def _facts(values: Mapping[str, Any]) -> DatasetFacts:
    findings = tuple((str(a), str(b), str(c)) for a, b, c in values["findings"])
    return DatasetFacts(**{**values, "findings": findings, "notes": tuple(values.get("notes", ()))})


def _unit(values: Mapping[str, Any]) -> UnitResult:
    maker = Maker(**values["maker"]) if values.get("maker") else None
    curve = tuple((int(step), float(score)) for step, score in values["curve"])
    return UnitResult(**{**values, "curve": curve, "maker": maker})
