"""The `hopular` command. A command is a function whose docstring is its help, and a line in COMMANDS below.

Modules of commands import what is slow inside their functions only, so that `hopular --help` answers at once.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence

from cyclopts import App, Group

import hopular
from hopular.cli.benchmark import benchmark
from hopular.cli.datasets import datasets
from hopular.cli.doctor import doctor
from hopular.cli.fit import fit
from hopular.cli.frame import run
from hopular.cli.methods import methods
from hopular.cli.predict import predict
from hopular.cli.report import compare, paper, report
from hopular.cli.serve import serve
from hopular.cli.services import down, status, up
from hopular.cli.ui import ui

EXIT_CODES = "Exit codes: 0 done, 1 failed, 2 wrong command or data, 130 interrupted"
_WORK, _LOOK, _SERVICES, _OTHER = (
    Group("Work", sort_key=1),
    Group("Look around", sort_key=2),
    Group("Services", sort_key=3),
    Group("Other", sort_key=4),
)
COMMANDS: tuple[tuple[Callable[..., int | None], Group], ...] = (
    (benchmark, _WORK),
    (fit, _WORK),
    (predict, _WORK),
    (serve, _WORK),
    (report, _LOOK),
    (compare, _LOOK),
    (paper, _LOOK),
    (datasets, _LOOK),
    (methods, _LOOK),
    (ui, _LOOK),
    (up, _SERVICES),
    (status, _SERVICES),
    (down, _SERVICES),
    (doctor, _OTHER),
)

app = App(
    name="hopular",
    help="Find out whether Hopular or gradient boosting wins on a small or medium table.",
    help_epilogue=EXIT_CODES,
    help_format="plaintext",
    version=hopular.__version__,
    version_flags=["--version"],
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for place, (command, group) in enumerate(COMMANDS):
    app.command(command, group=group, sort_key=place, help_epilogue="")
app["--help"].group = app["--version"].group = _OTHER
app["--help"].help = "Show this help; after a command, its options and examples."
app["--version"].help = "Show the version."
app.register_install_completion_command(help="Enable Tab completion in this shell.", group=_OTHER)


def main(words: Sequence[str] | None = None) -> None:
    """Run a command line, by default that of this process, and exit with its code."""
    code = run(app, sys.argv[1:] if words is None else words)
    gc.freeze()  # otherwise the interpreter's last collection goes through all that was imported, for a second or more
    sys.exit(code)
