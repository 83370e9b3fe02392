"""Scratch: one folder for everything temporary of a run, so that what a killed run left is found and removed."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from hopular import settings


@contextmanager
def own_scratch() -> Iterator[None]:
    """Temporary files of this process, and of those that it starts, are in one folder, which goes with the block."""
    root = settings.runs_folder() / "tmp" / platform.node()
    root.mkdir(parents=True, exist_ok=True)
    sweep(root)
    folder = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=root)
    before, chosen = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = chosen
        del os.environ["TMPDIR"]
        if before is not None:
            os.environ["TMPDIR"] = before
        shutil.rmtree(folder, ignore_errors=True)


def sweep(root: Path) -> None:
    """Remove the folders whose process is gone; its number may be that of a younger one by now."""
    for folder in root.iterdir():
        try:
            owner = psutil.Process(int(folder.name.partition("-")[0]))
            is_left = owner.create_time() > folder.stat().st_mtime + 2
        except psutil.NoSuchProcess:
            is_left = True
        if is_left:
            shutil.rmtree(folder, ignore_errors=True)
