"""MRT's claims."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.toys.instances import Ended, by_instance, everywhere, nothing
from hocket.lab.toys.rewarded import lines
from hocket.lab.toys.training import trained
from hocket.lab.world import Answer, answer_of
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.mrt import MRT, ProgressBonus, cumulative_regret, progress, progress_to_go
from hocket.recipe import Recipe
from hocket.types import Assignment

claim = Claims("mrt", "derived")


def credited(*paths: Sequence[float]) -> tuple[list[list[float]], list[list[float]]]:
    """Credit by own block and to go of answers of a decision per block, by their values J_0 .. J_k, the last paid."""
    rows: list[dict[str, Any]] = [
        {"id": f"{number}", "group": "g", "scores": {"reward": values[-1]}, "info": {"forced_values": list(values)}}
        | {"logp": [-1.0] * (len(values) - 1), "segment": list(range(len(values) - 1))}
        for number, values in enumerate(paths)
    ]
    own, to_go = (MRT.but(credit=ProgressBonus(base=None, form=form)) for form in ("own", "to-go"))
    return inspect_rows(own, rows)["advantages"], inspect_rows(to_go, rows)["advantages"]


@claim("progress telescopes; credited to go, outputs rank by outcome")
def _() -> Finding:
    """Every binary outcome tree of two blocks with two choices each, its values exact means of what can follow."""
    errors, ranked = [], True
    for outcomes in itertools.product((0.0, 1.0), repeat=4):
        halves = [fmean(outcomes[:2]), fmean(outcomes[2:])]
        paths = [[fmean(outcomes), halves[leaf // 2], outcomes[leaf]] for leaf in range(4)]
        own, to_go = credited(*paths)
        for values, mine, rest in zip(paths, own, to_go, strict=True):
            errors += [abs(sum(mine) - (values[-1] - values[0])), gap(rest, [values[-1] - one for one in values[:-1]])]
        ranked &= gap([row[0] for row in to_go], [outcome - fmean(outcomes) for outcome in outcomes]) < 1e-12
    known = torch.from_numpy(Key.of(0).numpy().random(9))
    errors.append(gap(progress(known).sum(), known[-1] - known[0]))
    errors.append(gap(progress_to_go(known), progress(known).flip(0).cumsum(0).flip(0)))
    figures = say(largest_error=max(errors), credit_of_first_blocks_ranks_by_outcome=ranked)
    return Finding(max(errors) < 1e-12 and ranked, figures)


@claim("own-block credit may rank outputs otherwise", "the row")
def _() -> Finding:
    """A quick guess that is often right against an exploration that shows nothing until its end."""
    own, to_go = ([row[0] for row in rows] for rows in credited([0.3, 0.6, 0.6], [0.3, 0.2, 1.0]))
    figures = f"first block of guess (0.6) and explore (1.0): {lines(own=own, to_go=to_go)}"
    return Finding(own[0] > own[1] and to_go[0] < to_go[1], figures)


SAY = 4

# Guess and check: every token but the last is a try, checked as it is made; token 0 tries what is promising. Instance i
# needs i + 1 promising tries; who made them is right when they answer (token 4). One policy cannot tell the four apart.
SEARCH = Ended(
    *(1, 5, 10, nothing),
    context="position",
    words=("a ", "b ", "c ", "d ", "<answer>"),
    count=4,
    about=lambda number: {"question": 0, "needed": number + 1},
    last=(SAY,),
)


def searched(told: Mapping[str, Any], answer: Answer) -> float:
    return float(answer[-1] == SAY and answer.count(0) >= told["needed"])


def outcomes(recipe: Recipe, seed: int) -> list[float]:
    """Accuracy, length, and cumulative regret after 1 to 9 tries, over 128 samples of every instance after training."""
    start, method = everywhere(*[0.23] * 4, 0.08), recipe.but(rewards=(by_instance(searched),))
    (bench,) = trained(SEARCH, method, 75, seeds=(seed,), start=start)
    asked = [Assignment(SEARCH.scenario("eval", number), samples=128) for number in range(4)]
    rows = []
    for one in asyncio.run(bench.parts.player.play(asked, key=Key.of(99))):
        answer, told = answer_of(one), one.scenario.metadata
        after = [float(answer[:k].count(0) >= told["needed"]) for k in range(1, 10)]
        rows.append([searched(told, answer), len(answer), *(cumulative_regret(after[:k]) for k in range(1, 10))])
    return [fmean(column) for column in zip(*rows, strict=True)]


@claim(
    "as accurate as outcome GRPO with fewer tokens and a lower regret at every budget", "arXiv:2503.07572", slow=True
)
def _() -> Finding:
    meta = MRT.but({"rollout.blocks": 10, "rollout.tries": 1, "rollout.answer_tokens": 1})
    plain, ours = ([outcomes(recipe, seed) for seed in SEEDS] for recipe in (GRPO, meta))
    means = [[fmean(column) for column in zip(*side, strict=True)] for side in (plain, ours)]
    (right, size, *regret), (own_right, own_size, *own_regret) = means
    shorter = [a[1] - b[1] for a, b in zip(plain, ours, strict=True)]
    lower = all(b < a for a, b in zip(regret, own_regret, strict=True))
    saw = lines(accuracy=[right, own_right], tokens=[size, own_size], fewer_by_seed=shorter)
    saw += f", {lines(regret_after_1_to_9_tries=regret, of_MRT=own_regret)}"
    return Finding(own_right >= right - 0.01 and min(shorter) > 0.2 and lower, f"GRPO and MRT: {saw}")


claim.shipped(MRT, "credit")
