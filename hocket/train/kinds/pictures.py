"""Pictures: samplers whose denoising steps are decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.policies.denoising.names import INDEX, SAMPLER
from hocket.stages import Player, Policy, Task
from hocket.train.kinds.kind import ACCURACY
from hocket.train.kinds.network import OnePolicy
from hocket.train.models import model_folder
from hocket.train.roles import POLICY
from hocket.train.settings import Config


def place_of(model: str) -> str:
    """A model's name without settings, see `hocket.train.kinds.pipelines.PipelineName`."""
    return model.partition("?")[0]


def described_model(config: Config) -> Mapping[str, Any]:
    """The `config.json` of the model of a run, where it is in a folder; nothing where it is a name on a hub.

    Raises:
        ConfigurationError: when the file is no JSON.
    """
    if config.model == Config.model:
        return {}  # The usual language model, so that most runs read nothing here.
    file = Path(model_folder(place_of(config.model), config.runs)) / "config.json"
    if not file.is_file():
        return {}
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigurationError(f"model = {config.model!r}: {file} is no JSON ({error}); put back a copy") from error
    return data if isinstance(data, dict) else {}


def is_masked(data: Mapping[str, Any]) -> bool:
    """Whether a model's `config.json` is that of a masked language model."""
    return any(str(name).endswith("ForMaskedLM") for name in data.get("architectures") or ())


class Pictures(OnePolicy):
    """Pictures asked for in words. One sampler plays alone; evaluation takes the steps without noise."""

    name = "pictures"
    measure = ACCURACY
    takes_model = True
    instead = "flow-grpo, dance-grpo, mix-grpo, diffusion-dpo or grpo"

    def made(self, config: Config, task: Task) -> Policy:
        from hocket.policies.denoising.denoiser import Denoiser

        if described_model(config).get("model_type") != SAMPLER:
            if (Path(place_of(config.model)) / INDEX).is_file():
                raise ConfigurationError(
                    f"model = {config.model!r} draws what prompts ask for, and task {task.name} is of nano-flow's "
                    "pictures; give prompts of your own, --task prompts.jsonl, and a --reward"
                )
            raise ConfigurationError(
                f"model = {config.model!r} is no sampler of pictures, which task {task.name} asks for; use --model "
                "nano-flow, or a run that trained it"
            )
        return Denoiser.from_folder(Path(model_folder(config.model, config.runs)), POLICY)

    def player(self, task: Task, policy: Any) -> Player:
        from hocket.rollout.denoising_probes import ProbingPlayer

        return ProbingPlayer(policy)

    def describe(self, config: Config) -> str:
        return config.model


PICTURES = Pictures()
