"""The GPU slot: how many tasks may use GPUs at once is Prefect's global concurrency limit `gpu`, on whatever server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from flows.stopping import should_stop

LIMIT = "gpu"
POLL = 10.0  # seconds to wait for a slot before looking whether all is to end


def make_limit() -> None:
    """Create the limit if the server has none; one that a person has set stays as it is."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
    from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

    with get_client(sync_client=True) as client:
        try:
            client.read_global_concurrency_limit_by_name(LIMIT)
        except ObjectNotFound:
            try:
                client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=LIMIT, limit=gpu_count()))
            except ObjectAlreadyExists:  # another run was quicker
                return


def gpu_count() -> int:
    """How many GPU tasks may run at once: one per GPU, and one where there is none, so that the limit exists."""
    if shutil.which("nvidia-smi") is None:  # spares the import
        return 1
    import torch

    return max(1, torch.cuda.device_count())


@contextmanager
def slot(device: str) -> Iterator[None]:
    """A place on the GPU while the block runs, if it needs one. StoppedError if all is to end before one is free."""
    from prefect.concurrency.sync import concurrency

    from hopular.trials.refit import StoppedError

    with ExitStack() as stack:
        while device != "cpu":
            if should_stop():
                raise StoppedError("stopped while waiting for a GPU")
            try:
                stack.enter_context(concurrency(LIMIT, occupy=1, timeout_seconds=POLL))
                break
            except TimeoutError:
                continue
        yield
