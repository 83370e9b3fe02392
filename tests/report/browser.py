"""A real browser for tests, and the pictures of the report in docs/.

To make them again: `with open_browser() as browser: take_screenshots(browser, Path("report.html"), Path("docs"))`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, sync_playwright

WIDE: ViewportSize = {"width": 1280, "height": 900}
CHROMIUM = shutil.which("chromium")
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Debian's Chromium, without a window and without talking to anyone."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def faultless_page(browser: Browser, report: Path, scheme: Literal["light", "dark"] = "light") -> Iterator[Page]:
    """Open a report on a wide screen; any complaint of the browser and any request to a network is an error."""
    page, problems = browser.new_page(viewport=WIDE, color_scheme=scheme), list[str]()

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if request.url.startswith("http") else None)
    page.goto(report.resolve().as_uri())
    yield page
    page.close()
    assert problems == []


def is_dark(page: Page) -> bool:
    """Tell if a page is shown on a dark background."""
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 3"
    return bool(page.evaluate(shade) < 60)


def column(page: Page, place: int) -> list[str]:
    """Return the values that a column of the leaderboard is sorted by, from the top down."""
    cells = page.locator(f"#board tbody tr > :nth-child({place})").all()
    return [cell.get_attribute("data-v") or "" for cell in cells]


def take_screenshots(browser: Browser, report: Path, folder: Path) -> list[Path]:
    """Take pictures of the top of a report in both colour schemes: report-light.png and report-dark.png."""
    made = []
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 1280, "height": 1500}, color_scheme=scheme)
        page.goto(report.resolve().as_uri())
        made.append(folder / f"report-{scheme}.png")
        page.screenshot(path=made[-1])
        page.close()
    return made
