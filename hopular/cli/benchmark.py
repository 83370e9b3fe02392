"""`hopular benchmark`: the whole pipeline from this terminal."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from hopular import settings
from hopular.cli.display import show_progress
from hopular.cli.frame import FAILED, INTERRUPTED, ending_in_good_order, log_file
from hopular.cli.screen import Json, Quiet, complain, console, say, show_json
from hopular.formatting import plural
from hopular.util import InputError

if TYPE_CHECKING:
    from flows.benchmark import Published
    from hopular.benchmark.plan import Plan

Datasets = Annotated[str, Parameter(help="Suites, datasets, openml:ID, files, folders or addresses.")]
Methods = Annotated[str | None, Parameter(name=["--methods", "-m"], help="Comma-separated methods or groups, or all.")]
Target = Annotated[str | None, Parameter(name=["--target", "-t"], help="Column to predict, in a file of your own.")]
Preset = Annotated[str, Parameter(name=["--budget", "-b"], help="smoke (seconds), quick (minutes) or paper (weeks).")]
Architecture = Annotated[str | None, Parameter(help="Of Hopular: default, paper or released.")]
Splits = Annotated[str, Parameter(help="Splits of each dataset, or all.")]
Verbose = Annotated[bool, Parameter(name=["--verbose", "-v"], negative="", show_default=False, help="A line a trial.")]


def benchmark(
    *datasets: Datasets,
    methods: Methods = None,
    budget: Preset = "quick",
    architecture: Architecture = None,
    target: Target = None,
    splits: Splits = "1",
    replicates: Annotated[int | None, Parameter(help="Seeds that the best setting is trained with.")] = None,
    trials: Annotated[int | None, Parameter(help="Settings to try for each method.")] = None,
    grid_trials: Annotated[int | None, Parameter(help="The same for methods with a grid.")] = None,
    seconds: Annotated[float | None, Parameter(help="For each search.")] = None,
    seconds_per_trial: Annotated[float | None, Parameter(help="For each setting.")] = None,
    max_epochs: Annotated[int | None, Parameter(help="For methods that train by epochs.")] = None,
    memory: Annotated[float | None, Parameter(help="Bytes for each fit.")] = None,
    seed: int = 0,
    runner: Annotated[Literal["local", "dask", "ray"], Parameter(help="Where the fits run.")] = "local",
    address: Annotated[str | None, Parameter(help="Of a Dask scheduler or Ray head.")] = None,
    workers: Annotated[int | None, Parameter(help="Fits side by side.")] = None,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], Parameter(help="For methods that can use it.")] = "auto",
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Find out which method wins: search, train, evaluate, rank and report.

    Without datasets it is the demo suite. Stopped at any moment, the same command
    goes on where it was. --budget paper means --architecture paper if not given.

    For example
      hopular benchmark
      hopular benchmark my.csv --target price --methods boosting,hopular
      hopular benchmark small --splits all --budget paper
    """
    if splits != "all" and not (splits.isdecimal() and int(splits)):
        raise InputError(f"--splits is {splits!r}: use a whole number from 1 on, or all")
    given = {"grid_trials": grid_trials, "max_epochs": max_epochs, "memory": memory, "seconds": seconds}
    given |= {"seconds_per_trial": seconds_per_trial, "trials": trials}
    values: dict[str, Any] = {
        "datasets": list(datasets) or ["demo"],
        "target": target,
        "budget": budget,
        "architecture": architecture,
        "limits": {name: value for name, value in given.items() if value is not None},
        "splits": splits if splits == "all" else int(splits),
        "replicates": replicates,
        "seed": seed,
        "runner": runner,
        "address": address,
        "workers": workers,
        "device": device,
    }
    if methods is not None:
        values["methods"] = [name.strip() for name in methods.split(",") if name.strip()]
    return run_plan(values, is_json=json, is_quiet=quiet, is_verbose=verbose)


def run_plan(values: dict[str, Any], *, is_json: bool, is_quiet: bool, is_verbose: bool) -> int:
    """Run a benchmark in this process, with a display, and say how it ended."""
    settings.make_runs_folder()
    from hopular.benchmark.plan import Plan

    plan = Plan(**values)  # wrong names are refused before the slow imports,
    check_plan(plan)  # and so is what would fail in every unit
    import httpx

    from flows.local import find_server

    try:
        with ending_in_good_order(), show_progress(is_quiet or is_json, is_verbose) as listener, errors_to_log():
            wait_for_server = find_server()  # first of all, since Prefect reads its settings when it is imported
            from flows.benchmark import run_here

            wait_for_server()
            published = run_here(plan, listener)
    except (KeyboardInterrupt, SystemExit) as stop:  # Ctrl-C, or a request to end
        complain(f"stopped. What is finished is kept; go on with: {plan.command()}", style="yellow")
        return INTERRUPTED if isinstance(stop, KeyboardInterrupt) else int(stop.code or 0)
    except httpx.TransportError as error:
        logging.getLogger("hopular").error("the Prefect server does not answer", exc_info=error)
        what = f"the Prefect server does not answer any more ({error})"
        complain(f"{what}. What is finished is kept; go on with: {plan.command()}")
        os._exit(FAILED)  # Prefect would go on for minutes to tell the server about it
    if is_json:
        show_json(published.to_json())
    else:
        _show(published, is_quiet)
    return FAILED if published.failed else 0


def check_plan(plan: Plan) -> None:
    """Refuse a device or cluster that is not there, and files of which none can be used."""
    if plan.runner == "local":
        _check_device(plan.device)
    elif plan.address is not None:
        _check_address(plan.address)
    from hopular.data import load
    from hopular.data.dataset import DataError
    from hopular.data.read import is_data_file

    first: DataError | None = None
    for reference in plan.references():
        if not reference.startswith(("http://", "https://")) and not is_data_file(Path(reference)):
            return  # a dataset with a name
        try:
            load(reference, target=plan.target)
            return
        except DataError as error:
            first = first or error
    if first is not None:
        raise first


def _check_device(device: str) -> None:
    if device in ("auto", "cpu"):
        return
    import torch

    if not (torch.cuda if device == "cuda" else torch.backends.mps).is_available():
        raise InputError(f"--device is {device}, which torch {torch.__version__} does not find here: use cpu or auto")


def _check_address(address: str) -> None:
    """Refuse an address where nobody listens; `auto` is Ray's word for a cluster on this machine."""
    if address == "auto":
        return
    host, _, port = address.rpartition("://")[2].rstrip("/").rpartition(":")
    if not host or not port.isdecimal():
        remedy = "use one such as tcp://host:8786 of Dask, or ray://host:10001 of Ray"
        raise InputError(f"--address is {address!r}: {remedy}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"nobody answers at --address {address} ({error}): start the cluster first") from error


def _show(published: Published, is_quiet: bool) -> None:
    """Show the leaderboard, what failed, and where to look further."""
    from hopular.report.leaderboard import to_rich

    if not is_quiet:
        title = f"{published.benchmark}: test rows of {plural(published.datasets, 'dataset')}"
        console().print(to_rich(published.leaderboard, title, console().width))
        say(f"\n{published.headline}")
        say(f"{published.counted().capitalize()}.\n", style="dim")
    for name, why in published.failed.items():
        complain(f"{name}: {why}")
    if not is_quiet:
        say(f"report   {published.report}")
        say("browse   hopular ui")


def _open_log() -> IO[bytes]:
    try:
        log_file().parent.mkdir(parents=True, exist_ok=True)
        return log_file().open("ab")
    except OSError:
        return open(os.devnull, "wb")


@contextmanager
def errors_to_log() -> Iterator[None]:
    """Send what libraries and worker processes write to standard error to the log file, or nowhere if there is none."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with _open_log() as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)
