"""`hopular serve`: predictions of a fitted model over HTTP."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from hopular.cli.frame import INTERRUPTED
from hopular.cli.screen import complain, show_mark
from hopular.util import InputError, OperationError, did_you_mean

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from hopular.automl import Fitted

Model = Annotated[Path, Parameter(help="A folder that hopular fit has written.")]
Port = Annotated[int, Parameter(help="Port to listen on; 0 takes a free one.")]
Host = Annotated[str, Parameter(help="Address to listen on.")]
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_BYTES = 10_000_000  # of a request
MAX_ROWS = 10_000  # of a request
END_SECONDS = 5  # that requests under way have when the server is told to end
_FIELDS = ("rows", "interval")


def serve(model: Model, /, *, port: Port = 8000, host: Host = "127.0.0.1") -> int:
    """Serve a fitted model over HTTP.

    POST /predict answers rows with predictions, GET / describes the model and
    its columns, GET /health says that it is ready. Runs until Ctrl-C.

    For example
      hopular serve houses-model
      hopular serve houses-model --port 9000
    """
    from hopular.automl import load_fitted

    if not 0 <= port <= 65535:
        raise InputError(f"--port is {port}: use a number from 0 to 65535")
    fitted = load_fitted(model)
    _ = fitted.model  # a damaged one is refused now
    listening = _listen(host, port)
    if host not in LOOPBACK:
        complain(f"listening on {host}: whoever can reach that address can ask the model", style="yellow")
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    return _run(make_app(fitted), listening, address)


def _listen(host: str, port: int) -> socket.socket:
    """Take the port before anything is said of it; requests wait until the server is there."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen()
    except OSError as error:
        raise OperationError(
            f"{host}:{port} cannot be listened on ({error.strerror}): choose another --port or --host"
        ) from error
    return listening


def _run(app: Starlette, listening: socket.socket, address: str) -> int:
    """Serve until Ctrl-C or a request to end; what is under way is answered first."""
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=END_SECONDS)
    )
    stopped_by: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped_by.append(number)
        server.should_exit = True

    # uvicorn catches these signals itself, and raises them again when it has ended: these handlers then note which.
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        show_mark("ok", "serving", address)
        show_mark("next", "to stop", "Ctrl-C")
        sys.stdout.flush()
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listening.close()
    return 128 + stopped_by[0] if stopped_by else INTERRUPTED


# ------------------------------------------------------------------------------------------------------- the interface


def make_app(fitted: Fitted) -> Starlette:
    """Return the application that answers for one model."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    one_at_a_time = threading.Lock()  # models set the number of threads of the whole process

    def answer(body: bytes) -> dict[str, Any]:
        with one_at_a_time:
            return answer_to(fitted, body)

    def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    def describe(request: Request) -> Response:
        return JSONResponse(description(fitted))

    async def predict(request: Request) -> Response:
        body = await _body(request)
        if body is None:
            what = f"a request may have {MAX_BYTES:,} bytes: send the rows in several"
            return JSONResponse({"error": what}, status_code=413)
        try:
            return JSONResponse(await run_in_threadpool(answer, body))
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=422)

    return Starlette(
        routes=[
            Route("/", describe),
            Route("/health", health),
            Route("/predict", predict, methods=["POST"]),
        ]
    )


async def _body(request: Request) -> bytes | None:
    """Return what was sent; None, without reading on, if it is too much."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            return None
    return bytes(body)


def description(fitted: Fitted) -> dict[str, Any]:
    """Say what the model is, and which columns it takes."""
    schema, facts = fitted.schema, fitted.facts
    columns = [
        {"name": column.name, "kind": column.kind, **({"categories": column.categories} if column.categories else {})}
        for column in schema.columns
    ]
    return {
        "target": schema.target,
        "task": schema.task,
        "model": facts.title,
        "trained_on": facts.trained_on,
        **({"classes": schema.classes} if schema.classes else {}),
        "columns": columns,
        "predict": 'POST /predict with {"rows": [{column: value, ...}, ...]}; null where a value is missing',
    }


def answer_to(fitted: Fitted, body: bytes) -> dict[str, Any]:
    """Return the predictions that a request asks for; InputError says what is wrong with it."""
    import numpy as np
    import pandas as pd

    request = _parse(body)
    rows, level = request["rows"], request.get("interval")
    if fitted.schema.task == "classification" and level is not None:
        raise InputError(f"interval is for numbers, and {fitted.schema.target} has classes: leave it out")
    frame = pd.DataFrame(rows, columns=_check_rows(fitted, rows))
    _, notes = fitted.read(frame)
    if fitted.schema.task == "classification":
        shares = fitted.predict_proba(frame)
        predictions = [str(value) for value in fitted.predict(frame)]
        return {"predictions": predictions, "probabilities": shares.to_dict("records"), "notes": notes}
    numbers = np.asarray(fitted.predict(frame), float) + 0.0  # no -0.0
    if level is None:
        return {"predictions": numbers.tolist(), "notes": notes}
    bounds = fitted.predict_interval(frame, float(level))
    return {"predictions": numbers.tolist(), "intervals": bounds.to_dict("records"), "notes": notes}


def _parse(body: bytes) -> dict[str, Any]:
    """Read the JSON of a request: {"rows": [...]}, and perhaps "interval"."""

    def refuse(word: str) -> None:
        raise InputError(f"the request has the number {word}, which JSON does not know: use null for a missing value")

    try:
        request = json.loads(body, parse_constant=refuse)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f'the request is no JSON ({error}): send {{"rows": [{{...}}]}}') from error
    if not isinstance(request, dict) or not isinstance(request.get("rows"), list):
        raise InputError('the request has no list of rows: send {"rows": [{column: value, ...}, ...]}')
    for name in request:
        if name not in _FIELDS:
            hint = did_you_mean(name, _FIELDS)
            raise InputError(
                f"the request has a field {name!r} that means nothing here.{hint} It may have rows, interval"
            )
    level = request.get("interval")
    if level is not None and (isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1):
        raise InputError(f"interval is {level!r}: use a number between 0 and 1, such as 0.9")
    if not request["rows"]:
        raise InputError("rows is empty: send at least one")
    if len(request["rows"]) > MAX_ROWS:
        raise InputError(f"rows has {len(request['rows']):,} rows, and a request may have {MAX_ROWS:,}: send several")
    return request


def _check_rows(fitted: Fitted, rows: list[Any]) -> list[str]:
    """Return the columns of the rows; refuse a row that lacks one of the model, or has others, or no plain values."""
    known = [column.name for column in fitted.schema.columns]
    numbers = {column.name for column in fitted.schema.columns if column.kind == "continuous" and not column.form}
    for place, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"row {place} is {_short(row)}: make it an object of columns and values")
        for name in known:
            if name not in row:
                hint = did_you_mean(name, [other for other in row if other not in known])
                raise InputError(f"row {place} lacks the column {name!r}.{hint} Give null if its value is missing")
        for name, value in row.items():
            if name not in known and name != fitted.schema.target:
                raise InputError(f"row {place} has a column {name!r} that the model does not know: leave it out")
            if isinstance(value, dict | list):
                raise InputError(f"row {place}: column {name!r} is {_short(value)}: give a number, a text or null")
            if name in numbers and isinstance(value, str | bool):
                raise InputError(f"row {place}: column {name!r} is {_short(value)}: give a number or null")
            if isinstance(value, int | float) and not abs(value) < 1e300:
                raise InputError(f"row {place}: column {name!r} is {_short(value)}: give a number below 1e300")
    return known


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
