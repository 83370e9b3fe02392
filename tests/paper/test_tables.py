"""The paper's figures as data, and its tables with ours beside them: values, differences, what is more than noise."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.evaluation.results import Results
from hopular.evaluation.verdict import Standings
from hopular.methods import methods
from hopular.paper import tables
from hopular.paper.tables import (
    WITHOUT_METHOD,
    PaperTable,
    group_accuracies,
    published_footprint,
    published_medium_ranks,
    published_ranks,
    published_scores,
    published_sizes,
)
from tests.evaluation.benchmarks import make_results, with_architecture

JUDGED = {"medium", "small-sizes", "medium-sizes"}
RANKS = {"median-ranks", "medium-ranks"}


def small_results(methods: Sequence[str] = ("hopular", "svm", "random_forest")) -> Results:
    """Make each method better than the next one and than all published figures, on all 21 small datasets."""
    scores = {method: [1 - place / 10_000] for place, method in enumerate(methods)}
    return make_results(dict.fromkeys(published_sizes("small")["dataset"], scores), suite="small")


def our_methods() -> list[str]:
    """List our methods of the paper's rows, in the order of its ranks."""
    return list(published_ranks()["method"].dropna())


def medium_scores(datasets: Sequence[str]) -> Results:
    """Make results that are the paper's, on some of the medium datasets."""
    parts = []
    for (name, unit), table in published_scores().groupby(["dataset", "unit"]):
        if name in datasets:
            scale, task = (100, "classification") if unit == "accuracy %" else (1000, "regression")
            scores = {row["method"]: [row["paper"] / scale] for row in table.to_dict("records")}
            parts.append(make_results({name: scores}, task=task, suite="medium"))
    return replace(
        parts[0],
        scores=pd.concat([part.scores for part in parts]),
        units=tuple(unit for part in parts for unit in part.units),
        datasets=tuple(facts for part in parts for facts in part.datasets),
    )


def paper_tables(results: Results, footprint: pd.DataFrame | None = None) -> dict[str, PaperTable]:
    return {table.name: table for table in tables.paper_tables(Standings(results), footprint)}


def rank_comparison(results: Results) -> PaperTable:
    return paper_tables(results)["median-ranks"]


def medium_rank_comparison(results: Results) -> PaperTable:
    return paper_tables(results)["medium-ranks"]


def medium_comparison(results: Results) -> PaperTable:
    return paper_tables(results)["medium"]


def by_title(table: PaperTable) -> pd.DataFrame:
    return table.frame.set_index("title")


def test_all_tables_without_any_results_of_the_paper():
    found = paper_tables(make_results({"iris": {"svm": [0.9]}}))
    assert list(found) == [
        *("median-ranks", "medium-ranks", "medium", "small-sizes", "medium-sizes", "memory", "step-time")
    ]
    for table in found.values():
        assert set(table.frame.columns) >= {"paper", "ours"}, table.name
        assert not table.has_ours
        assert ("difference" in table.frame.columns) == (table.name not in RANKS)
        assert ("is_more_than_noise" in table.frame.columns) == (table.name in JUDGED)
        assert table.frame["paper"].notna().all()
        assert table.source
    assert [len(table.frame) for table in found.values()] == [29, 5, 30, 21, 6, 48, 24]


def test_no_results_at_all():
    assert not any(table.has_ours for table in paper_tables(make_results({})).values())


# ------------------------------------------------------------------------------------------------------------ the ranks


def test_a_rank_is_of_our_accuracies_or_of_published_ones_and_says_so():
    table = rank_comparison(small_results())
    frame = by_title(table)
    assert (frame["origin"] == "ours").sum() == 3
    assert (frame["origin"] == "published").sum() == 15  # of 17 groups two are ours
    assert frame.loc[["Hopular", "Support Vector Machines", "Random Forest"], "ours"].tolist() == [1.0, 2.0, 3.0]
    assert frame.loc[["Stacking (Wolpert)", "Rule-Based Methods"], "origin"].tolist() == ["published"] * 2
    assert frame.loc["Stacking (Wolpert)", ["ours", "datasets"]].tolist() == [18.0, 21]
    assert frame.loc["XGBoost", ["origin", "datasets"]].tolist() == ["", 0]
    assert "ours are ranks among 18 rows on 21 of them: 3 by our accuracies, 15 by published ones." in table.notes[0]


def test_five_equal_methods_have_no_difference_to_the_papers_ranks():
    random = np.random.default_rng(0)
    five = ("hopular", "catboost", "xgboost", "lightgbm", "glm")
    equal = {name: {m: [0.8 + random.normal(0, 0.02)] for m in five} for name in published_sizes("small")["dataset"]}
    table = rank_comparison(make_results(equal, suite="small"))
    assert not {"difference", "is_more_than_noise"} & set(table.frame.columns)
    assert "that takes 26 rows with a rank on all 21 datasets, and there are 21." in " ".join(table.notes)
    assert by_title(table)["ours"].max() <= 21  # ranks as they are, not stretched to 29 places


def test_from_26_rows_on_a_difference_is_shown_with_its_interval():
    networks = ["snn", "msra", "highway", "resnet"]
    methods = ["hopular", "npt", "xgboost", "catboost", "lightgbm", *networks]
    few, enough = rank_comparison(small_results(methods[:8])), rank_comparison(small_results(methods))
    assert "difference" not in few.frame.columns  # 17 groups and 8
    frame = by_title(enough)
    columns = ["paper", "ours", "low", "high", "difference", "is_more_than_noise", "origin"]
    assert frame.loc["Hopular", columns].tolist() == [7.5, 1.0, 1.0, 1.0, -6.5, True, "ours"]
    assert (frame["datasets"] == 21).sum() == 26
    assert frame["difference"].notna().sum() == 26


def test_all_29_rows_have_a_rank_once_all_our_methods_were_run():
    frame = by_title(rank_comparison(small_results(our_methods())))
    assert (frame["datasets"] == 21).all()
    assert frame["origin"].value_counts().to_dict() == {"ours": 26, "published": 3}


def test_a_method_that_lacks_a_dataset_has_no_difference():
    names = list(published_sizes("small")["dataset"])
    scores = {method: [0.9] for method in our_methods()}
    table = {name: {m: s for m, s in scores.items() if (m, name) != ("svm", names[0])} for name in names}
    frame = by_title(rank_comparison(make_results(table, suite="small")))
    assert math.isnan(frame.loc["Support Vector Machines", "difference"])
    assert not frame.loc["Support Vector Machines", "is_more_than_noise"]
    assert frame["difference"].notna().sum() == 28


def test_every_row_says_why_it_has_no_method_or_is_not_like_for_like():
    notes = by_title(rank_comparison(small_results()))["note"]
    nothing = {"Multivariate Adaptive Reg. Splines", "Rule-Based Methods", "Other Methods"}
    assert set(notes[notes.str.startswith("No method of ours: ")].index) == nothing
    for title in ("Stacking (Wolpert)", "Neural Networks", "Other Ensembles", "Boosting Methods", "Highway Networks"):
        assert notes[title].startswith("Theirs is "), title
    assert notes["Non-Parametric Transformers"]
    assert not notes["XGBoost"]


def test_ranks_without_doubtful_datasets():
    results = small_results()
    assert "ours_sound" not in rank_comparison(results).frame.columns
    names = list(published_sizes("small")["dataset"])
    table = {name: {"hopular": [0.999], "svm": [0.998 if i < 11 else 1.0]} for i, name in enumerate(names)}
    found = by_title(rank_comparison(make_results(table, doubtful=names[:11])))
    assert found.loc["Hopular", ["ours", "ours_sound"]].tolist() == [1.0, 2.0]


def test_methods_and_datasets_that_are_not_the_papers_do_not_count():
    results = small_results()
    other = make_results({"glass": {"majority": [0.99]}, "monks-2:repaired": {"svm": [0.99]}, "iris": {"svm": [0.1]}})
    both = replace(
        results,
        scores=pd.concat([results.scores, other.scores]),
        units=results.units + other.units,
        datasets=results.datasets + other.datasets[1:],
    )
    pd.testing.assert_frame_equal(rank_comparison(both).frame, rank_comparison(results).frame)


def test_a_failed_method_ranks_last():
    table = by_title(rank_comparison(make_results({"glass": {"svm": None, "hopular": [0.5]}})))
    assert table.loc["Support Vector Machines", "ours"] == 18.0  # behind Hopular and 16 published groups


# ------------------------------------------------------------------------------------------------------ medium datasets


def test_median_ranks_of_the_medium_suite():
    names = list(published_sizes("medium")["dataset"])
    table = medium_rank_comparison(medium_scores(names)).frame.set_index("method")
    assert table["paper"].to_dict() == {"hopular": 1.5, "npt": 4.5, "xgboost": 4.5, "catboost": 2.5, "lightgbm": 2.0}
    assert table["ours"].tolist() == table["paper"].tolist()
    assert (table["low"] <= table["ours"]).all()
    assert (table["ours"] <= table["high"]).all()
    assert (table["difference"] == 0).all()
    assert not table["is_more_than_noise"].any()


def test_ranks_of_the_medium_suite_that_cannot_be_compared():
    names = list(published_sizes("medium")["dataset"])[:5]
    part = medium_rank_comparison(medium_scores(names))
    assert "difference" not in part.frame.columns
    assert (part.frame["datasets"] == 5).all()
    assert part.notes[0].endswith("ours are ranks among 5 of them on 5 of the datasets.")
    two = {"shrutime": {"hopular": [0.8], "catboost": [0.9], "svm": [0.99]}, "iris": {"npt": [0.9]}}
    table = medium_rank_comparison(make_results(two)).frame.set_index("method")
    assert table["ours"].dropna().to_dict() == {"hopular": 2.0, "catboost": 1.0}


def test_the_two_standard_errors_are_told_apart():
    notes = " ".join(medium_comparison(medium_scores(["eye"])).notes)
    assert "over three replicates. Ours pools all splits and seeds" in notes


def test_scores_are_in_the_papers_units_and_judged_by_both_errors():
    results = make_results({"shrutime": {"hopular": [0.85, 0.86, 0.87], "catboost": [0.80, 0.81, 0.82]}}, width=0.0)
    table = medium_comparison(results).frame.set_index(["dataset", "method"])
    row = table.loc[("shrutime", "hopular")]
    error = 100 * np.std([0.85, 0.86, 0.87], ddof=1) / math.sqrt(3)
    assert (row["ours"], row["ours_error"], row["fits"]) == pytest.approx((86.0, error, 3))
    assert row["difference"] == pytest.approx(86.0 - 86.12)
    assert row["noise"] == pytest.approx(4.302652729911275 * math.hypot(0.09, error))  # t, of three values each
    assert not row["is_more_than_noise"]
    assert table.loc[("shrutime", "catboost"), "is_more_than_noise"]
    assert table["ours"].notna().sum() == 2


def test_mean_squared_errors_are_times_1000():
    results = make_results({"sulfur": {"hopular": [0.00104, 0.00106]}}, task="regression", width=0.0001)
    row = medium_comparison(results).frame.set_index(["dataset", "method"]).loc[("sulfur", "hopular")]
    assert row["ours"] == pytest.approx(1.05)
    assert not row["is_more_than_noise"]


def test_what_failed_has_no_figure_of_ours():
    table = medium_comparison(make_results({"sulfur": {"hopular": None, "npt": [0.1]}}, task="regression")).frame
    assert table.set_index(["dataset", "method"])["ours"].dropna().index.tolist() == [("sulfur", "npt")]


# ----------------------------------------------------------------------------------------------- sizes, memory and time


def test_sizes_that_differ_are_marked():
    results = make_results({"glass": {"svm": [0.9]}, "ecoli": {"svm": [0.9]}})
    facts = replace(results.datasets[0], rows=214, features=9, categorical=0)
    found = paper_tables(replace(results, datasets=(facts, results.datasets[1])))
    table = found["small-sizes"].frame.set_index("dataset")
    assert table.loc["glass", ["paper", "ours", "difference"]].tolist() == [214, 214, 0]
    assert table["is_more_than_noise"].to_dict() == {name: name == "ecoli" for name in table.index}


def test_our_footprint_stands_beside_the_papers():
    measured = pd.DataFrame(
        [
            ("sulfur", "npt", "smallest", "full", 3.0, 100.0, ""),
            ("sulfur", "npt", "largest", "full", 9.0, 300.0, ""),
            ("eye", "npt", "largest", "full", np.nan, np.nan, "more than 20.0 GiB"),
        ],
        columns=["dataset", "method", "model", "batch", "gib", "milliseconds", "failure"],
    )
    found = paper_tables(make_results({}), measured)
    memory = found["memory"].frame.set_index(["dataset", "method", "batch", "model"])
    assert memory["ours"].dropna().tolist() == [3.0, 9.0]
    assert memory.loc[("sulfur", "npt", "full", "smallest"), "difference"] == pytest.approx(3 - 35.95)
    assert memory.loc[("sulfur", "npt", "full", "largest"), "is_out_of_memory"]
    assert memory["reason"].value_counts().to_dict() == {"": 47, "more than 20.0 GiB": 1}
    step = found["step-time"].frame.set_index(["dataset", "method", "batch"])
    assert step.loc[("sulfur", "npt", "full"), ["paper", "ours"]].tolist() == [159.86, 300.0]


# ------------------------------------------------------------------------------------------------------- architectures


@pytest.mark.parametrize("compared", [rank_comparison, medium_comparison])
def test_it_is_said_which_hopular_stands_beside_the_papers(compared):
    results = small_results()

    def notes(results: Results) -> str:
        return " ".join(compared(results).notes)

    assert "Our Hopular has the paper's architecture." in notes(with_architecture(results, "paper"))
    other = notes(with_architecture(results, "released"))
    assert "Ours is Hopular (released architecture), not the paper's: a difference may be due to that." in other
    assert "was not recorded" in notes(results)
    assert "Hopular" not in " ".join(compared(make_results({"iris": {"svm": [0.9]}})).notes)


# ------------------------------------------------------------------------------------------------ the published figures


def test_29_median_ranks_and_our_methods_of_the_kind():
    table = published_ranks().set_index("title")
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
    noted = published_ranks().query("note != ''")
    told = dict(re.findall(r"^\| (.+?) \| .+? \| (.+?) \|$", text.partition("| row of the paper |")[2], re.M))
    assert {title: told.get(title) for title in noted["title"]} == dict(zip(noted["title"], noted["note"], strict=True))


def test_five_methods_on_six_medium_datasets():
    table = published_scores().set_index(["dataset", "method"])
    assert len(table) == 30
    assert table.loc[("sulfur", "hopular")].tolist() == ["MSE x 1000", 1.04, 0.02]
    assert table.loc[("eye", "xgboost")].tolist() == ["accuracy %", 57.43, 0.0]


def test_median_ranks_of_the_medium_suite_follow_from_its_scores():
    ranks = published_medium_ranks().set_index("method")["paper"]
    assert sorted(ranks) == [1.5, 2.0, 2.5, 4.5, 4.5]  # as the paper's text has them
    assert (ranks["hopular"], ranks["lightgbm"], ranks["catboost"]) == (1.5, 2.0, 2.5)


def test_sizes_of_27_datasets():
    assert (len(published_sizes("small")), len(published_sizes("medium"))) == (21, 6)
    assert published_sizes("medium").set_index("dataset").loc["eye"].tolist() == [10936, 19, 3]


def test_footprints_of_both_models():
    table = published_footprint().set_index(["dataset", "method", "batch"])
    assert len(table) == 24
    assert set(table.index.get_level_values("dataset")) == set(published_sizes("medium")["dataset"])
    row = table.loc[("colleges", "npt", "full")]
    assert row[["smallest_gib", "largest_gib", "milliseconds", "milliseconds_error"]].tolist() == [
        *(27.13, 74.56, 321.32, 0.25)
    ]
    assert table["is_out_of_memory"].sum() == 3
    assert (table["smallest_gib"] <= table["largest_gib"]).all()


def test_published_accuracies_of_17_groups_on_21_datasets():
    table = group_accuracies()
    assert set(table["dataset"]) == set(published_sizes("small")["dataset"])
    groups = set(table["group"])
    assert len(groups) == 17
    assert groups < set(published_ranks()["title"])
    assert len(table) == 17 * 21 == len(table.drop_duplicates(["dataset", "group"]))
    assert table["accuracy"].between(0, 1).all()
    row = table.set_index(["dataset", "group"]).loc[("blood-transfusion", "Decision Trees")]
    assert row.tolist() == ["rpart2_caret", 0.793]


def test_the_file_of_published_accuracies_names_its_source():
    text = resources.files("hopular.paper").joinpath("uci_method_groups.csv").read_text(encoding="utf-8")
    assert "Fernandez-Delgado et al. 2014" in text.splitlines()[0]
