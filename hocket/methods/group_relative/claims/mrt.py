"""MRT's claims."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.lab.toys.instances import EndedInstances, by_instance, everywhere, nothing
from hocket.lab.toys.recorded_answers import lines
from hocket.lab.toys.training import trained
from hocket.lab.world import Answer, answer_of
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.mrt import (
    FORCED_VALUES,
    MRT,
    ProgressBonus,
    block_ends,
    cumulative_regret,
    progress,
    progress_to_go,
)
from hocket.recipe import Recipe
from hocket.rollout.branches import ANSWER, CLOSED, OPENED
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn

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
def progress_telescopes_credited_to_go_outputs_rank_by_outcome() -> Finding:
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
def own_block_credit_may_rank_outputs_otherwise() -> Finding:
    """A quick guess that is often right against an exploration that shows nothing until its end."""
    own, to_go = ([row[0] for row in rows] for rows in credited([0.3, 0.6, 0.6], [0.3, 0.2, 1.0]))
    figures = f"first block of guess (0.6) and explore (1.0): {lines(own=own, to_go=to_go)}"
    return Finding(own[0] > own[1] and to_go[0] < to_go[1], figures)


@claim(
    "Advantages, loss and gradient are the formula's, counted by hand; alpha 1, answers without values get no bonus."
)
def advantages_loss_and_gradient_are_the_formulas_counted_by_hand() -> Finding:
    def credit(members: Sequence[CountedAnswer]) -> list[torch.Tensor]:
        found = []
        for one, outcome in zip(members, standardised(members), strict=True):
            known = one.row["info"]["forced_values"] or [0.0]
            gains = [after - before for before, after in itertools.pairwise(known)] or [0.0]
            blocks = torch.tensor(one.row["segment"])[one.where].tolist()
            found.append(
                torch.tensor([outcome + gains[min(block, len(gains) - 1)] for block in blocks], dtype=torch.float64)
            )
        return found

    gaps = []
    for rows in stale_rows("mrt"):
        for number, row in enumerate(rows):  # The last block takes what lies beyond.
            row["info"]["forced_values"] = (None, [0.5], [0.25, 0.75], [0.0, 0.5, 0.25], [0.5, 0.0, 0.5, 1.0])[
                number % 5
            ]
        gaps.append(off(MRT, rows, credit=credit))
    return below(EXACT, off_by_hand=max(gaps))


class Letters:
    """Tokens are letters. What was thought after so many of them is what an answer is worth."""

    encode = staticmethod(lambda text, after=(): tuple(map(ord, text)))
    decode = staticmethod(lambda tokens: "".join(map(chr, tokens)))

    def __init__(self, *thoughts: str) -> None:
        self.thoughts, self.asked, self.tokenizer = thoughts, list[Assignment](), self

    async def __call__(self, asked: Sequence[Assignment]) -> list[Trajectory]:
        self.asked += asked
        return [self.played(one, one.first + number) for one in asked for number in range(one.samples)]

    def played(self, asking: Assignment, sample: int) -> Trajectory:
        begun = self.decode(asking.prefix)
        text = f"{begun}7</answer>" if begun else self.thoughts[int(asking.scenario.id)]
        action = np.array(self.encode(text))
        return Trajectory(asking.scenario, [Turn("solo", "solo", action[:0], action)], sample, source=asking.source)

    def worth(self, one: Trajectory) -> float:
        """Of a forced answer what begins it says; of the others, what the scenario does; of odd numbers half of it."""
        begun = one.turns[0].action if one.source == "own" else one.turns[0].action[: -len("7</answer>")]
        return (0.5 if one.sample % 2 else 1.0) * len(begun) / 64

    async def score(self, played: Sequence[Trajectory]) -> None:
        for one in played:
            one.scores["reward"] = Score(self.worth(one))


@claim(
    "As shipped: 8 samples, their thoughts in 4 blocks; 2 answers of 16 tokens after each but the last, and at first."
)
def as_shipped_8_samples_their_thoughts_in_4_blocks_2_answers_of_16() -> Finding:
    plays = Letters("<think>abcdefgh</think><answer>7</answer>", "x<think>abc</think>7", "no thought at all")
    asked = [Assignment(Scenario(str(number), "?")) for number in range(3)]
    work = MRT.rollout.collect(asked, play=plays, score=plays.score, ledger=Ledger(), key=Key.of(0))
    found = asyncio.run(work)
    # Where the blocks end, in letters; (8, 11) is cut at 8.75, 9.5 and 10.25.
    ends = [[9, 11, 13, 15], [9, 10, 11], [4, 8, 13, 17]]
    gaps, regrets, own = [], [], [one for one in found.trajectories if one.source == "own"]
    for place, one in enumerate(own):
        cuts, text = ends[place // 8], plays.thoughts[place // 8]
        begun = [ANSWER, *(text[:cut] + (CLOSED if OPENED in text else "") + ANSWER for cut in cuts[:-1])]
        known = [*(0.75 * len(prefix) / 64 for prefix in begun), plays.worth(one)]
        regrets.append(sum(1 - value for value in known[1:]))
        blocks = [min(sum(cut <= letter for cut in cuts), len(cuts) - 1) for letter in range(len(text))]
        gaps += [gap(FORCED_VALUES.get(one), known), gap(one.turns[0].segment, blocks)]
    gaps.append(abs(found.metrics["rollout/regret"] - fmean(regrets)))
    forced = plays.asked[3:]
    short = all((one.samples, one.budget) == (2, len(one.prefix) + 16) and one.source == "baseline" for one in forced)
    numbers = [(one.scenario.id, one.sample) for one in [*own, *found.discarded]]
    apart = len({*numbers}) == len(numbers) == 24 + 2 * (1 + 8 * 3 + 1 + 8 * 2 + 1 + 8 * 3)
    whole = block_ends(4, 16, 3) == [8, 12, 16] and block_ends(3, 3, 4) == [3]
    return below(EXACT, short, apart, whole, off_by_hand=max(gaps))


SAY = 4

# Guess and check: every token but the last is a try, checked as it is made; token 0 tries what is promising. Instance i
# needs i + 1 promising tries; who made them is right when they answer (token 4). One policy cannot tell the four apart.
SEARCH = EndedInstances(
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
def as_accurate_as_outcome_grpo_with_fewer_tokens_and_a_lower() -> Finding:
    meta = MRT.but({"rollout.blocks": 10, "rollout.tries": 1, "rollout.answer_tokens": 1})
    plain, ours = ([outcomes(recipe, seed) for seed in SEEDS] for recipe in (GRPO, meta))
    means = [[fmean(column) for column in zip(*side, strict=True)] for side in (plain, ours)]
    (right, size, *regret), (own_right, own_size, *own_regret) = means
    shorter = [a[1] - b[1] for a, b in zip(plain, ours, strict=True)]
    lower = all(b < a for a, b in zip(regret, own_regret, strict=True))
    saw = lines(accuracy=[right, own_right], tokens=[size, own_size], fewer_by_seed=shorter)
    saw += f", {lines(regret_after_1_to_9_tries=regret, of_MRT=own_regret)}"
    return Finding(own_right >= right - 0.01 and min(shorter) > 0.2 and lower, f"GRPO and MRT: {saw}")


claim.spares(
    "asking.first + NUMBERED + place * self.tries -> asking.first + NUMBERED - place * self.tries",
    "numbers must differ, no more",
)
claim.spares("asking.first + NUMBERED -> asking.first - NUMBERED", "numbers must differ, no more")

claim.shipped(MRT, "credit")
