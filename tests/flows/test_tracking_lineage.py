"""Lineage: the tags of a run, and that no secret gets into them."""

from __future__ import annotations

from dataclasses import replace

from flows.tracking.lineage import Lineage


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


def test_tags_have_no_secrets(lineage: Lineage) -> None:
    tags = replace(lineage, source="https://ann:hush@host/flowers.csv?token=hush").tags()
    assert not [name for name, value in tags.items() if "hush" in value]
    assert tags["hopular.source"] == "https://host/flowers.csv?token=***"
