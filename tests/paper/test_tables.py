"""The paper's tables with ours beside them: values, differences, and what is more than noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hopular.evaluation.results import Results
from hopular.paper.published import PaperTable, median_ranks, sizes
from hopular.paper.tables import medium_comparison, memory_comparison, paper_tables, rank_comparison, time_comparison
from tests.evaluation.benchmarks import make_results

COMMON = {"paper", "ours", "difference"}
JUDGED = {"medium", "small-sizes", "medium-sizes"}


def small_results() -> Results:
    """Hopular first, SVM second, forest third on each of the 21 small datasets."""
    order = {"hopular": 0.9, "svm": 0.8, "random_forest": 0.7}
    names = sizes("small")["dataset"]
    return make_results({name: {method: [value] for method, value in order.items()} for name in names}, suite="small")


def published() -> pd.DataFrame:
    """Two groups, one of which is ours as well, on all small datasets."""
    groups = {"Decision Trees": 0.85, "Support Vector Machines": 0.5}
    rows = [(name, group, "m", value) for name in sizes("small")["dataset"] for group, value in groups.items()]
    return pd.DataFrame(rows, columns=["dataset", "group", "method", "accuracy"])


def by_title(table: PaperTable) -> pd.DataFrame:
    return table.frame.set_index("title")


def test_all_tables_without_any_results_of_the_paper():
    tables = paper_tables(make_results({"iris": {"svm": [0.9]}}))
    assert [table.name for table in tables] == [
        *("median-ranks", "medium", "small-sizes", "medium-sizes", "memory", "step-time")
    ]
    for table in tables:
        assert set(table.frame.columns) >= COMMON, table.name
        assert not table.has_ours
        assert table.frame["difference"].isna().all()
        assert ("is_more_than_noise" in table.frame.columns) == (table.name in JUDGED)
        assert table.frame["paper"].notna().all()
        assert table.source
    assert [len(table.frame) for table in tables] == [29, 30, 21, 6, 48, 24]


def test_no_results_at_all():
    assert not any(table.has_ours for table in paper_tables(make_results({})))


# ------------------------------------------------------------------------------------------------------------ the ranks


def test_our_ranks_are_stretched_to_the_papers_places():
    table = by_title(rank_comparison(small_results()))
    assert table["rank"].dropna().to_dict() == {"Hopular": 1.0, "Support Vector Machines": 2.0, "Random Forest": 3.0}
    assert table["ours"].dropna().to_dict() == {"Hopular": 1.0, "Support Vector Machines": 15.0, "Random Forest": 29.0}
    assert table.loc["Hopular", "difference"] == -6.5
    assert "is_more_than_noise" not in table.columns  # the best of 3 need not be the best of 29
    assert table.loc["Hopular", "datasets"] == 21
    assert (table["origin"] == "measured").sum() == 3


def groups_in_order(left_out: int) -> pd.DataFrame:
    """Published figures of all of the paper's methods but the last ones, each better than the next on all datasets."""
    rows = [
        (name, title, "m", 0.9 - place / 100)
        for name in sizes("small")["dataset"]
        for place, title in enumerate(median_ranks()["title"][: 29 - left_out])
    ]
    return pd.DataFrame(rows, columns=["dataset", "group", "method", "accuracy"])


def test_differences_are_judged_if_nearly_all_methods_are_ranked_on_all_datasets():
    results = small_results()
    table = by_title(rank_comparison(results, groups_in_order(0)))
    assert table.loc["Hopular", ["rank", "ours", "paper", "is_more_than_noise"]].tolist() == [1.0, 1.0, 7.5, True]
    assert (table["datasets"] == 21).all()
    fewer = rank_comparison(results, groups_in_order(5))
    assert "is_more_than_noise" not in fewer.frame.columns
    assert "Differences are not judged: that takes at least 26 of the methods on all 21 datasets." in fewer.notes


def test_ranks_without_doubtful_datasets():
    results = small_results()
    assert "ours_sound" not in rank_comparison(results).frame.columns
    names = list(sizes("small")["dataset"])
    table = {name: {"hopular": [0.9], "svm": [0.5 if i < 11 else 0.95]} for i, name in enumerate(names)}
    found = by_title(rank_comparison(make_results(table, doubtful=names[:11])))
    assert found.loc["Hopular", ["ours", "ours_sound"]].tolist() == [1.0, 29.0]


def test_published_figures_take_the_place_of_what_we_did_not_run():
    table = by_title(rank_comparison(small_results(), published()))
    assert table["origin"].replace("", None).dropna().to_dict() == {
        "Hopular": "measured",
        "Support Vector Machines": "measured",
        "Random Forest": "measured",
        "Decision Trees": "published",
    }
    assert table.loc[["Hopular", "Decision Trees", "Support Vector Machines"], "rank"].tolist() == [1.0, 2.0, 3.0]


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


def test_one_method_alone_has_no_stretched_rank():
    table = by_title(rank_comparison(make_results({"glass": {"svm": [0.9]}})))
    assert table.loc["Support Vector Machines", "rank"] == 1.0
    assert math.isnan(table.loc["Support Vector Machines", "ours"])


def test_a_failed_method_ranks_last():
    table = by_title(rank_comparison(make_results({"glass": {"svm": None, "hopular": [0.5]}})))
    assert table.loc["Support Vector Machines", "rank"] == 2.0


# ------------------------------------------------------------------------------------------------------ medium datasets


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
    table = paper_tables(replace(results, datasets=(facts, results.datasets[1])))[2].frame.set_index("dataset")
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
    memory = memory_comparison(measured).frame.set_index(["dataset", "method", "batch", "model"])
    assert memory["ours"].dropna().tolist() == [3.0, 9.0]
    assert memory.loc[("sulfur", "npt", "full", "smallest"), "difference"] == pytest.approx(3 - 35.95)
    assert memory.loc[("sulfur", "npt", "full", "largest"), "is_out_of_memory"]
    assert memory["reason"].value_counts().to_dict() == {"": 47, "more than 20.0 GiB": 1}
    step = time_comparison(measured).frame.set_index(["dataset", "method", "batch"])
    assert step.loc[("sulfur", "npt", "full"), ["paper", "ours"]].tolist() == [159.86, 300.0]
