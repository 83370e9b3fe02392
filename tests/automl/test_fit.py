"""fit_table: an honest leaderboard, a model of all rows, within the time, the same again, and after an interruption."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.automl import Fitted, fit_table, load_fitted
from hopular.automl.fit import _divide
from hopular.data import Protocol
from hopular.data.dataset import Dataset
from hopular.methods import MethodError
from hopular.trials.events import Event
from tests.automl.conftest import QUICK, Watched, flowers, prices
from tests.toys import toy_methods


def test_classes_are_told_apart_and_the_model_is_written_whole(watched: Watched, tmp_path: Path) -> None:
    dataset, fitted = flowers(), watched.fitted
    board = fitted.leaderboard.set_index("method")
    assert board["trials"][QUICK].tolist() == [1, 9]
    assert fitted.facts.seconds < 110  # nothing was left to try
    assert board["log_loss"].is_monotonic_increasing
    assert board["share"].sum() == pytest.approx(1)
    assert board["accuracy"]["majority"] < 0.5 < 0.6 < board["accuracy"]["pls"]
    assert fitted.facts.trained_on.endswith("trained on all 90 rows together")
    assert {event.stage for event in watched.events} == {"planned", "audit", "start", "trial", "choose", "write"}

    folder = fitted.save(tmp_path / "model")
    assert sorted(path.name for path in folder.iterdir()) == [
        *("command.txt", "fitted", "hopular-model.json", "out-of-fold.npz", "report.html")
    ]
    assert (folder / "command.txt").read_text() == "hopular fit flowers.csv\n"
    again = load_fitted(folder)
    assert (again.predict(dataset.X) == fitted.predict(dataset.X)).all()
    shares = again.predict_proba(dataset.X.head())
    assert list(shares.columns) == ["ash", "birch", "cedar"]
    assert np.allclose(shares.sum(axis=1), 1)
    assert (again.predict(dataset.X) == dataset.y.to_numpy()).mean() > 0.7
    assert again.score(dataset.X, dataset.y) > 0.7
    assert again.facts == fitted.facts
    assert (again.out_of_fold.predictions == fitted.out_of_fold.predictions).all()


def test_the_score_is_that_of_rows_that_no_model_of_theirs_saw(watched: Watched) -> None:
    fitted, dataset = watched.fitted, flowers()
    evidence = fitted.out_of_fold
    assert sorted(evidence.rows) == list(range(90))
    assert (evidence.truth == dataset.y.astype(str).to_numpy()[evidence.rows]).all()
    right = evidence.predictions.argmax(axis=1) == np.searchsorted(dataset.classes, evidence.truth)
    assert fitted.facts.metrics["out_of_fold"]["accuracy"] == pytest.approx(right.mean())
    low, high = fitted.facts.intervals["out_of_fold"]["accuracy"]
    assert low < right.mean() < high
    folds = fitted.predict_folds(dataset.X)
    assert folds.shape == (8, 90, 3)
    assert np.allclose(folds.mean(axis=0), fitted.predict_proba(dataset.X), atol=0.05)


def test_a_changed_label_changes_only_what_other_rows_are_told(watched: Watched) -> None:
    """The prediction of a row held out does not depend on its own label, but for the choice of the folds."""
    dataset, row = prices(), 7
    before = fit_table(dataset, methods=["pls"], trials=1).out_of_fold
    spoiled = dataset.y.copy()
    spoiled.iloc[row] += 1000
    after = fit_table(replace(dataset, y=spoiled), methods=["pls"], trials=1).out_of_fold
    assert (before.fold == after.fold).all()
    same = np.isclose(before.predictions, after.predictions)
    own_fold = before.fold[before.rows == row][0]
    assert same[before.fold == own_fold].all()
    assert not same[before.fold != own_fold].any()


def test_numbers_are_predicted_and_have_no_probabilities() -> None:
    dataset = prices()
    fitted = fit_table(dataset, trials=3, methods=["mean", "pls"])
    board = fitted.leaderboard.set_index("method")
    assert board["rmse"]["pls"] < board["rmse"]["mean"] / 3
    assert np.abs(fitted.predict(dataset.X) - dataset.y).mean() < 20
    interval = fitted.predict_interval(dataset.X, 0.8)
    inside = (interval["low"] <= dataset.y) & (dataset.y <= interval["high"])
    assert 0.7 < inside.mean() <= 1
    importance = fitted.feature_importance()
    assert importance["column"].iloc[0] == "size"
    assert importance["low"].iloc[0] > 0
    with pytest.raises(ValueError, match="predicts numbers of 'price', which have no probabilities"):
        fitted.predict_proba(dataset.X)


def test_so_many_trials_give_the_same_model_bit_for_bit() -> None:
    def fit() -> Fitted:
        return fit_table(flowers(), trials=5, methods=["logistic", "decision_tree", "naive_bayes"])

    one, other = fit(), fit()
    assert one.leaderboard["trials"].sum() == 5
    assert one.facts.members == other.facts.members
    assert (one.predict_proba(flowers().X).to_numpy() == other.predict_proba(flowers().X).to_numpy()).all()


def test_test_rows_have_no_part_in_the_choice(watched: Watched) -> None:
    dataset = flowers()
    part = np.full(len(dataset), "train", dtype=object)
    part[::5], part[1::5] = "test", "valid"
    parts = pd.DataFrame({"part": part})
    whole = replace(dataset, parts=parts, protocol=Protocol(scheme="fixed"))
    table = _divide(whole, 0.0, 0)
    assert table.test.tolist() == list(range(0, 90, 5))
    assert (len(table.problem.folds), len(table.problem.folds[0].valid)) == (1, 18)
    spoiled = dataset.y.copy()
    spoiled.iloc[table.test] = "ash"
    before = fit_table(whole, trials=3, methods=QUICK).facts
    after = fit_table(replace(whole, y=spoiled), trials=3, methods=QUICK).facts
    assert after.metrics["out_of_fold"] == before.metrics["out_of_fold"]
    assert after.metrics["test"]["accuracy"] < before.metrics["test"]["accuracy"]


def test_a_hold_out_or_a_file_of_rows_is_scored_by_the_finished_model() -> None:
    dataset = flowers()
    fitted = fit_table(dataset, trials=3, methods=QUICK, holdout=0.2)
    assert (fitted.facts.rows, fitted.facts.test_rows) == (72, 18)
    held_out = np.setdiff1d(np.arange(90), fitted.out_of_fold.rows)
    predicted = fitted.predict(dataset.X.iloc[held_out])
    right = (predicted == dataset.y.iloc[held_out].to_numpy()).mean()
    assert fitted.facts.metrics["test"]["accuracy"] == pytest.approx(right)
    other = fit_table(dataset, trials=3, methods=QUICK, test=(dataset.X.head(10), dataset.y.head(10)))
    assert other.facts.rows == 90
    assert other.facts.metrics["test"]["accuracy"] == pytest.approx(other.score(dataset.X.head(10), dataset.y.head(10)))


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "f1", "roc_auc"])
def test_another_metric_decides(metric: str, tmp_path: Path) -> None:
    dataset = uneven()
    fitted = fit_table(dataset, trials=2, methods=["logistic", "majority"], metric=metric)
    name = {"f1": "macro_f1"}.get(metric, metric)
    assert fitted.facts.metric == name
    assert fitted.leaderboard[name].is_monotonic_decreasing
    plain = fit_table(dataset, trials=2, methods=["logistic", "majority"])
    assert fitted.facts.metrics["out_of_fold"][name] >= plain.facts.metrics["out_of_fold"][name] - 0.01
    if metric == "balanced_accuracy":  # one row in eight is rare: the threshold of one half misses most of them
        assert fitted.facts.multipliers is not None
        assert (fitted.predict(dataset.X) == "rare").sum() > (plain.predict(dataset.X) == "rare").sum()
        again = load_fitted(fitted.save(tmp_path / "model"))
        assert (again.predict(dataset.X) == fitted.predict(dataset.X)).all()


def uneven() -> Dataset:
    """One row in eight is rare, and hard to tell."""
    rng = np.random.default_rng(3)
    is_rare = np.arange(240) % 8 == 0
    X = pd.DataFrame({"x": is_rare + rng.normal(size=240), "z": rng.normal(size=240)})
    return Dataset("uneven", X, pd.Series(pd.Categorical(np.where(is_rare, "rare", "usual")), name="kind"),
                   "classification", source="made up")  # fmt: skip


def test_models_that_are_too_slow_are_left_out_and_named() -> None:
    fitted = fit_table(flowers(), trials=2, methods=["majority", "random_forest"], max_predict_ms=60)
    assert {name for name, _, _ in fitted.facts.members} == {"majority"}
    assert "Random forest needs" in fitted.left_out["random_forest"]
    assert "the limit is 60 ms" in fitted.left_out["random_forest"]
    with pytest.raises(ValueError, match=r"no model predicts a row within 0\.001 ms \(Random forest needs"):
        fit_table(flowers(), trials=1, methods=["random_forest"], max_predict_ms=0.001)


@pytest.mark.slow
def test_a_fit_that_never_ends_is_ended_with_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "3600")
    with toy_methods():
        start = time.monotonic()
        fitted = fit_table(prices(), 15, methods=["mean", "constant"])
        seconds = time.monotonic() - start
    assert seconds < 25  # on a machine that is busy with other tests
    board = fitted.leaderboard.set_index("method")
    assert board["share"]["mean"] == 1
    assert board["reason"]["constant"] == "no time or trial was left for it"


def interrupted(done: threading.Event) -> Callable[[Event], None]:
    """Return a listener that interrupts the fit, as the keyboard does, when it has a result."""

    def listen(event: Event) -> None:
        if event.stage == "audit":  # in the main thread
            done.wait(30)
            raise KeyboardInterrupt
        if event.result is not None:
            done.set()

    return listen


def test_an_interrupted_fit_goes_on_with_what_was_tried(runs: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit_table(flowers(), 120, methods=QUICK, on_event=interrupted(threading.Event()))
    (kept,) = (runs / "fits").iterdir()
    assert (kept / "studies.db").is_file()
    events: list[Event] = []
    fitted = fit_table(flowers(), 120, methods=QUICK, on_event=events.append)
    assert events[0].trial >= 1
    tried = [(event.method, event.result.slot) for event in events if event.result]
    assert len(set(tried)) == len(tried) == fitted.leaderboard["trials"].sum()


def test_a_finished_fit_goes_on_if_asked_to_and_else_begins_anew(runs: Path) -> None:
    methods = ["naive_bayes", "decision_tree"]
    with pytest.raises(ValueError, match=r"the trials of this fit are not in .*: fit the table again"):
        fit_table(flowers(), 120, methods=methods, goes_on=True)
    first = fit_table(flowers(), trials=3, methods=methods)
    assert first.leaderboard["trials"].sum() == 3
    more = fit_table(flowers(), trials=5, methods=methods, goes_on=True)
    assert more.leaderboard["trials"].sum() == 5
    events: list[Event] = []
    fit_table(flowers(), trials=2, methods=methods, on_event=events.append)
    assert events[0].trial == 0


def test_wrong_arguments_are_named() -> None:
    for arguments, message in (
        ({"seconds": 0}, "seconds is 0: use a number above 0"),
        ({"trials": 0}, "trials is 0: use a whole number from 1 on"),
        ({"holdout": 1.0}, r"holdout is 1\.0: use a share from 0 to below 1"),
        ({"metric": "acuracy"}, "metric 'acuracy' cannot decide .* Did you mean 'accuracy'"),
        ({"metric": "rmse"}, "metric 'rmse' cannot decide in a classification"),
        ({"memory": -1}, "memory is -1: use a number above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            fit_table(flowers(), **arguments)  # type: ignore[arg-type]
    with pytest.raises(MethodError, match=r"there is no method 'logistics'\. Did you mean 'logistic'\?"):
        fit_table(flowers(), 5, methods=["logistics"])
    with pytest.raises(MethodError, match="method 'mean' is not for classification"):
        fit_table(flowers(), 5, methods=["mean"])
