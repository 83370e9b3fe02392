"""The cache gives back what was put in, notices damage, and is safe for two processes at once."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import pytest

from hopular.data.cache import cache_key, cached
from hopular.data.dataset import Dataset, Protocol


def full_dataset() -> Dataset:
    """Make a dataset that uses every field, with awkward names and values."""
    return Dataset(
        name="everything",
        X=pd.DataFrame(
            {
                "size": [1.0, np.nan, -0.0, 1e300],
                'größe, "x"': pd.Categorical(["b", None, "a", "é"], categories=["é", "b", "a", "unused"]),
                "0": [1.5, 2.5, 3.5, 4.5],
            }
        ),
        y=pd.Series(pd.Categorical(["p", "q", "p", "q"], categories=["q", "p"]), name="class"),
        task="classification",
        source="here",
        defects=("one", "two"),
        notes=("three",),
        protocol=Protocol("fixed", seed=7),
        parts=pd.DataFrame(
            {"fold-0": ["train", "valid", "test", "unused"], "fold-1": ["test", "train", "train", "valid"]}
        ),
        groups=pd.Series(["g1", "g1", "g2", "g3"], name="who"),
        time=pd.Series([1.0, 2.0, 3.0, 4.0], name="when"),
    )


def plain_dataset() -> Dataset:
    return Dataset("plain", pd.DataFrame({"x": [1.0, 2.0]}), pd.Series([1.0, 2.0], name="y"), "regression", "here")


def never() -> NoReturn:
    raise AssertionError("a cached dataset was built again")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path))
    return tmp_path / "datasets"


@pytest.mark.parametrize("make", [full_dataset, plain_dataset])
def test_a_hit_is_equal_in_every_field(folder: Path, make: object) -> None:
    built = cached("key", make)  # type: ignore[arg-type]
    read = cached("key", never)
    pd.testing.assert_frame_equal(read.X, built.X)
    pd.testing.assert_series_equal(read.y, built.y)
    for name in ("name", "task", "source", "defects", "notes", "protocol", "fingerprint", "kinds", "classes"):
        assert getattr(read, name) == getattr(built, name), name
    for name in ("parts", "groups", "time"):
        old, new = getattr(built, name), getattr(read, name)
        assert (new is None) == (old is None)
        if old is not None:
            np.testing.assert_array_equal(new.to_numpy(), old.to_numpy())
    assert [p.suffix for p in folder.iterdir()] == [".parquet"]


def test_the_stored_fingerprint_is_that_of_the_content(folder: Path) -> None:
    cached("key", full_dataset)
    read = cached("key", never)
    stored = read.fingerprint
    read.__dict__.pop("fingerprint")
    assert read.fingerprint == stored


def test_keys_depend_on_every_part_and_where_it_ends() -> None:
    keys = [cache_key("ab", "c"), cache_key("a", "bc"), cache_key("abc"), cache_key(b"abc", "d"), cache_key()]
    assert len(set(keys)) == len(keys)


def test_any_damaged_byte_is_noticed_and_the_entry_built_again(folder: Path) -> None:
    cached("key", full_dataset)
    (path,) = folder.iterdir()
    content = path.read_bytes()
    calls = []
    for place in [*range(0, len(content), max(1, len(content) // 40)), len(content) - 1]:
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        again = cached("key", lambda: calls.append(1) or full_dataset())
        assert again.fingerprint == full_dataset().fingerprint
        assert path.read_bytes() == content
    assert len(calls) >= 40


@pytest.mark.parametrize("length", [0, 1, 100])
def test_a_truncated_entry_is_built_again(folder: Path, length: int) -> None:
    cached("key", full_dataset)
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:length])
    assert cached("key", full_dataset).fingerprint == full_dataset().fingerprint
    assert len(list(folder.iterdir())) == 1


def test_nothing_is_left_of_a_failed_build_or_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Dataset:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cached("key", fail)
    assert not folder.exists()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.warns(UserWarning, match=r"'everything' could not be kept in .*No space left"):
        assert cached("key", full_dataset).name == "everything"
    assert list(folder.iterdir()) == []


def _load_often(cache: str, failures: object) -> None:
    import os

    os.environ["HOPULAR_CACHE"] = cache
    for _ in range(20):
        for path in (Path(cache) / "datasets").glob("*.parquet"):
            path.unlink(missing_ok=True)
        if cached("key", full_dataset).fingerprint != full_dataset().fingerprint:
            failures.put("another dataset")  # type: ignore[attr-defined]


def test_two_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    failures = context.Queue()
    processes = [context.Process(target=_load_often, args=(str(tmp_path), failures)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert failures.empty()
    assert not list((tmp_path / "datasets").glob(".*"))
