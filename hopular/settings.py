"""Where the project reads and keeps things: the environment and paths, nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from hopular.util import InputError


def mirror() -> Path | None:
    """Return a local copy of the paper's data files (HOPULAR_DATA), read instead of the network; None if not set."""
    value = os.environ.get("HOPULAR_DATA")
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Return the folder of downloads and parsed datasets (HOPULAR_CACHE; by default the user's cache folder).

    It is safe to delete at any time.
    """
    import platformdirs

    value = os.environ.get("HOPULAR_CACHE")
    return Path(value).expanduser() if value else platformdirs.user_cache_path("hopular")


def runs_folder() -> Path:
    """Return the folder of results: studies, tracking store, artifacts (HOPULAR_RUNS; by default ./mlruns)."""
    return Path(os.environ.get("HOPULAR_RUNS") or "mlruns").expanduser().resolve()


def make_runs_folder() -> Path:
    """Create the folder of results if need be, and return it; an error says how to name another one."""
    folder = runs_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"results cannot be kept in {folder} ({error.strerror}): name another folder with HOPULAR_RUNS"
        ) from error
    return folder


def storage_url() -> str:
    """Return the address of the database of studies (HOPULAR_STORAGE; by default sqlite in the folder of results)."""
    value = os.environ.get("HOPULAR_STORAGE")
    if value:
        return value
    return f"sqlite:///{make_runs_folder() / 'optuna.db'}"


def plugin_folders() -> list[Path]:
    """Return the folders with the user's own `methods` and `search_spaces` (HOPULAR_PLUGINS, separated as in PATH)."""
    return [Path(folder) for folder in os.environ.get("HOPULAR_PLUGINS", "").split(os.pathsep) if folder]
