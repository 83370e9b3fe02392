"""Parsed datasets on disk: a dataset is built once and then read back from one Parquet file.

An entry is named by its key and by the hash of its own bytes, so a damaged one is noticed and built again.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hopular import settings
from hopular.data.dataset import Dataset, Protocol
from hopular.data.schema import form_from_json
from hopular.util import whole_file

_VERSION = 4  # of the layout of an entry
_PLAIN = ("name", "task", "source", "defects", "notes", "missing_codes")  # kept as metadata as they are
_EXTRAS = ("groups", "time", "file_rows")  # columns that a dataset may have


def cache_key(*parts: str | bytes) -> str:
    """Make a key from whatever determines a dataset: the bytes it is read from, options, versions."""
    digest = hashlib.sha256(f"entry {_VERSION}".encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def cached(key: str, build: Callable[[], Dataset]) -> Dataset:
    """Return the dataset stored under `key`; otherwise what `build` returns, and store it for the next time."""
    folder = settings.cache_folder() / "datasets"
    for path in folder.glob(f"{key}-*.parquet"):
        dataset = _read(path)
        if dataset is not None:
            return dataset
        path.unlink(missing_ok=True)
    dataset = build()
    try:
        _write(folder, key, dataset)
    except OSError as error:  # a full or read-only disk costs time later, not the dataset now
        warnings.warn(f"dataset {dataset.name!r} could not be kept in {folder}: {error}", stacklevel=2)
    return dataset


def _read(path: Path) -> Dataset | None:
    """Read the entry at `path`; None if it is gone or its bytes are not those that were written."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if hashlib.sha256(content).hexdigest() != path.stem.partition("-")[2]:
        return None
    return _from_table(pq.read_table(pa.BufferReader(content)))


def _write(folder: Path, key: str, dataset: Dataset) -> None:
    sink = pa.BufferOutputStream()
    table = _to_table(dataset)
    categories = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    # Quick to write and to read rather than small: numbers rarely repeat, and nobody searches them by their range.
    pq.write_table(table, sink, compression="lz4", use_dictionary=categories, write_statistics=False)
    content = sink.getvalue().to_pybytes()
    with whole_file(folder / f"{key}-{hashlib.sha256(content).hexdigest()}.parquet") as part:
        part.write_bytes(content)


def _to_table(dataset: Dataset) -> pa.Table:
    """Put X, y, parts and extra columns side by side under positions as names; the rest is metadata."""
    columns: list[pd.Series[Any]] = [dataset.X[c] for c in dataset.X.columns]
    columns.append(dataset.y)
    layout: dict[str, Any] = {"X": [str(c) for c in dataset.X.columns], "y": str(dataset.y.name)}
    if dataset.parts is not None:
        layout["parts"] = [str(c) for c in dataset.parts.columns]
        columns += [dataset.parts[c].astype(str) for c in dataset.parts.columns]
    for extra in _EXTRAS:
        series = getattr(dataset, extra)
        if series is not None:
            layout[extra] = str(series.name)
            columns.append(series)
    metadata = {
        "layout": layout,
        "protocol": asdict(dataset.protocol),
        "fingerprint": dataset.fingerprint,
        "forms": {name: form if isinstance(form, str) else asdict(form) for name, form in dataset.forms.items()},
        **{name: getattr(dataset, name) for name in _PLAIN},
    }
    arrays = [pa.Array.from_pandas(column) for column in columns]
    names = [str(place) for place in range(len(arrays))]
    return pa.table(arrays, names=names, metadata={b"hopular": json.dumps(metadata).encode()})


def _from_table(table: pa.Table) -> Dataset:
    metadata = json.loads(table.schema.metadata[b"hopular"])
    layout, frame = metadata["layout"], table.to_pandas(split_blocks=True)
    places = iter(range(frame.shape[1]))

    def take(names: list[str]) -> pd.DataFrame:
        part: pd.DataFrame = frame.iloc[:, [next(places) for _ in names]]
        return part.set_axis(names, axis=1)

    fields: dict[str, Any] = {"X": take(layout["X"]), "y": take([layout["y"]]).iloc[:, 0]}
    if "parts" in layout:
        fields["parts"] = take(layout["parts"])
    for extra in _EXTRAS:
        if extra in layout:
            fields[extra] = take([layout[extra]]).iloc[:, 0]
    for name in _PLAIN:
        value = metadata[name]
        fields[name] = tuple(value) if isinstance(value, list) else value
    fields["forms"] = {name: form_from_json(form) for name, form in metadata["forms"].items()}
    dataset = Dataset(protocol=Protocol(**metadata["protocol"]), **fields)
    dataset.__dict__["fingerprint"] = metadata["fingerprint"]
    return dataset
