"""Scheduled reruns: what is read again, what their report says of a changed file, and what gets another chance."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from flows import new_datasets as module
from flows.new_datasets import (
    ATTEMPTS,
    Entry,
    Ledger,
    _counted,
    _with_failures,
    changes_since,
    read_ledger,
    scan,
    update_ledger,
    write_ledger,
)
from hopular.data import DataError
from hopular.data.download import UnreachableError
from hopular.evaluation.results import Results
from tests.evaluation.benchmarks import make_results

GOOD = "a,b,y\n" + "".join(f"{i},{i % 3},{'yes' if i % 2 else 'no'}\n" for i in range(40))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))
    found = tmp_path / "new"
    found.mkdir()
    return found


def test_what_is_known_is_not_read_again(folder, monkeypatch):
    (folder / "one.csv").write_text(GOOD)
    first = scan(folder, [], Ledger(), "y")
    assert [os.path.basename(name) for name in first.usable] == ["one.csv"]

    def refuse(*_, **__):
        raise AssertionError("it was read")

    monkeypatch.setattr(module, "load", refuse)
    again = scan(folder, [], first.ledger, "y")
    assert again.usable == first.usable
    (folder / "one.csv").write_text(GOOD + "99,1,yes\n")
    with pytest.raises(AssertionError, match="it was read"):
        scan(folder, [], first.ledger, "y")


def test_a_changed_file_counts_as_new(folder):
    path = folder / "one.csv"
    path.write_text(GOOD)
    seen = scan(folder, [], Ledger(), "y")
    done = seen.ledger.after(seen.usable, "wish", failed=[])
    assert done.is_done(str(path), "wish")
    assert not done.is_done(str(path), "another wish")
    path.write_text(GOOD + "99,1,yes\n")
    assert not scan(folder, [], done, "y").ledger.is_done(str(path), "wish")


def test_a_sidecar_is_part_of_the_file(folder):
    (folder / "one.csv").write_text(GOOD)
    before = scan(folder, [], Ledger(), "y").ledger
    (folder / "one.toml").write_text('target = "b"\n')
    after = scan(folder, [], before).ledger
    (old,), (new,) = before.entries.values(), after.entries.values()
    assert old.fingerprint != new.fingerprint


def test_a_bad_file_is_reported_once_per_content_and_skipped(folder):
    (folder / "good.csv").write_text(GOOD)
    (folder / "bad.csv").write_text("only\n")
    first = scan(folder, [], Ledger(), "y")
    assert [os.path.basename(name) for name in first.refused] == ["bad.csv"]
    assert len(first.usable) == 1
    second = scan(folder, [], first.ledger, "y")
    assert (second.refused, second.known_bad) == ({}, 1)
    os.utime(folder / "bad.csv", (1, 1))
    touched = scan(folder, [], second.ledger, "y")
    assert (touched.refused, touched.known_bad) == ({}, 1)
    (folder / "bad.csv").write_text("a,y\n")
    assert len(scan(folder, [], second.ledger, "y").refused) == 1


def test_an_unreachable_id_is_not_bad_and_is_tried_the_next_time(monkeypatch):
    answers = [UnreachableError("OpenML cannot be reached"), DataError("OpenML answered 404"), AssertionError()]

    def answer(*_, **__):
        raise answers.pop(0)

    monkeypatch.setattr(module, "load", answer)
    first = scan(None, [31], Ledger())
    assert first.unreachable == {"openml:31": "OpenML cannot be reached"}
    assert (first.usable, first.refused, first.known_bad, first.ledger) == ([], {}, 0, Ledger())
    second = scan(None, [31], first.ledger)
    assert second.refused == {"openml:31": "OpenML answered 404"}
    assert scan(None, [31], second.ledger).known_bad == 1


def test_a_corrected_target_makes_a_file_good(folder):
    (folder / "one.csv").write_text(GOOD)
    wrong = scan(folder, [], Ledger(), "z")
    assert len(wrong.refused) == 1
    right = scan(folder, [], wrong.ledger, "y")
    assert right.usable == [str(folder / "one.csv")]


def test_what_was_seen_elsewhere_is_kept_and_what_is_gone_is_not(folder):
    others = {"/elsewhere/a.csv": Entry("stamp"), "openml:31": Entry("stamp")}
    gone = {str(folder / "gone.csv"): Entry("stamp")}
    assert scan(folder, [], Ledger({**others, **gone})).ledger.entries == others


def test_two_looks_at_once_both_count(folder):
    before = Ledger({"gone": Entry("1"), "same": Entry("1"), "mine": Entry("1")})
    after = Ledger({"same": Entry("1"), "mine": Entry("2"), "new": Entry("1")})
    now = Ledger({**before.entries, "same": Entry("3"), "theirs": Entry("1")}, {"wish": 1})
    write_ledger(now)
    update_ledger(lambda latest: latest.merged(before, after))
    entries = {"same": Entry("3"), "mine": Entry("2"), "theirs": Entry("1"), "new": Entry("1")}
    assert read_ledger() == Ledger(entries, {"wish": 1})


def test_failures_get_a_few_more_chances(folder):
    (folder / "one.csv").write_text(GOOD)
    seen = scan(folder, [], Ledger(), "y")
    ledger = seen.ledger
    for attempt in range(ATTEMPTS):
        assert not ledger.is_done(seen.usable[0], "wish"), attempt
        ledger = ledger.after(seen.usable, "wish", failed=seen.usable)
    assert ledger.is_done(seen.usable[0], "wish")


def test_it_is_kept_between_runs(folder):
    (folder / "one.csv").write_text(GOOD)
    assert read_ledger() == Ledger()
    ledger = scan(folder, [], Ledger(), "y").ledger.after([str(folder / "one.csv")], "wish", [])
    write_ledger(ledger)
    assert read_ledger() == ledger
    assert [path.name for path in module.ledger_file().parent.iterdir()] == ["new-datasets.json"]


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}', '{"format": 1, "entries": {"a": 1}, "attempts": {}}'])
def test_a_damaged_ledger_is_named_with_its_remedy(text):
    module.ledger_file().parent.mkdir(parents=True)
    module.ledger_file().write_text(text)
    with pytest.raises(ValueError, match=r"new-datasets.json cannot be read .*: delete it"):
        read_ledger()


def test_a_folder_that_is_not_there_is_an_error_and_an_empty_one_is_not(folder):
    assert scan(folder, [], Ledger()).usable == []
    with pytest.raises(DataError, match=r"no folder .* to look for new datasets in: make it, or name another one"):
        scan(folder / "nowhere", [], Ledger())


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
    published = SimpleNamespace(failed={"glm on flowers fold-0": "no", "/a/trees.csv": "no"})
    new = ["/a/flowers.csv.gz", "/a/trees.csv", "/a/good.csv"]
    assert _with_failures(new, published)  # type: ignore[arg-type] == new[:2]


def test_an_attempt_counts_for_what_was_looked_at() -> None:
    seen = Ledger({"a": Entry("1", "then"), "b": Entry("1", "x")})
    now = Ledger({"a": Entry("2", "now"), "c": Entry("1", "y")}, {"y wish": 1})
    ledger = _counted(now, seen, ["a", "b"], "wish", ["b"])
    assert ledger.attempts == {"y wish": 1, "then wish": ATTEMPTS, "x wish": 1}
    assert ledger.is_done("a", "wish")
    assert not ledger.is_done("b", "wish")
