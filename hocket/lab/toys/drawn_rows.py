"""Small policies with action values, and rows drawn from a store, for claims about losses of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch, Level
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions
from hocket.core.stored_rows import FOLLOWING, GOES_ON, NOISE, PAID
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.recipe import Recipe
from hocket.rollout.transitions import Transitions
from hocket.types import Evaluation, Scenario, Score, Trajectory, Turn

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """The spaces of a small task."""

    observations: int = 3
    actions: int = 2
    discrete: bool = False


def policy_of(recipe: Recipe, *, discrete: bool, seed: int = 0, width: int = 8) -> ControlPolicy:
    """A policy with the parts that a recipe needs, whose slow copies have other weights than what they follow."""
    key = Key.of(seed)
    network = NetworkSettings(hidden=(width, width), activation="relu")
    policy = ControlPolicy(Sizes(actions=3 if discrete else 2, discrete=discrete), key=key, network=network)
    for part in recipe.policy_parts:
        part.install(policy)
    policy.require(recipe.needs)
    rng = key.derive("moved").torch()
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=rng))
    return policy


def rows(recipe: Recipe, *, discrete: bool, seed: int = 0, count: int = 32) -> Batch:
    """Rows drawn from random episodes, half of which end and half of which are cut."""
    rng = Key.of(seed).derive("episodes").numpy()
    spec = {name: getattr(recipe.store, name) for name in ("steps", "noises", "length") if hasattr(recipe.store, name)}
    store = Transitions(size=1000, rows=4, begin=0, gamma=0.9, **spec)
    episodes = []
    for number in range(8):
        size = int(rng.integers(3, 9))
        observed = rng.normal(size=(size + 1, 3)).astype(np.float32)
        action: NDArray[Any] = (
            rng.integers(0, 3, size) if discrete else rng.uniform(-1, 1, (size, 2)).astype(np.float32)
        )
        turn = Turn("agent", "policy", observed[:-1], action, np.full(size, -1.0, np.float32))
        score = Score(rng.normal(size=size), Level.DECISION)
        ends = {"terminated": number % 2 == 0, "truncated": number % 2 == 1, "final_state": observed[-1]}
        episodes.append(Trajectory(Scenario(f"s{number}"), [turn], scores={"reward": score}, **ends))
    batch = pack(episodes)
    state = store.add(store.init(), paid_at_decisions(batch, batch.scores["reward"].values))
    drawn = store.draw(state, count, Key.of(seed).derive("draw"))
    return drawn.but(occurrences=recipe.credit(drawn))


def evaluated(recipe: Recipe, policy: ControlPolicy, batch: Batch) -> tuple[Evaluation, dict[str, float]]:
    """The policy's evaluation, and the loss of each of the recipe's losses by class."""
    evaluation = policy.evaluate(batch, recipe.needs)
    losses = {type(loss).__name__: float(loss(evaluation, batch).total().detach()) for loss in recipe.losses}
    return evaluation, losses


def numbers(batch: Batch) -> dict[str, Array]:
    """What a batch holds, in float64: `seen`, `action`, `paid`, `goes_on`, `following`, and `noise` of vectors."""
    columns = {"paid": PAID, "goes_on": GOES_ON, "following": FOLLOWING}
    held = {name: column.read(batch, "the claim").double().numpy() for name, column in columns.items()}
    if NOISE.name in batch.annotations:
        held["noise"] = NOISE.read(batch, "the claim").double().numpy()
    return {**held, "seen": np.asarray(batch.observation[0], np.float64), "action": batch.action.double().numpy()}


def perceptron(policy: ControlPolicy, name: str, x: Array) -> Array:
    """A network of the policy with relu, computed from its weights in float64: `[B, O]`."""
    layers = _layers(policy, name)
    for place, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        x = np.maximum(x, 0) if place < len(layers) - 1 else x
    return x


def critics(policy: ControlPolicy, name: str, seen: Array, action: Array) -> Array:
    """Action values of every critic, computed one by one in float64: `[B, K]`."""
    values = []
    layers = _layers(policy, name)
    for critic in range(len(layers[0][0])):
        x = np.concatenate([seen, np.clip(action, -1, 1)], 1)
        for place, (weight, bias) in enumerate(layers):
            x = x @ weight[critic] + bias[critic]
            x = np.maximum(x, 0) if place < len(layers) - 1 else x
        values.append(x[:, 0])
    return np.stack(values, 1)


def _layers(policy: ControlPolicy, name: str) -> list[tuple[Array, Array]]:
    held = policy.module.state_dict()
    count = sum(key.startswith(f"{name}.weights.") for key in held)
    return [
        (held[f"{name}.weights.{n}"].double().numpy(), held[f"{name}.biases.{n}"].double().numpy())
        for n in range(count)
    ]


def reached(policy: ControlPolicy, loss: torch.Tensor) -> frozenset[str]:
    """The parts of the policy's weights that the gradient of a loss reaches."""
    parts = policy.parts()
    names = [name for name, weights in parts.items() for weight in weights if weight.requires_grad]
    weights = [weight for part in parts.values() for weight in part if weight.requires_grad]
    gradients = torch.autograd.grad(loss, weights, allow_unused=True, retain_graph=True)
    return frozenset(name for name, grad in zip(names, gradients, strict=True) if grad is not None and bool(grad.any()))
