"""`make bench`: how close the model is to the hardware's limit, in time and memory.

Each part prints its table as soon as it is measured, the first one its ratios on the way. The last part fits tables of
growing size with the default recipe and takes some minutes; `--quick` leaves it out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.floor import Shape
from benchmarks.step import compare, training_step
from hopular import HopularClassifier, HopularRegressor

SHAPES = (Shape(124, 10, 8, 8), Shape(165, 14, 4, 8), Shape(123, 61, 4, 8), Shape(6451, 6, 4, 8))
LIMITS = (1.5, 1.5, 1.5, 1.0)
DOCS = Path(__file__).resolve().parent.parent / "docs"

console = Console(width=110)


def step_times(values: str) -> None:
    """Training step against the floor, on one thread and on two."""
    headings = ("rows, attributes, blocks, networks", "threads", "floor", "plain", "step", "step / floor", "aim")
    table = Table(*headings, "plain / floor", title="Training step")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for shape, limit in zip(SHAPES, LIMITS, strict=True):
            seconds = compare(shape, values, repeats=25 if shape.n < 1000 else 2)
            times = [f"{seconds[k] * 1e3:.1f} ms" if k in seconds else "" for k in ("floor", "plain", "step")]
            ratios = [f"{seconds[k] / seconds['floor']:.2f}" if k in seconds else "" for k in ("step", "plain")]
            table.add_row(str(shape), str(threads), *times, ratios[0], f"<= {limit}", ratios[1])
            console.print(f"{shape}, {threads} thread(s): step / floor {ratios[0]}", style="dim")
    console.print(table)


def peak_added(function: Callable[[], object]) -> tuple[float, float]:
    """Bytes that the resident memory rose by at most while `function` ran, and its seconds (Linux alone)."""

    def status(key: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(key))

    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before, start = status("VmRSS"), time.perf_counter()
    function()
    return status("VmHWM") - before, time.perf_counter() - start


def _peak_of_step(shape: Shape, stored: int | None, values: str, pipe: Any) -> None:
    torch.set_num_threads(1)
    pipe.send(peak_added(training_step(shape, values, stored)))


def in_new_process(function: Callable[..., None], *arguments: Any) -> Any:
    """Return what `function` sends through the pipe it gets as its last argument, run in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=function, args=(*arguments, sender))
    process.start()
    sender.close()  # so that the pipe ends with the process, should that fail
    result = receiver.recv()
    process.join()
    return result


def step_memory(values: str) -> None:
    """Peak memory that a step adds, where a quadratic one would not fit."""
    table = Table("batch", "stored rows", "attributes", "memory added", "aim", "seconds", title="Memory of a step")
    cases: list[tuple[Shape, int | None, str]] = [
        (SHAPES[3], None, "<= 1 GB"),
        (Shape(512, 10, 4, 8), 50_000, "<= 4 GB"),
    ]
    for shape, stored, aim in cases:
        added, seconds = in_new_process(_peak_of_step, shape, stored, values)
        cells = (f"{added / 1e9:.2f} GB", aim, f"{seconds:.1f}")
        table.add_row(str(shape.n), str(stored or shape.n), str(shape.d), *cells)
    console.print(table)


def _problem(n: int, d: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    X = random.normal(size=(n, d))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * random.normal(size=n) > 0).astype(int)


def _predict_large(pipe: Any) -> None:
    torch.set_num_threads(2)
    X, y = _problem(6451 + 2, 5)
    model = HopularRegressor(max_epochs=1, batch_size=512, memory_ratio=0.1, random_state=0)
    model.fit(X[:-2], y[:-2].astype(float), eval_set=(X[-2:], y[-2:].astype(float)))
    frame, _ = _problem(10_000, 5)
    pipe.send(peak_added(lambda: model.predict(frame)))


def prediction() -> None:
    """One row against a small table, and many rows against a large one."""
    table = Table("prediction", "time", "aim", "memory added", title="Prediction")
    X, y = _problem(126, 9)
    torch.set_num_threads(1)
    published = {"n_blocks": 8, "n_networks": 8, "embedding_dim": 32}
    for name, sizes, members, aim in (
        ("published sizes", published, 1, 3),
        ("published sizes", published, 8, 6),
        ("default", {}, 1, 3),
        ("default", {}, 8, 6),
    ):
        model = HopularClassifier(n_members=members, max_epochs=1, random_state=0, **sizes)
        model.fit(X[:124], y[:124], eval_set=(X[124:], y[124:]))
        seconds = []
        for i in range(300):
            start = time.perf_counter()
            model.predict_proba(X[i % 100 : i % 100 + 1])
            seconds.append(time.perf_counter() - start)
        median = statistics.median(seconds)
        what = f"one row against 124, {name}, {members} member{'s' * (members > 1)}"
        table.add_row(what, f"{median * 1e3:.2f} ms", f"<= {aim} ms", "")
    added, elapsed = in_new_process(_predict_large)
    table.add_row("10,000 rows against 6,451, 2 threads", f"{elapsed:.1f} s", "", f"{added / 1e9:.2f} GB")
    console.print(table)


def growth(sizes: tuple[int, ...] = (1_000, 2_000, 4_000, 8_000, 16_000)) -> None:
    """Seconds to fit and to predict with the default recipe as the table grows; plotted to docs/."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    torch.set_num_threads(2)
    fits, predictions = [], []
    console.print("Default recipe, 10 features, 2 threads: rows, seconds to fit, seconds to predict 1,000 rows")
    for n in sizes:
        X, y = _problem(n + 1_000, 10)
        model = HopularClassifier(random_state=0)
        start = time.perf_counter()
        model.fit(X[:n], y[:n])
        fits.append(time.perf_counter() - start)
        start = time.perf_counter()
        accuracy = model.score(X[n:], y[n:])
        predictions.append(time.perf_counter() - start)
        console.print(f"{n:>7,}  {fits[-1]:8.1f}  {predictions[-1]:8.2f}   (accuracy {accuracy:.3f})")
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.loglog(sizes, fits, "o-", label="fit")
    axes.loglog(sizes, predictions, "s--", label="predict 1,000 rows")
    axes.set(xlabel="rows", ylabel="seconds", title="Default recipe, 10 features, two CPU threads")
    axes.set_xticks(sizes, [f"{n // 1000}k" for n in sizes], minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(DOCS / "fit-time.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out the fits of growing tables")
    parser.add_argument("--values", choices=("tied", "separate"), default="separate", help="the architecture's option")
    arguments = parser.parse_args()
    step_times(arguments.values)
    step_memory(arguments.values)
    prediction()
    if not arguments.quick:
        growth()


if __name__ == "__main__":
    main()
