"""Copies that a policy keeps of its own model, by name: what it was at a moment, for masks, targets and the like.

A copy stays as it is until it is refreshed; asked for the first time, it is the model as it is now. Copies are saved
beside the policy, each in the folder of its name.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from hocket.policies.loading import read_model, without_progress_bars
from hocket.policies.vision import copy_weights, save_model


@runtime_checkable
class KeepsCopies(Protocol):
    """A policy that keeps copies of itself."""

    def refresh_copy(self, name: str) -> None:
        """Makes the copy of this name equal to the policy as it is now."""
        ...


class ModelCopies:
    """Copies of one `transformers` model, never trained."""

    def __init__(self) -> None:
        self._models: dict[str, Any] = {}

    def refresh(self, name: str, model: nn.Module) -> None:
        """Makes the copy of this name equal to `model`."""
        with torch.inference_mode(False), torch.no_grad():
            if name in self._models:
                copy_weights(self._models[name], model)
            else:
                with without_gradients(model):
                    self._models[name] = copy.deepcopy(model).requires_grad_(False)

    def get(self, name: str, model: nn.Module) -> Any:
        """The copy of this name; asked for the first time, a copy of `model`."""
        if name not in self._models:
            self.refresh(name, model)
        return self._models[name]

    def save(self, folder: Path) -> None:
        """Writes every copy as an HF model folder inside `folder`."""
        for name, model in self._models.items():
            with without_progress_bars():
                save_model(model, folder / name)

    def load(self, folder: Path, model: nn.Module) -> None:
        """Reads what `save` wrote, into copies of `model`."""
        for file in sorted(folder.glob("*/config.json")):
            held = self.get(file.parent.name, model)
            copy_weights(held, read_model(str(file.parent), held.dtype))


@contextmanager
def without_gradients(module: nn.Module) -> Iterator[None]:
    """Sets gradients aside, so that a deep copy does not double them."""
    held = [(parameter, parameter.grad) for parameter in module.parameters()]
    for parameter, _ in held:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in held:
            parameter.grad = gradient
