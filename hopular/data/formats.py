"""Read a person's own data file into a frame: text in the dialect it turns out to be in, Parquet, Feather, ARFF, Excel.

Numbers come back as numbers, booleans as booleans, text and dates as strings, and so do numbers that may have separated
thousands, which `kinds` decides on. Only typed formats (Parquet, Feather, Excel) may give dates as dates, because there
a person chose so.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hopular.data.archive import COMPRESSIONS, check_workbook, read_bytes
from hopular.data.arff import read_arff
from hopular.data.errors import DataError
from hopular.data.numbers import UNKNOWN, Style
from hopular.data.text import MISSING, column_names, is_header, read_text, to_utf8
from hopular.util import did_you_mean

SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".feather", ".arff", ".xlsx")
SHEET_ROWS = 20  # within which a sheet that is not empty has a cell


@dataclass(frozen=True, eq=False)
class RawTable:
    """The rows of a data file, what is known of the way its numbers are written, and notes on what was not taken."""

    frame: pd.DataFrame
    style: Style = UNKNOWN
    notes: tuple[str, ...] = ()


def read_table(path: Path) -> pd.DataFrame:
    """The rows of a data file under its column names, as `read_raw` gives them."""
    return read_raw(path).frame


def read_raw(path: Path, sheet: str | None = None) -> RawTable:
    """The rows of a data file, which may be compressed, under its column names; DataError if there are none to be had.

    A text file's first row names the columns, unless it holds nothing but numbers: then they are x0, x1, ... (years
    and 0, 1, 2, ... can still be names, see `is_header`). `sheet` is one of a workbook, by default the first.
    """
    path = Path(path)
    if path.is_file() and not is_data_file(path):
        raise DataError(
            f"{path} has the suffix {path.suffix!r}, which names no known format: use one of {', '.join(SUFFIXES)}, "
            f"alone or followed by one of {', '.join(COMPRESSIONS)}"
        )
    name, data = read_bytes(path, SUFFIXES)
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
        table = RawTable(read_arff(path, to_utf8(path, data)))
    else:
        frame, style, notes = read_text(path, to_utf8(path, data))
        table = RawTable(frame, style, tuple(notes))
    if not len(table.frame):
        raise DataError(f"{path} has column names but no rows")
    return table


def is_data_file(path: Path) -> bool:
    """Whether the name is one that `read_table` takes; what a zip archive holds is only known once it is read."""
    name = Path(path).name.lower()
    return name.endswith((*SUFFIXES, *(s + c for s in SUFFIXES for c in COMPRESSIONS), ".zip"))


def stem(path: Path) -> str:
    """The file name without its suffixes of format and compression."""
    path = Path(path)
    while path.suffix.lower() in SUFFIXES + COMPRESSIONS:
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
    """One sheet of a workbook, and a note if others hold something as well."""
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
    return bool(pd.read_excel(book, sheet_name=sheet, header=None, nrows=SHEET_ROWS).notna().any(axis=None))
