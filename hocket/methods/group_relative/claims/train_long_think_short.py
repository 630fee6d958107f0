"""The claims of Train Long, Think Short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap
from hocket.lab.claims.shipped_check import configured
from hocket.lab.toys.instances import EndedInstances, by_instance, everywhere, nothing
from hocket.lab.toys.recorded_answers import answer, line, lines, shaped
from hocket.lab.toys.training import trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.train_long_think_short import (
    TRAIN_LONG_THINK_SHORT,
    budget_reward,
    shrinking_budget,
)
from hocket.tasks.sums import Sums
from hocket.train.ledger import Ledger

claim = Claims("train-long-think-short", "arXiv:2508.08940, section 3")


@claim("budget schedule and reward shapes at their corners")
def budget_schedule_and_reward_shapes_at_their_corners() -> Finding:
    steps = (0, 9, 10, 19, 20, 1000)
    budgets, lengths = [shrinking_budget(k, 256, 0.8, 10) for k in steps], torch.tensor([0, 10, 20, 30, 40, 50])
    wanted: dict[Literal["triangle", "flat", "linear"], list[float]]
    wanted = {"triangle": [0, 0.5, 1, 0.5, 0, 0], "flat": [1, 1, 1, 0.5, 0, 0], "linear": [1, 0.75, 0.5, 0.25, 0, 0]}
    shapes = {name: budget_reward(lengths, torch.tensor(20.0), name).tolist() for name in wanted}
    off = max(gap(shapes[name], wanted[name]) for name in wanted)
    worth = f"worth at 0, B/2, B, 1.5B, 2B: {line(shapes['triangle'][:5])}"
    saw = f"B_k of 256, 0.8, 10 at steps {steps}: {budgets}; {worth}"
    return Finding(budgets == [256, 256, 205, 205, 164, 1] and off < EXACT, saw)


@claim("the prompt asks for the budget, and the reward is measured by it")
def the_prompt_asks_for_the_budget_and_the_reward_is_measured_by_it() -> Finding:
    quick = {"curriculum.prompts": 2, "curriculum.start": 10, "curriculum.interval": 1}
    curriculum, world = TRAIN_LONG_THINK_SHORT.but(quick).curriculum, World(3, 2, 2, nothing)
    asked = [one for at in (0, 2, 4) for one in curriculum(world, at, 2, Ledger(), Key.of(1))]
    said = [(one.metadata["budget"], str(one.prompt).splitlines()[-1]) for one in asked]
    cases = ((2, 1.0), (4, 1.0), (8, 1.0), (4, 0.0))
    rows = [answer(verdict, n, f"g{n}", info={"metadata": {"budget": 4}}) for n, verdict in cases]
    earned = shaped(TRAIN_LONG_THINK_SHORT.but(shaping=TRAIN_LONG_THINK_SHORT.shaping[:1]), rows)
    holds = [budget for budget, _ in said] == [10, 10, 8, 8, 6, 6] and all(str(b) in text for b, text in said)
    saw = f"{said[-1][1]!r}; returns at B = 4: {line(earned)}"
    return Finding(holds and gap(earned, [1.5, 2.0, 1.0, 1.0]) < EXACT, saw)


@claim("what is asked for can be said, and also what is twice as long, whatever the longest response is")
def what_is_asked_for_can_be_said_and_also_what_is_twice_as_long() -> Finding:
    task, saw = Sums(), {}
    for flags in ({}, {"decoding.max_tokens": 40}, {"decoding.max_tokens": 300}):
        config = configured(TRAIN_LONG_THINK_SHORT, task.name, task, flags)
        (asked,) = config.recipe.curriculum(task, 0, 1, Ledger(), Key.of(1))
        saw[config.decoding.max_tokens] = asked.metadata["budget"]
    return Finding(all(longest == 2 * budget for longest, budget in saw.items()), f"budgets by longest response: {saw}")


@claim(
    "As shipped the budget is 0.8 of what it was every 20 steps of 16; half a point is for tags, a half of it for each."
)
def as_shipped_the_budget_is_0_8_of_what_it_was_every_20_steps_of() -> Finding:
    world = World(40, 2, 2, nothing)
    made = TRAIN_LONG_THINK_SHORT.curriculum
    asked = [one.metadata["budget"] for one in made(world, 20 * 16 - 2, 4, Ledger(), Key.of(1))]
    start = shrinking_budget(0, asked[0], 0.8, 20)
    texts = ("<think></think><answer>4</answer>", "<think>a</think>4", "<answer>4</answer>", "4")
    rows = [{**answer(0.0, 8, f"g{text}", info={"metadata": {"budget": 4}}), "text": text} for text in texts]
    earned = shaped(TRAIN_LONG_THINK_SHORT, rows)
    holds = asked == [start, start, round(0.8 * start), round(0.8 * start)]
    return Finding(holds and gap(earned, [0.5, 0.25, 0.25, 0.0]) < EXACT, lines(budgets=str(asked), tags=earned))


END = 4


@dataclass(frozen=True)
class Hunt(EndedInstances):
    """Find `need` treasures (token 0), one chance in four per token at first, and say that you are done (token 4)."""

    need: int = 4
    last: tuple[int, ...] = (END,)

    def judge(self, told: Mapping[str, Any], answer: Answer) -> float:
        return float(answer[-1] == END and answer.count(0) >= self.need)

    def figures(self, made: Bench) -> tuple[float, float]:
        """The exact success rate and mean length of a policy of positions, by counting treasures."""
        table, (state, success, size) = torch.softmax(made.policy.logits.detach(), -1).tolist(), ({0: 1.0}, 0.0, 0.0)
        for place in range(self.horizon):
            share, following = table[made.policy.row(0, (0,) * place)], dict[int, float]()
            for treasures, mass in state.items():
                success += mass * share[END] * (treasures >= self.need)
                size += mass * (place + 1) * (1.0 if place == self.horizon - 1 else share[END])
                for token in range(END):
                    now = treasures + (token == 0)
                    following[now] = following.get(now, 0.0) + mass * share[token]
            state = following
        return success, size


def hunts(start: int, decay: float, need: int, steps: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Success and length after training under a budget, each by seed. A hunt is asked twice a step."""
    more: dict[str, Any] = {"context": "position", "count": 2, "about": lambda number: {"question": 0}, "need": need}
    world = Hunt(1, 5, 10, nothing, **more)
    budget = {"curriculum.start": start, "curriculum.decay": decay, "curriculum.interval": 14}
    recipe = TRAIN_LONG_THINK_SHORT.but(budget, rewards=(by_instance(world.judge),))
    # The start seldom says it is done.
    benches = trained(world, recipe, steps, start=everywhere(*[0.23] * 4, 0.08), lr=0.1)
    right, lengths = zip(*map(world.figures, benches), strict=True)
    return right, lengths


@claim("ending at the same budget, the shrinking one reaches higher accuracy, at a length close to it", slow=True)
def ending_at_the_same_budget_the_shrinking_one_reaches_higher() -> Finding:
    last = shrinking_budget(83, 7, 0.92, 14)
    (shrinking, lengths), (fixed, others) = hunts(7, 0.92, 4, 84), hunts(last, 1.0, 4, 84)
    saw = lines(shrinking_from_7=shrinking, at_length=lengths, fixed=fixed, at=others)
    holds = min(shrinking) > max(fixed) and all(abs(n - last) <= 1.5 for n in lengths)
    return Finding(holds, f"84 steps, 5 seeds, last budget {last}: {saw}")


@claim("padding up to the budget is learnt, as the shape pays for it", "the row", slow=True)
def padding_up_to_the_budget_is_learnt_as_the_shape_pays_for_it() -> Finding:
    right, lengths = hunts(5, 1.0, 1, 50)
    saw = lines(two_tokens_solve_it_budget=5, tokens_of_answers_after_50_steps=lengths)
    return Finding(fmean(lengths) > 4.0 and min(right) > 0.95, saw)


claim.shipped(TRAIN_LONG_THINK_SHORT, "curriculum", "shaping")
