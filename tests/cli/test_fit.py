"""`hopular fit`: what it says, what it writes, and what it refuses."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hopular.cli.fit import likely_target
from tests.cli.conftest import Hopular

pytestmark = pytest.mark.usefixtures("shared_workers")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trees.csv"
    rows = [f"{number % 10},{number % 7},{'oak' if number % 10 > 4 else 'elm'}" for number in range(80)]
    path.write_text("\n".join(["height,age,tree", *rows]))
    return path


def test_a_model_with_leaderboard_report_and_command(hopular: Hopular, file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    words = ("fit", str(file), "--target", "tree", "--minutes", "2", "--methods", "majority,pls", "-o", str(folder))
    outcome = hopular(*words)
    assert outcome.code == 0, outcome.err
    assert "target        tree (elm 50 % and oak 50 %)" in outcome.out
    assert "\tMost frequent class\t0.69" in outcome.out  # the log loss of even classes
    assert f"hopular predict {folder} NEW.csv -o out.csv" in outcome.out
    assert "trained on all 80 rows together" in outcome.out
    assert (folder / "command.txt").read_text().split()[:2] == ["hopular", "fit"]
    assert "<html" in (folder / "report.html").read_text()
    assert (folder / "hopular-model.json").is_file()


def test_rows_in_the_order_of_time_and_guesses_at_numbers_are_said(hopular: Hopular, tmp_path: Path) -> None:
    rows = [f"{100 + number},{900 + 10 * number:,} kg".replace(",", ".").replace(".", ",", 1) for number in range(80)]
    (tmp_path / "daily.csv").write_text("\n".join(["day,sold", *rows]))
    words = ("fit", str(tmp_path / "daily.csv"), "-t", "sold", "-m", "2", "--methods", "mean,pls", "-o")
    outcome = hopular(*words, str(tmp_path / "model"))
    assert outcome.code == 0, outcome.err
    assert "target        sold (numbers from 900 to 1690)" in outcome.out
    assert "note          read as numbers without 'kg': sold" in outcome.out
    assert "note          dots read as separators of thousands: sold" in outcome.out
    assert "note  note          The target of a row is much like that of the row before" in outcome.out
    assert "If the order is that of time, test on later rows" in outcome.out
    report = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert "<dd>dots read as separators of thousands: sold</dd>" in report
    described = hopular("datasets", str(tmp_path / "daily.csv"), "--target", "sold").out
    assert "note          dots read as separators of thousands: sold" in described
    (tmp_path / "new.csv").write_text("day\n150\n")
    predicted = hopular("predict", str(tmp_path / "model"), str(tmp_path / "new.csv")).out
    assert float(predicted.splitlines()[1]) == pytest.approx(1400, abs=50)


def test_json_for_scripts_and_nothing_else(hopular: Hopular, file: Path, tmp_path: Path) -> None:
    words = ("fit", str(file), "-t", "tree", "-m", "2", "--methods", "majority", "-o", str(tmp_path / "m"), "--json")
    outcome = hopular(*words)
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["method"] == "majority"
    assert found["leaderboard"][0]["trials"] == 1
    options = f"--target tree --minutes 2 --output {tmp_path / 'm'} --methods majority"
    assert found["command"] == f"hopular fit {file} {options}"


def test_without_a_target_the_columns_are_listed_and_one_is_suggested(hopular: Hopular, file: Path) -> None:
    outcome = hopular("fit", str(file))
    assert outcome.code == 2
    assert "is to be predicted? It has height, age, tree. Perhaps: --target tree" in outcome.err
    assert likely_target(["Price", "size"]) == "Price"


def test_a_folder_of_something_else_is_refused_before_any_work(hopular: Hopular, file: Path, tmp_path: Path) -> None:
    outcome = hopular("fit", str(file), "-t", "tree", "-o", str(tmp_path))
    assert outcome.code == 2
    assert "holds other files than a model of hopular: name another folder" in outcome.err


def test_places_that_cannot_be_written_are_mistakes(
    hopular: Hopular, file: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = hopular("fit", str(file), "-t", "tree", "-o", str(file / "sub"))
    assert outcome.code == 2
    assert "no model can be written to" in outcome.err
    shutil.rmtree(runs)
    runs.write_text("a file where the folder should be")
    outcome = hopular("fit", str(file), "-t", "tree", "-o", str(runs.parent / "model"), "--quiet")
    assert outcome.code == 2
    assert f"results cannot be kept in {runs} (File exists): name another folder with HOPULAR_RUNS" in outcome.err


def test_wrong_words_are_mistakes(hopular: Hopular, file: Path) -> None:
    for words, message in (
        (("-t", "tree", "--methods", "pks"), "there is no method 'pks'. Did you mean 'pls'?"),
        (("-t", "tree", "-m", "0"), "--minutes is 0: use a number above 0"),
        (("-t", "tre"), "target names a column 'tre' that is not there. Did you mean 'tree'?"),
    ):
        outcome = hopular("fit", str(file), *words)
        assert outcome.code == 2
        assert message in outcome.err


def test_an_interruption_says_how_to_go_on(file: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from hopular.cli import main; main()"]
    command = [*program, "fit", str(file), "-t", "tree", "--methods", "lightgbm"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=tmp_path) as process:
        assert process.stderr is not None
        while b"best so far" not in (said := process.stderr.readline()):
            assert said, "it ended before it was interrupted"
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read().decode()
    assert process.returncode == 130
    assert f"go on with: hopular fit {file} --target tree --minutes 5 --methods lightgbm" in rest
    assert not (tmp_path / "trees-model").exists()
