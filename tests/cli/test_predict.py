"""`hopular predict`: a row for every row, and a clear word where that cannot be."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.automl import fit_table, load_fitted
from hopular.data import Dataset
from tests.cli.conftest import Hopular


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X = pd.DataFrame({"height": [float(n % 10) for n in range(60)], "leaf": pd.Categorical(["big", "small"] * 30)})
    X["planted"] = [1.7e9 + 86_400 * n for n in range(60)]
    y = pd.Series(pd.Categorical(["oak" if n % 10 > 4 else "elm" for n in range(60)]), name="tree")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(tmp_path_factory.mktemp("runs")))
        dataset = Dataset("trees", X, y, "classification", source="", forms={"planted": "%d.%m.%Y"})
        fitted = fit_table(dataset, 120, methods=["pls"])
        return fitted.save(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of numbers: y is 2 x but for noise."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(0, 100, 60)})
    y = pd.Series(2 * X["x"] + rng.normal(size=60), name="y")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(tmp_path_factory.mktemp("runs")))
        fitted = fit_table(Dataset("numbers", X, y, "regression", source=""), 120, methods=["pls"])
        return fitted.save(tmp_path_factory.mktemp("models") / "numbers")


def read(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def test_predictions_and_probabilities_in_the_order_of_the_file(hopular: Hopular, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("leaf,id,height,planted\nbig,a,9,01.06.2024\nsmall,b,0,31.12.2023\nhuge,c,,\n")
    outcome = hopular("predict", str(model), str(tmp_path / "new.csv"))
    assert outcome.code == 0, outcome.err
    answers = pd.read_csv(io.StringIO(outcome.out))
    assert list(answers.columns) == ["prediction", "p(elm)", "p(oak)"]
    assert answers["prediction"].tolist()[:2] == ["oak", "elm"]
    assert "ignored, as the model does not use it: id" in outcome.err
    assert "leaf: 1 value (huge) counts as missing, new to the model" in outcome.err


def test_a_file_is_written_and_the_target_may_be_there(hopular: Hopular, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("height,leaf,tree,planted\n9,big,oak,01.06.2024\n1,small,elm,\n")
    outcome = hopular("predict", str(model), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv"), "--why")
    assert outcome.code == 0, outcome.err
    assert outcome.out == ""
    assert len(pd.read_csv(tmp_path / "out.csv")) == 2
    assert "2 predictions of tree are in" in outcome.err
    assert "ignored" not in outcome.err
    assert "only Hopular reads its answers from them" in outcome.err


def test_names_like_markup_and_a_runs_folder_that_is_none(
    hopular: Hopular, model: Path, tmp_path: Path, runs: Path
) -> None:
    runs.write_text("a file where the folder should be")
    (tmp_path / "new.csv").write_text("height,leaf,planted\n9,big,01.06.2024\n")
    (tmp_path / "a[").mkdir()
    outcome = hopular("predict", str(model), str(tmp_path / "new.csv"), "-o", f"{tmp_path}/a[/b].csv")
    assert outcome.code == 0, outcome.err
    assert outcome.err == f"1 prediction of tree is in {tmp_path}/a[/b].csv\n"


def test_an_output_that_cannot_be_written_is_a_mistake(hopular: Hopular, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("height,leaf,planted\n9,big,01.06.2024\n")
    for output, message in ((tmp_path, "is a folder: name a file in it"), (tmp_path / "no" / "x", "make it, or name")):
        outcome = hopular("predict", str(model), str(tmp_path / "new.csv"), "-o", str(output))
        assert outcome.code == 2
        assert message in outcome.err


def test_what_cannot_be_predicted_is_said(hopular: Hopular, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("heigth,leaf,planted\n9,big,01.06.2024\n")
    outcome = hopular("predict", str(model), str(tmp_path / "new.csv"))
    assert outcome.code == 2
    assert "the model needs height, not among the columns of the new rows. Did you mean 'heigth'?" in outcome.err
    outcome = hopular("predict", str(tmp_path), str(tmp_path / "new.csv"))
    assert outcome.code == 2
    assert "is no model of hopular fit: it has no hopular-model.json" in outcome.err


def test_columns_are_kept_in_front_as_they_were(hopular: Hopular, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(
        "leaf,id,zip,height,planted,seen\nbig,7,0123,9,01.06.2024,true\nsmall,,0456,0,31.12.2023,false\n"
    )
    given = (str(model), str(tmp_path / "new.csv"), "--keep")
    some = hopular("predict", *given, "zip, id,zip")
    assert some.code == 0, some.err
    kept = read(some.out)
    assert list(kept.columns) == ["zip", "id", "prediction", "p(elm)", "p(oak)"]
    assert kept["zip"].tolist() == ["0123", "0456"]
    assert kept["id"].tolist() == ["7", ""]
    every = read(hopular("predict", *given, "all").out)
    assert list(every.columns)[:7] == ["leaf", "id", "zip", "height", "planted", "seen", "prediction"]
    assert every["seen"].tolist() == ["true", "false"]
    wrong = hopular("predict", *given, "ids")
    assert wrong.code == 2
    assert "--keep names a column 'ids' that is not in the file. Did you mean 'id'? It has leaf, id, zip" in wrong.err


def test_a_kept_column_must_not_be_named_like_an_answer(hopular: Hopular, model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("leaf,height,planted,prediction\nbig,9,01.06.2024,elm\n")
    outcome = hopular("predict", str(model), str(tmp_path / "new.csv"), "--keep", "all")
    assert outcome.code == 2
    assert "--keep would copy a column 'prediction', and the answers have one of that name: rename it" in outcome.err


def test_rows_on_standard_input(hopular: Hopular, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    give("leaf;height;planted\nbig;9,5;01.06.2024\nsmall;0,5;\n")
    outcome = hopular("predict", str(model), "-", "--keep", "height")
    assert outcome.code == 0, outcome.err
    assert read(outcome.out)["prediction"].tolist() == ["oak", "elm"]
    assert read(outcome.out)["height"].tolist() == ["9,5", "0,5"]
    for text, message in (
        (" \n", "standard input is empty: give it CSV with a line of column names"),
        ("leaf,height,planted\n", "standard input has column names but no rows: give it a line per row"),
    ):
        give(text)
        outcome = hopular("predict", str(model), "-")
        assert outcome.code == 2
        assert message in outcome.err


def test_the_score_of_classes_is_said_if_the_target_is_there(hopular: Hopular, model: Path, tmp_path: Path) -> None:
    rows = [f"{n % 10},big,01.06.2024,{'oak' if n % 10 > 4 else 'elm'}" for n in range(30)]
    text = "\n".join(["height,leaf,planted,tree", *rows, "9,big,01.06.2024,pine", "9,big,01.06.2024,"])
    (tmp_path / "new.csv").write_text(text)
    outcome = hopular("predict", str(model), str(tmp_path / "new.csv"))
    assert outcome.code == 0, outcome.err
    assert "score over 31 rows of 32 with tree, with 95 % intervals:\n  Accuracy " in outcome.err
    predictions = read(outcome.out)["prediction"]
    right = sum(row.endswith(found) for row, found in zip(rows, predictions, strict=False)) / 31
    assert f"Accuracy                 {right:.4f}  (" in outcome.err
    assert "  Log loss " in outcome.err
    assert "classes new to the model count as wrong: pine" in outcome.err
    assert "score" not in outcome.out
    (tmp_path / "blank.csv").write_text("height,leaf,planted,tree\n9,big,01.06.2024,\n1,big,01.06.2024,\n")
    outcome = hopular("predict", str(model), str(tmp_path / "blank.csv"))
    assert outcome.code == 0, outcome.err
    assert "score" not in outcome.err


def test_the_score_of_numbers(hopular: Hopular, numbers: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("x,y\n" + "".join(f"{n},{2 * n + n % 2}\n" for n in range(0, 90, 3)))
    outcome = hopular("predict", str(numbers), str(tmp_path / "new.csv"))
    assert outcome.code == 0, outcome.err
    assert "score over 30 rows with y, with 95 % intervals:\n  Root mean squared error  0." in outcome.err
    assert "\n  R²                       0.99" in outcome.err
    (tmp_path / "odd.csv").write_text("x,y\n1,two\n2,four\n")
    outcome = hopular("predict", str(numbers), str(tmp_path / "odd.csv"))
    assert outcome.code == 0, outcome.err
    assert "no score: column 'y'" in outcome.err


def test_an_interval_adds_two_columns(hopular: Hopular, numbers: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("x\n10\n50\n")
    outcome = hopular("predict", str(numbers), str(tmp_path / "new.csv"), "--interval", "0.9")
    assert outcome.code == 0, outcome.err
    answers = pd.read_csv(io.StringIO(outcome.out))
    assert list(answers.columns) == ["prediction", "low", "high"]
    assert ((answers["low"] < answers["prediction"]) & (answers["prediction"] < answers["high"])).all()
    assert (answers["high"] - answers["low"]).between(2, 6).all()  # the noise has a standard deviation of 1


def test_an_interval_that_cannot_be_is_refused(hopular: Hopular, model: Path, numbers: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("x\n10\n")
    for folder, level, message in (
        (numbers, "90", "--interval is 90: use a number between 0 and 1, such as 0.9"),
        (numbers, "0.99", "intervals of level 0.99 need 99 rows that were held out once, and there are 60"),
        (model, "0.9", "--interval is for numbers, and the model predicts classes of 'tree': leave it out"),
    ):
        outcome = hopular("predict", str(folder), str(tmp_path / "new.csv"), "--interval", level)
        assert outcome.code == 2
        assert message in outcome.err


def test_a_model_scores_like_an_estimator(model: Path, numbers: Path) -> None:
    trees = pd.DataFrame({"height": [9.0, 8, 1], "leaf": ["big", "small", "big"], "planted": ["01.06.2024"] * 3})
    assert load_fitted(model).score(trees, ["oak", "oak", "oak"]) == pytest.approx(2 / 3)
    assert load_fitted(model).score(trees, ["oak", None, "elm"]) == 1.0
    x = pd.DataFrame({"x": [10.0, 50, 90]})
    assert load_fitted(numbers).score(x, [20, 100, 180]) > 0.99
    with pytest.raises(ValueError, match="a score needs a value of 'y' for each of 3 rows, got 2"):
        load_fitted(numbers).score(x, [20, 100])
