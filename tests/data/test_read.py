"""Files that know their types, tables that survive being written and read, and compressed files, within bounds."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
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

import hopular.data.read as module
from hopular.data import load
from hopular.data.dataset import DataError
from hopular.data.read import check_workbook, read_bytes, read_raw
from hopular.data.sources.file import read_rows
from tests.data.test_text import FRAME, columns, read, refused

# ------------------------------------------------------------------------------------------------------- typed formats


def save(frame, path):
    writers = {".csv": "to_csv", ".parquet": "to_parquet", ".feather": "to_feather", ".xlsx": "to_excel"}
    options = {} if path.suffix == ".feather" else {"index": False}
    getattr(frame, writers[path.suffix])(path, **options)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".xlsx"])
def test_every_format_gives_the_same_frame(tmp_path, suffix):
    frame = read_raw(save(FRAME, tmp_path / f"t{suffix}")).frame
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
    pd.testing.assert_frame_equal(read_raw(path).frame, FRAME)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".xlsx"])
def test_dates_of_typed_formats_stay_dates(tmp_path, suffix):
    dates = pd.DataFrame({"d": pd.to_datetime(["2024-01-31", None]), "x": [1, 2]})
    assert read_raw(save(dates, tmp_path / f"t{suffix}")).frame["d"].tolist() == dates["d"].tolist()


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
@pytest.mark.parametrize("cut", [slice(None, -20), slice(20, None), slice(0, 3)])
def test_damaged_column_files(tmp_path, suffix, cut):
    content = save(FRAME, tmp_path / f"whole{suffix}").read_bytes()[cut]
    refused(tmp_path, content, rf"t{suffix} is damaged or not a {suffix[1:].capitalize()} file \(", f"t{suffix}")


def test_a_named_index_is_a_column_and_another_is_none(tmp_path):
    FRAME.set_index("n").to_parquet(tmp_path / "named.parquet")
    pd.testing.assert_frame_equal(read_raw(tmp_path / "named.parquet").frame, FRAME)
    FRAME.set_index(pd.Index([7, 8, 9])).to_parquet(tmp_path / "other.parquet")
    pd.testing.assert_frame_equal(read_raw(tmp_path / "other.parquet").frame, FRAME)


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    pyarrow.parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet has more than one column named 'a': rename them"):
        read_raw(tmp_path / "t.parquet")


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".xlsx"])
def test_typed_files_without_rows(tmp_path, suffix):
    path = save(FRAME.iloc[:0].reset_index(drop=True), tmp_path / f"t{suffix}")
    with pytest.raises(DataError, match=rf"t{suffix} has column names but no rows"):
        read_raw(path)


# --------------------------------------------------------------------------------------------------------------- Excel


def sheet(tmp_path, rows):
    pd.DataFrame(rows).to_excel(tmp_path / "t.xlsx", index=False, header=False)
    return tmp_path / "t.xlsx"


def test_excel_missing_codes_blank_rows_and_nameless_columns(tmp_path):
    rows = [[None, None, None], ["a", None, 2019], ["?", "x", 1], [None, None, None], ["y", " ", 2.5]]
    frame = read_raw(sheet(tmp_path, rows)).frame
    assert columns(frame) == {"a": [None, "y"], "Unnamed: 1": ["x", None], "2019": [1, 2.5]}
    assert frame["2019"].dtype.kind == "f"


def test_excel_without_header(tmp_path):
    assert columns(read_raw(sheet(tmp_path, [[1, 2], [3, 4]])).frame) == {"x0": [1, 3], "x1": [2, 4]}


def test_excel_columns_of_one_name_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"t\.xlsx has more than one column named 'a', 'b': rename them"):
        read_raw(sheet(tmp_path, [["a", "b", "a", "b"], [1, 2, 3, 4]]))


def test_excel_whose_first_sheet_is_empty(tmp_path):
    with pytest.raises(DataError, match=r"t\.xlsx is empty in its first sheet: move the table there"):
        read_raw(sheet(tmp_path, []))


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
        read_raw(path)


def test_damaged_workbooks(tmp_path):
    refused(tmp_path, b"PK no workbook", r"t\.xlsx is damaged, protected by a password or not an Excel", "t.xlsx")
    with zipfile.ZipFile(tmp_path / "other.xlsx", "w") as archive:
        archive.writestr("t.txt", "a zip archive, but no workbook")
    with pytest.raises(
        DataError, match=r"other\.xlsx is damaged or not an Excel workbook \(.*save it again, or as CSV"
    ):
        read_raw(tmp_path / "other.xlsx")


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
    pd.testing.assert_frame_equal(read_raw(path).frame, frame, check_exact=True)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=frames(LETTERS), dialect=DIALECTS, encoding=ENCODINGS.filter(lambda e: e != "cp1252"), quoting=QUOTING)
def test_frames_survive_any_dialect(tmp_path, frame, dialect, encoding, quoting):
    check_round_trip(tmp_path, frame, dialect, encoding, quoting)


# Letters beyond ASCII stand apart here, as in Western languages: three side by side are taken for another script.
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=frames(st.builds("{}n".format, LATIN)), dialect=DIALECTS, encoding=ENCODINGS, quoting=QUOTING)
def test_western_frames_survive_cp1252_too(tmp_path, frame, dialect, encoding, quoting):
    check_round_trip(tmp_path, frame, dialect, encoding, quoting)


CONTENT = b"a,b\n1,2\n3,4\n"
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def make_zip(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return path


def small_limits(monkeypatch):
    monkeypatch.setattr(module, "RATIO_FROM", 100_000)
    monkeypatch.setattr(module, "CHUNK", 10_000)


# ---------------------------------------------------------------------------------------------------- compressed files


def test_a_plain_file_is_read_as_it_is(tmp_path):
    (tmp_path / "t.csv").write_bytes(CONTENT)
    assert read_bytes(tmp_path / "t.csv") == ("t.csv", CONTENT)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_goes_by_its_inner_name(tmp_path, suffix):
    path = tmp_path / f"t.csv{suffix.upper()}"
    path.write_bytes(COMPRESS[suffix](CONTENT))
    assert read_bytes(path) == ("t.csv", CONTENT)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_the_one_data_file_of_a_zip_is_found_among_others(tmp_path, method):
    members = {"readme.md": "hello", "deep/down/T.CSV": CONTENT, "__MACOSX/deep/._T.csv": "x", "deep/.hidden.csv": "x"}
    path = make_zip(tmp_path / "download.zip", members, method)
    assert read_bytes(path) == ("T.CSV", CONTENT)


def test_nothing_is_written_to_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = make_zip(tmp_path / "t.zip", {"in/t.csv": CONTENT})
    read_bytes(path)
    assert [file.name for file in tmp_path.rglob("*")] == ["t.zip"]


def test_several_data_files_are_listed(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"b.csv": CONTENT, "a.arff": CONTENT, "c.md": ""})
    with pytest.raises(DataError, match=r"t\.zip holds 2 data files, a\.arff, b\.csv: unpack it and name one of them"):
        read_bytes(path)


def test_a_long_list_is_cut(tmp_path):
    path = make_zip(tmp_path / "t.zip", {f"{i:02}.csv": CONTENT for i in range(13)})
    with pytest.raises(DataError, match=r"13 data files, 00\.csv, .*09\.csv and 3 more:"):
        read_bytes(path)


def test_without_a_data_file_the_message_lists_what_is_there(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"b.png": "x", "a.txt.gz": "x"})
    with pytest.raises(DataError, match=r"t\.zip holds no data file \(\.csv, .*\.xlsx\), but a\.txt\.gz, b\.png"):
        read_bytes(path)


def test_an_empty_zip_holds_nothing(tmp_path):
    with pytest.raises(DataError, match=r"holds no data file .*, but nothing"):
        read_bytes(make_zip(tmp_path / "t.zip", {}))


@pytest.mark.parametrize(
    "name", ["../t.csv", "a/../../t.csv", "/etc/t.csv", "..\\t.csv", "C:\\t.csv", "C:/t.csv", "\\t.csv"]
)
def test_a_member_that_leads_out_of_the_archive_is_refused(tmp_path, name):
    path = make_zip(tmp_path / "t.zip", {"fine.csv": CONTENT, name: CONTENT})
    with pytest.raises(DataError, match="a path that leads out of the archive: not read"):
        read_bytes(path)


def test_dots_within_a_name_are_fine(tmp_path):
    assert read_bytes(make_zip(tmp_path / "t.zip", {"a..b/..t.csv.csv": "x", "c..csv": CONTENT}))[0] == "c..csv"


def test_an_encrypted_member_is_refused(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"t.csv": CONTENT}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag in the central directory
    content[6] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"t\.zip: 't\.csv' is encrypted: unpack it with its password"):
        read_bytes(path)


# ----------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("suffix", [*COMPRESS, ".zip"])
def test_a_bomb_is_refused_by_its_ratio(tmp_path, monkeypatch, suffix):
    small_limits(monkeypatch)
    path, zeros = tmp_path / f"t.csv{suffix}", bytes(1_000_000)
    make_zip(path, {"t.csv": zeros}) if suffix == ".zip" else path.write_bytes(COMPRESS[suffix](zeros))
    assert path.stat().st_size < 5000
    with pytest.raises(DataError, match=r"grows to more than 200 times its [\d,]+ bytes, as decompression bombs do"):
        read_bytes(path)


def test_the_default_bounds_stop_a_real_bomb(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000)) * 11)  # members of one gzip file
    with pytest.raises(DataError, match="more than 200 times"):
        read_bytes(path)


def test_a_short_file_may_grow_by_any_ratio(tmp_path):
    path, rows = tmp_path / "t.csv.gz", b"a,b\n" + b"1,2\n" * 500_000
    path.write_bytes(gzip.compress(rows))
    assert len(rows) / path.stat().st_size > 200
    assert read_bytes(path) == ("t.csv", rows)


@pytest.mark.parametrize("suffix", [*COMPRESS, ".zip"])
def test_the_limit_on_bytes_is_exact(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"t.csv{suffix}"
    make_zip(path, {"t.csv": CONTENT}) if suffix == ".zip" else path.write_bytes(COMPRESS[suffix](CONTENT))
    monkeypatch.setattr(module, "LIMIT", len(CONTENT))
    assert read_bytes(path)[1] == CONTENT
    monkeypatch.setattr(module, "LIMIT", len(CONTENT) - 1)
    with pytest.raises(DataError, match=r"grows to more than 11 bytes: if you trust it, unpack it"):
        read_bytes(path)


def test_reading_stops_at_the_bound(tmp_path, monkeypatch):
    small_limits(monkeypatch)
    path, asked = make_zip(tmp_path / "t.zip", {"t.csv": bytes(3_000_000)}), []
    read = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda self, n=-1: asked.append(n) or read(self, n))
    with pytest.raises(DataError, match="decompression bombs"):
        read_bytes(path)
    assert sum(asked) < 1_000_000


def test_a_size_that_the_header_understates_is_not_believed(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"t.csv": CONTENT * 10})
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (5).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        read_bytes(path)


def test_a_workbook_bomb_is_refused_over_all_its_parts(tmp_path, monkeypatch):
    small_limits(monkeypatch)
    content = io.BytesIO()
    make_zip(content, {f"part{i}.xml": bytes(90_000) for i in range(3)})
    with pytest.raises(DataError, match="decompression bombs"):
        check_workbook(tmp_path / "t.xlsx", content.getvalue())
    monkeypatch.setattr(module, "LIMIT", 1000)
    with pytest.raises(DataError, match="more than 1,000 bytes"):
        check_workbook(tmp_path / "t.xlsx", content.getvalue())


# ----------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("damage", [lambda c: c[:-9], lambda c: b"junk" + c, lambda c: c[:20] + b"\xff\xff" + c[22:]])
def test_a_damaged_stream_is_named(tmp_path, suffix, damage):
    path = tmp_path / f"t.csv{suffix}"
    path.write_bytes(damage(COMPRESS[suffix](CONTENT * 10)))
    with pytest.raises(DataError, match=rf"t\.csv{suffix} is damaged or not a {suffix[1:]} file \(.+\): get it again"):
        read_bytes(path)


@pytest.mark.parametrize("damage", [lambda c: c[:-9], lambda c: b"no zip at all", lambda c: c.replace(b"1,2", b"1,3")])
def test_a_damaged_zip_is_named(tmp_path, damage):
    path = make_zip(tmp_path / "t.zip", {"t.csv": CONTENT}, zipfile.ZIP_STORED)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"t\.zip is damaged or not a zip file \(.+\): get it again"):
        read_bytes(path)


def test_an_unknown_zip_method_is_named(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"t.csv": CONTENT}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 10] = content[8] = 9  # deflate64
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"is damaged or not a zip file \(.*compression.*\)"):
        read_bytes(path)


def test_a_damaged_workbook_is_named(tmp_path):
    with pytest.raises(DataError, match=r"t\.xlsx is damaged, protected by a password or not an Excel workbook"):
        check_workbook(tmp_path / "t.xlsx", b"\xd0\xcf\x11\xe0 an encrypted one")


def test_missing_files_and_folders_are_told_apart(tmp_path):
    (tmp_path / "table.csv").write_bytes(CONTENT)
    with pytest.raises(DataError, match=r"tabel\.csv does not exist\. Did you mean 'table\.csv'\?"):
        read_bytes(tmp_path / "tabel.csv")
    with pytest.raises(DataError, match=r"t\.csv\.gz does not exist, nor does the folder .*nowhere"):
        read_bytes(tmp_path / "nowhere" / "t.csv.gz")
    with pytest.raises(DataError, match=r"is a folder: name one data file in it"):
        read_bytes(tmp_path)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.zip", "t.csv.xz"])
def test_a_compressed_file_without_a_byte_is_empty(tmp_path, name):
    (tmp_path / name).touch()
    assert read_bytes(tmp_path / name) == ("t.csv", b"")
