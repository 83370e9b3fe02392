"""Fixtures of the data tests: a cache of their own, and the mirror of the paper's files where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NO_MIRROR = "HOPULAR_DATA is not set: the paper's files are needed for this test, and tests use no network"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HOPULAR_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def mirror() -> Path:
    """Return the local mirror of the paper's files; skip the test if there is none."""
    if not os.environ.get("HOPULAR_DATA"):
        pytest.skip(NO_MIRROR)
    return Path(os.environ["HOPULAR_DATA"])


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paper-cache")
