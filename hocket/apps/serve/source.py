"""Where served weights come from: a run, whose newest checkpoint counts, or a model folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.stages import Task
from hocket.train import config as configuration
from hocket.train.checkpoint import COMPLETE, Checkpoints, weights_in
from hocket.train.kinds import kind_of
from hocket.train.machine import Machine
from hocket.train.models import configured_models, load_policy
from hocket.train.roles import POLICY
from hocket.train.settings import Config, RoleSettings
from hocket.train.trust import run_pairs

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM


@dataclass(frozen=True)
class ModelSource:
    """A run or a model of words.

    Attributes:
        path: of its folder. name: by which it goes. config: the run's, or one with the model. task: likewise.
        is_run: whether it is a run.
    """

    path: Path
    name: str
    config: Config
    task: Task
    is_run: bool

    @staticmethod
    def of(
        path: Path, pairs: Sequence[tuple[str, Any]] = (), task: str | None = None, *, trust: bool = False
    ) -> ModelSource:
        """The run or model in a folder, or `nano`, `smollm2` or a GGUF file, as `--model` takes them.

        Settings `pairs` are changed, and another `task` is taken if named.

        Raises:
            ConfigurationError: when its task is not one of words, or without `trust` it names code of others.
        """
        is_run = (path / "config.yaml").is_file()
        settings = run_pairs(path, trust=trust) if is_run else [("model", str(path))]
        name = task or configuration.task_of(settings)
        source_task = tasks.find(name)
        kind = kind_of(source_task)
        if not kind.textual:
            raise ConfigurationError(
                f"{path} was trained on {name}, which is {kind.name}; only language models can talk"
            )
        changed = [pair for pair in settings if pair[0] != "task"] + [("task", name), *pairs]
        return ModelSource(
            path, path.name or str(path), configuration.configure(changed, source_task), source_task, is_run
        )

    def newest(self) -> str | None:
        """The name of the newest finished checkpoint, from file names alone; None before the first."""
        finished = self.path.glob(f"checkpoints/step-*/{COMPLETE}") if self.is_run else ()
        return max((file.parent.name for file in finished), default=None)

    def checkpoint(self) -> Path | None:
        """The newest checkpoint that verifies."""
        return Checkpoints(self.path / "checkpoints").latest() if self.is_run else None

    def machine(self) -> Machine:
        """The choices that the run was made with, or what this machine does best."""
        recorded = self.path / "machine.json"
        if self.is_run and recorded.is_file():
            return Machine.recorded(recorded)
        return Machine.chosen(self.config, configured_models(self.config))

    def policies(self, checkpoint: Path | None, machine: Machine) -> Mapping[str, CausalLM]:
        """The policies by name, with the weights of a checkpoint, or as configured where there is none yet."""
        from hocket.policies.shared_base import SharedBaseCache

        folders, base_cache = weights_in(checkpoint), SharedBaseCache()
        by_policy = {settings.policy or role: settings for role, settings in self.config.roles.items()}
        policies = {}
        for name in folders or (POLICY,):
            model = by_policy.get(name, RoleSettings()).model
            policies[name] = load_policy(self.config, name, model, machine.precision, base_cache)
            if name in folders:
                policies[name].load(folders[name])
        return policies
