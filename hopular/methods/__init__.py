"""Methods: each file of this folder describes one, as `METHOD`, or several that are alike, as `METHODS`.

A file with either is all that a new method needs, beside its search space.

Methods of your own can stay outside: each folder named in HOPULAR_PLUGINS (separated as in PATH) may have a folder
`methods` with such files, and a folder `search_spaces` with their spaces.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import get_args

from hopular.methods.method import Group, Method, Run
from hopular.settings import plugin_folders
from hopular.util import InputError, did_you_mean

__path__.extend(str(folder / "methods") for folder in plugin_folders())
__all__ = ["Method", "MethodError", "Run", "get_method", "methods", "methods_named", "module_of"]


class MethodError(InputError):
    """A method that does not exist, or cannot be used here; the message says what to do."""


@cache
def methods() -> dict[str, Method]:
    """Return all methods by name, in alphabetical order; their libraries are imported when an estimator is made."""
    found: dict[str, Method] = {}
    for module in _modules():
        for method in _methods_of(module):
            if method.name in found:
                raise MethodError(
                    f"there are two methods {method.name!r}, one of them in {module.__file__}: give it another name"
                )
            found[method.name] = method
    return dict(sorted(found.items()))


def get_method(name: str) -> Method:
    """Return a method that can be used; MethodError names the nearest one or what must be installed."""
    method = _find(name)
    if method is None:
        raise MethodError(
            f"there is no method {name!r}.{did_you_mean(name, methods())} The methods are: {', '.join(methods())}"
        )
    if method.missing_packages:
        raise MethodError(
            f"method {name!r} needs {', '.join(method.missing_packages)}, not installed: {method.install_command}"
        )
    return method


def methods_named(name: str) -> list[Method]:
    """Return the methods that a name, a group or "all" means, installed or not; MethodError names the nearest one."""
    groups = get_args(Group)
    if name in methods():
        return [methods()[name]]
    if name != "all" and name not in groups:
        known = list(dict.fromkeys([*methods(), *groups, "all"]))
        raise MethodError(f"there is no method {name!r}.{did_you_mean(name, known)} There are: {', '.join(known)}")
    return [method for method in methods().values() if name in ("all", method.group)]


def import_own(name: str) -> ModuleType:
    """Import the module of a method or of its search space; MethodError names a file of the user's that is broken."""
    spec = find_spec(name)
    file = Path(spec.origin) if spec is not None and spec.origin else Path()
    try:
        return import_module(name)
    except Exception as error:
        if not any(folder.expanduser().resolve() in file.resolve().parents for folder in plugin_folders()):
            raise
        why = f"{type(error).__name__}: {error}"
        raise MethodError(f"the plug-in {file} cannot be used ({why}): mend it, or change HOPULAR_PLUGINS") from error


def module_of(name: str) -> str:
    """Return the full name of the module that describes a method."""
    method = get_method(name)
    return next(module.__name__ for module in _modules(first=name) if method in _methods_of(module))


def _find(name: str) -> Method | None:
    """Find a method; the other files are not imported if it has one of its own name."""
    module = next(_modules(first=name), None)
    method = getattr(module, "METHOD", None)
    return method if method is not None and method.name == name else methods().get(name)


def _modules(first: str = "") -> Iterator[ModuleType]:
    """Import the files of this folder and of plug-in folders one by one, the one called `first` before the others."""
    files = sorted((found.name for found in pkgutil.iter_modules(__path__)), key=lambda file: file != first)
    yield from (import_own(f"{__name__}.{file}") for file in files)


def _methods_of(module: ModuleType) -> tuple[Method, ...]:
    """Return the methods that a file describes; none if it is what some of them share."""
    return (module.METHOD,) if hasattr(module, "METHOD") else getattr(module, "METHODS", ())
