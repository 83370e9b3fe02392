"""Tests of significance against Demsar's worked example and SciPy."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hopular.evaluation.scores import rank_table
from hopular.evaluation.significance import (
    ALPHA,
    bayesian_signed_rank,
    cliques,
    complete,
    critical_difference,
    friedman,
    pairwise,
    signed_rank,
    wilcoxon_holm,
)

# Demsar (2006), Table 6: AUC of four variants of C4.5 on 14 datasets. It prints 0.975 twice for voting but ranks these
# second and third, so one of them is 0.9751 here.
DEMSAR = pd.DataFrame(
    {
        "C4.5": [0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.0, 0.940, 0.619, 0.972, 0.957],
        "C4.5+m": [0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.0, 0.962, 0.666, 0.981, 0.978],
        "C4.5+cf": [0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.0, 0.965, 0.614, 0.9751, 0.946],
        "C4.5+m+cf": [0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.0, 0.962, 0.669, 0.975, 0.970],
    },
    index=["adult", "bc", "bcw", "cmc", "ion", "iris", "liver", "lung", "lym", "mush", "pt", "rheum", "vote", "wine"],
)
HIGHER = pd.Series(True, index=DEMSAR.index)
RANKS = rank_table(DEMSAR, HIGHER)


def random_matrix(n: int, k: int, seed: int = 0, digits: int = 15) -> tuple[pd.DataFrame, pd.Series]:
    values = np.random.default_rng(seed).random((n, k)).round(digits)
    matrix = pd.DataFrame(values, index=[f"d{i}" for i in range(n)], columns=[f"m{i}" for i in range(k)])
    return matrix, pd.Series(True, index=matrix.index)


# ---------------------------------------------------------------------------------------------- Demsar's worked example


def test_mean_ranks_of_the_worked_example():
    assert RANKS.mean().round(3).tolist() == [3.143, 2.0, 2.893, 1.964]


def test_friedman_of_the_worked_example():
    found = friedman(RANKS)
    assert (found.n_methods, found.n_datasets) == (4, 14)
    mean = RANKS.to_numpy().mean(axis=0)
    uncorrected = 12 * 14 / 20 * ((mean**2).sum() - 4 * 25 / 4)
    assert uncorrected == pytest.approx(9.28, abs=0.005)  # as Demsar has it, who does not correct for ties
    ties = 3 * (2**3 - 2) + (4**3 - 4)  # two methods tie on iris, lung and pt, all four on mush
    by_hand = uncorrected / (1 - ties / (14 * 4 * (4**2 - 1)))
    assert found.statistic == pytest.approx(by_hand, abs=1e-9)
    assert found.f == pytest.approx(13 * by_hand / (14 * 3 - by_hand), abs=1e-9)
    assert found.p_value == pytest.approx(stats.f.sf(found.f, 3, 39), abs=1e-9)


def test_critical_differences_of_the_worked_example():
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_wilcoxon_of_the_worked_example():
    gain = (DEMSAR["C4.5+m"] - DEMSAR["C4.5"]).round(3).to_numpy()
    statistic, p_value, sign = signed_rank(gain)
    assert (statistic, sign) == (12.0, 1)  # R+ = 93, R- = 12
    assert p_value < 0.05


def test_cliques_of_the_worked_example():
    mean = RANKS.mean()
    assert cliques(mean, critical_difference(4, 14)) == [("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")]
    assert cliques(mean, 1.12) == [("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5")]


# ------------------------------------------------------------------------------------- against independent computations


@pytest.mark.parametrize("digits", [15, 1])  # without ties and with
def test_friedman_agrees_with_scipy(digits: int):
    matrix, higher = random_matrix(12, 5, digits=digits)
    found = friedman(rank_table(matrix, higher))
    expected = stats.friedmanchisquare(*matrix.to_numpy().T)
    assert found.statistic == pytest.approx(expected.statistic, abs=1e-9)


def test_a_critical_difference_has_the_p_value_alpha():
    difference = critical_difference(5, 15)
    p_value = stats.studentized_range.sf(difference * math.sqrt(6 * 15 / (5 * 6)) * math.sqrt(2), 5, np.inf)
    assert p_value == pytest.approx(ALPHA, abs=1e-9)


def test_wilcoxon_agrees_with_scipy_and_holm_with_its_definition():
    matrix, higher = random_matrix(20, 4)
    table = wilcoxon_holm(matrix, higher)
    for row in table.itertuples():
        expected = stats.wilcoxon(matrix[row.a], matrix[row.b])
        assert (row.statistic, row.p_value) == pytest.approx((expected.statistic, expected.pvalue), abs=1e-9)
        assert row.datasets == 20
    ordered = np.sort(table["p_value"])  # the smallest times their number, the next times one less, never decreasing
    expected = np.minimum(1, np.maximum.accumulate(ordered * np.arange(len(ordered), 0, -1)))
    np.testing.assert_allclose(np.sort(table["adjusted"]), expected, atol=1e-12)


@pytest.mark.parametrize("digits", [15, 1])  # without ties and with
@pytest.mark.parametrize("n", [5, 11])
def test_wilcoxons_p_value_agrees_with_scipys_exact_one(n: int, digits: int):
    gain = (np.random.default_rng(n).random(n) - 0.3).round(digits)
    exact = stats.PermutationMethod(n_resamples=np.inf)
    expected = stats.wilcoxon(gain, zero_method="zsplit", method=exact if digits == 1 else "exact")
    assert signed_rank(gain)[:2] == pytest.approx((expected.statistic, expected.pvalue), abs=1e-9)


def test_wilcoxon_of_many_datasets_agrees_with_scipy():
    gain = (np.random.default_rng(0).random(80) - 0.4).round(1)
    expected = stats.wilcoxon(gain, zero_method="zsplit")
    assert signed_rank(gain)[:2] == pytest.approx((expected.statistic, expected.pvalue), abs=1e-9)


def test_losses_are_compared_relative_to_their_size():
    matrix = pd.DataFrame({"a": [1.0, 1000.0, 5.0], "b": [2.0, 1100.0, 4.0]}, index=["x", "y", "z"])
    table = wilcoxon_holm(matrix, pd.Series(False, index=matrix.index))
    expected = stats.wilcoxon([1 / 2, 100 / 1100, -1 / 5])
    assert (table.loc[0, "statistic"], table.loc[0, "p_value"]) == (expected.statistic, expected.pvalue)
    assert table.loc[0, "better"] == "a"


def test_a_failure_is_the_largest_difference_against_a_method():
    matrix, higher = random_matrix(8, 2)
    matrix.iloc[0, 1] = np.nan
    filled = matrix.copy()
    filled.iloc[0, 1] = -100.0
    assert wilcoxon_holm(matrix, higher)["p_value"][0] == wilcoxon_holm(filled, higher)["p_value"][0]
    assert pairwise(matrix, higher)["wins"].sum() == 8


# ---------------------------------------------------------------------------------------------------- pairs and cliques


def test_pairwise_of_the_worked_example():
    table = pairwise(DEMSAR, HIGHER).set_index(["a", "b"])
    assert table.loc[("C4.5+m", "C4.5")].tolist() == [10, 2, 2]
    assert table.loc[("C4.5", "C4.5+m")].tolist() == [2, 2, 10]
    assert len(table) == 12


def test_pairs_count_the_datasets_that_both_were_run_on():
    matrix, higher = random_matrix(5, 2)
    matrix.iloc[0, 0] = np.nan
    table = pairwise(matrix, higher, missing=matrix.isna())
    assert (table[["wins", "ties", "losses"]].sum(axis=1) == 4).all()
    assert wilcoxon_holm(matrix, higher, missing=matrix.isna())["datasets"].tolist() == [4]


def test_cliques_are_as_large_as_can_be_and_no_single_method_is_one():
    mean = pd.Series({"a": 1.0, "b": 1.5, "c": 2.4, "d": 5.0})
    assert cliques(mean, 1.0) == [("a", "b"), ("b", "c")]
    assert cliques(mean, 10.0) == [("a", "b", "c", "d")]
    assert cliques(mean, 0.1) == []


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_the_order_of_datasets_and_methods_changes_nothing(data: st.DataObject):
    matrix, higher = random_matrix(7, 4, seed=data.draw(st.integers(0, 100)), digits=1)
    rows, columns = (data.draw(st.permutations(list(names))) for names in (matrix.index, matrix.columns))
    shuffled = matrix.loc[rows, columns]
    first, second = (friedman(rank_table(table, higher)) for table in (matrix, shuffled))
    assert first.statistic == pytest.approx(second.statistic, abs=1e-9)
    pd.testing.assert_frame_equal(wilcoxon_holm(matrix, higher), wilcoxon_holm(shuffled, higher))
    pd.testing.assert_frame_equal(pairwise(matrix, higher), pairwise(shuffled, higher))


# ------------------------------------------------------------------------------------------------- Bayesian signed rank


def test_bayesian_test_of_clear_cases():
    a = np.linspace(0.7, 0.9, 20)
    assert bayesian_signed_rank(a - (a - 0.05), rope=0.01).a_better > 0.99
    assert bayesian_signed_rank((a - 0.05) - a, rope=0.01).b_better > 0.99
    assert bayesian_signed_rank(a - (a + 0.001), rope=0.01).equivalent > 0.99


def test_bayesian_test_is_symmetric_and_adds_up():
    random = np.random.default_rng(0)
    a, b = random.random(15), random.random(15)
    one, two = bayesian_signed_rank(a - b, rope=0.05), bayesian_signed_rank(b - a, rope=0.05)
    assert one.a_better == pytest.approx(two.b_better, abs=0.02)
    assert one.a_better + one.equivalent + one.b_better == pytest.approx(1)


def test_bayesian_test_agrees_with_a_plain_simulation():
    """Write the posterior as the loops of its definition, on fewer draws."""
    a, b, rope = np.array([0.80, 0.75, 0.90, 0.66]), np.array([0.78, 0.77, 0.83, 0.60]), 0.011
    z, random = [0.0, *(a - b)], np.random.default_rng(5)
    wins = np.zeros(3)
    for _ in range(4000):
        w = random.dirichlet([0.5, 1, 1, 1, 1])
        shares = np.zeros(3)
        for i in range(5):
            for j in range(5):
                place = 0 if z[i] + z[j] > 2 * rope else 2 if z[i] + z[j] < -2 * rope else 1
                shares[place] += w[i] * w[j]
        wins[shares.argmax()] += 1
    found = bayesian_signed_rank(a - b, rope)
    assert (found.a_better, found.equivalent, found.b_better) == pytest.approx(tuple(wins / 4000), abs=0.03)


# ---------------------------------------------------------------------------------------------- too little to be tested


def test_methods_that_were_not_run_everywhere_are_left_out_and_named():
    matrix, higher = random_matrix(6, 4)
    ranks = rank_table(matrix, higher, missing=matrix == matrix.iloc[0, 3])
    found = friedman(ranks)
    assert (found.left_out, found.n_methods) == (("m3",), 3)
    assert found.statistic == pytest.approx(stats.friedmanchisquare(*matrix.iloc[:, :3].to_numpy().T).statistic)
    assert list(complete(ranks).columns) == ["m0", "m1", "m2"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m, h: friedman(rank_table(m.iloc[:, :2], h)),
            "Friedman's test needs at least 3 methods that ran on all",
        ),
        (lambda m, h: friedman(rank_table(m.iloc[:1], h)), "Friedman's test needs at least 2 datasets, got 1: add"),
        (lambda m, h: friedman(rank_table(m * 0, h)), "all 3 methods tie on all 4 datasets: there is no difference"),
        (lambda m, h: wilcoxon_holm(m.iloc[:, :1], h), "Wilcoxon's test needs at least 2 methods"),
        (lambda m, h: wilcoxon_holm(m.iloc[:1], h), "Wilcoxon's test needs at least 2 datasets, got 1"),
        (lambda m, h: critical_difference(1, 5), "The critical difference needs at least 2 methods"),
        (lambda m, h: bayesian_signed_rank([0.5], 0.01), "needs at least 2 datasets, got 1: add datasets"),
        (lambda m, h: bayesian_signed_rank([1, np.nan], 0.01), "1 score not finite: leave out datasets"),
        (lambda m, h: bayesian_signed_rank([1, 2], -1), "rope must be at least 0, got -1"),
    ],
)
def test_what_cannot_be_tested_says_why(call, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        call(*random_matrix(4, 3))


def test_a_dataset_on_which_all_failed_is_no_tie():
    matrix, higher = random_matrix(6, 3)
    without = matrix.iloc[1:]
    matrix.iloc[0] = np.nan
    pd.testing.assert_frame_equal(pairwise(matrix, higher), pairwise(without, higher))
    pd.testing.assert_frame_equal(wilcoxon_holm(matrix, higher), wilcoxon_holm(without, higher))


def test_all_tied_has_no_winner_in_pairs():
    matrix, higher = random_matrix(4, 3)
    table = wilcoxon_holm(matrix * 0 + 0.5, higher)
    assert table["p_value"].tolist() == [1.0] * 3
    assert table["better"].isna().all()
    assert (pairwise(matrix * 0, higher)["ties"] == 4).all()


def test_perfect_agreement_has_an_infinite_f():
    ranks = pd.DataFrame([[1.0, 2.0, 3.0]] * 5, columns=list("abc"))
    found = friedman(ranks)
    assert found.f == math.inf
    assert found.p_value == 0.0
    assert found.statistic == pytest.approx(10.0)
