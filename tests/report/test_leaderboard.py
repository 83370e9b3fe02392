"""The leaderboard and its renderings."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from hopular.evaluation.results import Results
from hopular.evaluation.scores import summarise_ranks
from hopular.evaluation.verdict import Standings
from hopular.report.leaderboard import (
    COLUMNS,
    shown_columns,
    to_csv,
    to_latex,
    to_markdown,
    to_rich,
)
from tests.report.synthetic import make_results


@pytest.fixture(scope="module")
def results() -> Results:
    return make_results(5, failed=((1, "xgboost"),), doubtful=(2,), regression=(3,))


@pytest.fixture(scope="module")
def board(results: Results) -> pd.DataFrame:
    return Standings(results).table


def test_methods_are_in_order_of_their_mean_rank(results: Results, board: pd.DataFrame) -> None:
    expected = summarise_ranks(Standings(results).ranks)
    assert list(board["method"]) == list(expected.index)
    np.testing.assert_array_equal(board["mean_rank"], expected["mean"])
    assert board["place"].iloc[0] == 1
    assert {column.name for column in COLUMNS} <= set(board.columns)


def test_a_method_that_ran_on_fewer_datasets_has_no_place() -> None:
    results = make_results(3, ("catboost", "hopular", "logistic"), regression=(0, 1))
    units = [unit for unit in results.units if unit.method == "logistic"]
    best = results.scores["method"].eq("logistic") & results.scores["metric"].eq("accuracy")
    results.scores.loc[best, "value"] = 1.0
    board = Standings(results).table
    assert {unit.dataset for unit in units} == {"dataset-3"}
    assert board["mean_rank"].idxmin() == len(board) - 1  # it won where it ran, and yet comes last
    assert list(board["method"])[-1] == "logistic"
    assert list(board["place"].isna()) == [False, False, True]


def test_methods_that_share_no_datasets_have_no_places() -> None:
    results = make_results(2, ("catboost", "hopular"))
    apart = {("dataset-1", "catboost"), ("dataset-2", "hopular")}
    scores = results.scores[pd.MultiIndex.from_frame(results.scores[["dataset", "method"]]).isin(apart)]
    units = tuple(unit for unit in results.units if (unit.dataset, unit.method) in apart)
    board = Standings(Results("id", "", scores, results.datasets, units)).table
    assert list(board["datasets"]) == [1, 1]
    assert board["place"].isna().all()


def test_failures_are_counted_and_rank_last(results: Results, board: pd.DataFrame) -> None:
    assert dict(zip(board["method"], board["failed"], strict=True))["xgboost"] == 1
    assert board["failed"].sum() == 1
    ranks = Standings(results).ranks.loc["dataset-2"]
    assert ranks["xgboost"] == ranks.max()


def test_ranks_without_doubtful_datasets(results: Results, board: pd.DataFrame) -> None:
    sound = Standings(results).ranks.drop(index="dataset-3").mean(axis=0)
    found = board.set_index("method")["sound_rank"]
    np.testing.assert_allclose(found, sound[found.index])
    medians = Standings(results).ranks.drop(index="dataset-3").median(axis=0)
    np.testing.assert_allclose(board.set_index("method")["sound_median"], medians[found.index])
    assert {"sound_rank", "sound_median"} <= {column.name for column in shown_columns(board)}


def test_the_median_rank_has_its_interval_behind_it(results: Results, board: pd.DataFrame) -> None:
    row = summarise_ranks(Standings(results).ranks).iloc[0]
    expected = f"{row['median']:.2f} ({row['median_low']:.3g}–{row['median_high']:.3g})"
    assert expected in to_markdown(board).splitlines()[2]


def test_columns_that_say_nothing_are_not_shown() -> None:
    names = {column.name for column in shown_columns(Standings(make_results(3)).table)}
    assert names.isdisjoint({"failed", "sound_rank", "sound_median", "datasets"})


def test_a_method_that_is_not_installed_keeps_its_name() -> None:
    results = make_results(2, ("catboost", "hopular"))
    results.scores["method"] = results.scores["method"].replace("catboost", "my_own")
    board = Standings(Results("id", "", results.scores, results.datasets, ())).table.set_index("method")
    assert board.loc["my_own", "title"] == "my_own"
    assert board.loc["my_own", "group"] == "other"


def test_the_terminal_shows_every_method_on_one_line(board: pd.DataFrame) -> None:
    console = Console(width=150, file=io.StringIO())
    console.print(to_rich(board, "On 5 datasets", 150))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].strip() == "On 5 datasets"
    assert len(lines) == 2 + len(board)
    assert "Random forest" in " ".join(lines)


@pytest.mark.parametrize("width", [80, 100, 120, 150])
def test_a_narrow_terminal_has_fewer_columns_rather_than_cut_ones(board: pd.DataFrame, width: int) -> None:
    console = Console(width=width, file=io.StringIO())
    console.print(to_rich(board, "On 5 datasets", width))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert ("Median rank" in text) == (width >= 120)
    assert all(heading in text for heading in ("#", "Mean rank", "Failed", "Training"))


def test_names_are_no_markup_in_the_terminal(board: pd.DataFrame) -> None:
    console = Console(width=150, file=io.StringIO())
    console.print(to_rich(board.assign(title="[bold]x[/bold]"), "title", 150))
    assert "[bold]x[/bold]" in console.file.getvalue()  # type: ignore[attr-defined]


def test_markdown_has_a_row_per_method_and_escapes_names(board: pd.DataFrame) -> None:
    lines = to_markdown(board.assign(title="a|b_c <i>*x*")).splitlines()
    assert len(lines) == 2 + len(board)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {1 + len(shown_columns(board))}
    assert r"a\|b\_c &lt;i>\*x\*" in lines[2]


def test_csv_keeps_full_precision_and_can_be_read_again(board: pd.DataFrame) -> None:
    texts = ["method", "title", "group"]
    numbers = {name: [""] for name in board.columns if name not in texts}
    written = io.StringIO(to_csv(board.assign(title="NA")))
    again = pd.read_csv(written, dtype=dict.fromkeys(texts, str), keep_default_na=False, na_values=numbers)
    pd.testing.assert_frame_equal(again, board.assign(title="NA"), check_dtype=False, rtol=1e-15)


def test_latex_is_a_booktabs_table_with_escaped_names(board: pd.DataFrame) -> None:
    lines = to_latex(board.assign(title="50 % of_x & {y}")).splitlines()
    assert lines[1] == r"\toprule"
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert r"50 \% of\_x \& \{y\}" in lines[4]
    assert all(line.endswith(r" \\") for line in lines[4:-2])
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines[4:-2]} == {len(shown_columns(board)) - 1}


def test_latex_escapes_are_not_escaped_again(board: pd.DataFrame) -> None:
    written = to_latex(board.assign(title=r"\a~b^c"))
    assert r"\textbackslash{}a\textasciitilde{}b\textasciicircum{}c" in written


def test_the_order_of_rows_changes_nothing(results: Results, board: pd.DataFrame) -> None:
    shuffled = results.scores.sample(frac=1, random_state=1)
    again = Standings(Results("id", "", shuffled, results.datasets[::-1], results.units[::-1])).table
    pd.testing.assert_frame_equal(again, board)
