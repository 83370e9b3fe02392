"""Numbers and dates as people write them: separated thousands, a decimal comma, a currency, a unit, the order of a day.

2.629 alone may be a fraction or two thousand. The numbers of its column, and then those of its file, tell which:

- Other numbers of the column settle it: 0.5 and 12.25 have a decimal point, 1.234.567 and 1.234,5 have thousands. So
  does a plain number from 1000 on, whose writer does not separate thousands.
- Where every number with a sign has three digits behind it, and the plain ones are the larger (968 beside 2.629, by
  their medians), the sign separates thousands.
- Amounts of money do not have three decimal places, so theirs are thousands.
- Otherwise the decimal sign that the rest of the file uses counts, and if it has none, the delimiter: thousands have
  dots after semicolons, and commas after anything else.

What only the delimiter tells, or what is against the rest of the file, is in doubt, and a note says so.

A date is read in the form that most dates of its column have. Between day and month a value above 12 decides; if there
is none, slashes are read month first, dots and dashes day first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

Array = np.ndarray[Any, np.dtype[Any]]
SIGNS = (".", ",")
_MONEY = "$€£¥₹₽₩₺₴₪฿¢"
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|TRY|RUB"
_AMOUNT = re.compile(rf".*[{_MONEY}].*|{_CODES}")
_BODY = r"(?:\d[\d.,]*|[.,]\d+)(?:[eE][+-]?\d+)?"
_WRITTEN = re.compile(
    rf"([+\-−]?) *((?:[A-Z]{{1,2}})?[{_MONEY}]|{_CODES})?\s*([+\-−]?{_BODY})\s*"
    rf"((?:[^\W\d_]|[%‰°{_MONEY}])[^\d\s.,;:+\-()'\"<>=|_\[\]]{{0,11}}[23]?)?"
)
_GROUPED = {sign: re.compile(rf"[+-]?[1-9]\d{{0,2}}{re.escape(sign)}\d{{3}}") for sign in SIGNS}
_PADDED = re.compile(r"[+-]?0\d")
_MARKS = frozenset({"", "?", "-", "--", ".", "na", "n/a", "#n/a", "nan", "null", "none", "missing", "unknown"})
_DATE = re.compile(r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3\d{2,4}|\d\d?[- ][a-z]{3,9}[- ]\d{2,4}|"
                   r"[a-z]{3,9} \d\d?,? \d{4})([T ].*)?", re.IGNORECASE)  # fmt: skip
_DAYS = ("%d.%m.%Y", "%m.%d.%Y", "%d-%m-%Y", "%m-%d-%Y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y.%m.%d",
         "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y")  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_FORMS = [day + clock for clock in _CLOCKS for day in _DAYS]
_STAND_INS = (0.0, 9.0, 99.0, 999.0)  # plain numbers that often stand for something else


@dataclass(frozen=True)
class NumberForm:
    """The way the numbers of a column are written: those like 1.234,5 kg with ',' and 'kg'.

    The other one of comma and point separates thousands. Without a decimal sign all numbers are plain digits.
    """

    decimal: str = ""
    unit: str = ""  # or currency, before or behind the number


Form = str | NumberForm  # of the dates of a column, as `strptime` takes it, or of its numbers


@dataclass(frozen=True)
class Style:
    """The notation of all numbers of a file, as far as it is known."""

    delimiter: str = ""  # empty where the file is not text
    decimal: str = ""  # the sign that is clearly a decimal one somewhere in the file
    told: str = ""  # the decimal sign that the sidecar gives


UNKNOWN = Style()


@dataclass(frozen=True)
class Guess:
    """The form of the numbers of a column, whether another is as likely, and the numbers by it."""

    form: NumberForm
    in_doubt: bool = False
    values: tuple[float, ...] = ()


def split_unit(text: str) -> tuple[str, str] | None:
    """Part a number, with its sign, from its unit or currency: '-$3,674.24' is ('-3,674.24', '$'); else None."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    sign, before, body, after = found.groups(default="")
    if sign and not body[0].isdigit() and body[0] not in SIGNS:
        return None  # two signs
    return f"{sign}{body}".replace("−", "-"), before + after


def read_number(text: str, form: NumberForm) -> float | None:
    """Return the number in a text that is written in a form, with the form's unit or none; None if it is not."""
    split = split_unit(text)
    return _value(split[0], form) if split and split[1] in ("", form.unit) else None


def guess_form(texts: Sequence[str], style: Style) -> Guess | None:
    """Find the form in which all texts are numbers with one unit at most, or None; the module says by which rules.

    Numbers with leading zeros are codes.
    """
    bodies, unit = [], ""
    for text in texts:
        split = split_unit(text)
        if split is None or is_padded(split[0]) or (unit and split[1] not in ("", unit)):
            return None
        bodies.append(split[0])
        unit = unit or split[1]
    if not bodies:
        return None
    guesses = [Guess(NumberForm(style.told, unit))] if style.told else []
    if (found := _guess(bodies, unit, style)) is not None:
        guesses.append(found)
    for guess in guesses:
        values = tuple(value for body in bodies if (value := _value(body, guess.form)) is not None)
        if len(values) == len(bodies):
            return replace(guess, values=values)
    return None


def is_doubtful(texts: Iterable[str], sign: str = ".") -> bool:
    """Tell whether some of the texts have the sign, and it may separate thousands in all of these."""
    found = False
    for text in texts:
        if sign in text:
            found = True
            if not _GROUPED[sign].fullmatch(text):
                return False
    return found


def _other(sign: str) -> str:
    return "," if sign == "." else "."


def _guess(bodies: Sequence[str], unit: str, style: Style) -> Guess | None:
    decimals: set[str] = set()
    thousands: set[str] = set()
    open_signs: set[str] = set()
    for body in bodies:
        signs = [sign for sign in SIGNS if sign in body]
        if len(signs) == 2:
            last = max(SIGNS, key=body.rindex)
            decimals.add(last)
            thousands.add(_other(last))
        elif signs and body.count(signs[0]) > 1:
            thousands.add(signs[0])
        elif signs:
            (open_signs if _GROUPED[signs[0]].fullmatch(body) else decimals).add(signs[0])
    if len(decimals) > 1 or len(thousands) > 1 or (not (decimals or thousands) and len(open_signs) > 1):
        return None
    if decimals or thousands:
        return Guess(NumberForm(decimals.pop() if decimals else _other(thousands.pop()), unit))
    if not open_signs:
        return Guess(NumberForm(unit=unit))
    sign = open_signs.pop()
    separates, in_doubt = _separates(sign, bodies, unit, style)
    return Guess(NumberForm(_other(sign) if separates else sign, unit), in_doubt)


def _separates(sign: str, bodies: Sequence[str], unit: str, style: Style) -> tuple[bool, bool]:
    """Decide whether a sign with three digits behind it everywhere separates thousands, and say if that is in doubt."""
    plain = [abs(float(body)) for body in bodies if sign not in body]
    if any(value >= 1000 for value in plain):
        return False, False
    as_fractions = [abs(float(body.replace(sign, "."))) for body in bodies if sign in body]
    plain = [value for value in plain if value not in _STAND_INS]
    if plain and median(plain) > median(as_fractions):
        return True, style.decimal == sign
    if _AMOUNT.fullmatch(unit):
        return True, style.decimal in ("", sign)
    if style.decimal:
        return style.decimal != sign, False
    return (style.delimiter == ";") == (sign == "."), style.delimiter != "," or sign == "."


def _value(body: str, form: NumberForm) -> float | None:
    mantissa, exponent, power = body.replace("E", "e").partition("e")
    if form.decimal:
        whole, _, fraction = mantissa.partition(form.decimal)
        first, *groups = whole.lstrip("+-").split(_other(form.decimal))
        if groups and (not 1 <= len(first) <= 3 or first.startswith("0") or any(len(group) != 3 for group in groups)):
            return None
        mantissa = f"{first}{''.join(groups)}.{fraction}"
        mantissa = f"-{mantissa}" if whole.startswith("-") else mantissa
    elif any(sign in mantissa for sign in SIGNS):
        return None
    try:
        return float(f"{mantissa}{exponent}{power}")
    except ValueError:
        return None


def is_mark(text: str) -> bool:
    """Tell whether a text stands for a missing value."""
    return text.strip("'\" ").lower() in _MARKS


def is_padded(text: str) -> bool:
    """Tell whether a text is a number with leading zeros, which is a code."""
    return _PADDED.match(text) is not None


def is_date(text: str) -> bool:
    """Tell whether a text looks like a date."""
    return _DATE.fullmatch(text) is not None


def plain_numbers(texts: tuple[str, ...]) -> tuple[Array, Array]:
    """Return the number of each text, NaN if there is none, and where that is bad: where the text is no mark either."""
    values = np.asarray(pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce"))
    return values, _bad(values, texts)


def _bad(values: Array, texts: tuple[str, ...]) -> Array:
    bad = np.isnan(values)
    bad[bad] = [not is_mark(texts[place]) for place in np.flatnonzero(bad)]
    return bad


def guess_dates(texts: tuple[str, ...]) -> tuple[Array, Array, str]:
    """Return seconds since 1970 and where they are bad, as `plain_numbers` does, and the form that most texts have."""
    few = list(islice(filter(is_date, texts), 3)) or texts[:3]
    forms = ["ISO8601"]
    if np.isnan(since_1970(few, "ISO8601")).any():
        clock = any(":" in text for text in few)
        forms += [f for f in _FORMS if ("%M" in f) == clock and not np.isnan(since_1970(few, f)).all()]
    read = {form: since_1970(texts, form) for form in forms}
    form = min(read, key=lambda form: int(np.isnan(read[form]).sum()))
    return read[form], _bad(read[form], texts), form


def since_1970(stamps: Any, form: str | None = None) -> Array:
    """Return seconds since 1970, in UTC if no zone is given; NaN for what is no date in the form."""
    read = pd.Series(pd.to_datetime(stamps, format=form, utc=True, errors="coerce")).dt.tz_localize(None)
    return np.asarray((read.to_numpy() - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
