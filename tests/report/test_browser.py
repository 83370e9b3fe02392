"""The report in a real browser: no errors, sorting, both colour schemes, a phone, print, and copying."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install 'hopular[test]'")

from playwright.sync_api import Browser, Page

from hopular.evaluation.compare import compare
from hopular.evaluation.verdict import Standings
from hopular.report.page import write_report
from tests.report.browser import CHROMIUM, WIDE, column, faultless_page, is_dark, open_browser, take_screenshots
from tests.report.synthetic import make_results

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")

PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("catboost", "hopular", "xgboost", "lightgbm", "random_forest", "npt", "knn", "majority")
    results = make_results(8, names, failed=((1, "npt"),), doubtful=(2,), regression=(3,), nasty=True)
    changes = compare(make_results(7, names, seed=3, regression=(3,), nasty=True), results)
    return write_report(Standings(results), tmp_path_factory.mktemp("report") / "report.html", changes=changes)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    with faultless_page(browser, report) as page:
        yield page


def test_it_opens_with_a_headline_and_runs_no_foreign_script(page: Page) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.reload()
    assert "Hopular" in page.title()
    assert page.locator("h1").inner_text().endswith(".")
    assert dialogs == []


def test_the_leaderboard_sorts_by_numbers_and_by_words(page: Page) -> None:
    heading = page.locator("#board th", has_text="Training")
    place = heading.evaluate("cell => cell.cellIndex + 1")
    heading.locator("button").click()
    values = [float(value) for value in column(page, place)]
    assert values == sorted(values)
    assert heading.get_attribute("aria-sort") == "ascending"
    assert page.locator("#board th[aria-sort=ascending]").count() == 1
    heading.locator("button").click()
    assert [float(value) for value in column(page, place)] == values[::-1]
    assert heading.get_attribute("aria-sort") == "descending"
    page.locator("#board th button", has_text="Method").click()
    titles = column(page, 2)
    assert titles == sorted(titles, key=str.casefold)


def test_columns_where_more_is_better_start_with_the_best(page: Page) -> None:
    heading = page.locator("#board th", has_text="Wins")
    heading.locator("button").click()
    values = [float(value) for value in column(page, heading.evaluate("cell => cell.cellIndex + 1"))]
    assert values == sorted(values, reverse=True)


def test_the_keyboard_sorts_too(page: Page) -> None:
    heading = page.locator("#board th", has_text="Median rank")
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Space")
    assert heading.get_attribute("aria-sort") == "descending"


def test_what_is_unknown_stays_last(page: Page) -> None:
    page.evaluate("document.querySelector('#board tbody tr').cells[0].dataset.v = ''")
    button = page.locator("#board th button").first
    for _ in range(2):
        button.click()
        values = column(page, 1)
        assert values[-2:] == ["", ""]  # the one above, and a method that has no place
        assert "" not in values[:-2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_and_the_switch(browser: Browser, report: Path, scheme: Literal["light", "dark"]) -> None:
    with faultless_page(browser, report, scheme) as page:
        for expected in (scheme == "dark", scheme != "dark", scheme == "dark"):
            assert is_dark(page) == expected
            page.locator("#theme").click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(browser: Browser, report: Path, scheme: str) -> None:
    page = browser.new_page(viewport=WIDE, color_scheme=scheme)
    page.goto(report.as_uri())
    found = page.evaluate(
        """() => {
          const light = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((v) => {
              const s = v / 255;
              return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const back = light(getComputedStyle(document.body).backgroundColor);
          return ["h1", ".meta", "#board tbody th", "#board thead th", "tr.hero th", ".failed", "nav a"].map((name) => {
            const front = light(getComputedStyle(document.querySelector(name)).color);
            return [name, (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05)];
          });
        }"""
    )
    assert {name: ratio for name, ratio in found if ratio < 4.5} == {}
    page.close()


def test_a_phone_does_not_scroll_sideways(browser: Browser, report: Path) -> None:
    page = browser.new_page(viewport=PHONE, color_scheme="light")
    page.goto(report.as_uri())
    page.locator("#open-all").click()
    assert page.locator("details.dataset[open]").count() == 8
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.locator("h1").bounding_box()["width"] <= PHONE["width"]  # type: ignore[index]
    page.close()


def test_a_link_to_a_dataset_opens_it(page: Page) -> None:
    assert page.locator("#dataset-2").get_attribute("open") is None
    page.locator("nav.contents a[href='#dataset-2']").click()
    page.wait_for_selector("#dataset-2[open]")
    assert page.locator("#dataset-2 .facts").is_visible()


def test_settings_and_tables_can_be_copied(browser: Browser, report: Path) -> None:
    context = browser.new_context(viewport=WIDE, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(report.as_uri())
    page.locator("button[data-copy=copy-Markdown]").click()
    page.wait_for_selector("button[data-copy=copy-Markdown]:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()").startswith("| # | Method |")
    page.evaluate("for (const item of document.querySelectorAll('#dataset-1, #dataset-1 details')) item.open = true")
    page.locator("#dataset-1 .params + td button").first.click()
    page.wait_for_selector("#dataset-1 button:has-text('Copied')")
    copied = page.evaluate("JSON.parse(await navigator.clipboard.readText())".join(("(async () => ", ")()")))
    assert copied["kind"] == "</script>"
    context.close()


def test_print_is_on_white_shows_every_dataset_and_no_buttons(page: Page) -> None:
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("#theme").is_hidden()
    assert page.locator("nav.contents").is_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.dataset[open]").count() == 8
    assert len(page.pdf()) > 20_000
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.dataset[open]").count() == 0


def test_screenshots(browser: Browser, report: Path, tmp_path: Path) -> None:
    made = take_screenshots(browser, report, tmp_path)
    assert [path.name for path in made] == ["report-light.png", "report-dark.png"]
    assert all(10_000 < path.stat().st_size < 300_000 for path in made)
