"""Learners that hold shares: how they come to, who gets the whole for a while, and what cannot be divided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from hocket.core.errors import ConfigurationError
from hocket.distributed.cluster.sharded_problem import state_share
from hocket.distributed.cluster.shards import Meeting, Shards, bounds, strays
from hocket.policies.language_model import LanguageModel
from hocket.policies.residence import HERE
from hocket.stages import State
from hocket.update.gradient import GradientStep

if TYPE_CHECKING:
    from hocket.train.learner import Learner
    from hocket.train.loop import RunContext
    from hocket.train.settings import Config


class Share(NamedTuple):
    """One rank's share of what a learner holds: weights and reference by name, flat; and the learner's state."""

    weights: Mapping[str, Tensor]
    reference: Mapping[str, Tensor]
    state: State


def share_of(learner: Learner, rank: int, size: int) -> Share:
    """The share of a rank, of a learner that holds the whole."""
    state = learner.state()
    weights = [weight for group in learner.optimiser.param_groups for weight in group["params"]]
    state = {**state, "optimiser": state_share(state["optimiser"], weights, rank, size)}
    return Share(_cut(learner.policy.module, rank, size), _cut(_own_reference(learner), rank, size), state)


def divide(learners: Mapping[str, Learner], meeting: Meeting) -> None:
    """From now on this rank holds its shares of what learners hold: weights, reference, optimiser."""
    for learner in learners.values():
        policy, reference = learner.policy, learner.reference
        assert isinstance(policy, LanguageModel)
        policy.residence = Shards(policy.module, meeting)
        if isinstance(reference, LanguageModel) and reference is not policy:
            shared = reference.model is policy.model
            reference.residence = policy.residence if shared else Shards(reference.module, meeting)
        _divide_optimiser(learner.optimiser, meeting)
        learner.meeting = meeting


def take(learner: Learner, share: Share) -> None:
    """Gives a divided learner another rank's word for what its share is."""
    assert learner.meeting is not None
    reference = _own_reference(learner)
    for module, values in ((learner.policy.module, share.weights), (reference, share.reference)):
        for name, weight in () if module is None else module.named_parameters():
            with torch.no_grad():
                learner.meeting.held[id(weight)].share.copy_(values[name])
    learner.restore(share.state)


def restore(learners: Mapping[str, Learner], *, filled: bool) -> None:
    """Has the whole weights here again, for good; see `Shards.restore`."""
    for learner in learners.values():
        for policy in (learner.policy, learner.reference):
            residence = getattr(policy, "residence", HERE)
            if isinstance(residence, Shards):
                residence.restore(filled=filled)
    for learner in learners.values():
        for policy in (learner.policy, learner.reference):
            if isinstance(policy, LanguageModel):
                policy.residence = HERE


@contextmanager
def gathered(parts: RunContext) -> Iterator[None]:
    """Inside, this process has the weights of all policies that play here, to sample from them."""
    with ExitStack() as stack:
        playing: list[Any] = [learner.policy for learner in parts.learners.values()]
        playing += [policy.reference for policy in parts.learners.values() if policy.recipe.plays_reference]
        away = [policy for policy in playing if not getattr(policy, "residence", HERE).here]
        for policy in away:
            stack.enter_context(policy.residence.whole())
        yield
    player: Any = parts.player
    for actor in (*player.actors.values(), *player.references.values()) if away else ():
        release = getattr(actor.engine, "release", None)
        if release is not None:
            release()  # It keeps copies of the weights.


def check_shards(config: Config) -> None:
    """Refuses what cannot be learnt with weights in shares.

    Raises:
        ConfigurationError: with the mend.
    """
    from hocket.recipes import find

    if not config.shard:
        return
    if config.learners == 1:
        raise ConfigurationError(
            "shard = true divides what learners hold among several: add --leaves 4 --cluster local --learners 2"
        )
    if config.overlap and not config.samplers:
        raise ConfigurationError("shard = true: sampling beside learning takes --samplers 1 or more")
    if config.engine.kind != "local":
        raise ConfigurationError(f"shard = true samples with engine.kind local, not {config.engine.kind}; drop one")
    recipes = [recipe for recipe, _ in config.phases]
    recipes += [find(role.recipe) for role in config.roles.values() if role.recipe]
    for recipe in recipes:
        if type(recipe.update) is not GradientStep:
            raise ConfigurationError(
                f"shard = true: {type(recipe.update).__name__} of recipe {recipe.name} needs the weights whole; leave "
                "shard out"
            )
        if recipe.hooks:
            raise ConfigurationError(
                f"shard = true: {type(recipe.hooks[0]).__name__} of recipe {recipe.name} may need the weights whole; "
                "leave shard out"
            )


def check_shared(learners: Mapping[str, Learner]) -> None:
    """Refuses policies that are not held in shares.

    Raises:
        ConfigurationError: naming one.
    """
    for name, learner in learners.items():
        if not isinstance(learner.policy, LanguageModel):
            raise ConfigurationError(
                f"shard = true is for language models, and policy {name!r} is a {type(learner.policy).__name__}, which "
                "every learner can hold; leave shard out"
            )
        unsharded = strays(learner.policy.module)
        if unsharded:
            raise ConfigurationError(
                f"shard = true: {unsharded[0]} of policy {name!r} is a weight of several layers, or no weight, and "
                "cannot be held in shares; leave shard out"
            )


def _own_reference(learner: Learner) -> nn.Module | None:
    """The module of a learner's reference where that has weights of its own."""
    policy, reference = learner.policy, learner.reference
    if not isinstance(reference, LanguageModel) or reference is policy:
        return None
    return None if isinstance(policy, LanguageModel) and reference.model is policy.model else reference.module


def _cut(module: nn.Module | None, rank: int, size: int) -> dict[str, Tensor]:
    cuts = {}
    for name, weight in () if module is None else module.named_parameters():
        ends = bounds(weight.numel(), size)
        cuts[name] = weight.detach().reshape(-1)[ends[rank] : ends[rank + 1]].cpu().clone()
    return cuts


def _divide_optimiser(optimiser: torch.optim.Optimizer, meeting: Meeting) -> None:
    """Has an optimiser change the shares in place of the weights, its state divided likewise."""
    rank, size = meeting.ranks.rank, meeting.ranks.size
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    state = state_share(optimiser.state_dict(), weights, rank, size)
    for group in optimiser.param_groups:
        group["params"] = [meeting.held[id(weight)].share for weight in group["params"]]
    optimiser.state.clear()
    optimiser.load_state_dict(state)
