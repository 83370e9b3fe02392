"""Checkpoints of a training run: one safetensors file from which it goes on bit for bit. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

EVERY = 60.0  # seconds of training between checkpoints


def digest(settings: object, tensors: dict[str, Tensor]) -> str:
    """Identify a training run by the settings and tensors that it starts from."""
    known = hashlib.sha256(repr((torch.__version__, settings)).encode())
    for name, tensor in tensors.items():
        known.update(repr((name, tensor.dtype, tuple(tensor.shape))).encode())
        known.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return known.hexdigest()


@dataclass(frozen=True)
class Saved:
    """Hold what a checkpoint says."""

    facts: dict[str, Any]
    tensors: dict[str, Tensor]

    def under(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of one of the things that were saved."""
        return {key.removeprefix(f"{name}/"): t for key, t in self.tensors.items() if key.startswith(f"{name}/")}


class Checkpoint:
    """The file of one training run; `settings` are what it depends on beside what `train` itself knows."""

    def __init__(self, path: str | os.PathLike[str], settings: object = None) -> None:
        self.path, self._settings, self._identity, self._last = Path(path), settings, "", time.monotonic()

    def read(self, identity: str) -> Saved | None:
        """Return what is saved, None if nothing is; an error if it belongs to another run or is damaged."""
        self._identity = digest(self._settings, {}) + identity
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                facts = json.loads((file.metadata() or {}).get("hopular", "null"))
                tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, json.JSONDecodeError, OSError) as error:
            raise ValueError(
                f"checkpoint {str(self.path)!r} cannot be read ({error}). Delete it to begin anew."
            ) from error
        if not isinstance(facts, dict) or facts.get("identity") != self._identity:
            raise ValueError(
                f"checkpoint {str(self.path)!r} belongs to another fit: rows, parameters, seed or version of torch "
                "differ. Give another path, or delete the file to begin anew."
            )
        return Saved(facts, tensors)

    def is_due(self) -> bool:
        """Return whether it is time for the next checkpoint."""
        return time.monotonic() - self._last >= EVERY

    def write(self, facts: dict[str, Any], states: dict[str, Any]) -> None:
        """Replace the file, in one step, by facts and by the states of all that training consists of."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {
            f"{name}/{key}": tensor.detach().cpu().contiguous().clone()  # safetensors refuses views of one tensor
            for name, one in states.items()
            for key, tensor in one.state_dict().items()
        }
        save_file(tensors, self._part, metadata={"hopular": json.dumps({**facts, "identity": self._identity})})
        os.replace(self._part, self.path)
        self._last = time.monotonic()

    @property
    def _part(self) -> Path:
        """Return where the file is written before it takes its place."""
        return self.path.with_name(f".{self.path.name}.part")

    def remove(self) -> None:
        """Delete the file, and what is left of a write that was cut short: training has come to its end."""
        for path in (self.path, self._part):
            path.unlink(missing_ok=True)
