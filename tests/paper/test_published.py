"""The paper's figures, and those of others that it ranks, as data."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from hopular.methods import methods
from hopular.paper.published import (
    WITHOUT_METHOD,
    footprint,
    group_accuracies,
    median_ranks,
    medium_ranks,
    medium_results,
    sizes,
)


def test_29_median_ranks_and_our_methods_of_the_kind():
    table = median_ranks().set_index("title")
    assert len(table) == 29
    assert table.loc["Hopular", "paper"] == 7.5 == table["paper"].min()
    assert table.loc["Stacking (Wolpert)", "paper"] == 28.0
    assert table.loc["Support Vector Machines", "method"] == "svm"
    assert table.loc["Highway Networks", "method"] == "highway"
    assert set(table.index[table["method"].isna()]) == set(WITHOUT_METHOD)
    assert len(WITHOUT_METHOD) == 3
    assert set(table["method"].dropna()) == {name for name, method in methods().items() if method.paper_name}


def test_the_documentation_lists_rows_without_a_method_and_those_not_like_for_like():
    text = (Path(__file__).parents[2] / "docs" / "howto" / "reproduce-the-paper.md").read_text(encoding="utf-8")
    noted = median_ranks().query("note != ''")
    told = dict(re.findall(r"^\| (.+?) \| .+? \| (.+?) \|$", text.partition("| row of the paper |")[2], re.M))
    assert {title: told.get(title) for title in noted["title"]} == dict(zip(noted["title"], noted["note"], strict=True))


def test_five_methods_on_six_medium_datasets():
    table = medium_results().set_index(["dataset", "method"])
    assert len(table) == 30
    assert table.loc[("sulfur", "hopular")].tolist() == ["MSE x 1000", 1.04, 0.02]
    assert table.loc[("eye", "xgboost")].tolist() == ["accuracy %", 57.43, 0.0]


def test_median_ranks_of_the_medium_suite_follow_from_its_scores():
    ranks = medium_ranks().set_index("method")["paper"]
    assert sorted(ranks) == [1.5, 2.0, 2.5, 4.5, 4.5]  # as the paper's text has them
    assert (ranks["hopular"], ranks["lightgbm"], ranks["catboost"]) == (1.5, 2.0, 2.5)


def test_sizes_of_27_datasets():
    assert (len(sizes("small")), len(sizes("medium"))) == (21, 6)
    assert sizes("medium").set_index("dataset").loc["eye"].tolist() == [10936, 19, 3]


def test_footprints_of_both_models():
    table = footprint().set_index(["dataset", "method", "batch"])
    assert len(table) == 24
    assert set(table.index.get_level_values("dataset")) == set(sizes("medium")["dataset"])
    row = table.loc[("colleges", "npt", "full")]
    assert row[["smallest_gib", "largest_gib", "milliseconds", "milliseconds_error"]].tolist() == [
        *(27.13, 74.56, 321.32, 0.25)
    ]
    assert table["is_out_of_memory"].sum() == 3
    assert (table["smallest_gib"] <= table["largest_gib"]).all()


def test_published_accuracies_of_17_groups_on_21_datasets():
    table = group_accuracies()
    assert set(table["dataset"]) == set(sizes("small")["dataset"])
    groups = set(table["group"])
    assert len(groups) == 17
    assert groups < set(median_ranks()["title"])
    assert len(table) == 17 * 21 == len(table.drop_duplicates(["dataset", "group"]))
    assert table["accuracy"].between(0, 1).all()
    row = table.set_index(["dataset", "group"]).loc[("blood-transfusion", "Decision Trees")]
    assert row.tolist() == ["rpart2_caret", 0.793]


def test_the_file_of_published_accuracies_names_its_source():
    text = resources.files("hopular.paper").joinpath("uci_method_groups.csv").read_text(encoding="utf-8")
    assert "Fernandez-Delgado et al. 2014" in text.splitlines()[0]
