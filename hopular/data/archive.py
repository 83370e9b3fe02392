"""The bytes of a data file, out of its compression if it has one: bounded, in memory, never extracted to disk."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from hopular.data.errors import DataError
from hopular.util import did_you_mean

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zip")
LIMIT = 2 * 1024**3  # most bytes that a compressed file may grow to
RATIO = 200  # a file that grows more than this is a decompression bomb,
RATIO_FROM = 100 * 1024**2  # once it has so many bytes: short files of one repeated value grow as much
CHUNK = 1024**2


def read_bytes(path: Path, suffixes: tuple[str, ...], limit: int = LIMIT) -> tuple[str, bytes]:
    """The file name that tells the format, without a compression suffix, and the content.

    A zip archive must hold exactly one file with one of the `suffixes`; its name is then the one returned.
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
        if compression not in COMPRESSIONS:
            return path.name, file.read()
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if not size:
            return path.stem, b""
        try:
            if compression == ".zip":
                return _read_zip(path, file, size, suffixes, limit)
            return path.stem, _expand(path, _plain(file, compression), size, limit)
        except DataError:
            raise
        except Exception as error:  # damaged content makes the decompressors raise almost anything
            what = f"damaged or not a {compression[1:]} file ({error or type(error).__name__})"
            raise DataError(f"{path} is {what}: get it again") from None


def check_workbook(path: Path, data: bytes, limit: int = LIMIT) -> None:
    """Refuse an Excel workbook (a zip archive of many parts) that is damaged or a decompression bomb."""
    total = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for part in archive.infolist():
                with archive.open(part) as stream:
                    for chunk in _chunks(stream):
                        total += len(chunk)
                        _check_growth(path, total, len(data), limit)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{path} is damaged, protected by a password or not an Excel workbook ({error}): save it again, or as CSV"
        ) from None


def _read_zip(path: Path, file: IO[bytes], size: int, suffixes: tuple[str, ...], limit: int) -> tuple[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        for member in members:
            if _escapes(member.filename):
                raise DataError(f"{path} holds {member.filename!r}, a path that leads out of the archive: not read")
        member = _the_data_file(path, members, suffixes)
        if member.flag_bits & 0x1:
            raise DataError(f"{path}: {member.filename!r} is encrypted: unpack it with its password and name that file")
        return PurePosixPath(member.filename).name, _expand(path, archive.open(member), size, limit)


def _the_data_file(path: Path, members: list[zipfile.ZipInfo], suffixes: tuple[str, ...]) -> zipfile.ZipInfo:
    visible = [m for m in members if not _hidden(m.filename)]
    found = [m for m in visible if m.filename.lower().endswith(suffixes)]
    if not found:
        inside = _listing(m.filename for m in visible) or "nothing"
        raise DataError(f"{path} holds no data file ({', '.join(suffixes)}), but {inside}")
    if len(found) > 1:
        names = _listing(m.filename for m in found)
        raise DataError(f"{path} holds {len(found)} data files, {names}: unpack it and name one of them")
    return found[0]


def _escapes(name: str) -> bool:
    """Whether a member's path is absolute or climbs with '..', as read by any operating system."""
    windows = PureWindowsPath(name)
    return bool(windows.drive or windows.root) or PurePosixPath(name).is_absolute() or ".." in windows.parts


def _hidden(name: str) -> bool:
    """Whether a member is a system's own note, such as macOS adds, rather than a person's file."""
    *folders, base = name.split("/")
    return "__MACOSX" in folders or base.startswith(".")


def _plain(file: IO[bytes], compression: str) -> io.BufferedIOBase:
    if compression == ".gz":
        return gzip.GzipFile(fileobj=file)
    return bz2.BZ2File(file) if compression == ".bz2" else lzma.LZMAFile(file)


def _expand(path: Path, stream: io.BufferedIOBase | IO[bytes], size: int, limit: int) -> bytes:
    """The whole of a decompressing stream, counted as it grows: what a header says of its size is not trusted."""
    content = io.BytesIO()
    with stream:
        for chunk in _chunks(stream):
            content.write(chunk)
            _check_growth(path, content.tell(), size, limit)
    return content.getvalue()


def _chunks(stream: io.BufferedIOBase | IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(CHUNK), b"")


def _check_growth(path: Path, grown: int, size: int, limit: int) -> None:
    if grown > limit:
        raise DataError(
            f"{path} grows to more than {limit:,} bytes: if you trust it, unpack it and name the unpacked file"
        )
    if grown > RATIO_FROM and grown > RATIO * size:
        raise DataError(
            f"{path} grows to more than {RATIO} times its {size:,} bytes, as decompression bombs do: if you trust it, "
            "unpack it and name the unpacked file"
        )


def _missing(path: Path) -> str:
    if not path.parent.is_dir():
        return f"{path} does not exist, nor does the folder {path.parent}"
    return f"{path} does not exist.{did_you_mean(path.name, (other.name for other in path.parent.iterdir()))}"


def _listing(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
