"""Schema: how the raw columns of a table become typed values. It is learned once, from the rows of a table, and applied
to new rows; files, predictions and served models all read their columns here.

Learning makes float64 of what is measured, a category of strings of what is named, and datetime64 of dates. A date
stays one column; estimators see its parts, such as the weekday (`hopular.data.dates`).
Every rule is a guess at what a column means, so each is simple, told in a note and overruled by `kinds`:

- Text loses the whitespace around it; empty text is missing. Text is a number if all of it reads as one or is a mark
  for missing values, unless leading zeros show a code. It may have separated thousands, a decimal comma, and a
  currency or unit, the same everywhere (see `notation`). Categories keep them as they are.
- Text is a date if nearly all distinct values have one form; the others are missing. Dates are in UTC if no zone is
  given, durations and times of day are seconds.
- Floats are continuous. Whole numbers are categorical if they look like codes: at most ten values, each five times on
  average, less than twenty apart, under a name that does not speak of counts or ages; else continuous.
  Floats that are all whole are whole numbers if some are missing: readers know no other way to write that.
- Left out, because they only tell rows apart: whole numbers that count the rows from 0 or 1; whole numbers that are
  all distinct under a name such as `id`; text that is nearly all distinct; text that is mostly distinct and has four
  words or more on average. Left out as well: columns without any value. Constant columns stay: the audit reports them.
- Everything else is categorical: numbers in their order, other names sorted, an ordered category as it was.

Applying reads new rows in the same way, whatever the other new rows are: what 2.629 or 03/06/2024 means is known from
training. A column that the schema knows must be there. What it cannot know is missing: categories it has never seen,
and dates in another form than in training.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from hopular.data.dataset import DATE, DataError, Dataset, Task, kind_of
from hopular.data.notation import (
    UNKNOWN,
    Array,
    Form,
    NumberForm,
    Style,
    guess_dates,
    guess_form,
    is_date,
    is_doubtful,
    is_mark,
    is_padded,
    plain_numbers,
    read_number,
    since_1970,
    split_unit,
)
from hopular.formatting import plural, some
from hopular.util import did_you_mean

KINDS = ("continuous", "categorical", "date", "text", "id", "drop")  # the last three are left out
TASKS: tuple[Task, ...] = get_args(Task)
_USED = KINDS[:3]
_NEARLY = 0.95  # share of distinct values
_MOSTLY = 0.5  # if this share of rows has a number, the values that are none are worth a note
_MAX_CODES, _CODE_RANGE = 10, 20  # distinct whole numbers that are codes, and how far apart
_MIN_IDS = 10  # fewer distinct values are no evidence of an id
_MANY_CATEGORIES = 1_000  # worth a note
_MAX_CLASSES, _MANY_CLASSES = 20, 100  # distinct numbers that are classes; whole ones in a large table

_ID = re.compile(r"(?i:(.*[_. -])?(id|idx|uuid|guid)|id[_. -].*|index|row([_ ]?(id|names?|num(ber)?))?|unnamed: \d+|)")
_CAMEL_ID = re.compile(r".*[a-z]I[dD]")
_COUNT = re.compile(r"(?i)\b(n|nr|no|nb|num|number|cnt|\w*(?<!ac)counts?|total|age|years?|months|days|hours|size)\b")
_WORD_END = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_SIGN_NAMES = {".": "dots", ",": "commas"}
_PLAIN = "text read as numbers"

Note = Callable[[str], None]


@dataclass(frozen=True)
class Column:
    """A feature: its kind, and the categories or the form of dates or numbers that it had when it was learned."""

    name: str
    kind: Literal["continuous", "categorical", "date"]
    categories: tuple[str, ...] = ()
    form: Form = ""  # of dates or numbers written as text


@dataclass(frozen=True)
class Schema:
    """All that is needed to read a table as the training table was read."""

    columns: tuple[Column, ...]
    target: str
    task: Task
    classes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # further codes for missing values, in all columns

    @staticmethod
    def of(dataset: Dataset) -> Schema:
        """Return the schema that a dataset was read by."""
        columns = columns_of(dataset.X, dataset.forms)
        return Schema(columns, str(dataset.y.name), dataset.task, tuple(dataset.classes), dataset.missing_codes)

    def apply(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
        """Return the features of new rows with their types, and notes on what was ignored or counts as missing."""
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        names = [column.name for column in self.columns]
        lacking = [name for name in names if name not in frame.columns]
        if lacking:
            others = [name for name in frame.columns if name not in names]
            hint = did_you_mean(lacking[0], others)
            raise DataError(f"the model needs {some(lacking, 8)}, not among the columns of the new rows.{hint}")
        notes = []
        extra = [name for name in frame.columns if name not in names and name != self.target]
        if extra:
            notes.append(f"ignored, as the model does not use it: {some(extra, 8)}")
        known = without_codes(frame[names], self.missing)
        features = {column.name: _apply(column, known[column.name], notes) for column in self.columns}
        return pd.DataFrame(features, index=frame.index), notes

    def read_truth(self, values: Any) -> pd.Series[Any]:
        """Return true values of the target as a model predicts them, text for classes; NaN where they are missing."""
        column = pd.Series(values.to_numpy() if isinstance(values, pd.Series) else np.asarray(values), name=self.target)
        known = without_codes(column.to_frame(), self.missing)
        if known[self.target].isna().all():
            return known[self.target]
        kind = "categorical" if self.task == "classification" else "continuous"
        learned = learn_features(known, {self.target: kind}).X
        if self.target not in learned:  # blank in all rows
            return pd.Series(np.nan, index=known.index, name=self.target)
        return learned[self.target].astype(object) if kind == "categorical" else learned[self.target]

    def to_json(self) -> dict[str, Any]:
        """Return the schema as values that JSON has."""
        return cast(dict[str, Any], json.loads(json.dumps(asdict(self))))

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Schema:
        """Read what `to_json` returned."""
        columns = tuple(
            Column(**{**column, "categories": tuple(column["categories"]), "form": form_from_json(column["form"])})
            for column in values["columns"]
        )
        for column in columns:
            if column.kind not in _USED:
                raise ValueError(f"column {column.name!r} has the kind {column.kind!r}, not one of {', '.join(_USED)}")
        texts = {name: tuple(values[name]) for name in ("classes", "missing")}
        return Schema(columns=columns, target=values["target"], task=values["task"], **texts)


def form_from_json(value: Any) -> Form:
    """Read the form of a column's dates or numbers."""
    return NumberForm(**value) if isinstance(value, dict) else str(value)


def columns_of(X: pd.DataFrame, forms: Mapping[str, Form] = {}) -> tuple[Column, ...]:
    """Describe features that have their types; `forms` are those of dates and numbers that were text."""
    columns = []
    for name, dtype in X.dtypes.items():
        form = forms.get(str(name), "")
        if isinstance(dtype, pd.CategoricalDtype):
            columns.append(Column(str(name), "categorical", tuple(dtype.categories)))
        else:
            columns.append(Column(str(name), kind_of(dtype), form=form))
    return tuple(columns)


def without_codes(frame: pd.DataFrame, codes: Sequence[str | int | float]) -> pd.DataFrame:
    """Return the table with NaN for codes: a number in any notation, or text, whatever whitespace is around it."""
    if not codes:
        return frame
    texts = {str(code).strip() for code in codes}
    numbers = set(pd.to_numeric(pd.Series(list(texts), dtype=object), errors="coerce").dropna())
    columns = {}
    for name, column in frame.items():
        coded = column.isin(numbers) if pd.api.types.is_numeric_dtype(column.dtype) else column.isin(texts)
        if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
            text = column.astype("str").str.strip()
            coded |= text.isin(texts) | pd.to_numeric(text, errors="coerce").isin(numbers)
        columns[name] = column.mask(coded) if coded.any() else column
    return pd.DataFrame(columns, index=frame.index)


# ------------------------------------------------------------------------------------------------------------ applying


def _apply(column: Column, values: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    if column.kind == "categorical":
        return _known_categories(column, values, notes)
    if values.isna().all():
        return pd.Series(np.nan, index=values.index, dtype=DATE if column.kind == "date" else np.float64)
    is_text = pd.api.types.infer_dtype(values, skipna=True) == "string"
    if column.kind == "date" and column.form and is_text:
        return _known_dates(column, values, notes)
    if column.kind == "date":
        return _learned(column, values, "date", notes)[0]
    if isinstance(column.form, NumberForm) and is_text and (numbers := read_numbers(values, column.form)) is not None:
        return numbers
    try:
        return _other_numbers(column, values, notes)
    except DataError as error:
        try:
            # dates whose time since 1970 alone is wanted
            dates = _learned(column, values, "date", notes)[0]
            return pd.Series(since_1970(dates), index=values.index)
        except DataError:
            raise error from None


def _other_numbers(column: Column, values: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Read numbers in another form than in training, or in one that training could not tell; never in another unit."""
    numbers, forms = _learned(column, values, "continuous", notes)
    trained, found = (
        form.unit if isinstance(form, NumberForm) else "" for form in (column.form, forms.get(column.name))
    )
    if trained and found not in ("", trained):
        raise DataError(f"column {column.name!r} is in {found!r}, and was in {trained!r} when the model was trained")
    return numbers


def _known_categories(column: Column, values: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    found = values if values.isna().all() else _learned(column, values, "categorical", notes)[0]
    known = found.astype("str").where(found.notna() & found.isin(column.categories))
    unseen = found[found.notna() & known.isna()]
    if len(unseen):
        notes.append(f"{column.name}: {_counted(unseen)} missing, new to the model")
    return known.astype(pd.CategoricalDtype(list(column.categories)))


def _known_dates(column: Column, values: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Read dates as text, in the form they had in training."""
    seconds = since_1970(values, str(column.form))
    unread = values[values.notna() & np.isnan(seconds)]
    if len(unread):
        notes.append(f"{column.name}: {_counted(unread)} missing, not written as {column.form}")
    return pd.Series(_dates(seconds), index=values.index)


def _learned(
    column: Column, values: pd.Series[Any], kind: str, notes: list[str]
) -> tuple[pd.Series[Any], Mapping[str, Form]]:
    learned = learn_features(values.to_frame(), {column.name: kind})
    notes += learned.notes
    return learned.X[column.name], learned.forms


def _counted(values: pd.Series[Any]) -> str:
    """Return a count as '2 values (red, blue) count as'."""
    return f"{plural(len(values), 'value')} ({some(list(values.unique()), 8)}) count{'s' * (len(values) == 1)} as"


# ------------------------------------------------------------------------------------------------------------ learning


@dataclass(frozen=True, eq=False)
class Learned:
    """Features with their types, the forms of those that were text, and notes on what was done."""

    X: pd.DataFrame
    forms: Mapping[str, Form]
    notes: tuple[str, ...]


def learn_features(frame: pd.DataFrame, kinds: Mapping[str, str] = {}, style: Style = UNKNOWN) -> Learned:
    """Learn the features of a raw table by the rules of this module.

    `kinds` overrules them for the columns that it names, with one of KINDS. `style` is what is known of the file's
    numbers.
    """
    names = [str(name) for name in frame.columns]
    _check(names, kinds)
    notes: dict[str, list[str]] = {}
    features: dict[str, Any] = {}
    forms: dict[str, Form] = {}
    plain = _plain(frame) - set(kinds)
    if len(plain) == len(names):
        return Learned(frame.set_axis(names, axis=1), {}, ())
    for place, name in enumerate(names):
        if name in plain:
            features[name] = frame[frame.columns[place]]
            continue
        said: list[str] = []
        feature, form = _feature(name, frame.iloc[:, place], kinds.get(name), said.append, style)
        if form is not None:
            forms[name] = form
        for what in said:
            notes.setdefault(what, []).append(name)
        if feature is not None:
            features[name] = feature
    X = pd.DataFrame(features, index=frame.index)
    return Learned(X, forms, tuple(f"{what}: {some(where, 20)}" for what, where in notes.items()))


def learn_target(
    column: pd.Series[Any], task: str | None = None, style: Style = UNKNOWN
) -> tuple[pd.Series[Any], Task, list[str]]:
    """Return the target as category of strings or float64, its task, and notes. No value may be missing.

    Without a task, text and booleans are classes, dates are not. Numbers are classes if they are whole, at most 20 and
    two rows of each on average; integers also if they are fewer than 100 and than 5 % of the rows.
    Text that only tells rows apart is no target, and neither is text that is numbers but for some values.
    """
    said: list[str] = []
    name, raw = str(column.name), _read_target(column, task, style, said.append)
    if missing := int(raw.missing.sum()):
        raise DataError(f"target {name!r} is missing in {missing} of {len(column)} rows: drop them")
    guessed = task is None
    if guessed:
        task = "classification" if raw.named or _are_classes(raw) else "regression"
    if task == "classification":
        said, raw = _blank_labels(column) if raw.named or raw.text else said, raw.text or raw
        _check_classes(name, raw, style, guessed)
    notes = [f"{what}: {name}" for what in dict.fromkeys(said) if what != _PLAIN]
    if guessed and not raw.named:
        notes.append(f"task {task} was guessed from {len(pd.unique(raw.values))} distinct values of {name}")
    values = _numbers(name, raw) if task == "regression" else _category(raw)
    return pd.Series(values, index=column.index, name=name), cast(Task, task), notes


def read_numbers(column: pd.Series[Any], form: NumberForm) -> pd.Series[Any] | None:
    """Read a column of text as numbers in a known form; None if some of it is not in that form."""
    raw = _read(str(column.name), column)
    values = [np.nan if is_mark(name) else read_number(name, form) for name in raw.names]
    if None in values:
        return None
    return pd.Series(_spread(np.array(values, dtype=np.float64), raw), index=column.index, name=column.name)


def missing_target(column: pd.Series[Any], task: str | None = None, style: Style = UNKNOWN) -> Array:
    """Return where `learn_target` would find the target missing; raise if it would refuse a value that is there."""
    raw = _read_target(column, task, style)
    return np.isnan(_numbers(str(column.name), raw)) if task == "regression" else raw.missing


def _plain(frame: pd.DataFrame) -> set[str]:
    """Find columns of finite floats without a gap, about which there is nothing to decide: all at once, for speed."""
    numbers = frame.select_dtypes(np.float64)
    whole = np.isfinite(numbers.to_numpy()).all(axis=0)
    return {str(name) for name in numbers.columns[whole]} if len(frame) else set()


def _check(names: list[str], kinds: Mapping[str, str]) -> None:
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError(f"more than one column is named {', '.join(twice)}: rename them")
    for name, kind in kinds.items():
        if name not in names:
            raise DataError(f"kinds names a column {name!r} that is not there.{did_you_mean(name, names)}")
        if kind not in KINDS:
            known = f"it is one of {', '.join(KINDS)}.{did_you_mean(str(kind), KINDS)}"
            raise DataError(f"unknown kind {kind!r} of column {name!r}: {known}")


def _feature(name: str, column: pd.Series[Any], kind: str | None, note: Note, style: Style) -> tuple[Any, Form | None]:
    """Return the values of a feature, None if it is left out, and the form of its dates or numbers if it was text."""
    if kind in ("text", "id", "drop"):
        note(f"left out as {kind}, as asked")
        return None, None
    raw = _read(name, column)
    if raw.missing.all():
        note("left out, no value in any row")
        return None, None
    if kind is None:
        raw = _parsed(raw, note, style)
        if raw.form == "text":
            _tell_others(raw, note, style)
        kind = _guess(name, raw, note)
    elif kind == "continuous":
        raw = _written(raw, note, style) or raw
    if kind == "continuous":
        return _numbers(name, raw), raw.written
    if kind == "date":
        seconds, form = _seconds(name, raw)
        return _dates(seconds), form
    return (_category(raw.text or raw) if kind == "categorical" else None), None


def _read_target(column: pd.Series[Any], task: str | None, style: Style, note: Note = lambda what: None) -> _Raw:
    if task not in (None, *TASKS):
        raise DataError(f"unknown task {task!r}: it is one of {', '.join(TASKS)}.{did_you_mean(str(task), TASKS)}")
    return _parsed(_read(str(column.name), column), note, style, dates=task != "classification")


def _check_classes(name: str, raw: _Raw, style: Style, guessed: bool) -> None:
    """Refuse text that is no class: numbers but for some values, or so many names that they only tell rows apart."""
    if raw.form != "text":
        return
    if guessed and (others := _others(raw, style)):
        raise DataError(
            f"target {name!r} is mostly numbers, but not {_quoted(others)}: name these in missing in the sidecar to "
            "leave their rows out, or say task = 'classification' there to take every value for a class"
        )
    if useless := _useless(raw):
        what = f"{len(raw.names)} different texts in {len(raw.values)} rows"
        raise DataError(f"target {name!r} has {what}, which look like {useless} and not like classes: choose another")


def _blank_labels(column: pd.Series[Any]) -> list[str]:
    """Note labels that lose blanks around them, if some do."""
    labels = [label for label in pd.unique(column.dropna().astype(object)) if isinstance(label, str)]
    padded = [label for label in labels if label != label.strip() and label.strip()]
    if not padded:
        return []
    merged = len({label.strip() for label in labels}) < len({label for label in labels if label.strip()})
    says = ", and labels that differ in nothing else are one class" if merged else ""
    return [f"blanks around labels removed, as in {_quoted(padded)}{says}"]


def _quoted(names: Sequence[str]) -> str:
    return some([repr(str(name)) for name in names], 5)


# --------------------------------------------------------------------------------------------------------------- rules


def _guess(name: str, raw: _Raw, note: Note) -> str:
    if raw.named:
        if useless := _useless(raw):
            note(f"left out, looks like {useless} (give its kind to keep it)")
            return "drop"
        if len(raw.names) > _MANY_CATEGORIES:
            note(f"kept with more than {_MANY_CATEGORIES} categories")
        return "categorical"
    if raw.form == "dates":
        return "date"
    if raw.form == "numbers" and (whole := _whole(raw.values)) is not None:
        if _are_ids(name, raw.values):
            note("left out, looks like an id (give its kind to keep it)")
            return "drop"
        if _are_codes(name, whole):
            note("whole numbers with few values, taken as categories")
            return "categorical"
    return "continuous"


def _useless(raw: _Raw) -> str | None:
    """Say what the names are if there are so many that they only tell rows apart."""
    distinct, present = len(raw.names), int((~raw.missing).sum())
    if distinct < max(_MIN_IDS, present / 2):
        return None
    if sum(len(name.split()) for name in raw.names) >= 4 * distinct:
        return "free text"
    return "an id" if distinct >= _NEARLY * present else None


def _whole(values: Array) -> Array | None:
    """Return the present values if they are integers, or floats only because some are missing."""
    if values.dtype.kind in "iu":
        return values
    present = values[~np.isnan(values)]
    return present if len(present) < len(values) and bool((present == np.floor(present)).all()) else None


def _are_ids(name: str, values: Array) -> bool:
    if values.dtype.kind == "f" or len(values) < _MIN_IDS:
        return False
    if int(values[0]) in (0, 1) and bool((values[1:] - values[:-1] == 1).all()):
        return True
    says_id = _ID.fullmatch(name.strip()) or _CAMEL_ID.fullmatch(name)
    return says_id is not None and len(pd.unique(values)) == len(values)


def _are_codes(name: str, values: Array) -> bool:
    if float(values.max()) - float(values.min()) >= _CODE_RANGE:
        return False
    few = len(pd.unique(values)) <= min(_MAX_CODES, len(values) / 5)
    return few and not _COUNT.search(_WORD_END.sub(" ", name))


def _are_classes(raw: _Raw) -> bool:
    values, whole = raw.values, raw.values.dtype.kind != "f"
    if raw.form != "numbers" or not (whole or bool((values == np.floor(values)).all())):
        return False
    distinct, rows = len(pd.unique(values)), len(values)
    return distinct <= min(_MAX_CLASSES, rows / 2) or (whole and distinct < min(_MANY_CLASSES, rows / 20))


# ------------------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class _Raw:
    """A column as it was read: numbers, seconds, or for each row the place of its text in `names`, -1 if missing."""

    form: Literal["numbers", "dates", "durations", "text", "category", "ordered"]
    values: Array
    names: tuple[str, ...] = ()
    written: Form | None = None  # how numbers or dates that were text are written
    text: _Raw | None = None  # what they were, if that has more to it than the number

    @property
    def named(self) -> bool:
        return self.form in ("text", "category", "ordered")

    @property
    def missing(self) -> Array:
        return cast(Array, self.values < 0 if self.named else np.isnan(self.values))


def _read(name: str, column: pd.Series[Any]) -> _Raw:
    """Read a column of any type into one of the few forms of `_Raw`."""
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
        return _Raw("dates", since_1970(column))
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
    """Name the values of all rows: equal names are one, and the empty name is missing."""
    names = ["" if value is None else _label(value) for value in values.tolist()]
    places = {name: place for place, name in enumerate(dict.fromkeys(filter(None, names)))}
    return _Raw(form, np.array([*(places.get(name, -1) for name in names), -1])[np.asarray(codes)], tuple(places))


def _label(value: Any) -> str:
    """Name a value, the same for 1, 1.0 and '1'."""
    if isinstance(value, float | np.floating) and abs(number := float(value)) < 1e15 and number.is_integer():
        return str(int(number))
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return (text if text.isascii() else text.encode("utf-8", "replace").decode()).strip()


def _parsed(raw: _Raw, note: Note, style: Style, dates: bool = True) -> _Raw:
    """Read text as numbers or dates if it is that; leave everything else as it is."""
    if raw.form != "text" or not raw.names:
        return raw
    values, bad = plain_numbers(raw.names)
    is_plain = not bad.any() and not np.isnan(values).all() and not any(map(is_padded, raw.names))
    if (not is_plain or is_doubtful(raw.names)) and (numbers := _written(raw, note, style)) is not None:
        return numbers
    if is_plain:
        note(_PLAIN)
        return _Raw("numbers", _spread(values, raw), written=NumberForm("." * any("." in n for n in raw.names)))
    sample = [raw.names[place] for place in np.flatnonzero(bad)[:100]]
    if dates and sum(is_date(name) for name in sample) >= max(_NEARLY * len(sample), 1):
        values, bad, form = guess_dates(raw.names)
        if bad.mean() <= 1 - _NEARLY:
            note(f"text read as dates ({form})" + ", unreadable values are missing" * bool(bad.any()))
            return _Raw("dates", _spread(values, raw), written=form)
    return raw


def _written(raw: _Raw, note: Note, style: Style) -> _Raw | None:
    """Read text as numbers if all of it is numbers in one form, whichever that is."""
    if raw.form != "text":
        return None
    texts = [name for name in raw.names if not is_mark(name)]
    guess = guess_form(texts, style)
    if guess is None:
        return None
    form, numbers = guess.form, dict(zip(texts, guess.values, strict=True))
    values = np.array([numbers.get(name, np.nan) for name in raw.names])
    has_fraction = bool(form.decimal) and any(form.decimal in text for text in texts)
    if not has_fraction and bool((values == np.floor(values)).all()) and np.abs(values).max() < 2**62:
        values = values.astype(np.int64)
    thousands = "," if form.decimal == "." else "."
    has_thousands = bool(form.decimal) and any(thousands in text for text in texts)
    if form.unit:
        note(f"read as numbers without {form.unit!r}")
    if has_thousands:
        other = f" (if they are decimal signs, say decimal = {thousands!r} in the sidecar)"
        note(f"{_SIGN_NAMES[thousands]} read as separators of thousands{other if guess.in_doubt else ''}")
    elif guess.in_doubt:
        other = f"if they separate thousands, say decimal = {thousands!r} in the sidecar"
        note(f"{_SIGN_NAMES[form.decimal]} read as decimal signs ({other})")
    elif form.decimal == "," and not form.unit:
        note(_PLAIN)
    return _Raw("numbers", _spread(values, raw), written=form, text=raw if form.unit or has_thousands else None)


def _tell_others(raw: _Raw, note: Note, style: Style) -> None:
    """Note what keeps a column of text from being numbers."""
    units = list(dict.fromkeys(pair[1] for name in raw.names if (pair := split_unit(name)) and pair[1]))
    if others := _others(raw, style):
        remedy = "if these stand for missing values, name them in missing in the sidecar"
        note(f"mostly numbers, but not {_quoted(others)} ({remedy})")
    elif len(units) > 1 and all(is_mark(name) or split_unit(name) for name in raw.names):
        note(f"numbers with different units ({', '.join(units[:5])}), taken as text")


def _others(raw: _Raw, style: Style) -> tuple[str, ...]:
    """Return the names that are no numbers, the most frequent first, if most rows have numbers that are no codes."""
    counts = np.bincount(raw.values[raw.values >= 0], minlength=len(raw.names))
    known = [place for place, name in enumerate(raw.names) if not is_mark(name)]
    numbers = [place for place in known if split_unit(raw.names[place]) is not None]
    if (
        len(numbers) <= _MAX_CLASSES
        or len(numbers) == len(known)
        or counts[numbers].sum() < _MOSTLY * counts[known].sum()
    ):
        return ()
    if guess_form([raw.names[place] for place in numbers], style) is None:
        return ()
    others = sorted(set(known) - set(numbers), key=lambda place: (-counts[place], place))
    return tuple(raw.names[place] for place in others)


def _spread(values: Array, raw: _Raw) -> Array:
    """Give each row the value of its name."""
    return np.append(values.astype(np.float64), np.nan)[raw.values] if raw.missing.any() else values[raw.values]


# ------------------------------------------------------------------------------------------------------------- writing


def _numbers(name: str, raw: _Raw) -> Array:
    if raw.named:
        truths = {"False": "0", "True": "1"}
        values, bad = plain_numbers(
            tuple(truths[n] for n in raw.names) if truths.keys() >= set(raw.names) else raw.names
        )
        _refuse(name, raw, bad, "continuous", "number")
        raw = _Raw("numbers", _spread(values, raw))
    if infinite := int(np.isinf(raw.values).sum()):
        raise DataError(f"column {name!r} has {plural(infinite, 'infinite value')}: replace or remove them")
    return raw.values.astype(np.float64)


def _seconds(name: str, raw: _Raw) -> tuple[Array, str | None]:
    raw = _named(raw) if raw.form == "numbers" else raw
    if not raw.named:
        return raw.values, cast(str | None, raw.written)
    values, bad, form = guess_dates(raw.names)
    _refuse(name, raw, bad, "date", "date")
    return _spread(values, raw), form


def _dates(seconds: Array) -> Array:
    """Return seconds since 1970 as dates, NaT for NaN."""
    moments = np.where(np.isnan(seconds), 0.0, seconds * 1e6).round().astype("M8[us]")
    return np.where(np.isnan(seconds), np.datetime64("NaT", "us"), moments)


def _refuse(name: str, raw: _Raw, bad: Array, kind: str, noun: str) -> None:
    if bad.any():
        row = int(np.argmax(np.append(bad, False)[raw.values]))
        value = raw.names[raw.values[row]]
        others = [raw.names[place] for place in np.flatnonzero(bad) if place != raw.values[row]]
        more = f", nor is {_quoted(others)}" if others else ""
        raise DataError(f"column {name!r} cannot be {kind}: {value!r} in data row {row + 1} is not a {noun}{more}")


def _named(raw: _Raw) -> _Raw:
    if raw.named:
        return raw
    codes, distinct = pd.factorize(raw.values)
    return _text(codes, distinct.astype("M8[s]") if raw.form == "dates" else distinct)


def _category(raw: _Raw) -> pd.Categorical:
    raw = _named(raw)
    order = list(range(len(raw.names)))
    if raw.form != "ordered":
        values = plain_numbers(raw.names)[0]
        keys: Any = raw.names if np.isnan(values).any() else list(zip(values, raw.names, strict=True))
        order.sort(key=keys.__getitem__)
    rank = np.argsort(np.array([*order, len(order)]))  # the place of each name in the order
    rank[-1] = -1
    return pd.Categorical.from_codes(rank[raw.values], pd.Index([raw.names[place] for place in order], dtype="str"))
