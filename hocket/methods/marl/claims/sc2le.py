"""The claims of StarCraft II's baseline."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.toys.beliefs import believing
from hocket.lab.toys.teams import trained
from hocket.methods.base.a2c import A2C
from hocket.methods.marl.sc2le.chain import Chain, Chained, Parts
from hocket.methods.marl.sc2le.method import SC2LE, SC2LE_PPO
from hocket.methods.marl.sc2le.world import ARMY, MOVE, NO_OP, POINT, RECT, TAKES, MiniGame, Screen
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.tasks.joint import JointTask
from hocket.train.aio import run_async
from hocket.train.loop import collect
from hocket.types import Quantity

claim = Claims("sc2le", "arXiv:1708.04782")
SMALL, TASK = MiniGame(units=2, goals=2, size=3), "rts:shards?size=3"
"""Of which all 5 * 9 * 9 joint actions can be written down."""


def _policy(chained: bool, body: Literal["perceptron", "convolution"] = "perceptron") -> ControlPolicy:
    """A policy in float64 whose weights are far from even odds."""
    task = JointTask(SMALL)
    policy = ControlPolicy.for_task(
        task.spaces(SMALL.agents),
        key=Key.of(3),
        network=NetworkSettings(body=body, hidden=(12,)),
    )
    if chained:
        Chained().install(policy)
    noise = Key.of(4).numpy()
    for weight in policy.module.double().parameters():
        weight.data += torch.from_numpy(noise.normal(scale=0.4, size=weight.shape))
    return policy


def _chained(policy: ControlPolicy) -> bool:
    return Chained() in policy.attached


def _screen() -> Screen:
    """Copies in which nobody is selected (0, 1) and somebody is (2, 3)."""
    screen = SMALL.open(4)
    screen.reset(range(4), range(4))
    order = np.zeros((4, 3), np.int64)
    order[:, 0] = ARMY
    screen.step([order], np.array([False, False, True, True]))
    return screen


def _head(policy: ControlPolicy, screen: Screen, taken: Tensor | None = None, rows: int = 1) -> Parts:
    """The distribution in every copy, each `rows` times over."""
    seen = torch.from_numpy(screen.seen()[0]).double().repeat_interleave(rows, 0)
    allowed = torch.from_numpy(screen.allowed()[0]).repeat_interleave(rows, 0)
    actor = policy.module.actor
    return Parts(actor(seen), SMALL.factors, allowed, actor if isinstance(actor, Chain) else None, taken)


EVERY = torch.tensor(list(itertools.product(range(5), range(9), range(9))))
"""All joint actions, legal or not, `[405, 3]`."""


def _legal(selected: bool) -> Tensor:
    """Which of them the rules allow, written down from the rules: `[405]`."""
    rows = []
    for function, first, second in EVERY.tolist():
        there = function != MOVE or selected
        first_free = function in (POINT, RECT, MOVE) or first == 0
        rows.append(there and first_free and (function == RECT or second == 0))
    return torch.tensor(rows)


def _table(policy: ControlPolicy) -> Tensor:
    """Log-probs of all joint actions in every copy, `[4, 405]`."""
    with torch.no_grad():
        return _head(policy, _screen(), rows=len(EVERY)).logp(EVERY.repeat(4, 1)).reshape(4, -1)


def _kinds() -> Iterator[ControlPolicy]:
    yield from (_policy(True), _policy(False), _policy(True, "convolution"))


@claim(
    "Over all joint actions that are legal the probabilities sum to 1, and each that is not has probability 0 exactly: "
    "by enumeration, of chains, of arguments drawn apart, and of networks with filters."
)
def over_all_joint_actions_that_are_legal_the_probabilities_sum_to() -> Finding:
    error, illegal, least, legal = 0.0, 0.0, 1.0, []
    for policy in _kinds():
        chance = _table(policy).exp()
        for copy, selected in enumerate((False, False, True, True)):
            kept = _legal(selected)
            error = max(error, abs(float(chance[copy, kept].sum()) - 1))
            illegal = max(illegal, float(chance[copy, ~kept].max()))
            least = min(least, float(chance[copy, kept].min()))
            legal.append(int(kept.sum()))
    return Finding(error < EXACT and illegal == 0 < least, say(legal=str(sorted(set(legal))), sum_off_1=error))


@claim("The log-prob of a whole action is the sum of its parts', each given those before, by hand in float64.")
def the_log_prob_of_a_whole_action_is_the_sum_of_its_parts_each() -> Finding:
    policy, screen = _policy(True), _screen()
    seen, allowed = screen.seen()[0].astype(np.float64), screen.allowed()[0]
    actions = np.array([[RECT, 4, 7], [POINT, 2, 0], [MOVE, 8, 0], [NO_OP, 0, 0]])
    with torch.no_grad():
        ours = _head(policy, screen).logp(torch.from_numpy(actions)).numpy()
    error = max(
        abs(_by_hand(policy, seen[row], allowed[row], actions[row].tolist()) - ours[row]) for row in range(len(actions))
    )
    return below(EXACT, gap=error)


def _by_hand(policy: ControlPolicy, seen: NDArray[np.float64], allowed: NDArray[np.bool_], action: list[int]) -> float:
    """Written anew from the formula: the parts' networks, softmax over what is allowed of each part that is taken."""
    total, given, start = 0.0, seen, 0
    for part, (size, link) in enumerate(zip((5, 9, 9), cast(Chain, policy.module.actor).links, strict=True)):
        if part == 0 or TAKES[action[0]][part - 1]:
            x = given
            weights = [one.detach().numpy() for one in link.parameters()]
            half = len(weights) // 2
            for layer, (weight, bias) in enumerate(zip(weights[:half], weights[half:], strict=True)):
                x = weight @ x + bias
                x = np.tanh(x) if layer < half - 1 else x
            odds = np.exp(x) * allowed[start : start + size]
            total += math.log(odds[action[part]] / odds.sum())
        given = np.concatenate([given, np.eye(size)[action[part]]])
        start += size
    return total


@claim(
    "A chain's entropies along the action taken have the joint entropy as mean; apart, entropy and KL are exact.",
    "derived: the chain rule",
)
def a_chains_entropies_along_the_action_taken_have_the_joint() -> Finding:
    errors = {}
    for policy in (_policy(True), _policy(False)):
        table = _table(policy)
        chance, logp = table.exp(), torch.where(table.isfinite(), table, torch.zeros_like(table))
        exact = -(chance * logp).sum(1)
        if _chained(policy):
            taken = EVERY.repeat(4, 1)
            with torch.no_grad():
                along = _head(policy, _screen(), taken, rows=len(EVERY)).entropy().reshape(4, -1)
            kept = torch.stack([_legal(one) for one in (False, False, True, True)])
            mean = (chance * torch.where(kept, along, torch.zeros_like(along))).sum(1)
            errors["chain"] = float((mean - exact).abs().max())
            continue
        other = _policy(False)
        for weight in other.module.parameters():
            weight.data *= 0.5
        theirs = _table(other)
        with torch.no_grad():
            entropy, kl = _head(policy, _screen()).entropy(), _head(policy, _screen()).kl(_head(other, _screen()))
        errors["apart"] = float((entropy - exact).abs().max())
        gap = torch.where(table.isfinite(), table - theirs, torch.zeros_like(table))
        errors["KL"] = float((kl - (chance * gap).sum(1)).abs().max())
    return below(EXACT, **errors)


@claim("In 10^5 decisions nothing illegal is drawn, and every joint action comes as often as its probability says.")
def in_10_5_decisions_nothing_illegal_is_drawn_and_every_joint() -> Finding:
    policy, rows = _policy(True), 25_000
    chance = _table(policy).exp()
    uniforms = torch.from_numpy(Key.of(5).numpy().random((4 * rows, 3)))
    with torch.no_grad():
        drawn = _head(policy, _screen(), rows=rows).draw(uniforms).reshape(4, rows, 3)
        best = _head(policy, _screen()).mode()
    number = drawn[..., 0] * 81 + drawn[..., 1] * 9 + drawn[..., 2]
    wrong, furthest = 0, 0.0
    for copy, selected in enumerate((False, False, True, True)):
        often = torch.bincount(number[copy], minlength=len(EVERY)).double()
        legal = _legal(selected)
        wrong += int(often[~legal].sum()) + int(not legal[int(best[copy] @ torch.tensor([81, 9, 1]))])
        error = (often / rows - chance[copy]).abs() / (chance[copy] * (1 - chance[copy]) / rows).sqrt().clamp(min=1e-9)
        furthest = max(furthest, float(error[legal].max()))
    return Finding(wrong == 0 and furthest < 5, say(illegal=wrong, furthest_in_standard_errors=furthest))


# ---------------------------------------------------------------- the learner


@claim(
    "The whole loss is -mean A sum log pi(a_l | a_<l) + 1/2 mean (V - y)^2 - 0.01 mean sum H(a_l | a_<l); of "
    "sc2le-ppo, before the first change of the weights, -mean A in the first term's place."
)
def the_whole_loss_is_mean_a_sum_log_pi_1_2_mean_2_0_01_mean_sum_h() -> Finding:
    gaps = {}
    for recipe in (SC2LE, SC2LE_PPO):
        parts = believing(recipe, TASK, curriculum__prompts=8, credit__gamma=0.9)
        policy, batch = (
            cast(ControlPolicy, parts.lead.policy),
            pack(run_async(collect(parts, Key.of(5)))[0].trajectories),
        )
        policy.module.critic.biases[-1].data += 1.0  # type: ignore[union-attr, index]
        with torch.no_grad():
            batch = replace(batch, value=policy.evaluate(batch, {Quantity.VALUE}).value)
            batch = parts.lead.compute_credit(batch, {}, 1)
            now = policy.evaluate(batch, recipe.needs)
            ours = sum(float(term.total()) for term in recipe.loss(now, batch))
            logp, entropy = _along(policy, batch)
        seen = batch.occurrences
        first = seen.advantage * (logp if recipe is SC2LE else torch.ones_like(logp))
        squares = (now.get(Quantity.VALUE) - cast(Tensor, seen.target)).square().mean()
        theirs = float(-first.mean() + 0.5 * squares - 0.01 * entropy.mean())
        gaps[recipe.name] = abs(ours - theirs) if float(squares) > 0.1 and float(entropy.mean()) > 0.5 else math.inf
    return below(1e-5, **gaps)


def _along(policy: ControlPolicy, batch: Batch) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies of the actions taken, part by part from the networks of the chain, `[T]` each."""
    told = torch.from_numpy(np.concatenate(batch.observation))
    masks = torch.from_numpy(np.concatenate(cast(list[NDArray[np.bool_]], batch.allowed)))
    logp, entropy, start = torch.zeros(len(told)), torch.zeros(len(told)), 0
    for part, size in enumerate((5, 9, 9)):
        logits = cast(Chain, policy.module.actor).links[part](told)
        row = torch.log_softmax(logits.masked_fill(~masks[:, start : start + size], -1e9), -1)
        used = torch.ones(len(told)) if part == 0 else torch.tensor(TAKES)[batch.action[:, 0], part - 1].float()
        logp += used * row.gather(1, batch.action[:, part, None])[:, 0]
        entropy -= used * (row.exp() * row).sum(1)
        told, start = torch.cat([told, torch.eye(size)[batch.action[:, part]]], 1), start + size
    return logp, entropy


@claim("Of an argument that an action does not take nothing is learnt: its networks get no gradient at all.", "derived")
def of_an_argument_that_an_action_does_not_take_nothing_is_learnt() -> Finding:
    policy, screen = _policy(True), _screen()
    found = {}
    for name, action in (("no_op", [NO_OP, 0, 0]), ("select_point", [POINT, 3, 0]), ("select_rect", [RECT, 3, 5])):
        policy.module.zero_grad()
        taken = torch.tensor([action] * 4)
        head = _head(policy, screen, taken)
        (head.logp(taken) + head.entropy()).sum().backward()  # type: ignore[no-untyped-call]
        sizes = []
        for link in cast(Chain, policy.module.actor).links:
            sizes.append(sum(float(w.grad.abs().sum()) for w in link.parameters() if w.grad is not None))
        found[name] = [size > 0 for size in sizes]
    wanted = {"no_op": [True, False, False], "select_point": [True, True, False], "select_rect": [True, True, True]}
    return Finding(found == wanted, say(parts_with_a_gradient={name: sum(row) for name, row in found.items()}))


@claim(
    "Rectangles whose second corner follows from the first are learnt by a chain to their entropy, log n; arguments "
    "drawn apart come no nearer than 2 log n (predicted).",
    "derived: behaviour cloning of a law that does not factorise",
)
def rectangles_whose_second_corner_follows_from_the_first_are() -> Finding:
    count = 9
    actions = torch.tensor([[RECT, one, count - 1 - one] for one in range(count)])
    reached = {}
    for chained in (True, False):
        policy = _policy(chained)
        adam = torch.optim.Adam(policy.module.actor.parameters(), lr=0.05)
        seen = torch.from_numpy(_screen().seen()[0][:1]).double().repeat(count, 1)
        for _step in range(200):
            adam.zero_grad()
            actor = policy.module.actor
            head = Parts(actor(seen), SMALL.factors, None, actor if isinstance(actor, Chain) else None)
            loss = -head.logp(actions).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
        reached["chain" if chained else "apart"] = float(loss.detach()) / math.log(count)
    holds = abs(reached["chain"] - 1) < 0.05 and reached["apart"] >= 2 - 1e-6
    return Finding(holds, say(cross_entropy_in_log_n=reached))


@claim("The ratio of sc2le-ppo is that of whole actions: its log is the sum of the parts' log-ratios.", "derived")
def the_ratio_of_sc2le_ppo_is_that_of_whole_actions_its_log_is_the() -> Finding:
    chained = SC2LE_PPO.policy_parts == SC2LE.policy_parts == (Chained(),) != A2C.policy_parts
    policy, screen = _policy(True), _screen()
    taken = torch.tensor([[RECT, 4, 7], [POINT, 2, 0], [MOVE, 8, 0], [NO_OP, 0, 0]])
    with torch.no_grad():
        before = [_head(policy, screen).conditional(taken[:, :part]) for part in range(3)]
        old = _head(policy, screen).logp(taken)
        for weight in policy.module.parameters():
            weight.mul_(0.9)
        after = [_head(policy, screen).conditional(taken[:, :part]) for part in range(3)]
        new = _head(policy, screen).logp(taken)
    gaps = [
        two.gather(1, taken[:, part, None]) - one.gather(1, taken[:, part, None])
        for part, (one, two) in enumerate(zip(before, after, strict=True))
    ]
    error = float((torch.cat(gaps, 1).sum(1) - (new - old)).abs().max())
    return below(EXACT, chained, float((new - old).abs().min()) > 1e-3, gap=error)


# ---------------------------------------------------------------- the world


def _earned(task: str, order: Callable[[Screen], NDArray[np.int64]], episodes: int = 500) -> float:
    """The mean return of somebody who gives these orders, `[B, 3]`."""
    world = cast(MiniGame, cast(JointTask, tasks.find(task)).world)
    screen, earned = world.open(episodes), 0.0
    screen.reset(range(episodes), range(1, 2 * episodes, 2))
    for _step in range(world.length):
        earned += float(screen.step([order(screen)], np.ones(episodes, bool)).rewards.mean())
    return earned


def _straight(screen: Screen) -> NDArray[np.int64]:
    """Selects all, then sends them to the goal, order after order."""
    function = np.where(screen.selected.any(1), MOVE, ARMY)
    return np.stack([function, np.where(function == MOVE, screen.goal.argmax(1), 0), np.zeros_like(function)], 1)


def _by_chance(rng: np.random.Generator) -> Callable[[Screen], NDArray[np.int64]]:
    """Any function that is there, and any points."""

    def order(screen: Screen) -> NDArray[np.int64]:
        cells = screen.world.size**2
        function = (rng.random((len(screen.time), 5)) * screen.allowed()[0][:, :5]).argmax(1)
        return np.stack([function, *rng.integers(0, cells, (2, len(function)))], 1)

    return order


@claim(
    "Actor-critic solves move-to-beacon: sampled, all of 5 seeds earn above 80 % of a player who goes straight to it, "
    "where chance earns less than a tenth (predicted).",
    slow=True,
)
def actor_critic_solves_move_to_beacon_sampled_all_of_5_seeds_earn() -> Finding:
    task = "rts:beacon"
    best, chance = _earned(task, _straight), _earned(task, _by_chance(Key.of(7).numpy()))
    scores = [trained("sc2le", task, seed, 100).score for seed in SEEDS]
    return Finding(min(scores) > 0.8 * best and chance < 0.1 * best, say(returns=scores, straight=best, chance=chance))


def _drawn(shipped: ShippedRun) -> dict[str, float]:
    """How many functions and how many points of the screen were drawn."""
    experience = shipped.results[0].experience
    assert experience is not None
    actions = np.concatenate([np.asarray(turn.action) for one in experience.trajectories for turn in one.turns])
    chained = _chained(cast(ControlPolicy, shipped.parts.lead.policy))
    return {
        "functions": float(len(set(actions[:, 0]))),
        "points": float(len(set(actions[:, 1]))),
        "chain": float(chained),
    }


claim.spares("sc2le: regularisers.0.horizon = 5120", "no length divides a mean over decisions")
claim.spares("sc2le: regularisers.1.horizon = 5120", "no length divides a mean over decisions")
claim.spares("sc2le-ppo: regularisers.0.horizon = 5120", "no length divides a mean over decisions")
claim.spares("sc2le-ppo: regularisers.1.horizon = 5120", "no length divides a mean over decisions")

claim.shipped(SC2LE, "regularisers", sees=_drawn)
claim.shipped(SC2LE_PPO, "regularisers", sees=_drawn)
