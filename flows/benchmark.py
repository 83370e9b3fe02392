"""The benchmark as a flow: fetch, audit, split; for each unit search, train, evaluate; rank, refit, report.

The work itself is in `hopular.benchmark.run`. Here each step is a task of Prefect's graph, with retries, time limits
and results that are kept under content keys, so that what was finished once is not run again.
"""

from __future__ import annotations

import json
import random
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass, field, fields, replace
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run, task_run
from prefect.states import Completed
from prefect.task_engine import TaskRunTimeoutError

from flows.runners import gpu_slot, make_limit, make_runner, temp_folder
from flows.tracking.champion import ROWS, TRAINED_ON, Candidate, Decision, decide, promote
from flows.tracking.models import log_model
from flows.tracking.runs import end_running, finish_unit, is_there, join_benchmark, lineage_of, reasons, store_id
from flows.tracking.store import is_unavailable, open_store, retry_store
from flows.tracking.summary import benchmark_lineage, save_summary
from flows.tracking.tracker import MlflowTracker
from hopular import formatting
from hopular.benchmark import run as steps
from hopular.benchmark.plan import Plan
from hopular.benchmark.results import collect, write_files
from hopular.benchmark.run import Context, Findings, Splits, choose_datasets, name_benchmark
from hopular.benchmark.unit import (
    Evaluated,
    Searched,
    Trained,
    Unit,
    content_key,
    failed,
    make_maker,
    make_units,
    members_of,
    succeeded,
)
from hopular.data.download import UnreachableError
from hopular.evaluation.compare import Comparison
from hopular.evaluation.results import DatasetFacts, Results, UnitResult
from hopular.evaluation.verdict import Standings
from hopular.redaction import without_secrets
from hopular.report.leaderboard import to_markdown
from hopular.trials.events import Event
from hopular.trials.worker import InfrastructureError, WorkerPool

if TYPE_CHECKING:
    from mlflow import MlflowClient

T = TypeVar("T")
_FORMAT = "2"  # of what tasks return; raised when an older result could not be read
_IDLE_WORKERS = 4  # processes that wait for more work
RETRY_PAUSE = 8.0  # seconds; five pauses that double are 248 s, about as long as a single call waits for the store
# Prefect warns that a time-out cannot interrupt a thread that blocks. Ours wait for their processes in short steps.
getLogger("prefect.task_runs").addFilter(lambda record: "running in a worker thread" not in str(record.msg))


@dataclass(frozen=True, eq=False)
class Session:
    """The things that the tasks of one benchmark share: who listens, when to stop, where things are kept.

    It is passed to every task. In threads of this process that is the very same object. Dask and Ray send a copy to
    another process: nobody listens there, such a process is ended from outside rather than asked to stop, keeps no
    idle workers, and opens the tracking store itself.
    """

    listen: Callable[[Event], None] = lambda event: None
    stop: threading.Event = field(default_factory=threading.Event)
    temp_folder: Path | None = None
    pool: WorkerPool | None = None
    client: MlflowClient | None = None
    benchmark: str = ""
    flow_run: str = ""
    store: str = ""  # names the tracking store that results are kept in: in another one they count as not there

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Session, benchmark=self.benchmark, flow_run=self.flow_run, store=self.store), ()

    def context(self) -> Context:
        """Return what the steps of a unit are given."""
        tracker = MlflowTracker(self.open(), self.benchmark, self.flow_run, self.stop, self.temp_folder)
        return Context(
            tracker, self.listen, self.stop.is_set, partial(gpu_slot, self.stop), self.pool, self.temp_folder
        )

    def open(self) -> MlflowClient:
        return self.client or open_store()

    def ask(self, action: Callable[[], T], seconds: float = 180.0) -> T:
        """Do something with the tracking store, again while it is unavailable."""
        return retry_store(action, self.stop, seconds)


# ------------------------------------------------------------------------------------------------------------ tasks


def _is_infrastructure(state: Any) -> bool:
    """Tell whether another try may help: the machine, a store or the network failed, not the model or the data.

    A task that has used up its own time would do so again.
    """
    error = state.result(raise_on_failure=False)
    if not isinstance(error, Exception) or isinstance(error, TaskRunTimeoutError):
        return False
    return isinstance(error, InfrastructureError | UnreachableError) or is_unavailable(error)


def _try_again(session: Session, _task: Any, run: Any, state: Any) -> bool:
    """Tell whether to do a task once more, after a pause that doubles each time.

    Prefect's own pause between tries cannot be cut short when the benchmark is stopped.
    """
    pause = RETRY_PAUSE * 2 ** (run.run_count - 1) * random.uniform(0.7, 1.3)
    return _is_infrastructure(state) and not session.stop.wait(pause)


def _key(context: Any, parameters: Mapping[str, Any]) -> str:
    """Identify a step of a unit by task and content; results kept for another tracking store do not count."""
    unit: Unit = parameters["unit"]
    parts = [_FORMAT, unit.key, parameters["session"].store]
    if unit.is_ensemble:  # it depends on which of the other methods succeeded
        parts += parameters["others"] if "others" in parameters else [json.dumps(parameters["searched"].best.params)]
    return f"{context.task.name}-{content_key(*parts)}"


def _audit_key(_: Any, parameters: Mapping[str, Any]) -> str:
    return f"audit-{content_key(parameters['fingerprint'], *parameters['splits'])}"


def _name() -> str:
    """Return the name of a run of a task that loads a dataset, without what the address of one may hide."""
    return without_secrets(f"{task_run.task_name} {task_run.parameters['reference']}")


_KEPT: dict[str, Any] = {"persist_result": True, "result_serializer": "json", "retries": 5}


@task(name="fetch", task_run_name=_name, cache_policy=NO_CACHE, timeout_seconds=1800, retries=2)
def fetch(reference: str, target: str | None) -> DatasetFacts:
    """Load a dataset and say what it is; each download is tried several times already."""
    return steps.fetch(reference, target)


@task(name="split", task_run_name=_name, cache_policy=NO_CACHE, timeout_seconds=600)
def split(reference: str, target: str | None) -> Splits:
    """Divide a dataset into training, validation and test rows."""
    return steps.split(reference, target)


@task(
    name="audit",
    task_run_name=_name,
    cache_key_fn=_audit_key,
    timeout_seconds=1800,
    persist_result=True,
    result_serializer="json",
)
def audit(reference: str, target: str | None, fingerprint: str, splits: list[str]) -> Findings:
    """Look for what is wrong with a dataset and the splits in use, all named by their fingerprints."""
    return steps.audit(reference, target, splits)


@task(name="search", task_run_name="search {unit.title}", cache_key_fn=_key, **_KEPT)
def search(unit: Unit, others: list[str], session: Session) -> Searched:
    """Search the method's space on the validation rows, with a place on the GPU if the unit needs one."""
    return steps.search_unit(unit, others, session.context())


@task(name="train", task_run_name="train {unit.title}", cache_key_fn=_key, **_KEPT)
def train(unit: Unit, searched: Searched, session: Session) -> Trained:
    """Train the best setting with each replicate seed, with a place on the GPU if the unit needs one."""
    return steps.train_unit(unit, searched, session.context())


@task(name="evaluate", task_run_name="evaluate {unit.title}", cache_key_fn=_key, timeout_seconds=1800, **_KEPT)
def evaluate(unit: Unit, searched: Searched, trained: Trained, session: Session) -> Evaluated:
    """Score the predictions of the test rows."""
    return steps.evaluate_unit(unit, searched, trained, session.context())


@dataclass(frozen=True)
class Ranked:
    """The standings of the methods, and for each dataset whether its champion is to be replaced."""

    standings: Standings
    decisions: dict[str, Decision]


@task(name="rank", cache_policy=NO_CACHE, timeout_seconds=1800, retries=5)
def rank(results: Results, candidates: Mapping[str, list[Candidate]], session: Session) -> Ranked:
    """Rank the methods, and decide for each dataset whether its winner by validation is to be its champion."""
    client = session.open()
    decisions = {name: decide(client, name, found) for name, found in candidates.items()}
    standings = Standings(results)
    get_run_logger().info("%s", standings.headline)
    return Ranked(standings, decisions)


@task(name="refit", task_run_name="refit {unit.title}", cache_policy=NO_CACHE, retries=5)
def refit(unit: Unit, searched: Searched, trained: Trained, decision: Decision, session: Session) -> str:
    """Train the winner on all rows it can use and make that model the champion; return a sentence on it."""
    client, (dataset, _) = session.open(), unit.rows()
    with tempfile.TemporaryDirectory(dir=session.temp_folder) as folder:
        model = Path(folder, "model")
        done = steps.refit_unit(unit, searched, trained, model, session.context())
        count = "-".join(dict.fromkeys([str(min(done.rows)), str(max(done.rows))]))
        said = {ROWS: count, TRAINED_ON: f"trained on {formatting.of_rows(done.rows, len(dataset))}"}
        described = (unit.method, dataset.task, list(done.classes), dataset.X)
        model_id = session.ask(lambda: log_model(client, searched.run_id, model, *described, {}, said))
    return session.ask(lambda: promote(client, decision, model_id, said[ROWS], said[TRAINED_ON]))


@dataclass(frozen=True, eq=False)
class Published:
    """A finished benchmark: where its results are, how much was done for it, and what failed."""

    benchmark: str
    headline: str
    report: str  # path of the page
    run_id: str  # of its summary in the tracking store
    champions: dict[str, str]  # a sentence on each dataset's
    units: int
    reused: int
    failed: dict[str, str]  # units, and datasets that could not be used, with the reason
    datasets: int
    leaderboard: pd.DataFrame

    def to_json(self) -> dict[str, Any]:
        """Return what `hopular benchmark --json` shows."""
        hidden = ("datasets", "leaderboard")
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in hidden}

    def counted(self) -> str:
        """Say how much was done and what was there before."""
        units, reused = self.units, self.reused
        if reused == units:
            all_units = "the one unit was" if units == 1 else f"all {units} units were"
            return f"nothing was trained: {all_units} finished before"
        return f"{formatting.plural(units - reused, 'unit')} run" + (f", {reused} finished before" if reused else "")

    def closing_sentence(self) -> str:
        """Say how much was done, what failed first and why."""
        if not self.failed:
            return self.counted()
        first, why = next(iter(self.failed.items()))
        return f"{self.counted()}; {len(self.failed)} failed, first {first}: {why}"


@task(name="report", cache_policy=NO_CACHE, timeout_seconds=1800, retries=5)
def report(
    ranked: Ranked,
    refused: Mapping[str, str],
    changes: Comparison | None,
    champions: Mapping[str, str],
    session: Session,
) -> Published:
    """Write the report and the leaderboard in every form; put them into the tracking store and the run's artifacts."""
    standings = ranked.standings
    results, table, headline = standings.results, standings.table, standings.headline
    page = write_files(standings, changes)
    lost = {f"{unit.method} on {unit.dataset} {unit.split}": unit.reason for unit in standings.failed}
    all_failed = {**refused, **lost}
    rows = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    ranks = {f"rank_{row['method']}": row["mean_rank"] for row in rows}
    run_id = save_summary(session.open(), results, benchmark_lineage(results, session.flow_run), ranks, page.parent)
    key = "".join(letter if letter.isalnum() else "-" for letter in results.id.lower())
    create_table_artifact(rows, key=f"leaderboard-{key}", description=headline)
    lines = [f"# {results.id}", "", headline, "", to_markdown(table)]
    if all_failed:
        lines += ["", "## Failed", "", *(f"- {name}: {why}" for name, why in all_failed.items())]
    create_markdown_artifact("\n".join(lines), key=f"report-{key}", description="Leaderboard and failures")
    create_link_artifact(page.as_uri(), key=f"page-{key}", description="The whole report")
    return Published(
        *(results.id, headline, str(page), run_id, dict(champions), len(results.units)),
        *(sum(unit.is_reused for unit in results.units), all_failed, len(results.datasets), table),
    )


# ------------------------------------------------------------------------------------------------------------- flow


def _run_name() -> str:
    plan = flow_run.parameters.get("plan")
    if not isinstance(plan, Plan):
        return "benchmark"
    return " ".join([*(without_secrets(reference) for reference in plan.datasets[:3]), plan.budget])


@flow(name="hopular-benchmark", flow_run_name=_run_name)
def hopular_benchmark(plan: Plan = Plan()) -> Any:  # noqa: B008 - a frozen model
    """Benchmark the plan's methods on its datasets and return where the results are.

    A unit that fails does not take the others with it; what failed and why is in the results, the report and the
    message of the final state. What was finished before is not done again.
    """
    published = run_benchmark(plan, Session())
    return Completed(message=published.closing_sentence(), data=published.to_json())


def run_here(plan: Plan, listen: Callable[[Event], None], stop: threading.Event | None = None) -> Published:
    """Run the flow in this process; its events go to `listen`, which is no parameter that Prefect could show."""
    session, kept = Session(listen, stop or threading.Event()), list[Published]()

    @flow(name=hopular_benchmark.name, flow_run_name=_run_name)
    def hopular_benchmark_here(plan: Plan) -> Any:
        kept.append(run_benchmark(plan, session))
        return Completed(message=kept[0].closing_sentence(), data=kept[0].to_json())

    hopular_benchmark_here(plan)
    return kept[0]


def run_benchmark(plan: Plan, session: Session) -> Published:
    """Run the graph within a flow. However it ends, no unit is left RUNNING in the store."""
    begun: set[str] = set()  # keys of units that have a run and are not finished
    lock = threading.Lock()

    def listen(event: Event) -> None:
        with lock:
            session.listen(event)

    client = session.open()
    try:
        with temp_folder() as folder, WorkerPool(_IDLE_WORKERS) as pool, make_runner(plan) as runner:
            own = replace(
                session, listen=listen, temp_folder=folder, pool=pool, client=client, flow_run=str(flow_run.id or "")
            )
            try:
                return _Benchmark(plan, runner, own, begun).run()
            except BaseException:
                session.stop.set()
                raise
    except BaseException:
        if begun:
            try:
                end_running(client, begun, "KILLED", "the benchmark was stopped")
            except Exception as error:
                get_run_logger().error("the runs of stopped units could not be closed: %s", error)
        raise


@dataclass(frozen=True)
class Done:
    """A unit that went well: what its search and training returned, and the future of its last task."""

    unit: Unit
    searched: Searched
    trained: Trained
    future: Any


class _StepError(RuntimeError):
    """A task of a unit failed; the message says why, and `is_lost` that its process was lost before it could end."""

    def __init__(self, reason: str, is_lost: bool) -> None:
        super().__init__(reason)
        self.is_lost = is_lost


class _Benchmark:
    """The tasks of one run of the flow, in their order."""

    def __init__(self, plan: Plan, runner: Any, session: Session, begun: set[str]) -> None:
        self.plan, self.runner, self.session, self.begun = plan, runner, session, begun
        self.logger = get_run_logger()
        # By the key of each unit:
        self.searches: dict[str, Any] = {}  # futures of searches that succeeded
        self.is_searched: dict[str, threading.Event] = {}  # whether its search is over, whatever came of it
        self.done: dict[str, Done] = {}

    def run(self) -> Published:
        """Fetch, split, audit; for each unit search, train, evaluate; rank, refit, report."""
        refused: dict[str, str] = {}
        datasets = self._fetch(refused)
        benchmark = name_benchmark(self.plan, datasets)
        client = self.session.open()
        store = self.session.ask(lambda: store_id(client), seconds=60)  # not longer: its address may be wrong
        self.session = replace(self.session, benchmark=benchmark, store=store)
        units = make_units(self.plan, datasets)
        self._announce(units, len(datasets))
        audits = {
            reference: self._submit(
                audit, **self._source(reference), fingerprint=facts.fingerprint, splits=[key for _, key in splits]
            )
            for reference, (facts, splits) in datasets.items()
        }
        ended = dict(self._run_units(units))
        facts = [_with_findings(facts, audits[reference]) for reference, (facts, _) in datasets.items()]
        results = collect(self.plan, benchmark, facts, [ended[unit.key] for unit in units])
        done = [self.done[unit.key] for unit in units if unit.key in self.done]
        candidates = {found.name: _candidates(found.name, done) for found in facts}
        values = {"results": results, "candidates": candidates, "session": self.session}
        ranked = self._submit(rank, [one.future for one in done], **values)
        champions = self._refit(ranked, done)
        last = {"ranked": ranked, "refused": refused, "changes": None, "champions": champions}
        published: Published = self._submit(report, session=self.session, **last).result()
        return published

    def _fetch(self, refused: dict[str, str]) -> dict[str, tuple[DatasetFacts, Splits]]:
        """Return the datasets that can be used, with their splits; `refused` receives the others, with the reason."""
        fetched = {name: self._submit(fetch, **self._source(name)) for name in self.plan.references()}
        found: dict[str, tuple[DatasetFacts, Splits]] = {}
        for reference, future in fetched.items():
            try:
                facts = _result(future)
                found[reference] = facts, _result(self._submit(split, [future], **self._source(reference)))
            except _StepError as error:
                refused[without_secrets(reference)] = str(error)
        datasets = choose_datasets(self.plan, found, refused, self._note)
        for name, reason in refused.items():
            self.logger.error("%s cannot be used: %s", name, reason)
        return datasets

    def _announce(self, units: Sequence[Unit], datasets: int) -> None:
        """Say what is to be run, and, once for each method, why units are computed again."""
        if any(unit.device != "cpu" for unit in units):
            make_limit()
        self.session.listen(Event("planned", trials=len(units), message=self.session.benchmark))
        self.logger.info("%s: %d units on %d datasets", self.session.benchmark, len(units), datasets)
        by_key = {unit.key: unit for unit in units}
        makers = {(unit.method, unit.device): make_maker(unit.method, unit.device) for unit in units}
        lineages = {
            key: lineage_of(unit, makers[unit.method, unit.device], self.session.benchmark)
            for key, unit in by_key.items()
        }
        try:
            found = reasons(self.session.open(), lineages)
        except Exception as error:  # it is good to know, but the benchmark does without
            self.logger.warning("whether units were computed before with other code is not known: %s", error)
            return
        for method, why in dict.fromkeys((by_key[key].method, why) for key, why in found.items()):
            self.session.listen(Event("note", method=method, message=why))
            self.logger.info("%s: %s", method, why)

    def _run_units(self, units: Sequence[Unit]) -> Iterator[tuple[str, UnitResult]]:
        """Take units through their tasks, and yield the key and result of each as it ends.

        Here, as many units as the plan has workers are at work at a time, each with one task at a time, and one that
        has begun is finished before another begins, so that results come early and evenly. A cluster gets all at once
        and has a queue of its own.
        """
        self.is_searched = {unit.key: threading.Event() for unit in units}
        members = {unit.key: members_of(unit, units) for unit in units}
        is_local = self.plan.runner == "local"
        pool = ThreadPoolExecutor(self.plan.width if is_local else max(1, len(units)))
        futures = [pool.submit(copy_context().run, self._run_unit, unit, members[unit.key]) for unit in units]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            self.session.stop.set()
            pool.shutdown(wait=is_local, cancel_futures=True)  # tasks elsewhere end with the cluster, which is next
            raise
        pool.shutdown()

    def _run_unit(self, unit: Unit, members: Sequence[Unit]) -> tuple[str, UnitResult]:
        """Search, train, evaluate. A task that fails ends its own unit, not the others."""
        searched: Searched | None = None
        for member in members:
            self.is_searched[member.key].wait()
        chosen_from = [member for member in members if member.key in self.searches]
        others, after = [one.method for one in chosen_from], [self.searches[one.key] for one in chosen_from]
        self.begun.add(unit.key)
        try:
            first = self._step(search, unit, after, others=others)
            searched, is_lost = _result(first), self._is_lost(first)
            if is_lost:
                first = self._step(search, unit, after, is_renewed=True, others=others)
                searched = _result(first)
            self.searches[unit.key] = first
            self.is_searched[unit.key].set()
            second = self._step(train, unit, models=searched.models, is_renewed=is_lost, searched=first)
            trained = _result(second)
            third = self._step(evaluate, unit, is_renewed=is_lost, searched=first, trained=second)
            evaluated = _result(third)
        except _StepError as error:
            return unit.key, self._failed(unit, error, searched)
        finally:
            self.is_searched[unit.key].set()
        is_reused = all(future.state.name == "Cached" for future in (first, second, third))
        client, run_id = self.session.open(), searched.run_id
        self.session.ask(lambda: join_benchmark(client, run_id, self.session.benchmark))
        if third.state.name == "Cached" and not is_reused:
            # A search was done again, since its result was lost; the rest was not, so nobody ends the run.
            self.session.ask(lambda: finish_unit(client, run_id, "FINISHED"))
        self.begun.discard(unit.key)
        score = evaluated.scores[0]
        self._tell(unit, "reused" if is_reused else "done", best=score.value, message=score.metric)
        self.logger.info("%s: %s %.4g%s", unit.title, score.metric, score.value, ", as before" if is_reused else "")
        self.done[unit.key] = Done(unit, searched, trained, third)
        return unit.key, succeeded(unit, searched, trained, evaluated, is_reused)

    def _failed(self, unit: Unit, error: _StepError, searched: Searched | None) -> UnitResult:
        if error.is_lost:  # nobody is left to end its run
            client = self.session.open()
            self.session.ask(lambda: end_running(client, {unit.key}, "FAILED", str(error)))
        self._tell(unit, "failed", message=str(error))
        self.logger.error("%s failed: %s", unit.title, error)
        return failed(unit, str(error), searched)

    def _is_lost(self, future: Any) -> bool:
        """Tell whether a unit was finished before but its run is gone since, deleted by a person perhaps."""
        if future.state.name != "Cached":
            return False
        client, run_id = self.session.open(), future.result().run_id
        return not self.session.ask(lambda: is_there(client, run_id))

    def _refit(self, ranked: Any, done: Sequence[Done]) -> dict[str, str]:
        """Train the winner of each dataset on all rows it can use, and say what became of its champion.

        Without a model of all rows the champion stays what it was.
        """
        decisions: dict[str, Decision] = ranked.result().decisions  # if it failed, its own error says why
        refits = {}
        for name, decision in decisions.items():
            if decision.chosen:  # the setting of its first split
                [one] = [each for each in done if each.searched.run_id == decision.chosen[0].run_id]
                values: dict[str, Any] = {"searched": one.searched, "trained": one.trained, "decision": decision}
                refits[name] = self._step(
                    refit, one.unit, [ranked, one.future], models=max(1, len(one.trained.members)), **values
                )
        champions = {}
        for name, decision in decisions.items():
            try:
                champions[name] = _result(refits[name]) if name in refits else decision.stays()
            except _StepError as error:
                better = f"{decision.chosen[0].method} did better, but its refit failed"
                champions[name] = decision.stays(f"{better}: {error}")
                self.logger.error("%s", champions[name])
        return champions

    def _step(
        self, task: Any, unit: Unit, after: Sequence[Any] = (), models: int = 1, is_renewed: bool = False, **values: Any
    ) -> Any:
        """Submit a task of a unit, with its time limit; if `is_renewed`, what was kept of it does not count."""
        limit = task.timeout_seconds or steps.seconds_for(unit, task.name, models)
        task = task.with_options(timeout_seconds=limit, refresh_cache=is_renewed)
        return self._submit(task, after, unit=unit, session=self.session, **values)

    def _submit(self, task: Any, after: Sequence[Any] = (), **values: Any) -> Any:
        """Submit a task and return its future. Futures among its arguments, and those in `after`, come before it."""
        task = task.with_options(retry_condition_fn=partial(_try_again, self.session))
        return self.runner.submit(task, parameters=values, wait_for=list(after) or None)

    def _source(self, reference: str) -> dict[str, Any]:
        return {"reference": reference, "target": self.plan.target_of(reference)}

    def _note(self, text: str) -> None:
        self.session.listen(Event("note", message=text))
        self.logger.warning(text)

    def _tell(self, unit: Unit, stage: Any, **values: Any) -> None:
        self.session.listen(Event(stage, unit.dataset, unit.split, unit.label, **values))


def _candidates(dataset: str, done: Sequence[Done]) -> list[Candidate]:
    """Return the units of a dataset whose models can be kept, among which its champion is chosen."""
    return [
        Candidate(
            run_id=one.searched.run_id,
            method=one.unit.method,
            split=one.unit.split,
            split_fingerprint=one.unit.split_fingerprint,
            dataset_fingerprint=one.unit.dataset_fingerprint,
            loss=one.trained.valid_loss,
            tried=sum(one.searched.counts.values()),
        )
        for one in done
        if one.unit.dataset == dataset and one.trained.model_id
    ]


def _with_findings(facts: DatasetFacts, audited: Any) -> DatasetFacts:
    """Return what is known of a dataset; an audit that failed is a finding too."""
    try:
        findings = tuple((str(a), str(b), str(c)) for a, b, c in _result(audited))
    except _StepError as error:
        findings = (("warning", "audit", f"The audit failed: {error}"),)
    return replace(facts, findings=findings)


def _result(future: Any) -> Any:
    """Return what a task returned; _StepError with a reason in one line if it failed."""
    future.wait()
    state = future.state
    if state.is_completed():
        return future.result()
    if not state.is_final():
        raise _StepError(f"the process of the task was lost while it was {state.name}", is_lost=True)
    error = state.result(raise_on_failure=False)
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(state.message)
    raise _StepError(without_secrets(" ".join(text.split())[:2000]), is_lost=False)
