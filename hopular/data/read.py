"""Read a person's own data file into a frame: text in the dialect it turns out to be in, Parquet, Feather, ARFF, Excel.

Numbers come back as numbers, booleans as booleans, text and dates as strings, and so do numbers that may have separated
thousands, which `schema` decides on. Only typed formats (Parquet, Feather, Excel) give dates as dates.

Compressed files are read in memory, within limits, and never extracted to disk.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

import pandas as pd

from hopular.data.dataset import DataError
from hopular.data.notation import UNKNOWN, Style
from hopular.data.text import (
    MISSING,
    Body,
    Dialect,
    column_names,
    first_lines,
    is_header,
    parse,
    quote_of,
    read_text,
    to_utf8,
)
from hopular.formatting import some
from hopular.util import did_you_mean

TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".dat")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet", ".feather", ".arff", ".xlsx")
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zip")
LIMIT = 2 * 1024**3  # most bytes that a compressed file may grow to
_RATIO = 200  # times that a file may grow; one that grows more is a decompression bomb
RATIO_FROM = 100 * 1024**2  # bytes from which the ratio counts: short files of one repeated value grow as much
CHUNK = 1024**2  # bytes to decompress at a time
_SHEET_ROWS = 20  # within which a sheet that is not empty has a cell


@dataclass(frozen=True, eq=False)
class RawTable:
    """The rows of a data file, what is known of the notation of its numbers, and notes on what was not taken."""

    frame: pd.DataFrame
    style: Style = UNKNOWN
    notes: tuple[str, ...] = ()


def read_raw(path: Path, sheet: str | None = None) -> RawTable:
    """Read the rows of a data file, which may be compressed, under its column names; DataError if it has none.

    A text file's first row names the columns, unless it holds nothing but numbers: then they are x0, x1, ... (years
    and 0, 1, 2, ... can still be names, see `is_header`). `sheet` is one of a workbook, by default the first.
    """
    path = Path(path)
    if path.is_file() and not is_data_file(path):
        raise DataError(
            f"{path} has the suffix {path.suffix!r}, which names no known format: use one of {', '.join(SUFFIXES)}, "
            f"alone or followed by one of {', '.join(_COMPRESSIONS)}"
        )
    name, data = read_bytes(path)
    if not data or data.isspace():
        raise DataError(f"{path} is empty")
    suffix = Path(name).suffix.lower()
    if sheet is not None and suffix != ".xlsx":
        raise DataError(f"{path} has no sheets, so sheet = {sheet!r} means nothing: leave it out")
    if suffix in (".parquet", ".feather"):
        table = RawTable(_read_columns(path, data, suffix))
    elif suffix == ".xlsx":
        table = _read_excel(path, data, sheet)
    elif suffix == ".arff":
        table = RawTable(_read_arff(path, to_utf8(path, data)))
    else:
        frame, style, notes = read_text(path, to_utf8(path, data))
        table = RawTable(frame, style, tuple(notes))
    if not len(table.frame):
        raise DataError(f"{path} has column names but no rows")
    return table


def is_data_file(path: Path) -> bool:
    """Tell whether `read_raw` takes a file of that name; what a zip archive holds is only known once it is read."""
    name = Path(path).name.lower()
    return name.endswith((*SUFFIXES, *(s + c for s in SUFFIXES for c in _COMPRESSIONS), ".zip"))


def stem(path: Path) -> str:
    """Return the file name without its suffixes of format and compression."""
    path = Path(path)
    while path.suffix.lower() in SUFFIXES + _COMPRESSIONS:
        path = path.with_suffix("")
    return path.name


def _read_columns(path: Path, data: bytes, suffix: str) -> pd.DataFrame:
    from pyarrow import feather, parquet

    try:
        stream = io.BytesIO(data)
        table = parquet.ParquetFile(stream).read() if suffix == ".parquet" else feather.read_table(stream)
        frame: pd.DataFrame = table.to_pandas()
    except Exception as error:
        kind = suffix[1:].capitalize()
        raise DataError(f"{path} is damaged or not a {kind} file ({error}): write it again") from None
    named = [level for level in frame.index.names if level is not None]
    if named:  # an index with a name is a column like any other
        frame = frame.reset_index(named)
    frame.columns = pd.Index(column_names(path, [str(column) for column in frame.columns]))
    return frame.reset_index(drop=True)


def _read_excel(path: Path, data: bytes, sheet: str | None) -> RawTable:
    """Read one sheet of a workbook, and note if others hold something as well."""
    check_workbook(path, data)
    try:
        with pd.ExcelFile(io.BytesIO(data), engine="openpyxl") as book:
            names = [str(name) for name in book.sheet_names]
            chosen = names[0] if sheet is None else sheet
            if chosen not in names:
                raise DataError(f"{path} has no sheet {sheet!r}, but {', '.join(names)}.{did_you_mean(chosen, names)}")
            cells = pd.read_excel(book, sheet_name=chosen, header=None, dtype=object, na_values=list(MISSING))
            filled = [name for name in names if name == chosen or _has_cells(book, name)]
    except DataError:
        raise
    except ImportError:
        raise DataError(f"{path}: reading Excel files needs openpyxl: pip install 'hopular[excel]'") from None
    except Exception as error:
        raise DataError(f"{path} is damaged or not an Excel workbook ({error}): save it again, or as CSV") from None
    cells = cells.dropna(how="all").dropna(how="all", axis="columns")
    if cells.empty:
        others = [name for name in filled if name != chosen]
        remedy = f"name another with sheet in the sidecar ({', '.join(others)})" if others else "move the table there"
        raise DataError(f"{path} is empty in its {'first sheet' if sheet is None else f'sheet {sheet!r}'}: {remedy}")
    head = [["" if pd.isna(cell) else str(cell) for cell in row] for row in cells.iloc[:100].to_numpy()]
    named = is_header(head[0], head[1:])
    frame = cells.iloc[int(named) :].infer_objects().reset_index(drop=True)
    frame.columns = pd.Index(column_names(path, head[0] if named else None, frame.shape[1]))
    if sheet is not None or len(filled) == 1:
        return RawTable(frame)
    unread = ", ".join(name for name in filled if name != chosen)
    return RawTable(frame, notes=(f"sheet {chosen!r} read (choose with sheet in the sidecar), not: {unread}",))


def _has_cells(book: pd.ExcelFile, sheet: str) -> bool:
    return bool(pd.read_excel(book, sheet_name=sheet, header=None, nrows=_SHEET_ROWS).notna().any(axis=None))


# ----------------------------------------------------------------------------------------------------------------- ARFF


_QUOTED = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"\s*@attribute\s+({_QUOTED}|[^\s{{]+)\s*(.*?)\s*$", re.IGNORECASE)
_NOMINAL = re.compile(rf"\s*({_QUOTED}|[^,]*?)\s*(?:,|$)")


def _read_arff(path: Path, data: bytes) -> pd.DataFrame:
    """Read numeric attributes as numbers, all others as strings; only '?' is missing."""
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
    """Return a name or value without its quotes and escapes."""
    return re.sub(r"\\(.)", r"\1", token[1:-1]) if token[:1] in ("'", '"') and len(token) > 1 else token


# ----------------------------------------------------------------------------------------------------- compressed files


def read_bytes(path: Path) -> tuple[str, bytes]:
    """Return the file name that tells the format, without a compression suffix, and the content.

    A zip archive must hold exactly one file with one of SUFFIXES; its name is then the one returned.
    """
    compression = path.suffix.lower()
    if path.is_dir():
        raise DataError(f"{path} is a folder: name one data file in it")
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise DataError(_missing(path)) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        if compression not in _COMPRESSIONS:
            return path.name, file.read()
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if not size:
            return path.stem, b""
        try:
            if compression == ".zip":
                return _read_zip(path, file, size)
            return path.stem, _expand(path, _plain(file, compression), size)
        except DataError:
            raise
        except Exception as error:  # damaged content makes the decompressors raise almost anything
            what = f"damaged or not a {compression[1:]} file ({error or type(error).__name__})"
            raise DataError(f"{path} is {what}: get it again") from None


def check_workbook(path: Path, data: bytes) -> None:
    """Refuse an Excel workbook (a zip archive of many parts) that is damaged or a decompression bomb."""
    total = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for part in archive.infolist():
                with archive.open(part) as stream:
                    for chunk in _chunks(stream):
                        total += len(chunk)
                        _check_growth(path, total, len(data))
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{path} is damaged, protected by a password or not an Excel workbook ({error}): save it again, or as CSV"
        ) from None


def _read_zip(path: Path, file: IO[bytes], size: int) -> tuple[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        for member in members:
            if _escapes(member.filename):
                raise DataError(f"{path} holds {member.filename!r}, a path that leads out of the archive: not read")
        member = _the_data_file(path, members)
        if member.flag_bits & 0x1:
            raise DataError(f"{path}: {member.filename!r} is encrypted: unpack it with its password and name that file")
        return PurePosixPath(member.filename).name, _expand(path, archive.open(member), size)


def _the_data_file(path: Path, members: list[zipfile.ZipInfo]) -> zipfile.ZipInfo:
    visible = [m for m in members if not _hidden(m.filename)]
    found = [m for m in visible if m.filename.lower().endswith(SUFFIXES)]
    if not found:
        inside = some(sorted(m.filename for m in visible), 10) or "nothing"
        raise DataError(f"{path} holds no data file ({', '.join(SUFFIXES)}), but {inside}")
    if len(found) > 1:
        names = some(sorted(m.filename for m in found), 10)
        raise DataError(f"{path} holds {len(found)} data files, {names}: unpack it and name one of them")
    return found[0]


def _escapes(name: str) -> bool:
    """Tell whether a member's path is absolute or climbs with '..', as read by any operating system."""
    windows = PureWindowsPath(name)
    return bool(windows.drive or windows.root) or PurePosixPath(name).is_absolute() or ".." in windows.parts


def _hidden(name: str) -> bool:
    """Tell whether a member is a system's own note, such as macOS adds, rather than a person's file."""
    *folders, base = name.split("/")
    return "__MACOSX" in folders or base.startswith(".")


def _plain(file: IO[bytes], compression: str) -> io.BufferedIOBase:
    if compression == ".gz":
        return gzip.GzipFile(fileobj=file)
    return bz2.BZ2File(file) if compression == ".bz2" else lzma.LZMAFile(file)


def _expand(path: Path, stream: io.BufferedIOBase | IO[bytes], size: int) -> bytes:
    """Read the whole of a decompressing stream, counted as it grows: what a header says of its size is not trusted."""
    content = io.BytesIO()
    with stream:
        for chunk in _chunks(stream):
            content.write(chunk)
            _check_growth(path, content.tell(), size)
    return content.getvalue()


def _chunks(stream: io.BufferedIOBase | IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(CHUNK), b"")


def _check_growth(path: Path, grown: int, size: int) -> None:
    if grown > LIMIT:
        raise DataError(
            f"{path} grows to more than {LIMIT:,} bytes: if you trust it, unpack it and name the unpacked file"
        )
    if grown > RATIO_FROM and grown > _RATIO * size:
        raise DataError(
            f"{path} grows to more than {_RATIO} times its {size:,} bytes, as decompression bombs do: if you trust it, "
            "unpack it and name the unpacked file"
        )


def _missing(path: Path) -> str:
    if not path.parent.is_dir():
        return f"{path} does not exist, nor does the folder {path.parent}"
    return f"{path} does not exist.{did_you_mean(path.name, (other.name for other in path.parent.iterdir()))}"
