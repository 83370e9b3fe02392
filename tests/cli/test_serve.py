"""`hopular serve`: a real server answers, refuses what is wrong, and ends when it is told to."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import requests

from hopular.automl import fit_table, load_fitted
from hopular.cli.serve import _listen, answer_to
from hopular.data import Dataset, load
from tests.cli.conftest import Hopular
from tests.documented import ROOT, shell_lines, write_houses

START = [sys.executable, "-c", "from hopular.cli import main; main()", "serve"]


@dataclass(frozen=True)
class Served:
    address: str
    model: Path

    def ask(self, request: Any) -> requests.Response:
        return requests.post(f"{self.address}/predict", json=request, timeout=60)


def start(model: Path, folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a server on a free port, and wait for its address."""
    environment = {**os.environ, "HOPULAR_RUNS": str(folder)}
    process = subprocess.Popen([*START, str(model), "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The table that the documentation talks of, fitted and served."""
    folder = tmp_path_factory.mktemp("houses")
    write_houses(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(folder / "runs"))
        patch.setenv("HOPULAR_CACHE", str(folder / "cache"))
        model = fit_table(load(str(folder / "houses.csv"), target="price"), 300, methods=["pls"]).save(folder / "model")
    process, address = start(model, folder / "runs")
    yield Served(address, model)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X = pd.DataFrame({"height": [float(n % 10) for n in range(60)], "leaf": pd.Categorical(["big", "small"] * 30)})
    y = pd.Series(pd.Categorical(["oak" if n % 10 > 4 else "elm" for n in range(60)]), name="tree")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(tmp_path_factory.mktemp("runs")))
        fitted = fit_table(Dataset("trees", X, y, "classification", source=""), 300, methods=["pls"])
        return fitted.save(tmp_path_factory.mktemp("models") / "trees")


HOUSE = {"rooms": 3, "town": "Wien", "area": 61.5}


@pytest.mark.slow
def test_rows_are_answered_as_by_the_model_itself(houses: Served) -> None:
    rows = [HOUSE, {**HOUSE, "area": None}, {**HOUSE, "town": "Rom", "price": 1}]
    answer = houses.ask({"rows": rows})
    assert answer.status_code == 200, answer.text
    expected = load_fitted(houses.model).predict(pd.DataFrame(rows).drop(columns="price"))
    assert answer.json()["predictions"] == pytest.approx(expected.tolist())
    assert answer.json()["notes"] == ["town: 1 value (Rom) counts as missing, new to the model"]


@pytest.mark.slow
def test_the_model_describes_itself(houses: Served) -> None:
    assert requests.get(f"{houses.address}/health", timeout=30).json() == {"status": "ok"}
    told = requests.get(houses.address, timeout=30).json()
    assert (told["target"], told["task"]) == ("price", "regression")
    assert [column["name"] for column in told["columns"]] == ["rooms", "town", "area"]
    assert told["columns"][1]["categories"] == ["Graz", "Linz", "Wien"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"rows": [{"rooms": 3, "town": "Wien", "aera": 61.5}]}, "row 1 lacks the column 'area'. Did you mean 'aera'?"),
        ({"rows": [HOUSE, {**HOUSE, "garden": 1}]}, "row 2 has a column 'garden' that the model does not know"),
        ({"rows": [{**HOUSE, "area": "big"}]}, "column 'area'"),
        ({"rows": [{**HOUSE, "town": {"$ref": "x"}}]}, "row 1: column 'town' is {'$ref': 'x'}: give a number, a text"),
        ({"rows": [{**HOUSE, "area": 10**400}]}, "column 'area' is 1000"),
        ({"rows": [3]}, "row 1 is 3: make it an object"),
        ({"rows": []}, "rows is empty: send at least one"),
        ({"row": [HOUSE]}, "the request has no list of rows"),
        ({"rows": [HOUSE], "intervall": 0.9}, "'intervall' that means nothing here. Did you mean 'interval'?"),
        ({"rows": [HOUSE], "interval": 90}, "interval is 90: use a number between 0 and 1, such as 0.9"),
        ({"rows": [HOUSE] * 10_001}, "rows has 10,001 rows, and a request may have 10,000"),
    ],
)
def test_a_wrong_request_is_refused_by_name(houses: Served, request_: Any, message: str) -> None:
    answer = houses.ask(request_)
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["error"]


@pytest.mark.slow
def test_what_is_no_json_or_too_much_is_refused(houses: Served) -> None:
    for body, code, message in (
        (b"rows=3", 422, "the request is no JSON"),
        (b"[" * 100_000, 422, "the request is no JSON"),
        (b'{"rows": [{"area": NaN}]}', 422, "the number NaN, which JSON does not know: use null"),
        (b" " * 10_000_001, 413, "a request may have 10,000,000 bytes: send the rows in several"),
    ):
        answer = requests.post(f"{houses.address}/predict", data=body, timeout=60)
        assert answer.status_code == code
        assert message in answer.json()["error"]
    assert houses.ask({"rows": [HOUSE]}).status_code == 200  # it is still there


@pytest.mark.slow
def test_the_documented_line_is_answered(houses: Served) -> None:
    page = shell_lines(ROOT / "docs" / "howto" / "serve.md")
    (line,) = [line for line in page if line.startswith("curl") and ":8000/predict" in line]
    words = [word.replace("http://127.0.0.1:8000", houses.address) for word in shlex.split(line)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert len(json.loads(done.stdout)["predictions"]) == 1


@pytest.mark.slow
def test_a_request_to_end_ends_it_with_143(houses: Served, tmp_path: Path) -> None:
    process, address = start(houses.model, tmp_path)
    assert requests.get(f"{address}/health", timeout=30).ok
    process.terminate()
    assert process.wait(30) == 143


def test_classes_have_probabilities_and_no_intervals(trees: Path) -> None:
    fitted = load_fitted(trees)
    row = {"height": 9, "leaf": "big"}
    answer = answer_to(fitted, json.dumps({"rows": [row, {**row, "height": 0}]}).encode())
    assert answer["predictions"] == ["oak", "elm"]
    assert answer["probabilities"][0]["oak"] > 0.5 > answer["probabilities"][1]["oak"]
    assert json.loads(json.dumps(answer)) == answer
    with pytest.raises(ValueError, match="interval is for numbers, and tree has classes: leave it out"):
        answer_to(fitted, json.dumps({"rows": [row], "interval": 0.9}).encode())
    with pytest.raises(ValueError, match="row 1: column 'height' is True: give a number or null"):
        answer_to(fitted, json.dumps({"rows": [{**row, "height": True}]}).encode())


def test_a_port_or_a_model_that_cannot_be_used(hopular: Hopular, trees: Path, tmp_path: Path) -> None:
    assert hopular("serve", str(tmp_path)).code == 2
    outcome = hopular("serve", str(trees), "--port", "70000")
    assert outcome.code == 2
    assert "--port is 70000: use a number from 0 to 65535" in outcome.err
    taken = _listen("127.0.0.1", 0)
    taken.listen()
    outcome = hopular("serve", str(trees), "--port", str(taken.getsockname()[1]))
    taken.close()
    assert outcome.code == 1
    assert "cannot be listened on (Address already in use): choose another --port or --host" in outcome.err
