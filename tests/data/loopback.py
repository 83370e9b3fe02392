"""A web server on this machine whose answers a test scripts, path by path."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep  # a test may replace time.sleep


@dataclass(frozen=True)
class Reply:
    """One answer. `cut` closes the connection after so many bytes of the body; `delay` is before its first byte."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    delay: float = 0.0
    length: bool = True  # say Content-Length


@dataclass(frozen=True)
class Request:
    """A request that came in."""

    path: str
    headers: dict[str, str]


class Server(ThreadingHTTPServer):
    """Answers a path with its replies in turn, the last one again and again; any other path with 404."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: dict[str, list[Reply]] = {}
        self.requests: list[Request] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, path: str, *replies: Reply) -> str:
        """Set the replies for a path and return its URL."""
        self.script[path] = list(replies)
        return self.url + path

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a client that hangs up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        with self.server.lock:
            replies = self.server.script.get(self.path, [Reply(status=404)])
            reply = replies.pop(0) if len(replies) > 1 else replies[0]
            self.server.requests.append(Request(self.path, dict(self.headers)))
        self.send_response(reply.status)
        length = {"Content-Length": str(len(reply.body))} if reply.length else {}
        for name, value in (length | reply.headers).items():
            self.send_header(name, value)
        self.end_headers()
        sleep(reply.delay)
        self.wfile.write(reply.body[: reply.cut])

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def serve() -> Iterator[Server]:
    """Run a server; it is closed at the end."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
