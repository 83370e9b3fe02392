"""Measure memory and step time of Hopular and NPTs on this device, beside the paper's figures of an A100.

The paper's figures are in its appendix, "Memory footprint and runtime estimates". The worker process of trials cannot
measure them: it fits models of a problem, whereas a case is a few training steps, with the exact peak of its memory.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, fields, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import psutil

from hopular import settings
from hopular.data.registry import entries
from hopular.util import InputError, cores, whole_file

Batch = Literal["single", "full"]
Model = Literal["smallest", "largest"]
# Blocks and Hopfield networks, or layers and heads: the ends of the grids in search_spaces/, embedding dimension 32.
MODELS: dict[tuple[str, Model], tuple[int, int]] = {
    ("hopular", "smallest"): (4, 8),
    ("hopular", "largest"): (8, 16),
    ("npt", "smallest"): (8, 8),
    ("npt", "largest"): (16, 16),
}
_BATCHES: tuple[Batch, ...] = ("single", "full")
_ARCHITECTURE = "paper"  # of Hopular; kept figures of another one, from earlier versions, do not count
_TESTED = 0.2  # share of a medium dataset's rows that a split tests on
_CLASSES = {"gesture": 5, "eye": 3}  # of the medium datasets with more than two
_STEPS = 5  # that are measured, after a first one,
_ENOUGH = 10.0  # unless they take more seconds than this together
_HALFWAY = 0.5  # share of training that is done at the measured steps: both losses have the same weight there
_MAX_SECONDS = 600.0  # for a case
_MAX_SHARE = 0.85  # of the free memory that a case may take
_NAN = float("nan")


@dataclass(frozen=True)
class Case:
    """One measurement: a table of training rows, all of them stored, and a model that is trained on it."""

    dataset: str
    rows: int
    features: int  # continuous ones
    classes: int  # 0 for regression
    method: str
    model: Model
    batch: Batch
    device: str


@dataclass(frozen=True)
class Figures:
    """Memory and time of a case, or the reason why they are not known."""

    gib: float = _NAN
    milliseconds: float = _NAN
    milliseconds_error: float = _NAN
    failure: str = ""


_CASE_COLUMNS = [item.name for item in fields(Case)]
_COLUMNS = [*_CASE_COLUMNS, *(item.name for item in fields(Figures)), "architecture"]


def paper_cases(device: str) -> list[Case]:
    """List the paper's measurements: both methods, models and batches, at the sizes of the medium datasets.

    Rows are those of a training split, as the paper counts them. Their values are random: memory and time depend on the
    number of attributes, hardly on their kinds.
    """
    return [
        Case(
            entry.name,
            round((1 - _TESTED) * (1 - entry.valid_share) * entry.paper.rows),
            entry.paper.continuous + entry.paper.categorical,
            0 if entry.task == "regression" else _CLASSES.get(entry.name, 2),
            method,
            model,
            batch,
            device,
        )
        for entry in entries().values()
        if entry.suite == "medium"
        for method, model in MODELS
        for batch in _BATCHES
    ]


def measure_paper(on_case: Callable[[Case], None]) -> pd.DataFrame:
    """Measure peak memory and time of training steps with the paper's recipe, a row per case of `paper_cases`.

    A GPU is used if there is one, else all cores. `gib` is the peak of what data, model and steps add to a process:
    resident memory on a CPU (NaN where the system does not tell), allocated memory on a GPU. `milliseconds` is the mean
    of the steps with its standard error; the first one counts only if it took so long that it is the only one. A case
    that takes too long or too much memory has no figures, and `failure` says why. Figures are kept in `kept_file` as
    soon as they are there, and those kept for this device are not measured again.
    """
    from hopular.model.table import choose_device

    cases = paper_cases(str(choose_device("auto")))
    table = _kept()
    for case in cases:
        if case in _cases_of(table):
            continue
        on_case(case)
        architecture = _ARCHITECTURE if case.method == "hopular" else ""
        row = pd.DataFrame([(*astuple(case), *astuple(run_case(case)), architecture)], columns=_COLUMNS)
        table = row if table.empty else pd.concat([table, row], ignore_index=True)
        with whole_file(kept_file()) as part:
            table.to_csv(part, index=False)
    return table[[case in cases for case in _cases_of(table)]].reset_index(drop=True)


def kept_file() -> Path:
    """Return the file that keeps the figures of this machine."""
    return settings.runs_folder() / "footprint.csv"


def kept_footprint() -> pd.DataFrame | None:
    """Return what `measure_paper` found on the device that it measured last, None if it never ran.

    ValueError if the file is damaged.
    """
    table = _kept()
    return None if table.empty else table[table["device"] == table["device"].iloc[-1]].reset_index(drop=True)


def _kept() -> pd.DataFrame:
    """Read the figures of all devices, without those of cases that are no longer measured like this."""
    path = kept_file()
    if not path.exists():
        return pd.DataFrame(columns=_COLUMNS)
    try:
        table = pd.read_csv(path, dtype={"gib": float, "milliseconds": float, "failure": str})
        table = table.assign(architecture=table.get("architecture", "")).fillna({"failure": "", "architecture": ""})
        table = table[_COLUMNS]
        table = table[(table["method"] != "hopular") | (table["architecture"] == _ARCHITECTURE)]
        known = {case for device in table["device"].unique() for case in paper_cases(device)}
        return table[[case in known for case in _cases_of(table)]].reset_index(drop=True)
    except (ValueError, KeyError) as error:
        raise InputError(f"{path} is damaged: delete it and measure again ({error})") from error


def _cases_of(table: pd.DataFrame) -> list[Case]:
    return [Case(*values) for values in table[_CASE_COLUMNS].itertuples(index=False, name=None)]


def run_case(case: Case) -> Figures:
    """Measure one case in a process of its own, which is ended if it takes too long or too much memory."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(case, cores(), sender), daemon=True)
    process.start()
    sender.close()
    limit = _MAX_SHARE * psutil.virtual_memory().available
    watched, deadline = psutil.Process(process.pid), time.monotonic() + _MAX_SECONDS
    try:
        while not receiver.poll(0.02):
            if _resident_of(watched) > limit:
                return Figures(failure=f"more than {limit / 2**30:.1f} GiB")
            if time.monotonic() > deadline:
                return Figures(failure=f"not done within {_MAX_SECONDS:g} seconds")
        figures: Figures = receiver.recv()
        return figures
    except EOFError:
        return Figures(failure="the process was ended, most likely for lack of memory")
    finally:
        process.kill()
        process.join()


def _resident_of(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:  # it has just ended; what it sent is read next
        return 0


# ---------------------------------------------------------------------------------------------- in the measured process


def _measure(case: Case, threads: int, sender: Connection) -> None:
    """Send the figures of a case, or the reason of a failure."""
    import torch

    from hopular.trials.fit import forget_peak, peak_memory

    try:
        torch.set_num_threads(threads)
        is_cuda = torch.device(case.device).type == "cuda"
        # What the libraries set up at their first use is not the model's: a tiny step comes first.
        training_step(replace(case, rows=3, features=1, model="smallest"))()
        before, is_known = psutil.Process().memory_info().rss, forget_peak()
        if is_cuda:
            torch.cuda.reset_peak_memory_stats(case.device)
        step = training_step(case)
        seconds: list[float] = []
        while len(seconds) <= _STEPS and sum(seconds) < _ENOUGH:
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        counted = seconds[1:] or seconds
        resident = peak_memory() - before if is_known else _NAN
        peak = torch.cuda.max_memory_allocated(case.device) if is_cuda else resident
        error = statistics.stdev(counted) / len(counted) ** 0.5 if len(counted) > 1 else _NAN
        sender.send(Figures(peak / 2**30, 1e3 * statistics.mean(counted), 1e3 * error))
    except (MemoryError, RuntimeError) as error:
        sender.send(Figures(failure=f"{type(error).__name__}: {error}"[:200]))


def training_step(case: Case) -> Callable[[], float]:
    """Prepare a step of the paper's recipe on random rows: masking, dropout, full objective, optimiser, slow weights.

    The step returns the loss, which also waits for the device to be done.
    """
    import torch

    from hopular.model.architecture import ARCHITECTURES, Architecture
    from hopular.model.network import Hopular, HopularStep
    from hopular.model.npt import MASKED, NPT, NPTStep
    from hopular.model.recipe import make_recipe
    from hopular.model.trainer import Part, Step

    depth, width = MODELS[case.method, case.model]
    is_npt = case.method == "npt"
    target = case.features
    architecture = Architecture(
        widths=(1,) * case.features + (max(1, case.classes),),
        target=target,
        n_blocks=depth,
        n_networks=width,
        embedding_dim=32,
        dropout_embedding=0.1,
        dropout_block=0.1,
        dropout_summary=0.1 if is_npt else 0.01,
        **asdict(ARCHITECTURES[_ARCHITECTURE]),
    )
    shares = {"mask_probability": MASKED * 0.15, "replace_probability": (1 - MASKED) * 0.15, "weight_decay": 0.0}
    recipe = make_recipe("paper", case.rows, case.features + 1, **(shares if is_npt else {}))
    device, seeds = torch.device(case.device), [0]
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(case.rows, case.features + 1, generator=generator)
    if case.classes:
        rows[:, target] = torch.randint(0, case.classes, (case.rows,), generator=generator).float()
    rows = rows.to(device)
    parts = [Part(torch.arange(case.rows), torch.arange(0))]
    training: Step
    if is_npt:
        network = NPT(architecture, seeds, shows_labels=False).to(device)
        settings: Any = {"label_mask_probability": 1.0, "schedule": "flat-and-anneal"}
        training = NPTStep(network, recipe, seeds, rows, parts, **settings)
    else:
        training = HopularStep(Hopular(architecture, seeds).to(device), recipe, seeds, rows, parts)
    stored, size = rows.T[None].contiguous(), 1 if case.batch == "single" else case.rows

    def step() -> float:
        return training.learn(stored, size, _HALFWAY).item()

    return step
