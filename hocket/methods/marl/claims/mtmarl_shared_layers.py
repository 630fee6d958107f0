"""The claims of shared layers of several tasks."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.methods.marl.mtmarl_shared_layers.layers import SharedDecisions
from hocket.methods.marl.mtmarl_shared_layers.method import MTMARL_SHARED_LAYERS
from hocket.policies.control import ControlPolicy
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step

claim = Claims("mtmarl-shared-layers", "arXiv:2312.15674")
BOTH, NEW = str(MTMARL_SHARED_LAYERS.task), "together:skirmish:3v3"
EXACT = 1e-12


def _parts(name: str, seed: int = 0, **settings: Any) -> RunContext:
    task = tasks.find(name)
    pairs = [(key.replace("__", "."), value) for key, value in settings.items()]
    return build_parts(
        configure([("recipe", MTMARL_SHARED_LAYERS), ("task", name), ("seed", seed), *pairs], task), task
    )


def _network() -> tuple[SharedDecisions, Tensor]:
    """Layers of two tasks whose sights are 3 and 5 long, in float64, and twelve rows of them by turns."""
    network = SharedDecisions(
        {"a": 3, "b": 5}, (4, 6), 2, frozen=False, activation="tanh", last_gain=1.0, key=Key.of(0)
    )
    draw, network = Key.of(1).numpy(), network.double()
    for weight in network.parameters():
        weight.data = torch.from_numpy(draw.normal(size=tuple(weight.shape)))
    rows = np.zeros((12, 7))
    for number, row in enumerate(rows):
        row[number % 2], row[2 : 5 + 2 * (number % 2)] = 1.0, draw.normal(size=3 + 2 * (number % 2))
    return network, torch.from_numpy(rows)


@claim("The choices are g(f_k(o)), in float64: f_k of the row's own task, and g the same for all.", "abstract")
def choices_are_the_shared_layers_of_the_tasks_own() -> Finding:
    network, rows = _network()
    weights = {name: weight.detach().numpy() for name, weight in network.named_parameters()}
    off = 0.0
    for row, outputs in zip(rows.numpy(), network(rows).detach().numpy(), strict=True):
        name, length = ("a", 3) if row[0] else ("b", 5)
        hidden = np.tanh(weights[f"own.{name}.weights.0"] @ row[2 : 2 + length] + weights[f"own.{name}.biases.0"])
        middle = np.tanh(weights["shared.weights.0"] @ hidden + weights["shared.biases.0"])
        expected = weights["shared.weights.1"] @ middle + weights["shared.biases.1"]
        off = max(off, float(np.abs(outputs - expected).max()))
    return below(EXACT, off=off)


@claim(
    "A task's own layer has no gradient from another task; the shared layers' is the sum of what each task gives "
    "alone, and with `frozen` there is none.",
    "abstract",
)
def gradients_meet_in_the_shared_layers_alone() -> Finding:
    network, rows = _network()
    target = torch.from_numpy(Key.of(2).numpy().normal(size=(12, 2)))

    def gradients(chosen: slice) -> dict[str, NDArray[np.float64]]:
        network.zero_grad()
        (network(rows[chosen]) - target[chosen]).square().sum().backward()
        return {
            name: np.zeros(tuple(weight.shape)) if weight.grad is None else weight.grad.numpy().copy()
            for name, weight in network.named_parameters()
        }

    first, second, both = gradients(slice(0, 12, 2)), gradients(slice(1, 12, 2)), gradients(slice(12))
    off = max(float(np.abs(first[name] + second[name] - both[name]).max()) for name in both)
    foreign = max(
        float(np.abs(gradient[name]).max())
        for gradient, other in ((first, "own.b"), (second, "own.a"))
        for name in gradient
        if name.startswith(other)
    )
    meets = all(
        np.abs(gradient[name]).max() > 0 for gradient in (first, second) for name in gradient if "shared" in name
    )
    network.shared.requires_grad_(False)
    still = [name for name, weight in gradients(slice(12)).items() if "shared" in name and weight.any()]
    return below(EXACT, foreign == 0.0, meets, not still, off=off)


@claim(
    "An episode is that of its own task, to the bit: what is seen, allowed, paid, and when it ends; tasks come by "
    "turns, and who is absent decides nothing.",
    "derived",
)
def an_episode_is_that_of_its_own_task() -> Finding:
    names, width = ("skirmish:2v3", "skirmish:4v3", "mpe:spread?agents=3"), 6
    worlds = [cast(JointTask, tasks.find(name)).world for name in names]
    mixed = cast(JointTask, tasks.find("together:skirmish:2v3+skirmish:4v3+mpe:spread")).world
    course, alone = mixed.open(width), [world.open(width) for world in worlds]
    seeds = [2 * number + number % 2 for number in range(width)]
    for copies in (course, *alone):
        copies.reset(range(width), seeds)
    draw, wrong, live, paid = Key.of(3).numpy(), 0, np.ones(width, bool), 0.0
    for _ in range(40):
        present = cast(Any, course.acting())
        masks = np.stack(cast(Any, course.allowed()))
        actions = [np.array([draw.choice(np.flatnonzero(row)) for row in mask]) for mask in masks]
        moved = course.step(actions, live)
        for number, (world, plain) in enumerate(zip(worlds, alone, strict=True)):
            team, mine = len(world.agents), live & (np.arange(width) % 3 == number)
            length, choices = world.seats[0].observations, world.seats[0].actions
            legal = plain.allowed() or [np.ones((width, choices), bool)] * team
            for agent in range(team):
                wrong += int((masks[agent][mine, :choices] != np.asarray(legal[agent])[mine]).sum())
                wrong += int(masks[agent][mine, choices:].sum())
            alike = plain.step([np.minimum(action, choices - 1) for action in actions[:team]], mine)
            for ours, theirs in ((moved.rewards, alike.rewards), (moved.terminated, alike.terminated)):
                wrong += int((ours[mine, :team] != theirs[mine]).sum())
            wrong += int((moved.truncated[mine, :team] != alike.truncated[mine]).sum())
            wrong += int((~moved.terminated[mine, team:]).sum()) + int((present[mine].sum(1) != team).sum())
            for agent, shown in enumerate(plain.seen()):
                sight = course.seen()[agent]
                wrong += int((sight[mine, 3 : 3 + length] != shown[mine]).sum())
                wrong += int((sight[mine, :3] != np.eye(3)[number]).sum()) + int(sight[mine, 3 + length :].any())
            paid += float(np.abs(alike.rewards[mine]).sum())
        live &= ~(moved.terminated | moved.truncated).all(1)
    return Finding(wrong == 0 and paid > 0, say(wrong=wrong, paid=paid))


@claim(
    "A new task reads the shared layers of a saved policy and begins its own anew; with `frozen` two steps of training "
    "leave the shared layers as they were, to the bit, and change its own.",
    "abstract",
)
def shared_layers_are_carried_and_kept() -> Finding:
    few = {"curriculum__prompts": 4, "update__epochs": 2}
    before, after = _policy(_parts(BOTH, 0, **few)), _parts(NEW, 1, hooks__0__frozen=True, **few)
    with tempfile.TemporaryDirectory() as folder:
        before.save(Path(folder))
        fresh = _weights(_policy(after))
        _policy(after).load(Path(folder))
    begun = _weights(_policy(after))
    for step in (1, 2):
        run_async(train_step(after, step))
    saved, learnt = _weights(before), _weights(_policy(after))
    shared = [name for name in begun if "actor.shared" in name]
    apart = [name for name in begun if "actor.own" in name]
    carried = all(torch.equal(begun[name], saved[name]) and torch.equal(learnt[name], saved[name]) for name in shared)
    anew = all(torch.equal(begun[name], fresh[name]) and not torch.equal(learnt[name], fresh[name]) for name in apart)
    return Finding(carried and anew and len(shared) == 6 and len(apart) == 2, say(carried=carried, anew=anew))


def _policy(parts: RunContext) -> ControlPolicy:
    return cast(ControlPolicy, parts.lead.policy)


def _weights(policy: ControlPolicy) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in policy.module.state_dict().items()}


# ---------------------------------------------------------------- learning


SEEDS, TAUGHT, STEPS = 2, 20, 14


@functools.cache
def _curve(kind: str, seed: int) -> tuple[float, ...]:
    """Mean returns of the steps of three against three: from the `carried` layers of two other tasks, from those with
    their weights `shuffled` within each matrix, both frozen, or from `scratch`."""
    frozen = kind != "scratch"
    parts = _parts(NEW, seed, curriculum__prompts=32, **({"hooks__0__frozen": True} if frozen else {}))
    if frozen:
        saved = _taught(seed)
        order = torch.Generator().manual_seed(seed)
        for name, weight in parts.lead.policy.module.named_parameters():
            if ".shared." in name:
                value = saved[name]
                if kind == "shuffled":
                    value = value.flatten()[torch.randperm(value.numel(), generator=order)].reshape(value.shape)
                weight.data.copy_(value)
    return _trained(parts, STEPS)


@functools.cache
def _taught(seed: int) -> dict[str, Tensor]:
    parts = _parts(BOTH, seed)
    _trained(parts, TAUGHT)
    return _weights(_policy(parts))


def _trained(parts: RunContext, steps: int) -> tuple[float, ...]:
    returns = []
    for step in range(1, steps + 1):
        result = run_async(train_step(parts, step))
        assert result.experience is not None
        returns.append(fmean(map(parts.task.success, result.experience.trajectories)))
    return tuple(returns)


@claim(
    "With shared layers of two against three and four against three, which stay as they are, three against three comes "
    "to 80 % of what 14 steps from scratch end with in at most half of the steps; with the same layers shuffled it "
    "takes no fewer steps than from scratch, to two (2 seeds; the 20 steps before not counted).",
    "abstract",
    slow=True,
)
def a_new_task_learns_in_half_the_steps() -> Finding:
    steps: dict[str, list[int]] = {"carried": [], "scratch": [], "shuffled": []}
    for seed in range(SEEDS):
        curves = {kind: _curve(kind, seed) for kind in steps}
        level = 0.8 * fmean(curves["scratch"][-3:])
        for kind, curve in curves.items():
            steps[kind].append(next((step for step, value in enumerate(curve, 1) if value >= level), STEPS + 1))
    pairs = list(zip(steps["carried"], steps["scratch"], steps["shuffled"], strict=True))
    holds = all(2 * fewer <= scratch and shuffled >= scratch - 2 for fewer, scratch, shuffled in pairs)
    return Finding(holds, say(**{kind: str(counts) for kind, counts in steps.items()}))


claim.learns(MTMARL_SHARED_LAYERS, task=BOTH, seeds=1)
claim.shipped(MTMARL_SHARED_LAYERS, "hooks")
