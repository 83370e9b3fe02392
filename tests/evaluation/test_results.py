"""Results: what is written can be read again, and what cannot be read is named."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from hopular.evaluation.compare import merge
from hopular.evaluation.results import FACTS_FILE, SCORES_FILE, Maker, MethodFacts, Results, UnitResult, title
from tests.evaluation.benchmarks import make_results, with_architecture


def test_saved_results_come_back_as_they_were(tmp_path: Path):
    results = make_results(
        {"NA": {"x": [0.1 + 0.2, math.nan]}, "007": {"<b>": [1e-300]}}, doubtful=["NA"], width=math.nan
    )
    unit = UnitResult(
        "NA",
        "0",
        "y",
        "failed",
        "error: naïve",
        {"depth": 3},
        chosen_by="log_loss",
        valid_score=-0.5,
        valid_metrics={"log_loss": 0.5},
        curve=((10, 0.25), (20, 0.5)),
        trials={"complete": 2},
        maker=Maker("abc (changed)", "123", {"torch": "2.1"}, "cuda", "2026-05-12T10:00:00+00:00"),
    )
    results = replace(
        results, units=(*results.units, unit), settings={"seed": 1}, provenance={"python": "3.11"}, command="run it"
    )
    results.save(tmp_path / "new")
    found = Results.load(tmp_path / "new")
    pd.testing.assert_frame_equal(found.scores, results.scores, check_exact=True)
    assert (found.datasets, found.units) == (results.datasets, results.units)
    assert (found.settings, found.provenance, found.command) == (results.settings, results.provenance, "run it")
    assert [facts.is_doubtful for facts in found.datasets] == [True, False]


def made(*makers: Maker | None) -> Results:
    """Make results with a unit by each maker."""
    units = tuple(UnitResult("d", str(place), "x", "complete", maker=maker) for place, maker in enumerate(makers))
    results = make_results({"d": {"x": [0.5]}})
    return replace(results, units=units, provenance={"commit": "of the report", "machine": "two cores"})


def test_results_say_what_their_units_were_made_with():
    one = Maker("abc", "1", {"python": "3.11", "torch": "2.1"}, "cpu")
    assert made(one, one).made_with == {
        **{"commit": "abc", "versions": "python 3.11, torch 2.1", "device": "cpu", "machine": "two cores"}
    }
    other = Maker("def (changed)", "2", {"python": "3.11", "torch": "2.2", "catboost": "1.2"}, "cuda")
    assert made(one, one, other).made_with == {
        "commit": "abc (2 units) and def (changed) (1 unit)",
        "versions": "python 3.11, torch 2.1 (2 units) and 2.2 (1 unit), catboost 1.2",
        "device": "cpu (2 units) and cuda (1 unit)",
        "machine": "two cores",
    }


def test_units_of_which_no_maker_is_known_are_counted_as_such():
    assert made(None, None).made_with == {"commit": "of the report", "machine": "two cores"}
    assert made(None, Maker("abc")).made_with["commit"] == "not recorded (1 unit) and abc (1 unit)"
    assert made(Maker()).made_with["commit"] == "not in a git checkout"


def test_results_of_before_makers_were_noted_can_be_read(tmp_path: Path):
    made(Maker("abc"), None).save(tmp_path)
    values = json.loads((tmp_path / FACTS_FILE).read_text())
    for unit in values["units"]:
        del unit["maker"]
    (tmp_path / FACTS_FILE).write_text(json.dumps(values))
    found = Results.load(tmp_path)
    assert [unit.maker for unit in found.units] == [None, None]
    assert found.made_with["commit"] == "of the report"


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
    parts = {"architecture": "default", "embedding": "sum", "values": "tied"}
    assert title("hopular", parts) == "Hopular (paper architecture)"
    assert title("hopular", {"architecture": "paper", "summary": "joint"}) == "Hopular (sum, tied, joint architecture)"
    assert title("hopular", {"architecture": "of a later version"}) == "Hopular (of a later version architecture)"
    assert title("npt", {"architecture": "paper"}) == "Non-Parametric Transformers"


def test_results_remember_titles_and_groups_of_methods_that_are_no_longer_installed(tmp_path: Path):
    results = make_results({"d": {"mine": [0.9], "knn": [0.8]}})
    assert results.group("mine") == "other"
    replace(results, methods={"mine": MethodFacts("My own", "boosting")}).save(tmp_path)
    again = Results.load(tmp_path)
    assert (again.title("mine"), again.group("mine")) == ("My own", "boosting")
    assert (again.title("knn"), again.group("knn")) == ("Nearest neighbours", "classical")
    merged = merge([results, replace(again, created="2027-01-01")])
    assert merged.title("mine") == "My own"
