"""Compressed files are read in memory, within bounds, and never lead outside themselves."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile

import pytest

from hopular.data import read
from hopular.data.dataset import DataError
from hopular.data.read import check_workbook, read_bytes

SUFFIXES = (".csv", ".arff")
CONTENT = b"a,b\n1,2\n3,4\n"
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def make_zip(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return path


def small_limits(monkeypatch):
    monkeypatch.setattr(read, "RATIO_FROM", 100_000)
    monkeypatch.setattr(read, "CHUNK", 10_000)


def test_a_plain_file_is_read_as_it_is(tmp_path):
    (tmp_path / "t.csv").write_bytes(CONTENT)
    assert read_bytes(tmp_path / "t.csv", SUFFIXES) == ("t.csv", CONTENT)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_goes_by_its_inner_name(tmp_path, suffix):
    path = tmp_path / f"t.csv{suffix.upper()}"
    path.write_bytes(COMPRESS[suffix](CONTENT))
    assert read_bytes(path, SUFFIXES) == ("t.csv", CONTENT)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_the_one_data_file_of_a_zip_is_found_among_others(tmp_path, method):
    members = {"readme.md": "hello", "deep/down/T.CSV": CONTENT, "__MACOSX/deep/._T.csv": "x", "deep/.hidden.csv": "x"}
    path = make_zip(tmp_path / "download.zip", members, method)
    assert read_bytes(path, SUFFIXES) == ("T.CSV", CONTENT)


def test_nothing_is_written_to_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = make_zip(tmp_path / "t.zip", {"in/t.csv": CONTENT})
    read_bytes(path, SUFFIXES)
    assert [file.name for file in tmp_path.rglob("*")] == ["t.zip"]


def test_several_data_files_are_listed(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"b.csv": CONTENT, "a.arff": CONTENT, "c.md": ""})
    with pytest.raises(DataError, match=r"t\.zip holds 2 data files, a\.arff, b\.csv: unpack it and name one of them"):
        read_bytes(path, SUFFIXES)


def test_a_long_list_is_cut(tmp_path):
    path = make_zip(tmp_path / "t.zip", {f"{i:02}.csv": CONTENT for i in range(13)})
    with pytest.raises(DataError, match=r"13 data files, 00\.csv, .*09\.csv and 3 more:"):
        read_bytes(path, SUFFIXES)


def test_without_a_data_file_the_message_lists_what_is_there(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"b.png": "x", "a.txt.gz": "x"})
    with pytest.raises(DataError, match=r"t\.zip holds no data file \(\.csv, \.arff\), but a\.txt\.gz, b\.png"):
        read_bytes(path, SUFFIXES)


def test_an_empty_zip_holds_nothing(tmp_path):
    with pytest.raises(DataError, match=r"holds no data file .*, but nothing"):
        read_bytes(make_zip(tmp_path / "t.zip", {}), SUFFIXES)


@pytest.mark.parametrize(
    "name", ["../t.csv", "a/../../t.csv", "/etc/t.csv", "..\\t.csv", "C:\\t.csv", "C:/t.csv", "\\t.csv"]
)
def test_a_member_that_leads_out_of_the_archive_is_refused(tmp_path, name):
    path = make_zip(tmp_path / "t.zip", {"fine.csv": CONTENT, name: CONTENT})
    with pytest.raises(DataError, match="a path that leads out of the archive: not read"):
        read_bytes(path, SUFFIXES)


def test_dots_within_a_name_are_fine(tmp_path):
    assert (
        read_bytes(make_zip(tmp_path / "t.zip", {"a..b/..t.csv.csv": "x", "c..csv": CONTENT}), SUFFIXES)[0] == "c..csv"
    )


def test_an_encrypted_member_is_refused(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"t.csv": CONTENT}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag in the central directory
    content[6] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"t\.zip: 't\.csv' is encrypted: unpack it with its password"):
        read_bytes(path, SUFFIXES)


# ----------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("suffix", [*COMPRESS, ".zip"])
def test_a_bomb_is_refused_by_its_ratio(tmp_path, monkeypatch, suffix):
    small_limits(monkeypatch)
    path, zeros = tmp_path / f"t.csv{suffix}", bytes(1_000_000)
    make_zip(path, {"t.csv": zeros}) if suffix == ".zip" else path.write_bytes(COMPRESS[suffix](zeros))
    assert path.stat().st_size < 5000
    with pytest.raises(DataError, match=r"grows to more than 200 times its [\d,]+ bytes, as decompression bombs do"):
        read_bytes(path, SUFFIXES)


def test_the_default_bounds_stop_a_real_bomb(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000)) * 11)  # members of one gzip file
    with pytest.raises(DataError, match="more than 200 times"):
        read_bytes(path, SUFFIXES)


def test_a_short_file_may_grow_by_any_ratio(tmp_path):
    path, rows = tmp_path / "t.csv.gz", b"a,b\n" + b"1,2\n" * 500_000
    path.write_bytes(gzip.compress(rows))
    assert len(rows) / path.stat().st_size > 200
    assert read_bytes(path, SUFFIXES) == ("t.csv", rows)


@pytest.mark.parametrize("suffix", [*COMPRESS, ".zip"])
def test_the_limit_on_bytes_is_exact(tmp_path, suffix):
    path = tmp_path / f"t.csv{suffix}"
    make_zip(path, {"t.csv": CONTENT}) if suffix == ".zip" else path.write_bytes(COMPRESS[suffix](CONTENT))
    assert read_bytes(path, SUFFIXES, limit=len(CONTENT))[1] == CONTENT
    with pytest.raises(DataError, match=r"grows to more than 11 bytes: if you trust it, unpack it"):
        read_bytes(path, SUFFIXES, limit=len(CONTENT) - 1)


def test_reading_stops_at_the_bound(tmp_path, monkeypatch):
    small_limits(monkeypatch)
    path, asked = make_zip(tmp_path / "t.zip", {"t.csv": bytes(3_000_000)}), []
    read = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda self, n=-1: asked.append(n) or read(self, n))
    with pytest.raises(DataError, match="decompression bombs"):
        read_bytes(path, SUFFIXES)
    assert sum(asked) < 1_000_000


def test_a_size_that_the_header_understates_is_not_believed(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"t.csv": CONTENT * 10})
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (5).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        read_bytes(path, SUFFIXES)


def test_a_workbook_bomb_is_refused_over_all_its_parts(tmp_path, monkeypatch):
    small_limits(monkeypatch)
    content = io.BytesIO()
    make_zip(content, {f"part{i}.xml": bytes(90_000) for i in range(3)})
    with pytest.raises(DataError, match="decompression bombs"):
        check_workbook(tmp_path / "t.xlsx", content.getvalue())
    with pytest.raises(DataError, match="more than 1,000 bytes"):
        check_workbook(tmp_path / "t.xlsx", content.getvalue(), limit=1000)


# ----------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("damage", [lambda c: c[:-9], lambda c: b"junk" + c, lambda c: c[:20] + b"\xff\xff" + c[22:]])
def test_a_damaged_stream_is_named(tmp_path, suffix, damage):
    path = tmp_path / f"t.csv{suffix}"
    path.write_bytes(damage(COMPRESS[suffix](CONTENT * 10)))
    with pytest.raises(DataError, match=rf"t\.csv{suffix} is damaged or not a {suffix[1:]} file \(.+\): get it again"):
        read_bytes(path, SUFFIXES)


@pytest.mark.parametrize("damage", [lambda c: c[:-9], lambda c: b"no zip at all", lambda c: c.replace(b"1,2", b"1,3")])
def test_a_damaged_zip_is_named(tmp_path, damage):
    path = make_zip(tmp_path / "t.zip", {"t.csv": CONTENT}, zipfile.ZIP_STORED)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"t\.zip is damaged or not a zip file \(.+\): get it again"):
        read_bytes(path, SUFFIXES)


def test_an_unknown_zip_method_is_named(tmp_path):
    path = make_zip(tmp_path / "t.zip", {"t.csv": CONTENT}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 10] = content[8] = 9  # deflate64
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"is damaged or not a zip file \(.*compression.*\)"):
        read_bytes(path, SUFFIXES)


def test_a_damaged_workbook_is_named(tmp_path):
    with pytest.raises(DataError, match=r"t\.xlsx is damaged, protected by a password or not an Excel workbook"):
        check_workbook(tmp_path / "t.xlsx", b"\xd0\xcf\x11\xe0 an encrypted one")


def test_missing_files_and_folders_are_told_apart(tmp_path):
    (tmp_path / "table.csv").write_bytes(CONTENT)
    with pytest.raises(DataError, match=r"tabel\.csv does not exist\. Did you mean 'table\.csv'\?"):
        read_bytes(tmp_path / "tabel.csv", SUFFIXES)
    with pytest.raises(DataError, match=r"t\.csv\.gz does not exist, nor does the folder .*nowhere"):
        read_bytes(tmp_path / "nowhere" / "t.csv.gz", SUFFIXES)
    with pytest.raises(DataError, match=r"is a folder: name one data file in it"):
        read_bytes(tmp_path, SUFFIXES)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.zip", "t.csv.xz"])
def test_a_compressed_file_without_a_byte_is_empty(tmp_path, name):
    (tmp_path / name).touch()
    assert read_bytes(tmp_path / name, SUFFIXES) == ("t.csv", b"")
