"""The claims of RLHG."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say
from hocket.lab.claims.solver_check import SolvedRun
from hocket.lab.exact.mdp import Array, TabularMDP, softmax
from hocket.methods.marl.rlhg.companions import Companion, companion
from hocket.methods.marl.rlhg.method import RLHG, HumanGain, advantage, gain

claim = Claims("rlhg", "arXiv:2401.16444")
TINY = companion(1, 4)


def _policy(world: Companion, seed: int = 3) -> Array:
    noise = Key.of(seed).derive("policy").numpy()
    return softmax(noise.normal(size=world.process.shape))


def _ran(world: Companion, steps: int = 300, **settings: Any) -> tuple[dict[str, Any], Mapping[str, float]]:
    """The state after so many steps, and what the last one told."""
    solver, told = HumanGain(**settings), dict[str, float]()
    state = dict(solver.init(world, Key.of(0)))
    for step in range(steps):
        found, figures = solver.step(world, state, Key.of(step))
        state, told = dict(found), dict(figures)
    return state, told


@functools.cache
def _told(way: int, steps: int, share: float) -> Mapping[str, float]:
    return _ran(companion(way, steps), share=share)[1]


# ---------------------------------------------------------------- the world


# ---------------------------------------------------------------- the formula


@claim(
    "E[max(0, G - V(s)) | s, a] is the sum over all ways on of an episode, each as likely as it is, in float64, and "
    "the law of G has the partner's exact value as mean.",
    "the gain above the primitive value",
)
def e_max_s_a_is_the_sum_over_all_ways_on_of_an_episode_each_as() -> Finding:
    policy, before = _policy(TINY), _policy(TINY, 4)
    primitive = TINY.partner.solved(before).value[:-1]
    found, chances = gain(TINY, policy, primitive), TINY.reached(policy)
    exact, by_hand = TINY.partner.solved(policy), np.zeros_like(found)
    for step, state, action in np.ndindex(*found.shape):
        usual, ways = float(primitive[step, state]), _ways(policy, step, state, action)
        by_hand[step, state, action] = sum(odds * max(0.0, got - usual) for odds, got in ways)
    mean = (chances * np.arange(chances.shape[-1])).sum(-1)
    return below(
        1e-12,
        float(found.max()) > 0.3,
        gain=float(np.abs(found - by_hand).max()),
        mean=float(np.abs(mean - exact.quality).max()),
        sums=float(np.abs(chances.sum(-1) - 1).max()),
    )


def _ways(policy: Array, step: int, state: int, action: int) -> list[tuple[float, float]]:
    """How likely each way on is after an action, and what the partner reaches on it, this state's included."""
    here, found = float(TINY.goals[state]), list[tuple[float, float]]()
    for after in np.flatnonzero(TINY.process.transition[state, action]).tolist():
        odds = float(TINY.process.transition[state, action, after])
        if step + 1 == TINY.horizon:
            found.append((odds, here))
            continue
        for other in range(3):
            chance = odds * float(policy[step + 1, after, other])
            found += [(chance * more, here + got) for more, got in _ways(policy, step + 1, after, other)]
    return found


@claim(
    "A step climbs by the rate times A + share * (E[max(0, G - V) | s, a] - D), alone by A; V is the partner's value "
    "beside the policy at the end of that time, and stays.",
    "A + share * (E[max(0, G - V) | s, a] - D)",
)
def a_step_climbs_by_the_rate_times_a_share_s_a_d_alone_by_a_v_is() -> Finding:
    world, solver = companion(2, 6), HumanGain(share=0.4, alone=3, rate=0.7)
    state, off = dict(solver.init(world, Key.of(0))), dict.fromkeys(("logits", "primitive", "told"), 0.0)
    kept = np.zeros(0)
    for step in range(6):
        policy = softmax(state["logits"])
        after, told = solver.step(world, state, Key.of(step))
        value, quality = world.process.solved(policy).value[:-1], world.process.solved(policy).quality
        wanted = quality - value[..., None]
        if step <= 3:
            kept = world.partner.solved(policy).value[:-1]
        if step >= 3:
            gained = gain(world, policy, kept)
            wanted = wanted + 0.4 * (gained - (policy * gained).sum(-1)[..., None])
        moved = softmax(after["logits"])
        off["logits"] = max(off["logits"], float(np.abs(after["logits"] - state["logits"] - 0.7 * wanted).max()))
        off["primitive"] = max(off["primitive"], float(np.abs(after["primitive"] - kept).max()))
        gaps = (told["task"] - world.process.value(moved), told["partner"] - world.partner.value(moved))
        off["told"] = max(off["told"], *map(abs, gaps), float(np.abs(solver.answer(world, after) - moved).max()))
        usual = gain(world, policy, kept)[0]
        off["told"] = max(off["told"], abs(told["gain"] - float(world.process.start @ (policy[0] * usual).sum(-1))))
        state = dict(after)
    return below(1e-12, int(state["steps"]) == 6, **off)


@claim(
    "A partner that is at its optimum is worth nothing: where the door is open no action has any gain over another, "
    "and the agent learns what it learns without the gain; yet the partner reaches much.",
    "the gain term is zero in expectation for a partner already at its optimum",
)
def a_partner_that_is_at_its_optimum_is_worth_nothing_where_the() -> Finding:
    world = companion(4, 10, shut=False)
    with_gain, without = _ran(world, share=1.0), _ran(world, share=0.0)
    policy = softmax(with_gain[0]["logits"])
    found = advantage(gain(world, policy, with_gain[0]["primitive"]), policy)
    # States in which the door is shut are never seen here.
    seen = world.process.visits(policy).sum(-1) > 0
    apart = np.abs(policy - softmax(without[0]["logits"]))[seen].max()
    return below(
        1e-9,
        with_gain[1]["partner"] > 1,
        gain=float(np.abs(found[seen]).max()),
        policies=float(apart),
        partner=abs(with_gain[1]["partner"] - without[1]["partner"]),
    )


@claim(
    "The agent is not paid for what its partner gets anyway: behind an open door the gain's advantage is 0 whatever "
    "the policy; before a shut one the lever has the largest.",
    "derived",
)
def the_agent_is_not_paid_for_what_its_partner_gets_anyway_behind() -> Finding:
    world = companion(4, 10)
    policy = _policy(world)
    primitive = world.partner.solved(_policy(world, 8)).value[:-1]
    found = advantage(gain(world, policy, primitive), policy).reshape(10, 6, 2, 3, 3)
    opened, at_lever = np.abs(found[:, :, 1]).max(), found[:6, 0, 0, :2]
    best = bool((at_lever.argmax(-1) == 2).all())
    return Finding(opened < 1e-12 and best and at_lever.max() > 0.1, say(behind=opened, of_the_lever=at_lever.max()))


@claim(
    "Losses do not count, so spread is paid for: of two ways that bring the partner as much on average, the gain is "
    "that of the less certain one.",
    "derived: what the positive part does",
)
def losses_do_not_count_so_spread_is_paid_for_of_two_ways_that() -> Finding:
    transition, goals = np.zeros((4, 2, 4)), np.array([0.0, 1.0, 2.0, 0.0])
    transition[0, 0, 1] = 1.0  # Sure of 1.
    transition[0, 1, 2] = transition[0, 1, 3] = 0.5  # As often 2 as nothing.
    transition[1:, :, 3] = 1.0
    world = Companion(TabularMDP(transition, np.zeros((4, 2)), np.eye(4)[0], 2), goals)
    even = np.full((2, 4, 2), 0.5)
    usual = world.partner.solved(even)
    found = gain(world, even, usual.value[:-1])[0, 0]
    same = abs(usual.quality[0, 0, 0] - usual.quality[0, 0, 1])
    return below(1e-12, same=float(same), sure=float(found[0]), gamble=abs(float(found[1]) - 0.5))


# ---------------------------------------------------------------- what is learnt


@claim(
    "Paid for the gain, the agent lets its partner reach more, four times as much here, and wins less by under 2 "
    "points in 100 (signs predicted); learning its task alone it leaves the lever.",
    "the partner's goals rise, the win rate falls by less than 2 points",
)
def paid_for_the_gain_the_agent_lets_its_partner_reach_more_four() -> Finding:
    ours, alone = _told(4, 10, 0.1), _told(4, 10, 0.0)
    fell, rose = alone["task"] - ours["task"], ours["partner"] / alone["partner"]
    return Finding(
        0 <= fell < 0.02 and rose > 3 and alone["task"] > 0.999,
        say(win_rate=(ours["task"], alone["task"]), partner=(ours["partner"], alone["partner"])),
    )


@claim(
    "Where time is short helping costs, and the share says how much is paid: with more of it the agent wins less and "
    "its partner reaches more (predicted), and with little it does not help at all.",
    "derived",
)
def where_time_is_short_helping_costs_and_the_share_says_how_much() -> Finding:
    found = {share: _told(4, 8, share) for share in (0.0, 0.05, 0.2, 1.0)}
    task, partner = ([one[name] for one in found.values()] for name in ("task", "partner"))
    falls = task[0] - task[1] < 1e-3 and task[1] > task[2] > task[3]
    rises = partner[1] < 1.01 * partner[0] and partner[1] < partner[2] < partner[3]
    return Finding(falls and rises, say(win_rate=task, partner=partner))


def _helped(with_it: SolvedRun, without: SolvedRun) -> dict[str, float]:
    ends = [[run.column(name)[-1] for run in (with_it, without)] for name in ("partner", "task")]
    return {
        "more for the partner": ends[0][0] - 3 * ends[0][1],
        "wins lost under .02": 0.02 - (ends[1][1] - ends[1][0]),
    }


claim.spares("-1 -> 1", "the last axis of a table is its second")
claim.solved(RLHG, {"share": 0.0}, better={"value": 1}, sees=_helped)
