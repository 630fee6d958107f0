"""What gcpo-geometryzero claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.bench import Bench, Player
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.toys.rewarded import SEEDS, apart, document, line
from hocket.lab.toys.toys import Instances, Verdict
from hocket.lab.world import Answer
from hocket.methods.group_relative.gcpo_geometryzero import GCPO_GEOMETRYZERO, ContrastBonus, contrast_sign
from hocket.recipe import Recipe
from hocket.types import Assignment, Trajectory

claim = Claims("gcpo-geometryzero", "arXiv:2506.07160")


@claim("the mask has the right sign and is 0 inside the band")
def mask_signs() -> Finding:
    """The mask has the right sign and is 0 inside the band."""
    shares = torch.arange(0, 9, dtype=torch.float64) / 8
    with_it, without = torch.meshgrid(shares, shares, indexing="ij")
    found = contrast_sign(with_it, without, 0.1)
    wanted = torch.tensor([[(a > o + 0.1) - (a < o - 0.1) for o in shares.tolist()] for a in shares.tolist()])
    row = {"group": "g", "logp": [-1.0], "text": "<tool_call>", "scores": {"reward": 0.0}}
    bonus = ContrastBonus(weight=0.5)
    seen = [
        float(returns(bonus(Reading(document([{**row, "scores": {"reward": 0.0}, "info": told}])).batch))[0])
        for told in (
            {"accuracy_with": 0.75, "accuracy_without": 0.25},
            {"accuracy_with": 0.25, "accuracy_without": 0.75},
            {"accuracy_with": 0.55, "accuracy_without": 0.5},
        )
    ]
    holds = bool((found == wanted).all()) and apart(seen, [0.5, -0.5, 0.0]) < 1e-12
    return Finding(holds, f"81 pairs of accuracies in eighths; a rollout that constructs gets {line(seen)}")


TOOL = 0


def scratch() -> Instances:
    """A scratch tool helps on the first kind of problem and hurts on the second: use it or not, then answer."""

    def chance(question: int, answer: Answer) -> float:
        used = answer[0] == TOOL
        return 0.9 if used == (question == 0) else 0.5

    return Instances(
        questions=2,
        tokens=2,
        horizon=2,
        reward=lambda question, answer: 0.0,
        correct=chance,
        context="position",
        info=lambda question, answer: {"constructs": answer[0] == TOOL},
        count=20,
        about=lambda number: {"question": number // 10, "luck": number % 10},
    )


def scratched(told: Mapping[str, Any], answer: Answer) -> float:
    """Right in nine of ten instances where the tool helps and is used, or hurts and is not; else in five."""
    fits = (answer[0] == TOOL) == (told["question"] == 0)
    # Which instances are solved differs between the two answers, so that no instance gives the rule away.
    luck = (told["luck"] + 5 * answer[1]) % 10
    return float(luck < (9 if fits else 5))


class Obedient(Player):
    """A player whose policy does what it is told about the tool."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        rollout = GCPO_GEOMETRYZERO.rollout
        orders = {getattr(rollout, "use", ""): (TOOL,), getattr(rollout, "avoid", ""): (1 - TOOL,)}
        told = [replace(one, prefix=orders.get(one.hint or "", ())) for one in assignments]
        return await super().play(told, key=key)


def tool_rates(recipe: Recipe, seed: int, steps: int) -> list[float]:
    """How often the tool is used on either kind of problem after training."""
    world = scratch()
    made = Bench(world, recipe.but(rewards=(Verdict(scratched),)), seed=seed, steps=steps, prompts=world.count)
    made.parts.player = Obedient(world, {"policy": made.policy, "reference": made.reference})
    made.run(steps, every=steps + 1)
    answers = list(world.answers())
    with torch.no_grad():
        used = [float(answer[0] == TOOL) for answer in answers]
        return [float(made.policy.expectation(question, used)) for question in range(2)]


@claim("the tool is used where it helps and not where it hurts; an unconditional bonus drives both up", slow=True)
def tool_where_it_helps() -> Finding:
    """The tool is used where it helps and not where it hurts; an unconditional bonus drives both up."""
    # Formats and lengths are equal in this world; the bonus is what is compared.
    plain = GCPO_GEOMETRYZERO.but({"shaping.0.weight": 1.0})
    found = {
        name: [tool_rates(plain.but({"shaping.0.unconditional": free}), seed, 30) for seed in SEEDS]
        for name, free in (("masked", False), ("unconditional", True))
    }
    helped, hurt = ([row[k] for row in found["masked"]] for k in (0, 1))
    both = [min(row) for row in found["unconditional"]]
    return Finding(
        min(helped) > 0.8 and max(hurt) < 0.2 and min(both) > 0.8,
        f"30 steps, 5 seeds: tool use {line(helped)} where it helps, {line(hurt)} where it hurts; with a bonus that "
        f"asks nothing at least {line(both)} on both",
    )
