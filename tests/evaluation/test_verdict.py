"""The verdict in every situation, computed once, and fast enough."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopular.evaluation import scores, verdict
from hopular.evaluation.results import Results
from hopular.evaluation.verdict import Standings
from hopular.report.leaderboard import to_markdown
from hopular.report.page import write_plots, write_report
from tests.evaluation.benchmarks import make_results, random_results, with_architecture


def headline(results: Results) -> str:
    return Standings(results).headline


def per_dataset(results: Results) -> dict[str, str]:
    return Standings(results).per_dataset


def test_the_leader_and_hopular_within_noise_on_one_dataset():
    results = make_results({"iris": {"catboost": [0.96, 0.96], "hopular": [0.955, 0.955], "xgboost": [0.9, 0.9]}})
    assert headline(results) == "CatBoost leads on iris (accuracy 0.96); Hopular (0.955) is within noise of it."


def test_hopular_behind_by_more_than_noise_on_one_dataset():
    results = make_results({"iris": {"catboost": [0.96, 0.96], "hopular": [0.8, 0.8]}})
    assert headline(results) == "CatBoost leads on iris (accuracy 0.96); Hopular (0.8) is behind it by more than noise."


def test_if_hopular_leads_it_is_compared_with_boosting():
    results = make_results({"iris": {"hopular": [0.96, 0.96], "svm": [0.95, 0.95], "xgboost": [0.945, 0.945]}})
    assert headline(results) == (
        "Hopular leads on iris (accuracy 0.96); XGBoost (0.945), the best gradient boosting, is within noise of it."
    )


def test_without_hopular_the_second_is_named():
    results = make_results({"r": {"xgboost": [10.0, 10.1], "svm": [1.0, 1.1]}}, task="regression")
    assert headline(results) == (
        "SVM leads on r (mean squared error 1.05); XGBoost (10.05) is behind it by more than noise."
    )


def test_large_errors_are_written_out():
    results = make_results({"r": {"svm": [14_580.4], "xgboost": [123_456.0]}}, task="regression", width=1.0)
    assert headline(results).startswith("SVM leads on r (mean squared error 14,580); XGBoost (123,456) is behind it")


def test_one_fit_without_an_interval_is_too_little():
    results = make_results({"d": {"xgboost": [0.9], "hopular": [0.8]}}, width=math.nan)
    assert headline(results).endswith("is behind it, and one fit each cannot tell whether that is more than noise.")


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"d": {"svm": [0.9]}}, "Only SVM has finished on d (accuracy 0.9): there is nothing to compare it with."),
        ({"d": {"svm": [0.9], "knn": [0.9]}}, "All 2 methods tie on d (accuracy 0.9)."),
        (
            {"d": {"svm": [0.9], "knn": [0.9], "lda": [0.1]}},
            "Nearest neighbours and SVM share the lead on d (accuracy 0.9).",
        ),
        (
            {"d": {"svm": None}},
            "No method has finished on any dataset, so there is nothing to compare. "
            "1 unit of 1 failed and ranks last: SVM.",
        ),
        (
            {"d": {"svm": [0.5]}, "e": {"svm": [0.6]}},
            "Only SVM has run on these 2 datasets: there is nothing to compare it with.",
        ),
        (
            {"d": {"svm": [0.5], "knn": [0.5]}, "e": {"svm": [0.6], "knn": [0.6]}},
            "All 2 methods have the same mean rank on these 2 datasets: none leads.",
        ),
        (
            {"d": {"svm": [0.5], "knn": [0.4], "lda": [0.1]}, "e": {"svm": [0.6], "knn": [0.7], "lda": [0.1]}},
            "Nearest neighbours and SVM share the lead on these 2 datasets (mean rank 1.50).",
        ),
        (
            {"d": {"own": [0.5], "hopular": [0.4]}, "e": {"own": [0.6], "hopular": [0.5]}},
            "own leads on these 2 datasets; Hopular is behind it (mean rank 1.00 against 2.00), but 2 datasets are too "
            "few to rule out chance.",
        ),
    ],
)
def test_every_situation_has_its_words(table: dict, sentence: str):
    assert headline(make_results(table)) == sentence


def test_many_datasets_are_judged_by_wilcoxons_test():
    clear = {f"d{i}": {"catboost": [0.9 + i / 100], "hopular": [0.8]} for i in range(8)}
    assert headline(make_results(clear, suite="small")) == (
        "CatBoost leads on 8 datasets of the paper's small suite; Hopular is behind it by more than noise "
        "(mean rank 1.00 against 2.00, p = 0.0078)."
    )
    close = {f"d{i}": {"catboost": [0.85], "hopular": [0.8 if i < 5 else 0.9 + i / 100]} for i in range(8)}
    assert headline(make_results(close)).startswith(
        "CatBoost leads on these 8 datasets; Hopular is within noise of it (mean rank 1.38 against 1.62, p = "
    )


def test_failures_rank_last_and_are_told():
    table = {f"d{i}": {"xgboost": [0.5], "hopular": [0.9] if i else None} for i in range(3)}
    found = headline(make_results(table))
    assert found.startswith("Hopular leads on these 3 datasets; XGBoost, the best gradient boosting, is behind it")
    assert found.endswith("1 unit of 6 failed and ranks last: Hopular.")


def test_a_method_that_ran_on_fewer_datasets_does_not_lead():
    table = {f"d{i}": {"xgboost": [0.5], "hopular": [0.4]} for i in range(3)}
    table["d0"]["knn"] = [0.9]
    assert headline(make_results(table)).startswith("XGBoost leads on these 3 datasets; Hopular is behind it")


def test_the_leader_of_many_alike_is_rarely_said_to_be_more_than_noise():
    """Compare eight methods that are the same: a verdict of more than noise is false, and 5 % of them may be."""
    random = np.random.default_rng(0)
    names = ["hopular", *(f"method{m}" for m in range(7))]
    false = 0
    for _ in range(40):
        table = {
            f"d{d}": {name: [float(score)] for name, score in zip(names, row, strict=True)}
            for d, row in enumerate(random.random((14, 8)))
        }
        false += "by more than noise" in headline(make_results(table))
    assert false <= 2


def test_headline_and_table_of_pairs_agree():
    random = np.random.default_rng(1)
    table = {
        f"d{i}": {"catboost": [0.8 + i / 50], "hopular": [0.79 + i / 50], "svm": [random.random()]} for i in range(9)
    }
    results = make_results(table)
    tests = Standings(results).pairs.set_index(["a", "b"])
    assert f"p = {tests.loc[('catboost', 'hopular'), 'adjusted']:.2g} after Holm)" in headline(results)


def test_few_datasets_cannot_tell_many_methods_apart():
    table = {f"d{i}": {f"method{m:02}": [0.9 - m / 50 + i / 100] for m in range(20)} for i in range(8)}
    assert headline(make_results(table)).endswith("but 8 datasets are too few to rule out chance.")


def test_methods_on_different_datasets_are_not_compared():
    table = {"d0": {"svm": [0.9], "knn": [0.8]}, "d1": {"lda": [0.9], "glm": [0.8]}}
    assert headline(make_results(table)) == "No method was run on all of these 2 datasets, so none leads."
    table["d1"]["svm"] = [0.1]
    assert headline(make_results(table)) == (
        "Only SVM was run on all of these 2 datasets: there is nothing to compare it with."
    )


def test_failures_elsewhere_are_told_if_one_dataset_has_scores():
    table = {"d": {"svm": [0.9], "knn": [0.5]}, "e": {"svm": None, "knn": None}}
    assert headline(make_results(table)).endswith("2 units of 4 failed and rank last: Nearest neighbours and SVM.")


def test_a_leader_that_owes_its_lead_to_doubtful_datasets_is_told():
    table = {f"d{i}": {"svm": [0.9 if i < 2 else 0.4], "knn": [0.5]} for i in range(3)}
    assert headline(make_results(table, doubtful=["d0"])).count("serious") == 1
    assert headline(make_results(table, doubtful=["d0", "d1"])).endswith(
        "Without the 2 datasets that have serious findings, Nearest neighbours leads."
    )
    assert "Nearest neighbours and SVM share the lead." in headline(make_results(table, doubtful=["d0"]))
    assert "serious" not in headline(make_results(table, doubtful=["d2"]))
    assert "serious" not in headline(make_results(table, doubtful=list(table)))


def test_no_results_at_all():
    results = make_results({})
    assert headline(results) == "No method has finished on any dataset, so there is nothing to compare."
    assert per_dataset(results) == {}


def test_a_sentence_for_each_dataset():
    results = make_results({"d": {"svm": [0.9], "knn": None}, "e": {"svm": [0.9], "knn": [0.5]}, "f": {"svm": None}})
    assert per_dataset(results) == {
        "d": "Only SVM has finished on d (accuracy 0.9): there is nothing to compare it with. "
        "1 unit of 2 failed and ranks last: Nearest neighbours.",
        "e": "SVM leads on e (accuracy 0.9); Nearest neighbours (0.5) is behind it by more than noise.",
        "f": "No method has finished on f. 1 unit of 1 failed and ranks last: SVM.",
    }


def test_the_order_of_rows_changes_no_word():
    results = random_results(7, 4, 3)
    shuffled = replace(results, scores=results.scores.sample(frac=1, random_state=0), units=results.units[::-1])
    assert headline(results) == headline(shuffled)
    assert per_dataset(results) == per_dataset(shuffled)


def evaluate_all(results: Results) -> Standings:
    standings = Standings(results)
    assert all(getattr(standings, name) is not None for name in ("table", "pairs", "headline"))
    return standings


def test_27_datasets_20_methods_4_splits_take_less_than_two_seconds():
    evaluate_all(random_results(3, 3, 1))  # importing SciPy and the methods takes its own time
    results = random_results(27, 20, 4)
    start = time.process_time()
    standings = evaluate_all(results)
    test, sentences = standings.friedman, standings.per_dataset
    seconds = time.process_time() - start
    assert (test.n_methods, test.n_datasets, len(sentences)) == (20, 27, 27)
    assert seconds < 2, f"took {seconds:.2f} s of processor time"


def test_the_answer_says_which_hopular_it_speaks_of():
    scores = {f"d{n}": {"hopular": [0.9], "xgboost": [0.5], "knn": [0.4]} for n in range(8)}
    results = with_architecture(make_results(scores), "paper")
    assert headline(results).startswith("Hopular (paper architecture) leads on these 8 datasets; XGBoost, the best")
    assert per_dataset(results)["d0"].startswith("Hopular (paper architecture) leads on d0 (accuracy 0.9); XGBoost")
    behind = make_results({"a": {"hopular": [0.1], "knn": [0.9]}})
    assert "; Hopular (released architecture) (0.1) is" in headline(with_architecture(behind, "released"))


def test_what_is_shown_of_a_benchmark_is_computed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    calls: Counter[str] = Counter()
    functions = {verdict: ("friedman", "wilcoxon_holm"), scores: ("rank_table", "cost_table", "primary_summary")}

    def counted(name: str, function: Callable) -> Callable:
        return lambda *args: (calls.update([name]), function(*args))[1]

    for module, names in functions.items():
        for name in names:
            monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    standings = Standings(random_results(6, 4, 2))
    assert standings.headline
    assert to_markdown(standings.table)
    write_report(standings, tmp_path / "report.html")
    write_plots(standings, tmp_path)
    assert calls == dict.fromkeys([name for names in functions.values() for name in names], 1)


def test_a_tiny_p_value_is_written_as_a_bound():
    clear = {f"d{i:02}": {"catboost": [0.9 + i / 1000], "hopular": [0.8]} for i in range(12)}
    assert headline(make_results(clear)).endswith("(mean rank 1.00 against 2.00, p < 0.001).")
