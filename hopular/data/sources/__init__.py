"""Sources of datasets, one module each with `load`; and one name for every dataset, wherever it comes from:

suites, datasets of the paper, bundled ones, OpenML ids, files, addresses and folders.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hopular.data import registry
from hopular.data.dataset import DataError, Dataset
from hopular.data.read import is_data_file
from hopular.data.sources import bundled, file, openml, paper
from hopular.util import did_you_mean

DEMO = ("iris", "wine", "breast-cancer-wisconsin", "diabetes")


def suites() -> dict[str, tuple[str, ...]]:
    """Return the named suites and their datasets."""
    small, medium = (tuple(e.name for e in registry.entries().values() if e.suite == s) for s in ("small", "medium"))
    return {"demo": DEMO, "small": small, "medium": medium, "paper": small + medium}


def expand(references: str | Iterable[str]) -> list[str]:
    """List every dataset that the references mean, each once: suites and folders become what they hold.

    Names are checked, nothing is loaded.
    """
    result: dict[str, None] = {}
    for reference in [references] if isinstance(references, str) else references:
        for name in _expand(str(reference)):
            result[name] = None
    return list(result)


def _expand(reference: str) -> list[str]:
    if reference in suites():
        return list(suites()[reference])
    name = registry.canonical(reference)
    if name is not None:
        return [name]
    if reference in bundled.names() or _is_openml(reference) or _is_url(reference):
        return [reference]
    path = Path(reference).expanduser()
    if path.is_dir():
        return [str(found) for found in file.files_in(path)]
    if path.exists():
        return [reference]
    if path.name != reference or is_data_file(path):
        raise DataError(f"there is no file {reference!r}: check the path (the working folder is {Path.cwd()})")
    valid = [*suites(), *registry.paper_names(), *bundled.names()]
    raise DataError(
        f"there is no dataset or suite {reference!r}.{did_you_mean(reference, valid)} Suites: {', '.join(suites())}; "
        "datasets: those of the suites, openml:ID, or the path or address of a file"
    )


def _is_url(reference: str) -> bool:
    return reference.startswith(("http://", "https://"))


def load(reference: str, target: str | None = None, *, time: str | None = None, group: str | None = None) -> Dataset:
    """Load the one dataset that `reference` means.

    For a file of your own, `target` names the column to predict, `time` the one by which later rows test models of
    earlier ones, and `group` the one whose equal values stay together.
    """
    names = expand(reference)
    if len(names) != 1:
        raise DataError(
            f"{reference!r} means {len(names)} datasets: load them one by one ({', '.join(names[:5])}, ...)"
        )
    name = names[0]
    loaders = (
        (paper.load, name in paper.names()),
        (bundled.load, name in bundled.names()),
        (openml.load, _is_openml(name)),
    )
    for load_named, knows in loaders:
        if knows:
            for option, column in (("target", target), ("time", time), ("group", group)):
                if column is not None:
                    has = "its target" if option == "target" else "its own splits"
                    raise DataError(f"{option}={column!r} can be given for your own file only; {name!r} has {has}")
            return load_named(name)
    return file.load(name, target, time=time, group=group)


def _is_openml(name: str) -> bool:
    return openml.PATTERN.fullmatch(name) is not None
