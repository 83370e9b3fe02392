"""`hopular methods`: who can compete."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from hopular.cli.screen import Json, say, show_json, show_table

if TYPE_CHECKING:
    from hopular.methods import Method

_SHORT = {"classification": "classes", "regression": "numbers"}


def methods(*, json: Json = False) -> None:
    """List the methods that can compete.

    For example
      hopular methods
      hopular methods --json
    """
    from hopular.methods import methods as all_methods
    from hopular.methods.method import Group

    found = sorted(all_methods().values(), key=lambda method: get_args(Group).index(method.group))
    if json:
        show_json([_facts(method) for method in found])
        return
    rows = [
        (method.name, method.title, method.group, _predicts(method), "yes" if method.uses_gpu else "")
        for method in found
    ]
    show_table(("method", "title", "group", "predicts", "GPU"), rows)
    missing = [method for method in found if method.missing_packages]
    for command in dict.fromkeys(method.install_command for method in missing):
        names = ", ".join(method.name for method in missing if method.install_command == command)
        say(f"\nNot installed: {names}. Get them with: {command}")


def _predicts(method: Method) -> str:
    return "both" if len(method.tasks) == 2 else _SHORT[method.tasks[0]]


def _facts(method: Method) -> dict[str, object]:
    return {
        "name": method.name,
        "title": method.title,
        "group": method.group,
        "tasks": method.tasks,
        "uses_gpu": method.uses_gpu,
        "is_installed": not method.missing_packages,
        "install_command": method.install_command if method.missing_packages else None,
        "paper_name": method.paper_name,
        "paper_note": method.paper_note,
        "notes": method.notes,
    }
