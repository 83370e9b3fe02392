"""The few requests that are made of the servers, without their client libraries and without a proxy."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

SECONDS = 5.0
PAUSE = 0.25  # before a busy server is asked again


def ask(url: str, body: Any = None, method: str | None = None, seconds: float = SECONDS) -> Any:
    """The answer to a request, parsed if it is JSON; OSError if there is none, HTTPError among them if it is no.

    Prefect answers 503 while its database is locked, as happens when it has just started: then it is asked again.
    """
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=method)
    deadline = time.monotonic() + seconds
    while True:
        try:
            with build_opener(ProxyHandler({})).open(request, timeout=seconds) as response:
                content = response.read().decode()
            break
        except HTTPError as error:
            if error.code != 503 or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)
    try:
        return json.loads(content)
    except ValueError:
        return content


def problem(url: str, seconds: float = SECONDS) -> str | None:
    """Why an address does not answer as a healthy server would; None if it does."""
    try:
        ask(url, seconds=seconds)
    except HTTPError as error:
        return f"answers {error.code} {error.reason}"
    except URLError as error:
        return f"does not answer ({error.reason})"
    except (OSError, ValueError) as error:
        return f"does not answer ({error})"
    return None
