"""Downloads: whole and checked or not there at all, however the network behaves."""

from __future__ import annotations

import hashlib
import multiprocessing
import random

import pytest

from hopular.data import download
from hopular.data.dataset import DataError
from hopular.data.download import fetch
from tests.data.loopback import Reply, serve

BODY = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
HALF = 150_000
SHA = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(download, "PAUSES", (0.01, 0.02))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def server():
    with serve() as server:
        yield server


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "table.csv"


def fails(url, path, *arguments, **options):
    """Return the message of the failure, after which nothing is under the final name."""
    with pytest.raises(DataError) as caught:
        fetch(url, path, *arguments, **options)
    assert not path.exists()
    assert url in str(caught.value)
    return str(caught.value)


def files(path):
    return sorted(file.name for file in path.parent.iterdir())


# ----------------------------------------------------------------------------------------------------------------- good


@pytest.mark.parametrize(("body", "sha256"), [(BODY, SHA), (BODY, SHA.upper()), (BODY, None), (b"", None)])
def test_good(server, path, body, sha256):
    assert fetch(server.answer("/good", Reply(body)), path, sha256) == path
    assert path.read_bytes() == body
    assert files(path) == ["table.csv"]


def test_without_content_length(server, path):
    fetch(server.answer("/good", Reply(BODY, length=False)), path, SHA)
    assert path.read_bytes() == BODY


def test_bytes_are_kept_as_sent(server, path):
    """A .gz file that the server labels as encoded stays what it is on the server."""
    fetch(server.answer("/good", Reply(BODY, headers={"Content-Encoding": "gzip"})), path, SHA)
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


def test_redirect(server, path):
    server.answer("/good", Reply(BODY))
    fetch(server.answer("/old", Reply(status=302, headers={"Location": "/good"})), path, SHA)
    assert path.read_bytes() == BODY


@pytest.mark.parametrize("sha256", [SHA, None])
def test_existing_good_file_needs_no_request(server, path, sha256):
    path.parent.mkdir()
    path.write_bytes(BODY)
    assert fetch(server.answer("/good", Reply(BODY)), path, sha256) == path
    assert not server.requests


def test_existing_damaged_file_is_replaced(server, path):
    path.parent.mkdir()
    path.write_bytes(BODY[:HALF])
    fetch(server.answer("/good", Reply(BODY)), path, SHA)
    assert path.read_bytes() == BODY
    assert files(path) == ["table.csv"]


@pytest.mark.parametrize("shown", [False, True])
def test_progress_bar_on_a_terminal(server, path, capsys, monkeypatch, shown):
    monkeypatch.setattr(download.sys.stderr, "isatty", lambda: shown)
    fetch(server.answer("/good", Reply(BODY)), path)
    output = capsys.readouterr()
    assert ("good" in output.err) == shown
    assert not output.out


# ---------------------------------------------------------------------------------------------------------------- retry


@pytest.mark.parametrize("status", [500, 503, 429])
def test_busy_server_is_asked_again(server, path, status):
    url = server.answer("/busy", Reply(status=status), Reply(status=status), Reply(BODY))
    fetch(url, path, SHA)
    assert path.read_bytes() == BODY
    assert len(server.requests) == 3


def test_retry_after_is_respected_up_to_a_limit(server, path, monkeypatch):
    waits = []
    monkeypatch.setattr(download.time, "sleep", waits.append)
    late = {"Retry-After": "7"}, {"Retry-After": "9999"}, {"Retry-After": "Fri, 07 Nov 2014 23:59:59 GMT"}
    fetch(server.answer("/busy", *(Reply(status=429, headers=h) for h in late), Reply(BODY)), path, SHA)
    assert waits[:2] == [7, download.LONGEST_WAIT]
    assert waits[2] < 0.1


def test_always_failing_server(server, path):
    message = fails(server.answer("/busy", Reply(status=500)), path, SHA)
    assert "500 Internal Server Error" in message
    assert "attempts: 5" in message
    assert len(server.requests) == 5
    assert files(path) == []


@pytest.mark.parametrize("status", [404, 403, 410, 204, 304])
def test_refusal_is_final(server, path, status):
    message = fails(server.answer("/none", Reply(status=status)), path, SHA)
    assert f"status {status}" in message
    assert "attempts: 1" in message
    assert "HOPULAR_DATA" in message
    assert len(server.requests) == 1
    assert files(path) == []


def test_truncated_then_good(server, path):
    fetch(server.answer("/cut", Reply(BODY, cut=HALF), Reply(BODY)), path)
    assert path.read_bytes() == BODY
    assert files(path) == ["table.csv"]


@pytest.mark.parametrize("sha256", [SHA, None])
def test_always_truncated(server, path, sha256):
    message = fails(server.answer("/cut", Reply(BODY, cut=HALF)), path, sha256)
    assert f"got {HALF} of {len(BODY)} bytes" in message
    assert "attempts: 5" in message
    assert files(path) == []


def test_slow_server(server, path, monkeypatch):
    monkeypatch.setattr(download, "READ_TIMEOUT", 0.1)
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    message = fails(server.answer("/slow", Reply(BODY, delay=0.5)), path, SHA)
    assert "Read timed out" in message
    assert "attempts: 2" in message
    fetch(server.answer("/slow", Reply(BODY, delay=0.5), Reply(BODY)), path, SHA)
    assert files(path) == ["table.csv"]


def test_server_gone(path):
    with serve() as server:
        url = server.url + "/gone"
    message = fails(url, path, SHA)
    assert "refused" in message
    assert "attempts: 5" in message
    assert files(path) == []


# --------------------------------------------------------------------------------------------------------------- refuse


def test_wrong_checksum(server, path):
    message = fails(server.answer("/other", Reply(OTHER)), path, SHA)
    assert SHA in message
    assert hashlib.sha256(OTHER).hexdigest() in message
    assert len(server.requests) == 1
    assert files(path) == []


@pytest.mark.parametrize("length", [True, False])
def test_too_large(server, path, length, monkeypatch):
    monkeypatch.setattr(download, "MAX_BYTES", len(BODY) - 1)
    url = server.answer("/large", Reply(BODY, length=length))
    message = fails(url, path, SHA)
    assert f"limit of {len(BODY) - 1}" in message
    assert len(server.requests) == 1
    assert files(path) == []
    monkeypatch.setattr(download, "MAX_BYTES", len(BODY))
    fetch(url, path, SHA)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "file:///etc/passwd", "table.csv", "", "doi:10.1/x"])
def test_other_schemes(path, url):
    assert "http" in fails(url, path)
    assert not path.parent.exists()


@pytest.mark.parametrize("url", ["http://", "http://[", "https:///x", "http://a b:x/"])
def test_bad_address(path, url):
    assert "attempts: 1" in fails(url, path)


def test_redirect_to_a_file(server, path):
    fails(server.answer("/old", Reply(status=302, headers={"Location": "file:///etc/passwd"})), path)


def test_folder_cannot_be_written(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot store"):
        fetch(server.answer("/good", Reply(BODY)), tmp_path / "file" / "table.csv")


# ------------------------------------------------------------------------------------------------------------- together


def fetch_with(barrier, url, path):
    barrier.wait(20)
    fetch(url, path, SHA)


def test_two_processes(server, path):
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    url = server.answer("/good", Reply(BODY, delay=0.5))
    both = [spawn.Process(target=fetch_with, args=(barrier, url, path)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(30)
    assert [process.exitcode for process in both] == [0, 0]
    assert path.read_bytes() == BODY
    assert files(path) == ["table.csv"]


def test_interrupt_leaves_nothing(server, path, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(download.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(server.answer("/drop", Reply(BODY, cut=HALF), Reply(BODY)), path, SHA)
    assert files(path) == []


def test_a_password_in_the_address_is_not_shown(server, path):
    secret = server.url.replace("//", "//user:secret@") + "/none.csv"
    with pytest.raises(DataError, match=r"/none\.csv: status 404") as caught:
        fetch(secret, path)
    assert "secret" not in str(caught.value)
