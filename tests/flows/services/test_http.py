from __future__ import annotations

import time
from urllib.error import HTTPError

import pytest

from flows.services.http import ask, problem
from tests.data.loopback import Reply, serve

BUSY = Reply(b"busy", status=503)


def test_answers_are_parsed() -> None:
    with serve() as server:
        assert ask(server.answer("/json", Reply(b'{"healthy": true}'))) == {"healthy": True}
        assert ask(server.answer("/text", Reply(b"OK"))) == "OK"


def test_a_busy_server_is_asked_again() -> None:
    with serve() as server:
        assert ask(server.answer("/busy", BUSY, BUSY, Reply(b"1"))) == 1
        assert len(server.requests) == 3


def test_a_server_that_stays_busy_is_given_up() -> None:
    start = time.monotonic()
    with serve() as server, pytest.raises(HTTPError, match="503"):
        ask(server.answer("/busy", BUSY), seconds=0.5)
    assert 0.5 <= time.monotonic() - start < 5


def test_other_refusals_are_final() -> None:
    with serve() as server:
        assert problem(server.url + "/nothing") == "answers 404 Not Found"
        assert len(server.requests) == 1
        assert problem(server.answer("/fine", Reply(b"OK"))) is None
