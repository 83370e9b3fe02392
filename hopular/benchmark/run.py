"""Run: a unit from its search to its scores, and a whole benchmark, as plain functions.

`run_unit` is search, train, evaluate; `run` is fetch, audit, split, then every unit, then the results. Neither needs
Prefect or MLflow: `flows` wraps the same functions in tasks and hands them a tracker.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from hopular import settings
from hopular.benchmark.plan import Plan
from hopular.benchmark.results import BenchmarkError, collect
from hopular.benchmark.tracker import NullTracker, Tracker
from hopular.benchmark.unit import (
    Evaluated,
    Replicate,
    Searched,
    Trained,
    Unit,
    UnitError,
    failed,
    make_maker,
    make_units,
    members_of,
    pack,
    succeeded,
    unpack,
)
from hopular.data import load, make_splits
from hopular.data.audit import audit as audit_dataset
from hopular.data.registry import entries
from hopular.evaluation.metrics import row_losses
from hopular.evaluation.results import DatasetFacts, Results, UnitResult, describe
from hopular.evaluation.scores import Cost, score_predictions
from hopular.redaction import without_secrets
from hopular.trials.budget import metric_of
from hopular.trials.events import Event
from hopular.trials.refit import TRAIN_FACTOR, Refitted, StoppedError, refit, replicate_seeds, train
from hopular.trials.run import SearchResult, read_result
from hopular.trials.run import search as run_search
from hopular.trials.select import choose_members
from hopular.trials.trial import Trial
from hopular.trials.worker import WorkerPool
from hopular.util import InputError

SPARE = 600.0  # seconds for all that is no training
LONGEST = 30 * 86400.0  # seconds; what takes longer hangs
Splits = list[tuple[str, str]]  # ids and fingerprints
Findings = list[tuple[str, str, str]]  # severity, check, sentence


@dataclass(frozen=True)
class Context:
    """The surroundings of a unit, which its steps are given: who is told, when to stop, and where to work."""

    tracker: Tracker = field(default_factory=NullTracker)
    listen: Callable[[Event], None] = lambda event: None
    should_stop: Callable[[], bool] = lambda: False
    device: Callable[[str], AbstractContextManager[Any]] = lambda device: nullcontext()  # entered while a fit runs
    pool: WorkerPool | None = None  # of idle processes; without one every step starts its own
    temp_folder: Path | None = None

    def tell(self, unit: Unit, stage: Any, **values: Any) -> None:
        self.listen(Event(stage, unit.dataset, unit.split, unit.label, **values))

    @contextmanager
    def closing_run(self, unit: Unit, run_id: str) -> Iterator[None]:
        """If a step of the unit fails, let its run say so before the error goes on."""
        try:
            yield
        except BaseException as error:
            try:
                self.tracker.fail(run_id, error, self.should_stop() or isinstance(error, StoppedError))
            except Exception as second:
                error.add_note(f"and its run could not be closed: {second}")
            raise


# ----------------------------------------------------------------------------------------------------------- a unit


def run_unit(unit: Unit, others: Sequence[str] = (), context: Context = Context()) -> UnitResult:  # noqa: B008 - frozen
    """Search, train and evaluate a unit; an error is a result too. `others` are what an ensemble may choose from."""
    searched = None
    try:
        searched = search_unit(unit, others, context)
        trained = train_unit(unit, searched, context)
        evaluated = evaluate_unit(unit, searched, trained, context)
    except StoppedError:
        raise
    except Exception as error:
        result = failed(unit, f"{type(error).__name__}: {error}", searched)
        context.tell(unit, "failed", message=result.reason)
        return result
    context.tell(unit, "done", best=evaluated.scores[0].value, message=evaluated.scores[0].metric)
    return succeeded(unit, searched, trained, evaluated)


def search_unit(unit: Unit, others: Sequence[str], context: Context) -> Searched:
    """Search the method's space on the validation rows; an ensemble chooses among all that `others` tried."""
    unit.check_code()
    start, maker, problem = time.monotonic(), make_maker(unit.method, unit.device), unit.problem()
    chosen_by = metric_of(unit.budget.criterion, problem.task)
    run_id = context.tracker.start(unit, maker)
    scores: list[float] = []
    finished = 0

    def on_trial(trial: Trial, slots: int) -> None:
        nonlocal finished
        finished += 1
        if trial.score is not None:
            scores.append(trial.score)
        best = max(scores, default=None)
        context.tell(unit, "trial", trial=finished, trials=slots, best=best, message=chosen_by)
        context.tracker.log_trial(run_id, trial)

    with context.closing_run(unit, run_id):
        context.tell(unit, "search")
        if unit.is_ensemble:
            best, trials = _choose_members(unit, others), []
        else:
            with context.device(unit.device):
                found = run_search(
                    problem,
                    unit.method,
                    unit.budget,
                    seed=unit.seed,
                    threads=unit.threads,
                    device=unit.device,
                    predictions=_predictions_folder(),
                    pool=context.pool,
                    on_trial=on_trial,
                    should_stop=context.should_stop,
                )
            if context.should_stop():
                raise StoppedError(f"the search of {unit.title} was stopped")
            context.tracker.log_search(run_id, found, chosen_by)
            if found.best is None:
                raise UnitError(_why(found))
            best, trials = found.best, found.trials
    return Searched(run_id, chosen_by, best, tuple(trials), time.monotonic() - start, maker)


def train_unit(unit: Unit, searched: Searched, context: Context) -> Trained:
    """Train the best setting with each replicate seed; the first one's model is kept."""
    unit.check_code()
    dataset, split = unit.rows()
    X_test = dataset.X.iloc[split.test].reset_index(drop=True)
    seeds = replicate_seeds(searched.best, unit.budget.replicates)
    replicates: list[Replicate] = []
    kept = Trained((), float("nan"))
    with context.closing_run(unit, searched.run_id), tempfile.TemporaryDirectory(dir=context.temp_folder) as folder:
        for place, seed in enumerate(seeds):
            context.tell(unit, "train", trial=place, trials=len(seeds))
            model = Path(folder, "model") if place == 0 else None
            outcome = _train(unit, searched.best, X_test, seed, model, context)
            replicates.append(_replicate(seed, outcome))
            if model is not None:
                truth = dataset.y.iloc[split.valid].to_numpy()
                losses = row_losses(dataset.task, truth, outcome.predictions, list(outcome.classes) or None)
                model_id = context.tracker.log_model(unit, searched.run_id, model, outcome, losses.tolist())
                kept = Trained((), float(losses.mean()), model_id, outcome.members)
    return replace(kept, replicates=tuple(replicates))


def evaluate_unit(unit: Unit, searched: Searched, trained: Trained, context: Context) -> Evaluated:
    """Score the predictions of the test rows, and finish the unit's run."""
    dataset, split = unit.rows()
    truth, names = dataset.y.iloc[split.test].to_numpy(), (unit.dataset, unit.method, unit.split)
    with context.closing_run(unit, searched.run_id):
        context.tell(unit, "evaluate")
        scores = [
            score_predictions(
                names,
                one.seed,
                dataset.task,
                truth,
                unpack(one.predictions),
                one.classes or None,
                Cost(one.seconds, one.predict_seconds, one.memory),
            )
            for one in trained.replicates
        ]
        evaluated = Evaluated(tuple(row for rows in scores for row in rows))
        context.tracker.log_scores(unit, searched, trained, evaluated)
    return evaluated


def refit_unit(unit: Unit, searched: Searched, trained: Trained, folder: Path, context: Context) -> Refitted:
    """Train the unit's setting on all rows it can use, to be handed out, and save the model into `folder`."""
    unit.check_code()
    dataset, split = unit.rows()
    context.tell(unit, "refit")
    with context.device(unit.device):
        return refit(
            dataset,
            split,
            unit.method,
            searched.best,
            unit.budget,
            folder,
            members=trained.members,
            threads=unit.threads,
            device=unit.device,
            pool=context.pool,
            should_stop=context.should_stop,
        )


def seconds_for(unit: Unit, step: str, models: int = 1) -> float:
    """Return when a step that trains is to be given up: well after the budget's own limits, or very late without any.

    `models` are those that an ensemble is made of. The wait for a GPU, which may be long, counts as well.
    """
    budget, each = unit.budget, unit.budget.seconds_per_trial
    limits = []
    if step == "search":
        if budget.seconds:
            limits.append(2 * budget.seconds)
        if each and budget.grid_trials:
            limits.append(2 * each * max(budget.trials, budget.grid_trials))
    elif each:
        limits.append(TRAIN_FACTOR * each * budget.replicates * models)
    limit = SPARE + min(limits) if limits else LONGEST
    return limit if unit.device == "cpu" else limit + LONGEST


def _choose_members(unit: Unit, others: Sequence[str]) -> Trial:
    """Choose the members of an ensemble among all that the other methods tried: it is not searched for."""
    problem = unit.problem()
    tried = {method: read_result(problem, method, unit.budget, seed=unit.seed, device=unit.device) for method in others}
    folders = {method: _predictions_folder() / result.study.rpartition(" ")[2] for method, result in tried.items()}
    members = choose_members(problem, {name: result.trials for name, result in tried.items()}, folders)
    return Trial(0, unit.seed, {"members": members}, "complete", score=0.0)


def _train(unit: Unit, best: Trial, X_test: pd.DataFrame, seed: int, folder: Path | None, context: Context) -> Trial:
    with context.device(unit.device):
        outcome = train(
            unit.problem(),
            unit.method,
            best,
            unit.budget,
            X_test,
            seed=seed,
            study=unit.study,
            folder=folder,
            threads=unit.threads,
            device=unit.device,
            pool=context.pool,
            should_stop=context.should_stop,
        )
    if outcome.state != "complete":
        raise UnitError(f"training with seed {seed} failed: {outcome.failure}: {outcome.message}")
    return outcome


def _replicate(seed: int, outcome: Trial) -> Replicate:
    return Replicate(
        seed,
        pack(outcome.test_predictions),
        list(outcome.classes),
        outcome.score,
        outcome.metrics,
        outcome.fit_seconds,
        outcome.predict_seconds,
        outcome.peak_memory,
    )


def _why(found: SearchResult) -> str:
    messages = [f"{trial.failure}: {trial.message}" for trial in found.trials if trial.message]
    return f"no trial succeeded ({found.summary})" + (f"; the first failed with {messages[0]}" if messages else "")


def _predictions_folder() -> Path:
    """Return where the validation predictions of all trials are, which ensembles choose from."""
    return settings.runs_folder() / "predictions"


# ------------------------------------------------------------------------------------------------------ a benchmark


def run(plan: Plan, context: Context = Context()) -> Results:  # noqa: B008 - frozen
    """Run a benchmark in this process, one unit after the other: fetch, audit, split; units; results."""
    found, refused = dict[str, tuple[DatasetFacts, Splits]](), dict[str, str]()
    for reference in plan.references():
        try:
            found[reference] = fetch(reference, plan.target_of(reference)), split(reference, plan.target_of(reference))
        except (ValueError, OSError) as error:
            refused[without_secrets(reference)] = f"{type(error).__name__}: {error}"
    datasets = choose_datasets(plan, found, refused, lambda note: context.listen(Event("note", message=note)))
    benchmark, units = name_benchmark(plan, datasets), make_units(plan, datasets)
    context.listen(Event("planned", trials=len(units), message=benchmark))
    results: dict[Unit, UnitResult] = {}
    for unit in units:
        others = [one.method for one in members_of(unit, units) if results[one].state == "complete"]
        results[unit] = run_unit(unit, others, context)
    audited = [
        replace(facts, findings=tuple(audit(reference, plan.target_of(reference), [key for _, key in splits])))
        for reference, (facts, splits) in datasets.items()
    ]
    return collect(plan, benchmark, audited, list(results.values()))


def fetch(reference: str, target: str | None) -> DatasetFacts:
    """Load a dataset, from its origin or the cache, and say what it is."""
    dataset = load(reference, target=target)
    entry = entries().get(dataset.name)
    return describe(dataset, suite=None if entry is None else entry.suite)


def split(reference: str, target: str | None) -> Splits:
    """Return the ids and fingerprints of all splits of a dataset."""
    return [(found.id, found.fingerprint) for found in make_splits(load(reference, target=target))]


def audit(reference: str, target: str | None, splits: Sequence[str]) -> Findings:
    """Audit a dataset and the splits in use, named by their fingerprints; the worst findings come first."""
    dataset = load(reference, target=target)
    findings = audit_dataset(dataset, [found for found in make_splits(dataset) if found.fingerprint in splits])
    return [(found.severity, found.check, found.sentence) for found in findings]


def choose_datasets(
    plan: Plan,
    found: Mapping[str, tuple[DatasetFacts, Splits]],
    refused: dict[str, str],
    note: Callable[[str], None],
) -> dict[str, tuple[DatasetFacts, Splits]]:
    """Return the datasets that can be used, each with as many splits as the plan wants.

    `refused` has those that could not be loaded, and receives the others that cannot be used; BenchmarkError if none
    is left. `note` is told of each that has fewer splits than wanted.
    """
    if not found:
        raise BenchmarkError(f"no dataset could be loaded: {'; '.join(refused.values())}")
    unfit = dict(_refusals(plan, {reference: facts for reference, (facts, _) in found.items()}))
    if len(unfit) == len(found):
        raise BenchmarkError("; ".join(unfit.values()))
    refused.update({without_secrets(reference): reason for reference, reason in unfit.items()})
    usable = {reference: values for reference, values in found.items() if reference not in unfit}
    if plan.splits == "all":
        return usable
    for text in missing_splits(plan.splits, {facts.name: len(splits) for facts, splits in usable.values()}):
        note(text)
    return {reference: (facts, splits[: plan.splits]) for reference, (facts, splits) in usable.items()}


def _refusals(plan: Plan, datasets: Mapping[str, DatasetFacts]) -> Iterator[tuple[str, str]]:
    """Find the datasets that no method of the plan is for, and those whose name is that of another; with the reason."""
    owners: dict[str, str] = {}
    for reference, facts in datasets.items():
        name, task = facts.name, facts.task
        if not plan.methods_for(task):
            yield reference, f"none of the methods {', '.join(plan.methods)} is for {task}, which {name!r} is: add one"
        elif name in owners:
            others = without_secrets(owners[name])
            yield reference, f"{without_secrets(reference)} is called {name!r}, as {others} is: rename one of them"
        else:
            owners[name] = reference


def missing_splits(wanted: int, counts: Mapping[str, int]) -> list[str]:
    """Return a note for each dataset with fewer splits than wanted; InputError if every dataset has fewer."""
    if wanted > (most := max(counts.values())):
        which = f"{next(iter(counts))} has" if len(counts) == 1 else "no dataset has more than"
        remedy = "use 1, or all" if most == 1 else f"use 1 to {most}, or all"
        raise InputError(f"splits is {wanted}, but {which} {most}: {remedy}")
    short = {name: count for name, count in counts.items() if count < wanted}
    return [
        f"{name} has {count} of the {wanted} splits asked for, and is run on these" for name, count in short.items()
    ]


def name_benchmark(plan: Plan, datasets: Mapping[str, tuple[DatasetFacts, Splits]]) -> str:
    """Return the id of a benchmark, which says what it is of and changes with what its results depend on."""
    return plan.digest([facts.fingerprint for facts, _ in datasets.values()])
