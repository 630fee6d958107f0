"""The policy of hocket's own sampler of pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.denoising.names import SAMPLER
from hocket.policies.denoising.network import FlowShape, FlowTransformer
from hocket.policies.denoising.recorded_steps import StepPolicy, step_type

BLOCK = 32
"""Pictures in every pass of the network, see `StepPolicy`."""


class Denoiser(StepPolicy):
    """A `FlowTransformer` as a policy.

    Attributes:
        shape: of its pictures and prompts. folder: where it came from, for messages.
    """

    default_lr = 1e-4
    block, chunk = BLOCK, 8 * BLOCK
    _module: FlowTransformer

    def __init__(self, shape: FlowShape, key: Key, name: str = "policy", folder: str = "") -> None:
        super().__init__(name)
        self.shape, self.folder = shape, folder
        self._module = FlowTransformer(shape, key)

    @classmethod
    def from_folder(cls, folder: Path, name: str = "policy") -> Self:
        """Reads what `save` wrote.

        Raises:
            ConfigurationError: when the folder holds no sampler, or its weights are of another shape.
        """
        file = folder / "config.json"
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            shape = FlowShape.read(data)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{file} describes no sampler of pictures ({error}); use nano-flow") from error
        policy = cls(shape, Key.of(0), name, str(folder))
        policy.load(folder)
        return policy

    @property
    def module(self) -> FlowTransformer:
        return self._module

    @property
    def row_type(self) -> np.dtype[Any]:
        return step_type(self.shape.pixels, (self.shape.phrases, self.shape.phrase))

    def velocities(self, state: Tensor, level: Tensor, words: Tensor, guidance: Tensor) -> Tensor:
        result: Tensor = self._module(state, level, words)
        return result

    def save(self, folder: Path) -> None:
        weights = {name: weight.detach().cpu().contiguous() for name, weight in self._module.state_dict().items()}
        save_file(weights, folder / "model.safetensors")
        text = json.dumps({"model_type": SAMPLER, **self.shape.plain()}, indent=1)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        file = folder / "model.safetensors"
        try:
            self._module.load_state_dict(load_file(file))
        except (OSError, RuntimeError, SafetensorError) as error:
            raise ConfigurationError(f"{file} does not fit this sampler: {str(error).splitlines()[0]}") from error
