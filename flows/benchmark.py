"""The benchmark as a flow: fetch, audit, split, search, train, evaluate, rank, refit, report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import flow, get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed

from flows import stopping
from flows.assignment import Assignment, content_key, problem_of
from flows.collect import candidates, collect, dataset_facts
from flows.gpu import make_limit
from flows.progress import tell
from flows.publish import closing_words, rank, report
from flows.runners import make_runner
from flows.schedule import Course, follow, reason_of
from flows.scratch import own_scratch
from flows.tasks import audit, evaluate, fetch, lineage_of, refit, search, seconds_for, split, train
from flows.tracking.champion import Decision
from flows.tracking.lineage import make_maker
from flows.tracking.membership import join_benchmark, store_id
from flows.tracking.store import open_store, patiently
from flows.tracking.units import end_running, finish_unit, is_there, reasons
from hopular.benchmark.plan import Plan
from hopular.methods import get_method
from hopular.methods.fingerprint import scoring_code, take_fingerprint
from hopular.redaction import without_secrets
from hopular.trials.events import Event
from hopular.trials.run import study_name
from hopular.trials.worker import WorkerPool
from hopular.util import InputError, OperationError

if TYPE_CHECKING:
    from mlflow import MlflowClient

STEPS = (search, train, evaluate)
IDLE_WORKERS = 4  # processes that wait for more work


class BenchmarkError(OperationError):
    """Nothing came of a benchmark; the message says what went wrong first."""


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
    outcome = run_plan(plan)
    return Completed(message=closing_words(outcome), data=outcome)


def run_plan(plan: Plan) -> dict[str, Any]:
    """The graph itself, within a flow. However it ends, no unit is left RUNNING in the store."""
    courses: list[Course] = []
    try:
        with own_scratch(), WorkerPool(IDLE_WORKERS) as pool, make_runner(plan) as runner:
            try:
                return _run_plan(plan, runner, courses, pool)
            except BaseException:
                stopping.stop()
                raise
    except BaseException:
        _end_units(courses)
        raise
    finally:
        stopping.clear()


def _run_plan(plan: Plan, runner: Any, courses: list[Course], pool: WorkerPool) -> dict[str, Any]:
    """The tasks in their order; `courses` receives the units as soon as they are known."""
    client, width = open_store(), plan.width if plan.runner == "local" else None
    datasets, failed = _fetch(runner, plan)
    benchmark = plan.digest([facts["fingerprint"] for facts, _ in datasets.values()])
    store = patiently(lambda: store_id(client), seconds=60)  # not longer, since its address may be wrong
    courses += _courses(plan, datasets, benchmark, store)
    if any(course.unit.device != "cpu" for course in courses):
        make_limit()
    tell(Event("planned", trials=len(courses), message=benchmark))
    _tell_changes(client, courses)
    get_run_logger().info("%s: %d units on %d datasets", benchmark, len(courses), len(datasets))
    audits = {reference: _audit(runner, plan, reference, *datasets[reference]) for reference in datasets}
    submit, is_lost = partial(_next_task, runner, pool), partial(_is_lost, client)
    for course in follow(courses, len(STEPS), submit, width, is_lost):
        _tell_end(course)
        if not course.error:
            run_id = course.results[0]["run_id"]
            patiently(partial(join_benchmark, client, run_id, benchmark))
            if course.futures[-1].state.name == "Cached" and not course.is_reused:
                # A search was done again, since its result was lost; the rest was not, so nobody ends the run.
                patiently(partial(finish_unit, client, run_id, "FINISHED"))
        elif not course.futures[-1].state.is_final():
            patiently(partial(end_running, client, {course.unit.key}, "FAILED", course.error))
    facts = [dataset_facts(found, audits[reference]) for reference, (found, _) in datasets.items()]
    results = collect(plan, benchmark, facts, courses)
    if not len(results.scores):
        raise BenchmarkError(f"every unit failed, first {courses[0].unit.title}: {courses[0].error}")
    models = {found.name: candidates(found, courses) for found in facts}
    done = [course.futures[-1] for course in courses if not course.error]
    ranked = _submit(runner, rank, done, results=results, candidates=models)
    decisions = ranked.result()["decisions"]  # if it failed, its own error says why; that of a report would not
    refits = {
        name: _refit(runner, pool, ranked, decision, courses) for name, decision in decisions.items() if decision.chosen
    }
    champions = {name: _champion(decision, refits.get(name)) for name, decision in decisions.items()}
    last = {"ranked": ranked, "failed": failed, "changes": None, "champions": champions}
    refitted = [future for future in refits.values() if future.state.is_completed()]  # one that failed holds up nothing
    outcome: dict[str, Any] = _submit(runner, report, refitted, **last).result()
    return outcome


def _refit(runner: Any, pool: WorkerPool, ranked: Any, decision: Decision, courses: list[Course]) -> Any:
    """Train the winner of a dataset on all rows it can use: the setting of its first split."""
    [course] = [one for one in courses if one.results and one.results[0]["run_id"] == decision.chosen[0].run_id]
    found, trained, _ = course.results
    limit = seconds_for(course.unit, refit.name, max(1, len(trained["members"])))
    values = {"unit": course.unit, "found": found, "trained": trained, "decision": decision, "pool": pool}
    return _submit(runner, refit.with_options(timeout_seconds=limit), [ranked, course.futures[-1]], **values)


def _champion(decision: Decision, refitted: Any | None) -> str:
    """Say what became of a dataset's champion; without a model of all rows it stays what it was."""
    if refitted is None:
        return decision.stays()
    refitted.wait()
    if refitted.state.is_completed():
        return str(refitted.result())
    said = decision.stays(f"{decision.chosen[0].method} did better, but its refit failed: {reason_of(refitted.state)}")
    get_run_logger().error("%s", said)
    return said


def _tell_changes(client: MlflowClient, courses: list[Course]) -> None:
    """Say, once for each method, why units are computed again that were computed before with something else."""
    make = cache(make_maker)
    units = {course.unit.key: course.unit for course in courses}
    lineages = {key: lineage_of(unit, make(unit.method, unit.device)) for key, unit in units.items()}
    try:
        found = reasons(client, lineages)
    except Exception as error:  # it is good to know, but the benchmark does without
        get_run_logger().warning("whether units were computed before with other code is not known: %s", error)
        return
    for method, why in dict.fromkeys((units[key].method, why) for key, why in found.items()):
        tell(Event("note", method=method, message=why))
        get_run_logger().info("%s: %s", method, why)


def _is_lost(client: MlflowClient, course: Course) -> bool:
    """Whether a unit was finished before but its run in the store is gone since, deleted by a person perhaps."""
    if len(course.results) > 1 or course.futures[0].state.name != "Cached":
        return False
    return not patiently(partial(is_there, client, course.results[0]["run_id"]))


def _end_units(courses: list[Course]) -> None:
    """Close the runs of units that were begun and will not be finished now."""
    begun = {course.unit.key for course in courses if course.futures and len(course.results) < len(STEPS)}
    if begun:
        try:
            end_running(open_store(), begun, "KILLED", "the benchmark was stopped")
        except Exception as error:
            get_run_logger().error("the runs of stopped units could not be closed: %s", error)


def _fetch(runner: Any, plan: Plan) -> tuple[dict[str, tuple[Any, list[tuple[str, str]]]], dict[str, str]]:
    """The datasets that could be loaded, with their splits, and why the others could not."""
    fetched = {reference: _submit(runner, fetch, **_source(plan, reference)) for reference in plan.references()}
    divided = {}
    for reference, future in fetched.items():
        future.wait()
        if future.state.is_completed():
            divided[reference] = _submit(runner, split, [future], **_source(plan, reference))
    found, failed = {}, {}
    for reference, future in fetched.items():
        last = divided.get(reference, future)
        last.wait()
        if last.state.is_completed():
            found[reference] = (future.result(), last.result())
        else:
            failed[without_secrets(reference)] = reason_of(last.state)
    if not found:
        raise BenchmarkError(f"no dataset could be loaded: {'; '.join(failed.values())}")
    unfit = dict(refusals(plan, {reference: facts for reference, (facts, _) in found.items()}))
    if len(unfit) == len(found):
        raise BenchmarkError("; ".join(unfit.values()))
    failed |= {without_secrets(reference): reason for reference, reason in unfit.items()}
    for name, reason in failed.items():
        get_run_logger().error("%s cannot be used: %s", name, reason)
    usable = {reference: values for reference, values in found.items() if reference not in unfit}
    return _limit_splits(plan, usable), failed


def _limit_splits(plan: Plan, datasets: dict[str, Any]) -> dict[str, Any]:
    """Keep as many splits of each dataset as the plan wants, and say where there are fewer."""
    if plan.splits == "all":
        return datasets
    for note in missing_splits(plan.splits, {facts["name"]: len(splits) for facts, splits in datasets.values()}):
        tell(Event("note", message=note))
        get_run_logger().warning(note)
    return {reference: (facts, splits[: plan.splits]) for reference, (facts, splits) in datasets.items()}


def missing_splits(wanted: int, counts: Mapping[str, int]) -> list[str]:
    """Return a note for each dataset with fewer splits than wanted; ValueError if every dataset has fewer."""
    if wanted > (most := max(counts.values())):
        which = f"{next(iter(counts))} has" if len(counts) == 1 else "no dataset has more than"
        remedy = "use 1, or all" if most == 1 else f"use 1 to {most}, or all"
        raise InputError(f"splits is {wanted}, but {which} {most}: {remedy}")
    short = {name: count for name, count in counts.items() if count < wanted}
    return [
        f"{name} has {count} of the {wanted} splits asked for, and is run on these" for name, count in short.items()
    ]


def refusals(plan: Plan, datasets: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The datasets that no method of the plan is for, and those whose name is that of another; each with the reason."""
    owners: dict[str, str] = {}
    for reference, facts in datasets.items():
        name, task = facts["name"], facts["task"]
        if not plan.methods_for(task):
            yield reference, f"none of the methods {', '.join(plan.methods)} is for {task}, which {name!r} is: add one"
        elif name in owners:
            others = without_secrets(owners[name])
            yield reference, f"{without_secrets(reference)} is called {name!r}, as {others} is: rename one of them"
        else:
            owners[name] = reference


def _source(plan: Plan, reference: str) -> dict[str, Any]:
    """The arguments by which tasks load a dataset; a target is for files of one's own, here or on the web."""
    is_file = Path(reference).exists() or reference.startswith(("http://", "https://"))
    return {"reference": reference, "target": plan.target if is_file else None}


def _courses(plan: Plan, datasets: dict[str, Any], benchmark: str, store: str) -> Iterator[Course]:
    """One course per dataset, split and method; an ensemble comes after the searches that it chooses from."""
    device, scoring = plan.device_found(), scoring_code()
    for reference, (facts, splits) in datasets.items():
        for name, split_fingerprint in splits:
            others: list[Course] = []
            for method in plan.methods_for(facts["task"]):
                source = _source(plan, reference)
                is_ensemble = get_method(method).is_ensemble
                problem = problem_of(reference, source["target"], facts["fingerprint"], name)
                own_device = device if get_method(method).uses_gpu else "cpu"
                maker = take_fingerprint(method, own_device).digest
                if is_ensemble:
                    parts = (maker, *(other.unit.study for other in others))
                    study = f"{problem.name} {method} {content_key(*parts)[:16]}"
                else:
                    study = study_name(problem, method, plan.limited_budget, plan.seed, own_device)
                unit = Assignment(
                    **source,
                    dataset=facts["name"],
                    dataset_fingerprint=facts["fingerprint"],
                    split=name,
                    split_fingerprint=split_fingerprint,
                    method=method,
                    study=study,
                    budget=plan.limited_budget,
                    seed=plan.seed,
                    threads=plan.threads,
                    device=own_device,
                    benchmark=benchmark,
                    flow_run=_flow_run(),
                    store=store,
                    fingerprint=maker,
                    scoring=scoring,
                )
                course = Course(unit, after=list(others) if is_ensemble else [])
                others.append(course)
                yield course


def _audit(runner: Any, plan: Plan, reference: str, facts: dict[str, Any], splits: list[tuple[str, str]]) -> Any:
    rows = [fingerprint for _, fingerprint in splits]
    return _submit(runner, audit, **_source(plan, reference), fingerprint=facts["fingerprint"], splits=rows)


def _next_task(runner: Any, pool: WorkerPool, course: Course, step: int) -> Any:
    """Submit a step of a unit; its tasks so far are named as what it depends on."""
    values: dict[str, Any] = {"unit": course.unit}
    if step == 0:
        values["others"] = [other.unit.method for other in course.after if not other.error]
    else:
        values |= dict(zip(("found", "trained"), course.results, strict=False))
    if STEPS[step] is not evaluate:
        values["pool"] = pool
    after = list(course.futures) or [other.futures[0] for other in course.after if not other.error]
    task = STEPS[step]
    models = len(course.results[0]["best"]["params"].get("members") or [None]) if step else 1
    limit = task.timeout_seconds or seconds_for(course.unit, task.name, models)
    task = task.with_options(timeout_seconds=limit)
    if course.is_renewed:
        task = task.with_options(refresh_cache=True)
    return _submit(runner, task, after, **values)


def _submit(runner: Any, task: Any, after: list[Any] | None = None, /, **values: Any) -> Any:
    return runner.submit(task, parameters=values, wait_for=after or None)


def _tell_end(course: Course) -> None:
    unit, logger = course.unit, get_run_logger()
    names = (unit.dataset, unit.split, unit.label)
    if course.error:
        tell(Event("failed", *names, message=course.error))
        logger.error("%s failed: %s", unit.title, course.error)
        return
    score = course.results[2]["scores"][0]
    tell(Event("reused" if course.is_reused else "done", *names, best=score["value"], message=score["metric"]))
    logger.info("%s: %s %.4g%s", unit.title, score["metric"], score["value"], ", as before" if course.is_reused else "")


def _flow_run() -> str:
    return str(flow_run.id or "")
