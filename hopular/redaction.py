"""Redact text for files, logs and screens: take passwords and tokens out of the addresses in it."""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

_ADDRESS = re.compile(
    r"""(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]{0,30}://)
    (?:(?:[^\s/?\#'"]|['"](?![,:}\])]))*@      # user and password, which may have quotes in them,
    |[^\s/?\#@:'"]*:(?!\d*[/?\#])(?:[^\s@'"]|['"](?![,:}\])]))*@)?  # or slashes; a number before one is a port
    (?P<place>[^\s'"<>?\#]*)
    (?:\?(?P<query>[^\s'"<>\#]*))?
    (?:\#[^\s'"<>]*)?""",
    re.VERBOSE,
)
_SECRET_NAME = re.compile(r"token|key|secret|pass|pwd|sig|auth|cred|session|ticket|code", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"[A-Za-z0-9_\-+/=.%]{24,}")  # too long for a number or a word
_HIDDEN = "***"


def without_secrets(text: str) -> str:
    """Take users, passwords, tokens and fragments out of the addresses in a text."""
    return _ADDRESS.sub(_public, text)


def _public(found: re.Match[str]) -> str:
    address = found["scheme"] + found["place"]
    return f"{address}?{'&'.join(map(_parameter, found['query'].split('&')))}" if found["query"] else address


def _parameter(text: str) -> str:
    name, equals, value = text.partition("=")
    if _SECRET_NAME.search(unquote_plus(name)) or _SECRET_VALUE.fullmatch(unquote_plus(value if equals else name)):
        return f"{name}={_HIDDEN}" if equals else _HIDDEN
    return text
