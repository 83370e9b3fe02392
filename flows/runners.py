"""Runners: where the tasks of a benchmark run, by parameter; their places on GPUs, and their temporary files."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
from prefect.settings import PREFECT_API_URL
from prefect.task_runners import ThreadPoolTaskRunner

from flows.local import OWNER
from hopular import settings
from hopular.benchmark.plan import Plan
from hopular.util import InputError

_MISSING = "runner {name!r} needs a package that is not installed: pip install 'hopular[{name}]'"
_SERVERLESS = (
    "runner 'ray' needs a Prefect server that Ray's workers can reach, and none is known: start one with "
    "`hopular up --detach` and set PREFECT_API_URL to its address"
)

GPU_LIMIT = "gpu"  # Prefect's global concurrency limit, on whatever server
GPU_POLL = 10.0  # seconds to wait for a place before looking whether all is to end


def make_runner(plan: Plan) -> Any:
    """Return a task runner.

    `local` gives each task a thread of this process; every fit is in a process of its own (hopular.trials.worker), so
    that cores are used once and a crash of a native library costs a trial, not the run. `dask` and `ray` move the
    tasks to a cluster, one made for the occasion or the one at `address`.
    """
    width = plan.width
    if plan.runner == "dask":
        try:
            from prefect_dask.task_runners import DaskTaskRunner
        except ImportError as error:
            raise InputError(_MISSING.format(name="dask")) from error
        if plan.address:
            return DaskTaskRunner(address=plan.address)
        cluster = {"n_workers": width, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
        return DaskTaskRunner(cluster_kwargs=cluster)
    if plan.runner == "ray":
        try:
            from prefect_ray.task_runners import RayTaskRunner
        except ImportError as error:
            raise InputError(_MISSING.format(name="ray")) from error
        if not PREFECT_API_URL.value() or OWNER in os.environ:
            raise InputError(_SERVERLESS)
        return RayTaskRunner(address=plan.address, init_kwargs=None if plan.address else {"num_cpus": width})
    return ThreadPoolTaskRunner(max_workers=width)


def make_limit() -> None:
    """Create the limit of GPU tasks if the server has none; one that a person has set stays as it is."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
    from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

    with get_client(sync_client=True) as client:
        try:
            client.read_global_concurrency_limit_by_name(GPU_LIMIT)
        except ObjectNotFound:
            try:
                client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=GPU_LIMIT, limit=gpu_count()))
            except ObjectAlreadyExists:  # another run was quicker
                return


def gpu_count() -> int:
    """Return how many GPU tasks may run at once: one per GPU, and one where there is none, so that the limit exists."""
    if shutil.which("nvidia-smi") is None:  # spares the import
        return 1
    import torch

    return max(1, torch.cuda.device_count())


@contextmanager
def gpu_slot(stop: threading.Event, device: str) -> Iterator[None]:
    """Hold a place on the GPU while the block runs, if it needs one; StoppedError if `stop` is set before."""
    from prefect.concurrency.sync import concurrency

    from hopular.trials.refit import StoppedError

    with ExitStack() as stack:
        while device != "cpu":
            if stop.is_set():
                raise StoppedError("stopped while waiting for a GPU")
            try:
                stack.enter_context(concurrency(GPU_LIMIT, occupy=1, timeout_seconds=GPU_POLL))
                break
            except TimeoutError:
                continue
        yield


@contextmanager
def temp_folder() -> Iterator[Path]:
    """Give a folder for the temporary files of a run, which goes with the block.

    It is below the runs folder, where the next run finds and removes what a killed one has left. `tempfile` gives it to
    libraries as well: MLflow has no argument for where it works.
    """
    root = settings.runs_folder() / "tmp" / platform.node()
    root.mkdir(parents=True, exist_ok=True)
    _remove_left(root)
    folder, before = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=root), tempfile.tempdir
    tempfile.tempdir = folder
    try:
        yield Path(folder)
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left(root: Path) -> None:
    """Remove the folders whose process is gone; its number may be that of a younger one by now."""
    for folder in root.iterdir():
        try:
            owner = psutil.Process(int(folder.name.partition("-")[0]))
            is_left = owner.create_time() > folder.stat().st_mtime + 2
        except psutil.NoSuchProcess:
            is_left = True
        if is_left:
            shutil.rmtree(folder, ignore_errors=True)
