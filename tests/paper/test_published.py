"""The paper's figures as data, and published figures per dataset merged into ours."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hopular.evaluation.ranks import rank_table
from hopular.paper.published import footprint, median_ranks, medium_results, sizes, with_published


def published(**changes: object) -> pd.DataFrame:
    rows = [
        ("glass_identification", "Decision Trees", "tree", 0.6),
        ("glass_identification", "Random Forest", "forest", 0.8),
        ("ecoli", "Decision Trees", "tree", 0.7),
        ("ecoli", "Random Forest", "forest", 0.9),
        ("monks_2", "Random Forest", "forest", 0.9),
    ]
    return pd.DataFrame(rows, columns=["dataset", "group", "method", "accuracy"]).assign(**changes)


def test_29_median_ranks_and_our_methods_of_the_kind():
    table = median_ranks().set_index("title")
    assert len(table) == 29
    assert table.loc["Hopular", "paper"] == 7.5 == table["paper"].min()
    assert table.loc["Stacking (Wolpert)", "paper"] == 28.0
    assert table.loc["Support Vector Machines", "method"] == "svm"
    assert pd.isna(table.loc["Highway Networks", "method"])


def test_five_methods_on_six_medium_datasets():
    table = medium_results().set_index(["dataset", "method"])
    assert len(table) == 30
    assert table.loc[("sulfur", "hopular")].tolist() == ["MSE x 1000", 1.04, 0.02]
    assert table.loc[("eye", "xgboost")].tolist() == ["accuracy %", 57.43, 0.0]


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


def test_published_figures_are_labelled_and_ranked_with_ours():
    matrix = pd.DataFrame({"svm": [0.7, 0.95, 0.1]}, index=["glass", "ecoli", "iris"])
    merged = with_published(matrix, published())
    assert list(merged.columns) == ["svm", "Decision Trees (published)", "Random Forest (published)"]
    assert merged.loc["glass"].tolist() == [0.7, 0.6, 0.8]
    assert list(merged.index) == ["glass", "ecoli"]  # for iris there are no published figures
    ranks = rank_table(merged, pd.Series(True, index=merged.index))
    assert ranks.loc["glass"].tolist() == [2.0, 3.0, 1.0]


def test_only_datasets_with_figures_of_all_groups_are_kept():
    matrix = pd.DataFrame({"svm": [0.7, 0.5]}, index=["glass", "monks-2"])
    assert list(with_published(matrix, published()).index) == ["glass"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (published().drop(columns="accuracy"), "lack accuracy: their columns must be dataset, group, method, accuracy"),
        (published(accuracy=80.0), "Decision Trees on glass_identification is 80.0: give shares from 0 to 1"),
        (published(accuracy=np.nan), "Decision Trees on glass_identification is nan"),
        (pd.concat([published(), published()]), "several published figures of Decision Trees on glass: keep one"),
        (published(dataset=list("abcde")), "none of the datasets has figures of all published groups"),
    ],
)
def test_unusable_published_figures_are_refused(table: pd.DataFrame, message: str):
    with pytest.raises(ValueError, match=message):
        with_published(pd.DataFrame({"svm": [0.7]}, index=["glass"]), table)
