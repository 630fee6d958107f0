"""LLM4MAC's claims, on a channel small enough to enumerate."""

from __future__ import annotations

import itertools
from statistics import fmean
from typing import Any

import numpy as np

from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.columns import RETURNS
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import after_lessons
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.episodes import episode
from hocket.methods.base.ppo import PPO
from hocket.methods.teams.llm4mac.method import LLM4MAC
from hocket.methods.teams.llm4mac.world import SEND, WAIT, Uplinks, aloha
from hocket.types import Scenario, Trajectory

claim = Claims("llm4mac", "the abstract; words, moves and settings are our own")


def random_rows(number: int, agents: int) -> list[dict[str, Any]]:
    """A group of episodes of turns by agents in turn, with values."""
    rng = Key.of(number).derive("uplink").numpy()
    rows = []
    for _ in range(4):
        slots, earned = int(rng.integers(1, 4)), rng.random(3)
        turns = [
            {"tokens": [1] * int(rng.integers(1, 3)), "agent": f"node_{n}", "reward": float(earned[slot])}
            for slot in range(slots)
            for n in range(agents)
        ]
        row = episode("g", 0.0, turns)
        rows.append({**row, "value": rng.normal(size=len(row["tokens"])).tolist()})
    return rows


def by_hand(rows: list[dict[str, Any]]) -> list[list[float]]:
    """GAE with gamma 1 and lam 0.95 of each node's own decisions, whitened over those of all episodes, in float64."""
    found = [[0.0] * len(row["tokens"]) for row in rows]
    for agent in sorted({name for row in rows for name in row["agent"]}):
        places = []
        for number, row in enumerate(rows):
            own = [place for place, turn in enumerate(row["turn"]) if row["agent"][turn] == agent]
            last = {row["turn"][place]: place for place in own}
            ahead, after = 0.0, 0.0
            for place in reversed(own):
                turn = row["turn"][place]
                reward = row["turn_scores"][turn]["reward"] if place == last[turn] else 0.0
                ahead = reward + after - row["value"][place] + 0.95 * ahead
                after = row["value"][place]
                found[number][place] = ahead
            places += [(number, place) for place in own]
        given = np.array([found[number][place] for number, place in places])
        given = (given - given.mean()) / (given.std(ddof=1) + 1e-8)
        for (number, place), advantage in zip(places, given.tolist(), strict=True):
            found[number][place] = advantage
    return found


@claim("A_t is the GAE of the node's own decisions and values, whitened over that node's decisions of the batch.")
def a_t_is_the_gae_of_the_nodes_own_decisions_and_values_whitened() -> Finding:
    rows = [random_rows(number, 3) for number in range(20)]
    off = [gap(inspect_rows(LLM4MAC, one)["advantages"], by_hand(one)) for one in rows]
    plain = min(gap(inspect_rows(PPO, one)["advantages"], by_hand(one)) for one in rows)
    return Finding(max(off) < 1e-6 and plain > 0.01, say(off_by_hand_on_20_batches=max(off), PPO_at_least=plain))


@claim("With one node it is PPO to the bit.")
def with_one_node_it_is_ppo_to_the_bit() -> Finding:
    worst = 0.0
    for one in (random_rows(number, 1) for number in range(20)):
        ours, plain = inspect_rows(LLM4MAC, one), inspect_rows(PPO, one)
        worst = max(worst, gap(ours["advantages"], plain["advantages"]), gap(ours["gradient"], plain["gradient"]))
    return Finding(worst == 0.0, say(largest_difference=worst))


def throughput(world: Uplinks, sends: Any) -> float:
    """Of an episode in which `sends(node, slot)` says who sends."""
    channel, earned = world.make(Scenario("s")), 0.0
    channel.reset(Key.of(0))
    while channel.acting:
        moves = {one: (WAIT, SEND)[bool(sends(n, channel.slot))] for n, one in enumerate(channel.agents)}
        given = channel.act(moves)
        assert len(set(given.values())) == 1
        earned += given[channel.agents[0]]
    return earned


@claim("Nodes that take turns reach throughput 1; independent ones n p (1-p)^(n-1), at most that of slotted ALOHA.")
def nodes_that_take_turns_reach_throughput_1_independent_ones_n_p() -> Finding:
    taking_turns, off = [], []
    for n in (2, 3, 4):
        taking_turns.append(throughput(Uplinks(n, 2 * n, arrivals=0.0), lambda node, slot, n=n: slot % n == node))
        one = Uplinks(n, 1)
        for p in (0.1, 1 / n, 0.7):
            chances = {
                bits: float(np.prod([p if bit else 1 - p for bit in bits]))
                for bits in itertools.product((0, 1), repeat=n)
            }
            mean = sum(c * throughput(one, lambda node, slot, bits=bits: bits[node]) for bits, c in chances.items())
            off.append(abs(mean - aloha(n, p)))
        grid = max(aloha(n, p) for p in np.linspace(0, 1, 1001))
        off.append(max(0.0, grid - aloha(n)))
    holds = gap(taking_turns, [1.0] * 3) < EXACT and max(off) < EXACT and aloha(2) == 0.5 > aloha(3) > aloha(4)
    saw = say(taking_turns=taking_turns, largest_difference=max(off), ALOHA_of_many=aloha(1000))
    return Finding(holds and 0 < aloha(1000) - 1 / np.e < 1e-3, saw)


@claim(
    "As shipped every packet must be delivered: a node that always sends has half of what there is, as has ALOHA; who "
    "waits until the other's packets are gone, or takes turns, all of it."
)
def as_shipped_every_packet_must_be_delivered_a_node_that_always_sends() -> Finding:
    ways: dict[str, Any] = {
        "one_sends": lambda node, slot: node == 0,
        "all_send": lambda node, slot: True,
        "in_a_row": lambda node, slot: node == slot // 2,
        "by_turns": lambda node, slot: node == slot % 2,
    }
    shares = {name: throughput(Uplinks(), way) for name, way in ways.items()}
    due = {"one_sends": 0.5, "all_send": 0.0, "in_a_row": 1.0, "by_turns": 1.0}
    return Finding(gap(list(shares.values()), list(due.values())) < EXACT, say(**shares, ALOHA=aloha(2)))


def earned(one: Trajectory) -> float:
    """The throughput of an episode."""
    return fmean(RETURNS.get(one).values())


def channel(identified: bool, seed: int, nodes: int = 3) -> TalkBench:
    """A table that plays nodes which always have a packet."""
    flow = PlayEnvironment(Uplinks(nodes, 3, arrivals=1.0, identified=identified), memory=False, instruct=False)
    cheap = LLM4MAC.but({"rollout.samples": 32, "update.minibatches": 1, "update.epochs": 2})
    start = {"view": last_message, "measure": earned, "seed": seed, "lr": 0.1}
    return TalkBench(flow, [Scenario("channel", seed=1)], (SEND, WAIT), cheap, **start)  # type: ignore[arg-type]


@claim(
    "Nodes that know who they are learn a protocol above ALOHA's best, near 1; without identity it cannot be beaten.",
    slow=True,
)
def nodes_that_know_who_they_are_learn_a_protocol_above_alohas_best() -> Finding:
    told, anonymous = ([channel(who, seed).run(60).success(400) for seed in SEEDS] for who in (True, False))
    best, error = aloha(3), 0.5 / np.sqrt(3 * 400)
    holds = min(told) > 0.9 and max(anonymous) < best + 3 * error and min(anonymous) > 0.8 * best
    return Finding(holds, say(identified=told, anonymous=anonymous, ALOHA_at_best=best))


@claim(
    "After lessons that lean a little the shipped model finds a protocol above what ALOHA, or one node alone, "
    "delivers, within 15 steps.",
    slow=True,
)
def after_lessons_that_lean_a_little_the_shipped_model_finds_a() -> Finding:
    few = {"curriculum.prompts": 16, "rollout.samples": 4, "update.lr": 5e-4}
    pupil = after_lessons(LLM4MAC, "uplink", "lessons:uplink", few, steps=40).run(15)
    first, last = (pupil.results[place].metrics["reward/mean"] / 2 for place in (0, -1))
    alone = throughput(Uplinks(), lambda node, slot: node == 0)
    holds = first < 0.6 and last > max(alone, aloha(2)) + 0.1
    return Finding(holds, say(first_step=first, last_step=last, ALOHA_at_best=aloha(2), one_node_alone=alone))


claim.constants(
    "As shipped a batch is learnt from twice over, in two parts.",
    LLM4MAC,
    {"update.epochs": 2, "update.minibatches": 2},
    "chosen here",
)

claim.shipped(
    LLM4MAC,
    "credit",
    first={"recipe": "sft", "steps": 30, "update.lr": 0.003, "task": "lessons:uplink"},
    settings={"curriculum.prompts": 4, "rollout.samples": 4},
    sees=lambda run: {"reward": run.mean("reward/mean"), "groups": run.mean("groups/with_signal")},
)
