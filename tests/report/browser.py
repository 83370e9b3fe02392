"""A real browser for tests, and the pictures of the report in docs/.

To make them again: `with open_browser() as browser: take_screenshots(browser, Path("report.html"), Path("docs"))`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium")
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window and without talking to anyone."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        try:
            yield browser
        finally:
            browser.close()


def take_screenshots(browser: Browser, report: Path, folder: Path) -> list[Path]:
    """The top of a report in both colour schemes, as report-light.png and report-dark.png."""
    made = []
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 1280, "height": 1500}, color_scheme=scheme)
        page.goto(report.resolve().as_uri())
        made.append(folder / f"report-{scheme}.png")
        page.screenshot(path=made[-1])
        page.close()
    return made
