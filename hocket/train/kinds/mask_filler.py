"""Masked-diffusion language models that fill in their answers to tasks in words."""

from __future__ import annotations

from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.stages import Player, Policy, Task
from hocket.train.kinds.kind import ACCURACY
from hocket.train.kinds.network import OnePolicy
from hocket.train.models import model_folder
from hocket.train.roles import POLICY
from hocket.train.settings import Config


class MaskFiller(OnePolicy):
    """Tasks in words, answered by one masked language model (`*ForMaskedLM`) without a workflow."""

    name = "masked"
    measure = ACCURACY
    takes_model = True
    instead = "cj-grpo, diffu-grpo, coupled-grpo or grpo"

    def made(self, config: Config, task: Task) -> Policy:
        from hocket.policies.masked_lm import MaskedLM

        if getattr(task, "workflow", None) is not None:
            raise ConfigurationError(
                f"task {task.name} is played by a workflow, and {config.model} fills in single answers; choose a task "
                "such as sums"
            )
        policy: Any = MaskedLM.from_folder(model_folder(config.model, config.runs), POLICY)
        return policy  # type: ignore[no-any-return]

    def player(self, task: Task, policy: Any) -> Player:
        from hocket.rollout.elbo_looks import LookingPlayer

        return LookingPlayer(policy)

    def describe(self, config: Config) -> str:
        return config.model


MASKED = MaskFiller()
