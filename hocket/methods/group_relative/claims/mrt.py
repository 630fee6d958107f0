"""What mrt claims."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import look
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import SEEDS, apart, document, line
from hocket.lab.toys.toys import Instances, Verdict
from hocket.lab.world import Answer, answer_of
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.mrt import MRT, ProgressBonus, cumulative_regret, progress, progress_to_go
from hocket.recipe import Recipe
from hocket.types import Assignment

claim = Claims("mrt", "derived")


def blocks_document(paths: Mapping[str, tuple[Sequence[float], float]]) -> dict[str, Any]:
    """One answer per path, a decision per block: the values J_0 .. J_k, and the outcome."""
    rows = [
        {
            "id": name,
            "group": "g",
            "scores": {"reward": outcome},
            "logp": [-1.0] * (len(values) - 1),
            "segment": list(range(len(values) - 1)),
            "info": {"forced_values": list(values)},
        }
        for name, (values, outcome) in paths.items()
    ]
    return document(rows)


@claim("progress telescopes; credited to go, outputs rank by outcome")
def bonuses_telescope() -> Finding:
    """Every binary outcome tree of two blocks with two choices each, its values exact means of what can follow."""
    worst, ranked = 0.0, True
    alone = {form: MRT.but(credit=ProgressBonus(base=None, form=form)) for form in ("own", "to-go")}
    for outcomes in itertools.product((0.0, 1.0), repeat=4):
        paths = {
            f"{leaf}": ([fmean(outcomes), fmean(outcomes[leaf // 2 * 2 :][:2]), outcomes[leaf]], outcomes[leaf])
            for leaf in range(4)
        }
        own, to_go = (look(alone[form], blocks_document(paths))["advantages"] for form in ("own", "to-go"))
        for (values, outcome), mine, rest in zip(paths.values(), own, to_go, strict=True):
            worst = max(worst, abs(sum(mine) - (values[-1] - values[0])))
            worst = max(worst, apart(rest, [outcome - before for before in values[:-1]]))
        ranked &= apart([row[0] for row in to_go], [outcome - fmean(outcomes) for outcome in outcomes]) < 1e-12
    known = torch.from_numpy(Key.of(0).numpy().random(9))
    worst = max(worst, abs(float(progress(known).sum() - (known[-1] - known[0]))))
    worst = max(worst, float((progress_to_go(known) - progress(known).flip(0).cumsum(0).flip(0)).abs().max()))
    return Finding(
        worst < 1e-12 and ranked, f"largest error {worst:.1e}; the first block's credit ranks outputs by outcome"
    )


@claim("own-block credit may rank outputs otherwise", "the row")
def own_blocks_may_rank_otherwise() -> Finding:
    """A quick guess that is often right against an exploration that shows nothing until its end."""
    paths = {"guess": ([0.3, 0.6, 0.6], 0.6), "explore": ([0.3, 0.2, 1.0], 1.0)}
    ways = {form: MRT.but(credit=ProgressBonus(base=None, form=form)) for form in ("own", "to-go")}
    seen = {form: look(recipe, blocks_document(paths))["advantages"] for form, recipe in ways.items()}
    first = {form: [row[0] for row in rows] for form, rows in seen.items()}
    holds = first["own"][0] > first["own"][1] and first["to-go"][0] < first["to-go"][1]
    return Finding(
        holds, f"first block of guess (0.6) and explore (1.0): own {line(first['own'])}, to go {line(first['to-go'])}"
    )


SAY = 4


@dataclass(frozen=True)
class Search(Instances):
    """Guess and check: every token but the last is a try, checked as it is made; token 0 tries what is promising.

    Instance i needs i + 1 promising tries. Whoever made them is right when they answer (token 4), others are wrong.
    """

    def finished(self, tokens: Sequence[int]) -> bool:
        return len(tokens) > 0 and (tokens[-1] == SAY or len(tokens) >= self.horizon)

    def answers(self) -> Iterator[Answer]:
        yield from ((*[0] * size, SAY) for size in range(self.horizon))  # A policy of positions alone: these name all.
        yield (0,) * self.horizon


def search() -> Search:
    """Four instances that one policy cannot tell apart."""
    return Search(
        questions=1,
        tokens=5,
        horizon=10,
        reward=lambda question, answer: 0.0,
        context="position",
        words=("a ", "b ", "c ", "d ", "<answer>"),
        count=4,
        about=lambda number: {"question": 0, "needed": number + 1},
    )


def searched(told: Mapping[str, Any], answer: Answer) -> float:
    """The verdict on a search."""
    return float(answer[-1] == SAY and answer.count(0) >= told["needed"])


def outcomes_of(made: Bench, samples: int = 128) -> tuple[float, float, list[float]]:
    """Accuracy, length, and cumulative regret after 1, 2, .. tries, over samples of every instance."""
    world = made.world
    asked = [Assignment(world.scenario("eval", number), samples=samples) for number in range(4)]
    played = asyncio.run(made.parts.player.play(asked, key=Key.of(99)))
    right, size, values = [], [], []
    for one in played:
        answer, told = answer_of(one), one.scenario.metadata
        right.append(searched(told, answer))
        size.append(float(len(answer)))
        after = [float(answer[:k].count(0) >= told["needed"]) for k in range(1, world.horizon)]
        values.append([cumulative_regret(after[:k]) for k in range(1, world.horizon)])
    return fmean(right), fmean(size), [fmean([row[k] for row in values]) for k in range(world.horizon - 1)]


def hesitant(policy: Tabular) -> None:
    """A start that tries anything and answers seldom."""
    policy.logits.copy_(torch.tensor([0.23] * 4 + [0.08], dtype=torch.float64).log().expand_as(policy.logits))


def search_runs(recipe: Recipe, steps: int) -> list[tuple[float, float, list[float]]]:
    """What five runs of a recipe reach."""
    method = recipe.but(rewards=(Verdict(searched),))
    runs = [Bench(search(), method, seed=seed, steps=steps, prompts=4, start=hesitant) for seed in SEEDS]
    return [outcomes_of(made.run(steps, every=steps + 1)) for made in runs]


@claim(
    "as accurate as outcome GRPO with fewer tokens and a lower regret at every budget", "arXiv:2503.07572", slow=True
)
def less_regret() -> Finding:
    """As accurate as outcome GRPO with fewer tokens and a lower regret at every budget."""
    steps = 75
    meta = search_runs(MRT.but({"rollout.blocks": 10, "rollout.tries": 1, "rollout.answer_tokens": 1}), steps)
    plain = search_runs(GRPO, steps)
    accuracy = [fmean([row[0] for row in found]) for found in (plain, meta)]
    size = [fmean([row[1] for row in found]) for found in (plain, meta)]
    regret = [[fmean([row[2][k] for row in found]) for k in range(9)] for found in (plain, meta)]
    lower = all(b < a for a, b in zip(*regret, strict=True))
    shorter = [a[1] - b[1] for a, b in zip(plain, meta, strict=True)]
    return Finding(
        accuracy[1] >= accuracy[0] - 0.01 and min(shorter) > 0.2 and lower,
        f"{steps} steps, 5 seeds, GRPO and MRT: accuracy {line(accuracy)}; tokens {line(size)}, by seed fewer by "
        f"{line(shorter)}; regret after 1, 2, .. 9 tries {line(regret[0])} and {line(regret[1])}",
    )
