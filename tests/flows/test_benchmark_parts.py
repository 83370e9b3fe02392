"""Parts of the benchmark flow that need no server: the order of its tasks, what they are known by, their retries."""

from __future__ import annotations

import logging
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from urllib.error import HTTPError, URLError

import pytest
from prefect.states import Completed, Failed, Running
from prefect.task_engine import TaskRunTimeoutError
from prefect.utilities.timeout import timeout

from flows import benchmark
from flows.benchmark import Published, Session, _Benchmark, _key, _try_again, fetch
from hopular.benchmark.plan import Plan
from hopular.benchmark.unit import Evaluated, Searched, Trained, Unit, UnitError
from hopular.cli.benchmark import _show
from hopular.data import download
from hopular.data.dataset import DataError
from hopular.data.download import UnreachableError
from hopular.data.sources import openml
from hopular.evaluation.results import Maker, Score
from hopular.evaluation.verdict import Standings
from hopular.trials import run as engine
from hopular.trials.budget import preset
from hopular.trials.trial import Trial
from hopular.trials.worker import InfrastructureError, WorkerPool
from tests.data.loopback import Reply, serve
from tests.report.synthetic import make_results


def make_unit(method: str) -> Unit:
    return Unit(
        *("iris", None, "iris", "a" * 64, "fold-0", "b" * 64, method, f"iris {method} 0"),
        *(preset("smoke"), 0, 1, "cpu", "f" * 64, "e" * 64),
    )


def make_searched(unit: Unit) -> Searched:
    return Searched(f"run-{unit.method}", "log_loss", Trial(0, 1, {}, "complete", score=0.5), (), 0.1, Maker())


class Future:
    """A future that is over when it is asked for."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def wait(self) -> None:
        pass

    def result(self) -> Any:
        return self.state.result()


class Runner:
    """Runs every task at once, and notes the method and the task, whether anew, and after which searches."""

    def __init__(self, states: dict[tuple[str, str], Any] | None = None, delay: float = 0.0) -> None:
        self.states, self.delay = states or {}, delay
        self.log: list[tuple[str, str]] = []
        self.renewed: list[str] = []
        self.running, self.most, self.lock = 0, 0, threading.Lock()

    def submit(self, task: Any, parameters: dict[str, Any], wait_for: Any) -> Future:
        unit = parameters["unit"]
        with self.lock:
            self.log.append((unit.method, task.name))
            self.running += 1
            self.most = max(self.most, self.running)
        threading.Event().wait(self.delay)
        with self.lock:
            self.running -= 1
        if task.refresh_cache:
            self.renewed.append(task.name)
        score = Score("iris", unit.method, "fold-0", 0, "accuracy", 0.9, 0.8, 1.0, 1.0, 0.1, 1.0)
        returned = {"search": make_searched(unit), "train": Trained((REPLICATE,), 0.5), "evaluate": Evaluated((score,))}
        state = self.states.get((unit.method, task.name)) or Completed(data=returned[task.name])
        return Future(state)


REPLICATE = benchmark.steps.Replicate(0, "", [], 0.5, {}, 1.0, 0.1, 1)


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the tracking store, which is not there."""
    asked: list[str] = []
    for name in ("join_benchmark", "finish_unit", "end_running", "is_there"):
        monkeypatch.setattr(benchmark, name, lambda *_, name=name: asked.append(name))
    monkeypatch.setattr(benchmark, "get_run_logger", lambda: logging.getLogger("test"))
    return asked


def run(methods: list[str], runner: Runner, width: int = 1) -> tuple[list[str], dict[str, Any], set[str]]:
    """Take units through their tasks; returns who ended in which order, their results, and who is not finished."""
    plan, begun = Plan(datasets=["iris"], methods=["glm"], workers=width), set[str]()
    units = [make_unit(method) for method in methods]
    flow = _Benchmark(plan, runner, Session(client=SimpleNamespace()), begun)  # type: ignore[arg-type]
    names = {unit.key: unit.method for unit in units}
    ended = {names[key]: result for key, result in flow._run_units(units)}
    return list(ended), ended, {names[key] for key in begun}


def test_a_unit_that_has_begun_is_finished_first() -> None:
    runner = Runner()
    ended, _, begun = run(["glm", "knn"], runner)
    steps = ("search", "train", "evaluate")
    assert runner.log == [(method, step) for method in ("glm", "knn") for step in steps]
    assert ended == ["glm", "knn"]
    assert begun == set()


@pytest.mark.parametrize("width", [1, 2, 8])
def test_a_failure_ends_its_own_unit_only(width: int) -> None:
    runner = Runner({("knn", "train"): Failed(data=ValueError("no luck"))})
    _, results, begun = run(["glm", "knn", "svm"], runner, width)
    assert ("knn", "evaluate") not in runner.log
    assert {name: result.state for name, result in results.items()} == {
        "glm": "complete",
        "knn": "failed",
        "svm": "complete",
    }
    assert (results["knn"].reason, results["knn"].run_id) == ("ValueError: no luck", "run-knn")
    assert begun == {"knn"}  # if the benchmark is stopped, whoever has left a run RUNNING has it closed


def test_an_ensemble_waits_for_the_searches_it_chooses_from() -> None:
    runner = Runner({("glm", "search"): Failed(data=ValueError("no luck"))}, delay=0.05)
    run(["glm", "knn", "ensemble"], runner, width=3)
    place = runner.log.index(("ensemble", "search"))
    assert place > max(runner.log.index(("glm", "search")), runner.log.index(("knn", "search")))


def test_no_more_than_the_width_runs_at_once() -> None:
    runner = Runner(delay=0.02)
    run(["glm", "knn", "svm", "mlp", "snn"], runner, width=2)
    assert runner.most == 2


def test_a_unit_whose_run_was_deleted_starts_again(no_store: list[str]) -> None:
    kept = Completed(name="Cached", data=make_searched(make_unit("glm")))
    runner = Runner({("glm", "search"): kept})
    _, results, _ = run(["glm"], runner)
    assert runner.renewed == ["search", "train", "evaluate"]
    assert results["glm"].state == "complete"
    assert "is_there" in no_store


def test_a_task_that_never_said_how_it_ended_has_failed(no_store: list[str]) -> None:
    _, results, _ = run(["glm", "knn"], Runner({("glm", "search"): Running()}))
    assert results["glm"].reason == "the process of the task was lost while it was Running"
    assert results["knn"].state == "complete"
    assert "end_running" in no_store


def test_an_error_of_the_flow_itself_stops_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "join_benchmark", lambda *_: 1 / 0)
    runner = Runner()
    with pytest.raises(ZeroDivisionError):
        run(["glm", "knn", "svm"], runner)
    assert ("svm", "evaluate") not in runner.log


def test_an_ensemble_is_known_by_those_it_chooses_from() -> None:
    context, session = SimpleNamespace(task=SimpleNamespace(name="search")), Session(store="one")

    def key(one: Unit, **values: Any) -> str:
        return _key(context, {"unit": one, "session": session, **values})

    unit = make_unit("ensemble")
    assert key(unit, others=["glm", "mlp"]) != key(unit, others=["glm"])
    first, second = (
        replace(make_searched(unit), best=Trial(0, 1, {"members": [[name, 0, 1]]})) for name in ("glm", "mlp")
    )
    assert key(unit, searched=first) != key(unit, searched=second)
    alone = make_unit("glm")
    assert key(alone, others=["mlp"]) == key(alone, others=[]) == key(alone, searched=first)
    kept = key(alone, others=[])
    session = Session(store="another")
    assert key(alone, others=[]) != kept


def test_a_session_arrives_in_another_process_without_what_belongs_to_this_one() -> None:
    with WorkerPool(1) as pool:
        here = Session(print, pool=pool, benchmark="bench-1", flow_run="flow-1", store="store")
        there: Session = pickle.loads(pickle.dumps(here))
    assert (there.benchmark, there.flow_run, there.store) == ("bench-1", "flow-1", "store")
    assert there.pool is there.client is None
    assert not there.stop.is_set()


@pytest.mark.parametrize(
    ("error", "is_worth_it"),
    [
        (InfrastructureError("the worker could not be started"), True),
        (UnreachableError("OpenML cannot be reached"), True),
        (ConnectionError("refused"), True),
        (TimeoutError("the server is slow"), True),
        (TaskRunTimeoutError("Scope timed out after 10 second(s)."), False),
        (DataError("column 'y' is missing"), False),
        (UnitError("no trial succeeded"), False),
        (MemoryError(), False),
    ],
)
def test_only_what_may_pass_is_tried_again(
    error: Exception, is_worth_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "RETRY_PAUSE", 0.0)
    assert _try_again(Session(), None, SimpleNamespace(run_count=1), Failed(data=error)) is is_worth_it


def test_a_fetch_is_tried_again() -> None:
    assert fetch.retries == 2


def test_pauses_double_and_end_when_all_is_stopped() -> None:
    pauses: list[float] = []
    stop = SimpleNamespace(wait=lambda seconds: pauses.append(seconds))
    for attempt in (1, 2, 3):
        run, session = SimpleNamespace(run_count=attempt), Session(stop=stop)  # type: ignore[arg-type]
        assert _try_again(session, None, run, Failed(data=ConnectionError()))
    expected = [benchmark.RETRY_PAUSE, 2 * benchmark.RETRY_PAUSE, 4 * benchmark.RETRY_PAUSE]
    assert pauses == [pytest.approx(pause, rel=0.31) for pause in expected]
    stopped = Session()
    stopped.stop.set()
    assert not _try_again(stopped, None, SimpleNamespace(run_count=1), Failed(data=ConnectionError()))


def test_a_time_out_interrupts_a_search_that_waits_for_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    policy: Any = SimpleNamespace(begin=lambda: None, spend=lambda: None, searches=[MagicMock()])
    loop = engine.Loop(policy, WorkerPool(), "glm", workers=1, threads=1)
    monkeypatch.setattr(engine.Loop, "_work", lambda self, _: self._stopped.wait())

    def wait() -> None:
        with timeout(0.2, TaskRunTimeoutError):
            next(loop.iterate())

    with ThreadPoolExecutor(1) as pool, pytest.raises(TaskRunTimeoutError):
        pool.submit(wait).result(timeout=20)


@pytest.mark.parametrize(
    ("error", "is_worth_it"),
    [
        (URLError("no route to host"), True),
        (HTTPError("u", 503, "busy", HTTPMessage(), None), True),
        (HTTPError("u", 429, "too many", HTTPMessage(), None), True),
        (HTTPError("u", 404, "not found", HTTPMessage(), None), False),
    ],
)
def test_openml_that_does_not_answer_is_unreachable(
    error: Exception, is_worth_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise error

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)
    with pytest.raises(DataError) as caught:
        openml._fetch(31)
    assert isinstance(caught.value, UnreachableError) is is_worth_it


@pytest.mark.parametrize(("status", "is_worth_it"), [(503, True), (404, False)])
def test_a_download_that_a_busy_server_refuses_is_unreachable(
    status: int, is_worth_it: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PAUSES", (0.01, 0.02))
    monkeypatch.setenv("NO_PROXY", "*")
    with serve() as server:
        url = server.answer("/table.csv", Reply(status=status))
        with pytest.raises(DataError) as caught:
            download.fetch(url, tmp_path / "table.csv")
    assert isinstance(caught.value, UnreachableError) is is_worth_it


def test_one_dataset_and_one_unit_are_not_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = make_results(1, ("glm", "majority"), 1)
    table = Standings(results).table
    published = Published("one", "", str(tmp_path), "", {}, 1, 0, {}, len(results.datasets), table)
    _show(published, is_quiet=False)
    said = capsys.readouterr().out
    assert "test rows of 1 dataset" in said
    assert "test rows of 1 datasets" not in said
    assert "1 unit run." in said
    assert replace(published, reused=1).counted() == "nothing was trained: the one unit was finished before"
