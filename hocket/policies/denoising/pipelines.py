"""Pipelines of diffusers as policies: the transformer is trained, what encodes prompts and decodes pictures is not."""

from __future__ import annotations

import copy
import json
import math
import re
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.noise_laws import ScheduledSteps
from hocket.policies.denoising.names import INDEX, TRAINED
from hocket.policies.denoising.pipeline_forms import FORMS, Encoded, PipelineForm
from hocket.policies.denoising.recorded_steps import StepPolicy, step_type
from hocket.policies.loading import first_line, without_progress_bars
from hocket.policies.lora import ADAPTER, add_adapter
from hocket.policies.settings import LoraSettings

SCHEDULER = "FlowMatchEulerDiscreteScheduler"

WORDS = 512
"""Numbers of four bytes in which a prompt is recorded."""
CACHED = 2**32
"""Bytes of encoded prompts that are held."""
BLOCK, BUDGET = 16, 16384
"""Pictures, and tokens, of one pass at most, see `StepPolicy`."""

_ADAPTER_FILE, _WHOLE_FILE = "pytorch_lora_weights.safetensors", "transformer/diffusion_pytorch_model.safetensors"


@dataclass(frozen=True)
class PipelineShape:
    """The shape of what a pipeline makes, see `hocket.rollout.denoising.SamplerShape`."""

    pixels: int
    steps: ScheduledSteps
    unprompted: bool = True

    def encode(self, prompt: str) -> NDArray[np.int32]:
        """The bytes of a prompt, `[WORDS]`; of none, zeros.

        Raises:
            ConfigurationError: when it is too long.
        """
        data = prompt.encode()
        if len(data) > 4 * WORDS:
            raise ConfigurationError(f"prompt {prompt[:40]!r}... is longer than {4 * WORDS} bytes; shorten it")
        return np.frombuffer(data.ljust(4 * WORDS, b"\0"), "<i4").astype(np.int32)


class EncodedPrompts:
    """What a pipeline's encoders make of prompts: each is encoded once, by itself. The latest ones are held."""

    def __init__(self, form: PipelineForm) -> None:
        self._form, self._bytes = form, 0
        self._held: OrderedDict[str, Encoded] = OrderedDict()

    def of(self, prompt: str) -> Encoded:
        """Of one prompt, on the processor."""
        if prompt not in self._held:
            # What is made in inference mode could not be learnt from.
            with torch.inference_mode(False), torch.no_grad():
                self._held[prompt] = tuple(values.cpu() for values in self._form.encoded(prompt))
            self._bytes += _size(self._held[prompt])
        self._held.move_to_end(prompt)
        result = self._held[prompt]
        while self._bytes > CACHED and len(self._held) > 1:
            self._bytes -= _size(self._held.popitem(last=False)[1])
        return result


class PipelineSampler(StepPolicy):
    """A pipeline of diffusers as a policy. Its observations hold states of the network, and prompts as bytes.

    Attributes:
        form: the loaded pipeline. base: where it came from. adapter: its settings, None if all weights are trained.
        shape: of its pictures and prompts. dtype: of matrix products.
    """

    def __init__(
        self,
        form: PipelineForm,
        base: str,
        key: Key,
        *,
        name: str = "policy",
        lora: LoraSettings | None = None,
        dtype: torch.dtype = torch.float32,
        steps: int | None = None,
        budget: int | None = None,
        checkpointing: bool = False,
    ) -> None:
        """`steps` are those of a sample, the pipeline's usual number if None; `budget`: tokens of one pass at most.
        With `checkpointing` activations are computed again in the backward pass.

        Raises:
            ConfigurationError: when the adapter's targets are in no layer, or `peft` is not installed.
        """
        super().__init__(name)
        self.form, self.base, self.adapter, self.dtype = form, base, lora, dtype
        for part in form.pipeline.components.values():
            if isinstance(part, nn.Module):
                part.requires_grad_(False).eval()
        self._module = form.pipeline.transformer
        if lora is None:
            self._module.float().requires_grad_(True)
        else:
            device = next(self._module.parameters()).device
            add_adapter(self._module, replace(lora, targets=lora.targets or self._usual_targets()), key)
            self._module.to(device)
        if checkpointing:
            self.form.pipeline.transformer.enable_gradient_checkpointing()
        self.shape = PipelineShape(math.prod(form.latent), self.steps(steps or form.steps))
        self._prompts = EncodedPrompts(form)
        tokens = form.tokens + self._prompts.of("")[0].shape[1]
        self.block = self.chunk = min(BLOCK, max(1, (budget or BUDGET) // tokens))
        self._past: dict[str, Tensor] | None = None

    def _usual_targets(self) -> tuple[str, ...]:
        """The form's, where this network has them."""
        names = [name for name, module in self._module.named_modules() if isinstance(module, nn.Linear)]
        return tuple(end for end in self.form.targets if any(f".{name}".endswith(f".{end}") for name in names))

    @property
    def default_lr(self) -> float:
        return 1e-5 if self.adapter is None else 3e-4

    @property
    def reads_guidance(self) -> bool:
        return self.form.reads_guidance

    @property
    def row_type(self) -> np.dtype[Any]:
        return step_type(self.shape.pixels, (WORDS,))

    def steps(self, count: int) -> ScheduledSteps:
        """So many steps of the pipeline's own schedule."""
        return ScheduledSteps.at(self.form.levels(count))

    def move(self, device: torch.device) -> None:
        """Puts the whole pipeline on a device."""
        self.form.pipeline.to(device)

    # ------------------------------------------------------------ predictions

    def velocities(self, state: Tensor, level: Tensor, words: Tensor, guidance: Tensor) -> Tensor:
        encoded = [self._prompts.of(text) for text in _texts(words)]
        prompts = tuple(torch.cat(values).to(state.device) for values in zip(*encoded, strict=True))
        low = self.dtype != torch.float32
        with torch.autocast(state.device.type, self.dtype) if low else nullcontext():
            states = state.reshape(len(state), *self.form.latent)
            result = self.form.velocities(self._network, states, level, prompts, guidance)
        return result.float().flatten(1)

    def _network(self, **inputs: Any) -> Any:
        """The transformer with the weights as they are, or as they were when this copy was made."""
        if self._past is None:
            return self._module(**inputs)
        return torch.func.functional_call(self._module, self._past, (), inputs)

    def picture(self, state: NDArray[np.float32]) -> NDArray[np.uint8] | None:
        """The picture `[H, W, 3]` of a finished state `[D]`, None if it has numbers that are not finite."""
        with torch.inference_mode():
            decoded = self.form.picture(torch.from_numpy(state).reshape(self.form.latent))
        if not torch.isfinite(decoded).all():
            return None
        result: NDArray[np.uint8] = ((decoded / 2 + 0.5).clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
        return result

    # ------------------------------------------------------------ weights

    def frozen_copy(self) -> Self:
        """A copy with the trained weights as they are now; whatever is not trained is shared."""
        other = copy.copy(self)
        other._past = {name: weight.detach().clone() for name, weight in self._trained().items()}
        other._cache = None
        return other

    def _trained(self) -> dict[str, Tensor]:
        """The weights that are trained, by their names."""
        if self._past is not None:
            return self._past
        return {name: weight for name, weight in self._module.named_parameters() if weight.requires_grad}

    def save(self, folder: Path) -> None:
        """Writes what is trained in diffusers' format: an adapter for `load_lora_weights`, or `transformer`."""
        weights = {name: weight.detach().cpu().contiguous() for name, weight in self._trained().items()}
        folder.mkdir(parents=True, exist_ok=True)
        network: Any = self._module
        if self.adapter is None:
            (folder / "transformer").mkdir(exist_ok=True)
            state = {name: value.cpu().contiguous() for name, value in network.state_dict().items()}
            save_file({**state, **weights}, folder / _WHOLE_FILE)
            network.save_config(folder / "transformer")
        else:
            self.form.pipeline.save_lora_weights(
                folder,
                transformer_lora_layers={_plain(name): weight for name, weight in weights.items()},
                transformer_lora_adapter_metadata=network.peft_config[ADAPTER].to_dict(),
            )
        data = {"model_type": TRAINED, "pipeline": self.form.name, "base": self.base}
        (folder / "config.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Reads what `save` wrote.

        Raises:
            ConfigurationError: when the file is missing, or of another network or adapter.
        """
        file = folder / (_WHOLE_FILE if self.adapter is None else _ADAPTER_FILE)
        if not file.is_file():
            way = "with an adapter; set --lora.rank" if self.adapter is None else "without an adapter; drop --lora"
            raise ConfigurationError(f"there is no {file}: these weights were trained {way}")
        weights = self._trained()
        try:
            stored = load_file(file)
        except (OSError, SafetensorError) as error:
            raise ConfigurationError(f"{file} cannot be read: {first_line(error)}") from error
        names = {name: name if self.adapter is None else f"transformer.{_plain(name)}" for name in weights}
        if any(place not in stored or stored[place].shape != weights[name].shape for name, place in names.items()):
            raise ConfigurationError(f"{file} has other layers or another rank than this policy's")
        with torch.no_grad():
            for name, place in names.items():
                weights[name].copy_(stored[place])


# ---------------------------------------------------------------- reading


def described(place: str) -> Mapping[str, Any]:
    """What `model_index.json` says of a pipeline, in a folder or on the hub.

    Raises:
        ConfigurationError: in one sentence, when it is missing, names no pipeline with a form, or lacks a part.
    """
    folder = Path(place).expanduser()
    if folder.is_dir():
        file = folder / INDEX
        try:
            index = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"model = {place!r}: {file} cannot be read: {first_line(error)}") from error
    else:
        try:
            index = _diffusers().DiffusionPipeline.load_config(place)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"model = {place!r} is no folder here, and the hub gave no pipeline of that name: {first_line(error)}"
            ) from error
    form = FORMS.get(name := str(index.get("_class_name")))
    if form is None:
        raise ConfigurationError(
            f"model = {place!r}: pipelines of the class {name} cannot be trained; choose one of {', '.join(FORMS)}"
        )
    for part in form.parts:
        _, kind = index.get(part) or (None, None)
        if kind is None or (folder.is_dir() and not (folder / part).is_dir()):
            raise ConfigurationError(
                f"model = {place!r}: this {name} has no {part.replace('_', ' ')}, which sampling needs; copy the "
                f"whole pipeline, with its folder {part}"
            )
    if (kind := index["scheduler"][1]) != SCHEDULER:
        raise ConfigurationError(
            f"model = {place!r}: its scheduler is a {kind}, and noise laws of flows go with a {SCHEDULER}"
        )
    return dict(index)


def read_form(place: str, device: torch.device, dtype: torch.dtype, *, size: int | None = None) -> PipelineForm:
    """The pipeline at a place, on a device, for pictures of `size` x `size` pixels (its usual one if None).

    Raises:
        ConfigurationError: in one sentence, see `described`; also for weights that cannot be read, and sizes.
    """
    index = described(place)
    library, name = _diffusers(), str(index["_class_name"])
    try:
        with without_progress_bars():
            pipeline = getattr(library, name).from_pretrained(
                str(Path(place).expanduser()) if Path(place).expanduser().is_dir() else place,
                dtype=dtype,
                use_safetensors=True,
            )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, TypeError, SafetensorError) as error:
        raise ConfigurationError(f"model = {place!r}: the pipeline cannot be read: {first_line(error)}") from error
    config = pipeline.scheduler.config
    for setting in ("stochastic_sampling", "invert_sigmas"):
        if config.get(setting):
            raise ConfigurationError(f"model = {place!r}: its scheduler has {setting}, which no noise law knows")
    pipeline.vae.float()
    side = size or FORMS[name].default_side(pipeline)
    form = FORMS[name](pipeline, side, side)
    pipeline.to(device)
    return form


def _diffusers() -> Any:
    try:
        import diffusers
    except ImportError as error:
        raise ConfigurationError("pipelines need the package diffusers: pip install 'hocket[diffusion]'") from error
    diffusers.utils.logging.disable_progress_bar()
    return diffusers


def _texts(words: Tensor) -> list[str]:
    """Prompts as they were, of their recorded bytes `[B, WORDS]`."""
    return [row.tobytes().rstrip(b"\0").decode() for row in words.cpu().numpy().astype("<i4")]


def _size(encoded: Encoded) -> int:
    return sum(values.nbytes for values in encoded)


def _plain(name: str) -> str:
    """The name of an adapter's weight without that of the adapter."""
    return re.sub(rf"\.{ADAPTER}(?=\.weight$)", "", name)
