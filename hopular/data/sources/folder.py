"""A folder of data files: each one is a dataset named by its file."""

from __future__ import annotations

from pathlib import Path

from hopular.data.dataset import DataError, Dataset
from hopular.data.read import SUFFIXES, is_data_file, stem
from hopular.data.sources import file
from hopular.util import did_you_mean


def files(folder: Path) -> list[Path]:
    """List the data files in a folder by name, but not those in folders inside it, hidden ones and sidecars."""
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    found = (path for path in folder.iterdir() if is_data_file(path) and not path.name.startswith((".", "~$")))
    paths = sorted(path for path in found if path.is_file())
    if not paths:
        raise DataError(f"{folder} holds no data file: one has a suffix of {', '.join(SUFFIXES)}, perhaps compressed")
    return paths


def load(folder: Path, name: str) -> Dataset:
    """Load the dataset of one file in a folder, by its name with or without suffix."""
    paths = files(folder)
    found = [path for path in paths if name == path.name] or [path for path in paths if name == stem(path)]
    if not found:
        stems = [stem(path) for path in paths]
        raise DataError(f"{folder} holds no dataset {name!r}, but {', '.join(stems)}.{did_you_mean(name, stems)}")
    if len(found) > 1:
        raise DataError(
            f"{folder} holds more than one {name!r}: {', '.join(path.name for path in found)}. Add the suffix"
        )
    return file.load(found[0])
