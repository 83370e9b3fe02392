"""Text tables: encoding, delimiter, quotes, header and number format found out from the file itself."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hopular.data.dataset import DataError
from hopular.data.notation import Style, is_doubtful
from hopular.formatting import plural

HEAD = 64 * 1024  # bytes that show the dialect
MISSING = ("?", "\t", *(" " * n for n in range(1, 17)))  # beside what pandas takes for missing

_DELIMITERS = "\t;|,"  # the one most common within text comes last: it loses a draw
_LEGACY = ["cp1252", "cp1251", "koi8_r", "cp1253", "cp1255", "cp1256", "cp932", "euc_jp", "gb18030", "big5", "cp949"]
_CONTROL = bytes(set(range(32)) - set(b"\t\n\f\r"))
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?")
_NUMBERS = re.compile(rf"{_NUMBER.pattern}([ \t]+{_NUMBER.pattern})+[ \t]*")
_COMMA = re.compile(r"[+-]?(\d*|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?(\d*|\d{1,3}(,\d{3})+)\.\d+([eE][+-]?\d+)?")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
_YEAR = re.compile(r"(19|20)\d\d")


@dataclass(frozen=True)
class Dialect:
    """The way a text file writes its rows."""

    delimiter: str
    quote: str = '"'
    escape: str | None = None
    spaced: bool = True  # blanks after a delimiter are no part of the field
    decimal: str = "."


@dataclass(frozen=True)
class Body:
    """The rows of a text file below its header: UTF-8 bytes, and where in them the rows start."""

    path: Path
    data: bytes
    start: int  # in bytes
    line: int  # lines above it
    names: list[str]


def read_text(path: Path, data: bytes, *, as_written: bool = False) -> tuple[pd.DataFrame, Style, list[str]]:
    """Return the rows, the style of their numbers, and notes. Numbers that may have separated thousands stay text.

    All of them do if `as_written`.
    """
    lines, cut = first_lines(data)
    try:
        dialect = _dialect(lines)
        first, above = _first_row(lines, dialect)
        rows = _sample(lines[above:], dialect, cut)
    except csv.Error as error:
        raise DataError(f"{path} is not a table ({error}): look for a quote that is not closed") from None
    if not first:
        raise DataError(f"{path} is empty")
    if len(first) == 1 and rows and all(_NUMBERS.fullmatch(row[0]) for row in rows):
        raise DataError(f"{path} has its numbers separated by blanks, which is not supported: put commas between them")
    named = is_header(first, rows)
    if not named:
        rows, above = [first, *rows], 0
    dialect = _with_decimal(dialect, rows)
    names = column_names(path, first if named else None, len(first))
    body = Body(path, data, len("".join(lines[:above]).encode()), above, names)
    if as_written:
        return _read_csv(body, dialect, None, names), Style(dialect.delimiter), []
    frame = parse(body, dialect)
    doubtful, is_clear = _doubtful(frame, rows, dialect.decimal)
    if doubtful:
        frame[doubtful] = _read_csv(body, dialect, None, doubtful)
    indented = _indented(lines[above:], names, dialect) if dialect.spaced else []
    notes = [f"blanks before some values removed: {', '.join(indented)}"] if indented else []
    return frame, Style(dialect.delimiter, dialect.decimal if is_clear else ""), notes


def to_utf8(path: Path, data: bytes) -> bytes:
    """Return the same text in UTF-8 without a byte order mark.

    Without a mark it is UTF-8 if it can be. If not, text in non-Latin scripts is told by charset-normalizer; the Latin
    code pages cannot be told apart by their bytes, so that all others are taken for the most common, cp1252.
    """
    encoding = "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    else:
        _refuse_binary(path, data)
        if data.isascii():
            return data
        if encoding == "utf-8":
            start = next(i for i in range(0, len(data), HEAD) if not data[i : i + HEAD].isascii())
            encoding = _legacy_or_utf8(data[start : start + 2 * HEAD])
    try:
        decoded = data.decode(encoding).encode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} line {line} has bytes that are not {encoding}, unlike the rest: save it as UTF-8"
        ) from None
    _refuse_binary(path, decoded)
    return decoded


def _refuse_binary(path: Path, data: bytes) -> None:
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise DataError(f"{path} line {line} has NUL bytes, so it is not text: correct its suffix, or save it as UTF-8")
    head = data[:HEAD]
    if len(head) - len(head.translate(None, _CONTROL)) > len(head) / 20:
        raise DataError(f"{path} is binary data and not text: correct its suffix, or save it as UTF-8")


def _legacy_or_utf8(block: bytes) -> str:
    """Guess the encoding of text that has no mark, from a block with characters beyond ASCII near its start."""
    text = block.decode("utf-8", "replace")
    mark = "\N{REPLACEMENT CHARACTER}"  # a file may hold it too, where another program met damage
    damaged = text.count(mark) - block.count(mark.encode())
    if len(text) - len(text.encode("ascii", "ignore")) >= 2 * damaged:
        return "utf-8"
    if not re.search(rb"[\x80-\xff]{3}", block):  # Latin letters beyond ASCII seldom stand side by side
        return "cp1252"
    import charset_normalizer

    best = charset_normalizer.from_bytes(block, cp_isolation=_LEGACY).best()
    return best.encoding if best else "cp1252"


def _lines(data: bytes, start: int) -> Iterator[str]:
    stream = io.BytesIO(data)
    stream.seek(start)
    return io.TextIOWrapper(stream, "utf-8", newline="")


def first_lines(data: bytes) -> tuple[list[str], bool]:
    """Return the first lines, at least three, and whether there are more."""
    lines, size = [], 0
    for line in (source := _lines(data, 0)):
        lines.append(line)
        size += len(line)
        if size >= HEAD and len(lines) > 2:
            return lines, next(source, None) is not None
    return lines, False


def _rows(lines: Iterable[str], d: Dialect) -> Any:
    return csv.reader(lines, delimiter=d.delimiter, quotechar=d.quote, escapechar=d.escape, skipinitialspace=d.spaced)


def _first_row(lines: list[str], dialect: Dialect) -> tuple[list[str], int]:
    """Find the first row that is not blank, and count the lines down to its end. Its quotes may be others."""
    first = next((line for line in lines if line.strip()), "")
    reader = _rows(lines, Dialect(dialect.delimiter) if '"' in first else dialect)
    for row in reader:
        if any(field.strip() for field in row):
            return row, reader.line_num
    return [], 0


def _sample(lines: list[str], dialect: Dialect, cut: bool) -> list[list[str]]:
    rows = [row for row in _rows(lines, dialect) if row]
    return rows[:-1] if cut and len(rows) > 1 else rows  # the last may go on beyond the sample


def _dialect(lines: list[str]) -> Dialect:
    """Choose quote and delimiter: most rows must have as many fields as the header, with no other delimiter in them."""
    text = "\n" + "".join(lines)
    quote = quote_of("".join(lines[1:]))
    escape = "\\" if quote == "'" else None
    dialects = [Dialect(d, quote, escape, "\n " in text or f"{d} " in text) for d in _DELIMITERS]
    fits = [_fit(lines[:50], dialect) for dialect in dialects]
    best = max(fit for fit, _ in fits)
    drawn = [(dialect, rows) for dialect, (fit, rows) in zip(dialects, fits, strict=True) if fit == best]
    return max(drawn, key=lambda pair: _purity(*pair))[0] if len(drawn) > 1 else drawn[0][0]


def _fit(lines: list[str], dialect: Dialect) -> tuple[tuple[bool, float], list[list[str]]]:
    """Tell whether the delimiter splits the rows, and the share of them as wide as the first; return the rows too."""
    try:
        first, above = _first_row(lines, dialect)
        rows = _sample(lines[above:], dialect, True)
    except csv.Error:  # a field as long as a wide row
        return (False, 0.0), []
    widths = {len(row) for row in rows}
    # One field in the header but several in every row is a ragged file, unless it may be a decimal comma.
    splits = len(first) > 1 or (len(widths) == 1 and max(widths) > (2 if dialect.delimiter == "," else 1))
    return (splits, sum(len(row) == len(first) for row in rows) / max(1, len(rows))), [first, *rows]


def _purity(dialect: Dialect, rows: list[list[str]]) -> float:
    """Return the share of fields with no other delimiter in them, but for the comma or point of a number."""
    others = set(_DELIMITERS) - {dialect.delimiter}
    fields = [field for row in rows for field in row]
    return sum(others.isdisjoint(field) or bool(_NUMBER.fullmatch(field)) for field in fields) / max(1, len(fields))


def quote_of(text: str) -> str:
    """Choose single quotes, as Weka and OpenML write them, only if each field that starts with one ends with one."""
    text, edge = f"\n{text}", rf"[{_DELIMITERS}\r\n]"
    if "'" not in text or re.search(rf'"(?:(?<={edge}")|(?<={edge} "))', text):
        return '"'
    opened = rf"'(?:(?<={edge}')|(?<={edge} '))"
    whole = len(re.findall(rf"{opened}(?:[^'\\\n]|\\.|'')*' *(?={edge}|$)", text))
    return "'" if whole and whole == len(re.findall(opened, text)) else '"'


def is_header(first: list[str], rows: list[list[str]]) -> bool:
    """Tell whether the first row is a header: it is, unless all its fields are numbers.

    Numbers are names if they count 0, 1, 2, ... (three at least), or if they are years, all different, and of the
    values below them hardly any (less than one in ten) is a year.
    """
    filled = [field for field in first if field.strip(" ?") and field not in ("NA", "NaN", "nan")]
    if not filled or not all(_NUMBER.fullmatch(field) for field in filled):
        return True
    if len(filled) > 2 and filled == [str(i) for i in range(len(filled))]:
        return True
    below = [bool(_YEAR.fullmatch(field)) for row in rows for field in row if field.strip()]
    years = all(_YEAR.fullmatch(field) for field in filled) and len(set(filled)) == len(filled)
    return years and 10 * sum(below) < len(below)


def column_names(path: Path, header: list[str] | None, width: int = 0) -> list[str]:
    """Name the columns by a header, or x0, x1, ... without one. A column without a name gets its place as one."""
    if header is None:
        return [f"x{i}" for i in range(width)]
    names = [field.strip() or f"Unnamed: {i}" for i, field in enumerate(header)]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise DataError(f"{path} has more than one column named {', '.join(map(repr, twice))}: rename them")
    return names


def _with_decimal(dialect: Dialect, rows: list[list[str]]) -> Dialect:
    """Return the dialect with the decimal sign of most numbers that cannot have separated thousands."""
    fields = [field for row in rows for field in row]
    with_comma = [field for field in fields if "," in field]
    commas = sum(bool(_COMMA.fullmatch(f) and not _GROUPED.fullmatch(f)) for f in with_comma)
    if not commas:
        return dialect
    points = sum(bool(_POINT.fullmatch(f) and not _GROUPED.fullmatch(f)) for f in fields)
    return replace(dialect, decimal="," if commas > points else ".")


def _doubtful(frame: pd.DataFrame, rows: list[list[str]], decimal: str) -> tuple[list[str], bool]:
    """Find the columns of numbers whose decimal signs may separate thousands; tell if others have clear ones."""
    doubtful, is_clear = [], False
    for place, (name, dtype) in enumerate(frame.dtypes.items()):
        if dtype != np.float64:
            continue
        signed = (row[place] for row in rows if place < len(row) and decimal in row[place])
        first = next(signed, None)
        if first is not None and not is_doubtful(chain([first], signed), decimal):
            is_clear = True
            continue
        values = np.abs(frame[name].to_numpy())
        fractions = values[(values != np.floor(values)) & ~np.isnan(values)]
        if len(fractions) and not _may_be_thousands(fractions):
            is_clear = True
        elif first is not None or len(fractions):
            doubtful.append(str(name))
    return doubtful, is_clear


def _may_be_thousands(fractions: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    """Tell whether all numbers have at most three digits behind the decimal sign and one to three before it."""
    times = 1000 * fractions
    return bool(fractions.min() >= 1 and fractions.max() < 1000 and (np.abs(times - np.round(times)) < 1e-6).all())


def _indented(lines: list[str], names: list[str], dialect: Dialect) -> list[str]:
    """Find the columns of text in which some values of the sample start with a blank and others do not."""
    rows = [row for row in _rows(lines, replace(dialect, spaced=False)) if len(row) == len(names)]
    found = []
    for name, column in zip(names, zip(*rows, strict=True), strict=False):
        texts = [field for field in column if field.strip() and not _NUMBER.fullmatch(field.strip())]
        if 0 < sum(field[0] == " " for field in texts) < len(texts):
            found.append(name)
    return found


def parse(body: Body, dialect: Dialect, declared: dict[str, bool] | None = None) -> pd.DataFrame:
    """Let pandas read the rows. `declared` says of each column whether it is text, where the file itself says so."""
    if next((found for _, found in _records(body, dialect) if found), 0) > len(body.names):
        _refuse_ragged(body, dialect)  # pandas would take the surplus for row names
    try:
        frame = _read_csv(body, dialect, declared)
    except pd.errors.ParserError as error:
        if "EOF inside string" in str(error):
            *_, (line, _found) = _records(body, dialect)
            raise DataError(f"{body.path} line {line} opens a quote ({dialect.quote}) that nothing closes") from None
        _refuse_ragged(body, dialect)
        raise DataError(f"{body.path} cannot be read: {error}") from None
    if len(body.names) > 1 and _may_be_short(body, dialect, frame.iloc[:, -1].isna().to_numpy()):
        _refuse_ragged(body, dialect)
    return frame


def _read_csv(
    body: Body, dialect: Dialect, declared: dict[str, bool] | None, as_text: list[str] | None = None
) -> pd.DataFrame:
    """Read all columns, or those of `as_text` as they are written."""
    stream = io.BytesIO(body.data)
    stream.seek(body.start)
    missing: Any = list(MISSING) if _has_blank_fields(body.data, dialect.delimiter) else ["?"]  # each one costs time
    if declared is not None:
        missing = {name: ["?", ""] if text else ["?", "", "NaN", "nan"] for name, text in declared.items()}
    texts = as_text or [name for name, text in (declared or {}).items() if text]
    return pd.read_csv(
        stream,
        sep=dialect.delimiter,
        header=None,
        names=body.names,
        usecols=as_text,
        quotechar=dialect.quote,
        escapechar=dialect.escape if b"\\" in body.data else None,  # costs time
        decimal=dialect.decimal,
        skipinitialspace=dialect.spaced,  # costs time
        na_values=missing,
        keep_default_na=declared is None,
        dtype=dict.fromkeys(texts, str),
        low_memory=False,  # else a column's type may change half way down
    )


def _has_blank_fields(data: bytes, delimiter: str) -> bool:
    """Tell whether any field may be nothing but blanks, which none is if no field starts with one."""
    blanks = [blank for blank in (b" ", b"\t") if blank != delimiter.encode() and blank in data]
    starts = [edge + blank for blank in blanks for edge in (b"\n", delimiter.encode())]
    return any(data.startswith(blank) for blank in blanks) or any(start in data for start in starts)


def _may_be_short(body: Body, dialect: Dialect, missing: np.ndarray[Any, np.dtype[np.bool_]]) -> bool:
    """Tell whether rows may lack fields, which pandas fills up: only rows whose last value is missing can."""
    if not missing.any():
        return False
    if sum(not line.isspace() for line in _lines(body.data, body.start)) != len(missing):
        return True  # some rows are not one line
    lines = (line for line in _lines(body.data, body.start) if not line.isspace())
    return any(len(row) != len(body.names) for row in _rows(compress(lines, missing), dialect))


def _records(body: Body, dialect: Dialect) -> Iterator[tuple[int, int]]:
    """Give the line on which each row starts, and its number of fields: 0 if the row is blank or too long to count."""
    reader = _rows(_lines(body.data, body.start), dialect)
    while True:
        line = body.line + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield line, 0
            return
        yield line, len(row) if len(row) > 1 or "".join(row).strip() else 0


def _refuse_ragged(body: Body, dialect: Dialect) -> None:
    expected = len(body.names)
    for line, found in _records(body, dialect):
        if found not in (0, expected):
            raise DataError(
                f"{body.path} line {line} has {plural(found, 'field')}, expected {expected} as there are columns: "
                f"correct the line, or quote fields that contain {dialect.delimiter!r}"
            )
