"""Pipelines of diffusers: how each encodes a prompt and predicts a velocity. A further one is a form of two methods.

A form reads parts of the loaded pipeline and never calls the pipeline itself, whose loop knows neither noise laws nor
gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket.core.errors import ConfigurationError

Encoded = tuple[Tensor, ...]
"""What the network reads of prompts, each `[B, ...]`."""


class PipelineForm(ABC):
    """One class of pipelines, loaded, at one size of pictures. A subclass gives `encoded` and `velocities`.

    Attributes:
        parts: components without which there is nothing to sample. steps: the pipeline's usual number.
        targets: layers that an adapter stands around by default, by the ends of their names.
        pipeline: of diffusers. latent: the shape of one state, what the network reads. tokens: that one picture has.
    """

    name: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = (
        "transformer",
        "scheduler",
        "vae",
        "text_encoder",
        "tokenizer",
        "text_encoder_2",
        "tokenizer_2",
    )
    steps: ClassVar[int] = 28
    targets: ClassVar[tuple[str, ...]] = (
        *("to_q", "to_k", "to_v", "to_out.0"),
        *("add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"),
    )

    def __init__(self, pipeline: Any, height: int, width: int) -> None:
        self.pipeline = pipeline
        self.rows, self.columns = (self._latent_side(side) for side in (height, width))
        self.latent = self._latent()
        self.tokens = self._grid[0] * self._grid[1]

    @property
    def reads_guidance(self) -> bool:
        """Whether the network reads the scale of guidance, in the place of a second pass without the prompt."""
        return False

    @abstractmethod
    def encoded(self, prompt: str) -> Encoded:
        """What the network reads of one prompt, `[1, ...]`; of an empty one, to be guided away from."""

    @abstractmethod
    def velocities(self, network: Any, state: Tensor, level: Tensor, prompts: Encoded, guidance: Tensor) -> Tensor:
        """Velocities `[B, *latent]` of states at levels `[B]` in [0, 1]; `guidance` `[B]` for networks that read it."""

    def levels(self, steps: int) -> NDArray[np.float64]:
        """The noise levels of the pipeline's scheduler, `[steps + 1]`."""
        config = self.pipeline.scheduler.config
        scheduler = type(self.pipeline.scheduler).from_config(config)
        scheduler.set_timesteps(**self._spacing(steps), mu=_shift(config, self.tokens))
        levels: NDArray[np.float64] = scheduler.sigmas.double().numpy()
        return levels

    def picture(self, state: Tensor) -> Tensor:
        """The picture `[3, H, W]` in [-1, 1] of a finished state `[*latent]`."""
        vae = self.pipeline.vae
        latent = self._unpacked(state)[None].to(vae.device, vae.dtype)
        latent = latent / vae.config.scaling_factor + (vae.config.shift_factor or 0.0)
        decoded: Tensor = vae.decode(latent, return_dict=False)[0]
        return decoded[0].float().cpu()

    # ------------------------------------------------------------ sizes

    @property
    def _grid(self) -> tuple[int, int]:
        """Rows and columns of tokens."""
        patch = int(self.pipeline.transformer.config.patch_size)
        return self.rows // patch, self.columns // patch

    def _latent(self) -> tuple[int, ...]:
        return int(self.pipeline.transformer.config.in_channels), self.rows, self.columns

    def _unpacked(self, state: Tensor) -> Tensor:
        return state

    @classmethod
    def default_side(cls, pipeline: Any) -> int:
        """The usual height and width of pictures, in pixels."""
        return int(pipeline.default_sample_size) * int(pipeline.vae_scale_factor)

    def _latent_side(self, pixels: int) -> int:
        unit = int(self.pipeline.vae_scale_factor) * self._patch
        if pixels < unit or pixels % unit:
            raise ConfigurationError(f"size = {pixels}: pictures of a {self.name} have sides that {unit} divides")
        return pixels // int(self.pipeline.vae_scale_factor)

    @property
    def _patch(self) -> int:
        """Numbers of a latent's side that one token has."""
        return int(self.pipeline.transformer.config.patch_size)

    def _spacing(self, steps: int) -> dict[str, Any]:
        """How the pipeline asks its scheduler for levels."""
        return {"num_inference_steps": steps}

    def _time(self, level: Tensor) -> Tensor:
        return level * int(self.pipeline.scheduler.config.num_train_timesteps)


class StableDiffusion3(PipelineForm):
    """Stable Diffusion 3 and 3.5: guidance by a second pass. The third text encoder, a T5, may be left out."""

    name = "StableDiffusion3Pipeline"

    def encoded(self, prompt: str) -> Encoded:
        embedded, _, pooled, _ = self.pipeline.encode_prompt(prompt, None, None, do_classifier_free_guidance=False)
        return embedded, pooled

    def velocities(self, network: Any, state: Tensor, level: Tensor, prompts: Encoded, guidance: Tensor) -> Tensor:
        embedded, pooled = prompts
        result: Tensor = network(
            hidden_states=state,
            timestep=self._time(level),
            encoder_hidden_states=embedded,
            pooled_projections=pooled,
            return_dict=False,
        )[0]
        return result


class Flux(PipelineForm):
    """FLUX.1: states are packed patches of 2 x 2. Of `dev` the network reads the scale of guidance."""

    name = "FluxPipeline"

    def __init__(self, pipeline: Any, height: int, width: int) -> None:
        super().__init__(pipeline, height, width)
        self.places = pipeline._prepare_latent_image_ids(1, *self._grid, torch.device("cpu"), torch.float32)

    @property
    def reads_guidance(self) -> bool:
        return bool(self.pipeline.transformer.config.guidance_embeds)

    def encoded(self, prompt: str) -> Encoded:
        embedded, pooled, _ = self.pipeline.encode_prompt(prompt)
        return embedded, pooled

    def velocities(self, network: Any, state: Tensor, level: Tensor, prompts: Encoded, guidance: Tensor) -> Tensor:
        embedded, pooled = prompts
        result: Tensor = network(
            hidden_states=state,
            timestep=self._time(level) / 1000,
            guidance=guidance if self.reads_guidance else None,
            encoder_hidden_states=embedded,
            pooled_projections=pooled,
            txt_ids=state.new_zeros(embedded.shape[1], 3),
            img_ids=self.places.to(state.device, state.dtype),
            return_dict=False,
        )[0]
        return result

    @property
    def _patch(self) -> int:
        return 2

    @property
    def _grid(self) -> tuple[int, int]:
        return self.rows // 2, self.columns // 2

    def _latent(self) -> tuple[int, ...]:
        return self._grid[0] * self._grid[1], int(self.pipeline.transformer.config.in_channels)

    def _unpacked(self, state: Tensor) -> Tensor:
        channels = state.shape[-1] // 4
        patches = state.reshape(*self._grid, channels, 2, 2).permute(2, 0, 3, 1, 4)
        return patches.reshape(channels, self.rows, self.columns)

    def _spacing(self, steps: int) -> dict[str, Any]:
        return {"sigmas": np.linspace(1.0, 1 / steps, steps)}


def _shift(config: Any, tokens: int) -> float:
    """The shift towards noise of a scheduler whose shift depends on the number of tokens; others leave it aside."""
    least, most, low, high = config.base_image_seq_len, config.max_image_seq_len, config.base_shift, config.max_shift
    slope = (high - low) / (most - least)
    return float(tokens * slope + (low - slope * least))


FORMS: dict[str, type[PipelineForm]] = {form.name: form for form in (StableDiffusion3, Flux)}
"""By the class of the pipeline, as `model_index.json` names it."""
