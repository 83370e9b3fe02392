"""Just enough SVG: elements with escaped text, scales and round tick values.

Colours come from the page's style sheet by class, so that one drawing serves light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


def element(tag: str, *content: str, **attributes: str | float) -> str:
    """One element; content is markup already. `class_` becomes class, and `stroke_width` stroke-width."""
    pairs = "".join(f' {name.rstrip("_").replace("_", "-")}="{_plain(value)}"' for name, value in attributes.items())
    return f"<{tag}{pairs}>{''.join(content)}</{tag}>" if content else f"<{tag}{pairs}/>"


def text(words: str, x: float, y: float, **attributes: str | float) -> str:
    """A label; its words are escaped."""
    return element("text", escape(words), x=x, y=y, **attributes)


def hint(words: str) -> str:
    """What a pointer that rests on the element around it is told."""
    return element("title", escape(words))


def drawing(width: float, height: float, label: str, content: Iterable[str], class_: str = "plot") -> str:
    """A picture with a description for those who cannot see it."""
    return element(
        "svg", *content, class_=class_, viewBox=f"0 0 {_plain(width)} {_plain(height)}", role="img", aria_label=label
    )


def path(points: Iterable[tuple[float, float]]) -> str:
    """The `d` of a line through points."""
    return "M" + "L".join(f"{_plain(x)} {_plain(y)}" for x, y in points)


def _plain(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True)
class Scale:
    """From values to places; `is_log` for quantities that span orders of magnitude."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log10(x) if self.is_log else x for x in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """About five round values within the scale."""
        if not self.is_log:
            return _round_ticks(self.low, self.high)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for bases in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
            every = [base * 10.0**power for power in powers for base in bases]
            inside = [value for value in every if self.low <= value <= self.high]
            if len(inside) >= 3:
                break
        return inside


def span(values: Sequence[float], margin: float = 0.06, *, is_log: bool = False) -> tuple[float, float]:
    """The range of values with some room around them; equal values get room too."""
    low, high = min(values), max(values)
    if is_log:
        room = max((high / low) ** margin, 1.3)
        return low / room, high * room
    room = (high - low) * margin or abs(high) * margin or 1.0
    return low - room, high + room


def _round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(base * power for base in (1, 2, 2.5, 5, 10) if base * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(place * step, 12) for place in range(first, math.floor(high / step + 1e-9) + 1)]
