"""fit_table: an honest leaderboard, a model that can be used, within the time, and again after an interruption."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.automl import fit, fit_table, load_fitted, spare
from hopular.automl.fit import hold_out
from hopular.cli.fit import _show
from hopular.data import Protocol
from hopular.evaluation.verdict import Standings
from hopular.methods import MethodError
from hopular.report.page import render
from hopular.trials.events import Event
from tests.automl.conftest import QUICK, Watched, flowers, prices
from tests.toys import toy_methods


def test_classes_are_told_apart_and_the_model_is_written_whole(watched: Watched, tmp_path: Path) -> None:
    dataset, fitted = flowers(), watched.fitted
    board = fitted.leaderboard.set_index("method")
    assert board["trials"][QUICK].tolist() == [1, 9]
    assert fitted.facts.seconds < 110  # nothing was left to try
    assert board["loss"].is_monotonic_increasing
    assert board["is_chosen"].tolist().index(True) == 0
    assert board["test"]["majority"] < 0.5 < 0.6 < board["test"].iloc[0]
    assert (set(fitted.facts.rows), fitted.facts.trained_on) == ({90}, "trained on all 90 rows")
    assert {event.stage for event in watched.events} == {"planned", "audit", "start", "trial", "refit", "write"}

    folder = fitted.save(tmp_path / "model")
    assert sorted(path.name for path in folder.iterdir()) == [
        *("command.txt", "fitted", "hopular-model.json", "report.html", "results")
    ]
    assert (folder / "command.txt").read_text() == "hopular fit flowers.csv\n"
    again = load_fitted(folder)
    assert (again.predict(dataset.X) == fitted.predict(dataset.X)).all()
    shares = again.predict_proba(dataset.X.head())
    assert list(shares.columns) == ["ash", "birch", "cedar"]
    assert np.allclose(shares.sum(axis=1), 1)
    assert (again.predict(dataset.X) == dataset.y.to_numpy()).mean() > 0.7


def test_numbers_are_predicted_and_have_no_probabilities() -> None:
    dataset = prices()
    fitted = fit_table(dataset, 120, methods=["mean", "pls"])
    board = fitted.leaderboard.set_index("method")
    assert board["metric"].unique().tolist() == ["mse"]
    assert board["test"]["pls"] < board["test"]["mean"] / 10
    assert np.abs(fitted.predict(dataset.X) - dataset.y).mean() < 20
    with pytest.raises(ValueError, match="predicts numbers of 'price', which have no probabilities"):
        fitted.predict_proba(dataset.X)


def test_test_rows_have_no_part_in_the_choice(watched: Watched) -> None:
    dataset = flowers()
    split = hold_out(dataset)
    spoiled, part = dataset.y.copy(), np.full(len(dataset), "train", dtype=object)
    spoiled.iloc[split.test] = "ash"
    part[split.valid], part[split.test] = "valid", "test"
    changed = replace(dataset, y=spoiled, parts=pd.DataFrame({"part": part}), protocol=Protocol(scheme="fixed"))
    after, before = fit_table(changed, 120, methods=QUICK).facts, watched.fitted.facts
    assert after.metrics["validation"] == before.metrics["validation"]
    assert after.metrics["test"]["accuracy"] < before.metrics["test"]["accuracy"]


@pytest.mark.slow
def test_a_fit_that_never_ends_is_ended_with_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "3600")
    with toy_methods():
        start = time.monotonic()
        fitted = fit_table(prices(), 15, methods=["mean", "constant"])
        seconds = time.monotonic() - start
    assert seconds < 18
    board = fitted.leaderboard.set_index("method")
    assert board["is_chosen"]["mean"]
    assert board["validation"].isna()["constant"]
    assert board["reason"]["constant"] == "not tried: there was no time for a first fit"
    page = render(Standings(fitted.results))
    assert "Not tried, because there was no time for a first fit: Constant." in page
    assert "failed" not in Standings(fitted.results).headline
    assert "1 failed" not in page


@pytest.mark.slow
def test_a_refit_does_not_wait_for_a_process_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only process of the race hangs in a fit when the race ends, and another one takes long to start."""
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text("import time\ntime.sleep(2.5)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "slow"))
    monkeypatch.setenv("HOPULAR_TEST_ACTS", "hang hang")
    monkeypatch.setattr(fit, "cores", lambda: 1)
    with toy_methods():
        fitted = fit_table(prices(), 25, methods=["mean", "actor"])
    assert fitted.facts.method == "mean"
    assert (fitted.facts.rows, fitted.facts.no_refit) == ((80,), "")
    assert fitted.predict(prices().X)[0] == pytest.approx(prices().y.mean())


def test_without_time_for_a_refit_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spare, "BESIDE_SECONDS", 3600.0)  # seconds that are expected for a refit: more than there are
    monkeypatch.setattr(fit, "AGAIN_SECONDS", 0.0)
    fitted = fit_table(flowers(), 60, methods=QUICK)
    train = len(hold_out(flowers()).train)
    said = f"trained on the {train} training rows of 90: no time was left to refit"
    assert (set(fitted.facts.rows), fitted.facts.trained_on) == ({train}, said)
    _show(fitted, tmp_path / "model", 8)
    assert said in capsys.readouterr().out
    folder = fitted.save(tmp_path / "model")
    assert said[1:] in (folder / "report.html").read_text()
    assert load_fitted(folder).facts == fitted.facts


def test_an_interrupted_fit_goes_on_with_what_was_tried(runs: Path) -> None:
    def interrupt(event: Event) -> None:
        if event.stage == "audit":  # in the main thread, as an interruption from the keyboard
            done.wait(30)
            raise KeyboardInterrupt
        if event.result is not None:
            done.set()

    done = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        fit_table(flowers(), 120, methods=QUICK, on_event=interrupt)
    (kept,) = (runs / "fits").iterdir()
    assert (kept / "studies.db").is_file()
    events: list[Event] = []
    fitted = fit_table(flowers(), 120, methods=QUICK, on_event=events.append)
    assert events[0].trial >= 1
    tried = [(event.method, event.result.slot) for event in events if event.result]
    assert len(set(tried)) == len(tried) == fitted.leaderboard["trials"].sum()
    assert not kept.exists()


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="seconds is 0: use a number above 0"):
        fit_table(flowers(), 0)
    with pytest.raises(MethodError, match=r"there is no method 'logistics'\. Did you mean 'logistic'\?"):
        fit_table(flowers(), 5, methods=["logistics"])
    with pytest.raises(MethodError, match="method 'mean' is not for classification"):
        fit_table(flowers(), 5, methods=["mean"])
