"""Finding: one thing that an audit has to say, and the words and numbers it is said with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the worst first


@dataclass(frozen=True)
class Finding:
    """One problem or oddity: the check that found it, how bad it is, and a sentence with the numbers."""

    check: str
    severity: Severity
    sentence: str
    columns: tuple[str, ...] = ()  # those concerned, all of them
    split: str | None = None  # id of the split concerned, or of the worst one


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, then by check."""
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.check, f.columns, f.split or ""))


def percent(share: float, digits: int | None = None) -> str:
    """A share in percent, with a digit after the point where it matters."""
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    if 0.9995 <= share < 1:
        return "more than 99.9 %"
    if digits is None:
        digits = 1 if 0 < share < 0.0995 or 0.99 <= share < 1 else 0
    return f"{share:z.{digits}%}".replace("%", " %")


def of(count: int, total: int, what: str) -> str:
    """'3 of 12 rows (25 %)'."""
    return f"{count:,} of {total:,} {what} ({percent(count / total)})"


def verb(count: int, one: str, many: str) -> str:
    """The form of a verb, or of anything else, that goes with a count."""
    return one if count == 1 else many


def listing(names: Sequence[str], limit: int = 5) -> str:
    """Names in quotes, the first few of them."""
    return shortened([f"'{name}'" for name in names], limit)


def shortened(words: Sequence[str], limit: int = 5) -> str:
    """The first few words, and how many more there are."""
    words = list(words)
    if len(words) > limit + 1:
        words = [*words[:limit], f"{len(words) - limit:,} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
