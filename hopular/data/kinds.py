"""From a raw table to honest types: float64 for what is measured, a category of strings for what is named.

Every rule is a guess at what a column means, so each is simple, told in a note and overruled by `kinds`.

- Text loses the whitespace around it; empty text is missing. Text is a number if all of it reads as one or is a mark
  for missing values (MARKS), unless leading zeros show a code.
- Text is a date if NEARLY all distinct values have one form; the others are missing. Between day and month a value
  above 12 decides; if there is none, slashes are read month first, dots and dashes day first. Dates are seconds since
  1970 (in UTC if no zone is given), durations and times of day are seconds.
- Floats are continuous. Whole numbers are categorical if they look like codes: at most MAX_CODES values, each five
  times on average, less than CODE_RANGE apart, under a name that does not speak of counts or ages; else continuous.
  Floats that are all whole are whole numbers if some are missing: readers know no other way to write that.
- Left out, because they only tell rows apart: whole numbers that count the rows from 0 or 1; whole numbers that are
  all distinct under a name such as `id`; text that is NEARLY all distinct; text that is mostly distinct and has four
  words or more on average. Left out as well: columns without any value. Constant columns stay: the audit reports them.
- Everything else is categorical: numbers in their order, other names sorted, an ordered category as it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from hopular.data.dataset import Task
from hopular.data.errors import DataError, nearest

KINDS = ("continuous", "categorical", "date", "text", "id", "drop")  # the last three are left out
TASKS: tuple[Task, ...] = get_args(Task)
MARKS = frozenset({"", "?", "-", "--", ".", "na", "n/a", "#n/a", "nan", "null", "none", "missing", "unknown"})
NEARLY = 0.95
MAX_CODES, CODE_RANGE = 10, 20
MIN_IDS = 10  # fewer distinct values are no evidence of an id
MANY_CATEGORIES = 1_000  # worth a note
MAX_CLASSES, MANY_CLASSES = 20, 100

_ID = re.compile(r"(?i:(.*[_. -])?(id|idx|uuid|guid)|id[_. -].*|index|row([_ ]?(id|names?|num(ber)?))?|unnamed: \d+|)")
_CAMEL_ID = re.compile(r".*[a-z]I[dD]")
_COUNT = re.compile(r"(?i)\b(n|nr|no|nb|num|number|cnt|\w*(?<!ac)counts?|total|age|years?|months|days|hours|size)\b")
_WORD_END = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_PADDED = re.compile(r"[+-]?0\d")
_DATE = re.compile(r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3\d{2,4}|\d\d?[- ][a-z]{3,9}[- ]\d{2,4}|"
                   r"[a-z]{3,9} \d\d?,? \d{4})([T ].*)?", re.IGNORECASE)  # fmt: skip
_DAYS = ("%d.%m.%Y", "%m.%d.%Y", "%d-%m-%Y", "%m-%d-%Y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y.%m.%d",
         "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y")  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_FORMS = [day + clock for clock in _CLOCKS for day in _DAYS]

Array = np.ndarray[Any, np.dtype[Any]]
Note = Callable[[str], None]


@dataclass(frozen=True)
class _Raw:
    """A column as it was read: numbers, seconds, or for each row the place of its text in `names`, -1 if missing."""

    form: Literal["numbers", "dates", "durations", "text", "category", "ordered"]
    values: Array
    names: tuple[str, ...] = ()
    date_form: str = ""  # of dates that were text

    @property
    def named(self) -> bool:
        return self.form in ("text", "category", "ordered")

    @property
    def missing(self) -> Array:
        return cast(Array, self.values < 0 if self.named else np.isnan(self.values))


# ------------------------------------------------------------------------------------------------ features and target


def convert(
    frame: pd.DataFrame, kinds: Mapping[str, str] = {}, forms: dict[str, str] | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """The features of a raw table as float64 or category of strings, NaN where missing, and notes on what was done.

    `kinds` overrules the rules of this module for the columns that it names, with one of KINDS. `forms` receives the
    form of the dates of each column that has some as text.
    """
    names = [str(name) for name in frame.columns]
    _check(names, kinds)
    notes: dict[str, list[str]] = {}
    features: dict[str, Any] = {}
    plain = _plain(frame) - set(kinds)
    if len(plain) == len(names):
        return frame.set_axis(names, axis=1), []
    for place, name in enumerate(names):
        if name in plain:
            features[name] = frame[frame.columns[place]]
            continue
        said: list[str] = []
        feature, form = _feature(name, frame.iloc[:, place], kinds.get(name), said.append)
        if form and forms is not None:
            forms[name] = form
        for what in said:
            notes.setdefault(what, []).append(name)
        if feature is not None:
            features[name] = feature
    return pd.DataFrame(features, index=frame.index), [f"{what}: {_listed(where)}" for what, where in notes.items()]


def convert_target(column: pd.Series[Any], task: str | None = None) -> tuple[pd.Series[Any], Task, list[str]]:
    """The target as category of strings or float64, its task, and notes. No value may be missing.

    Without a task, text and booleans are classes, dates are not. Numbers are classes if they are whole, at most
    MAX_CLASSES and two rows of each on average; integers also below MANY_CLASSES if that is less than 5 % of the rows.
    """
    name, raw = str(column.name), _read_target(column, task)
    if missing := int(raw.missing.sum()):
        raise DataError(f"target {name!r} is missing in {missing} of {len(column)} rows: drop them")
    notes = []
    if task is None:
        task = "classification" if raw.named or _are_classes(raw) else "regression"
        if not raw.named:
            notes.append(f"task {task} was guessed from {len(pd.unique(raw.values))} distinct values of {name}")
    values = _numbers(name, raw) if task == "regression" else _category(raw)
    return pd.Series(values, index=column.index, name=name), cast(Task, task), notes


def missing_target(column: pd.Series[Any], task: str | None = None) -> Array:
    """Where `convert_target` would find the target missing; raises if it would refuse a value that is there."""
    raw = _read_target(column, task)
    return np.isnan(_numbers(str(column.name), raw)) if task == "regression" else raw.missing


def _plain(frame: pd.DataFrame) -> set[str]:
    """Columns of finite floats without a gap, about which there is nothing to decide: seen at once, for speed."""
    numbers = frame.select_dtypes(np.float64)
    whole = np.isfinite(numbers.to_numpy()).all(axis=0)
    return {str(name) for name in numbers.columns[whole]} if len(frame) else set()


def _check(names: list[str], kinds: Mapping[str, str]) -> None:
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError(f"more than one column is named {', '.join(twice)}: rename them")
    for name, kind in kinds.items():
        if name not in names:
            raise DataError(f"kinds names a column {name!r} that is not there.{nearest(name, names)}")
        if kind not in KINDS:
            known = f"it is one of {', '.join(KINDS)}.{nearest(str(kind), KINDS)}"
            raise DataError(f"unknown kind {kind!r} of column {name!r}: {known}")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _feature(name: str, column: pd.Series[Any], kind: str | None, note: Note) -> tuple[Any, str]:
    """The values of a feature, None if it is left out, and the form of its dates if they were text."""
    if kind in ("text", "id", "drop"):
        note(f"left out as {kind}, as asked")
        return None, ""
    raw = _read(name, column)
    if raw.missing.all():
        note("left out, no value in any row")
        return None, ""
    if kind is None:
        raw = _parsed(raw, note)
        kind = _guess(name, raw, note)
    if kind == "continuous":
        return _numbers(name, raw), raw.date_form
    if kind == "date":
        return _seconds(name, raw)
    return (_category(raw) if kind == "categorical" else None), ""


def _read_target(column: pd.Series[Any], task: str | None) -> _Raw:
    if task not in (None, *TASKS):
        raise DataError(f"unknown task {task!r}: it is one of {', '.join(TASKS)}.{nearest(str(task), TASKS)}")
    return _parsed(_read(str(column.name), column), dates=task != "classification")


# --------------------------------------------------------------------------------------------------------------- rules


def _guess(name: str, raw: _Raw, note: Note) -> str:
    if raw.named:
        if useless := _useless(raw):
            note(f"left out, looks like {useless} (give its kind to keep it)")
            return "drop"
        if len(raw.names) > MANY_CATEGORIES:
            note(f"kept with more than {MANY_CATEGORIES} categories")
        return "categorical"
    if raw.form == "numbers" and (whole := _whole(raw.values)) is not None:
        if _are_ids(name, raw.values):
            note("left out, looks like an id (give its kind to keep it)")
            return "drop"
        if _are_codes(name, whole):
            note("whole numbers with few values, taken as categories")
            return "categorical"
    return "continuous"


def _useless(raw: _Raw) -> str | None:
    """What the names are if there are so many that they say nothing but which row this is."""
    distinct, present = len(raw.names), int((~raw.missing).sum())
    if distinct < max(MIN_IDS, present / 2):
        return None
    if sum(len(name.split()) for name in raw.names) >= 4 * distinct:
        return "free text"
    return "an id" if distinct >= NEARLY * present else None


def _whole(values: Array) -> Array | None:
    """The present values if they are integers, or floats that may be so only because some are missing."""
    if values.dtype.kind in "iu":
        return values
    present = values[~np.isnan(values)]
    return present if len(present) < len(values) and bool((present == np.floor(present)).all()) else None


def _are_ids(name: str, values: Array) -> bool:
    if values.dtype.kind == "f" or len(values) < MIN_IDS:
        return False
    if int(values[0]) in (0, 1) and bool((values[1:] - values[:-1] == 1).all()):
        return True
    says_id = _ID.fullmatch(name.strip()) or _CAMEL_ID.fullmatch(name)
    return says_id is not None and len(pd.unique(values)) == len(values)


def _are_codes(name: str, values: Array) -> bool:
    if float(values.max()) - float(values.min()) >= CODE_RANGE:
        return False
    few = len(pd.unique(values)) <= min(MAX_CODES, len(values) / 5)
    return few and not _COUNT.search(_WORD_END.sub(" ", name))


def _are_classes(raw: _Raw) -> bool:
    values, whole = raw.values, raw.values.dtype.kind != "f"
    if raw.form != "numbers" or not (whole or bool((values == np.floor(values)).all())):
        return False
    distinct, rows = len(pd.unique(values)), len(values)
    return distinct <= min(MAX_CLASSES, rows / 2) or (whole and distinct < min(MANY_CLASSES, rows / 20))


# ------------------------------------------------------------------------------------------------------------- reading


def _read(name: str, column: pd.Series[Any]) -> _Raw:
    """A column of any type in one of the few forms of `_Raw`."""
    dtype: Any = column.dtype
    if isinstance(dtype, pd.SparseDtype):
        return _read(name, pd.Series(np.asarray(column)))
    if isinstance(dtype, pd.PeriodDtype):
        return _read(name, column.dt.to_timestamp())
    if isinstance(dtype, pd.CategoricalDtype):
        column = column.cat.remove_unused_categories()
        return _text(column.cat.codes, column.cat.categories, "ordered" if dtype.ordered else "category")
    if isinstance(dtype, pd.StringDtype) or dtype.kind == "U":
        return _text(*pd.factorize(column))
    if dtype.kind in "iuf":
        if isinstance(dtype, np.dtype) or not column.isna().any():
            return _Raw("numbers", column.to_numpy(f"{dtype.kind}8"))
        return _Raw("numbers", column.to_numpy(np.float64, na_value=np.nan))
    if dtype.kind == "M":
        return _Raw("dates", _since_1970(column))
    if dtype.kind == "m":
        return _Raw("durations", column.dt.total_seconds().to_numpy(np.float64, na_value=np.nan))
    return _read_objects(name, column.astype(object).to_numpy())


def _read_objects(name: str, values: Array) -> _Raw:
    values = np.where(pd.isna(values), np.array(None), values)
    for value in values:
        if not pd.api.types.is_scalar(value) or isinstance(value, complex):
            what = f"{value!r}, a {type(value).__name__}"
            raise DataError(f"column {name!r} holds {what}: make it numbers or text, or leave it out by kind 'drop'")
    found = pd.api.types.infer_dtype(values, skipna=True)
    if found in ("timedelta", "timedelta64", "time"):
        spans = pd.Series(values).astype("str") if found == "time" else pd.Series(values)
        return _Raw("durations", pd.to_timedelta(spans).dt.total_seconds().to_numpy(np.float64))
    return _text(np.arange(len(values)), values, "category" if found == "boolean" else "text")


def _text(codes: Any, values: Any, form: Literal["text", "category", "ordered"] = "text") -> _Raw:
    """Rows of values as rows of their names: equal names are one, and the empty name is missing."""
    names = ["" if value is None else _label(value) for value in values.tolist()]
    places = {name: place for place, name in enumerate(dict.fromkeys(filter(None, names)))}
    return _Raw(form, np.array([*(places.get(name, -1) for name in names), -1])[np.asarray(codes)], tuple(places))


def _label(value: Any) -> str:
    """The name of a value, the same for 1, 1.0 and '1'."""
    if isinstance(value, float | np.floating) and abs(number := float(value)) < 1e15 and number.is_integer():
        return str(int(number))
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return (text if text.isascii() else text.encode("utf-8", "replace").decode()).strip()


def _since_1970(stamps: Any, form: str | None = None) -> Array:
    read = pd.Series(pd.to_datetime(stamps, format=form, utc=True, errors="coerce")).dt.tz_localize(None)
    return np.asarray((read.to_numpy() - np.datetime64(0, "s")) / np.timedelta64(1, "s"))


def _parsed(raw: _Raw, note: Note = lambda what: None, dates: bool = True) -> _Raw:
    """Text as numbers or dates if it is that; everything else as it is."""
    if raw.form != "text" or not raw.names:
        return raw
    values, bad = _as_numbers(raw.names)
    if not bad.any() and not np.isnan(values).all() and not any(map(_PADDED.match, raw.names)):
        note("text read as numbers")
        return _Raw("numbers", _spread(values, raw))
    sample = [raw.names[place] for place in np.flatnonzero(bad)[:100]]
    if dates and sum(_DATE.fullmatch(name) is not None for name in sample) >= max(NEARLY * len(sample), 1):
        values, bad, form = _as_dates(raw.names)
        if bad.mean() <= 1 - NEARLY:
            note(f"text read as dates ({form})" + ", unreadable values are missing" * bool(bad.any()))
            return _Raw("dates", _spread(values, raw), date_form=form)
    return raw


def _as_numbers(names: tuple[str, ...]) -> tuple[Array, Array]:
    """The number of each name, NaN if there is none, and where that is bad: where the name is none of MARKS either."""
    values = np.asarray(pd.to_numeric(pd.Series(names, dtype=object), errors="coerce"))
    return values, _bad(values, names)


def _bad(values: Array, names: tuple[str, ...]) -> Array:
    bad = np.isnan(values)
    bad[bad] = [names[place].strip("'\" ").lower() not in MARKS for place in np.flatnonzero(bad)]
    return bad


def _as_dates(names: tuple[str, ...]) -> tuple[Array, Array, str]:
    """The same for dates, in the form that most names have (the first one of equals), and that form."""
    few = list(islice(filter(_DATE.fullmatch, names), 3)) or names[:3]
    forms = ["ISO8601"]
    if np.isnan(_since_1970(few, "ISO8601")).any():
        clock = any(":" in name for name in few)
        forms += [f for f in _FORMS if ("%M" in f) == clock and not np.isnan(_since_1970(few, f)).all()]
    read = {form: _since_1970(names, form) for form in forms}
    form = min(read, key=lambda form: int(np.isnan(read[form]).sum()))
    return read[form], _bad(read[form], names), form


def _spread(values: Array, raw: _Raw) -> Array:
    """The value of each row from the values of the names."""
    return np.append(values.astype(np.float64), np.nan)[raw.values] if raw.missing.any() else values[raw.values]


# ------------------------------------------------------------------------------------------------------------- writing


def _numbers(name: str, raw: _Raw) -> Array:
    if raw.named:
        truths = {"False": "0", "True": "1"}
        values, bad = _as_numbers(tuple(truths[n] for n in raw.names) if truths.keys() >= set(raw.names) else raw.names)
        _refuse(name, raw, bad, "continuous", "number")
        raw = _Raw("numbers", _spread(values, raw))
    if infinite := int(np.isinf(raw.values).sum()):
        raise DataError(f"column {name!r} has {infinite} infinite values: replace or remove them")
    return raw.values.astype(np.float64)


def _seconds(name: str, raw: _Raw) -> tuple[Array, str]:
    raw = _named(raw) if raw.form == "numbers" else raw
    if not raw.named:
        return raw.values, ""
    values, bad, form = _as_dates(raw.names)
    _refuse(name, raw, bad, "date", "date")
    return _spread(values, raw), form


def _refuse(name: str, raw: _Raw, bad: Array, kind: str, noun: str) -> None:
    if bad.any():
        row = int(np.argmax(np.append(bad, False)[raw.values]))
        value = raw.names[raw.values[row]]
        raise DataError(f"column {name!r} cannot be {kind}: {value!r} in data row {row + 1} is no {noun}")


def _named(raw: _Raw) -> _Raw:
    if raw.named:
        return raw
    codes, distinct = pd.factorize(raw.values)
    return _text(codes, distinct.astype("M8[s]") if raw.form == "dates" else distinct)


def _category(raw: _Raw) -> pd.Categorical:
    raw = _named(raw)
    order = list(range(len(raw.names)))
    if raw.form != "ordered":
        values = _as_numbers(raw.names)[0]
        keys: Any = raw.names if np.isnan(values).any() else list(zip(values, raw.names, strict=True))
        order.sort(key=keys.__getitem__)
    rank = np.argsort(np.array([*order, len(order)]))  # the place of each name in the order
    rank[-1] = -1
    return pd.Categorical.from_codes(rank[raw.values], pd.Index([raw.names[place] for place in order], dtype="str"))
