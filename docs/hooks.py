"""MkDocs calls this while it builds: some pages are made of what the code says of itself."""

from __future__ import annotations

import inspect
import re
from io import StringIO
from typing import Any

from rich.console import Console


def on_page_markdown(markdown: str, **_: Any) -> str:
    for place, make in PLACES.items():
        if place in markdown:
            markdown = markdown.replace(place, make())
    return markdown


def help_of_commands() -> str:
    """Write a section per command, in the order of `hopular --help`."""
    from hopular.cli import COMMANDS, app

    sections = [f"```text\n{_printed(app, [])}```"]
    for command, _ in COMMANDS:
        sections.append(f"## hopular {command.__name__}\n\n```text\n{_printed(app, [command.__name__])}```")
    return "\n\n".join(sections)


def _printed(app: Any, words: list[str]) -> str:
    output = StringIO()
    app.help_print(words, console=Console(file=output, width=80, highlight=False, color_system=None))
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines()) + "\n"


def parameters_of_estimators() -> str:
    """Write a row per entry of the docstring with the default values; some entries name several parameters."""
    from hopular.model.estimator import HopularEstimator

    entries = inspect.getdoc(HopularEstimator).partition("----------\n")[2]  # type: ignore[union-attr]
    signature = inspect.signature(HopularEstimator).parameters
    rows = ["| parameters | default | meaning |", "|---|---|---|"]
    for line, text in re.findall(r"^(\w.*)\n((?:    .*\n?)+)", entries, re.M):
        names = line.split(", ")
        defaults = [f"`{signature[name].default!r}`" for name in names]
        cells = [", ".join(f"`{name}`" for name in names), ", ".join(defaults), " ".join(text.split())]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


PLACES = {
    "<!-- the help of every command -->": help_of_commands,
    "<!-- the parameters of the estimators -->": parameters_of_estimators,
}
