"""ARFF, the format of Weka and OpenML: a header that declares the columns, and rows much like CSV."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from hopular.data.errors import DataError
from hopular.data.text import Body, Dialect, column_names, first_lines, parse, quote_of

_QUOTED = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"\s*@attribute\s+({_QUOTED}|[^\s{{]+)\s*(.*?)\s*$", re.IGNORECASE)
_NOMINAL = re.compile(rf"\s*({_QUOTED}|[^,]*?)\s*(?:,|$)")


def read_arff(path: Path, data: bytes) -> pd.DataFrame:
    """Numeric attributes as numbers, all others as strings; only '?' is missing."""
    mark = re.search(rb"^[ \t]*@data\b[^\n]*\n?", data, re.MULTILINE | re.IGNORECASE)
    if not mark:
        raise DataError(f"{path} has no @data line, so it is not a whole ARFF file: get it again")
    header, above = data[: mark.end()].decode().split("\n"), data.count(b"\n", 0, mark.end())
    attributes = [(i, found[1], found[2]) for i, line in enumerate(header, 1) if (found := _ATTRIBUTE.match(line))]
    if not attributes:
        raise DataError(f"{path} declares no attributes, so it is not a whole ARFF file: get it again")
    names = column_names(path, [_bare(name) for _, name, _ in attributes])
    text = {}
    for name, (line, _, kind) in zip(names, attributes, strict=True):
        word = "nominal" if kind.startswith("{") else kind.lower().partition(" ")[0]
        if word not in ("nominal", "string", "date", "numeric", "real", "integer"):
            raise DataError(f"{path} line {line}: attribute {name!r} has the type {kind!r}, which is not supported")
        text[name] = word in ("nominal", "string", "date")
    rows = re.sub(rb"^[ \t]*%[^\r\n]*", b"", data[mark.end() :], flags=re.MULTILINE)
    if sparse := re.search(rb"^[ \t]*\{", rows, re.MULTILINE):
        line = above + rows.count(b"\n", 0, sparse.start()) + 1
        raise DataError(f"{path} line {line} is a sparse row, {{...}}, which is not supported: save it as CSV")
    sample = "".join(first_lines(rows)[0])
    dialect = Dialect("," if "," in sample or "\t" not in sample else "\t", quote_of(sample), "\\")
    frame = parse(Body(path, rows, 0, above, names), dialect, text)
    for name, (_, _, kind) in zip(names, attributes, strict=True):
        _check_attribute(path, frame[name], kind)
    return frame


def _check_attribute(path: Path, column: pd.Series[Any], kind: str) -> None:
    """Refuse a value that the attribute's own declaration does not allow."""
    values = column.dropna()
    if kind.startswith("{"):
        declared = {_bare(value) for value in _NOMINAL.findall(kind[1 : kind.rfind("}")])}
        wrong = [value for value in values.unique() if value not in declared]
    elif kind.lower().startswith(("string", "date")) or pd.api.types.is_numeric_dtype(column):
        return
    else:
        wrong = list(values[pd.to_numeric(values, errors="coerce").isna()])
    if wrong:
        raise DataError(
            f"{path}: attribute {column.name!r} is declared as {kind[:100]} but has the value {wrong[0]!r}: correct one"
        )


def _bare(token: str) -> str:
    """A name or value without its quotes and escapes."""
    return re.sub(r"\\(.)", r"\1", token[1:-1]) if token[:1] in ("'", '"') and len(token) > 1 else token
