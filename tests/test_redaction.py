"""No password and no token of an address is in what is kept or shown."""

from __future__ import annotations

import pytest

from hopular.redaction import without_secrets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql+psycopg://ann:pw@db.host:5432/runs", "postgresql+psycopg://db.host:5432/runs"),
        ("https://ann:p%40w@host/flowers.csv", "https://host/flowers.csv"),
        ("https://host/f.csv?token=abc&id=31", "https://host/f.csv?token=***&id=31"),
        ("https://host/f.csv?X-Amz-Signature=12ab&v=1", "https://host/f.csv?X-Amz-Signature=***&v=1"),
        ("https://host/f.csv?d=aGVsbG8gdGhlcmUgZnJpZW5kcw==", "https://host/f.csv?d=***"),
        ("https://host/f.csv?aGVsbG8gdGhlcmUgZnJpZW5kcw", "https://host/f.csv?***"),
        ("https://host/f.csv#access_token=abc", "https://host/f.csv"),
        ("see 'mysql://u:p@h/d' and https://h/x?key=1.", "see 'mysql://h/d' and https://h/x?key=***"),
        ("http://me:p'w@h/x", "http://h/x"),
        ('http://me:p"w@h/x', "http://h/x"),
        ("postgresql://me:p/w#1?@h/x", "postgresql://h/x"),
        ("postgresql://me:p@w@h/x", "postgresql://h/x"),
        ("http://h:5000/@me/x", "http://h:5000/@me/x"),
        ("http://h/x?mail=a@b", "http://h/x?mail=a@b"),
        ('{"a":"http://h","b":"me@x"}', '{"a":"http://h","b":"me@x"}'),
        ("sqlite:////tmp/a.db", "sqlite:////tmp/a.db"),
        ("http://[bad", "http://[bad"),
        ("https://h/a%20b.csv?name=a%20b+c", "https://h/a%20b.csv?name=a%20b+c"),
        ("OpenML 31, version 1", "OpenML 31, version 1"),
        ("/data/a b.csv", "/data/a b.csv"),
    ],
)
def test_addresses_lose_their_secrets(text: str, expected: str) -> None:
    assert without_secrets(text) == expected
