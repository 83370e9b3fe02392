"""Saved models: one safetensors file whose header carries everything that is not a tensor as JSON. No pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from hopular.model.encoding import Encoding

FORMAT = 4  # raised when models saved before can no longer be read, or would mean something else


def save_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator; an existing file is replaced in one step."""
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], int | None):
        parameters["random_state"] = None  # a generator's state is no part of the fitted model
    if parameters["categorical_features"] is not None:
        parameters["categorical_features"] = list(parameters["categorical_features"])
    if isinstance(parameters.get("class_weight"), Mapping):
        parameters["class_weight"] = list(parameters["class_weight"].items())  # a key of JSON is always text
    header = {
        "format": FORMAT,
        "class": type(estimator).__name__,
        "parameters": parameters,
        "chosen": estimator._chosen(),
        "encoding": estimator.encoding_.to_json(),
        "best_epochs": estimator.best_epochs_,
        "fitted": estimator._fitted_json(),
    }
    tensors = {f"network.{name}": tensor.contiguous() for name, tensor in estimator.network_.state_dict().items()}
    tensors["rows"] = estimator.rows_.contiguous()
    tensors["train_index"] = torch.from_numpy(estimator.train_index_)
    tensors |= {f"member.{k}": places for k, places in enumerate(estimator.members_)}
    tensors |= {f"held_out.{k}": torch.from_numpy(places) for k, places in enumerate(estimator.held_out_)}
    tensors |= {f"fitted.{name}": torch.from_numpy(values) for name, values in estimator._fitted_arrays().items()}
    target = Path(path)
    part = target.with_name(target.name + ".part")
    save_file(
        {name: t.cpu() for name, t in tensors.items()}, part, metadata={"hopular": json.dumps(header, default=_plain)}
    )
    part.replace(target)


def _plain(value: Any) -> Any:
    """Return NumPy's numbers, which parameters may be, as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a model with the value {value!r} of type {type(value).__name__} cannot be saved")


def load_model(cls: Any, path: str | os.PathLike[str], device: torch.device) -> Any:
    """Read an estimator of class `cls` from a file written by `save_model`."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no saved model at {os.fspath(path)!r}")
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            header = json.loads((file.metadata() or {}).get("hopular", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{os.fspath(path)!r} is damaged or no safetensors file ({error}). Save the model again."
        ) from error
    if not isinstance(header, dict) or "format" not in header:
        raise ValueError(f"{os.fspath(path)!r} is a safetensors file, but not a model saved by hopular")
    if header["class"] != cls.__name__:
        raise ValueError(f"{os.fspath(path)!r} holds a {header['class']}; load it with {header['class']}.load")
    if header["format"] != FORMAT:
        raise ValueError(
            f"{os.fspath(path)!r} has model format {header['format']!r}, this version of hopular reads {FORMAT}. "
            f"Load it with the version of hopular that saved it, or fit the {header['class']} again."
        )
    places = [f"member.{k}" for k in range(len(header["best_epochs"]))]
    absent = {"rows", "train_index", *places} - set(tensors)
    if absent:
        raise ValueError(
            f"{os.fspath(path)!r} does not fit its own description: it lacks {sorted(absent)}. Save the model again."
        )
    if isinstance(header["parameters"].get("class_weight"), list):
        header["parameters"]["class_weight"] = dict(header["parameters"]["class_weight"])
    estimator = cls(**header["parameters"])
    estimator.encoding_ = Encoding.from_json(header["encoding"])
    if header["chosen"] != estimator._chosen():  # names and defaults stood for something else when it was saved
        estimator.set_params(**header["chosen"])
    estimator.train_index_ = tensors.pop("train_index").cpu().numpy()
    rows = tensors.pop("rows")
    members = [tensors.pop(name).cpu() for name in places]
    fitted = {name: tensors.pop(name).cpu().numpy() for name in list(tensors) if name.startswith("fitted.")}
    of_held_out = [f"held_out.{k}" for k in range(len(members))]  # absent in files written before there were any
    held_out = [tensors.pop(name, torch.arange(0)).cpu().numpy() for name in of_held_out]
    network = estimator._build([0] * len(members), [estimator] * len(members)).to(device)
    try:
        network.load_state_dict({name.removeprefix("network."): tensor for name, tensor in tensors.items()})
    except RuntimeError as error:
        raise ValueError(f"{os.fspath(path)!r} does not fit its own description: {error}") from error
    estimator._set_members(network, rows, members)
    estimator._set_fitted_json(header["fitted"])
    for name, values in fitted.items():
        setattr(estimator, name.removeprefix("fitted."), values)
    estimator.held_out_ = held_out
    estimator.history_, estimator.best_epochs_ = [], tuple(header["best_epochs"])
    return estimator
