"""Files that a stranger might bring: each works with nothing said beyond the target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopular.automl import Fitted, fit_table, load_fitted
from hopular.cli import app
from hopular.cli.frame import run
from hopular.data import load
from hopular.data.read import read_raw

pytestmark = pytest.mark.usefixtures("shared_workers")
RNG = np.random.default_rng(0)
N = 120


def semicolons() -> bytes:
    rows = [f"{x:.2f};{'Köln' if x > 5 else 'Bonn'};{'ja' if x > 4 else 'nein'}" for x in RNG.uniform(0, 10, N)]
    return "\n".join(["größe;stadt;gekauft", *(row.replace(".", ",") for row in rows)]).encode("latin-1")


def excel_export() -> bytes:
    rows = [f'"{x:.1f}","a, b",{"yes" if x > 0 else "no"}' for x in RNG.normal(size=N)]
    return "\r\n".join(["value,text,answer", *rows]).encode("utf-8-sig")


def holes() -> bytes:
    values = RNG.normal(size=(N, 5))
    cells = np.where(RNG.random((N, 5)) < 0.4, "", np.char.mod("%.3f", values))
    labels = np.where(values[:, 0] > 0, "up", "down")
    return "\n".join(
        ["a,b,c,d,e,answer", *(",".join([*row, label]) for row, label in zip(cells, labels, strict=True))]
    ).encode()


def thousand_categories() -> bytes:
    rows = [f"k{number % 1000},{number % 7},{'x' if number % 7 > 3 else 'z'}" for number in range(2500)]
    return "\n".join(["key,number,answer", *rows]).encode()


def dates() -> bytes:
    rows = [f"{day % 28 + 1:02}.{day % 12 + 1:02}.{2020 + day % 4},{day % 4 > 1}" for day in range(N)]
    return "\n".join(["when,answer", *rows]).encode()


def few_rows() -> bytes:
    return "\n".join(["a,b,answer", *(f"{x},{-x},{'p' if x % 30 > 14 else 'q'}" for x in range(30))]).encode()


def imbalance() -> bytes:
    rows = [f"{x:.3f},{'rare' if place < 2 else 'common'}" for place, x in enumerate(RNG.normal(size=N))]
    return "\n".join(["a,answer", *rows]).encode()


def regression() -> bytes:
    return "\n".join(["a,answer", *(f"{x:.3f},{2 * x + 1:.3f}" for x in RNG.normal(size=N))]).encode()


FILES = {
    "semicolons": (semicolons, "gekauft", 0.8),
    "excel_export": (excel_export, "answer", 0.8),
    "holes": (holes, "answer", 0.5),
    "thousand_categories": (thousand_categories, "answer", 0.5),
    "dates": (dates, "answer", 0.8),
    "few_rows": (few_rows, "answer", 0.5),
    "imbalance": (imbalance, "answer", 0.8),
    "regression": (regression, "answer", None),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", ["semicolons", "dates"])
def test_the_command_does_it_with_all_methods(name: str, tmp_path: Path) -> None:
    make, target, _ = FILES[name]
    file = tmp_path / f"{name}.csv"
    file.write_bytes(make())
    assert run(app, ["fit", str(file), "--target", target, "--minutes", "1", "-o", str(tmp_path / "model")]) == 0
    assert run(app, ["predict", str(tmp_path / "model"), str(file), "-o", str(tmp_path / "answers.csv")]) == 0
    answers = read_raw(tmp_path / "answers.csv").frame["prediction"].astype("str")
    assert (answers == load(str(file), target=target).y.astype("str")).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.soak if name in {"excel_export", "imbalance"} else ()) for name in FILES],
)
def test_it_works(name: str, tmp_path: Path) -> None:
    make, target, least = FILES[name]
    file = tmp_path / f"{name}.csv"
    file.write_bytes(make())
    dataset = load(str(file), target=target)
    floor = "mean" if dataset.task == "regression" else "majority"
    fitted: Fitted = fit_table(dataset, 120, methods=[floor, "pls"])
    assert (dataset.task == "regression") == (least is None)
    board = fitted.leaderboard.set_index("method")
    assert board[fitted.facts.metric][[floor, "pls"]].notna().all(), board["reason"].tolist()
    again = load_fitted(fitted.save(tmp_path / "model"))
    answers = again.predict(read_raw(file).frame)  # the same file once more, as if it were new
    assert len(answers) == len(dataset)
    if least is None:
        assert np.abs(answers - dataset.y.to_numpy()).max() < 0.1
    else:
        assert (answers == dataset.y.to_numpy()).mean() >= least
        assert list(again.predict_proba(read_raw(file).frame).columns) == sorted(dataset.classes)


def amounts() -> bytes:
    """Features and target as people in Germany write them, and a new row that means nothing by itself."""
    rows = [f"{150 + 25 * n:,};{n % 9 / 8 + 1:.3f} kg;{(2000 + 50 * n):,} €" for n in range(N)]
    return "\n".join(["area;weight;price", *(row.replace(",", ".") for row in rows)]).encode()


@pytest.mark.slow
def test_amounts_are_learned_and_new_rows_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "houses.csv").write_bytes(amounts())
    dataset = load(str(tmp_path / "houses.csv"), target="price")
    assert dataset.y.max() == 7950
    fitted = fit_table(dataset, 120, methods=["mean", "pls"])
    again = load_fitted(fitted.save(tmp_path / "model"))
    (tmp_path / "new.csv").write_text("area,weight\n1.525,1.250 kg\n")
    (answer,) = again.predict(read_raw(tmp_path / "new.csv").frame)
    assert answer == pytest.approx(4750, abs=20)
