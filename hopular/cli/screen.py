"""Print for people and scripts: rich on a terminal, plain lines elsewhere, JSON on demand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from hopular.redaction import without_secrets

MARKS = {
    "ok": ("green", "✓"),
    "warn": ("yellow", "!"),
    "fail": ("red", "✗"),
    "note": ("cyan", "·"),
    "next": ("cyan", "›"),
    "fact": ("default", " "),
}

NAME_WIDTH = 12  # columns for the name in a line of `show_mark`

# Options that several commands have.
Json = Annotated[bool, Parameter(negative="", show_default=False, help="Print JSON, for scripts.")]
Quiet = Annotated[
    bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False, help="Print nothing but errors.")
]


def console(stderr: bool = False) -> Console:
    """Return a console that colours nothing by itself, and breaks no line that is not shown on a terminal."""
    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, soft_wrap=True)


def say(text: str, style: str | None = None) -> None:
    """Print a line; the text is shown as it is."""
    console().print(escape(text), style=style)


def complain(text: str, style: str = "red") -> None:
    """Print a message on standard error, its first word in colour. Secrets in addresses are never shown."""
    word = {"red": "error", "yellow": "note"}[style]
    console(stderr=True).print(f"[bold {style}]{word}:[/] {escape(without_secrets(text))}")


def show_json(value: Any) -> None:
    """Print a value for scripts."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print a table; `right` names the columns of numbers. Off a terminal, columns are separated by tabs."""
    if not console().is_terminal:
        for row in (columns, *rows):
            print("\t".join(row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        table.add_column(escape(name), justify="right" if name in right else "left", no_wrap=name == columns[0])
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console().print(table)


def show_mark(state: str, name: str, detail: str) -> None:
    """Print a line with one of MARKS, a name and what there is to say of it."""
    colour, mark = MARKS[state]
    screen = console()
    if screen.is_terminal:
        from rich.table import Table

        line = Table.grid(padding=(0, 1))
        line.add_column(width=1)
        line.add_column(width=NAME_WIDTH)
        line.add_column(overflow="fold")
        line.add_row(f"[{colour}]{mark}[/]", escape(name), escape(detail))
        screen.print(line)
    else:
        print(f"{'' if state == 'fact' else state:<4}  {name:<{NAME_WIDTH}}  {detail}", flush=True)


@contextmanager
def waiting(is_quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Give a function that tells what is being waited for: by a spinner on a terminal, otherwise a line each time."""
    screen = console(stderr=True)
    if is_quiet:
        yield lambda text: None
    elif not screen.is_terminal:
        yield lambda text: print(text, file=sys.stderr, flush=True)
    else:
        with screen.status("") as status:
            yield lambda text: status.update(f"{escape(text)} ...")
