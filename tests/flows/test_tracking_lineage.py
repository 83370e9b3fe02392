"""Lineage: the tags of a run, and that no secret gets into them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flows.tracking.lineage import Lineage, without_secrets


def test_every_field_is_a_tag_and_empty_ones_are_not(lineage: Lineage) -> None:
    tags = lineage.tags()
    assert tags["hopular.benchmark"] == "bench-1"
    assert tags["hopular.dataset_fingerprint"] == "a" * 64
    assert tags["hopular.seed"] == "3"
    assert tags["hopular.kind"] == "unit"
    assert "python 3." in tags["hopular.versions"]
    assert "hopular 0." in tags["hopular.versions"]
    assert "hopular.device" not in replace(lineage, device="").tags()
    assert replace(lineage, seed=0).tags()["hopular.seed"] == "0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql+psycopg://ann:pw@db.host:5432/runs", "postgresql+psycopg://db.host:5432/runs"),
        ("https://ann:p%40w@host/flowers.csv", "https://host/flowers.csv"),
        ("https://host/f.csv?token=abc&id=31", "https://host/f.csv?token=***&id=31"),
        ("https://host/f.csv?X-Amz-Signature=12ab&v=1", "https://host/f.csv?X-Amz-Signature=***&v=1"),
        ("https://host/f.csv?d=aGVsbG8gdGhlcmUgZnJpZW5kcw==", "https://host/f.csv?d=***"),
        ("https://host/f.csv#access_token=abc", "https://host/f.csv"),
        ("see 'mysql://u:p@h/d' and https://h/x?key=1.", "see 'mysql://h/d' and https://h/x?key=***"),
        ("OpenML 31, version 1", "OpenML 31, version 1"),
        ("/data/a b.csv", "/data/a b.csv"),
    ],
)
def test_addresses_lose_their_secrets(text: str, expected: str) -> None:
    assert without_secrets(text) == expected


def test_tags_have_no_secrets(lineage: Lineage) -> None:
    tags = replace(lineage, source="https://ann:hush@host/flowers.csv?token=hush").tags()
    assert not [name for name, value in tags.items() if "hush" in value]
    assert tags["hopular.source"] == "https://host/flowers.csv?token=***"
