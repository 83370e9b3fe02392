"""Fetch a file over HTTP: retried, checked, and never half-written under its final name."""

from __future__ import annotations

import hashlib
import math
import os
import re
import sys
import time
from pathlib import Path

import requests
import urllib3
from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]

from hopular.data.dataset import DataError
from hopular.util import retry, whole_file

_CONNECT_TIMEOUT = 10.0  # seconds
READ_TIMEOUT = 60.0  # seconds without a byte
ATTEMPTS = 5
PAUSES = (1.0, 8.0)  # seconds before the second attempt and, doubling from there, at most
LONGEST_WAIT = 60.0  # seconds, even if the server asks for more
MAX_BYTES = 2 * 1024**3
_CHUNK = 1 << 16
_REMEDY = "Check address and network, or get the file yourself (HOPULAR_DATA: a folder with the paper's data files)."


class UnreachableError(DataError):
    """A server that did not answer, or was too busy: nothing is known of the data, and later it may be there."""


class _Failure(Exception):  # noqa: N818
    """One attempt went wrong: is it `final`, and for how many seconds does the server ask to `wait`?"""

    def __init__(self, message: str, *, final: bool = False, wait: float = 0.0) -> None:
        super().__init__(message)
        self.final, self.wait = final, wait


def fetch(url: str, path: Path, sha256: str | None = None) -> Path:
    """Download `url` to `path` unless a good file is there already; a file without checksum is good if it exists."""
    if url.partition("://")[0].lower() not in ("http", "https"):
        raise DataError(f"cannot download {_public(url)}: only http:// and https:// addresses are supported")
    try:
        if not path.is_file() or (sha256 is not None and _checksum(path) != sha256.lower()):
            with whole_file(path) as part:
                _download(url, part, sha256)
    except OSError as error:
        remedy = "Check the disk, or set HOPULAR_CACHE elsewhere."
        raise DataError(f"cannot store {_public(url)}: {error}. {remedy}") from error
    return path


def _public(url: str) -> str:
    """Return the address for messages: without a user's name and password, or a query that may hold a token."""
    return re.sub(r"//[^/?#]*@", "//", url).partition("?")[0]


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(url: str, part: Path, sha256: str | None) -> None:
    """Attempt the download until it is whole; what is whole but not the expected file is refused at once."""
    attempts, wait = 0, 0.0

    def attempt() -> None:
        nonlocal attempts, wait
        attempts += 1
        try:
            _transfer(url, part)
            if sha256 is not None and (got := _checksum(part)) != sha256.lower():
                raise _Failure(f"checksum {got}, expected {sha256}", final=True)
        except _Failure as failure:
            wait = failure.wait
            raise

    try:
        retry(
            attempt,
            should_retry=lambda error: isinstance(error, _Failure) and not error.final and attempts < ATTEMPTS,
            seconds=math.inf,  # an attempt may take long, so that they are counted
            pauses=PAUSES,
            sleep=lambda pause: time.sleep(min(max(pause, wait), LONGEST_WAIT)),
        )
    except _Failure as failure:
        kind = DataError if failure.final else UnreachableError
        raise kind(f"cannot download {_public(url)}: {failure} (attempts: {attempts}). {_REMEDY}") from failure


def _transfer(url: str, part: Path) -> None:
    """Write the file as it is on the server into the part file."""
    headers, timeout = {"Accept-Encoding": "identity"}, (_CONNECT_TIMEOUT, READ_TIMEOUT)
    try:
        answer = requests.get(url, headers=headers, stream=True, timeout=timeout)
    except (requests.ConnectionError, requests.Timeout) as error:
        raise _Failure(str(getattr(error.args[0], "reason", error) if error.args else error)) from error
    except requests.RequestException as error:  # no valid address, endless redirects
        raise _Failure(str(error), final=True) from error
    with answer:
        _check_status(answer)
        have, total = 0, answer.raw.length_remaining  # Content-Length, or None
        if (total or 0) > MAX_BYTES:
            raise _Failure(f"{total} bytes are more than the limit of {MAX_BYTES}", final=True)
        size = "an unknown number of" if total is None else total
        name, is_shown = _public(url).rpartition("/")[2], sys.stderr.isatty()
        bar = tqdm(desc=name, total=total, unit="B", unit_scale=True, leave=False, disable=not is_shown)
        with part.open("wb") as file, bar:
            try:
                for chunk in answer.raw.stream(_CHUNK, decode_content=False):
                    have += len(chunk)
                    if have > MAX_BYTES:
                        raise _Failure(f"more bytes than the limit of {MAX_BYTES}", final=True)
                    file.write(chunk)
                    bar.update(len(chunk))
            except urllib3.exceptions.HTTPError as error:
                raise _Failure(f"{error.args[0]}; got {have} of {size} bytes") from error
            file.flush()
            os.fsync(file.fileno())
        if total is not None and have != total:
            raise _Failure(f"got {have} of {size} bytes")


def _check_status(answer: requests.Response) -> None:
    """Refuse any answer but the whole file; only a server that is busy or broken is worth another try."""
    status = answer.status_code
    if status != 200:
        wait = answer.headers.get("Retry-After", "")
        seconds = float(wait) if wait.isdecimal() else 0.0
        raise _Failure(f"status {status} {answer.reason}", final=status != 429 and status < 500, wait=seconds)
