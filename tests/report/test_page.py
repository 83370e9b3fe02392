"""The HTML page, as text; tests/report/test_browser.py opens it in a browser."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from markupsafe import escape

from hopular.data.registry import entries
from hopular.evaluation.compare import Comparison, compare
from hopular.evaluation.results import Maker, Results
from hopular.evaluation.verdict import Standings
from hopular.report import page as report_page
from hopular.report.page import write_plots, write_report
from tests.evaluation.benchmarks import random_results, with_architecture
from tests.report.synthetic import NASTY, large, make_results

VOID = {"meta", "link", "br", "hr", "img", "input", "path", "line", "circle"}


class Reader(HTMLParser):
    """Collects tags and text, and fails on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def render(results: Results, changes: Comparison | None = None) -> str:
    return report_page.render(Standings(results), changes=changes)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(read(page).words))


@pytest.fixture(scope="module")
def results() -> Results:
    return make_results(4, failed=((1, "xgboost"),), doubtful=(2,), regression=(1,), nasty=True)


@pytest.fixture(scope="module")
def page(results: Results) -> str:
    return render(results)


def test_everything_asked_for_is_on_the_page(results: Results, page: str) -> None:
    words = text_of(page)
    assert Standings(results).headline.split(". ")[0] in words
    for expected in (
        "Leaderboard",
        "Without doubtful",
        "critical difference",
        "Each method against every other",
        "The leader against the others",
        "Accuracy against cost",
        "Best hyperparameters",
        "Learning curves",
        "41 of 214 test rows (19 %) are also in the training rows.",
        "out-of-memory: could not allocate 12 GB",
        "failed on 1 of 2 splits",
        "Median rank on the small suite",
        "abc1234",
        "hopular benchmark --suite demo --budget quick --seed 0",
        "1 January 2026, 12:00 UTC",
        results.datasets[0].fingerprint,
    ):
        assert expected in words, expected


def test_nothing_comes_from_elsewhere(page: str) -> None:
    for tag, attributes in read(page).tags:
        for name in ("src", "href"):
            address = attributes.get(name)
            assert address is None or address.startswith(("#", "data:")), (tag, address)
    assert "url(" not in page
    assert "@import" not in page


def test_links_lead_to_places_that_exist_once(page: str) -> None:
    tags = read(page).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {attributes["href"] for tag, attributes in tags if tag == "a"}
    assert links <= {f"#{name}" for name in ids}
    assert {"#leaderboard", "#dataset-1", "#provenance"} <= links


def test_names_with_html_in_them_are_escaped(page: str) -> None:
    tags = [tag for tag, _ in read(page).tags]
    assert tags.count("script") == 1
    assert "b" not in tags
    assert "alert(" in page
    assert str(escape(NASTY)) in page


def test_a_comparison_says_what_changed() -> None:
    before, after = make_results(3, seed=1), make_results(4, ("catboost", "hopular", "knn"), seed=2)
    scores = after.scores.copy()
    scores.loc[scores["dataset"] == "dataset-2", ["value", "low", "high"]] = 0.01
    words = text_of(render(after, changes=compare(before, replace(after, scores=scores))))
    assert "What changed" in words
    assert "New datasets: dataset-4." in words
    assert "New methods: Nearest neighbours." in words
    assert "Methods no longer included: Most frequent class, Random forest, XGBoost." in words
    assert "Scores that moved" in words
    assert "worse" in words


def test_a_comparison_says_what_failed_and_what_cannot_be_judged() -> None:
    before, after = make_results(2, PAIR), make_results(2, PAIR, failed=((0, "hopular"),))
    words = text_of(render(after, changes=compare(before, after)))
    assert "Newly failed: Hopular on dataset-1." in words
    assert "cannot be judged" in words
    assert "No longer failing: Hopular on dataset-1." in text_of(render(before, changes=compare(after, before)))


def test_hopular_is_never_named_without_its_architecture_but_in_the_papers_own_rows() -> None:
    results = with_architecture(make_results(6, failed=((0, "hopular"),)), "released")
    before, paper, after = re.split(r'<section id="(?:paper|failures)">', render(results))
    shown = [words for page in (before, after) for words in re.findall(r">([^<>]*Hopular(?! Benchmark)[^<>]*)<", page)]
    assert len(shown) > 50
    assert [words for words in shown if "Hopular (released architecture)" not in words] == []
    assert paper.count("Ours is Hopular (released architecture), not the paper&#39;s") == 3  # each table of results
    assert 'class="name hero"' in before  # it is still the one that stands out in diagrams


def test_a_comparison_says_that_the_architecture_is_another_one() -> None:
    results = make_results(2, PAIR)
    changes = compare(with_architecture(results, "default"), with_architecture(results, "paper"))
    said = "Not the same method: Hopular (default architecture) before, Hopular (paper architecture) now."
    assert said in text_of(render(with_architecture(results, "paper"), changes=changes))


def test_a_diagram_without_a_difference_says_so() -> None:
    warning = "no evidence that methods differ"
    assert warning in text_of(render(make_results(3, ("svm", "mlp", "snn"))))
    assert warning not in text_of(render(make_results(12)))


def test_settings_are_written_out() -> None:
    results = replace(make_results(1), settings={"limits": {"trials": 20, "seconds": 5.0}})
    assert "trials=20, seconds=5.0" in text_of(render(results))


def test_settings_say_by_what_they_were_chosen(results: Results) -> None:
    by_loss = [replace(unit, chosen_by="log_loss", valid_score=-0.345) for unit in results.units if not unit.reason]
    older = [replace(unit, chosen_by="", valid_score=0.815) for unit in results.units if not unit.reason]
    page = text_of(render(replace(results, units=tuple(by_loss))))
    assert "Chosen by log loss on the validation rows." in page
    assert "log loss 0.345" in page
    assert "minus the validation log loss" in page
    page = text_of(render(replace(results, units=tuple(older))))
    assert "Chosen by accuracy on the validation rows." in page
    assert "accuracy 0.815" in page
    merged = text_of(render(replace(results, units=(*by_loss, *older))))
    assert "Chosen by log loss or accuracy on the validation rows." in merged


def test_a_score_that_is_no_number_counts_as_failed() -> None:
    results = make_results(2, PAIR)
    is_lost = results.scores["dataset"].eq("dataset-1") & results.scores["method"].eq("catboost")
    words = text_of(render(replace(results, scores=results.scores.assign(value=results.scores["value"].mask(is_lost)))))
    assert "2 of 8 searches failed (CatBoost); see Failures." in words
    assert "no score: it is missing or not a finite number" in words


def test_without_a_comparison_nothing_changed(page: str) -> None:
    assert "What changed" not in page


def test_published_figures_are_labelled() -> None:
    small = [entry.name for entry in entries().values() if entry.suite == "small"][:3]
    made = make_results(3, ("catboost", "hopular", "random_forest"))
    names = {facts.name: name for facts, name in zip(made.datasets, small, strict=True)}
    results = replace(
        made,
        scores=made.scores.assign(dataset=made.scores["dataset"].map(names)),
        datasets=tuple(replace(facts, name=names[facts.name]) for facts in made.datasets),
        units=tuple(replace(unit, dataset=names[unit.dataset]) for unit in made.units),
    )
    page = render(results)
    assert page.count('<span class="chip published">published</span>') == 16  # of 17 groups one is ours
    section = page[page.index("Median rank on the small suite") :].partition("</table>")[0]
    headings = re.findall(r"<th[^>]*>(?:<button[^>]*>)?([^<]+)", section)
    assert headings == ["Method", "Accuracies", "Paper", "Ours", "95 % from", "95 % to", "Datasets", "Note"]
    assert "Theirs is Weka&#39;s Stacking" in section
    assert "Difference" not in section


def test_all_leaders_of_a_dataset_are_counted() -> None:
    words = text_of(render(tied(make_results(2))))
    assert "Hopular and 4 others" in words


def test_a_method_that_ran_on_fewer_datasets_is_explained(page: str) -> None:
    assert "Without a place, because they were not run on every dataset: Most frequent class." in text_of(page)


def test_one_dataset_opens_at_once_and_many_stay_closed() -> None:
    assert '<details class="dataset" id="dataset-1" open>' in render(make_results(1))
    assert '<details class="dataset" id="dataset-1">' in render(make_results(4))


def tied(results: Results) -> Results:
    return replace(results, scores=results.scores.assign(value=0.5, low=np.nan, high=np.nan))


def unmeasured(results: Results) -> Results:
    scores = results.scores.assign(memory=0, seconds=np.nan)
    scores.loc[::7, "value"] = np.nan
    return replace(results, scores=scores)


def unknown_metric(results: Results) -> Results:
    return replace(results, scores=results.scores.replace({"metric": {"roc_auc": "strange"}}))


def incomplete(results: Results) -> Results:
    gone = (results.scores["method"] == "xgboost") & (results.scores["dataset"] == "dataset-1")
    units = tuple(u for u in results.units if (u.dataset, u.method) != ("dataset-1", "xgboost"))
    return replace(results, scores=results.scores[~gone], units=units)


PAIR = ("catboost", "hopular")
ALL_FAILED = tuple((place, name) for place in range(2) for name in PAIR)


@pytest.mark.parametrize(
    ("results", "said"),
    [
        pytest.param(make_results(1), "at least 2 datasets", id="one dataset"),
        pytest.param(make_results(3, ("hopular",)), "at least 3 methods", id="one method"),
        pytest.param(make_results(1, ("catboost",), 1), "CatBoost", id="one of each"),
        pytest.param(make_results(2, PAIR, 1, failed=ALL_FAILED), "No method has finished", id="all failed"),
        pytest.param(make_results(0), "nothing to compare", id="nothing at all"),
        pytest.param(make_results(2, doubtful=(0, 1)), "There are no other datasets to rank by", id="all doubtful"),
        pytest.param(tied(make_results(3)), "all 5 methods tie on all 3 datasets", id="all tied"),
        pytest.param(unmeasured(make_results(3)), "no score on some splits", id="NaN"),
        pytest.param(unknown_metric(make_results(3)), "Log loss", id="unknown metric"),
        pytest.param(incomplete(make_results(3)), "not run", id="a method missing on a dataset"),
        pytest.param(replace(make_results(2), units=()), "Leaderboard", id="scores alone"),
        pytest.param(replace(make_results(2), command="", provenance={}), "Provenance", id="no provenance"),
    ],
)
def test_unusual_results_give_clear_pages(results: Results, said: str) -> None:
    words = text_of(render(results))
    assert said in words
    assert not re.search(r"\b(nan|None|NaN|inf)\b", words)


def test_a_large_benchmark_is_small_and_fast(tmp_path: Path) -> None:
    results = large()
    start = time.process_time()
    path = write_report(Standings(results), tmp_path / "reports" / "large.html")
    seconds = time.process_time() - start
    size = path.stat().st_size
    print(f"{seconds:.1f} s, {size / 1e6:.2f} MB")
    assert size <= 5_000_000
    assert seconds <= 10


def test_plots_are_pictures_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "old.svg").write_text("<svg/>")
    write_plots(Standings(random_results(6, 4, 2)), tmp_path)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["cost-1.svg", "cost-2.svg", "ranks.svg"]
    for file in files:
        root = ElementTree.fromstring(file.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "--accent" in (root[0].text or "")


def test_units_of_different_makers_are_told_apart_where_the_commit_stands() -> None:
    results = make_results(2)
    old = Maker("a1" * 20, "code-of-old", {"python": "3.11.7", "torch": "2.1"}, "cpu", "2026-05-12T10:00:00+00:00")
    new = Maker("b2" * 20 + " (changed)", "code-of-new", {"python": "3.11.7"}, "cuda", "2026-06-01T10:00:00+00:00")
    units = tuple(replace(unit, maker=new if unit.method == "hopular" else old) for unit in results.units)
    first, *others = units
    alone = replace(first, maker=replace(new, commit="c3" * 20)) if first.method != "hopular" else first
    page = read(render(replace(results, units=(alone, *others))))
    count = sum(unit.method == "hopular" for unit in units)
    ours = f"{'b2' * 20} (changed) ({count} units)"
    commits = next(word for word in page.words if word.startswith("a1" * 20) and "units)" in word)
    assert ours in commits
    assert "c3" * 20 + " (1 unit)" in commits
    text = " ".join(page.words)
    assert {"code-of-old", "code-of-new"} <= set(text.split())
    assert f"{alone.dataset} {alone.split}" in page.words  # whose maker is another one than that of its method
    assert "12 May 2026, 10:00 UTC" in page.words
    assert "What each method's units were made with" not in " ".join(read(render(make_results(2))).words)


def test_units_of_one_maker_have_one_commit() -> None:
    results = make_results(2)
    maker = Maker("a1" * 20, "code", {"python": "3.11.7"}, "cpu")
    page = read(render(replace(results, units=tuple(replace(unit, maker=maker) for unit in results.units))))
    assert "a1" * 20 in page.words
    assert "python 3.11.7" in page.words
