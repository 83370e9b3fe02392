"""A person's own file is read as it was meant: dialects, encodings, typed formats, and errors that name the remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.data.dataset import DataError
from hopular.data.read import is_data_file, read_raw, stem
from hopular.data.schema import learn_features
from hopular.data.text import HEAD

FRAME = pd.DataFrame({"n": [1, 2, 3], "x": [0.5, np.nan, 2.5], "s": ["a", "b, c", None], "b": [True, False, True]})
OPENML = (
    '"id","kind of line","school"\n'
    "1,'No phone service','Master\\'s Colleges, large'\n"
    "2,No,?\n"
    "3,'Fiber optic','say \\\"hi\\\"'\n"
)


def write(tmp_path, content, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def read(tmp_path, content, name="t.csv", encoding="utf-8"):
    return read_raw(write(tmp_path, content, name, encoding)).frame


def columns(frame):
    """Names, and values with None for missing ones."""
    return {name: [None if pd.isna(v) else v for v in frame[name]] for name in frame}


def refused(tmp_path, content, message, name="t.csv", encoding="utf-8"):
    path = write(tmp_path, content, name, encoding)
    with pytest.raises(DataError, match=message) as caught:
        read_raw(path)
    assert str(path) in str(caught.value)


# --------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name", ["a.csv", "A.CSV", "b.tsv.gz", "c.parquet", "d.arff.zip", "e.zip", "f.xlsx", "g.dat.XZ"]
)
def test_data_files_are_known_by_their_names(name):
    assert is_data_file(Path("folder") / name)


@pytest.mark.parametrize("name", ["a", "a.gz", "a.md", "csv", "a.csv.md", "a.xls", "a.json", "a.csv.zst"])
def test_other_files_are_not(name):
    assert not is_data_file(Path("folder.csv") / name)


def test_the_stem_has_no_recognised_suffix():
    names = ["a.csv", "a.CSV.gz", "a.zip", "a.b.parquet", "a.csv.md", "a"]
    assert [stem(Path("f.csv") / name) for name in names] == ["a", "a", "a", "a.b", "a.csv.md", "a"]


# ---------------------------------------------------------------------------------------------------------- delimiters


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".dat"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends(tmp_path, suffix, delimiter, end):
    text = end.join(["a,b,c", "1,x y,0.5", '2,"p,;|q",1.5', ""]).replace(",", delimiter)
    frame = read(tmp_path, text, f"t{suffix}")
    assert columns(frame) == {"a": [1, 2], "b": ["x y", f"p{delimiter};|q"], "c": [0.5, 1.5]}


SEPARATED = {
    "commas in text after tabs": ("name, first\tage\nDoe, John\t30\nRoe, Ann\t40\n", ["name, first", "age"]),
    "semicolons in text after commas": ("a,b\nx;y,1\nz;w;v,2\nu,3\n", ["a", "b"]),
    "decimal commas after semicolons": ("a;b\n1,5;2,5\n3,5;4,5\n", ["a", "b"]),
    "decimal commas in every row, headerless": ("1,5;2,5\n3,5;4,5\n", ["x0", "x1"]),
    "quoted delimiters": ('"a;b;c","d"\n"1;2;3",4\n"1;2;3",5\n', ["a;b;c", "d"]),
    "one column": ("only\n1\n2\n", ["only"]),
    "one column of text with commas": ("text\nwell, yes\nno\none, two, three\n", ["text"]),
    "one column with decimal commas": ("x\n1,5\n2,5\n", ["x"]),
    "one row": ("a|b\n1|2\n", ["a", "b"]),
    "blank lines": ("\n  \na,b\n\n1,2\n   \n3,4\n\n", ["a", "b"]),
    "empty rows above the header": (",,\na,b,c\n1,2,3\n", ["a", "b", "c"]),
    "no last line end": ("a,b\n1,2", ["a", "b"]),
    "header over two lines": ('"a\nb",c\n1,2\n', ["a\nb", "c"]),
    "blanks after delimiters": ('a, b, c\n1, "x, y", z\n', ["a", "b", "c"]),
    "nameless column": (",a\n0,5\n1,6\n", ["Unnamed: 0", "a"]),
}


@pytest.mark.parametrize(("text", "names"), SEPARATED.values(), ids=SEPARATED.keys())
def test_the_delimiter_is_found_out(tmp_path, text, names):
    frame = read(tmp_path, text)
    assert list(frame.columns) == names
    assert isinstance(frame.index, pd.RangeIndex)
    assert frame.notna().all(axis=None)


def test_wide_headers_are_read_whole(tmp_path):
    names = [f"a_long_name_of_gene_{i}" for i in range(HEAD // 10)]
    frame = read(tmp_path, ",".join(names) + "\n" + 2 * (",".join(["1"] * len(names)) + "\n"))
    assert list(frame.columns) == names
    assert len(frame) == 2


def test_a_column_keeps_one_type_to_the_end(tmp_path):
    frame = read(tmp_path, "a,b\n" + "1,1\n" * 300_000 + "x,1\n")
    assert set(frame["a"]) == {"1", "x"}


# -------------------------------------------------------------------------------------------------------------- quotes


def test_openml_quotes_and_escapes(tmp_path):
    assert columns(read(tmp_path, OPENML)) == {
        "id": [1, 2, 3],
        "kind of line": ["No phone service", "No", "Fiber optic"],
        "school": ["Master's Colleges, large", None, 'say "hi"'],
    }


QUOTES = {
    "apostrophe within": ("a,b\nO'Brien,1\nT'ang,2\n", ["O'Brien", "T'ang"]),
    "apostrophe in front": ("a,b\n'tis,1\nso',2\n", ["'tis", "so'"]),
    "some not closed": ("a,b\n'x',1\n'tis,2\n", ["'x'", "'tis"]),
    "double quotes in use": ("a,b\n'x',1\n\"y, z\",2\n", ["'x'", "y, z"]),
    "doubled": ('a,b\n"say ""hi""",1\n5" pipe,2\n', ['say "hi"', '5" pipe']),
    "single doubled": ("a,b\n'it''s',1\n'x, y',2\n", ["it's", "x, y"]),
    "line within": ('a,b\n"x\ny",1\nz,2\n', ["x\ny", "z"]),
}


@pytest.mark.parametrize(("text", "values"), QUOTES.values(), ids=QUOTES.keys())
def test_quotes_are_told_from_apostrophes(tmp_path, text, values):
    assert columns(read(tmp_path, text)) == {"a": values, "b": [1, 2]}


# ------------------------------------------------------------------------------------------------------------- headers

HEADERS = {
    "numbers": ("1,2.5\n3,4\n", ["x0", "x1"], 2),
    "numbers and missing": ("1,?,,NaN\n3,4,5,6\n", ["x0", "x1", "x2", "x3"], 2),
    "one number": ("1\n0\n1\n", ["x0"], 3),
    "one row of numbers": ("1,2\n", ["x0", "x1"], 1),
    "exponents and signs": ("-1e-5,+2\n3,4\n", ["x0", "x1"], 2),
    "years over other values": ("2019,2020\n0.5,17\n1.5,18\n", ["2019", "2020"], 2),
    "years over years": ("2019,2020\n2018,2021\n2017,2022\n", ["x0", "x1"], 3),
    "the same year twice": ("2019,2019\n1,2\n", ["x0", "x1"], 2),
    "years and a name": ("id,2019,2020\n1,2,3\n", ["id", "2019", "2020"], 1),
    "counted columns": ("0,1,2\n0.1,0.2,0.3\n", ["0", "1", "2"], 1),
    "counted columns and an index": (",0,1,2\n0,0.1,0.2,0.3\n", ["Unnamed: 0", "0", "1", "2"], 1),
    "two counted columns are numbers": ("0,1\n1,0\n", ["x0", "x1"], 2),
    "text": ("a,b\nc,d\n", ["a", "b"], 1),
    "a name like a missing value": ("NA\n1\n", ["NA"], 1),
}


@pytest.mark.parametrize(("text", "names", "rows"), HEADERS.values(), ids=HEADERS.keys())
def test_a_header_is_expected_unless_the_first_row_is_numbers(tmp_path, text, names, rows):
    frame = read(tmp_path, text)
    assert list(frame.columns) == names
    assert len(frame) == rows


def test_names_lose_their_outer_blanks(tmp_path):
    assert list(read(tmp_path, "a , b\n1,2\n").columns) == ["a", "b"]


# ------------------------------------------------------------------------------------------------------------- numbers

NUMBERS = {
    "decimal comma": ("a;b\n1,5;x\n-2,25e3;y\n", [1.5, -2250]),
    "three places after ;": ("a;b\n1,234;x\n2,345;y\n", [1.234, 2.345]),
    "decimal comma and thousands": ("a;b\n1.234,5;x\n12;y\n", [1234.5, 12]),
    "thousands beside decimal commas": ("a;b\n1.234;0,5\n2.345.678;0,25\n", [1234, 2345678]),
    "decimal comma beside dates": ("a;b\n1,5;31.12.2019\n2,5;01.02.2020\n", [1.5, 2.5]),
    "decimal comma beside versions": ("a;b;c\n1,5;1.2;2,5\n2,5;1.3;2,5\n", [1.5, 2.5]),
    "decimal point after ;": ("a;b\n1.234;x\n0.5;y\n", [1.234, 0.5]),
    "quoted decimal comma": ('a,b\n"1,5",x\n"2,25",y\n', [1.5, 2.25]),
    "quoted thousands": ('a,b\n"1,234",x\n999,y\n', [1234, 999]),
    "thousands and decimals": ('a,b\n"1,234.5",x\n"1,234,567",y\n', [1234.5, 1234567]),
    "thousands after tabs": ("a\tb\n1,234.5\tx\n2,000\ty\n", [1234.5, 2000]),
    "ambiguous after tabs": ("a\tb\n1,234\tx\n2,345\ty\n", [1234, 2345]),
    "dots that are thousands": ("a,b\n968,x\n2.629,y\n4.768,z\n", [968, 2629, 4768]),
    "the same in another scale": ("a,b\n7,x\n350,y\n80.768,z\n2.100,w\n", [7, 350, 80768, 2100]),
    "the same beside decimal points": ("a,b\n968,0.5\n2.629,0.25\n", [968, 2629]),
    "dots after ;": ("a;b\n2.629;x\n4.768;y\n", [2629, 4768]),
    "dots after ; beside decimal points": ("a;b\n2.629;0.5\n4.768;0.25\n", [2.629, 4.768]),
    "commas that are thousands after ;": ("a;b\n968;x\n1,234;y\n", [968, 1234]),
    "fractions of three digits": ("a,b\n1.234,x\n2.345,y\n", [1.234, 2.345]),
    "fractions beside larger plain numbers": ("a,b\n1.234,x\n2001,y\n", [1.234, 2001]),
    "fractions below one": ("a,b\n0.234,x\n968,y\n2.345,z\n", [0.234, 968, 2.345]),
    "fractions beside a code for missing": ("a,b\n1.234,x\n999,y\n2.345,z\n", [1.234, 999, 2.345]),
    "thousands of thousands": ("a,b\n1.234.567,x\n2.345,y\n", [1234567, 2345]),
    "negative thousands": ("a,b\n-968,x\n-2.629,y\n", [-968, -2629]),
    "not only numbers": ('a,b\n"1,234",x\nmany,y\n', ["1,234", "many"]),
    "lists of numbers": ('a,b\n"1,2,3",0.5\n"1,234",0.5\n', ["1,2,3", "1,234"]),
    "points within text": ("a;b\n192.168.100.200;1,5\n10.0.0.1;2,5\n", ["192.168.100.200", "10.0.0.1"]),
    "large": ("a,b\n12345678901234567890123,x\n1,y\n", [float(12345678901234567890123), 1]),
}


@pytest.mark.parametrize(("text", "values"), NUMBERS.values(), ids=NUMBERS.keys())
def test_decimal_signs_and_thousands(tmp_path, text, values):
    assert numbers(tmp_path, text) == values


def numbers(tmp_path, text):
    """Return the first column as its numbers, or as the text it is."""
    table = read_raw(write(tmp_path, text))
    converted = learn_features(table.frame[["a"]], style=table.style).X
    column = converted["a"] if converted["a"].dtype == np.float64 else converted["a"].astype("str")
    return [None if pd.isna(value) else value for value in column]


def test_missing_values_between_thousands(tmp_path):
    assert numbers(tmp_path, 'a,b\n"1,234",x\n,y\n?,z\n"5,000",w\n') == [1234, None, None, 5000]


def test_thousands_may_come_far_below_the_sample(tmp_path):
    assert numbers(tmp_path, "a,b\n" + "968,x\n" * HEAD + "2.629,y\n")[-1] == 2629
    assert numbers(tmp_path, "a,b\n" + "968,x\n2.629,y\n" * HEAD + "12.5,z\n")[-3:] == [968, 2.629, 12.5]


def test_types_and_missing_codes(tmp_path):
    text = 'int,float,bool,text,date,late\n1,?,True,a,2024-01-31,1\n2," ",False,  ,NA,\n3,1.5,True,?,2024-02-01,   \n'
    frame = read(tmp_path, text)
    kinds = [dtype.kind if dtype.kind in "ifb" else "text" for dtype in frame.dtypes]
    assert kinds == ["i", "f", "b", "text", "text", "f"]
    assert columns(frame) == {
        "int": [1, 2, 3],
        "float": [None, None, 1.5],
        "bool": [True, False, True],
        "text": ["a", None, None],
        "date": ["2024-01-31", None, "2024-02-01"],
        "late": [1, None, None],
    }
    assert not any(isinstance(dtype, pd.CategoricalDtype) for dtype in frame.dtypes)


# ----------------------------------------------------------------------------------------------------------- encodings

WORDS = {
    "utf-8": "Größe,été,東京,Москва",
    "utf-8-sig": "Größe,été,東京,Москва",
    "utf-16": "Größe,été,東京,Москва",
    "cp1252": "Größe,été,señor,20 €",
    "cp1251": "Москва,привет,город,улица",
    "cp1253": "Αθήνα,καλημέρα,πόλη,Ελλάδα",
    "cp932": "東京,大阪,日本語,株式会社",
    "gb18030": "北京,上海,数据,中文",
}


@pytest.mark.parametrize("encoding", WORDS)
def test_encodings_are_found_out(tmp_path, encoding):
    words = WORDS[encoding].split(",")
    frame = read(tmp_path, "name;value\n" + "".join(f"{word};1,5\n" for word in words), encoding=encoding)
    assert columns(frame) == {"name": words, "value": [1.5] * len(words)}


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be"])
def test_utf16_of_either_byte_order(tmp_path, mark):
    assert columns(read(tmp_path, "\ufeffa,b\nż,1\n", encoding=mark)) == {"a": ["ż"], "b": [1]}


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_the_first_letter_beyond_ascii_may_come_late(tmp_path, encoding):
    frame = read(tmp_path, "a,b\n" + "x,1\n" * HEAD + "é,2", encoding=encoding)
    assert frame["a"].iloc[-1] == "é"


@pytest.mark.parametrize("shift", range(4))
def test_a_letter_may_lie_across_the_end_of_the_sample(tmp_path, shift):
    frame = read(tmp_path, "a,b\n" + "x" * (HEAD - 6 + shift) + "é€,1\nü,2\n")
    assert frame["a"].iloc[0].endswith("xé€")


def test_the_replacement_character_is_a_letter_like_others(tmp_path):
    assert read(tmp_path, "a,b\n1,x\ufffd\n2,y\n")["b"].tolist() == ["x\ufffd", "y"]


def test_damaged_utf8_names_the_line(tmp_path):
    content = "a,b\nété,1\nmère,2\n".encode() + b"caf\xe9,3\n"
    refused(tmp_path, content, r"t\.csv line 4 has bytes that are not utf-8, unlike the rest: save it as UTF-8")


def test_bytes_that_no_guess_covers_name_the_line(tmp_path):
    refused(tmp_path, b"a,b\n\xe9t,1\nx\x81x,2\n", r"line 3 has bytes that are not cp1252")


def test_half_a_utf16_character_is_refused(tmp_path):
    refused(tmp_path, "a,b\n1,2\n".encode("utf-16") + b"x", r"bytes that are not utf-16")


# ----------------------------------------------------------------------------------------------------------- bad text


def test_nul_bytes_name_the_line(tmp_path):
    refused(tmp_path, b"a,b\n1,2\n3,\0\n", r"t\.csv line 3 has NUL bytes, so it is not text: correct its suffix")
    refused(tmp_path, "a,b\n1,\0\n", r"line 2 has NUL bytes", encoding="utf-16")
    refused(tmp_path, "a,b\n1,2\n".encode("utf-16-le"), r"line 1 has NUL bytes.*or save it as UTF-8")


def test_binary_junk_is_refused(tmp_path):
    junk = bytes(np.random.default_rng(0).integers(1, 256, 500, dtype=np.uint8))
    refused(tmp_path, junk, r"t\.csv is binary data and not text: correct its suffix")


@pytest.mark.parametrize("name", ["t.csv", "t.arff", "t.parquet", "t.xlsx", "t.feather", "t.csv.gz", "t.zip"])
def test_an_empty_file(tmp_path, name):
    refused(tmp_path, b"", r"is empty$", name)


@pytest.mark.parametrize("text", [" \n\n", "\ufeff", "\ufeff\n", ",,\n,,\n"])
def test_a_file_of_blanks_is_empty(tmp_path, text):
    refused(tmp_path, text, r"t\.csv is empty")


@pytest.mark.parametrize("text", ["a,b\n", "a,b", "a,b\n\n  \n", "a"])
def test_a_header_without_rows(tmp_path, text):
    refused(tmp_path, text, r"t\.csv has column names but no rows")


RAGGED = {
    "long": ("a,b,c\n1,2,3\n4,5,6,7\n", 3, 4, 3),
    "short": ("a,b,c\n1,2,3\n4,5\n6,7,8\n", 3, 2, 3),
    "first row long": ("a,b\n1,2,3\n4,5,6\n", 2, 3, 2),
    "first row short": ("a,b,c\n1,2\n3,4,5\n", 2, 2, 3),
    "first row long after a blank": ("a,b\n\n1,2,3\n4,5\n", 3, 3, 2),
    "row names without a name": ("a,b\n0,1,2\n1,3,4\n2,5,6\n", 2, 3, 2),
    "short but with a quoted delimiter": ('a,b,c\n"x,y",2\n1,2,3\n', 2, 2, 3),
    "short after missing values": ("a,b\n1,\n2,?\n3\n4,5\n", 4, 1, 2),
    "after lines within quotes": ('a,b\n"x\ny\n",1\n\nz\n', 6, 1, 2),
    "within single quotes": ("a,b\n'x, y',1\n'z'\n", 3, 1, 2),
    "a title above the table": ("My table\na;b;c\n1;2;3\n", 2, 3, 1),
    "far below the sample": ("a,b\n" + "1,2\n" * HEAD + "3\n", HEAD + 2, 1, 2),
    "headerless": ("1,2\n3,4\n5\n", 3, 1, 2),
}


@pytest.mark.parametrize(("text", "line", "found", "expected"), RAGGED.values(), ids=RAGGED.keys())
def test_ragged_rows_name_the_line(tmp_path, text, line, found, expected):
    refused(
        tmp_path, text, rf"t\.csv line {line} has {found} fields?, expected {expected} as there are columns: correct"
    )


def test_rows_that_end_with_missing_values_are_not_ragged(tmp_path):
    frame = read(tmp_path, 'a,b\n1,\n\n2,?\n"x\n,y",\n3,NA\n')
    assert columns(frame) == {"a": ["1", "2", "x\n,y", "3"], "b": [None] * 4}


def test_an_open_quote_names_the_line(tmp_path):
    refused(tmp_path, 'a,b\n1,2\n3,"x\n4,5\n', r't\.csv line 3 opens a quote \("\) that nothing closes')
    refused(tmp_path, 'a,b\n1,2\n3,"x\n' + "4,5\n" * HEAD, r't\.csv line 3 opens a quote \("\) that nothing closes')


@pytest.mark.parametrize("text", ["1.0 2.0\n3.0  4\n", "a b c\n1 2 3\n4 5 6\n"])
def test_numbers_between_blanks_are_refused(tmp_path, text):
    refused(tmp_path, text, r"t\.dat has its numbers separated by blanks, which is not supported: put commas", "t.dat")


def test_one_endless_field_is_no_table(tmp_path):
    refused(tmp_path, "x" * 200_000, r"t\.csv is not a table \(field larger than field limit.*quote that is not closed")


@pytest.mark.parametrize("text", ["a,b,a\n1,2,3\n", '"a" ,b, a\n1,2,3\n'])
def test_columns_of_one_name_are_refused(tmp_path, text):
    refused(tmp_path, text, r"t\.csv has more than one column named 'a': rename them")


def test_an_unknown_suffix_lists_the_known_ones(tmp_path):
    refused(
        tmp_path, "{}", r"suffix '\.json', which names no known format: use one of \.csv, .*\.xlsx, alone", "t.json"
    )
    refused(tmp_path, "{}", r"suffix '\.gz', .*followed by one of \.gz, \.bz2, \.xz, \.zip", "t.gz")


def test_missing_files_and_folders(tmp_path):
    write(tmp_path, "a\n1\n")
    with pytest.raises(DataError, match=r"t\.cvs does not exist\. Did you mean 't\.csv'\?"):
        read_raw(tmp_path / "t.cvs")
    with pytest.raises(DataError, match="is a folder: name one data file in it"):
        read_raw(tmp_path)
