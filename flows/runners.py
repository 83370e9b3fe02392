"""Runners: where the tasks of a benchmark run, by parameter. The flow is the same, and so are the results."""

from __future__ import annotations

import os
from typing import Any

from prefect.settings import PREFECT_API_URL
from prefect.task_runners import ThreadPoolTaskRunner

from flows.local import OWNER
from hopular.benchmark.plan import Plan
from hopular.util import InputError

MISSING = "runner {name!r} needs a package that is not installed: pip install 'hopular[{name}]'"
SERVERLESS = (
    "runner 'ray' needs a Prefect server that Ray's workers can reach, and none is known: start one with "
    "`hopular up --detach` and set PREFECT_API_URL to its address"
)


def make_runner(plan: Plan) -> Any:
    """A task runner.

    `local` gives each task a thread of this process; every fit is in a process of its own (hopular.trials.worker), so
    that cores are used once and a crash of a native library costs a trial, not the run. `dask` and `ray` move the
    tasks to a cluster, one made for the occasion or the one at `address`.
    """
    width = plan.width
    if plan.runner == "dask":
        try:
            from prefect_dask.task_runners import DaskTaskRunner
        except ImportError as error:
            raise InputError(MISSING.format(name="dask")) from error
        if plan.address:
            return DaskTaskRunner(address=plan.address)
        cluster = {"n_workers": width, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
        return DaskTaskRunner(cluster_kwargs=cluster)
    if plan.runner == "ray":
        try:
            from prefect_ray.task_runners import RayTaskRunner
        except ImportError as error:
            raise InputError(MISSING.format(name="ray")) from error
        if not PREFECT_API_URL.value() or OWNER in os.environ:
            raise InputError(SERVERLESS)
        return RayTaskRunner(address=plan.address, init_kwargs=None if plan.address else {"num_cpus": width})
    return ThreadPoolTaskRunner(max_workers=width)
