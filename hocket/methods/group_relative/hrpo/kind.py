"""Runs whose policy has latent thoughts: tasks in words, answered by a `LatentLM` made of `--model`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.group_relative.hrpo.latent import GATE_FILE, LatentLM, LatentPlayer
from hocket.methods.group_relative.hrpo.method import LatentThoughts
from hocket.policies.loading import read_model
from hocket.policies.stored_weights import weight_count
from hocket.stages import Player, Policy, Task
from hocket.train.kinds.kind import ACCURACY
from hocket.train.kinds.network import OnePolicy
from hocket.train.models import model_folder
from hocket.train.roles import POLICY
from hocket.train.settings import Config

MARKER = "<answer>"
"""What stands before an answer; inputs are plain from it on."""


class Latent(OnePolicy):
    """Tasks in words, answered at once by one language model with gates."""

    name: str = "latent"
    measure = ACCURACY
    takes_model = True
    instead = "grpo-kl"

    def check(self, config: Config, task: Task) -> None:
        super().check(config, task)
        other = next((phase.name for phase, _ in config.phases if not isinstance(phase.rollout, LatentThoughts)), None)
        if other is not None or task.kind != "text" or getattr(task, "workflow", None) is not None:
            what = f"recipe {other}" if other is not None else f"task {task.name}"
            raise ConfigurationError(
                f"{what}: a policy with latent thoughts answers questions at once and is trained by hrpo alone; "
                "choose a task such as sums, or grpo-kl"
            )

    def made(self, config: Config, task: Task) -> Policy:
        from transformers import AutoTokenizer

        folder = model_folder(config.model, config.runs)
        model, tokenizer = read_model(folder, torch.float32), AutoTokenizer.from_pretrained(folder)
        marker = tokenizer(MARKER, add_special_tokens=False)["input_ids"]
        thoughts = next(
            phase.rollout.thoughts for phase, _ in config.phases if isinstance(phase.rollout, LatentThoughts)
        )
        policy = LatentLM(
            model,
            key=Key.of(config.seed).derive("gate"),
            thoughts=config.decoding.max_tokens if thoughts is None else thoughts,
            marker=int(marker[0]) if len(marker) == 1 else None,
            lr=min(1e-3, 1e-4 * (1e6 / weight_count(model)) ** 0.5),
            name=POLICY,
            stops=Chat(tokenizer).stops,
            tokenizer=tokenizer,
        )
        if (Path(folder) / GATE_FILE).is_file():
            policy.load_gate(Path(folder))
        return policy

    def player(self, task: Task, policy: Any) -> Player:
        chat = Chat(policy.tokenizer)
        return LatentPlayer(policy, lambda scenario: chat.opening(scenario.messages), text=chat.reply_text)

    def describe(self, config: Config) -> str:
        return f"{config.model} with latent thoughts"


LATENT = Latent()
