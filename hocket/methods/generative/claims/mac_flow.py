"""MAC-Flow's claims."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.stored_rows import FOLLOWING, GOES_ON, NOISE, TEAM_PAID
from hocket.core.worlds import Seat
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.toys.drawn_rows import Array, critics, perceptron, policy_of, reached
from hocket.lab.toys.measured_runs import learnt
from hocket.lab.toys.team_rows import Trio, policies_of
from hocket.methods.base.bc import BC
from hocket.methods.generative.mac_flow.method import MAC_FLOW, FlowDistillation, JointFlow, OneStep, TeamFlow
from hocket.methods.generative.mac_flow.records import RecordedTeams
from hocket.methods.generative.mac_flow.world import RECORDS
from hocket.policies.control import ControlPolicy
from hocket.types import Quantity

claim = Claims("mac-flow", "arXiv:2511.05005")
CLOSE = 5e-5
"""Of float32 beside float64, relative to numbers of order 1 to 10."""
AGENTS, SIGHT, ACTIONS, STEPS, ALPHA = 3, 6, 2, 10, 0.3
"""Of the small team: what each sees has its one-hot number at the end; the shipped steps of the flow, and alpha."""


@dataclass(frozen=True)
class Vectors(Trio):
    """The spaces of three agents whose actions are vectors."""

    seats: tuple[Seat, ...] = (Seat(SIGHT - AGENTS, ACTIONS, discrete=False),) * AGENTS


@dataclass(frozen=True)
class Pair(Vectors):
    """The spaces of two agents whose actions are one number."""

    agents: tuple[str, ...] = ("a", "b")
    seats: tuple[Seat, ...] = (Seat(1, 1, discrete=False),) * 2


def store_of(columns: dict[str, Any]) -> tuple[RecordedTeams, Any]:
    """The shipped store with a file of these arrays, and its memory."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "d.npz", **columns)
        store = replace(cast(RecordedTeams, MAC_FLOW.store), data=str(Path(folder) / "d.npz"), size=5000)
        return store, store.init()


def team_rows(seed: int, count: int = 16) -> Batch:
    """Drawn rows of three agents in random episodes, half of which end and half of which are cut."""
    rng, size = Key.of(seed).derive("rows").numpy(), 40
    sights = rng.normal(size=(size, AGENTS, SIGHT))
    sights[..., SIGHT - AGENTS :] = np.eye(AGENTS)
    over = np.arange(size) % 5 == 4
    ended = over & (np.arange(size) % 2 == 0)
    columns = {"observations": sights, "next_observations": np.roll(sights, -1, 0) + 0.1}
    columns |= {"actions": rng.uniform(-1, 1, (size, AGENTS, ACTIONS)), "rewards": rng.normal(size=(size, AGENTS))}
    store, state = store_of(columns | {"terminations": ended, "truncations": over & ~ended})
    batch = store.draw(state, count, Key.of(seed).derive("draw"))
    return batch.but(occurrences=MAC_FLOW.credit(batch))


def team(seed: int) -> ControlPolicy:
    return policies_of(MAC_FLOW, shared=True, seed=seed, world=Vectors())["policy"]


def by_agent(batch: Batch, column: torch.Tensor) -> Array:
    """A column of decisions by row and agent, in float64, `[R, n, ..]`."""
    values = column.double().numpy()
    return np.stack([values[(batch.agent[batch.turn] == agent).numpy()] for agent in range(AGENTS)], 1)


def of_each(name: str, policy: ControlPolicy, sights: Array, actions: Array) -> Array:
    """Values by row, agent and critic, one by one, `[R, n, K]`."""
    return np.stack([critics(policy, name, sights[:, k], actions[:, k]) for k in range(sights.shape[1])], 1)


def stepped(policy: ControlPolicy, sights: Array, noise: Array) -> Array:
    """The actions of one step by agent, `[R, n, A]`."""
    parts = [
        perceptron(policy, "actor.network", np.concatenate([sights[:, k], noise[:, k]], 1))
        for k in range(sights.shape[1])
    ]
    return np.stack(parts, 1)


def velocities(policy: ControlPolicy, sights: Array, noisy: Array, level: Array) -> Array:
    """Of the joint flow, `[R, n, A]`."""
    joint = np.concatenate([sights.reshape(len(sights), -1), noisy.reshape(len(sights), -1), level[:, None]], 1)
    return perceptron(policy, "flow.network", joint).reshape(noisy.shape)


def flowed(policy: ControlPolicy, sights: Array, noise: Array) -> Array:
    """The joint flow's actions by Euler's steps, `[R, n, A]`."""
    action = noise
    for step in range(STEPS):
        action = action + velocities(policy, sights, action, np.full(len(sights), step / STEPS)) / STEPS
    return np.clip(action, -1, 1)


@claim(
    "Its losses are those of the paper and of the authors' code, computed from the weights in float64: of the team's "
    "mean of values, of policies of one step by values, and of the joint flow with the distance of policies from it.",
    "the authors' code, with the paper's joint flow",
)
def its_losses_are_those_of_the_paper() -> Finding:
    off = dict.fromkeys(("values", "policies", "flow"), 0.0)
    for seed in range(3):
        policy, batch = team(seed), team_rows(seed)
        sights = np.stack([np.asarray(rows, np.float64) for rows in batch.observation], 1)
        action, noise = by_agent(batch, batch.action), by_agent(batch, batch.annotations[NOISE.name])
        later, goes_on = (by_agent(batch, batch.annotations[column.name]) for column in (FOLLOWING, GOES_ON))
        paid = by_agent(batch, batch.annotations[TEAM_PAID.name])[:, 0]
        then = of_each("slow", policy, later, stepped(policy, later, noise[:, :, 3])).mean((1, 2))
        target = paid + goes_on[:, 0] * then
        recorded = of_each("critics", policy, sights, action).mean(1)
        fresh = stepped(policy, sights, noise[:, :, 2])
        value = of_each("critics", policy, sights, fresh).mean((1, 2))
        level = torch.special.ndtr(torch.from_numpy(noise[:, 0, 1, 0])).numpy()
        normal, mixed = noise[:, :, 0], level[:, None, None]
        error = velocities(policy, sights, (1 - mixed) * normal + mixed * action, level) - (action - normal)
        distance = fresh - flowed(policy, sights, noise[:, :, 2])
        expected = {
            "values": 0.5 * ((recorded - target[:, None]) ** 2).sum(1).mean(),
            "policies": -value.mean() / np.abs(value).mean(),
            "flow": ((error**2).sum(2) + ALPHA * (distance**2).sum(2)).mean(),
        }
        evaluation = policy.evaluate(batch, MAC_FLOW.needs)
        for (name, wanted), loss in zip(expected.items(), MAC_FLOW.losses, strict=True):
            gap = abs(float(loss(evaluation, batch).total().detach()) - wanted) / max(1.0, abs(wanted))
            off[name] = max(off[name], gap)
    return below(CLOSE, **off)


@claim("Values move critics alone, policies of one step follow values and the flow, and no value reaches the flow.")
def each_loss_moves_its_own_part_alone() -> Finding:
    policy, batch = team(0), team_rows(0)
    evaluation = policy.evaluate(batch, MAC_FLOW.needs)
    losses = (*MAC_FLOW.losses, FlowDistillation(alpha=0.0))
    moved = [reached(policy, loss(evaluation, batch).total()) for loss in losses]
    target = evaluation.get(Quantity.BACKUP).requires_grad
    held = moved == [{"critics"}, {"actor"}, {"flow", "actor"}, {"flow"}] and not target
    return Finding(held, "; ".join(", ".join(sorted(part)) for part in moved))


@claim(
    "Of 64 joint actions, four of each of three agents, the best by the team's value is made of each agent's best by "
    "its own, in all of 16 states.",
    "individual and global maxima",
)
def the_teams_best_is_each_agents_best() -> Finding:
    policy, batch = team(1), team_rows(1)
    sights = np.stack([np.asarray(rows, np.float64) for rows in batch.observation], 1)
    choices = Key.of(5).numpy().uniform(-1, 1, (4, AGENTS, ACTIONS))
    values = []
    every = list(itertools.product(range(4), repeat=AGENTS))
    for picked in every:
        action = np.stack([choices[number, agent] for agent, number in enumerate(picked)])
        column = torch.from_numpy(np.repeat(action.astype(np.float32), batch.trajectories, 0))
        evaluation = policy.evaluate(batch.but(action=column), frozenset({Quantity.ACTION_VALUE}))
        values.append(by_agent(batch, evaluation.get(Quantity.ACTION_VALUE).detach())[:, 0].mean(1))
    best = np.array(every)[np.stack(values, 1).argmax(1)]
    alone = [
        of_each("critics", policy, sights, np.repeat(choices[None, number], len(sights), 0)).mean(2)
        for number in range(4)
    ]
    apart = np.stack(alone).argmax(0)
    same = float((best == apart).all(1).mean())
    return Finding(same == 1.0 and len(np.unique(apart)) > 1, say(same=same))


@claim(
    "What acts is one pass of one network by what the agent itself sees and noise of its own, computed in float64; "
    "others' sights and noise leave it as it is. The flow takes ten passes.",
    "abstract",
)
def what_acts_is_one_step_of_each_agents_own() -> Finding:
    policy, rng = team(2), Key.of(3).numpy()
    sights = rng.normal(size=(50, SIGHT)).astype(np.float32)
    uniforms = rng.uniform(0.01, 0.99, (50, policy.draws))
    passes: list[str] = []
    flow, actor = cast(JointFlow, policy.module.flow), cast(OneStep, policy.module.actor)
    for name, part in (("flow", flow), ("actor", actor)):
        part.network.register_forward_hook(lambda *_, name=name: passes.append(name))
    action = policy.sample(sights, uniforms, np.ones(50, np.float32))[0]
    first = list(passes)
    flow.flowed(torch.zeros(1, AGENTS * SIGHT), torch.zeros(1, AGENTS * ACTIONS))
    sights[1:], uniforms[1:] = 0.0, 0.5
    again = policy.sample(sights, uniforms, np.ones(50, np.float32))[0]
    normal = torch.special.ndtri(torch.from_numpy(uniforms[:1])).numpy()[:, None]
    mine = np.clip(stepped(policy, sights[:1, None].astype(np.float64), normal), -1, 1)[0, 0]
    off = float(np.abs(action[0] - mine).max())
    held = first == ["actor"] and passes.count("flow") == STEPS and np.array_equal(action[0], again[0])
    return Finding(held and off < CLOSE, say(off=off, passes=len(first), of_the_flow=passes.count("flow")))


def two_modes(count: int = 1000) -> dict[str, Any]:
    """Single moments of a pair: both act near 0.6, which pays 1, or both near -0.6, which pays half, by chance."""
    rng = Key.of(4).numpy()
    side = rng.choice([-1.0, 1.0], count)
    action = 0.6 * side[:, None, None] + 0.05 * rng.normal(size=(count, 2, 1))
    sights = np.concatenate([np.zeros((count, 2, 1)), np.broadcast_to(np.eye(2), (count, 2, 2))], 2)
    columns = {"observations": sights, "next_observations": sights, "actions": action}
    paid = np.repeat(np.where(side > 0, 1.0, 0.5)[:, None], 2, 1)
    return {**columns, "rewards": paid, "terminations": np.ones(count, bool), "truncations": np.zeros(count, bool)}


def shares(*, valued: bool) -> dict[str, float]:
    """Of joint actions: where two sides mix, by the flow and by policies of one step; where policies take the better.

    Trained 400 gradients on single moments, with the losses as shipped or without those of values.
    """
    policy: Any = policies_of(MAC_FLOW, shared=True, world=Pair())["policy"]
    losses = MAC_FLOW.losses if valued else [loss for loss in MAC_FLOW.losses if isinstance(loss, FlowDistillation)]
    needs = frozenset[Quantity]().union(*(loss.needs for loss in losses))
    optimiser = torch.optim.Adam(policy.module.parameters(), 5e-3)
    store, state = store_of(two_modes())
    for step in range(400):
        batch = store.draw(state, 128, Key.of(step).derive("drawn"))
        batch = batch.but(occurrences=MAC_FLOW.credit(batch))
        evaluation = policy.evaluate(batch, needs)
        optimiser.zero_grad()
        loss = torch.stack([part(evaluation, batch).total() for part in losses]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    noise = torch.from_numpy(Key.of(7).numpy().normal(size=(1000, 2, 1)).astype(np.float32))
    sights = torch.cat([torch.zeros(1000, 2, 1), torch.eye(2).expand(1000, 2, 2)], 2)
    with torch.no_grad():
        joint = policy.module.flow.flowed(sights.flatten(1), noise.flatten(1))
        acted = policy.module.actor.action(sights.flatten(0, 1), noise.flatten(0, 1)).reshape(1000, 2)
    mixed, of_policies = (float((pair[:, 0] * pair[:, 1] < 0).float().mean()) for pair in (joint, acted))
    better, far = float((acted > 0).all(1).float().mean()), float(acted.abs().clamp(max=1).mean())
    return {"flow": mixed, "policies": of_policies, "better": better, "far": far}


@claim(
    "Where a pair was recorded at either of two places equally often, the joint flow mixes the two in less than a "
    "tenth of its samples. Distilled without values, policies of one step mix them in more than four of ten, as "
    "independent ones would. With values they take the place that pays more in more than nine of ten.",
    "abstract",
)
def the_flow_keeps_both_modes_and_values_choose_one() -> Finding:
    alone, valued = shares(valued=False), shares(valued=True)
    held = max(alone["flow"], valued["flow"]) < 0.1 and alone["policies"] > 0.4
    return Finding(
        held and valued["better"] > 0.9 and valued["policies"] < 0.1, f"{say(**alone)}; valued {say(**valued)}"
    )


@claim(
    "8 steps of `hocket train --recipe mac-flow` bring the greedy return of unseen episodes from below 0.05 to above "
    "0.55 in each of 2 seeds; bc on the same records and networks ends below 0.45, and the records earn 0.36.",
    "abstract",
    slow=True,
    learns=True,
)
def as_shipped_it_earns_more_than_the_records_and_their_clone() -> Finding:
    task = tasks.find("meeting:pair")
    mine, clones = (
        [learnt(recipe, task, seed, 8) for seed in (0, 1)] for recipe in (MAC_FLOW, BC.but(store=MAC_FLOW.store))
    )
    with np.load(RECORDS) as rows:
        recorded = float(rows["rewards"][:, 0].sum() / rows["truncations"].sum())
    after, of_clones = [run[1] for run in mine], [run[1] for run in clones]
    held = max(run[0] for run in mine) < 0.05 and min(after) > 0.55 and max(of_clones) < 0.45 and recorded < 0.4
    return Finding(held, f"{mine}, bc {of_clones}, records {recorded:.2f}")


def unnumbered() -> Any:
    """An evaluation of rows with another number of noises."""
    batch = team_rows(0)
    fewer = {**batch.annotations, NOISE.name: batch.annotations[NOISE.name][:, :2]}
    return team(0).evaluate(batch.but(annotations=fewer), MAC_FLOW.needs)


claim.refuses("A store that draws another number of noises is refused.", unnumbered, "noises: 4")
claim.refuses("A lone agent is no team.", lambda: policy_of(MAC_FLOW, discrete=False), "a task of several agents")
claim.refuses("A flow takes a step at least.", lambda: TeamFlow(steps=0), "at least 1")
claim.shipped(MAC_FLOW, without={"regularisers.1.alpha": 0.0})
