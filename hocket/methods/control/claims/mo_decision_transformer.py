"""The multi-objective decision transformer's claims."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.stored_rows import STEP, TO_GO
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.attention_by_hand import block, held, linear, normal
from hocket.lab.toys.drawn_rows import Array, policy_of, rows
from hocket.methods.base.decision_transformer import DECISION_TRANSFORMER
from hocket.methods.control.mo_decision_transformer.method import (
    MO_DECISION_TRANSFORMER,
    PredictedReturn,
    PredictingTransformer,
    region,
)
from hocket.methods.control.mo_decision_transformer.recorded import recorded
from hocket.methods.control.mo_decision_transformer.world import CrookedCorridor, arrived, begun, moved
from hocket.policies.control import ControlPolicy
from hocket.policies.wanted_returns import DecisionTransformer
from hocket.recipe import Recipe
from hocket.rollout.transitions import Transitions
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import train_step
from hocket.types import Quantity

claim = Claims("mo-decision-transformer", "arXiv:2308.16379")
FORTY = Path(__file__).parent.parent / "mo_decision_transformer" / "forty_episodes.npz"
SMALL = MO_DECISION_TRANSFORMER.but(
    **{"store.length": 3, "objective.policy.window": 3, "objective.policy.scale": 2.0, "objective.to_go": 0.3}
)
BARE = {"objective.state": 0.0, "objective.to_go": 0.0, "objective.policy.regions": 0}
BOTH = frozenset({Quantity.LOGP, Quantity.DYNAMICS})


@claim("Without weights of states and returns, and without regions, it is the decision transformer, to the last bit.")
def without_its_parts_it_is_the_decision_transformer() -> Finding:
    same = {"store.length": 3, "objective.policy.window": 3, "objective.policy.scale": 2.0}
    recipes, off, beside = (SMALL.but(BARE), DECISION_TRANSFORMER.but(same)), 0.0, 0.0
    for discrete in (False, True):
        made = [policy_of(recipe, discrete=discrete) for recipe in recipes]
        made[1].module.load_state_dict(made[0].module.state_dict(), strict=False)
        slopes = []
        for recipe, policy in zip(recipes, made, strict=True):
            batch = rows(recipe, discrete=discrete)
            loss = recipe.objective(policy.evaluate(batch, recipe.needs), batch).total()
            weights = dict(policy.module.named_parameters())
            got = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
            slopes.append({"loss": loss.detach(), **dict(zip(weights, got, strict=True))})
        for name, slope in slopes[0].items():
            if name in slopes[1]:
                off = max(off, float((slope - slopes[1][name]).abs().max()))
            elif slope is not None:
                beside = max(beside, float(slope.abs().max()))
    return Finding(off == 0 and beside == 0, say(off=off, heads=beside))


@claim(
    "Densities of actions, of next states and of returns are those of attention over returns, states, actions and "
    "regions, in float64, read at the state's token and where the decision before ended.",
    "section 3",
)
def densities_are_those_of_attention_over_four_kinds_of_tokens() -> Finding:
    off, predicted = 0.0, 0
    for regions in (0, 4):
        recipe = SMALL.but(**{"objective.policy.regions": regions})
        policy, batch = policy_of(recipe, discrete=False), rows(recipe, discrete=False)
        evaluation = policy.evaluate(batch, BOTH)
        logp, dynamics = (
            evaluation.logp.detach().double().numpy(),
            evaluation.get(Quantity.DYNAMICS).detach().double().numpy(),
        )
        action = batch.action.double().numpy()
        to_go = TO_GO.read(batch, "the claim").double().numpy() / 2
        sights = np.concatenate(batch.observation).astype(float)
        for number in range(batch.turns):
            mine = np.flatnonzero(batch.turn.numpy() == number)
            at_states, at_ends = _outputs(policy, batch, mine, regions)
            off = max(off, float(abs(_gaussian(at_states, action[mine], held(policy, "log_std")) + logp[mine]).max()))
            off = max(off, float(abs(dynamics[mine[0]]).max()))
            for place, row in enumerate(mine[1:]):
                truth, mean = np.append(sights[row], to_go[row]), at_ends[place]
                spread = held(policy, "spread")
                state = _gaussian(mean[None, :3], truth[None, :3], spread[:3])[0]
                of_return = _gaussian(mean[None, 3:], truth[None, 3:], spread[3:])[0]
                off = max(off, *abs(dynamics[row] - np.array([state, of_return])))
                predicted += 1
    return below(1e-4, predicted > 20, off=off)


@claim("The loss is the sum of the three mean losses by their weights; the first of a sequence adds nothing to two.")
def the_loss_is_the_weighted_sum_of_three() -> Finding:
    policy, batch = policy_of(SMALL, discrete=False), rows(SMALL, discrete=False)
    evaluation = policy.evaluate(batch, BOTH)
    terms = SMALL.objective(evaluation, batch)
    state, to_go = evaluation.get(Quantity.DYNAMICS).detach().double().numpy().T
    mean = -evaluation.logp.detach().double().numpy().mean()
    expected = mean + 0.1 * state.mean() + 0.3 * to_go.mean()
    off = abs(float(terms.total().detach()) - expected)
    shown = {name: float(value) for name, value in terms.metrics.items()}
    off = max(off, abs(shown["prediction/state"] - state.mean()), abs(shown["prediction/return"] - to_go.mean()))
    off = max(off, abs(shown["prediction/action"] - mean))
    blank = int((state == 0).sum())
    return below(1e-5, blank == batch.turns and abs(mean) > 0.1, off=off)


@claim("The cell of an action is that of a grid over the range; actions beyond it are in its outermost cells.")
def a_region_is_a_cell_of_the_grid() -> Finding:
    rng, wrong = np.random.default_rng(0), 0
    for cells in (2, 3, 4, 7):
        edges = np.linspace(-1, 1, cells + 1)[1:-1]
        action = np.concatenate([rng.uniform(-1.5, 1.5, (500, 2)), [[-1, 1], [1, -1], [0.99, -0.99]]]).astype(
            np.float32
        )
        shown = region(torch.from_numpy(action), cells).numpy().reshape(len(action), 2, cells)
        wrong += int((shown.argmax(-1) != (action[..., None] >= edges).sum(-1)).sum()) + int((shown.sum(-1) != 1).sum())
    return Finding(wrong == 0, say(wrong=wrong))


@claim("What a decision leads to is predicted from what came up to it: from its action, and from nothing after it.")
def predictions_read_nothing_that_they_predict() -> Finding:
    policy = policy_of(SMALL, discrete=False)
    network = cast(PredictingTransformer, policy.module.actor)
    windows = torch.randn(5, 3, sum(network.sizes), generator=Key.of(1).torch())
    windows[..., -1] = torch.arange(3.0)
    base, moves = network(windows), {}
    # An input is 3 numbers that are seen, the return, the 2 of the action before, and the place.
    for name, part in (("seen", slice(0, 3)), ("return", slice(3, 4)), ("before", slice(4, 6))):
        changed = windows.clone()
        changed[:, 2, part] += 0.7
        moves[name] = (network(changed) - base)[..., 2:].abs().amax((0, 2)).tolist()
    earlier = max(max(move[:2]) for move in moves.values())
    quiet = max(earlier, moves["seen"][2], moves["return"][2])
    return Finding(quiet < 1e-6 and moves["before"][2] > 1e-3, say(by_what_is_predicted=quiet, by=moves["before"][2]))


@claim("In play it reads what it was trained to read, over more decisions than its window holds.")
def what_is_played_is_what_is_learnt() -> Finding:
    recipe = SMALL.but(**{"store.length": 8})
    policy, batch = policy_of(recipe, discrete=False), rows(recipe, discrete=False, count=200)
    longest = max(range(batch.turns), key=lambda n: int((batch.turn == n).sum()))
    mine = torch.nonzero(batch.turn == longest).flatten()
    rng, count = np.random.default_rng(0), len(mine)
    sights, pays = rng.normal(size=(count, 1, 3)).astype(np.float32), rng.normal(size=count)
    carried, actions, played = np.zeros((1, policy.carries), np.float32), [], []
    cast(DecisionTransformer, policy.module.actor).wanted.fill_(float(pays.sum()))
    for t in range(count):
        action, logp = policy.sample(sights[t], rng.random((1, 2)), np.ones(1, np.float32), carried=carried)
        policy.paid(pays[t : t + 1], carried)
        actions.append(action[0])
        played.append(float(logp[0]))
    taken, observed = batch.action.clone(), list(batch.observation)
    taken[mine], observed[longest] = torch.from_numpy(np.stack(actions)), sights[:, 0]
    written = {name: batch.annotations[name].clone() for name in (TO_GO.name, STEP.name)}
    written[TO_GO.name][mine] = torch.from_numpy(np.cumsum(pays[::-1])[::-1].astype(np.float32).copy())
    written[STEP.name][mine] = torch.arange(count)
    learnt = replace(batch, action=taken, observation=observed, annotations={**batch.annotations, **written})
    then = policy.evaluate(learnt, frozenset({Quantity.LOGP})).logp[mine].detach()
    return below(5e-5, count > 3, off=float((then - torch.tensor(played)).abs().max()))


claim.refuses(
    "Choices have no regions.",
    lambda: policy_of(MO_DECISION_TRANSFORMER, discrete=True),
    "set objective.policy.regions to 0",
)
claim.refuses("One region is none.", lambda: PredictedReturn(regions=1), "0 or at least 2")


# ---------------------------------------------------------------- learning


KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "all": ({}, 5),
    "no regions": ({"objective.policy.regions": 0}, 3),
    "actions alone": (BARE, 5),
}
"""Settings, and how many seeds."""


@functools.cache
def _figures() -> dict[str, Array]:
    """By kind, for each seed: greedy and sampled return, losses of states and of returns on other episodes, `[N, 4]`;
    of the `data` the mean return, `[N]`."""
    with tempfile.TemporaryDirectory() as folder:
        unseen, result = Path(folder) / "unseen.npz", dict[str, list[Any]](data=[])
        np.savez(unseen, **recorded(40, Key.of(99)))  # type: ignore[arg-type]
        for seed in range(5):
            file, episodes = Path(folder) / f"{seed}.npz", recorded(100, Key.of(seed))
            np.savez(file, **episodes)  # type: ignore[arg-type]
            result["data"].append(float(episodes["rewards"].sum()) / 100)
            for name, (settings, seeds) in KINDS.items():
                if seed < seeds:
                    policy = trained(MO_DECISION_TRANSFORMER.but(settings), file, seed)
                    returns = [played(policy, temperature) for temperature in (0.0, 1.0)]
                    result.setdefault(name, []).append([*returns, *losses(policy, unseen)])
    return {name: np.array(figures) for name, figures in result.items()}


@claim(
    "Tokens of regions lower the loss of next states on other episodes on the mean over 3 seeds (predicted: in each).",
    "section 3.2",
    slow=True,
)
def regions_lower_the_loss_of_next_states() -> Finding:
    figures = _figures()
    pairs = {name: figures[name][:3, 2] for name in ("all", "no regions")}
    gaps = pairs["no regions"] - pairs["all"]
    return Finding(float(gaps.mean()) > 0, say(**{name: losses.tolist() for name, losses in pairs.items()}))


@claim(
    "With layers of 32 and 500 gradients on 100 episodes, it earns more than these on the mean, played greedily in "
    "unseen ones, and no less than the same network that predicts actions alone (5 seeds).",
    "table 1",
    slow=True,
    learns=True,
)
def it_earns_no_less_than_with_actions_alone() -> Finding:
    figures = _figures()
    ours, plain, data = figures["all"][:, 0], figures["actions alone"][:, 0], figures["data"]
    holds = float(ours.mean()) > float(data.mean()) and float(ours.mean()) >= float(plain.mean())
    return Finding(holds, say(ours=ours.tolist(), actions_alone=plain.tolist(), data=data.tolist()))


def trained(recipe: Recipe, file: Path, seed: int, steps: int = 5) -> ControlPolicy:
    """A policy that `hocket train --store.data FILE --network.hidden 32,32` gives."""
    world = tasks.find("crooked:point")
    pairs = [("task", "crooked:point"), ("recipe", recipe), ("seed", seed), ("network.hidden", "32,32")]
    parts = build_parts(configure([*pairs, ("store.data", str(file))], world), world)
    for step in range(1, steps + 1):
        run_async(train_step(parts, step))
    return cast(ControlPolicy, parts.lead.policy)


def losses(policy: ControlPolicy, file: Path) -> list[float]:
    """-log p of what follows, and of the return to come, a mean over predicted rows of other episodes."""
    store = Transitions(rows=32, length=5, begin=1, data=str(file))
    batch, actor = store.draw(store.init(), 600, Key.of(5)), cast(DecisionTransformer, policy.module.actor)
    wanted = actor.wanted.clone()
    with torch.no_grad():
        evaluation = policy.evaluate(batch, BOTH).get(Quantity.DYNAMICS)
    actor.wanted.copy_(wanted)
    means: list[float] = evaluation[(evaluation != 0).any(1)].mean(0).tolist()
    return means


def played(policy: ControlPolicy, temperature: float, count: int = 100) -> float:
    """The mean return of unseen episodes, where the best recorded return is wanted."""
    place, rng = begun(range(10**6, 10**6 + count)), Key.of(7).numpy()
    carried, live, earned = np.zeros((count, policy.carries), np.float32), np.ones(count, bool), np.zeros(count)
    for _ in range(CrookedCorridor().length):
        hot, luck = np.full(count, temperature, np.float32), rng.random((count, policy.draws))
        action, _ = policy.sample(place.astype(np.float32), luck, hot, carried=carried)
        place = moved(place, action.astype(np.float64))
        policy.paid(-np.ones(count), carried)
        earned -= live
        live = live & ~arrived(place)
    return float(earned.mean())


# ---------------------------------------------------------------- in float64


def _outputs(policy: ControlPolicy, batch: Batch, mine: NDArray[Any], regions: int) -> tuple[Array, Array]:
    """What is read at the states `[L, A]`, and where decisions end `[L - 1, O + 1]`, of a sequence."""
    action = np.clip(batch.action.double().numpy(), -1, 1)
    to_go = TO_GO.read(batch, "the claim").double().numpy() / 2
    step, sights = STEP.read(batch, "the claim").numpy(), np.concatenate(batch.observation).astype(float)
    tokens, kinds = [], 4 if regions else 3
    for number, row in enumerate(mine):
        place = held(policy, "times")[step[row]]
        tokens.append(linear(policy, "of_return", to_go[row : row + 1]) + place)
        tokens.append(linear(policy, "of_seen", sights[row]) + place)
        if number < len(mine) - 1:
            tokens.append(linear(policy, "of_action", action[row]) + place)
            if regions:
                cells = np.zeros((2, regions))
                cells[[0, 1], np.minimum((action[row] + 1) * regions / 2, regions - 1).astype(int)] = 1
                tokens.append(linear(policy, "of_region", cells.ravel()) + place)
    x = normal(policy, "first", np.stack(tokens))
    for layer in range(2):
        x = block(policy, f"blocks.{layer}.", x)
    x = normal(policy, "last", x)
    ends = x[kinds - 1 :: kinds]
    then = np.concatenate([linear(policy, "next_seen", ends), linear(policy, "next_return", ends)], -1)
    return linear(policy, "after", x)[1::kinds], then


def _gaussian(mean: Array, value: Array, log_std: Array) -> Array:
    """-log p of values `[L, D]`, `[L]`."""
    scaled = (value - mean) / np.exp(log_std)
    result: Array = (0.5 * scaled**2 + log_std + 0.5 * np.log(2 * np.pi)).sum(-1)
    return result


claim.shipped(
    MO_DECISION_TRANSFORMER,
    without={"objective.state": 0.0, "objective.to_go": 0.0},
    settings={"store.data": str(FORTY)},
    steps=2,
    sees=lambda run: {
        "fall of the state's loss": run.results[0].metrics["prediction/state"] - run.mean("prediction/state"),
        "fall of the return's loss": run.results[0].metrics["prediction/return"] - run.mean("prediction/return"),
    },
)
