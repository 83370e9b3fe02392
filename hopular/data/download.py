"""Fetch a file over HTTP: resumed, retried, checked (by pooch), and never half-written under its final name."""

from __future__ import annotations

import os
import re
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pooch  # type: ignore[import-untyped,unused-ignore]
import requests
import urllib3
from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]

from hopular.data.dataset import DataError

CONNECT_TIMEOUT = 10.0  # seconds
READ_TIMEOUT = 60.0  # seconds without a byte
ATTEMPTS = 5
BACKOFF = 1.0  # seconds before the second attempt, doubled before each further one
LONGEST_WAIT = 60.0  # seconds, even if the server asks for more
LOCK_WAIT = 600.0  # seconds to wait for another process that fetches the same file
MAX_BYTES = 2 * 1024**3
CHUNK = 1 << 16
REMEDY = "Check address and network, or get the file yourself (HOPULAR_DATA: a folder with the paper's data files)."


class UnreachableError(DataError):
    """A server that did not answer, or was too busy: nothing is known of the data, and later it may be there."""


class _Failure(Exception):  # noqa: N818
    """One attempt went wrong: is it `final`, must the next one `restart` from nothing, and `wait` how many seconds?"""

    def __init__(self, message: str, *, final: bool = False, restart: bool = False, wait: float = 0.0) -> None:
        super().__init__(message)
        self.final, self.restart, self.wait = final, restart, wait


def fetch(
    url: str, path: Path, sha256: str | None = None, *, progress: bool | None = None, max_bytes: int = MAX_BYTES
) -> Path:
    """Download `url` to `path` unless a good file is there already; a file without checksum is good if it exists.

    A broken download is resumed, by a later call only if the checksum is given: it alone tells that the parts fit.
    """
    if url.partition("://")[0].lower() not in ("http", "https"):
        raise DataError(f"cannot download {_public(url)}: only http:// and https:// addresses are supported")
    try:
        if _is_good(path, sha256):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        show = sys.stderr.isatty() if progress is None else progress
        with _own_part(path, keep=sha256 is not None) as part:
            if not _is_good(path, sha256):  # another process may have fetched it meanwhile
                _download_checked(url, part, sha256, max_bytes, show)
                os.replace(part, path)
    except OSError as error:
        remedy = "Check the disk, or set HOPULAR_CACHE elsewhere."
        raise DataError(f"cannot store {_public(url)}: {error}. {remedy}") from error
    return path


def _public(url: str) -> str:
    """The address for messages: without a user's name and password, and without a query, which may hold a token."""
    return re.sub(r"//[^/?#]*@", "//", url).partition("?")[0]


def _is_good(path: Path, sha256: str | None) -> bool:
    return path.is_file() and (sha256 is None or pooch.file_hash(str(path)) == sha256.lower())


def _download_checked(url: str, part: Path, sha256: str | None, max_bytes: int, show: bool) -> None:
    """Download until the checksum fits; a second and last time from scratch, since a resumed part may be stale."""
    attempts, got = 0, ""
    for _ in range(2):
        attempts += _download(url, part, resume=sha256 is not None, max_bytes=max_bytes, show=show)
        if sha256 is None or (got := pooch.file_hash(str(part))) == sha256.lower():
            return
        os.truncate(part, 0)
    what = f"checksum {got}, expected {sha256} (attempts: {attempts})"
    raise DataError(f"cannot download {_public(url)}: {what}. {REMEDY}")


def _download(url: str, part: Path, *, resume: bool, max_bytes: int, show: bool) -> int:
    """Attempt the download, each time from where the last one stopped; return the number of attempts it took."""
    validator: str | None = None  # what the server calls this version of the file
    for attempt in range(1, ATTEMPTS + 1):
        have = part.stat().st_size if resume or validator else 0
        try:
            with _request(url, have, validator) as response:
                start, total = _extent(response, have, validator)
                validator = _validator(response) or (validator if start else None)
                _receive(response, part, start, total, max_bytes, show)
            return attempt
        except _Failure as failure:
            if failure.restart:
                os.truncate(part, 0)
            if failure.final or attempt == ATTEMPTS:
                what = f"{failure} (attempts: {attempt})"
                kind = DataError if failure.final else UnreachableError
                raise kind(f"cannot download {_public(url)}: {what}. {REMEDY}") from failure
            time.sleep(min(max(BACKOFF * 2 ** (attempt - 1), failure.wait), LONGEST_WAIT))
    raise ValueError(f"ATTEMPTS is {ATTEMPTS}")


def _request(url: str, have: int, validator: str | None) -> requests.Response:
    """Ask for the file as it is on the server, from byte `have` on."""
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    headers |= {"If-Range": validator} if have and validator else {}
    try:
        return requests.get(url, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT))
    except (requests.ConnectionError, requests.Timeout) as error:
        raise _Failure(str(getattr(error.args[0], "reason", error) if error.args else error)) from error
    except requests.RequestException as error:  # no valid address, endless redirects
        raise _Failure(str(error), final=True) from error


def _extent(response: requests.Response, have: int, validator: str | None) -> tuple[int, int | None]:
    """The first byte that the answer brings and the size of the whole file, if it is an answer that can be used."""
    status, headers = response.status_code, response.headers
    if status == 200:
        return 0, response.raw.length_remaining  # Content-Length, or None
    if have and status in (206, 416):
        said = headers.get("Content-Range", "")
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", said)
        same = validator is None or _validator(response) in (None, validator)
        if status == 206 and match and int(match[1]) == have and same:
            return have, None if match[2] == "*" else int(match[2])
        raise _Failure(f"status {status} with Content-Range {said!r} when asked for bytes from {have}", restart=True)
    wait = headers.get("Retry-After", "")
    final = status != 429 and status < 500
    raise _Failure(f"status {status} {response.reason}", final=final, wait=float(wait) if wait.isdecimal() else 0.0)


def _validator(response: requests.Response) -> str | None:
    """The header value that If-Range takes: a strong ETag, else the date."""
    tag = response.headers.get("ETag", "W/")
    return response.headers.get("Last-Modified") if tag.startswith("W/") else tag


def _receive(answer: requests.Response, part: Path, start: int, total: int | None, max_bytes: int, show: bool) -> None:
    """Write the body, as sent, into the part file from byte `start` on; whatever arrived stays there for a resume."""
    if (total or 0) > max_bytes:
        raise _Failure(f"{total} bytes are more than the limit of {max_bytes}", final=True, restart=True)
    have, size = start, "an unknown number of" if total is None else total
    bar = tqdm(desc=part.stem, total=total, initial=start, unit="B", unit_scale=True, leave=False, disable=not show)
    with part.open("r+b") as file, bar:
        file.seek(file.truncate(start))
        try:
            for chunk in answer.raw.stream(CHUNK, decode_content=False):
                have += len(chunk)
                if have > max_bytes:
                    raise _Failure(f"more bytes than the limit of {max_bytes}", final=True, restart=True)
                file.write(chunk)
                bar.update(len(chunk))
        except urllib3.exceptions.HTTPError as error:
            raise _Failure(f"{error.args[0]}; got {have} of {size} bytes") from error
        file.flush()
        os.fsync(file.fileno())
    if total is not None and have != total:
        raise _Failure(f"got {have} of {size} bytes")


@contextmanager
def _own_part(path: Path, *, keep: bool) -> Iterator[Path]:
    """A part file of this process alone: the shared one, kept for a later resume, or a private one if it is taken."""
    part = path.with_name(f"{path.name}.part")
    lock = _lock(part)
    if lock is None:
        part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.part")
        part.touch()
    try:
        yield part
    finally:
        if lock is None or (_names(part, lock) and not (keep and part.stat().st_size)):
            part.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)


def _lock(part: Path) -> int | None:
    """Lock the part file itself, so that a crash leaves no lock behind; None if that is not possible in time."""
    if sys.platform == "win32":
        return None
    import fcntl

    deadline = time.monotonic() + LOCK_WAIT
    while time.monotonic() < deadline:
        file = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _names(part, file):  # its last owner may have moved or removed it
                return file
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:  # a file system without locks
            part.unlink(missing_ok=True)
            deadline = 0.0
        os.close(file)
    return None


def _names(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
