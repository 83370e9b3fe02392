from __future__ import annotations

import socket
import time
from urllib.error import HTTPError

import pytest

from flows.services.health import ask, problem, wait_until_ready
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
    with serve() as server:
        with pytest.raises(HTTPError, match="503"):
            ask(server.answer("/busy", BUSY), seconds=1.0)
        assert len(server.requests) > 1
    assert time.monotonic() - start < 5


def test_other_refusals_are_final() -> None:
    with serve() as server:
        assert problem(server.url + "/nothing") == "answers 404 Not Found"
        assert len(server.requests) == 1
        assert problem(server.answer("/fine", Reply(b"OK"))) is None


def test_a_server_that_accepts_but_never_answers_is_a_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/health"
        assert "does not answer" in str(problem(address, seconds=0.2))


def test_a_start_is_waited_for_while_it_can_succeed() -> None:
    troubles = iter(["is busy", None])
    assert wait_until_ready(lambda: next(troubles), lambda: True, seconds=5) is None
    assert wait_until_ready(lambda: "is busy", lambda: False, seconds=5) == "ended while it was starting"
    assert wait_until_ready(lambda: "is busy", lambda: True, seconds=0) == "was not ready after 0 s (is busy)"
