"""A person's own data file, from a path or an http(s) address, with what its sidecar says of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd

from hopular import settings
from hopular.data.cache import cache_key, cached
from hopular.data.dataset import DATE, DataError, Dataset, Protocol
from hopular.data.download import fetch
from hopular.data.notation import SIGNS, Array, NumberForm, Style, is_doubtful, since_1970
from hopular.data.read import SUFFIXES, RawTable, is_data_file, read_raw, stem
from hopular.data.schema import learn_features, learn_target, missing_target, read_numbers, without_codes
from hopular.data.sidecar import Sidecar, read_sidecar, sidecar_of
from hopular.formatting import plural, some
from hopular.redaction import without_secrets
from hopular.util import did_you_mean

_VERSION = 4  # of the way from a file to a dataset; another one leaves older cache entries unused
_PART_NAMES = {  # what a split column may call them
    "train": ("train", "training", "learn"),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test", "testing", "holdout"),
    "unused": ("unused",),
}


def load(
    reference: str | Path,
    target: str | None = None,
    sidecar: Sidecar | None = None,
    *,
    time: str | None = None,
    group: str | None = None,
) -> Dataset:
    """Load the dataset in a file. `target`, `time` and `group` overrule what the sidecar says, `sidecar` the one beside
    the file. Rows are divided by `time` or `group` if one is given, whatever the order in the sidecar.

    A file at an address is downloaded once and kept: delete it in the cache folder to get it anew. The columns that
    give split and groups are features only if the sidecar gives their kind.
    """
    path, name, source = _locate(reference)
    if sidecar is None:
        sidecar = _sidecar_beside(path)
    told = _told(sidecar, target, time, group)
    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    key = cache_key(f"file {_VERSION}", path.name.removeprefix(stem(path)).lower(), content, repr(told))
    dataset = cached(key, lambda: _build(path, name, source, told))
    if (dataset.name, dataset.source) == (name, source):
        return dataset
    return replace(dataset, name=name, source=source)  # the same content was read under another name


def _told(sidecar: Sidecar, target: str | None, time: str | None, group: str | None) -> Sidecar:
    """Put what the caller says above what the sidecar says."""
    if time and group:
        raise DataError(
            f"time {time!r} and group {group!r} were both given, and rows are divided by one of them: leave out time "
            "to predict new groups, or group to predict later rows"
        )
    told = replace(sidecar, target=target or sidecar.target)
    if not (time or group):
        return told
    protocol = sidecar.protocol or Protocol(scheme="fixed" if sidecar.split else "kfold")
    if time:
        return replace(told, time=time, protocol=replace(protocol, order="time"))
    return replace(told, groups=group, protocol=replace(protocol, order="grouped"))


def files_in(folder: Path) -> list[Path]:
    """List the data files in a folder by name, but not those in folders inside it, hidden ones and sidecars."""
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    found = (path for path in folder.iterdir() if is_data_file(path) and not path.name.startswith((".", "~$")))
    paths = sorted(path for path in found if path.is_file())
    if not paths:
        raise DataError(f"{folder} holds no data file: one has a suffix of {', '.join(SUFFIXES)}, perhaps compressed")
    return paths


def read_rows(path: Path) -> RawTable:
    """Read the rows of a file as they are, with what its sidecar says of its sheet and its decimal sign."""
    sidecar = _sidecar_beside(path)
    table = read_raw(path, sidecar.sheet)
    if sidecar.decimal is None:
        return table
    settled: dict[str, Any] = {}
    for name, column in table.frame.select_dtypes(["object", "str"]).items():
        texts = [value for value in column.unique() if isinstance(value, str)]
        if any(is_doubtful(texts, sign) for sign in SIGNS):
            numbers = read_numbers(column, NumberForm(sidecar.decimal))
            settled[str(name)] = column if numbers is None else numbers
    return replace(table, frame=table.frame.assign(**settled))


def _sidecar_beside(path: Path) -> Sidecar:
    beside = sidecar_of(path)
    return read_sidecar(beside) if beside.is_file() else Sidecar()


def _locate(reference: str | Path) -> tuple[Path, str, str]:
    """Return the file on this machine, the name of its dataset, and where it comes from."""
    if isinstance(reference, str) and reference.lower().startswith(("http://", "https://")):
        source = without_secrets(reference)
        try:
            file = Path(unquote(urlsplit(reference).path)).name
        except ValueError as error:
            raise DataError(f"{source} is not an address: {error}") from error
        if not is_data_file(Path(file)):
            raise DataError(
                f"{source} does not end in the name of a data file: it must have one of the suffixes "
                f"{', '.join(SUFFIXES)}, perhaps compressed"
            )
        digest = hashlib.sha256(reference.encode()).hexdigest()[:16]
        path = fetch(reference, settings.cache_folder() / "downloads" / f"{digest}-{file}")
        return path, stem(Path(file)), source
    path = Path(reference).expanduser()
    if path.is_dir():
        raise DataError(f"{path} is a folder: name one of the data files in it")
    if not path.is_file():
        beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError(f"there is no file {path}.{did_you_mean(path.name, beside)}")
    return path, stem(path), str(path)


def _build(path: Path, name: str, source: str, sidecar: Sidecar) -> Dataset:
    try:
        table = read_raw(path, sidecar.sheet)
        style = replace(table.style, told=sidecar.decimal or "")
        target = _checked_target(table.frame, sidecar)
        raw = without_codes(table.frame, sidecar.missing)
        kept, unlabelled = _labelled(raw[target], sidecar, style)
        aside = {target, *sidecar.drop, *({sidecar.split, sidecar.groups} - set(sidecar.kinds))}
        features = raw[[column for column in raw.columns if column not in aside]]
        kinds = {column: kind for column, kind in sidecar.kinds.items() if column not in aside}
        learned = learn_features(features, kinds, style)
        y, task, guessed = learn_target(raw.loc[kept, target], sidecar.task, style)
        extras = {key: _rows(value, kept) for key, value in _extras(raw, kept, sidecar, style).items()}
    except DataError as error:
        raise DataError(str(error) if str(path) in str(error) else f"{source}: {error}") from error
    protocol = sidecar.protocol or Protocol(scheme="fixed" if sidecar.split else "kfold")
    if not kept.all():
        extras["file_rows"] = pd.Series(np.flatnonzero(kept), name="file_rows")
    return Dataset(
        name,
        _rows(learned.X, kept),
        _rows(y),
        task,
        source,
        notes=(*_coded(table.frame, raw, sidecar), *unlabelled, *table.notes, *learned.notes, *guessed),
        protocol=protocol,
        forms={**_decimal_forms(table, learned.X), **learned.forms},
        missing_codes=tuple(map(str, sidecar.missing)),
        **extras,
    )


def _decimal_forms(table: RawTable, X: pd.DataFrame) -> dict[str, NumberForm]:
    """Return the form of the columns of a text file that have fractions, whose decimal sign is clear."""
    form, forms = NumberForm(table.style.decimal), {}
    for name, dtype in table.frame.dtypes.items() if form.decimal else ():
        if dtype == np.float64 and name in X:
            values = table.frame[name].to_numpy()
            if any(_has_fraction(part) for part in (values[:100], values)):  # the first rows are mostly enough
                forms[str(name)] = form
    return forms


def _has_fraction(values: Array) -> bool:
    return bool(((values != np.floor(values)) & ~np.isnan(values)).any())


def _checked_target(raw: pd.DataFrame, sidecar: Sidecar) -> str:
    """Return the target, once it and every other column that the sidecar names is found to be there."""
    columns = [str(column) for column in raw.columns]
    listed = some(columns, 50)
    uses = [("target", sidecar.target), ("split", sidecar.split), ("groups", sidecar.groups), ("time", sidecar.time)]
    named = [*uses, *(("drop", column) for column in sidecar.drop), *(("kinds", column) for column in sidecar.kinds)]
    for key, column in named:
        if column is not None and column not in columns:
            raise DataError(
                f"{key} names a column {column!r} that is not there.{did_you_mean(column, columns)} It has {listed}"
            )
        if column is not None and column == sidecar.target and key not in ("target", "kinds"):
            raise DataError(f"column {column!r} cannot be the target and in {key} at once")
    if sidecar.target is None:
        raise DataError(
            f'which column is to be predicted? Name it with target (--target), or write a file with target = "..." '
            f"beside it, with the same name and the suffix .toml. It has the columns {listed}"
        )
    return sidecar.target


def _coded(frame: pd.DataFrame, raw: pd.DataFrame, sidecar: Sidecar) -> list[str]:
    """Note how many values are missing by the codes of the sidecar."""
    if not sidecar.missing:
        return []
    count = int(raw.isna().to_numpy().sum() - frame.isna().to_numpy().sum())
    return [f"{plural(count, 'value')} missing by the codes {', '.join(map(str, sidecar.missing))}"]


def _labelled(column: pd.Series[Any], sidecar: Sidecar, style: Style) -> tuple[Array, list[str]]:
    """Find where the target is known, and note it. By default other rows are dropped if they are fewer than half."""
    missing = missing_target(column, sidecar.task, style)
    count, rows, may_drop = int(missing.sum()), len(column), sidecar.drop_missing_target
    said = f"target {column.name!r} is missing in {count} of {rows} rows"
    if count == rows:
        raise DataError(f"{said}: choose another one")
    if count and (may_drop is False or (may_drop is None and 2 * count >= rows)):
        raise DataError(f"{said}: drop_missing_target = true in the sidecar leaves them out")
    return ~missing, [f"{count} of {rows} rows left out for lack of a target"] if count else []


def _rows(value: Any, kept: Array | None = None) -> Any:
    """Return a table or column at the rows to keep, numbered anew, without categories that only the other rows had."""
    if kept is not None and not kept.all():
        value = value[kept]
        for column in value if isinstance(value, pd.DataFrame) else ():
            if isinstance(value[column].dtype, pd.CategoricalDtype):
                value[column] = value[column].cat.remove_unused_categories()
    return value.reset_index(drop=True)


def _extras(raw: pd.DataFrame, kept: Array, sidecar: Sidecar, style: Style) -> dict[str, Any]:
    """Read parts, groups and time of all rows; rows that are not kept need no part."""
    extras: dict[str, Any] = {}
    if sidecar.split:
        extras["parts"] = _parts(raw[sidecar.split], kept).to_frame()
    if sidecar.groups:
        extras["groups"] = _column(raw, sidecar.groups, "categorical", style)
    if sidecar.time:
        try:
            extras["time"] = _column(raw, sidecar.time, "continuous", style)
        except DataError:  # not a number, so it must be a date
            try:
                extras["time"] = _column(raw, sidecar.time, "date", style)
            except DataError as error:
                raise DataError(f"{error}: time needs a column of dates or numbers") from error
    return extras


def _column(raw: pd.DataFrame, column: str, kind: str, style: Style) -> pd.Series[Any]:
    converted = learn_features(raw[[column]], {column: kind}, style).X
    if column not in converted:
        raise DataError(f"column {column!r} has no value in any row")
    found = converted[column]
    return pd.Series(since_1970(found), name=found.name) if found.dtype == DATE else found


def _parts(column: pd.Series[Any], kept: Array) -> pd.Series[Any]:
    known = {name: part for part, names in _PART_NAMES.items() for name in names}
    parts = column.astype("str").str.strip().str.lower().map(known)
    if (unknown := parts.isna().to_numpy() & kept).any():
        row = int(unknown.argmax())
        raise DataError(
            f"split column {column.name!r} says {column.tolist()[row]!r} in data row {row + 1}: "
            f"it must be one of {', '.join(known)}"
        )
    return parts
