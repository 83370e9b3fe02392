"""Scheduled reruns: what their report says of a changed file, and which datasets get another chance."""

from __future__ import annotations

from dataclasses import replace

from flows.ledger import ATTEMPTS, Entry, Ledger
from flows.new_datasets import _counted, _with_failures, changes_since
from hopular.evaluation.results import Results
from tests.evaluation.benchmarks import make_results


def benchmark(scores: dict[str, dict[str, list[float]]], fingerprint: str, name: str) -> Results:
    results = make_results(scores, id=name)
    facts = tuple(replace(found, fingerprint=f"{found.name} {fingerprint}") for found in results.datasets)
    return replace(results, datasets=facts)


def test_another_leader_of_a_changed_file_is_reported() -> None:
    before = benchmark({"flowers": {"knn": [0.9, 0.9], "svm": [0.5, 0.5]}}, "old", "new-datasets-quick-1")
    after = benchmark({"flowers": {"knn": [0.5, 0.5], "svm": [0.9, 0.9]}}, "new", "new-datasets-quick-1")
    changes = changes_since(before, after)
    [leader] = changes.leaders.to_dict("records")
    assert (leader["dataset"], leader["before"], leader["after"]) == ("flowers", "knn", "svm")
    assert leader["is_changed"]
    assert not leader["is_noise"]
    assert changes.changed_datasets == ("flowers",)
    assert changes.scores.empty  # they are of other rows


def test_a_score_that_moved_is_reported_where_the_data_is_the_same() -> None:
    before = benchmark({"flowers": {"knn": [0.5, 0.5]}}, "same", "new-datasets-quick-1")
    after = benchmark({"flowers": {"knn": [0.9, 0.9]}}, "same", "new-datasets-quick-2")
    assert changes_since(before, after).moved["method"].tolist() == ["knn"]


def test_a_compressed_file_with_a_failed_unit_is_among_the_failed() -> None:
    failed = {"failed": {"glm on flowers fold-0": "no", "/a/trees.csv": "no"}}
    new = ["/a/flowers.csv.gz", "/a/trees.csv", "/a/good.csv"]
    assert _with_failures(new, failed) == new[:2]


def test_an_attempt_counts_for_what_was_looked_at() -> None:
    seen = Ledger({"a": Entry("1", "then"), "b": Entry("1", "x")})
    now = Ledger({"a": Entry("2", "now"), "c": Entry("1", "y")}, {"y wish": 1})
    ledger = _counted(now, seen, ["a", "b"], "wish", ["b"])
    assert ledger.attempts == {"y wish": 1, "then wish": ATTEMPTS, "x wish": 1}
    assert ledger.is_done("a", "wish")
    assert not ledger.is_done("b", "wish")
