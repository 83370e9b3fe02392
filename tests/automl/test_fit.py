"""fit_table: an honest leaderboard, a model that can be used, within the time, and again after an interruption."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.automl import fit_table, load_fitted
from hopular.automl.fit import hold_out
from hopular.automl.news import News
from hopular.data import Protocol, Split
from hopular.methods import MethodError
from tests.automl.conftest import flowers, prices
from tests.toys import toy_methods

FIXED = Protocol(scheme="fixed")
QUICK = ["majority", "pls"]  # with nine settings in all: when they are tried, there is no reason to wait


def test_classes_are_told_apart_and_the_model_is_written_whole(tmp_path: Path, runs: Path) -> None:
    dataset, news = flowers(), list[News]()
    fitted = fit_table(dataset, 60, methods=QUICK, command="hopular fit flowers.csv", on_news=news.append)
    board = fitted.leaderboard.set_index("method")
    assert set(board.index) >= set(QUICK)
    assert board["trials"][QUICK].tolist() == [1, 9]
    assert fitted.facts.seconds < 55
    assert board["loss"].is_monotonic_increasing
    assert board["is_chosen"].tolist().index(True) == 0
    assert board["test"]["majority"] < 0.5 < 0.8 < board["test"].iloc[0]
    assert fitted.facts.trained_on == "all rows"
    assert {item.stage for item in news} == {"plan", "audit", "start", "done", "refit", "write"}
    assert not any((runs / "fits").iterdir())  # nothing is left of a race that is done

    folder = fitted.save(tmp_path / "model")
    assert sorted(path.name for path in folder.iterdir()) == [
        *("command.txt", "fitted", "hopular-model.json", "report.html", "results")
    ]
    assert (folder / "command.txt").read_text() == "hopular fit flowers.csv\n"
    assert not list(folder.rglob("*.pkl"))
    again = load_fitted(folder)
    assert (again.predict(dataset.X) == fitted.predict(dataset.X)).all()
    shares = again.predict_proba(dataset.X.head())
    assert list(shares.columns) == ["ash", "birch", "cedar"]
    assert np.allclose(shares.sum(axis=1), 1)
    assert (again.predict(dataset.X) == dataset.y.to_numpy()).mean() > 0.8


def test_numbers_are_predicted_and_have_no_probabilities() -> None:
    dataset = prices()
    fitted = fit_table(dataset, 60, methods=["mean", "pls"])
    board = fitted.leaderboard.set_index("method")
    assert board["metric"].unique().tolist() == ["mse"]
    assert board["test"]["pls"] < board["test"]["mean"] / 10
    assert np.abs(fitted.predict(dataset.X) - dataset.y).mean() < 20
    with pytest.raises(ValueError, match="predicts numbers of 'price', which have no probabilities"):
        fitted.predict_proba(dataset.X)


def parts_of(split: Split) -> pd.DataFrame:
    """The same division of the rows, as a column."""
    part = np.full(90, "train", dtype=object)
    part[split.valid], part[split.test] = "valid", "test"
    return pd.DataFrame({"part": part})


def test_test_rows_have_no_part_in_the_choice() -> None:
    dataset = flowers()
    split = hold_out(dataset)
    before = fit_table(dataset, 60, methods=["pls"])
    spoiled = dataset.y.copy()
    spoiled.iloc[split.test] = "ash"
    after = fit_table(
        type(dataset)("spoiled", dataset.X, spoiled, "classification", source=""), 8, methods=["logistic"]
    )
    assert hold_out(dataset).fingerprint == split.fingerprint
    assert after.facts.metrics["test"]["accuracy"] < before.facts.metrics["test"]["accuracy"]


def test_a_fit_that_never_ends_is_ended_with_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_TEST_SLEEP", "3600")
    with toy_methods():
        start = time.monotonic()
        fitted = fit_table(prices(), 24, methods=["constant", "mean"])
        seconds = time.monotonic() - start
    assert 20 < seconds < 26.4  # within ten percent, but not before: there was something left to try
    board = fitted.leaderboard.set_index("method")
    assert board["is_chosen"]["mean"]
    assert board["validation"].isna()["constant"]


def test_an_interrupted_fit_goes_on_with_what_was_tried(runs: Path) -> None:
    def interrupt(news: News) -> None:
        if news.stage == "audit":  # in the main thread, as an interruption from the keyboard
            done.wait(30)
            raise KeyboardInterrupt
        if news.record is not None:
            done.set()

    done = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        fit_table(flowers(), 60, methods=QUICK, on_news=interrupt)
    (kept,) = (runs / "fits").iterdir()
    assert list(kept.glob("*/*.json"))
    news: list[News] = []
    fit_table(flowers(), 60, methods=QUICK, on_news=news.append)
    assert news[0].trials >= 1
    tried = [(item.method, item.record.slot) for item in news if item.record]
    assert len(set(tried)) == len(tried)
    assert not kept.exists()


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="seconds is 0: use a number above 0"):
        fit_table(flowers(), 0)
    with pytest.raises(MethodError, match=r"there is no method 'logistics'\. Did you mean 'logistic'\?"):
        fit_table(flowers(), 5, methods=["logistics"])
    with pytest.raises(MethodError, match="method 'mean' is not for classification"):
        fit_table(flowers(), 5, methods=["mean"])
