"""Templates of the pages, each of which becomes one HTML file that needs no network and no other file."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from hopular import formatting
from hopular.report.leaderboard import OURS

if TYPE_CHECKING:
    from jinja2 import Environment, Template

FOLDER = Path(__file__).parent


def load_template(name: str) -> Template:
    """Read a template beside this file, which has the style, the script and the formatting of all pages at hand."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined)
    environment.tests["finite"] = math.isfinite
    environment.globals |= {
        "formatting": formatting,
        "moment": moment,
        "nan": math.nan,
        "ours": OURS,
        "css": Markup((FOLDER / "page.css").read_text(encoding="utf-8")),
        "js": Markup((FOLDER / "page.js").read_text(encoding="utf-8")),
    }
    return environment


def in_two(text: str) -> tuple[str, str]:
    """Return the first sentence, which is the title of a page, and what follows it."""
    first, *rest = re.split(r"(?<=\.) (?=[A-Z0-9])", text, maxsplit=1)
    return first, "".join(rest)


def moment(created: str) -> str:
    """Write a moment as people do; what is not a time stays as it is."""
    try:
        parsed = datetime.fromisoformat(created)
    except ValueError:
        return created
    utc = parsed.astimezone(UTC) if parsed.tzinfo else parsed
    return f"{utc.day} {utc:%B %Y, %H:%M}{' UTC' if parsed.tzinfo else ''}"
