"""GCPO's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.bench import Bench, Player
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.instances import Instances, by_instance, nothing
from hocket.lab.toys.rewarded import document, lines, said, shaped
from hocket.lab.toys.training import on
from hocket.lab.world import Answer
from hocket.methods.group_relative.gcpo_geometryzero import (
    AVOID,
    GCPO_GEOMETRYZERO,
    USE,
    ContrastBonus,
    ContrastGroups,
    contrast_sign,
)
from hocket.types import Assignment, Trajectory

claim = Claims("gcpo-geometryzero", "arXiv:2506.07160")


@claim("the mask has the right sign and is 0 inside the band")
def _() -> Finding:
    shares = torch.arange(0, 9, dtype=torch.float64) / 8
    with_it, without = torch.meshgrid(shares, shares, indexing="ij")
    signs = contrast_sign(with_it, without, 0.1)
    wanted = torch.tensor([[(a > o + 0.1) - (a < o - 0.1) for o in shares.tolist()] for a in shares.tolist()])
    pairs = ((0.75, 0.25), (0.25, 0.75), (0.55, 0.5))
    contrasts = (dict(zip(("accuracy_with", "accuracy_without"), pair, strict=True)) for pair in pairs)
    batch = RecordedBatch(document([said("g", "<tool_call>", info=info) for info in contrasts])).batch
    earned = returns(ContrastBonus(weight=0.5)(batch)).tolist()
    holds = bool((signs == wanted).all()) and gap(earned, [0.5, -0.5, 0.0]) < 1e-12
    return Finding(holds, lines(pairs_of_accuracies=signs.numel(), constructing_gets=earned))


@claim("a construction counts in whichever turn it is written, and only where it is compared")
def _() -> Finding:
    compared = {"accuracy_with": 0.75, "accuracy_without": 0.25}
    cases = (
        {**compared, "trace": "<think>2+3=5</think>\n<answer>6</answer>"},
        {**compared, "trace": "first\n<answer>6</answer>"},
        {"trace": "<think>2+3=5</think>\n<answer>6</answer>"},
    )
    rows = [said("g", "<answer>6</answer>", info=info) for info in cases]
    bonus = GCPO_GEOMETRYZERO.but(shaping=GCPO_GEOMETRYZERO.shaping[:1])
    earned = shaped(bonus, rows)
    return Finding(gap(earned, [0.5, 0.0, 0.0]) < 1e-12, lines(bonus=earned))


TOOL = 0


def scratched(told: Mapping[str, Any], answer: Answer) -> float:
    """Right in nine of ten instances where the tool helps and is used, or hurts and is not; else in five."""
    # Which instances are solved differs between the two answers, so that no instance gives the rule away.
    return float((told["luck"] + 5 * answer[1]) % 10 < (9 if (answer[0] == TOOL) == (told["question"] == 0) else 5))


SCRATCH = Instances(
    # A scratch tool helps on the first kind of problem and hurts on the second: use it or not, then answer.
    *(2, 2, 2, nothing),
    correct=lambda question, answer: 0.9 if (answer[0] == TOOL) == (question == 0) else 0.5,
    context="position",
    info=lambda question, answer: {"constructs": answer[0] == TOOL},
    count=20,
    about=lambda number: {"question": number // 10, "luck": number % 10},
)


class Obedient(Player):
    """A player whose policy does what it is told about the tool."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        orders = {USE: (TOOL,), AVOID: (1 - TOOL,)}
        return await super().play([replace(one, prefix=orders.get(one.hint or "", ())) for one in assignments], key=key)


def tool_rates(unconditional: bool, seed: int) -> list[float]:
    """How often the tool is used on either kind of problem after training; the bonus is what is compared."""
    told = {"rollout": ContrastGroups(8, 4)}  # In words, which the player here heeds.
    bonus = {**told, "shaping.0.weight": 1.0, "shaping.0.unconditional": unconditional}
    recipe = GCPO_GEOMETRYZERO.but(bonus, rewards=(by_instance(scratched),))
    made = Bench(SCRATCH, recipe, seed=seed, steps=30, prompts=SCRATCH.count)
    made.parts.player = Obedient(SCRATCH, {"policy": made.policy, "reference": made.reference})
    made.run(30, every=31)
    return [on(question, made, lambda _, answer: answer[0] == TOOL) for question in range(2)]


@claim("the tool is used where it helps and not where it hurts; an unconditional bonus drives both up", slow=True)
def _() -> Finding:
    helped, hurt = zip(*(tool_rates(False, seed) for seed in SEEDS), strict=True)
    both = [min(tool_rates(True, seed)) for seed in SEEDS]
    figures = lines(tool_use_where_it_helps=helped, where_it_hurts=hurt, least_with_an_unconditional_bonus=both)
    return Finding(min(helped) > 0.8 and max(hurt) < 0.2 and min(both) > 0.8, figures)


claim.shipped(GCPO_GEOMETRYZERO, "rollout", "shaping")
