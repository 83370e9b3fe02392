"""Fitted estimators of any method on disk: what `save` of its class writes, and a note of which class that is."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from hopular.util import InputError

FORMAT = 1  # of the note; raised when an older reader would misunderstand it
CLASS_FILE = "model-class.json"
CONTENT = "model"  # a file or a folder, as the estimator's own `save` makes it
_OWN_CLASS = re.compile(r"hopular(\.\w+)+:[A-Za-z]\w*")


class NotSavableError(InputError):
    """The estimator cannot be kept without pickle; the message says why."""


def save_model(estimator: Any, folder: Path) -> None:
    """Write a fitted estimator without pickle; the note of its class comes last, so a folder with one is whole."""
    name = class_name(type(estimator))
    if not _OWN_CLASS.fullmatch(name) or not hasattr(estimator, "save"):
        raise NotSavableError(f"{name} is no estimator of this project that can be saved")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CLASS_FILE).unlink(missing_ok=True)
    try:
        estimator.save(folder / CONTENT)
    except NotImplementedError as error:
        raise NotSavableError(str(error)) from error
    (folder / CLASS_FILE).write_text(json.dumps({"format": FORMAT, "class": name}), encoding="utf-8")


def load_model(folder: Path) -> Any:
    """Read what `save_model` wrote. Only classes of this project are imported, whatever the note says."""
    note = folder / CLASS_FILE
    try:
        values = json.loads(note.read_text(encoding="utf-8"))
        if values["format"] != FORMAT:
            raise ValueError(f"its format is {values['format']!r}, and this version of hopular reads {FORMAT}")
        found = own_class(str(values["class"]))
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise ValueError(f"{str(note)!r} cannot be used: {error}. Save the model again.") from error
    return found.load(folder / CONTENT)


def class_name(kind: type) -> str:
    """Return what a saved model calls its class, such as hopular.methods.xgboost:XGBoostClassifier."""
    return f"{kind.__module__}:{kind.__qualname__}"


def own_class(name: str) -> Any:
    """Import the class of this project that a saved model names; ValueError if it is none."""
    module, _, attribute = name.partition(":")
    found = getattr(import_module(module), attribute, None) if _OWN_CLASS.fullmatch(name) else None
    if not (isinstance(found, type) and found.__module__ == module and hasattr(found, "load")):
        raise ValueError(f"{name!r} is no estimator of this project")
    return found
