"""The search as a whole: what it sees, what it keeps of each trial, and how it ends."""

from __future__ import annotations

import ast
import pickle
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
import sqlalchemy as sa
from optuna.trial import create_trial

from hopular.data import load
from hopular.data.dataset import Dataset
from hopular.data.splits import Split, make_splits
from hopular.methods import MethodError, Run, get_method
from hopular.trials import policy, run, worker
from hopular.trials.budget import Budget, preset
from hopular.trials.fit import score_rows
from hopular.trials.policy import FixedBudget
from hopular.trials.problem import make_problem
from hopular.trials.refit import train
from hopular.trials.run import iterate, read_result, search, study_name
from hopular.trials.select import best_of
from hopular.trials.space import STARTUP, Proposer
from hopular.trials.study import LEASES, Study, open_storage
from hopular.trials.trial import Trial
from hopular.trials.worker import InfrastructureError, LostError
from tests.trials.conftest import (
    InlineWorker,
    leases,
    make_dataset,
    make_split,
    raw_trials,
    states,
)

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------------------------------------ the rows it may see


def marked():
    """A dataset with a number and a category in training rows, and others in test rows, and a split of it."""
    dataset, split = make_dataset(), make_split()
    X, y = dataset.X.copy(), dataset.y.copy()
    X["c"] = X["c"].cat.add_categories(["TRAINMARK-7c1f", "TESTMARK-93ab"])
    X.iloc[split.train[3], 0], X.iloc[split.train[3], 1] = 1234.5678901, "TRAINMARK-7c1f"
    X.iloc[split.test[3], 0], X.iloc[split.test[3], 1] = 8765.4321098, "TESTMARK-93ab"
    y.iloc[split.test[3]] = 4321.0123456
    return Dataset("marked", X, y, "regression", source="made up"), split


def marks():
    """Bytes to look for in memory, the second half inverted so that looking does not leave them there."""
    values = {
        "train number": np.float64(1234.5678901).tobytes(),
        "train category": b"TRAINMARK-7c1f",
        "test number": np.float64(8765.4321098).tobytes(),
        "test category": b"TESTMARK-93ab",
        "test target": np.float64(4321.0123456).tobytes(),
    }
    return {name: (mark[:4], bytes(255 - byte for byte in mark[4:])) for name, mark in values.items()}


def test_a_method_that_looks_everywhere_finds_no_test_row(sqlite, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_FILE", str(tmp_path / "seen"))
    monkeypatch.setenv("HOPULAR_TEST_MARKS", pickle.dumps(marks()).hex())
    result = search(make_problem(*marked()), "spy", Budget(), storage=sqlite)
    assert result.summary == "1 of 1 trials: 1 complete"
    content = (tmp_path / "seen").read_bytes()
    seen = pickle.loads(content)
    counts = seen["counts"]  # in the whole memory of the process
    assert counts["train number"] > 0
    assert counts["train category"] > 0
    assert counts["test number"] == counts["test category"] == counts["test target"] == 0
    assert np.float64(1234.5678901).tobytes() in content
    assert np.float64(8765.4321098).tobytes() not in content
    assert b"TESTMARK" not in content
    assert seen["given"][0][1] == {"lists": [1, 2], "none": None}


def reachable(thing, seen=None):
    """All objects that can be reached through attributes, items, frames and arrays' bases."""
    seen = {} if seen is None else seen
    if id(thing) in seen or isinstance(thing, type | str | int | float | bool | None):
        return seen
    seen[id(thing)] = thing
    inner = []
    if isinstance(thing, dict):
        inner += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set):
        inner += list(thing)
    elif isinstance(thing, np.ndarray):
        inner.append(thing.base)
    elif isinstance(thing, pd.DataFrame):
        inner += [thing.index, thing.columns, *(thing.iloc[:, i] for i in range(thing.shape[1]))]
    elif isinstance(thing, pd.Series | pd.Index | pd.Categorical):
        values = thing.codes if isinstance(thing, pd.Categorical) else thing.array
        inner += [values, getattr(thing, "dtype", None), getattr(thing, "name", None)]
        inner += [thing.categories] if isinstance(thing, pd.Categorical) else []
    inner += [getattr(thing, "_ndarray", None)]
    inner += list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    for part in inner:
        reachable(part, seen)
    return seen


def test_a_problem_has_no_way_to_the_test_rows():
    dataset, split = marked()
    problem = make_problem(dataset, split)
    assert set(vars(problem)) == {
        *("name", "task", "rows", "fingerprint"),
        *("X", "y", "folds"),
    }
    things = reachable(problem).values()
    arrays = [thing for thing in things if isinstance(thing, np.ndarray)]
    assert any(1234.5678901 in array for array in arrays if array.dtype == np.float64)
    assert not any(8765.4321098 in array or 4321.0123456 in array for array in arrays if array.dtype == np.float64)
    assert not any(isinstance(thing, Dataset | Split) for thing in things)
    assert b"TESTMARK" not in pickle.dumps(problem)
    assert len(problem.X_train) == len(problem.y_train) == len(split.train)
    assert len(problem.X_valid) == len(problem.y_valid) == len(split.valid)


def test_a_problem_holds_the_rows_of_the_split_and_one_type_for_both_parts():
    dataset, split = marked()
    problem = make_problem(dataset, split)
    assert list(problem.X_valid["x"]) == list(dataset.X["x"].iloc[split.valid])
    assert list(problem.y_train) == list(dataset.y.iloc[split.train])
    assert list(problem.X_train["c"]) == list(dataset.X["c"].iloc[split.train])
    assert problem.X_train["c"].dtype == problem.X_valid["c"].dtype
    assert list(problem.X_train["c"].cat.categories) == ["a", "b", "TRAINMARK-7c1f"]
    assert list(dataset.X["c"].cat.categories)[-1] == "TESTMARK-93ab"  # the dataset's own is as it was


# ------------------------------------------------------------------------------------------------------------- names


def test_a_study_is_named_by_content(problem):
    def name(problem=problem, method="constant", budget=None, seed=0, device="cpu"):
        return study_name(problem, method, budget or Budget(), seed, device)

    dataset, split = make_dataset(), make_split()
    assert name() == name(make_problem(make_dataset(), make_split()))
    assert name().startswith("toy s0 constant ")
    other_rows = make_problem(dataset, Split("s0", split.valid, split.train, split.test))
    other_data = make_problem(replace(dataset, X=dataset.X.assign(x=dataset.X["x"] + 1)), split)
    names = [name(), name(other_rows), name(other_data), name(method="actor"), name(budget=Budget(trials=11))]
    names += [name(seed=1), name(replace(problem, rows=5000)), name(budget=Budget(recipe="paper"))]
    assert len(set(names)) == len(names)
    assert name(device="cuda:1") == name()  # a method that uses no GPU
    assert name(method="hopular") != name(method="hopular", device="cuda") == name(method="hopular", device="cuda:1")
    assert len(name(replace(problem, name="n" * 500))) <= 200


def test_studies_of_two_architectures_are_two_and_other_methods_keep_theirs(problem):
    budgets = [Budget(), Budget(architecture="paper"), Budget(architecture="released")]
    assert len({study_name(problem, "hopular", budget) for budget in budgets}) == 3
    assert len({study_name(problem, "knn", budget) for budget in budgets}) == 1


# ------------------------------------------------------------------------------------------------------------ trials


def test_a_running_trial_is_seen_and_has_its_true_times(problem, new_storage, monkeypatch):
    seen = []

    class Watched(InlineWorker):
        def run(self, jobs, **options):
            time.sleep(0.3)
            outcomes = super().run(jobs, **options)
            study = optuna.load_study(study_name=jobs[0].study, storage=open_storage(new_storage))
            seen.append(study.trials_dataframe())
            return outcomes

    monkeypatch.setattr(worker, "Worker", Watched)
    monkeypatch.setattr(run, "SHOW_SECONDS", 0.0)
    result = search(problem, "learner", Budget(grid_trials=2), storage=new_storage)
    frame = optuna.load_study(study_name=result.study, storage=open_storage(new_storage)).trials_dataframe()
    first, second = seen
    assert list(first["state"]) == ["RUNNING"]
    assert list(second["state"]) == ["COMPLETE", "RUNNING"]
    assert list(first["params_end"]) == [result.trials[0].params["end"]]
    assert list(frame["state"]) == ["COMPLETE", "COMPLETE"]
    assert (frame["duration"].dt.total_seconds() >= 0.3).all()
    assert frame["datetime_start"][1] >= frame["datetime_complete"][0]


def test_no_private_module_of_optuna_is_imported():
    private = []
    for path in [
        path
        for folder in ("hopular", "flows", "search_spaces", "benchmarks")
        for path in ROOT.glob(f"{folder}/**/*.py")
    ]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = getattr(node, "module", "") or ""
            dotted = [f"{module}.{name}".strip(".") for name in names]
            private += [(path.name, name) for name in dotted if name.startswith("optuna") and "._" in name]
    assert private == []


def test_failures_have_kinds_and_are_counted(problem, sqlite):
    shown = []
    budget = Budget(seconds_per_trial=0.7)
    result = search(problem, "actor", budget, storage=sqlite, on_trial=lambda record, n: shown.append((record, n)))
    states = [(record.params["act"], record.state, record.failure) for record in result.trials]
    assert states == [
        ("nothing", "complete", None),
        ("segfault", "failed", "crash"),
        ("invalid", "failed", "invalid-parameters"),
        ("raise", "failed", "error"),
        ("refuse", "failed", "invalid-parameters"),
        ("memory_error", "failed", "out-of-memory"),
        ("hang", "failed", "time-out"),
        ("exit", "failed", "crash"),
        ("nan", "failed", "error"),
        ("nothing", "complete", None),
    ]
    assert result.summary == (
        "10 of 10 trials: 2 complete, 8 failed (2 crash, 2 error, 2 invalid-parameters, 1 out-of-memory, 1 time-out)"
    )
    assert result.complete
    assert result.best.slot == 0
    for record in result.trials:
        assert (record.score is None) == (record.state == "failed") == bool(record.message)
    assert [(record, n) for record, n in shown] == [(record, 10) for record in result.trials]
    assert raw_trials(sqlite) == [(record.slot, record.state) for record in result.trials]
    assert leases(sqlite) == []


def test_hopeless_trials_are_pruned_and_what_a_trial_costs_is_kept(problem, new_storage, inline):
    result = search(problem, "learner", Budget(max_epochs=20), storage=new_storage)
    assert [record.state for record in result.trials] == ["complete"] * 4 + ["pruned"] * 2
    assert result.summary == "6 of 6 trials: 4 complete, 2 pruned"
    whole, pruned = result.trials[0], result.trials[-1]
    assert whole.curve == [(percent, pytest.approx(-percent / 100)) for percent in range(5, 101, 5)]
    assert pruned.curve[-1][0] == 50
    assert (pruned.score, pruned.failure, pruned.metrics) == (None, None, {})
    assert set(whole.metrics) == {"mse", "mae"}
    assert all(record.fit_seconds > 0 and record.peak_memory > 0 for record in result.trials)
    assert whole.predict_seconds > 0
    again = search(problem, "learner", Budget(max_epochs=20), storage=new_storage, on_trial=pytest.fail)
    assert again == result
    paper = search(problem, "learner", preset("paper", max_epochs=20), storage=new_storage)
    assert paper.summary == "6 of 6 trials: 6 complete"  # which prunes nothing


def test_a_record_has_all_that_made_the_model(problem, sqlite, inline):
    """The setting of the search and what the budget adds, so that it can be copied."""
    made = []

    class Noting(InlineWorker):
        def run(self, jobs, **options):
            made.append(jobs[0].trial.params)
            return super().run(jobs, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "Worker", Noting)
        result = search(problem, "learner", Budget(max_epochs=20, grid_trials=1), storage=sqlite)
        again = train(problem, "learner", result.best, Budget(max_epochs=5), problem.X_valid)
    assert result.best.params == made[0] == {**Proposer("learner", "small", 0).grid[0], "max_epochs": 20}
    assert made == [result.best.params] * 2  # whatever the budget of the training says
    assert again.score == result.best.score


def test_a_copied_setting_makes_the_model_of_the_trial(problem, sqlite, inline):
    best = search(problem, "hopular", Budget(recipe="paper", max_epochs=2, grid_trials=1), storage=sqlite).best
    added = {"recipe": "paper", "max_epochs": 2, "architecture": "paper"}
    assert best.params == {**Proposer("hopular", "small", 0, architecture="paper").grid[0], **added}
    copied = get_method("hopular").make("regression", best.params, Run(best.seed))
    copied.fit(problem.X_train, problem.y_train, eval_set=(problem.X_valid, problem.y_valid))
    error = copied.predict(problem.X_valid) - problem.y_valid
    assert (error**2).mean() == pytest.approx(best.metrics["mse"])


def test_a_setting_is_scored_on_the_validation_rows(problem, sqlite, inline):
    result = search(problem, "constant", Budget(trials=3), storage=sqlite)
    for record in result.trials:
        error = record.params["value"] - problem.y_valid
        assert record.score == -record.metrics["mse"] == pytest.approx(-(error**2).mean())
        assert record.metrics["mae"] == pytest.approx(error.abs().mean())
    assert result.best == max(result.trials, key=lambda record: record.score)


def test_each_setting_follows_from_the_trials_before(problem, sqlite, inline):
    result = search(problem, "constant", Budget(trials=STARTUP + 4), seed=5, storage=sqlite)
    proposer, finished = Proposer("constant", "small", 5), {}
    for record in result.trials:
        proposer.learn(finished)
        proposal = proposer.propose(record.slot)
        proposer.forget(proposal)
        assert proposal.settings == record.params
        finished[record.slot] = create_trial(
            value=record.score, params=proposal.params, distributions=proposal.distributions
        )
    uninformed = Proposer("constant", "small", 5)
    assert uninformed.propose(STARTUP + 3).settings != result.trials[-1].params


def test_predictions_are_kept_for_complete_trials(problem, sqlite, tmp_path, inline, monkeypatch):
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "nothing raise nothing")
    result = search(problem, "actor", Budget(), storage=sqlite, predictions=tmp_path / "kept")
    (folder,) = (tmp_path / "kept").iterdir()
    assert result.study.endswith(folder.name)
    assert sorted(path.name for path in folder.iterdir()) == ["0.npy", "2.npy"]
    assert np.load(folder / "2.npy").tolist() == [0.0] * len(problem.y_valid)


@pytest.fixture
def torn():
    """A problem on which accuracy and log loss prefer different settings of `torn`."""
    dataset = load("iris")
    return make_problem(dataset, make_splits(dataset)[0])


@pytest.mark.parametrize(("criterion", "metric", "best"), [("loss", "log_loss", 1), ("accuracy", "accuracy", 0)])
def test_the_budgets_criterion_decides_everywhere(torn, sqlite, monkeypatch, criterion, metric, best):
    """Check the best trial, what Optuna is told, the model a process keeps, and what the pruner compares."""
    monkeypatch.setattr(worker, "Worker", InlineWorker)
    budget = Budget(criterion=criterion)
    result = search(torn, "torn", budget, storage=sqlite)
    bold, meek = result.trials
    assert bold.metrics["accuracy"] > meek.metrics["accuracy"]
    assert bold.metrics["log_loss"] > meek.metrics["log_loss"]
    assert result.best.slot == InlineWorker.latest.fitter.kept.trial.slot == best
    sign = 1 if metric == "accuracy" else -1
    assert [record.score for record in result.trials] == [sign * record.metrics[metric] for record in result.trials]
    assert [record.curve for record in result.trials] == [[(100, record.score)] for record in result.trials]
    study = optuna.load_study(study_name=result.study, storage=sqlite)
    assert study.best_trial.user_attrs["slot"] == best
    assert study.best_value == result.best.score
    assert study.user_attrs["value"] == ("validation accuracy" if sign > 0 else "validation minus log_loss")
    trained = train(torn, "torn", result.best, budget, torn.X_valid)
    assert trained.score == result.best.score


def test_classes_that_training_has_not_seen_are_wrong():
    class Certain:
        classes_ = np.array(["a", "b"])

        def predict_proba(self, X):
            return np.array([[0.9, 0.1]] * len(X))

    y = pd.Series(["a", "b", "c", "a"], dtype="category")
    metrics, _ = score_rows(Certain(), "classification", y.to_frame(), y)
    assert metrics["accuracy"] == 0.5
    assert metrics["log_loss"] == pytest.approx(-(2 * np.log(0.9) + np.log(0.1) + np.log(1e-15)) / 4)


def test_the_best_is_complete_and_the_loss_then_the_slot_decides_between_equals():
    records = [
        Trial(0, 0, {}, "pruned", 0.99),
        Trial(1, 0, {}, "complete", 0.9, {"log_loss": 0.3}),
        Trial(2, 0, {}, "complete", 0.9, {"log_loss": 0.2}),
        Trial(3, 0, {}, "complete", 0.9, {"log_loss": 0.2}),
        Trial(4, 0, {}, "complete", 0.8, {"log_loss": 0.1}),
    ]
    assert best_of(records).slot == 2
    assert best_of(records[:1]) is None


def test_a_classifier_on_a_dataset_of_the_project(sqlite):
    dataset = load("iris")
    problem = make_problem(dataset, make_splits(dataset)[0])
    result = search(problem, "idle", Budget(trials=2), storage=sqlite)
    assert result.summary == "2 of 2 trials: 2 complete"
    assert result.best.metrics == {"accuracy": pytest.approx(1 / 3, abs=0.1), "log_loss": pytest.approx(np.log(3))}
    assert result.best.rounds == 7


def test_what_cannot_be_searched_is_refused_before_anything_starts(problem, sqlite):
    with pytest.raises(MethodError, match="Did you mean 'constant'"):
        search(problem, "constan", Budget(), storage=sqlite)
    with pytest.raises(MethodError, match="not for classification"):
        search(replace(problem, task="classification"), "constant", Budget(), storage=sqlite)
    with pytest.raises(ValueError, match="workers is 0"):
        search(problem, "constant", Budget(), storage=sqlite, workers=0)
    with pytest.raises(TypeError, match="tmp"):
        iterate(problem, "constant", Budget(), tmp=1)


# --------------------------------------------------------------------------------------------------------------- time


def test_time_ends_a_search_and_a_restart_has_what_is_left(problem, new_storage, monkeypatch):
    begun = []

    class Patient(InlineWorker):
        def run(self, jobs, *, beat, **options):
            (job,) = jobs
            begun.append(job.trial.params["act"])
            while job.trial.params["act"] == "hang":
                beat()
                time.sleep(0.01)
            return super().run(jobs, beat=beat, **options)

    monkeypatch.setattr(worker, "Worker", Patient)
    monkeypatch.setattr(policy, "SPEND_SECONDS", 0.1)
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "nothing hang nothing")
    budget = Budget(seconds=2.5)
    start = time.monotonic()
    result = search(problem, "actor", budget, storage=new_storage)
    assert time.monotonic() - start > 2.5
    assert read_result(problem, "actor", budget, storage=new_storage) == result
    assert result.summary == "1 of 3 trials: 1 complete"
    assert not result.complete
    assert leases(new_storage) == []
    assert begun == ["nothing", "hang"]
    assert search(problem, "actor", budget, storage=new_storage) == result
    assert begun == ["nothing", "hang"]  # no time was left


def test_methods_that_can_stop_by_themselves_are_told_when(problem, sqlite, monkeypatch):
    given = []

    class Noting(InlineWorker):
        def run(self, jobs, **options):
            given.append((jobs[0], options["max_seconds"], options["max_memory"]))
            return super().run(jobs, **options)

    monkeypatch.setattr(worker, "Worker", Noting)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    search(problem, "constant", Budget(trials=1), storage=sqlite)
    search(problem, "constant", Budget(trials=1, seconds_per_trial=10, memory=2**30), storage=sqlite)
    limits = Budget(trials=1, seconds=5, seconds_per_trial=10)
    result = search(problem, "constant", limits, storage=sqlite, device="cuda")
    (free, *none), (limited, seconds, memory), (late, _, _) = given
    assert none == [None, None]
    assert free.max_seconds is None
    assert limited.max_seconds == 8.0
    assert (seconds, memory) == (10, 2**30)
    assert late.max_seconds == 8.0
    assert 3.0 < result.best.max_seconds < 4.0  # the search ends before the trial's own limit
    assert (late.device, late.threads) == ("cuda", 1)
    assert free.trial.seed == late.trial.seed  # a trial's seed is that of its slot


def test_reading_a_result_tries_nothing(problem, sqlite, monkeypatch):
    monkeypatch.setattr(worker, "Worker", lambda *_: pytest.fail("a worker was started"))
    result = read_result(problem, "constant", Budget(trials=2, seconds=0.001), storage=sqlite)
    assert (result.trials, result.slots, result.best) == ([], 2, None)
    assert leases(sqlite) == []


# --------------------------------------------------------------------------------------------------- infrastructure


def failing(error, times):
    class Failing(InlineWorker):
        left = times

        def run(self, jobs, **options):
            if Failing.left:
                Failing.left -= 1
                raise error
            return super().run(jobs, **options)

    return Failing


def test_a_worker_that_cannot_start_is_tried_again_but_not_for_ever(problem, sqlite, monkeypatch):
    waited = []
    monkeypatch.setattr(threading.Event, "wait", lambda self, seconds=None: waited.append(seconds))
    monkeypatch.setattr(worker, "Worker", failing(InfrastructureError("no memory to fork"), FixedBudget.retries))
    assert search(problem, "constant", Budget(trials=2), storage=sqlite).complete
    monkeypatch.setattr(worker, "Worker", failing(InfrastructureError("no memory to fork"), 99))
    with pytest.raises(InfrastructureError, match="no memory"):
        search(problem, "constant", Budget(trials=3), storage=sqlite)
    assert leases(sqlite) == []
    assert [seconds for seconds in waited if seconds in (1.0, 2.0)] == [1.0, 2.0] * 2


def test_a_worker_lost_again_and_again_is_a_failure_in_the_end(problem, sqlite, monkeypatch):
    outcome = Trial(0, 0, {}, "failed", failure="out-of-memory", message="killed from outside")
    monkeypatch.setattr(threading.Event, "wait", lambda self, seconds=None: None)
    monkeypatch.setattr(worker, "Worker", failing(LostError([outcome]), FixedBudget.retries + 1))
    result = search(problem, "constant", Budget(trials=2), storage=sqlite)
    assert result.summary == "2 of 2 trials: 1 complete, 1 failed (1 out-of-memory)"
    assert result.trials[0].message == "killed from outside"


def test_an_error_of_the_search_itself_releases_its_lease(problem, sqlite, monkeypatch):
    monkeypatch.setattr(worker, "Worker", failing(ZeroDivisionError("a bug"), 1))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        search(problem, "constant", Budget(trials=2), storage=sqlite)
    assert leases(sqlite) == []
    assert states(sqlite) == {"FAIL": 1}


def test_a_trial_whose_lease_was_lost_is_not_shown(problem, sqlite, monkeypatch):
    class Slow(InlineWorker):
        def run(self, jobs, **options):
            """While this process was asleep, another one has taken the lease over and stored the trial."""
            (name,) = [study.study_name for study in open_storage(sqlite).get_all_studies()]
            other = Study(open_storage(sqlite), name)
            other._write(sa.update(LEASES).values(beat=0.0))
            assert other.lease(range(1)) == 0
            other.start(0, {}, {})
            assert other.add(Trial(0, 0, {}, "complete", 5.0))
            return super().run(jobs, **options)

    monkeypatch.setattr(worker, "Worker", Slow)
    result = search(problem, "constant", Budget(trials=1), storage=sqlite, on_trial=pytest.fail)
    assert [record.score for record in result.trials] == [5.0]
    assert len(raw_trials(sqlite)) == 1
    assert states(sqlite) == {"COMPLETE": 1, "FAIL": 1}
