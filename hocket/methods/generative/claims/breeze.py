"""BREEZE's claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.core.stored_rows import NOISE
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.drawn_rows import Array, Sizes, critics, numbers, perceptron, policy_of, reached, rows
from hocket.methods.base.bc import BC
from hocket.methods.generative.breeze.method import BREEZE, ForwardBackward
from hocket.methods.generative.breeze.world import GOALS, GoalRoom
from hocket.objectives.action_values import CriticLoss
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step

claim = Claims("breeze", "arXiv:2510.15382")
CLOSE = 1e-4
"""Of float32 beside float64, relative to numbers of order 1 to 10."""
STEPS, SAMPLES, FOLLOWERS, SIZE = 5, 64, 3, 4
"""The shipped steps of denoising, samples in play and in a backup; d of the small policy."""
SMALL = BREEZE.but(objective=CriticLoss(ForwardBackward(dimensions=SIZE), coefficient=0.0005))


@dataclass(frozen=True)
class Labelled(Sizes):
    """The spaces of a small task that labels 30 states."""

    def labelled(self) -> tuple[Array, Array]:
        rng = Key.of(1).numpy()
        return rng.normal(size=(30, 3)), rng.uniform(0, 1, 30)


def small(seed: int) -> ControlPolicy:
    """A policy whose slow copies have other weights than what they follow."""
    key = Key.of(seed)
    policy = ControlPolicy(Labelled(), key=key, network=NetworkSettings(hidden=(8, 8), activation="relu"))
    for part in SMALL.policy_parts:
        part.install(policy)
    policy.require(SMALL.needs)
    rng = key.derive("moved").torch()
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=rng))
    return policy


def sphere(vectors: Array) -> Array:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True) * np.sqrt(SIZE))


def backward(policy: ControlPolicy, name: str, seen: Array) -> Array:
    return sphere(perceptron(policy, f"{name}.network", seen))


def forward(policy: ControlPolicy, name: str, seen: Array, action: Array, task: Array) -> Array:
    """Both F, `[2, B, d]`, token by token."""
    tokens = [
        perceptron(policy, f"{name}.of_task", np.concatenate([seen, task], 1)),
        perceptron(policy, f"{name}.of_action", np.concatenate([seen, np.clip(action, -1, 1)], 1)),
    ]
    parts = [np.split(perceptron(policy, f"{name}.attend", token), 3, axis=1) for token in tokens]
    out = []
    for token, (query, _, _) in zip(tokens, parts, strict=True):
        score = np.stack([np.exp((query * key).sum(1) / np.sqrt(key.shape[1])) for _, key, _ in parts])
        score = score / score.sum(0)
        out.append(token + sum(share[:, None] * value for share, (_, _, value) in zip(score, parts, strict=True)))
    both = np.concatenate(out, 1)
    return np.stack([perceptron(policy, f"{name}.{head}", both) for head in ("first", "second")])


def value_of(policy: ControlPolicy, seen: Array, action: Array, task: Array) -> Array:
    """Q_z, `[B]`."""
    return np.asarray((forward(policy, "forward_map", seen, action, task) * task).sum(-1).min(0))


def remaining() -> Array:
    """The share of an action's variance left at each step, product of alphas."""
    return np.cumprod([np.exp(-0.1 / STEPS - 0.5 * 9.9 * (2 * t - 1) / STEPS**2) for t in range(1, STEPS + 1)])


def predicted(policy: ControlPolicy, seen: Array, task: Array, noisy: Array, step: Array) -> Array:
    return perceptron(policy, "actor.network", np.concatenate([seen, task, noisy, step[:, None] / STEPS], 1))


def denoised(policy: ControlPolicy, seen: Array, task: Array, normals: Array) -> Array:
    """Actions by normals `[B, steps, A]`."""
    left, x = remaining(), normals[:, 0]
    alpha = left / np.append(1.0, left[:-1])
    for step in (4, 3, 2, 1, 0):
        noise = predicted(policy, seen, task, x, np.full(len(seen), float(step)))
        x = (x - (1 - alpha[step]) / np.sqrt(1 - left[step]) * noise) / np.sqrt(alpha[step])
        x = np.clip(x + (np.sqrt(1 - alpha[step]) * normals[:, STEPS - step] if step else 0), -1, 1)
    return x


def best_of(policy: ControlPolicy, seen: Array, task: Array, normals: Array) -> Array:
    """The best action by Q_z of those of normals `[B, N, steps, A]`."""
    actions = np.stack([denoised(policy, seen, task, normals[:, n]) for n in range(normals.shape[1])])
    values = np.stack([value_of(policy, seen, action, task) for action in actions])
    return np.asarray(actions[values.argmax(0), np.arange(len(seen))])


def of_others(values: Array) -> Array:
    """The mean of each row without its diagonal."""
    return np.array([np.delete(row, place).mean() for place, row in enumerate(values)])


@claim(
    "Its losses are those of the paper, computed from the weights in float64: of visits by F and B with orthogonal B, "
    "of Q_z beside the reward of its task and V_z, of the expectile, and of the weighted denoiser.",
    "the authors' code",
)
def its_losses_are_those_of_the_paper() -> Finding:
    off = dict.fromkeys(("values", "visits", "expectile", "denoiser"), 0.0)
    for seed in range(3):
        policy, batch = small(seed), rows(SMALL, discrete=False, seed=seed)
        held, flat = numbers(batch), NOISE.read(batch, "the claim").double().flatten(1).numpy()
        sights, action, later, goes_on = (held[name] for name in ("seen", "action", "following", "goes_on"))
        then, ends = backward(policy, "backward_map", later), 3 + FOLLOWERS * STEPS * 2
        kind = torch.special.ndtr(torch.from_numpy(flat[:, ends + SIZE])).numpy()
        task = np.where(kind[:, None] < 0.5, np.roll(then, 1, 0), sphere(flat[:, ends : ends + SIZE]))
        both = forward(policy, "forward_map", sights, action, task)
        value, none = (both * task).sum(-1), np.zeros((len(sights), 0))
        state = critics(policy, "state_value", np.concatenate([sights, task], 1), none)[:, 0]
        state_then = critics(policy, "state_value", np.concatenate([later, task], 1), none)[:, 0]
        spread = np.linalg.inv(then.T @ then / len(then) + 1e-4 * np.eye(SIZE))
        target = (then @ spread * task).sum(1) + goes_on * state_then
        follow = best_of(policy, later, task, flat[:, 3:ends].reshape(-1, FOLLOWERS, STEPS, 2))
        slow = forward(policy, "slow_forward", later, follow, task) @ backward(policy, "slow_backward", later).T
        visits = np.zeros(len(sights))
        for visited in both @ then.T:
            visits += 0.5 * of_others((visited - goes_on[:, None] * slow.min(0)) ** 2) - np.diag(visited)
        product = then @ then.T
        visits += 10 * (of_others(product**2) - 2 * np.diag(product))
        gap = value.min(0) - state
        step = np.minimum(torch.special.ndtr(torch.from_numpy(flat[:, 2])).numpy() * STEPS // 1, STEPS - 1)
        left = remaining()[step.astype(int)][:, None]
        noisy = np.sqrt(left) * action + np.sqrt(1 - left) * flat[:, :2]
        error = ((predicted(policy, sights, task, noisy, step) - flat[:, :2]) ** 2).sum(1)
        expected = {
            "values": 0.0005 * ((value - target) ** 2).sum(0).mean(),
            "visits": visits.mean(),
            "expectile": (np.where(gap < 0, 0.01, 0.99) * gap**2).mean(),
            "denoiser": (np.minimum(np.exp(0.05 * gap), 100) * error).mean(),
        }
        evaluation = policy.evaluate(batch, SMALL.needs)
        for (name, wanted), loss in zip(expected.items(), SMALL.losses, strict=True):
            distance = abs(float(loss(evaluation, batch).total().detach()) - wanted) / max(0.1, abs(wanted))
            off[name] = max(off[name], distance)
    return below(CLOSE, **off)


@claim("Values move F alone, visits F and B, the expectile a value of state and task, imitation the denoiser.")
def each_loss_moves_its_own_part_alone() -> Finding:
    policy, batch = small(0), rows(SMALL, discrete=False)
    evaluation = policy.evaluate(batch, SMALL.needs)
    moved = [set(reached(policy, loss(evaluation, batch).total())) for loss in SMALL.losses]
    held = moved == [{"forward_map"}, {"forward_map", "backward_map"}, {"state_value"}, {"actor"}]
    return Finding(held, "; ".join(", ".join(sorted(part)) for part in moved))


@claim(
    "A goal's task is the mean of B over labelled states, each as often as it pays, of length sqrt(d); what acts for "
    "it is the best of 64 samples by Q_z, each denoised by hand in float64.",
    "section 4",
)
def what_acts_is_the_best_sample_for_the_labelled_goal() -> Finding:
    policy, rng = small(1), Key.of(2).numpy()
    states, paid = Labelled().labelled()
    task = sphere((paid[:, None] * backward(policy, "backward_map", states)).mean(0))
    sights = rng.normal(size=(20, 3)).astype(np.float32)
    uniforms = rng.uniform(1e-6, 1 - 1e-6, (20, policy.draws))
    action = policy.sample(sights, uniforms, np.ones(20, np.float32))[0].astype(np.float64)
    normals = torch.special.ndtri(torch.from_numpy(uniforms)).numpy().reshape(20, SAMPLES, STEPS, 2)
    wide, tasks = sights.astype(np.float64), np.tile(task, (20, 1))
    best = value_of(policy, wide, best_of(policy, wide, tasks, normals), tasks)
    actor: Any = policy.module.actor
    off = {"task": float(np.abs(actor.task().numpy() - task).max())}
    return below(10 * CLOSE, value=float(np.abs(value_of(policy, wide, action, tasks) - best).max()), **off)


def run_of(recipe: Recipe, goal: str, seed: int = 0) -> RunContext:
    """A run for a goal, as shipped."""
    task = GoalRoom(goal)
    pairs = [("task", task.name), ("recipe", recipe), ("seed", seed), ("threads", 1)]
    return build_parts(configure(pairs, task), task)


def module_of(parts: RunContext) -> Any:
    policy: Any = next(iter(parts.learners.values())).policy
    return policy.module


def weights_after(recipe: Recipe, steps: int) -> dict[str, torch.Tensor]:
    """The weights after so many steps for the first goal, which no loss reads."""
    parts = run_of(recipe, "northeast")
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    held: dict[str, torch.Tensor] = module_of(parts).state_dict()
    return held


def earned(recipe: Recipe, weights: dict[str, torch.Tensor], goal: str, named: str) -> float:
    """The mean greedy return of 20 unseen episodes for a goal, where another may have been named."""
    parts = run_of(recipe, goal)
    module = module_of(parts)
    module.load_state_dict(weights)
    if named != goal:
        states, paid = GoalRoom(named).labelled()
        module.actor.labelled = torch.from_numpy(states), torch.from_numpy(paid)
    play = evaluate(parts.task, parts.player, (), n=20, decoding=parts.decoding, key=Key.of(0), split="eval")
    return round(float(run_async(play).success), 1)


@claim(
    "With seed 0, 6 steps of `hocket train --recipe breeze`, which read no reward, serve each of four goals once its "
    "task is read from labelled states: unseen episodes earn above 10 for the goal that was named, below 2 before "
    "training, and on average below 4 where another was named. bc on the same records earns less than half for each.",
    "abstract",
    slow=True,
    learns=True,
)
def as_shipped_it_serves_goals_that_are_named_after_training() -> Finding:
    clone = BC.but(store=BREEZE.store)
    before, after, cloned = weights_after(BREEZE, 0), weights_after(BREEZE, 6), weights_after(clone, 6)
    first = [earned(BREEZE, before, goal, goal) for goal in GOALS]
    mine = [earned(BREEZE, after, goal, goal) for goal in GOALS]
    other = [earned(BREEZE, after, goal, named) for goal in GOALS for named in GOALS if named != goal]
    clones = [earned(clone, cloned, goal, goal) for goal in GOALS]
    better = all(2 * low < high for low, high in zip(clones, mine, strict=True))
    held = better and max(first) < 2 and min(mine) > 10 and np.mean(other) < 4
    return Finding(bool(held), f"{first} to {mine}, {say(others=float(np.mean(other)))}, bc {clones}")


def too_few() -> Any:
    """An evaluation of rows with few normals."""
    batch = rows(SMALL, discrete=False)
    fewer = {**batch.annotations, NOISE.name: batch.annotations[NOISE.name][:, :2]}
    return small(0).evaluate(batch.but(annotations=fewer), SMALL.needs)


claim.refuses("A store that draws too few normals is refused.", too_few, "store.noises to 19")
claim.refuses("A task that labels no states is refused.", lambda: policy_of(SMALL, discrete=False), "labels none")
claim.refuses("No samples are none to choose from.", lambda: ForwardBackward(samples=0), "at least 1")
claim.shipped(BREEZE, without={"regularisers.0.orthogonality": 0.0, "regularisers.2.beta": 0.0})
