"""Fingerprint: what computes a method's results: the source that it runs, its libraries' versions and the device.

Source is compared by its syntax tree, so that comments, docstrings and layout do not count. It is that of the method's
module, of its search space, and of all that these import, here or in a plug-in folder; and of the search, which is the
same for every method. What another method alone imports is not in it. Methods that share a module change together:
that is for cheap ones, which are soon computed again.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

import hopular
import search_spaces
from hopular import methods
from hopular.settings import plugin_folders

_LIBRARIES = ("numpy", "scipy", "pandas", "scikit-learn", "optuna")  # that every search and every method computes with
SEARCH = ("hopular.trials.run", "hopular.trials.refit", "hopular.trials.select")
SCORING = ("hopular.evaluation.metrics",)
# The search imports all models, to know their names. It is followed only within these.
OF_THE_SEARCH = ("hopular.trials", "hopular.evaluation")
NOT_COMPUTING = (
    *("hopular", "hopular.methods", "search_spaces"),  # lists of what there is: the packages, not what is in them
    "hopular.methods.method",  # the contract: what a method declares is in its own file
    *("hopular.settings", "hopular.util", "hopular.redaction", "hopular.formatting"),
    # The rows are known by a fingerprint of their own, however they were read.
    *("hopular.data", "hopular.data.dataset"),
    # These carry jobs, records and models, and decide nothing.
    *("hopular.trials.study", "hopular.trials.worker", "hopular.trials.events"),
    "hopular.methods.saved",
)
Import = tuple[str, str]  # a module, and the name taken from it or ""
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Fingerprint:
    """The code, libraries and device that compute a method's results: where they are the same, so are the results."""

    code: str
    versions: Mapping[str, str]  # of the libraries
    device: str  # its type: "cuda", not "cuda:1"

    @property
    def digest(self) -> str:
        return _hash(repr((self.code, sorted(self.versions.items()), self.device)))


@dataclass(frozen=True)
class Source:
    """A module as far as it counts: its syntax tree as a hash, and what it imports."""

    digest: str
    imports: tuple[Import, ...]
    typing_imports: tuple[Import, ...]  # that only type checkers follow: they tell where lazy names are from


def take_fingerprint(method: str, device: str = "cpu") -> Fingerprint:
    """Take the fingerprint of a method on a device; for one that cannot use a GPU the device is always the CPU."""
    found = methods.get_method(method)
    code = sources(SEARCH, OF_THE_SEARCH) | sources((methods.module_of(method), f"search_spaces.{method}"))
    versions = {name: version_of(name) for name in (*_LIBRARIES, *found.packages)}
    kind = device.partition(":")[0] if found.uses_gpu else "cpu"
    return Fingerprint(_hash(repr(sorted(code.items()))), versions, kind)


def scoring_code() -> str:
    """Hash the source that scores predictions of test rows."""
    return _hash(repr(sorted(sources(SCORING, OF_THE_SEARCH).items())))


def sources(modules: tuple[str, ...], within: tuple[str, ...] = ("",)) -> dict[str, str]:
    """Hash modules and all of ours that they import, by name; imports inside functions count as well."""
    found: dict[str, str] = {}
    waiting, seen = list(modules), {"", *NOT_COMPUTING}
    followed: set[Import] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or not name.startswith(within):
            continue
        seen.add(name)
        file = _find(name)
        if file is None:
            if name in modules:
                raise ValueError(f"the source of {name} is not there, so that its results cannot be told from others")
            continue
        source, parent = _read(file), name.rpartition(".")[0]
        found[name] = source.digest
        waiting.append(parent)  # which is run before it
        package = name if file.endswith("__init__.py") else parent
        imports = {(_absolute(module, package), taken) for module, taken in source.imports} - followed
        followed |= imports
        for module, taken in imports:
            waiting += _imported(module, taken)
    return found


def _imported(module: str, taken: str) -> Iterator[str]:
    """Find the modules behind `from module import taken`: one in it, or itself and where it has the name from."""
    file = _find(module)
    is_package = file is None or file.endswith("__init__.py")  # a folder need not have that file
    if taken and is_package and _find(f"{module}.{taken}"):
        yield f"{module}.{taken}"
        return
    yield module
    if taken and is_package and file is not None:
        source = _read(file)
        yield from (_absolute(home, module) for home, name in source.imports + source.typing_imports if name == taken)


def _absolute(module: str, package: str) -> str:
    """Return a module's full name; one that begins with dots is sought from the package of whoever imports it."""
    name = module.lstrip(".")
    for _ in range(len(module) - len(name) - 1):
        package = package.rpartition(".")[0]
    return name if name == module else f"{package}.{name}".rstrip(".")


def _find(module: str) -> str | None:
    """Find the file of a module of ours or of a plug-in folder; None for those of libraries."""
    top, *rest = module.split(".")
    folders: Iterable[str]
    if top == "hopular" and rest[:1] == ["methods"]:
        folders, rest = methods.__path__, rest[1:]
    elif top == "hopular":
        folders = hopular.__path__
    elif top == "search_spaces":
        folders = search_spaces.__path__
    else:
        folders, rest = map(str, plugin_folders()), [top, *rest]
    for folder in folders:
        path = os.path.join(folder, *rest)
        for file in (f"{path}.py", f"{path}{os.sep}__init__.py"):
            if os.path.isfile(file):
                return file
    return None


def _read(file: str) -> Source:
    """Parse a file, unless that was done and it has not changed since."""
    found = os.stat(file)
    return _parse(file, found.st_mtime_ns, found.st_size)


@cache
def _parse(file: str, changed: int, size: int) -> Source:
    """Read what counts of a source; `changed` and `size` tell its versions apart."""
    tokens: list[str] = []
    imports: list[Import] = []
    typing_imports: list[Import] = []
    _write(ast.parse(Path(file).read_bytes()), tokens, imports, typing_imports)
    return Source(_hash(" ".join(tokens)), tuple(imports), tuple(typing_imports))


def _write(node: ast.AST, tokens: list[str], imports: list[Import], typing_imports: list[Import]) -> None:
    """Write a syntax tree without places and docstrings, and note what it imports.

    Empty fields are left out, since a new version of Python brings some, and would change every hash; and so is
    whether a name is read or set, which the rest of the tree says.
    """
    tokens.append(type(node).__name__)
    if isinstance(node, ast.Import):
        imports += [(alias.name, "") for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        imports += [("." * node.level + (node.module or ""), alias.name) for alias in node.names]
    elif isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        del node.body[0]
    for name in node._fields:
        value = getattr(node, name, None)
        if value is None or value == [] or name == "ctx":
            continue
        tokens.append(name)
        noted = typing_imports if name == "body" and _is_for_typing(node) else imports
        if isinstance(value, ast.AST):
            _write(value, tokens, noted, typing_imports)
        elif isinstance(value, list):
            tokens.append("[")
            for item in value:
                if isinstance(item, ast.AST):
                    _write(item, tokens, noted, typing_imports)
                else:
                    tokens.append(repr(item))
            tokens.append("]")
        else:
            tokens.append(repr(value))


def _is_for_typing(node: ast.AST) -> bool:
    """Tell whether a node is `if TYPE_CHECKING:`, or `if typing.TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and getattr(node.test, "attr", getattr(node.test, "id", "")) == "TYPE_CHECKING"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def version_of(package: str) -> str:
    """Return the installed version of a distribution, or of the one that a package to import belongs to."""
    return _installed(package)[1] or "unknown"


def requirement_of(package: str) -> str:
    """Return what installs a package as it is installed here, such as "torch==2.9.0"; empty if it is not installed."""
    name, found = _installed(package)
    return found and f"{name}=={found.partition('+')[0]}"


@cache
def _installed(package: str) -> tuple[str, str]:
    """Return the name and version of a distribution, or of the one that a package to import belongs to."""
    try:
        return package, version(package)
    except PackageNotFoundError:
        names = packages_distributions().get(package, [])
        return (names[0], version(names[0])) if names else (package, "")
