"""GCPO's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.lab.bench import Bench, TablePlayer
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.instances import Instances, by_instance, nothing
from hocket.lab.toys.recorded_answers import document, lines, said, shaped
from hocket.lab.toys.training import on
from hocket.lab.world import Answer
from hocket.methods.group_relative.gcpo_geometryzero import (
    AVOID,
    GCPO_GEOMETRYZERO,
    TOLD,
    USE,
    ContrastBonus,
    ContrastGroups,
    contrast_sign,
)
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Score, Trajectory

claim = Claims("gcpo-geometryzero", "arXiv:2506.07160")


@claim("the mask has the right sign and is 0 inside the band")
def the_mask_has_the_right_sign_and_is_0_inside_the_band() -> Finding:
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
def a_construction_counts_in_whichever_turn_it_is_written_and_only() -> Finding:
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


class Letters:
    """Characters are tokens."""

    encode = staticmethod(lambda text, after=(): tuple(map(ord, text)))
    decode = staticmethod(lambda tokens: "".join(map(chr, tokens)))


@claim(
    "as shipped 8 samples are told nothing, 4 each begin with <think> and <answer>, and each question has its own means"
)
def as_shipped_8_samples_are_told_nothing_4_each_begin_with_think() -> Finding:
    asked: list[Assignment] = []

    class Play:
        tokenizer = Letters

        async def __call__(self, assignments: Sequence[Assignment]) -> list[Trajectory]:
            asked.extend(assignments)
            return [Trajectory(one.scenario, [], source=one.source) for one in assignments for _ in range(one.samples)]

    async def score(trajectories: Sequence[Trajectory]) -> None:
        for number, trajectory in enumerate(trajectories):
            trajectory.scores["right"] = Score(float(number))
        trajectories[8].failure = "lost"

    given = [Assignment(Scenario(name), 8, prefix=(1,), first=5, hint="own") for name in "ab"]
    plays: Any = {"play": Play(), "score": score, "ledger": Ledger(), "key": Key.of(0)}
    made = run_async(GCPO_GEOMETRYZERO.rollout.collect(given, **plays)).trajectories
    told = [(one.samples, Letters.decode(one.prefix[1:]), one.source, one.hint) for one in asked]
    holds = told == [(8, "", "own", "own"), (4, "<think>", "baseline", "own"), (4, "<answer>", "baseline", "own")] * 2
    # Numbered apart, so that no draw is made twice.
    numbers = {one.first + n for one in asked[:3] for n in range(one.samples)}
    means = [(one.info["accuracy_with"], one.info["accuracy_without"]) for one in made]
    holds &= means == [(10.0, 13.5)] * 16 + [(25.5, 29.5)] * 16  # Of 9 to 11, as 8 failed, of 12 to 15, and 16 later.
    holds &= [TOLD.get(one) for one in made] == ([None] * 8 + ["use"] * 4 + ["avoid"] * 4) * 2
    return Finding(
        holds and len(numbers) == 16 and min(numbers) == 5, f"means {means[0]}, {means[-1]}; told {told[:3]}"
    )


@claim("a return is verdict + 0.5 sign, 0 within 0.1, + 0.5 for good form whole + 0.1 of the length, 1 at 128 tokens")
def a_return_is_verdict_0_5_sign_0_within_0_1_0_5_for_good_form() -> Finding:
    good, thought = "<think>2</think><answer>6</answer>", "<think>2</think> so 6"
    cases = (
        (1.0, good, (0.75, 0.25), 32, 1 + 0.5 + 0.5 + 0.1 * 32 / 128),
        (1.0, good, (0.5, 0.55), 64, 1 + 0.5 + 0.1 * 64 / 128),
        (0.0, thought, (0.25, 0.75), 128, -0.5 + 0.1),
        (0.0, "<answer>6</answer>", (0.75, 0.25), 200, 0.5 + 0.1),
    )
    rows = [
        {
            **said("g", text, verdict),
            "logp": [-1.0] * length,
            "info": {"trace": text} | dict(zip(("accuracy_with", "accuracy_without"), means, strict=True)),
        }
        for verdict, text, means, length, _ in cases
    ]
    return below(EXACT, off_by_hand=gap(shaped(GCPO_GEOMETRYZERO, rows), [wanted for *_, wanted in cases]))


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


class Obedient(TablePlayer):
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
def the_tool_is_used_where_it_helps_and_not_where_it_hurts_an() -> Finding:
    helped, hurt = zip(*(tool_rates(False, seed) for seed in SEEDS), strict=True)
    both = [min(tool_rates(True, seed)) for seed in SEEDS]
    figures = lines(tool_use_where_it_helps=helped, where_it_hurts=hurt, least_with_an_unconditional_bonus=both)
    return Finding(min(helped) > 0.8 and max(hurt) < 0.2 and min(both) > 0.8, figures)


claim.shipped(GCPO_GEOMETRYZERO, "rollout", "shaping")
