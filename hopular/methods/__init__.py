"""Methods: one short file each, with a `METHOD`, or with `METHODS` if it describes variants of one.

A new file in this folder is a new method.

Methods of your own can stay outside: each folder named in HOPULAR_PLUGINS (separated as in PATH) may have a folder
`methods` with such files, and a folder `search_spaces` with their spaces.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from hopular.methods.method import Method, Run
from hopular.settings import plugin_folders
from hopular.util import InputError, did_you_mean

__path__.extend(str(folder / "methods") for folder in plugin_folders())
__all__ = ["Method", "MethodError", "Run", "get_method", "method_names", "methods", "module_of"]


class MethodError(InputError):
    """A method that does not exist, or cannot be used here; the message says what to do."""


@cache
def methods() -> dict[str, Method]:
    """All methods by name, in alphabetical order; their libraries are imported only when an estimator is made."""
    modules = (import_own(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    found = [method for module in modules for method in _methods_of(module)]
    return {method.name: method for method in sorted(found, key=lambda method: method.name)}


def method_names() -> list[str]:
    """The names of all methods."""
    return list(methods())


def get_method(name: str) -> Method:
    """A method that can be used; MethodError names the nearest one or what must be installed."""
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


def _methods_of(module: ModuleType) -> tuple[Method, ...]:
    """The methods that a file describes; none if it is what some of them share."""
    return (module.METHOD,) if hasattr(module, "METHOD") else getattr(module, "METHODS", ())


def _find(name: str) -> Method | None:
    """The method of this name; the other files are not imported if its own is called the same."""
    if any(found.name == name for found in pkgutil.iter_modules(__path__)):
        method: Method | None = getattr(import_own(f"{__name__}.{name}"), "METHOD", None)
        if method is not None and method.name == name:
            return method
    return methods().get(name)


def module_of(name: str) -> str:
    """Return the full name of the module that a method is defined in, mostly called as the method."""
    method = get_method(name)
    files = sorted((found.name for found in pkgutil.iter_modules(__path__)), key=lambda file: file != name)
    modules = (import_own(f"{__name__}.{file}") for file in files)
    return next(module.__name__ for module in modules if method in _methods_of(module))
