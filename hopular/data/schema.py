"""Schema: how a model's columns were read, so that new rows are read in the same way.

A column that the model knows must be there. What it cannot know is treated as missing: categories it has never seen,
and dates in another form than those it was trained with. Numbers written as text are read in the form of the training
table, so that what 2.629 means does not depend on the other new rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from hopular.data.columns import convert, read_numbers
from hopular.data.dataset import DataError, Dataset, Task
from hopular.data.numbers import Form, NumberForm
from hopular.util import did_you_mean

KINDS = ("continuous", "categorical", "date")


@dataclass(frozen=True)
class Column:
    """A feature: what it holds, and the categories or the form of dates or numbers that the model was trained with."""

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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Schema:
        columns = tuple(
            Column(**{**column, "categories": tuple(column["categories"]), "form": _form(column["form"])})
            for column in values["columns"]
        )
        for column in columns:
            if column.kind not in KINDS:
                raise ValueError(f"column {column.name!r} has the kind {column.kind!r}, not one of {', '.join(KINDS)}")
        texts = {name: tuple(values[name]) for name in ("classes", "missing")}
        return Schema(columns=columns, target=values["target"], task=values["task"], **texts)


def _form(value: Any) -> Form:
    return NumberForm(**value) if isinstance(value, dict) else str(value)


def learn_schema(dataset: Dataset) -> Schema:
    """The schema of a dataset, with the form of its dates and numbers and its codes for missing values."""
    columns = []
    for name, kind in dataset.kinds.items():
        form = dataset.forms.get(name, "")
        if kind == "categorical":
            columns.append(Column(name, kind, tuple(dataset.X[name].cat.categories)))
        else:
            columns.append(Column(name, "date" if form and isinstance(form, str) else kind, form=form))
    return Schema(tuple(columns), str(dataset.y.name), dataset.task, tuple(dataset.classes), dataset.missing_codes)


def read_features(schema: Schema, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The features of new rows as the model takes them, and notes on what was ignored or counts as missing."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    names = [column.name for column in schema.columns]
    lacking = [name for name in names if name not in frame.columns]
    if lacking:
        others = [str(name) for name in frame.columns if name not in names]
        hint = did_you_mean(lacking[0], others)
        raise DataError(f"the model needs {_listed(lacking)}, not among the columns of the new rows.{hint}")
    notes = []
    extra = [name for name in frame.columns if name not in names and name != schema.target]
    if extra:
        notes.append(f"ignored, as the model does not use it: {_listed(extra)}")
    values = {column.name: _without(frame[column.name], schema.missing) for column in schema.columns}
    features = {column.name: _read(column, values[column.name], notes) for column in schema.columns}
    return pd.DataFrame(features, index=frame.index), notes


def _read(column: Column, values: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    if column.kind == "categorical":
        return _read_categories(column, values, notes)
    if values.isna().all():
        return pd.Series(np.nan, index=values.index, dtype=np.float64)
    is_text = pd.api.types.infer_dtype(values, skipna=True) == "string"
    if column.kind == "date" and column.form and is_text:
        return _read_dates(column, values, notes)
    if column.kind == "date":
        return _converted(column, values, "date", notes)
    if isinstance(column.form, NumberForm) and is_text and (numbers := read_numbers(values, column.form)) is not None:
        return numbers
    try:
        return _read_numbers(column, values, notes)
    except DataError as error:
        try:
            # as text now, and as dates proper when the model was trained
            return _converted(column, values, "date", notes)
        except DataError:
            raise error from None


def _read_numbers(column: Column, values: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Numbers in another form than in training, or in one that training could not tell; never in another unit."""
    forms: dict[str, Form] = {}
    numbers = _converted(column, values, "continuous", notes, forms)
    trained, found = (
        form.unit if isinstance(form, NumberForm) else "" for form in (column.form, forms.get(column.name))
    )
    if trained and found not in ("", trained):
        raise DataError(f"column {column.name!r} is in {found!r}, and was in {trained!r} when the model was trained")
    return numbers


def _read_categories(column: Column, values: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    found = values if values.isna().all() else _converted(column, values, "categorical", notes)
    known = found.astype("str").where(found.notna() & found.isin(column.categories))
    unseen = found[found.notna() & known.isna()]
    if len(unseen):
        notes.append(f"{column.name}: {_values(unseen)} missing, new to the model")
    return known.astype(pd.CategoricalDtype(list(column.categories)))


def _read_dates(column: Column, values: pd.Series[Any], notes: list[str]) -> pd.Series[Any]:
    """Dates as text, in the form they had in training: what a single new date means must not depend on the others."""
    moments = pd.to_datetime(values, format=str(column.form), utc=True, errors="coerce").dt.tz_localize(None)
    unread = values[values.notna() & moments.isna()]
    if len(unread):
        notes.append(f"{column.name}: {_values(unread)} missing, not written as {column.form}")
    seconds = (moments.to_numpy() - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    return pd.Series(seconds, index=values.index, dtype=np.float64)


def _converted(
    column: Column, values: pd.Series[Any], kind: str, notes: list[str], forms: dict[str, Form] | None = None
) -> pd.Series[Any]:
    features, said = convert(values.to_frame(), {column.name: kind}, forms)
    notes += said
    return features[column.name]


def _without(values: pd.Series[Any], codes: tuple[str, ...]) -> pd.Series[Any]:
    """The column with NaN for codes of missing values: a number in any notation, or text."""
    if not codes:
        return values
    text = values.astype("str").str.strip()
    numbers = set(pd.to_numeric(pd.Series(list(codes), dtype=object), errors="coerce").dropna())
    coded = text.isin(codes) | pd.to_numeric(text, errors="coerce").isin(numbers)
    return values.mask(coded) if coded.any() else values


def _values(values: pd.Series[Any]) -> str:
    """'2 values (red, blue) count as'."""
    count = f"{len(values)} value{'' if len(values) == 1 else 's'}"
    return f"{count} ({_listed(list(values.unique()))}) {'counts' if len(values) == 1 else 'count'} as"


def _listed(names: list[str], limit: int = 8) -> str:
    return ", ".join(map(str, names[:limit])) + (f" and {len(names) - limit} more" if len(names) > limit else "")
