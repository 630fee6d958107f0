"""DMPO's claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import torch

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.keys import Key
from hocket.core.segments import segment_sum
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.episodes import episode
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import played_by
from hocket.methods.agents.dmpo import DMPO
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.objectives.preference import turn_weight, turn_weights
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.train.loop import collect, learn_from
from hocket.types import Message, Scenario

claim = Claims("dmpo", "arXiv:2406.14868 and its released code")


def pairs(key: Key, most: int) -> list[dict[str, Any]]:
    """Four groups of a win and a loss of 1 to `most` turns, one token of each turn imposed."""
    rng, rows = key.numpy(), []
    for group, reward in product(range(4), (1.0, 0.0)):
        lengths = [int(rng.integers(2, 4)) for _ in range(int(rng.integers(1, most + 1)))]
        row = episode(f"group {group}", reward, [{"tokens": [0] * length} for length in lengths])
        row["logp"], row["logp_ref"] = (rng.normal(-1.0, 0.7, sum(lengths)).tolist() for _ in range(2))
        rows.append(row | {"trained": [place > 0 for length in lengths for place in range(length)]})
    return rows


def by_hand(rows: Sequence[Mapping[str, Any]], beta: float, gamma: float) -> tuple[float, list[list[float]]]:
    """The loss and its gradient, counted anew; rows are win and loss by turns."""
    weights, sums = [], []
    for row in rows:
        n = row["turn"][-1] + 1
        phi = [gamma**j * (1 - gamma ** (n - j)) / (1 - gamma**n) if gamma < 1 else 1 - j / n for j in range(n)]
        weights.append([phi[turn] * trained for turn, trained in zip(row["turn"], row["trained"], strict=True)])
        parts = zip(weights[-1], row["logp"], row["logp_ref"], strict=True)
        sums.append(math.fsum(weight * (now - old) for weight, now, old in parts))
    loss, gradient, count = 0.0, [], len(rows) // 2
    for better in range(0, len(rows), 2):
        margin = beta * (sums[better] - sums[better + 1])
        loss += math.log1p(math.exp(-margin)) / count
        slope = beta / (1 + math.exp(margin)) / count
        gradient += [[-slope * one for one in weights[better]], [slope * one for one in weights[better + 1]]]
    return loss, gradient


@claim("The loss is the formula; only action tokens have a gradient.")
def the_loss_is_the_formula_only_action_tokens_have_a_gradient() -> Finding:
    gaps, imposed = [], []
    for number, (gamma, beta) in product(range(12), ((0.5, 0.3), (0.7, 0.1), (1.0, 0.3))):
        rows = pairs(Key.of(number), most=6)
        changes = {} if gamma == 0.7 else {"objective.turn_discount": gamma, "objective.beta": beta}
        seen = inspect_rows(DMPO.but(changes), rows)
        loss, gradient = by_hand(rows, beta, gamma)
        gaps += [abs(seen["loss"] - loss), gap(seen["gradient"], gradient)]
        for row, own in zip(rows, seen["gradient"], strict=True):
            imposed += [abs(slope) for slope, trained in zip(own, row["trained"], strict=True) if not trained]
    figures = say(loss_and_gradient_of_12_batches_off_by=max(gaps), slopes_of_tokens_that_are_no_actions=max(imposed))
    return Finding(max(gaps) < 1e-12 and max(imposed) == 0, f"gamma 0.5, 0.7, 1: {figures}")


@claim("With one turn it is standard DPO.")
def with_one_turn_it_is_standard_dpo() -> Finding:
    gaps, slopes = [], []
    for number in range(12):
        rows = pairs(Key.of(number), most=1)
        ours, plain = inspect_rows(DMPO, rows), inspect_rows(ONLINE_DPO, rows)
        gaps += [abs(ours["loss"] - plain["loss"]), gap(ours["gradient"], plain["gradient"])]
        slopes += [abs(slope) for row in plain["gradient"] for slope in row]
    return Finding(max(gaps) == 0 and max(slopes) > 1e-3, say(off_by_on_12_batches_of_one_turn=max(gaps)))


@claim("phi(0, T) = 1, phi falls from turn to turn, and gamma -> 1 is continuous.")
def phi_1_phi_falls_from_turn_to_turn_and_gamma_1_is_continuous() -> Finding:
    first, falls, jumps = [], [], []
    for turns in (1, 2, 5, 40):
        gammas = (0.1, 0.7, 0.99, 1 - 1e-9, 1.0)
        phi = [turn_weight(torch.arange(turns), torch.tensor(turns), gamma).tolist() for gamma in gammas]
        first += [abs(one[0] - 1) for one in phi]
        falls += [before - after for one in phi for before, after in pairwise(one)]
        jumps.append(gap(phi[-2], phi[-1]))
    figures = say(phi_of_0_off_1=max(first), least_fall=min(falls), jump_from_gamma_1_minus_1e_9=max(jumps))
    return Finding(max(first) == 0 and min(falls) > 0 and max(jumps) < 1e-7, f"T up to 40: {figures}")


DOORS, NOISE = ("red", "green", "blue"), ("walk", "sing", "hum")
STEPS, BETA = 60, 1.0


@played_by("policy")
async def three_doors(scenario: Scenario, team: Team) -> Outcome:
    """Behind the right one of three doors one more turn follows, behind the others nine, where nothing said matters."""
    right = str(await team.policy.fresh()("which door")) == scenario.answer
    for turn in range(1 if right else 9):
        await team.policy.fresh()(f"{scenario.id}, corridor {turn}")
    return Outcome(rewards={"right": float(right)})


def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    return dict.fromkeys(NOISE if messages[-1]["content"] == "which door" else DOORS, -9.0)


def taught(recipe: Recipe, seed: int) -> tuple[float, float]:
    """Chance of the right door after `STEPS` from the same pairs; the gap of mean |score| between wins and losses."""
    rooms = [Scenario(f"house {number}", "?", answer="red") for number in range(24)]
    method = recipe.but({"objective.beta": BETA})
    bench = TalkBench(three_doors, rooms, (*DOORS, *NOISE), method, view=last_message, prior=start, seed=seed)
    experience, _ = run_async(collect(bench.parts, bench.parts.key.derive("pairs")))
    batch = [learn_from(bench.parts, step + 1, experience, [], rollout=1.0) for step in range(STEPS)][-1].batch
    learner = bench.learners["policy"]
    assert batch is not None
    assert batch.occurrences.pairs is not None
    assert learner.reference is not None
    drift = (learner.policy.evaluate(batch, ()).logp - learner.reference.evaluate(batch, ()).logp).detach()
    used = drift[batch.occurrences.decision] * (turn_weights(batch, 0.7) if recipe is DMPO else 1.0)
    score = BETA * segment_sum(used, batch.occurrences.trajectory, batch.trajectories).abs()
    won, lost = (float(score[side].mean()) for side in batch.occurrences.pairs.T)
    return float(bench.policies["policy"].probabilities("which door")[DOORS.index("red")]), abs(lost - won)


@claim(
    "From pairs of short wins and long losses with noise in late turns it learns what decides better than "
    "summed turns, and scores of losses and wins differ less in size.",
    slow=True,
)
def from_pairs_of_short_wins_and_long_losses_with_noise_in_late() -> Finding:
    (plain, theirs), (ours, own) = (
        zip(*(taught(one, seed) for seed in SEEDS), strict=True) for one in (ONLINE_DPO, DMPO)
    )
    figures = say(right_door_by_summed_turns=line(plain), by_DMPO=line(ours))
    sizes = say(difference_in_size_of_summed_scores=theirs, of_DMPO=own)
    return Finding(min(ours) > max(plain) + 0.1 and max(own) < 0.8 * min(theirs), f"{STEPS} steps: {figures}, {sizes}")


claim.shipped(DMPO, "objective.turn_discount", settings={"curriculum.prompts": 4})
