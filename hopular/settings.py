"""Where the project reads and keeps things: the environment and paths, nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from hopular.util import InputError


def mirror() -> Path | None:
    """A local copy of the paper's data files (HOPULAR_DATA), read instead of the network; None if not set."""
    value = os.environ.get("HOPULAR_DATA")
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Downloads and parsed datasets (HOPULAR_CACHE; by default the user's cache folder). Safe to delete at any time."""
    import platformdirs

    value = os.environ.get("HOPULAR_CACHE")
    return Path(value).expanduser() if value else platformdirs.user_cache_path("hopular")


def runs_folder() -> Path:
    """Results kept on this machine: studies, tracking store, artifacts (HOPULAR_RUNS; by default ./mlruns)."""
    return Path(os.environ.get("HOPULAR_RUNS") or "mlruns").expanduser().resolve()


def make_runs_folder() -> Path:
    """The same folder, which is there afterwards; ValueError says how to name another one."""
    folder = runs_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"results cannot be kept in {folder} ({error.strerror}): name another folder with HOPULAR_RUNS"
        ) from error
    return folder


def storage_url() -> str:
    """The database of studies (HOPULAR_STORAGE, such as postgresql+psycopg://...; by default sqlite in runs_folder)."""
    value = os.environ.get("HOPULAR_STORAGE")
    if value:
        return value
    return f"sqlite:///{make_runs_folder() / 'optuna.db'}"


def plugin_folders() -> list[Path]:
    """Folders with `methods` and `search_spaces` of one's own (HOPULAR_PLUGINS, separated as in PATH)."""
    return [Path(folder) for folder in os.environ.get("HOPULAR_PLUGINS", "").split(os.pathsep) if folder]
