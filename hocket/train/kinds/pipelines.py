"""Pictures by pipelines of diffusers, asked for by a task in words and judged by a reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.policies.denoising.names import INDEX, TRAINED
from hocket.stages import Player, Policy, Reward, Task
from hocket.train.kinds.pictures import Pictures, described_model, place_of
from hocket.train.models import model_folder
from hocket.train.roles import POLICY
from hocket.train.settings import Config


@dataclass(frozen=True)
class PipelineName:
    """What `--model PLACE?size=512&steps=28` names.

    Attributes:
        place: a folder, a name on the hub, or a run. size: of a side of pictures, in pixels; None is the usual one.
        steps: of a sample; None is the usual number.
    """

    place: str
    size: int | None = None
    steps: int | None = None

    @staticmethod
    def read(model: str) -> PipelineName:
        """Raises `ConfigurationError` for another setting, or a value that is no number."""
        place, _, query = model.partition("?")
        settings = checked(place, dict(parse_qsl(query)), {"size": int, "steps": int}, kind="model")
        return PipelineName(place, **settings)


def is_pipeline(config: Config) -> bool:
    """Whether the model of a run is a pipeline: by its folder, or by its recipe where it is a name on the hub."""
    if config.model == Config.model:
        return False
    place = place_of(config.model)
    folder = Path(model_folder(place, config.runs)).expanduser()
    if folder.is_dir():
        return (folder / INDEX).is_file() or described_model(config).get("model_type") == TRAINED
    on_hub = place.count("/") == 1 and not place.startswith((".", "/", "~"))
    return on_hub and any(getattr(recipe.rollout, "plays", "") == Pictures.name for recipe, _ in config.phases)


class Pipelines(Pictures):
    """Tasks in words, drawn by one pipeline of diffusers; a reward judges the pictures."""

    takes_lora = True
    picture = ()

    def made(self, config: Config, task: Task) -> Policy:
        import torch

        from hocket.policies.denoising.pipelines import PipelineSampler, read_form
        from hocket.train.machine import device_of

        name = PipelineName.read(config.model)
        folder = model_folder(name.place, config.runs)
        trained = described_model(config).get("base")
        base = str(trained or (Path(folder).resolve() if Path(folder).is_dir() else folder))
        device = device_of(config)
        dtype = torch.bfloat16 if _low(config) else torch.float32
        policy = PipelineSampler(
            read_form(base, device, dtype, size=name.size),
            base,
            Key.of(config.seed).derive("policy", POLICY),
            name=POLICY,
            lora=config.lora,
            dtype=dtype,
            steps=name.steps,
            budget=config.memory.token_budget,
            checkpointing=device.type != "cpu" if (way := config.memory.checkpointing) is None else bool(way),
        )
        if trained:
            policy.load(Path(folder))
        return policy

    def player(self, task: Task, policy: Any) -> Player:
        from hocket.rollout.pipeline_sampling import PipelinePlayer

        return PipelinePlayer(policy)

    def check(self, config: Config, task: Task) -> None:
        super().check(config, task)
        if task.rewards:
            raise ConfigurationError(
                f"task {task.name} has answers in words, and {config.model} draws; take prompts without answers, what "
                "a reward needs in other columns, and name it by --reward FILE.py:FUNCTION"
            )
        if config.weights != "fp32":
            raise ConfigurationError(
                f"weights = {config.weights!r} is for language models; a pipeline under an adapter is held in bf16 "
                "with --precision bf16"
            )

        if config.memory.checkpointing == "host":
            raise ConfigurationError("memory.checkpointing = 'host' is for language models; set true or false")

    def rewards(self, config: Config, task: Task, workflow: Any) -> tuple[Reward, ...]:
        return ()

    def needs_reward(self, config: Config, task: Task, workflow: Any) -> bool:
        return True

    def remarks(self, config: Config, task: Task, workflow: Any) -> Sequence[str]:
        low = ("the pipeline's matrix products are in bf16 (--precision fp32 for others)",) if _low(config) else ()
        return (*getattr(task, "remarks", ()), *low)


def _low(config: Config) -> bool:
    """Whether matrix products are in bf16."""
    from hocket.train.machine import device_of

    return config.precision == "bf16" or (config.precision == "auto" and device_of(config).type != "cpu")


PIPELINES = Pipelines()
