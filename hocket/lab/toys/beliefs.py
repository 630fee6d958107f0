"""What is asked of policies that sum up what they saw: fresh play, what their beliefs tell, who teaches which part."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.policies.beliefs import acting_beliefs
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.train.annotate import annotate
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, collect, train_step


def believing(recipe: Recipe, task: str, steps: int = 0, seed: int = 0, **settings: Any) -> RunContext:
    """A run of so many steps with what the task suggests; `settings` by dotted path, `__` for a dot."""
    world = tasks.find(task)
    pairs = [(name.replace("__", "."), value) for name, value in settings.items()]
    config = configure([("recipe", recipe), ("task", task), ("seed", seed), ("steps", max(steps, 1)), *pairs], world)
    parts = build_parts(config, world)
    for step in range(1, steps + 1):
        asyncio.run(train_step(parts, step))
    return parts


def fresh_play(parts: RunContext, seed: int = 5) -> Batch:
    """A batch of fresh episodes with credit."""
    learner = parts.lead
    experience, _ = asyncio.run(collect(parts, Key.of(seed)))
    batch = annotate(pack(experience.trajectories), learner.recipe.reads, learner.policy, None)
    return learner.compute_credit(batch, {}, 1)


def beliefs(parts: RunContext, play: Batch) -> NDArray[np.float64]:
    """What the policy believes before each decision of a play, and a 1, `[T, size + 1]`."""
    vectors = acting_beliefs(cast(ControlPolicy, parts.lead.policy), play).double().numpy()
    return np.column_stack([vectors, np.ones(len(vectors))])


def fitted(inputs: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the linear map fitted to the first half says of the second, `[T - T // 2, D]`."""
    half = len(inputs) // 2
    predictions: NDArray[np.float64] = inputs[half:] @ np.linalg.lstsq(inputs[:half], wanted[:half], rcond=None)[0]
    return predictions


def taught(parts: RunContext) -> tuple[float, float]:
    """The gradients (sums of sizes) where none should be, and the smallest where one should.

    The last regulariser is the belief's own loss: it is to teach the learnt belief alone, the other losses actor and
    critic alone.
    """
    batch, recipe, policy = fresh_play(parts), parts.lead.recipe, cast(ControlPolicy, parts.lead.policy)
    *others, belief_loss = (term.total() for term in recipe.loss(policy.evaluate(batch, recipe.needs), batch))
    learnt = [id(parameter) for parameter in cast(Any, policy.module.beliefs).learnt.parameters()]
    named = {
        name: [weight for weight in weights if weight.requires_grad and (name != "belief" or id(weight) in learnt)]
        for name, weights in policy.parts().items()
    }
    of = {
        (name, what): _size(loss, weights)
        for name, weights in named.items()
        for what, loss in (("others", torch.stack(others).sum()), ("own", belief_loss))
    }
    strange = of["belief", "others"] + of["actor", "own"] + of["critic", "own"]
    return strange, min(of["belief", "own"], of["actor", "others"], of["critic", "others"])


def _size(loss: torch.Tensor, weights: list[Any]) -> float:
    gradients = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
    return sum(0.0 if gradient is None else float(gradient.abs().sum()) for gradient in gradients)


def moved(parts: RunContext, fresh: RunContext) -> float:
    """How far the belief that acts is from that of a run that has not begun."""
    learnt, initial = (cast(Any, cast(ControlPolicy, run.lead.policy).module.beliefs).acting for run in (parts, fresh))
    return sum(float((a - b).abs().sum()) for a, b in zip(learnt.parameters(), initial.parameters(), strict=True))
