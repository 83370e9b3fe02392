"""Files that know their types (Parquet, Excel, ARFF and more), and tables that survive being written and read."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopular.data import load
from hopular.data.dataset import DataError
from hopular.data.read import read_table
from hopular.data.sources.file import read_rows
from tests.data.test_formats import FRAME, columns, read, refused

# ------------------------------------------------------------------------------------------------------- typed formats


def save(frame, path):
    writers = {".csv": "to_csv", ".parquet": "to_parquet", ".feather": "to_feather", ".xlsx": "to_excel"}
    options = {} if path.suffix == ".feather" else {"index": False}
    getattr(frame, writers[path.suffix])(path, **options)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".xlsx"])
def test_every_format_gives_the_same_frame(tmp_path, suffix):
    frame = read_table(save(FRAME, tmp_path / f"t{suffix}"))
    pd.testing.assert_frame_equal(frame, FRAME)


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zip"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".xlsx"])
def test_every_format_may_be_compressed(tmp_path, suffix, compression):
    content = save(FRAME, tmp_path / f"t{suffix}").read_bytes()
    path = tmp_path / f"packed{suffix}{compression}"
    if compression == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"inside{suffix}", content)
    else:
        path.write_bytes({".gz": gzip, ".bz2": bz2, ".xz": lzma}[compression].compress(content))
    pd.testing.assert_frame_equal(read_table(path), FRAME)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".xlsx"])
def test_dates_of_typed_formats_stay_dates(tmp_path, suffix):
    dates = pd.DataFrame({"d": pd.to_datetime(["2024-01-31", None]), "x": [1, 2]})
    assert read_table(save(dates, tmp_path / f"t{suffix}"))["d"].tolist() == dates["d"].tolist()


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
@pytest.mark.parametrize("cut", [slice(None, -20), slice(20, None), slice(0, 3)])
def test_damaged_column_files(tmp_path, suffix, cut):
    content = save(FRAME, tmp_path / f"whole{suffix}").read_bytes()[cut]
    refused(tmp_path, content, rf"t{suffix} is damaged or not a {suffix[1:].capitalize()} file \(", f"t{suffix}")


def test_a_named_index_is_a_column_and_another_is_none(tmp_path):
    FRAME.set_index("n").to_parquet(tmp_path / "named.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "named.parquet"), FRAME)
    FRAME.set_index(pd.Index([7, 8, 9])).to_parquet(tmp_path / "other.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "other.parquet"), FRAME)


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    pyarrow.parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet has more than one column named 'a': rename them"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".xlsx"])
def test_typed_files_without_rows(tmp_path, suffix):
    path = save(FRAME.iloc[:0].reset_index(drop=True), tmp_path / f"t{suffix}")
    with pytest.raises(DataError, match=rf"t{suffix} has column names but no rows"):
        read_table(path)


# --------------------------------------------------------------------------------------------------------------- Excel


def sheet(tmp_path, rows):
    pd.DataFrame(rows).to_excel(tmp_path / "t.xlsx", index=False, header=False)
    return tmp_path / "t.xlsx"


def test_excel_missing_codes_blank_rows_and_nameless_columns(tmp_path):
    rows = [[None, None, None], ["a", None, 2019], ["?", "x", 1], [None, None, None], ["y", " ", 2.5]]
    frame = read_table(sheet(tmp_path, rows))
    assert columns(frame) == {"a": [None, "y"], "Unnamed: 1": ["x", None], "2019": [1, 2.5]}
    assert frame["2019"].dtype.kind == "f"


def test_excel_without_header(tmp_path):
    assert columns(read_table(sheet(tmp_path, [[1, 2], [3, 4]]))) == {"x0": [1, 3], "x1": [2, 4]}


def test_excel_columns_of_one_name_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"t\.xlsx has more than one column named 'a', 'b': rename them"):
        read_table(sheet(tmp_path, [["a", "b", "a", "b"], [1, 2, 3, 4]]))


def test_excel_whose_first_sheet_is_empty(tmp_path):
    with pytest.raises(DataError, match=r"t\.xlsx is empty in its first sheet: move the table there"):
        read_table(sheet(tmp_path, []))


def test_other_sheets_of_a_workbook_are_named_and_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))
    with pd.ExcelWriter(tmp_path / "own.xlsx") as book:
        for name, shift in (("2023", 0.0), ("2024", 100.0), ("notes", None)):
            values = np.linspace(0, 1, 30) + (shift or 0.0)
            table = pd.DataFrame({"x": values, "y": ["a", "b"] * 15}) if shift is not None else pd.DataFrame()
            table.to_excel(book, sheet_name=name, index=False)
    first = load(str(tmp_path / "own.xlsx"), target="y")
    assert first.notes == ("sheet '2023' read (choose with sheet in the sidecar), not: 2024",)
    (tmp_path / "own.toml").write_text('target = "y"\nsheet = "2024"\n')
    second = load(str(tmp_path / "own.xlsx"))
    assert second.X["x"].min() == 100
    assert second.notes == ()
    assert read_rows(tmp_path / "own.xlsx").frame["x"].min() == 100
    (tmp_path / "own.toml").write_text('target = "y"\nsheet = "202"\n')
    with pytest.raises(DataError, match=r"own\.xlsx has no sheet '202', but 2023, 2024, notes\. Did you mean '2024'\?"):
        load(str(tmp_path / "own.xlsx"))
    (tmp_path / "own.toml").write_text('target = "y"\nsheet = "notes"\n')
    with pytest.raises(DataError, match=r"empty in its sheet 'notes': name another with sheet in the sidecar \(2023, "):
        load(str(tmp_path / "own.xlsx"))
    (tmp_path / "own.csv").write_text("x,y\n1,a\n2,b\n")
    with pytest.raises(DataError, match=r"own\.csv has no sheets, so sheet = 'notes' means nothing: leave it out"):
        load(str(tmp_path / "own.csv"))


def test_excel_without_openpyxl_says_how_to_install_it(tmp_path, monkeypatch):
    path = save(FRAME, tmp_path / "t.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"t\.xlsx: reading Excel files needs openpyxl: pip install 'hopular\[excel\]'"):
        read_table(path)


def test_damaged_workbooks(tmp_path):
    refused(tmp_path, b"PK no workbook", r"t\.xlsx is damaged, protected by a password or not an Excel", "t.xlsx")
    with zipfile.ZipFile(tmp_path / "other.xlsx", "w") as archive:
        archive.writestr("t.txt", "a zip archive, but no workbook")
    with pytest.raises(
        DataError, match=r"other\.xlsx is damaged or not an Excel workbook \(.*save it again, or as CSV"
    ):
        read_table(tmp_path / "other.xlsx")


# ---------------------------------------------------------------------------------------------------------------- ARFF

ARFF = r"""% a comment
@RELATION 'the weather'

@attribute outlook {sunny, 'over cast', rainy}
@ATTRIBUTE 'wind\'s speed'  REAL
@attribute "days"	integer
@attribute code{0,1}
@attribute note string
@attribute when date "yyyy-MM-dd"

@DATA
% another
sunny, 1.5, 3, 0, 'it\'s, well', 2024-01-31
'over cast',?,4,1,NA,'2024-02-01'

  % and one more
?,-2e3,?,?,'?',?
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_arff(tmp_path, end):
    frame = read(tmp_path, ARFF.replace("\n", end), "t.arff")
    assert columns(frame) == {
        "outlook": ["sunny", "over cast", None],
        "wind's speed": [1.5, None, -2000],
        "days": [3, 4, None],
        "code": ["0", "1", None],
        "note": ["it's, well", "NA", None],
        "when": ["2024-01-31", "2024-02-01", None],
    }


def arff(*rows, kind="numeric"):
    return "\n".join(["@relation r", f"@attribute a {kind}", "@attribute b {x,y}", "@data", *rows])


def test_arff_with_tabs_and_compressed(tmp_path):
    assert columns(read(tmp_path, gzip.compress(arff("1\tx", "2\ty").encode()), "t.arff.gz")) == {
        "a": [1, 2],
        "b": ["x", "y"],
    }


BAD_ARFF = {
    "sparse": (arff("% c", "1,x", "{0 1, 1 x}"), r"t\.arff line 7 is a sparse row, \{\.\.\.\}, which is not supported"),
    "no data line": ("@relation r\n@attribute a numeric\n", r"t\.arff has no @data line, so it is not a whole ARFF"),
    "no rows": (arff(), r"t\.arff has column names but no rows"),
    "unknown type": (arff("1,x", kind="relational"), r"line 2: attribute 'a' has the type 'relational', which is not"),
    "long row": (arff("1,x", "% c", "2,y,3"), r"t\.arff line 7 has 3 fields, expected 2"),
    "long first row": (arff("1,x,3", "2,y,3"), r"t\.arff line 5 has 3 fields, expected 2"),
    "short row": (arff("1,x", "2"), r"t\.arff line 6 has 1 field, expected 2"),
    "text for a number": (arff("1,x", "one,y"), r"attribute 'a' is declared as numeric but has the value 'one'"),
    "undeclared value": (arff("1,z"), r"attribute 'b' is declared as \{x,y\} but has the value 'z': correct one"),
    "one name twice": (arff("1,x").replace("bute b", "bute a"), r"more than one column named 'a': rename them"),
    "no attributes": ("@relation r\n@data\n1,2\n", r"t\.arff declares no attributes"),
}


@pytest.mark.parametrize(("text", "message"), BAD_ARFF.values(), ids=BAD_ARFF.keys())
def test_bad_arff(tmp_path, text, message):
    refused(tmp_path, text, message, "t.arff")


# ---------------------------------------------------------------------------------------------------------- round trip

# What a CSV file cannot say is left out: text that reads as a number, a boolean or a missing value (each text starts
# with a letter), blanks in front of unquoted text (trimmed), text in single quotes throughout, control characters, a
# lone carriage return (Python 3.11 writes it unquoted), columns that are missing altogether, and a single column, which
# text with another delimiter in every row makes look like several.
LETTERS = st.characters(codec="utf-8", categories=("L", "N", "P", "S"))
LATIN = st.sampled_from("abcxyzäéñ€ÿß")
AWKWARD = st.sampled_from([",", ";", "\t", "|", '"', "'", "\n", "\r\n", " ", "'s, ", '""', "\\", "1,5", "2.5"])
DIALECTS = st.sampled_from([(",", "."), (";", "."), (";", ","), ("\t", "."), ("|", ".")])
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"])
QUOTING = st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])


def texts(letters):
    pieces = st.lists(letters | AWKWARD, max_size=8).map("".join)
    return st.builds(lambda first, rest: f"{first}w{rest}", st.sampled_from("abkz"), pieces)


@st.composite
def frames(draw, letters):
    """Floats with gaps, whole numbers, booleans and text, one column at least of each of some kinds."""
    rows = draw(st.integers(1, 12))
    floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.1, -2.5, 1234.5])
    kinds = {
        "float": (st.none() | floats, "float64"),
        "int": (st.integers(-(2**63), 2**63 - 1), "int64"),
        "bool": (st.booleans(), "bool"),
        "text": (st.none() | texts(letters), "str"),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=2, max_size=5))
    made = {}
    for i, kind in enumerate(chosen):
        values, dtype = kinds[kind]
        column = draw(st.lists(values, min_size=rows, max_size=rows).filter(lambda v: any(x is not None for x in v)))
        made[f"{kind} {i}"] = pd.Series(column, dtype=dtype)
    return pd.DataFrame(made)


def check_round_trip(folder, frame, dialect, encoding, quoting):
    delimiter, decimal = dialect
    path = folder / "t.csv"
    frame.to_csv(path, sep=delimiter, decimal=decimal, encoding=encoding, quoting=quoting, index=False)
    pd.testing.assert_frame_equal(read_table(path), frame, check_exact=True)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=frames(LETTERS), dialect=DIALECTS, encoding=ENCODINGS.filter(lambda e: e != "cp1252"), quoting=QUOTING)
def test_frames_survive_any_dialect(tmp_path, frame, dialect, encoding, quoting):
    check_round_trip(tmp_path, frame, dialect, encoding, quoting)


# Letters beyond ASCII stand apart here, as in Western languages: three side by side are taken for another script.
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=frames(st.builds("{}n".format, LATIN)), dialect=DIALECTS, encoding=ENCODINGS, quoting=QUOTING)
def test_western_frames_survive_cp1252_too(tmp_path, frame, dialect, encoding, quoting):
    check_round_trip(tmp_path, frame, dialect, encoding, quoting)
