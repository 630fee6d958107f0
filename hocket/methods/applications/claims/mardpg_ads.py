"""Claims about scenarios that learn jointly."""

from __future__ import annotations

import functools
import itertools
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions
from hocket.core.stored_rows import FOLLOWING, GOES_ON, PAID
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.claims.shipped_check import configured
from hocket.lab.toys.drawn_rows import reached
from hocket.lab.toys.measured_runs import returns
from hocket.lab.toys.team_rows import policies_of
from hocket.methods.applications.mardpg_ads.method import MARDPG_ADS
from hocket.methods.applications.mardpg_ads.scenarios import ENTRY, FADES, SCENARIOS, Campaign, Sessions
from hocket.methods.applications.mardpg_ads.session import UNITS
from hocket.policies.control import ControlPolicy
from hocket.recipe import Recipe
from hocket.rollout.joint_transitions import JointTransitions
from hocket.train.aio import run_async
from hocket.train.annotate import annotate
from hocket.train.assemble import build_parts
from hocket.types import Assignment

claim = Claims("mardpg-ads", "arXiv:2407.02759, the formula as recalled; the campaign is our own")

Array = NDArray[np.float64]
ALONE = MARDPG_ADS.but(**{"objective.values.central": False, "objective.values.messages": False})
SILENT = MARDPG_ADS.but(**{"objective.values.messages": False})
LENGTH, GAMMA = Campaign().length, 0.9


# ---------------------------------------------------------------- the losses


@functools.cache
def _rows() -> Batch:
    """Rows of sessions that the recipe plays before it learns."""
    task = tasks.find("campaign")
    parts = build_parts(configured(MARDPG_ADS, "campaign", task, {}), task)
    played = run_async(
        parts.player.play([Assignment(task.scenario("train", number)) for number in range(6)], key=Key.of(0))
    )
    batch = pack(played)
    store = JointTransitions(size=100, rows=4, begin=0, gamma=GAMMA)
    state = store.add(store.init(), paid_at_decisions(batch, batch.scores["reward"].values))
    drawn = store.draw(state, 16, Key.of(1))
    return drawn.but(occurrences=MARDPG_ADS.credit(drawn))


def _prepared(recipe: Recipe) -> tuple[dict[str, ControlPolicy], Batch]:
    """A policy of each scenario, its weights moved at random, and rows with the columns that both fill."""
    policies, batch = policies_of(recipe, shared=False, world=Campaign()), _rows()
    for policy in policies.values():
        batch = annotate(batch, recipe.reads, policy, None, later=True)
    return policies, batch


def _loss(recipe: Recipe, policy: ControlPolicy, batch: Batch) -> dict[str, torch.Tensor]:
    mine = batch.of_policy(policy.name)
    evaluation = policy.evaluate(mine, recipe.needs)
    return {type(loss).__name__: loss(evaluation, mine).total() for loss in recipe.losses}


def _weights(policy: ControlPolicy, prefix: str) -> list[Array]:
    held = policy.module.state_dict()
    return [held[f"{prefix}.{n}"].double().numpy() for n in range(sum(key.startswith(f"{prefix}.") for key in held))]


def _summary(policy: ControlPolicy, network: str, logs: Array) -> Array:
    """The LSTM's output after the entries of each log, `[R, UNITS]`, entry by entry."""
    into, onward, first, second = _weights(policy, f"{network}.summary.weights")
    state, cell = np.zeros((len(logs), UNITS)), np.zeros((len(logs), UNITS))
    for row in np.moveaxis(logs, 1, 0):
        gates = row @ into.T + first + state @ onward.T + second
        opens, keeps, fresh, shows = np.split(gates, 4, 1)
        new = _sigmoid(keeps) * cell + _sigmoid(opens) * np.tanh(fresh)
        filled = row[:, :1] > 0
        cell, state = np.where(filled, new, cell), np.where(filled, _sigmoid(shows) * np.tanh(new), state)
    return state


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _read(policy: ControlPolicy, network: str, sights: list[Array], more: list[Array], *, messages: bool) -> Array:
    """What a network gives for what some agents see, `[R, .]`, and for other numbers."""
    parts: list[Array] = []
    for sight in sights:
        log = sight[:, 3:].reshape(len(sight), LENGTH, 1 + 2 * ENTRY).copy()
        log[..., 1 + ENTRY :] *= messages
        parts += [sight[:, :3], _summary(policy, network, log)]
    x = np.concatenate([*parts, *more], 1)
    weights, biases = (_weights(policy, f"{network}.after.{name}") for name in ("weights", "biases"))
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = x @ weight.T + bias
        x = np.maximum(x, 0) if place < len(weights) - 1 else x
    return x


def _by_hand(policies: dict[str, ControlPolicy], me: int, batch: Batch, *, joint: bool) -> dict[str, float]:
    """The losses of one agent, from the weights, in float64."""
    count, policy = batch.trajectories, policies[SCENARIOS[me]]
    column = {
        each.name: each.read(batch, "the claim").double().numpy().reshape(2, count, -1)
        for each in (FOLLOWING, GOES_ON, PAID)
    }
    sight = [np.asarray(batch.observation[k], np.float64) for k in range(2)]
    alive = column["goes_on"] > 0
    later = [column["following"][k] * (alive[k] if joint else 1) for k in range(2)]
    acted = list(np.clip(batch.action.double().numpy().reshape(2, count, 1), -1, 1))
    each = [
        np.tanh(_read(policies[name], "slow_actor.body", [column["following"][k]], [], messages=joint)) * alive[k]
        for k, name in enumerate(SCENARIOS)
    ]
    number = np.tile(np.eye(2)[me], (count, 1))

    def value(network: str, sights: list[Array], actions: list[Array]) -> Array:
        chosen = (sights, actions) if joint else ([sights[me]], [actions[me]])
        return _read(policy, f"{network}.reader", chosen[0], [*chosen[1], number], messages=joint)[:, 0]

    paid = column["paid"].mean(0)[:, 0] if joint else column["paid"][me][:, 0]
    target = paid + column["goes_on"][me][:, 0] * value("slow", later, each)
    outputs = _read(policy, "actor.body", [sight[me]], [], messages=joint)
    fresh = [*acted]
    fresh[me] = np.tanh(outputs)
    return {
        "TeamCriticLoss": float(((value("critics", sight, acted) - target) ** 2).mean()),
        "PathwiseLoss": float((0.01 * outputs[:, 0] ** 2 - value("critics", sight, fresh)).mean()),
    }


@claim(
    "Its losses are those of the formula, with the LSTMs unrolled entry by entry from all agents' weights in float64; "
    "so are those of agents alone."
)
def its_losses_are_those_of_the_formula() -> Finding:
    off: dict[str, float] = {}
    for name, recipe in (("joint", MARDPG_ADS), ("alone", ALONE)):
        policies, batch = _prepared(recipe)
        for me, agent in enumerate(SCENARIOS):
            losses = _loss(recipe, policies[agent], batch)
            for kind, expected in _by_hand(policies, me, batch, joint=name == "joint").items():
                off[f"{name}_{agent}_{kind}"] = abs(float(losses[kind].detach()) - expected)
    return below(5e-5, **off)


@claim(
    "The actor's gradient through the critic is that of differences of the losses by hand; the critic's moves it not."
)
def the_actors_gradient_is_one_of_differences() -> Finding:
    policies, batch = _prepared(MARDPG_ADS)
    off, largest, parts = 0.0, 0.0, []
    for me, agent in enumerate(SCENARIOS):
        losses = _loss(MARDPG_ADS, policies[agent], batch)
        parts += [reached(policies[agent], losses[kind]) for kind in ("TeamCriticLoss", "PathwiseLoss")]
        actor = list(policies[agent].module.actor.parameters())
        gradients = torch.autograd.grad(losses["PathwiseLoss"], actor)
        for weight, gradient in zip(actor, gradients, strict=True):
            place, step, moved = int(gradient.abs().argmax()), 1e-3, []
            for sign in (1, -1):
                with torch.no_grad():
                    weight.view(-1)[place] += sign * step
                    moved.append(_by_hand(policies, me, batch, joint=True)["PathwiseLoss"])
                    weight.view(-1)[place] -= sign * step
            slope = float(gradient.view(-1)[place])
            off, largest = max(off, abs((moved[0] - moved[1]) / (2 * step) - slope)), max(largest, abs(slope))
    expected = [frozenset({"critics"}), frozenset({"actor"})] * 2
    return Finding(off < 0.01 * largest and parts == expected, say(off=off, largest=largest))


@claim("An entry of the other agent changes what an agent does, and with messages off it changes nothing.")
def messages_are_the_others_entries() -> Finding:
    changes = {}
    for name, recipe in (("with", MARDPG_ADS), ("without", SILENT)):
        policy = policies_of(recipe, shared=False, world=Campaign())["search"]
        sight = torch.from_numpy(np.asarray(_rows().observation[1], np.float32))
        other = sight.clone()
        other.view(len(other), -1)[:, 3:].view(len(other), LENGTH, -1)[..., 1 + ENTRY :] += 0.5
        with torch.no_grad():
            changes[name] = float((policy.module.actor(sight) - policy.module.actor(other)).abs().max())
    return Finding(changes["without"] == 0 and changes["with"] > 1e-3, say(**changes))


# ---------------------------------------------------------------- the world


@claim("A session by hand: shares, clicks, interest and both budgets; spend never exceeds the budget.")
def a_session_by_hand() -> Finding:
    off, short = 0.0, 0
    for k, seed in itertools.product((0.0, 0.4, 1.0), range(10)):
        world, draw = Campaign(interaction=k, budget=0.15), Key.of(seed).derive("bids").numpy()
        book = cast(Sessions, world.open(1))
        book.reset([0], [seed])
        rates, total = book.rates[0], 0.15 * LENGTH
        private, common, interest, spend = [(1 - k) * total / 2] * 2, k * total, 0.0, 0.0
        for moment in range(LENGTH):
            actions = draw.uniform(-1.2, 1.2, 2)
            bids = [min(max((action + 1) / 2, 0.0), 1.0) for action in actions]
            needs = [max(bid * bid / 2 - held, 0.0) for bid, held in zip(bids, private, strict=True)]
            part = 1.0 if sum(needs) <= common else common / sum(needs)
            short += part < 1
            costs = [
                min(bid * bid / 2, held) + need * part for bid, held, need in zip(bids, private, needs, strict=True)
            ]
            shares = [2 * cost / bid if bid else 0.0 for cost, bid in zip(costs, bids, strict=True)]
            clicks = [shares[0] * rates[moment, 0], shares[1] * rates[moment, 1] * (1 - k + 2 * k * interest)]
            moved = book.step([np.array([[action]]) for action in actions], np.ones(1, bool))
            private = [max(held - bid * bid / 2, 0.0) for bid, held in zip(bids, private, strict=True)]
            common, spend = common - sum(need * part for need in needs), spend + sum(costs)
            interest = FADES * interest + (1 - FADES) * shares[0]
            off = max(off, float(np.abs(moved.rewards[0] - clicks).max()), spend - total)
            off = max(off, abs(float(book.interest[0]) - interest), abs(float(book.common[0]) - common))
    return Finding(off < 1e-9 and short > 10, say(off=off, moments_of_want=short))


@claim(
    "At interaction 0 nothing that the feed does changes what the search earns; at 1 it does, later and not at once."
)
def at_interaction_0_scenarios_are_apart() -> Finding:
    changes: dict[float, Array] = {}
    for k in (0.0, 1.0):
        earned = []
        for first in (-1.0, 0.0):
            book = Campaign(interaction=k, budget=0.5).open(50)
            book.reset(range(50), range(50))
            feed, search = np.full((50, 1), first), np.full((50, 1), -0.4)
            paid = [
                book.step([feed if moment == 0 else np.full((50, 1), -0.6), search], np.ones(50, bool)).rewards[:, 1]
                for moment in range(LENGTH)
            ]
            earned.append(np.stack(paid, 1))
        changes[k] = np.abs(earned[0] - earned[1]).max(0)
    holds = changes[0.0].max() == 0 and changes[1.0][0] == 0 and changes[1.0][1:].min() > 0.01
    return Finding(bool(holds), say(apart=float(changes[0.0].max()), later=changes[1.0].round(4).tolist()))


# ---------------------------------------------------------------- what is learnt


@functools.cache
def _learnt(which: str, interaction: int) -> list[tuple[float, float]]:
    """Mean clicks of a scenario in unseen sessions before and after the run that ships, in each of 2 seeds."""
    recipe = {"joint": MARDPG_ADS, "alone": ALONE, "silent": SILENT}[which]
    return [returns(recipe, f"campaign?interaction={interaction}", seed, 200) for seed in range(2)]


@claim(
    "`hocket train --recipe mardpg-ads` at interaction 1 ends with 1.8 times the clicks with which it begins, and a "
    "fifth more than two agents alone at equal samples, in each of 2 seeds.",
    "abstract",
    slow=True,
    learns=True,
)
def where_scenarios_interact_joint_learning_earns_more() -> Finding:
    joint, alone = _learnt("joint", 1), _learnt("alone", 1)
    starts, ends, others = [start for start, _ in joint], [end for _, end in joint], [end for _, end in alone]
    holds = all(end > 1.8 * start and end > 1.2 * other for start, end, other in zip(starts, ends, others, strict=True))
    return Finding(holds, say(joint=ends, alone=others, at_first=starts))


@claim(
    "At interaction 0 both end within a tenth of each other, as a mean of 2 seeds, with 1.3 times the clicks with "
    "which they begin.",
    "abstract",
    slow=True,
)
def where_scenarios_are_apart_both_earn_the_same() -> Finding:
    joint, alone = _learnt("joint", 0), _learnt("alone", 0)
    ends = [[end for _, end in runs] for runs in (joint, alone)]
    rises = all(end > 1.3 * start for start, end in (*joint, *alone))
    gap = float(np.mean(ends[0]) / np.mean(ends[1]) - 1)
    return Finding(rises and abs(gap) < 0.1, say(joint=ends[0], alone=ends[1], gap=gap))


@claim(
    "That messages pay was not seen: with the agents' own entries alone and the joint critic it ends with clicks "
    "within a fifth of those with messages, as a mean of 2 seeds at interaction 1.",
    slow=True,
)
def that_messages_pay_is_not_seen() -> Finding:
    joint, silent = ([end for _, end in _learnt(which, 1)] for which in ("joint", "silent"))
    gap = float(np.mean(silent) / np.mean(joint) - 1)
    return Finding(abs(gap) < 0.2, say(messages=joint, silent=silent, gap=gap))


claim.shipped(MARDPG_ADS, without={"objective.values.messages": False}, steps=12)
