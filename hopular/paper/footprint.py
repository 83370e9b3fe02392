"""Memory and step time of Hopular and NPTs on this device, beside the paper's figures of an A100.

The paper's are in its appendix, "Memory footprint and runtime estimates".
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import psutil

from hopular import settings
from hopular.data.registry import entries
from hopular.util import InputError

Batch = Literal["single", "full"]
Model = Literal["smallest", "largest"]
# Blocks and Hopfield networks, or layers and heads: the ends of the grids in search_spaces/, embedding dimension 32.
MODELS: dict[tuple[str, Model], tuple[int, int]] = {
    ("hopular", "smallest"): (4, 8),
    ("hopular", "largest"): (8, 16),
    ("npt", "smallest"): (8, 8),
    ("npt", "largest"): (16, 16),
}
TESTED = 0.2  # share of a medium dataset's rows that a split tests on
CLASSES = {"gesture": 5, "eye": 3}  # of the medium datasets with more than two
FREE = 0.85  # share of the free memory that a case may take before it is ended
ENOUGH = 10.0  # seconds of steps after which no further one is taken
HALFWAY = 0.5  # share of training that is done at the measured steps: both losses have the same weight there
COLUMNS = (
    *("rows", "features", "classes", "method", "model", "batch", "device"),
    *("gib", "milliseconds", "milliseconds_error", "failure"),
)


KEYS = ["dataset", "method", "model", "batch", "device"]  # of a figure that is kept
ARCHITECTURE = "paper"  # of Hopular; figures of another one that were kept by earlier versions do not count


@dataclass(frozen=True)
class Case:
    """One measurement: a table of training rows, all of them stored, and a model that is trained on it."""

    rows: int
    features: int  # continuous ones
    classes: int  # 0 for regression
    method: str
    model: Model
    batch: Batch
    device: str
    threads: int
    steps: int


def measure(
    rows: int,
    features: int,
    *,
    classes: int = 2,
    methods: Sequence[str] = ("hopular", "npt"),
    models: Sequence[Model] = ("smallest", "largest"),
    batches: Sequence[Batch] = ("single", "full"),
    device: str = "auto",
    threads: int | None = None,
    steps: int = 5,
    max_seconds: float = 600.0,
    max_gib: float | None = None,
    on_case: Callable[[Case], None] | None = None,
) -> pd.DataFrame:
    """Peak memory and time of training steps with the paper's recipe, one row per method, model and batch.

    Each case runs in a process of its own. `gib` is the peak of what data, model and steps add to it: resident memory
    on a CPU (NaN where the system does not tell), allocated memory on a GPU. `milliseconds` is the mean of up to
    `steps` steps with its standard error; the first one counts only if it took so long that it is the only one. A case
    that takes longer than `max_seconds` or more memory than `max_gib` (by default most of what is free) has no figures,
    and `failure` says why. By default a GPU is used if there is one, and all cores.
    """
    from hopular.model.table import choose_device

    device = str(choose_device(device))
    threads = threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    cases = [
        Case(rows, features, classes, method, model, batch, device, threads, steps)
        for method in methods
        for model in models
        for batch in batches
    ]
    unknown = [case.method for case in cases if (case.method, case.model) not in MODELS]
    if unknown:
        raise InputError(f"the footprint of {unknown[0]!r} is not known to the paper: use 'hopular' or 'npt'")
    if rows < 3 or steps < 1:
        raise InputError(f"a step needs at least 3 rows and a measurement 1 step, got {rows} and {steps}")
    rows_of_table = []
    for case in cases:
        if on_case is not None:
            on_case(case)
        rows_of_table.append(_in_new_process(case, max_seconds, max_gib))
    return pd.DataFrame(rows_of_table, columns=list(COLUMNS))


def measure_paper(
    datasets: Iterable[str] | None = None,
    *,
    methods: Sequence[str] = ("hopular", "npt"),
    models: Sequence[Model] = ("smallest", "largest"),
    batches: Sequence[Batch] = ("single", "full"),
    device: str = "auto",
    **options: Any,
) -> pd.DataFrame:
    """`measure` at the sizes of the paper's medium datasets (or of some), with a column `dataset`.

    Their rows are random numbers: memory and time depend on the number of attributes, hardly on their kinds. Figures
    are kept in `kept_file` as soon as they are there, and those kept there for this device are not measured again.
    """
    from hopular.model.table import choose_device

    device = str(choose_device(device))
    sizes = training_sizes()
    names = list(sizes if datasets is None else datasets)
    unknown = [name for name in names if name not in sizes]
    if unknown:
        raise InputError(f"the paper has no footprint of {unknown[0]!r}, only of {', '.join(sizes)}")
    kept = _kept()
    table = pd.DataFrame(columns=["dataset", *COLUMNS, "architecture"]) if kept is None else kept
    for name, method, model, batch in product(names, methods, models, batches):
        if (name, method, model, batch, device) in set(table[KEYS].itertuples(index=False, name=None)):
            continue
        rows, features, classes = sizes[name]
        case = measure(
            *(rows, features),
            classes=classes,
            methods=[method],
            models=[model],
            batches=[batch],
            device=device,
            **options,
        )
        case.insert(0, "dataset", name)
        case["architecture"] = ARCHITECTURE if method == "hopular" else ""
        table = case if table.empty else pd.concat([table, case], ignore_index=True)
        _keep(table)
    return table[table["dataset"].isin(names) & (table["device"] == device)].reset_index(drop=True)


def training_sizes() -> dict[str, tuple[int, int, int]]:
    """Training rows, features and classes (0 for regression) of the medium datasets, as the paper counts them."""
    medium = [entry for entry in entries().values() if entry.suite == "medium"]
    return {
        entry.name: (
            round((1 - TESTED) * (1 - entry.valid_share) * entry.paper.rows),
            entry.paper.continuous + entry.paper.categorical,
            0 if entry.task == "regression" else CLASSES.get(entry.name, 2),
        )
        for entry in medium
    }


def kept_file() -> Path:
    """Where the figures of this machine are kept."""
    return settings.runs_folder() / "footprint.csv"


def kept_footprint() -> pd.DataFrame | None:
    """What `measure_paper` found on the device that it measured last, None if it never ran.

    ValueError if the file is damaged.
    """
    table = _kept()
    if table is None or table.empty:
        return None
    of_last: pd.DataFrame = table[table["device"] == table["device"].iloc[-1]]
    return of_last.reset_index(drop=True)


def _kept() -> pd.DataFrame | None:
    """The figures of all devices, without those of other sizes than a dataset has, or of another Hopular."""
    path = kept_file()
    if not path.exists():
        return None
    try:
        table = pd.read_csv(path, dtype={"gib": float, "milliseconds": float, "failure": str})
        table = table.assign(architecture=table.get("architecture", "")).fillna({"failure": "", "architecture": ""})
        table = table[["dataset", *COLUMNS, "architecture"]]
        table = table[(table["method"] != "hopular") | (table["architecture"] == ARCHITECTURE)]
        sizes, found = training_sizes(), zip(table["rows"], table["features"], table["classes"], strict=True)
        is_right = [sizes.get(name) == size for name, size in zip(table["dataset"], found, strict=True)]
        return pd.DataFrame(table[is_right]).reset_index(drop=True)
    except (ValueError, KeyError) as error:
        raise InputError(f"{path} is damaged: delete it and measure again ({error})") from error


def _keep(table: pd.DataFrame) -> None:
    path = kept_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    table.to_csv(part, index=False)
    part.replace(path)


def _in_new_process(case: Case, max_seconds: float, max_gib: float | None) -> tuple[Any, ...]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(case, sender), daemon=True)
    process.start()
    sender.close()
    figures: tuple[float, float, float] = (float("nan"),) * 3
    failure = ""
    limit = max_gib if max_gib is not None else FREE * psutil.virtual_memory().available / 2**30
    watched = psutil.Process(process.pid)
    deadline = time.monotonic() + max_seconds
    try:
        while not failure and not receiver.poll(0.02):
            if _resident_of(watched) / 2**30 > limit:
                failure = f"more than {limit:.1f} GiB"
            elif time.monotonic() > deadline:
                failure = f"not done within {max_seconds:g} seconds"
        if not failure:
            figures, failure = receiver.recv()
    except EOFError:
        failure = "the process was ended, most likely for lack of memory"
    finally:
        process.kill()
        process.join()
    about = (case.rows, case.features, case.classes, case.method, case.model, case.batch, case.device)
    return (*about, *figures, failure)


def _resident_of(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:  # it has just ended; what it sent is read next
        return 0


def _measure(case: Case, sender: Connection) -> None:
    """What runs in the new process: sends GiB, milliseconds and their standard error, or the reason of a failure."""
    import torch

    nothing = (float("nan"),) * 3
    try:
        torch.set_num_threads(case.threads)
        is_cuda = torch.device(case.device).type == "cuda"
        _tiny_step(case)  # what the libraries set up at their first use is not the model's
        before = _resident("VmRSS")
        _forget_peak()
        if is_cuda:
            torch.cuda.reset_peak_memory_stats(case.device)
        step = training_step(case)
        seconds: list[float] = []
        while len(seconds) <= case.steps and sum(seconds) < ENOUGH:
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        counted = seconds[1:] or seconds
        peak = torch.cuda.max_memory_allocated(case.device) if is_cuda else _resident("VmHWM") - before
        error = statistics.stdev(counted) / len(counted) ** 0.5 if len(counted) > 1 else float("nan")
        sender.send(((peak / 2**30, 1e3 * statistics.mean(counted), 1e3 * error), ""))
    except (MemoryError, RuntimeError) as error:
        sender.send((nothing, f"{type(error).__name__}: {error}"[:200]))


def training_step(case: Case) -> Callable[[], float]:
    """One step of the paper's recipe on random rows: masking, dropout, full objective, optimiser and slow weights.

    It returns the loss, which also waits for the device to be done.
    """
    import torch

    from hopular.model.architecture import ARCHITECTURES, Architecture
    from hopular.model.hopular_training import HopularStep
    from hopular.model.network import Hopular
    from hopular.model.npt import NPT
    from hopular.model.npt_training import MASKED, NPTStep
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
        **asdict(ARCHITECTURES[ARCHITECTURE]),
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
        return training.learn(stored, size, HALFWAY).item()

    return step


def _tiny_step(case: Case) -> None:
    from dataclasses import replace

    training_step(replace(case, rows=3, features=1, model="smallest"))()


def _forget_peak() -> None:
    """Let the kernel forget this process's peak memory so far (Linux)."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def _resident(key: Literal["VmRSS", "VmHWM"]) -> float:
    """Resident memory of this process in bytes, now or at its peak; NaN where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(key)), float("nan"))
