"""What dmpo claims."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.core.segments import segment_sum
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.turn_toys import SEEDS, by_turn, episode, seen, worst
from hocket.methods.agents.dmpo import DMPO
from hocket.methods.base.dpo import DPO
from hocket.objectives.preference import turn_weight, turn_weights
from hocket.train.aio import run_async
from hocket.train.loop import collect, learn_from
from hocket.types import Message, Scenario
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("dmpo", "arXiv:2406.14868 and its released code")


def phi(gamma: float, turns: int) -> list[float]:
    """The weights of all turns."""
    return turn_weight(torch.arange(turns), torch.tensor(turns), gamma).tolist()


def pairs(key: Key, most: int) -> list[dict[str, Any]]:
    """Four groups of a win and a loss of 1 to `most` turns, one token of each turn imposed."""
    rng, rows = key.numpy(), []
    for group in range(4):
        for reward in (1.0, 0.0):
            lengths = [int(rng.integers(2, 4)) for _ in range(int(rng.integers(1, most + 1)))]
            row = episode(f"group {group}", reward, [{"tokens": [0] * length} for length in lengths])
            row["logp"], row["logp_ref"] = (rng.normal(-1.0, 0.7, sum(lengths)).tolist() for _ in range(2))
            row["trained"] = [place > 0 for length in lengths for place in range(length)]
            rows.append(row)
    return rows


def by_hand(rows: Sequence[Mapping[str, Any]], beta: float, gamma: float) -> tuple[float, list[list[float]]]:
    """The loss and its gradient, counted anew; rows are win and loss by turns."""
    weighted, coefficients = [], []
    for row in rows:
        turns = row["turn"][-1] + 1
        weight = [
            gamma**j * (1 - gamma ** (turns - j)) / (1 - gamma**turns) if gamma < 1 else (turns - j) / turns
            for j in range(turns)
        ]
        used = [weight[turn] * trained for turn, trained in zip(row["turn"], row["trained"], strict=True)]
        gaps = [now - old for now, old in zip(row["logp"], row["logp_ref"], strict=True)]
        coefficients.append(used)
        weighted.append(math.fsum(one * gap for one, gap in zip(used, gaps, strict=True)))
    loss, gradient, count = 0.0, [], len(rows) // 2
    for better in range(0, len(rows), 2):
        margin = beta * (weighted[better] - weighted[better + 1])
        loss += math.log1p(math.exp(-margin)) / count
        slope = beta / (1 + math.exp(margin)) / count
        gradient += [[-slope * one for one in coefficients[better]], [slope * one for one in coefficients[better + 1]]]
    return loss, gradient


@claim("The loss is the formula; only action tokens have a gradient.")
def it_is_the_formula() -> Finding:
    gap, imposed = 0.0, 0.0
    for number in range(12):
        rows = pairs(Key.of(number), most=6)
        for gamma in (0.5, 0.7, 1.0):
            found = seen(DMPO.but({"objective.turn_discount": gamma, "objective.beta": 0.3}), rows)
            loss, gradient = by_hand(rows, 0.3, gamma)
            gap = max(gap, abs(found["loss"] - loss), worst(found["gradient"], gradient))
            parts = zip(rows, found["gradient"], strict=True)
            imposed = max(imposed, *(abs(turn[0]) for row, own in parts for turn in by_turn(row, own)))
    return Finding(
        gap < 1e-12 and imposed == 0,
        f"loss and gradient of 12 random batches at gamma 0.5, 0.7 and 1 counted anew: {gap:.1e}; on tokens that are "
        f"no actions {imposed:.1e}",
    )


@claim("With one turn it is standard DPO.")
def one_turn_is_dpo() -> Finding:
    gap, moved = 0.0, 0.0
    for number in range(12):
        rows = pairs(Key.of(number), most=1)
        ours, plain = seen(DMPO, rows), seen(DPO, rows)
        gap = max(gap, abs(ours["loss"] - plain["loss"]), worst(ours["gradient"], plain["gradient"]))
        moved = max(moved, worst(plain["gradient"], [[0.0] * len(row) for row in plain["gradient"]]))
    return Finding(gap == 0 and moved > 1e-3, f"12 random batches of one-turn episodes: {gap:.1e}")


@claim("phi(0, T) = 1, phi falls from turn to turn, and gamma -> 1 is continuous.")
def weights_fall() -> Finding:
    first, rises, jump = 0.0, [], 0.0
    for turns in (1, 2, 5, 40):
        for gamma in (0.1, 0.7, 0.99, 1 - 1e-9, 1.0):
            found = phi(gamma, turns)
            first = max(first, abs(found[0] - 1))
            rises += [after - before for before, after in pairwise(found)]
        jump = max(jump, worst(phi(1 - 1e-9, turns), phi(1.0, turns)))
    return Finding(
        first == 0 and max(rises) < 0 and jump < 1e-7,
        f"|phi(0, T) - 1| = {first:.1e}, the least fall from turn to turn {-max(rises):.1e}, and from gamma = 1 - 1e-9 "
        f"to 1 phi moves by {jump:.1e}, T up to 40",
    )


DOORS, NOISE = ("red", "green", "blue"), ("walk", "sing", "hum")
SHORT, LONG = 1, 9
STEPS, BETA = 60, 1.0


class Doors(Workflow):
    """One of three doors is right. Behind it one more turn follows, behind the others nine; what is said there is noise
    and changes nothing."""

    roles = ("policy",)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        right = str(await team.policy.fresh()("which door")) == scenario.answer
        for turn in range(SHORT if right else LONG):
            await team.policy.fresh()(f"{scenario.id}, corridor {turn}")
        return Outcome(rewards={"right": float(right)})


def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    return dict.fromkeys(NOISE if messages[-1]["content"] == "which door" else DOORS, -9.0)


@functools.cache
def taught(name: str, seed: int) -> tuple[float, float, float]:
    """Chance of the right door after `STEPS` from the same pairs; mean |score| of wins and losses."""
    recipe = {"dpo": DPO, "dmpo": DMPO}[name].but({"objective.beta": BETA})
    rooms = [Scenario(f"house {number}", "?", answer="red") for number in range(24)]
    bench = TalkBench(Doors(), rooms, (*DOORS, *NOISE), recipe, view=last_message, prior=start, seed=seed)
    experience, _ = run_async(collect(bench.parts, bench.parts.key.derive("pairs")))
    for step in range(1, STEPS + 1):
        result = learn_from(bench.parts, step, experience, [], rollout=1.0)
    assert result.batch is not None
    batch, learner = result.batch, bench.learners["policy"]
    assert learner.reference is not None
    gap = (learner.policy.evaluate(batch, ()).logp - learner.reference.evaluate(batch, ()).logp).detach()
    used = gap[batch.occurrences.decision]
    if name == "dmpo":
        used = used * turn_weights(batch, 0.7)
    score = BETA * segment_sum(used, batch.occurrences.trajectory, batch.trajectories).abs()
    compared = batch.occurrences.pairs
    assert compared is not None
    right = float(bench.policies["policy"].probabilities("which door")[DOORS.index("red")])
    return right, float(score[compared[:, 0]].mean()), float(score[compared[:, 1]].mean())


@claim(
    "From pairs of short wins and long losses with noise in late turns it learns what decides better than "
    "summed turns, and scores of losses and wins differ less in size.",
    slow=True,
)
def early_turns_are_learnt() -> Finding:
    plain, ours = ([taught(name, seed) for seed in SEEDS] for name in ("dpo", "dmpo"))
    right = [[one[0] for one in arm] for arm in (plain, ours)]
    gaps = [[abs(lost - won) for _, won, lost in arm] for arm in (plain, ours)]
    return Finding(
        min(right[1]) > max(right[0]) + 0.1 and max(gaps[1]) < 0.8 * min(gaps[0]),
        f"right door, from 0.33, after {STEPS} steps from the same 24 pairs of 2 and 10 turns: summed turns "
        f"{_shown(right[0])}; DMPO {_shown(right[1])}. Mean |score| of losses minus that of wins: {fmean(gaps[0]):.1f} "
        f"and {fmean(gaps[1]):.1f}, 5 seeds",
    )


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
