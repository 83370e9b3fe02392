"""`hopular predict`: a row for every row, and a clear word where that cannot be."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from hopular.automl import fit_table
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
