"""The report of a fit: its figures are those of the predictions, and what is not known has no section."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hopular import formatting
from hopular.evaluation.metrics import bootstrap, evaluate
from hopular.evaluation.results import DatasetFacts
from hopular.report.fit_page import (
    Coverage,
    FitStory,
    Member,
    MethodRow,
    Reading,
    ReadRow,
    Scored,
    describe_fit,
    effective_rows,
    render_fit,
    warnings,
    write_fit_report,
)
from hopular.util import InputError
from tests.report.browser import CHROMIUM, faultless_page, open_browser
from tests.report.synthetic import NASTY

CLASSES = ("no", "yes")
ALWAYS = {"model", "scores", "table"}


def classified(n: int = 120, *, skill: float = 2.0, share: float = 0.5, classes: tuple[str, ...] = CLASSES) -> Scored:
    """Make up rows and probabilities that know the class by `skill`; `share` of the rows are of the last class."""
    random = np.random.default_rng(0)
    codes = np.sort(random.integers(len(classes) - 1, size=n))
    codes[: round(share * n)] = len(classes) - 1
    scores = random.normal(size=(n, len(classes)))
    scores[np.arange(n), codes] += skill
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    features = pd.DataFrame(random.normal(size=(n, 10)), columns=[f"f{place}" for place in range(10)])
    return Scored(np.array(classes, dtype=object)[codes], probabilities, np.arange(n) + 5, features)


def numbers(n: int = 120, noise: float = 0.5) -> Scored:
    random = np.random.default_rng(0)
    truth = 100 * random.normal(size=n)
    features = pd.DataFrame({"kind": pd.Categorical(["a", None] * (n // 2)), "size": truth})
    return Scored(truth, truth + 100 * noise * random.normal(size=n), np.arange(n), features)


def plain_story(scored: Scored, classes: tuple[str, ...] = CLASSES, **more: Any) -> FitStory:
    """Tell only what every fit has."""
    task = "classification" if classes else "regression"
    n, width = scored.features.shape
    facts = DatasetFacts("demo", task, n, width, 0, len(classes), 0.0, "demo.csv", "abc")
    members = (Member("LightGBM", "boosting", 1.0, f"8 fold models, together all {n} rows"),)
    return replace(FitStory(facts, "risk", classes, "log_loss" if classes else "mse", members, scored), **more)


def full_story(scored: Scored, classes: tuple[str, ...] = CLASSES, **more: Any) -> FitStory:
    """Tell all that there is to tell."""
    columns = [str(name) for name in scored.features.columns][:2]
    values = {name: scored.features[name].iloc[0] for name in columns}
    told: dict[str, Any] = {
        "members": (
            Member("LightGBM", "boosting", 0.75, "8 fold models, together all 120 rows", "learning_rate=0.1"),
            Member("Hopular", "deep", 0.25, "4 fold models, together all 120 rows"),
        ),
        "temperature": 1.25,
        "importance": pd.DataFrame({"column": columns, "importance": [0.31, 0.02], "low": [0.2, -0.01], "high": 0.4}),
        "uncertain": pd.DataFrame({"place": [3, 4]}) if classes else None,
        "wrong": pd.DataFrame({"place": [7, 8]}),
        "reliability": pd.DataFrame([(0.7, 0.6, 0.5, 0.8, 60), (0.9, 0.9, 0.8, 1.0, 60)]) if classes else None,
        "coverage": () if classes else (Coverage(0.9, 0.883, 164.5, 120),),
        "curve": ((5.0, 0.7), (12.0, 0.6), (55.0, 0.58)),
        "methods": (MethodRow("LightGBM", "boosting", 0.58, 14.0, 9, 0.75), MethodRow("kNN", "classical", 0.8, 1.0, 3)),
        "untried": (("TabM", "it needs 40 s for a first fit"),),
        "readings": (Reading(11, "yes", "no", values, (ReadRow(41, 0.625, "no", values),)),),
        "seconds": 60.0,
        "spent": (("start-up", 3.0), ("LightGBM", 45.0), ("report", 2.0)),
        "limits": ("kNN was left out: 12 ms for a row, and the limit is 5 ms.",),
        "command": "hopular fit demo.csv --target risk",
        "made_with": {"seed": "3"},
        "next_steps": (("hopular predict demo-model new.csv", "Predict new rows"),),
        "created": "2026-01-02T03:04:05+00:00",
    }
    return plain_story(scored, classes, **{**told, **more})


def words(page: str) -> str:
    body = re.sub(r"<(style|script)>.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body)))


def rows_of(page: str, table: str) -> list[list[str]]:
    """Return the cells of a table's body."""
    found = re.search(rf'<table[^>]*id="{table}".*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert found is not None, table
    rows = re.findall(r"<tr.*?</tr>", found[1], re.DOTALL)
    return [[words(cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in rows]


def sections(page: str) -> set[str]:
    found = set(re.findall(r'<section id="(\w+)"', page))
    assert set(re.findall(r'<li><a href="#(\w+)"', page)) == found  # the contents name them all
    return found


@pytest.mark.parametrize("is_regression", [False, True])
def test_scores_are_those_of_the_predictions_with_bootstrap_intervals(is_regression: bool) -> None:
    scored, classes = (numbers(), ()) if is_regression else (classified(), CLASSES)
    story = plain_story(scored, classes)
    task = story.facts.task
    shown = {row[0]: row[1:3] for row in rows_of(render_fit(story), "metrics")}
    found = evaluate(task, scored.truth, scored.predictions, classes or None)
    titles = {"rmse": "Root mean squared error", "mae": "Mean absolute error", "r2": "R²", "mse": "Mean squared error"}
    if not is_regression:
        titles = {"log_loss": "Log loss", "roc_auc": "ROC AUC (one-vs-rest)", "balanced_accuracy": "Balanced accuracy"}
    for name, title in titles.items():
        low, high = bootstrap(task, scored.truth, scored.predictions, classes or None, name)
        interval = f"{formatting.score(low)} to {formatting.score(high)}"
        assert shown[title] == [formatting.score(found[name]), interval]
    if not is_regression:
        assert shown["Accuracy"][0] == formatting.percent(found["accuracy"], 1)


def test_the_headline_says_model_target_score_and_how_it_came_about() -> None:
    scored = classified()
    headline, lead = describe_fit(plain_story(scored))
    share = evaluate("classification", scored.truth, scored.predictions, CLASSES)["accuracy"]
    assert headline.startswith(f"LightGBM predicts risk: right on {formatting.percent(share, 1)} of the rows (95 %")
    assert "Always saying “yes” would be right on 50.0 %." in lead
    assert "on all 120 rows, each predicted by models that had not seen it; no row scored a choice" in lead
    several = full_story(numbers(), ())
    headline, lead = describe_fit(several)
    rmse = evaluate("regression", several.scored.truth, several.scored.predictions)["rmse"]
    assert headline.startswith("An ensemble of LightGBM and Hopular predicts risk: root mean squared error")
    assert f"error {formatting.score(rmse)} (95 %" in headline
    assert f"the mean would have a root mean squared error of {formatting.score(several.scored.truth.std())};" in lead


def test_a_hold_out_is_the_score_and_stands_beside_out_of_fold() -> None:
    scored, holdout = classified(), classified(40, skill=0.5)
    page = render_fit(plain_story(scored, holdout=holdout))
    of_holdout = evaluate("classification", holdout.truth, holdout.predictions, CLASSES)
    of_folds = evaluate("classification", scored.truth, scored.predictions, CLASSES)
    assert f"right on {formatting.percent(of_holdout['accuracy'], 1)} of the rows" in words(page)
    assert "Scored on 40 rows set aside, which nothing had seen." in words(page)
    loss = next(row for row in rows_of(page, "metrics") if row[0] == "Log loss")
    assert loss[1] == formatting.score(of_folds["log_loss"])
    assert loss[3] == formatting.score(of_holdout["log_loss"])


def test_labels_count_for_the_metrics_of_labels_alone() -> None:
    scored = classified(share=0.9)
    labels = np.where(scored.predictions[:, 0] > 0.2, "no", "yes")
    story = plain_story(replace(scored, labels=labels), criterion="balanced_accuracy", multipliers={"no": 4, "yes": 1})
    page = render_fit(story)
    shown = {row[0]: row[1] for row in rows_of(page, "metrics")}
    assert shown["Accuracy"] == formatting.percent(float((labels == scored.truth).mean()), 1)
    by_probability = evaluate("classification", scored.truth, scored.predictions, CLASSES)
    assert shown["Log loss"] == formatting.score(by_probability["log_loss"])
    assert shown["Balanced accuracy"] != formatting.score(by_probability["balanced_accuracy"])
    assert "chosen for balanced accuracy: no × 4.00, yes × 1.00" in words(page)
    said_no = sum(int(row[1]) for row in rows_of(page, "confusion"))
    assert said_no == (labels == "no").sum()


def test_uneven_classes_bring_out_auc_and_balanced_accuracy() -> None:
    def heroes(share: float) -> list[str]:
        return re.findall(r'<tr class="hero"><th scope="row">([^<]+)', render_fit(plain_story(classified(share=share))))

    assert heroes(0.9) == ["ROC AUC (one-vs-rest)", "Balanced accuracy"]
    assert heroes(0.5) == ["Accuracy"]
    lead = describe_fit(plain_story(classified(share=0.9)))[1]
    assert "The classes are uneven, so that accuracy alone misleads: ROC AUC (one-vs-rest) 0." in lead


def test_the_confusion_matrix_counts_each_row_once() -> None:
    classes = ("a", "b", "c")
    scored = classified(90, skill=1.0, share=0.3, classes=classes)
    page = render_fit(plain_story(scored, classes))
    said = np.array(classes)[scored.predictions.argmax(axis=1)]
    for actual, row in zip(classes, rows_of(page, "confusion"), strict=True):
        counts = [int(((scored.truth == actual) & (said == guess)).sum()) for guess in classes]
        assert row[:5] == [actual, *map(str, counts), str(sum(counts))]
    errors = [int(row[2]) for row in rows_of(page, "confusions")]
    assert errors == sorted(errors, reverse=True)


def test_many_classes_have_a_list_of_confusions_in_place_of_a_matrix() -> None:
    classes = tuple(f"class {place}" for place in range(40))
    page = render_fit(plain_story(classified(800, skill=0.5, share=0.05, classes=classes), classes))
    assert 'id="confusion"' not in page
    assert len(rows_of(page, "confusions")) == 15


def test_doubtful_rows_have_their_number_in_the_file_and_their_most_important_values() -> None:
    scored = classified()
    importance = pd.DataFrame({"column": ["f9", "f3"], "importance": [2.0, 1.0], "low": [1.0, 0.5], "high": [3.0, 1.5]})
    page = render_fit(full_story(scored, importance=importance))
    first = rows_of(page, "wrong")[0]
    assert first[0] == str(5 + 7 + 1)  # its place in the file, counted from 1
    assert first[1] == scored.truth[7]
    assert first[5:] == [
        f"{scored.features[name][7]:.5g}".replace("-", "−") for name in ("f9", "f3", "f0", "f1", "f2", "f4", "f5", "f6")
    ]
    chance = scored.predictions[7][CLASSES.index(scored.truth[7])]
    assert first[4] == formatting.percent(float(chance), 1)
    page = render_fit(full_story(numbers(), ()))
    assert rows_of(page, "wrong")[0][4] == "–"  # a missing category
    assert 'id="uncertain"' not in page


def test_figures_of_importance_methods_receipt_coverage_and_readings() -> None:
    page = render_fit(full_story(classified()))
    text = words(page)
    for sentence in (
        "75 % 8 fold models, together all 120 rows learning_rate=0.1",
        "Temperature 1.25: probabilities are made less sure.",
        "0.310 0.200 to 0.400",
        "0.020 −0.010 to 0.400",
        "There was no time for 8 columns",
        "TabM it needs 40 s for a first fit",
        "Row 12: yes, Hopular says no",
        "42 62 % no",
        "kNN was left out: 12 ms for a row, and the limit is 5 ms.",
        "hopular predict demo-model new.csv",
        "2 January 2026, 03:04 UTC",
    ):
        assert sentence in text, sentence
    assert [row[0] for row in rows_of(page, "board")] == ["LightGBM", "kNN"]  # a lower loss is better
    assert [row[2:] for row in rows_of(page, "receipt")] == [["3.0 s", "6.0 %"], ["45 s", "90 %"], ["2.0 s", "4.0 %"]]
    assert "90 % 88.3 % 164.5 120" in words(render_fit(full_story(numbers(), ())))
    assert page.count('<svg class="bar"') == 2 + 3


def test_what_is_not_known_has_no_section() -> None:
    scored = classified()
    story = full_story(scored)
    everything = sections(render_fit(story))
    assert sections(render_fit(plain_story(scored))) == {*ALWAYS, "errors"}
    empty = plain_story(scored)
    for section, names in {
        "importance": ["importance"],
        "rows": ["uncertain", "wrong"],
        "progress": ["curve"],
        "methods": ["methods", "untried"],
        "readings": ["readings"],
        "time": ["spent", "limits"],
        "next": ["next_steps"],
        "provenance": ["command", "made_with"],
    }.items():
        without = replace(story, **{name: getattr(empty, name) for name in names})
        assert sections(render_fit(without)) == everything - {section}
    assert "coverage" in sections(render_fit(full_story(numbers(), ())))
    assert "Is it as sure as it is right?" not in words(render_fit(replace(story, reliability=None)))


@pytest.mark.parametrize("is_regression", [False, True])
def test_wicked_names_are_text(is_regression: bool, tmp_path: Path) -> None:
    classes = () if is_regression else (NASTY, "yes")
    scored = numbers() if is_regression else classified(classes=classes)
    features = scored.features.set_axis([NASTY, *scored.features.columns[1:]], axis=1).astype({NASTY: object})
    features[NASTY] = NASTY
    story = full_story(
        replace(scored, features=features),
        classes,
        target=NASTY,
        members=(Member(NASTY, "deep", 1.0, NASTY, NASTY),),
        untried=((NASTY, NASTY),),
        limits=(NASTY,),
        command=NASTY,
        next_steps=((NASTY, NASTY),),
        multipliers={NASTY: 2.0},
    )
    findings = (("serious", "leak", NASTY),)
    page = write_fit_report(
        replace(story, facts=replace(story.facts, name=NASTY, findings=findings)), tmp_path / "a" / "report.html"
    ).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert words(page).count("<script>alert") > 10


@pytest.mark.parametrize(
    ("scored", "count"), [(classified(24), 24), (classified(400, share=0.98), 16), (classified(29, share=0.6), 24)]
)
def test_few_effective_rows_are_warned_of(scored: Scored, count: int) -> None:
    assert effective_rows(scored.truth, "classification") == count
    assert any(f"The score rests on {count} rows" in sentence for sentence in warnings(plain_story(scored)))


def test_groups_count_as_one_row_each() -> None:
    assert effective_rows(numbers().truth, "regression", 12) == 12
    said = warnings(plain_story(numbers(), (), units=12))
    assert len(said) == 2
    assert "The score rests on 12 rows" in said[0]
    assert "The rows form 12 groups." in said[1]


def test_a_good_model_of_enough_rows_has_no_warning() -> None:
    assert warnings(plain_story(classified())) == []
    assert warnings(plain_story(numbers(), ())) == []


def test_a_model_no_better_than_a_constant_is_called_that() -> None:
    useless = warnings(plain_story(classified(skill=0.0)))
    assert useless == [
        "Within what chance explains, the model is no better than always saying “yes” (50.0 % of the rows): "
        "do not rely on it."
    ]
    assert "no better than always answering the mean" in warnings(plain_story(numbers(noise=1.2), ()))[0]
    shy = classified(400, share=0.9)  # ranks rows well, but never says "no"
    shy = replace(shy, predictions=shy.predictions * [0.1, 0.9] + [0.0, 0.1])
    shy = replace(shy, predictions=shy.predictions / shy.predictions.sum(axis=1, keepdims=True))
    assert "Its probabilities do tell rows apart" in " ".join(warnings(plain_story(shy)))
    proud = classified(400)
    sure = np.where(proud.predictions > 0.5, 1.0, 0.0)  # never in doubt, and sometimes wrong
    assert "rely on the class it says" in " ".join(warnings(plain_story(replace(proud, predictions=sure))))


def test_a_criterion_of_the_other_task_is_refused() -> None:
    with pytest.raises(InputError, match="'rmse' is no metric of classification"):
        plain_story(classified(), criterion="rmse")


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")
def test_a_browser_has_no_complaint_and_a_phone_does_not_scroll_sideways(tmp_path: Path) -> None:
    report = write_fit_report(full_story(classified(2_000)), tmp_path / "report.html")
    assert report.stat().st_size < 1_000_000
    with open_browser() as browser, faultless_page(browser, report, "dark") as page:
        page.locator("#board th button", has_text="Settings tried").click()
        assert page.locator("#board tbody th").first.inner_text() == "kNN"
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
