"""Results: what is written can be read again, and what cannot be read is named."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from hopular.evaluation.results import FACTS_FILE, SCORES_FILE, Results, Unit, title
from tests.evaluation.benchmarks import make_results, with_architecture


def test_saved_results_come_back_as_they_were(tmp_path: Path):
    results = make_results(
        {"NA": {"x": [0.1 + 0.2, math.nan]}, "007": {"<b>": [1e-300]}}, doubtful=["NA"], width=math.nan
    )
    unit = Unit("NA", "0", "y", "failed", "error: naïve", {"depth": 3}, 0.5, ((10, 0.25), (20, 0.5)), {"complete": 2})
    results = replace(
        results, units=(*results.units, unit), settings={"seed": 1}, provenance={"python": "3.11"}, command="run it"
    )
    results.save(tmp_path / "new")
    found = Results.load(tmp_path / "new")
    pd.testing.assert_frame_equal(found.scores, results.scores, check_exact=True)
    assert (found.datasets, found.units) == (results.datasets, results.units)
    assert (found.settings, found.provenance, found.command) == (results.settings, results.provenance, "run it")
    assert [facts.is_doubtful for facts in found.datasets] == [True, False]


def test_a_table_without_a_column_is_refused():
    results = make_results({"d": {"x": [0.5]}})
    with pytest.raises(ValueError, match="the table of scores lacks seed, seconds: its columns are"):
        replace(results, scores=results.scores.drop(columns=["seed", "seconds"]))


@pytest.mark.parametrize("damage", ["missing", "cut", "version", "field", "scores"])
def test_damaged_results_name_their_folder(tmp_path: Path, damage: str):
    make_results({"d": {"x": [0.5]}}).save(tmp_path)
    file = tmp_path / FACTS_FILE
    values = json.loads(file.read_text())
    match damage:
        case "missing":
            file.unlink()
        case "cut":
            file.write_text(file.read_text()[:-20])
        case "version":
            file.write_text(json.dumps({**values, "format": 99}))
        case "field":
            del values["datasets"][0]["task"]
            file.write_text(json.dumps(values))
        case "scores":
            (tmp_path / SCORES_FILE).write_text("dataset\nd\n")
    with pytest.raises(ValueError, match=r"the results in '.*' cannot be read \(.+\): run the benchmark again"):
        Results.load(tmp_path)


# --------------------------------------------------------------------------------------------------------------- titles


def test_a_title_says_which_architecture_hopular_has():
    results = make_results({"a": {"hopular": [0.9], "knn": [0.8]}, "b": {"hopular": [0.9], "knn": [0.8]}})
    assert results.title("hopular") == "Hopular"  # it was not recorded
    assert with_architecture(results, "paper").title("hopular") == "Hopular (paper architecture)"
    both = with_architecture(results, "released", "default")
    assert both.title("hopular") == "Hopular (default and released architectures)"
    assert both.title("knn") == "Nearest neighbours"
    assert both.title("a plug-in that is gone") == "a plug-in that is gone"


def test_a_title_names_what_was_run_and_not_what_was_asked_for():
    assert title("hopular", {"architecture": "default", "values": "tied"}) == "Hopular (paper architecture)"
    assert title("hopular", {"architecture": "paper", "summary": "joint"}) == "Hopular (sum, tied, joint architecture)"
    assert title("hopular", {"architecture": "of a later version"}) == "Hopular (of a later version architecture)"
    assert title("npt", {"architecture": "paper"}) == "Non-Parametric Transformers"
