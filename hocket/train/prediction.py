"""What a run is predicted to hold in memory, for its metrics to be compared with."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, cast

from hocket.core.errors import ConfigurationError
from hocket.policies.language_model import LanguageModel
from hocket.stages import Task
from hocket.train.footprint import TrainingPlan, footprint, outlined
from hocket.train.learner import Learner
from hocket.train.memory import MemoryPlan, longest_prompt
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM


def predicted_bytes(config: Config, task: Task, learners: Collection[Learner], memory: MemoryPlan) -> float | None:
    """Bytes at the peak of a run that samples here, by `footprint`; None where that does not count.

    It counts causal language models of known architectures, of conversations the first turn, and of tasks without a
    first scenario nothing. Several policies are counted one beside the other.
    """
    if config.engine.kind != "local":
        return None
    total, program = 0.0, 0.0
    for learner in learners:
        if not isinstance(learner.policy, LanguageModel):
            return None
        policy = cast("CausalLM", learner.policy)
        recipe, responses = learner.recipe, config.decoding.max_tokens
        try:
            prompt = longest_prompt(task, policy, 1)
            outline = outlined(policy.model.config, config.lora)
        except (ConfigurationError, NotImplementedError, LookupError):
            return None
        plan = TrainingPlan(
            lora=config.lora,
            precision=policy.precision,
            weights=config.weights,
            optimiser=config.optimiser.kind + ("+masters" if config.optimiser.rounding == "masters" else ""),
            prompts=int(getattr(recipe.curriculum, "prompts", None) or 1),
            samples=int(getattr(recipe.rollout, "samples", None) or 1),
            context=prompt + responses,
            prompt=prompt,
            reference=recipe.wants_reference,
            checkpointing=memory.checkpointing,
            token_budget=float(memory.token_budget or policy.token_budget),
            rows=config.engine.max_rows,
            host=config.optimiser.host,
            device="cuda" if policy.device.type == "cuda" else "cpu",
        )
        held = footprint(outline, plan)
        total, program = total + held.total - held.program, held.program
    return total + program if total else None
