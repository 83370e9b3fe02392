"""Read a person's own data file into a frame: text in the dialect it turns out to be in, Parquet, Feather, ARFF, Excel.

Numbers come back as numbers, booleans as booleans, text and dates as strings. Only typed formats (Parquet, Feather,
Excel) may give dates as dates, because there a person chose so.
"""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd

from hopular.data.archive import COMPRESSIONS, check_workbook, read_bytes
from hopular.data.arff import read_arff
from hopular.data.errors import DataError
from hopular.data.text import MISSING, column_names, is_header, read_text, to_utf8

SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".feather", ".arff", ".xlsx")


def read_table(path: Path) -> pd.DataFrame:
    """The rows of a data file, which may be compressed, under its column names; DataError if there are none to be had.

    A text file's first row names the columns, unless it holds nothing but numbers: then they are x0, x1, ... (years
    and 0, 1, 2, ... can still be names, see `is_header`).
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
    if suffix in (".parquet", ".feather"):
        frame = _read_columns(path, data, suffix)
    elif suffix == ".xlsx":
        frame = _read_excel(path, data)
    else:
        read = read_arff if suffix == ".arff" else read_text
        frame = read(path, to_utf8(path, data))
    if not len(frame):
        raise DataError(f"{path} has column names but no rows")
    return frame


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


def _read_excel(path: Path, data: bytes) -> pd.DataFrame:
    """The first sheet of a workbook."""
    check_workbook(path, data)
    try:
        cells = pd.read_excel(io.BytesIO(data), engine="openpyxl", header=None, dtype=object, na_values=list(MISSING))
    except ImportError:
        raise DataError(f"{path}: reading Excel files needs openpyxl: pip install 'hopular[excel]'") from None
    except Exception as error:
        raise DataError(f"{path} is damaged or not an Excel workbook ({error}): save it again, or as CSV") from None
    cells = cells.dropna(how="all").dropna(how="all", axis="columns")
    if cells.empty:
        raise DataError(f"{path} is empty in its first sheet: move the table there")
    head = [["" if pd.isna(cell) else str(cell) for cell in row] for row in cells.iloc[:100].to_numpy()]
    named = is_header(head[0], head[1:])
    frame = cells.iloc[int(named) :].infer_objects().reset_index(drop=True)
    frame.columns = pd.Index(column_names(path, head[0] if named else None, frame.shape[1]))
    return frame
