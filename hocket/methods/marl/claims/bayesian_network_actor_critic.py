"""Claims of joint policies that are Bayesian networks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.evaluating import evaluate_detached
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.claims.solver_check import SolvedRun
from hocket.lab.exact.cooperative import Cooperative, joint, penalty
from hocket.lab.exact.mdp import TabularMDP
from hocket.lab.exact.solver import State
from hocket.lab.toys.teams import by_chance, trained
from hocket.methods.marl.bayesian_network_actor_critic.message_graph import Networked
from hocket.methods.marl.bayesian_network_actor_critic.method import (
    BAYESIAN_NETWORK_ACTOR_CRITIC,
    BAYESIAN_NETWORK_TABLES,
    BayesianNetwork,
    FadingNetwork,
    gradient,
    policies,
    told,
)
from hocket.methods.marl.bayesian_network_actor_critic.networks import AlongParents
from hocket.policies.control import ControlPolicy
from hocket.tasks.joint import JointTask
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, collect, train_step
from hocket.types import Quantity

claim = Claims("bayesian-network-actor-critic", "arXiv:2306.01920")


def drawn(seed: int, states: int, moves: tuple[int, ...]) -> tuple[Cooperative, State]:
    """A random game, and random networks in it."""
    noise = Key.of(seed).derive("game").numpy()
    actions = int(np.prod(moves))
    process = TabularMDP(
        noise.dirichlet(np.ones(states), size=(states, actions)),
        noise.normal(size=(states, actions)),
        np.full(states, 1 / states),
        discount=0.8,
    )
    world = Cooperative(process, moves)
    first = BayesianNetwork().init(world, Key.of(seed))
    return world, {name: noise.normal(size=np.shape(array)) for name, array in first.items() if name != "steps"}


def earned(world: Cooperative, held: dict[str, torch.Tensor], left: float) -> torch.Tensor:
    """The return by torch, move by move: no code of the solver."""
    states, rows = world.process.states, []
    for place in range(states):
        shares = []
        for moves in itertools.product(*map(range, world.moves)):
            share = torch.ones((), dtype=torch.float64)
            for agent, move in enumerate(moves):
                logits = held[f"base {agent}"][place]
                for parent in range(agent):
                    edge = left * held[f"gate {parent} {agent}"][place].sigmoid()
                    logits = logits + edge * held[f"word {parent} {agent}"][place, moves[parent]]
                share = share * logits.softmax(-1)[move]
            shares.append(share)
        rows.append(torch.stack(shares))
    policy = torch.stack(rows)
    onward = torch.einsum("sa,sat->st", policy, torch.from_numpy(world.process.transition))
    system = torch.eye(states, dtype=torch.float64) - world.process.discount * onward
    value: torch.Tensor = torch.linalg.solve(system, (policy * torch.from_numpy(world.process.reward)).sum(-1))
    begun: torch.Tensor = (torch.from_numpy(world.process.start) * value).sum()
    return begun


@claim("The gradient is that of the exact return, for bases, words and gates, with two agents and with three.")
def the_gradient_is_that_of_the_exact_return_for_bases_words_and() -> Finding:
    off, least = 0.0, np.inf
    for seed, (states, moves) in enumerate(((3, (2, 3)), (2, (2, 3, 2)), (2, (3, 2, 2)))):
        for left in (1.0, 0.4, 0.0):
            world, state = drawn(seed, states, moves)
            held = {name: torch.from_numpy(array).requires_grad_() for name, array in state.items()}
            slopes = torch.autograd.grad(earned(world, held, left), list(held.values()), allow_unused=True)
            found, _ = gradient(world, state, left)
            for name, slope in zip(held, slopes, strict=True):
                true = np.zeros_like(found[name]) if slope is None else slope.numpy()
                off = max(off, float(np.abs(found[name] - true).max()))
                least = min(least, float(np.abs(true).max())) if left else least
    return below(1e-12, least > 1e-4, off=off)


@claim("A network's shares sum to 1 over all joint moves, and how often something is met is counted by hand.")
def a_networks_shares_sum_to_1_over_all_joint_moves_and_how_often() -> Finding:
    world, state = drawn(3, 2, (2, 3, 2))
    whole = joint(policies(world, state, 0.7))
    visits = world.process.visits(whole.reshape(2, -1)).reshape(whole.shape) / (1 - world.process.discount)
    _, met = gradient(world, state, 0.7)
    off = {
        "sum": float(np.abs(whole.sum((1, 2, 3)) - 1).max()),
        "base": float(np.abs(met["base 2"] - visits.sum((1, 2))).max()),
        "word": float(np.abs(met["word 0 2"] - visits.sum(2)).max()),
        "gate": float(np.abs(met["gate 1 2"] - visits.sum((1, 2, 3))).max()),
    }
    return below(1e-12, **off)


@claim(
    "A step goes by the slope over how often it is met, and tells the mean logistic gate times what annealing leaves; "
    "gates begin at 0.88, and networks that are trained keep their edges for 20 steps and lose them in 20."
)
def a_step_goes_by_the_slope_over_how_often_it_is_met_and_tells_the() -> Finding:
    world, state = drawn(5, 2, (2, 3, 2))
    off, solver = 0.0, BayesianNetwork(kept=10, annealed=4, rate=0.3)
    for steps, left in ((3, 1.0), (12, 0.5)):
        whole: State = {**state, "steps": np.array(steps)}
        after, told = solver.step(world, whole, Key.of(0))
        slopes, met = gradient(world, whole, left)
        off = max(off, *(float(np.abs(after[n] - whole[n] - 0.3 * slopes[n] / met[n]).max()) for n in slopes))
        gates = [1 / (1 + np.exp(-value)) for name, value in state.items() if name.startswith("gate")]
        off = max(off, abs(told["edges"] - left * float(np.mean(gates))), abs(int(after["steps"]) - steps - 1))
    alone, one = BayesianNetwork(edges=False).step(world, {**state, "steps": np.array(0)}, Key.of(0))
    first = BayesianNetwork(noise=0.0).init(world, Key.of(0))
    begins = all((value == (2 if name.startswith("gate") else 0)).all() for name, value in first.items())
    (hook,) = BAYESIAN_NETWORK_ACTOR_CRITIC.hooks
    assert isinstance(hook, FadingNetwork)
    pace = [hook.left(step) for step in (20, 21, 31, 41)] == [1, 1, 0.5, 0]
    return below(1e-9, pace, begins, one["edges"] == 0, int(alone["steps"]) == 1, off=off)


@claim("From every start of a grid a full network comes to the best pair; independent agents mostly do not.")
def from_every_start_of_a_grid_a_full_network_comes_to_the_best() -> Finding:
    """Starts are logits of each agent in {-1, 0, 1} to the three."""
    world = penalty(1)
    reached: dict[bool, list[float]] = {True: [], False: []}
    for edges, found in reached.items():
        solver = BayesianNetwork(edges=edges, noise=0.0, kept=600)
        for start in itertools.product((-1.0, 0.0, 1.0), repeat=4):
            bases = {f"base {agent}": np.array([[start[2 * agent], start[2 * agent + 1], 0.0]]) for agent in (0, 1)}
            state: State = {**solver.init(world, Key.of(0)), **bases}
            for step in range(500):
                state, _ = solver.step(world, state, Key.of(step))
            found.append(world.value(solver.answer(world, state)))
    best = world.optimum
    alone = float(np.mean([value > 0.99 * best for value in reached[False]]))
    return Finding(
        min(reached[True]) > 0.99 * best and alone < 0.5,
        say(worst_with_edges=min(reached[True]), independent_at_the_best=alone, optimum=best),
    )


@claim("When the last edge has gone the agents are independent, and nothing of the return is lost.")
def when_the_last_edge_has_gone_the_agents_are_independent_and() -> Finding:
    lost, apart, late = 0.0, 0.0, []
    for seed in range(5):
        world, solver = penalty(3), BayesianNetwork()
        state = solver.init(world, Key.of(seed))
        for step in range(1000):
            if step == 400:
                full = world.value(solver.answer(world, state))
            state, told = solver.step(world, state, Key.of(seed).derive(step))
        whole = solver.answer(world, state).reshape(-1, 3, 3)
        product = whole.sum(2)[:, :, None] * whole.sum(1)[:, None]
        apart = max(apart, float(np.abs(whole - product).max()))
        lost = max(lost, full - world.value(solver.answer(world, state)))
        late.append(told["edges"])
    left = [BayesianNetwork(kept=10, annealed=4).left({"steps": np.array(step)}) for step in (0, 10, 11, 13, 14, 99)]
    right = left == [1, 1, 0.75, 0.25, 0, 0] and BayesianNetwork(edges=False).left({"steps": np.array(0)}) == 0
    return Finding(
        apart < 1e-12 and lost < 0.01 * penalty(3).optimum and max(late) == 0 and right, say(lost=lost, apart=apart)
    )


@claim("A step is the slope divided by how often it is met; a plain gradient gives up before its edges have learnt.")
def a_step_is_the_slope_divided_by_how_often_it_is_met_a_plain() -> Finding:
    world, state = drawn(5, 2, (2, 2))
    solver = BayesianNetwork(rate=0.3, kept=5)
    whole = {**state, "steps": np.array(2)}
    after, _ = solver.step(world, whole, Key.of(0))
    slopes, met = gradient(world, state, 1.0)
    off = max(float(np.abs(after[name] - state[name] - 0.3 * slopes[name] / met[name]).max()) for name in state)
    safe, game = [], penalty(1)
    for seed in range(5):
        plain: State = {**BayesianNetwork().init(game, Key.of(seed))}
        for _ in range(1000):
            slopes, _ = gradient(game, plain, 1.0)
            plain = {**plain, **{name: plain[name] + 0.1 * slope for name, slope in slopes.items()}}
        safe.append(game.value(joint(policies(game, plain, 1.0)).reshape(1, -1)))
    return Finding(off < 1e-9 and int(after["steps"]) == 3 and min(safe) < 5, say(off=off, plain=safe))


def _gone(with_it: SolvedRun, without: SolvedRun) -> dict[str, float]:
    edges = with_it.column("edges")
    return {"edges at first": edges[0], "none at the end": 1.0 - edges[-1]}


claim.solved(BAYESIAN_NETWORK_TABLES, {"edges": False}, better={"value": 1}, sees=_gone)


# ---------------------------------------------------------------- with networks

LIGHT = (("update.epochs", 4), ("update.minibatches", 4))


def _parts(task: JointTask, steps: int, seed: int = 0, **given: Any) -> RunContext:
    """A run of the recipe that is set up."""
    settings = {"recipe": BAYESIAN_NETWORK_ACTOR_CRITIC, "steps": steps, "seed": seed, **dict(LIGHT), **given}
    return build_parts(configure(list(settings.items()), task), task)


def _actor(parts: RunContext) -> AlongParents:
    return cast(AlongParents, cast(ControlPolicy, parts.lead.policy).module.actor)


def _collected(parts: RunContext, step: int = 1) -> Batch:
    """A batch of play as at this step; the recipe leaves half of the edges at step 31 and none from 41 on."""
    return pack(asyncio.run(collect(parts, Key.of(7), step))[0].trajectories)


@dataclass(frozen=True)
class Rows:
    """What agents saw when they decided, part by part, `[T, ..]`, and when; `after` is what follows the layout."""

    sight: NDArray[np.float32]
    context: NDArray[np.float32]
    order: NDArray[np.float32]
    chance: NDArray[np.float32]
    parents: NDArray[np.float32]
    who: NDArray[np.float32]
    told: NDArray[np.float32]

    @staticmethod
    def of(batch: Batch, world: Networked) -> Rows:
        rows = np.concatenate([np.asarray(one) for one in batch.observation])
        cuts = np.cumsum(world.layout.parts)
        return Rows(*np.split(rows, cuts, 1)[: len(cuts)])


def _by_hand(actor: AlongParents, context: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores `[T, n]` and logits `[T, n, n]` of networks in float64."""
    found, layers = context.astype(np.float64), actor.network
    for number, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        found = found @ weight.detach().double().numpy().T + bias.detach().double().numpy()
        found = np.tanh(found) if number < len(layers.weights) - 1 else found
    agents = actor.layout.agents
    return found[:, :agents], 2.0 + found[:, agents:].reshape(-1, agents, agents)


def _stirred(parts: RunContext) -> None:
    """Gives the networks and the actor weights that are large enough to matter."""
    noise = Key.of(3).derive("stirred").torch()
    actor = _actor(parts)
    with torch.no_grad():
        for one in (actor.network.weights[-1], actor.network.biases[-1], actor.after.weights[-1]):
            one.copy_(torch.randn(one.shape, generator=noise))


@claim(
    "Agents move in the drawn order, each told what its parents did and nothing else counts; order and edges are those "
    "that scores, logits and chance come to by hand, and what is drawn is as likely as it should be."
)
def agents_move_in_the_drawn_order_each_told_what_its_parents_did() -> Finding:
    wrong, error, moved, first = 0, 0.0, 1e9, []
    for name in ("mpe:spread?agents=3&networked=true&length=9", "forage:5x5-2p-1f?length=9&networked=true"):
        task = cast(JointTask, tasks.find(name))
        world, parts = cast(Networked, task.world), _parts(task, 1, **{"curriculum.prompts": 40})
        _stirred(parts)
        batch, count = _collected(parts), world.layout.agents
        rows, actor = Rows.of(batch, world), _actor(parts)
        scores, logits = _by_hand(actor, rows.context)
        perturbed, me = scores + rows.order, rows.who.argmax(1)
        place = (perturbed > perturbed[np.arange(len(me)), me][:, None]).sum(1)
        assert batch.time is not None
        wrong += int((place != batch.time.numpy() % count).sum())
        earlier = perturbed > perturbed[np.arange(len(me)), me][:, None]
        parents = earlier & (logits[np.arange(len(me)), :, me] + rows.chance > 0)
        wrong += int((parents != (rows.parents > 0)).sum())
        wrong += _misheard(batch, rows, earlier, count)
        logp = evaluate_detached(parts.lead.policy, batch, {Quantity.LOGP}, torch.arange(batch.decisions)).logp
        error = max(error, float((logp - batch.logp["behaviour"].values).abs().max()))
        moved = min(moved, _moved(actor, batch, world, rows))
        chance = 1 / (1 + np.exp(scores[:, 1] - scores[:, 0]))  # Of agent 0 before agent 1, by Plackett and Luce.
        first.append(abs(float((perturbed[:, 0] > perturbed[:, 1]).mean() - chance.mean())))
    return below(0.05, wrong == 0, error < 1e-6, moved > 1e-3, likelihood=max(first))


def _misheard(batch: Batch, rows: Rows, earlier: NDArray[np.bool_], count: int) -> int:
    """How many moves are shown that were not made before in the same step, or not shown that were."""
    assert batch.time is not None
    time, agent = batch.time.numpy() // count, batch.agent[batch.turn].numpy()
    trajectory = batch.occurrences.trajectory.numpy()
    made = np.zeros((batch.trajectories, int(time.max()) + 1, count), np.int64)
    made[trajectory, time, agent] = batch.action.numpy()
    shown = rows.told.reshape(len(time), count, -1)
    wanted = earlier[..., None] * np.eye(shown.shape[-1])[made[trajectory, time]]
    return int((shown != wanted).sum())


def _moved(actor: AlongParents, batch: Batch, world: Networked, rows: Rows) -> float:
    """The largest change of logits by another move of a parent; minus that by one of the others."""
    whole = torch.from_numpy(np.concatenate([np.asarray(one, np.float32) for one in batch.observation]))
    agents, moves = world.layout.agents, world.layout.moves
    start = sum(world.layout.parts[:-1])
    with torch.no_grad():
        before = actor(whole)
        changes = {}
        for parents in (True, False):
            other = whole.clone()
            swapped = np.roll(rows.told.reshape(-1, agents, moves), 1, 2)
            if not parents:  # Also of those that have not moved.
                swapped[..., 0] += 1.0
            mask = (rows.parents > 0) == parents
            kept = np.where(mask[..., None], swapped, rows.told.reshape(-1, agents, moves))
            other[:, start : start + agents * moves] = torch.from_numpy(kept.reshape(len(whole), -1))
            changes[parents] = float((actor(other) - before).abs().max())
    return changes[True] if changes[False] == 0 else -changes[False]


@claim(
    "Straight through: the slope of a log-prob in scores and logits is its slope in the gates times those of two "
    "logistic functions."
)
def straight_through_the_slope_of_a_log_prob_in_scores_and_logits() -> Finding:
    task = cast(JointTask, tasks.find("mpe:spread?agents=3&networked=true&length=5"))
    world, parts = cast(Networked, task.world), _parts(task, 1, **{"curriculum.prompts": 6})
    _stirred(parts)
    batch, agents = _collected(parts), 3
    rows, actor = Rows.of(batch, world), _actor(parts)
    scores, logits = _by_hand(actor, rows.context)
    whole = torch.from_numpy(np.concatenate([np.asarray(one, np.float32) for one in batch.observation])).double()
    actor.double()
    chosen = torch.log_softmax(actor(whole), -1).gather(1, batch.action[:, None]).sum()
    given, slope = actor.network.biases[-1], 0.0
    found = torch.autograd.grad(chosen, given)[0].numpy()
    gates = torch.from_numpy(rows.parents).double().requires_grad_()
    sight, tail = torch.from_numpy(rows.sight).double(), whole[:, sum(world.layout.parts) :]
    heard = torch.from_numpy(rows.told).double().reshape(len(gates), agents, -1) * gates[..., None]
    logp = torch.log_softmax(actor.after(torch.cat([sight, heard.flatten(1), tail], 1)), -1)
    worth = torch.autograd.grad(logp.gather(1, batch.action[:, None]).sum(), gates)[0].numpy()
    wanted, me = np.zeros(agents + agents**2), rows.who.argmax(1)
    for row, own in enumerate(me):
        for other in set(range(agents)) - {own}:
            gap = scores[row, other] + rows.order[row, other] - scores[row, own] - rows.order[row, own]
            edge = logits[row, other, own] + rows.chance[row, other]
            before, open_edge = 1 / (1 + np.exp(-gap)), 1 / (1 + np.exp(-edge))
            steep = worth[row, other] * before * (1 - before) * open_edge
            wanted[other] += steep
            wanted[own] -= steep
            wanted[agents + agents * other + own] += worth[row, other] * before * open_edge * (1 - open_edge)
    slope = float(np.abs(wanted).max())
    return below(1e-6 * slope, slope > 1e-3, off=float(np.abs(found - wanted).max()))


@claim(
    "Half of the edges go when half are left, and with none left all move at once, as evaluation does, told nothing."
)
def half_of_the_edges_go_when_half_are_left_and_with_none_left_all() -> Finding:
    hook, paces = FadingNetwork(10, 4), (1, 10, 11, 12, 14, 15, 99)
    lefts = [hook.left(step) for step in paces]
    task = cast(JointTask, tasks.find("mpe:spread?agents=3&networked=true&length=9"))
    world, parts = cast(Networked, task.world), _parts(task, 1, **{"curriculum.prompts": 60})
    whole, half, none = (_collected(parts, step) for step in (20, 31, 41))
    shares = [told(one, world) for one in (whole, half, none)]
    assert none.time is not None
    together = sorted(set(none.time.tolist())) == list(range(9)) and not Rows.of(none, world).told.any()
    parents = Rows.of(whole, world).parents.sum(1).reshape(-1).mean()  # Half of all pairs have an edge each way.
    right = lefts == [1, 1, 1, 0.75, 0.25, 0, 0] and together and abs(shares[0] - parents) < 1e-6
    return Finding(
        right and 0.85 < shares[0] < 0.91 and abs(shares[1] / shares[0] - 0.5) < 0.03 and shares[2] == 0,
        say(told=shares),
    )


@dataclass(frozen=True)
class OneKnows:
    """Two choose one of two moves, once, and earn the share of them that is right; one of them sees which that is.

    The joint state says who it is, and nothing else.
    """

    name: str = "claims:one-knows"
    joint: int = 2

    @property
    def agents(self) -> tuple[str, ...]:
        return ("one", "other")

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(1, 2),) * 2

    def open(self, width: int) -> JointEnvironment:
        return _Knowing(width)


class _Knowing(JointEnvironment):
    def __init__(self, width: int) -> None:
        self.right, self.who = np.zeros(width, np.int64), np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        for slot, seed in zip(slots, seeds, strict=True):
            self.right[slot], self.who[slot] = Key.of(seed).derive("knows").numpy().integers(0, 2, 2)
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        share = (np.stack(actions, 1) == self.right[:, None]).mean(1)
        over = np.ones((len(share), 2), bool)
        return Moved(np.repeat(share[:, None], 2, 1), over, ~over)

    def seen(self) -> list[NDArray[np.float32]]:
        sign = 2 * self.right - 1
        return [np.where(self.who == agent, sign, 0).astype(np.float32)[:, None] for agent in (0, 1)]

    def state(self) -> NDArray[np.float32]:
        return np.eye(2, dtype=np.float32)[self.who]


@claim(
    "The order is learnt, by context: whoever knows moves first and is heard, in both contexts and every seed, and all "
    "is earned (predicted); with networks that do not learn a quarter of the guesses stays a guess."
)
def the_order_is_learnt_by_context_whoever_knows_moves_first_and_is() -> Finding:
    learnt, fixed, first = list[float](), list[float](), list[float]()
    for seed in SEEDS[:3]:
        for learns, found in ((True, learnt), (False, fixed)):
            task = JointTask(Networked(OneKnows()))
            given = {"curriculum.prompts": 128, "update.lr": 3e-3, "update.minibatches": 2, "hooks.0.kept": 99}
            parts = _parts(task, 16, seed, **given)
            _actor(parts).network.requires_grad_(learns)
            path = [asyncio.run(train_step(parts, step)).metrics["reward/mean"] / 2 for step in range(1, 17)]
            found.append(fmean(path[-4:]))
            if learns:
                with torch.no_grad():
                    scores, _ = _actor(parts).scores(torch.eye(2))
                first += [float(scores[0, 0] - scores[0, 1]), float(scores[1, 1] - scores[1, 0])]
    holds = min(learnt) > 0.97 and max(fixed) < 0.93 and min(first) > 1
    return Finding(holds, say(earned=learnt, networks_fixed=fixed, least_lead_of_who_knows=min(first)))


@claim(
    "In the penalty game agents that are told of each other come to a best pair and keep it when the last edge has "
    "gone, in four of five seeds (predicted: all; the fifth is at the safe pair before its gates have learnt); those "
    "of MAPPO, which are never told, end at the safe pair in all.",
    slow=True,
)
def in_the_penalty_game_agents_that_are_told_of_each_other_come_to() -> Finding:
    ours, theirs, task = [], [], "dilemma:penalty"
    for seed in SEEDS:
        settings = (*LIGHT, ("hooks.0.kept", 15))
        ours.append(trained("bayesian-network-actor-critic", f"{task}?networked=true", seed, 45, settings).score)
        theirs.append(trained("mappo", task, seed, 45, LIGHT).score)
    best = sum(one > 9.5 for one in ours)
    return Finding(best >= 4 and max(theirs) < 2.5, say(alone_at_the_end=ours, mappo=theirs))


@claim(
    "On spread nothing is lost when edges go: what agents earn alone at the end is not below what they earned told of "
    "each other (a margin of a twentieth), and not below MAPPO by more than a tenth.",
    slow=True,
)
def on_spread_nothing_is_lost_when_edges_go_what_agents_earn_alone() -> Finding:
    pace = (("hooks.0.kept", 10), ("hooks.0.annealed", 6))
    end, before, theirs = [], [], []
    for seed in SEEDS[:3]:
        run = trained("bayesian-network-actor-critic", "mpe:spread?agents=2&networked=true", seed, 20, (*LIGHT, *pace))
        end.append(run.score)
        before.append(fmean(run.path[7:10]))
        theirs.append(trained("mappo", "mpe:spread?agents=2", seed, 20, LIGHT).score)
    chance = by_chance("mpe:spread?agents=2")
    holds = all(after > 1.05 * earlier for after, earlier in zip(end, before, strict=True))
    holds &= fmean(end) > 1.1 * fmean(theirs) and min(end) > chance
    return Finding(holds, say(alone_at_the_end=end, told=before, mappo=theirs, chance=chance))


def _heard(shipped: ShippedRun) -> dict[str, float]:
    """What was told, and how large the slope of the part that draws networks was."""
    actor = _actor(shipped.parts)
    slopes = [one.grad for one in actor.network.parameters() if one.grad is not None]
    size = sum(float(one.double().square().sum()) for one in slopes) ** 0.5
    return {"edges": shipped.mean("network/edges"), "slope of what draws networks": size}


claim.spares("-1 -> 1", "the last of two axes is the second one")
claim.spares("1e-12 -> 4e-11", "only keeps a division by 0 away")
claim.shipped(BAYESIAN_NETWORK_ACTOR_CRITIC, "hooks", sees=_heard)
