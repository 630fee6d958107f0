"""Long-Short's claims."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from statistics import fmean, pstdev
from typing import Any

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, asked
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.talk import Prior, TalkBench
from hocket.lab.toys.recorded_answers import group_relative, line
from hocket.lab.toys.talks import played_by
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.long_short.method import (
    LONG_SHORT,
    Importance,
    LongShort,
    importances,
    well_formed,
)
from hocket.methods.data_and_rollout.long_short.task import SharedSums
from hocket.recipe import Recipe
from hocket.testing import Cut, rehearse
from hocket.types import Assignment, Message, Scenario, Score, Trajectory

claim = Claims("long-short", "arXiv:2505.11827 and the authors' release; the form of the importance is ours")
STEPS, FILLER, BOTCHED = ("one", "two", "three"), "um", "two?"
TAGS = ("<think>", "</think>", "<answer>", "</rethink>", "</answer>")
WORDS = (*TAGS, FILLER, *STEPS, BOTCHED, "right", "wrong")
ASKED = [Scenario(name, name, answer="right </answer>") for name in ("this", "that")]
NOTHING = dict.fromkeys((*WORDS, ""), -20.0)


def verified(text: str, scenario: Scenario) -> float:
    return float(text.endswith(str(scenario.answer)))


def thinking(said: tuple[str, ...], ends: str) -> dict[str, float]:
    """Three steps in order with much between them, then `ends`; now and then it ends before."""
    done = sum(word in STEPS for word in said)
    if done >= 3:
        return {**NOTHING, FILLER: 0.5, ends: 0.0}
    return {**NOTHING, FILLER: 1.8, STEPS[done]: 0.4, "</think>": -1.5}


def wordy(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """The one who thinks, before training."""
    opens = not said or said[-1] not in (FILLER, *STEPS, "<think>")
    return {**NOTHING, "<think>": 0.0} if opens else thinking(said, "</think>")


def answering(said: tuple[str, ...]) -> dict[str, float]:
    """Right once all steps stand before it, seldom otherwise; the second step is beyond it."""
    if said[-1] in ("right", "wrong"):
        return {**NOTHING, "</answer>": 0.0}
    done = [word for word in said if word in STEPS]
    if len(done) >= 3:
        return {**NOTHING, "right": 4.0, "wrong": 0.0}
    own = said[-1] != "<answer>"
    following = BOTCHED if len(done) == 1 else STEPS[len(done)]
    return {**NOTHING, following: 1.0, "wrong": 0.0, "right": -2.0, "</rethink>": 0.5 if own else -20.0}


def brief(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """The one who answers, before training."""
    own = bool(said) and said[-1] in (*STEPS, BOTCHED, "<answer>", "right", "wrong")
    return answering(said) if own else {**NOTHING, "<answer>": 0.0}


def solving(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """The one who thinks, alone: to the end, and answers."""
    if not said:
        return {**NOTHING, "<think>": 0.0}
    if said[-1] == "</answer>":
        return {**NOTHING, "": 0.0}
    if "<answer>" in said:
        return answering(said)
    return (
        {**NOTHING, "<answer>": 0.0}
        if said[-1] == "</think>"
        else {**thinking(said, "</think>"), "</think>": (0.0 if sum(word in STEPS for word in said) == 3 else -12.0)}
    )


@played_by("solver")
async def _solo(scenario: Scenario, team: Team) -> Outcome:
    said = await team.solver(asked(team.assignment))
    return Outcome(answer=said.text, rewards={"right": team.verify(said)})


def bench(recipe: Recipe, seed: int = 0, workflow: Any = None, **prior: Prior) -> TalkBench:
    return TalkBench(
        workflow or LongShort(),
        ASKED,
        WORDS,
        recipe,
        length=60,
        ends=True,
        prior=prior or {"long": wordy, "short": brief},
        seed=seed,
        lr=0.15,
        verifier=verified,
        capacity=16000,
    )


def own(one: Trajectory, role: str | None = None) -> int:
    """Words of a role, or of all, that were not imposed."""
    turns = [turn for turn in one.turns if role in (None, turn.role)]
    return sum(len(turn) - (0 if turn.forced is None else int(turn.forced.sum())) for turn in turns)


def right(one: Trajectory) -> float:
    value = one.scores["right"].value
    assert isinstance(value, float)
    return value


def formed(one: Trajectory, role: str) -> float:
    """What a role earned by the form of its turns, counted anew."""
    texts, before = list[str](), ""
    for turn in one.turns:
        if turn.role == role:
            texts.append(turn.text[len(before) :].strip())
        before = turn.text
    ends = {"long": ("<think>", ("</think>",)), "short": ("<answer>", ("</answer>", "</rethink>"))}[role]
    good = [
        text.startswith(ends[0])
        and text.endswith(ends[1])
        and text.count("<") == 2
        and bool(text.split(">")[1].split("<")[0].strip())
        for text in texts
    ]
    return fmean(good)


def place(lengths: Sequence[int], solved: Sequence[bool], number: int) -> float:
    """The length reward of one sample, counted anew."""
    if max(lengths) == min(lengths):
        return 0.0
    score = 0.5 - (lengths[number] - min(lengths)) / (max(lengths) - min(lengths))
    return score if solved[number] else min(0.0, score)


@claim(
    "Each role's advantage is that of verdict, form of its turns and place of its own length, among the same role's."
)
def each_roles_advantage_is_that_of_verdict_form_of_its_turns_and() -> Finding:
    worst, roles, charged = 0.0, 0, 0
    for seed in range(3):
        result = bench(LONG_SHORT, seed).step()
        batch, rows = result.batch, result.trajectories
        assert isinstance(batch, Batch)
        seen, names = batch.occurrences, batch.names["role"]
        for scenario in ASKED:
            members = [n for n, one in enumerate(rows) if one.scenario.id == scenario.id]
            solved = [right(rows[n]) == 1.0 for n in members]
            for role in ("long", "short"):
                lengths = [own(rows[n], role) for n in members]
                places = [place(lengths, solved, number) for number in range(len(members))]
                value = [right(rows[n]) + formed(rows[n], role) + c for n, c in zip(members, places, strict=True)]
                mine = (batch.role[batch.turn[seen.decision]] == names.index(role)) & (seen.weight != 0)
                found = [float(seen.advantage[mine & (seen.trajectory == n)][0]) for n in members]
                same = [float(seen.advantage[mine & (seen.trajectory == n)].std(correction=0)) for n in members]
                worst = max(worst, gap(found, group_relative(value)), *same)
                roles, charged = roles + 1, charged + sum(c < 0 for c in places)
    saw = say(off_by_hand=worst, groups_of_roles=roles, charged_for_length=charged)
    return Finding(worst < 1e-6 and roles == 12 and charged > 10, saw)


@claim(
    "The two write one solution in turns until an answer is closed or no turn is left; what stands is imposed, and a "
    "turn that is not one filled pair of its tags earns nothing for its form."
)
def the_two_write_one_solution_in_turns_until_an_answer_is_closed() -> Finding:
    told, task, off = Scenario("s", "1 + 2 - 3?", "0"), SharedSums(), list[float]()

    def played(long: list[Any], short: list[Any], **how: Any) -> Trajectory:
        flow = LongShort(**how)
        return rehearse(flow, told, {"long": long, "short": short}, verifier=task.verify)[0]

    first = played(
        [Cut("<think>1+2=3;</think>"), Cut("<think>3-3=0;</think>")], [Cut("<answer>3</rethink>"), "<answer>0</answer>"]
    )
    whole = "<think>1+2=3;</think><answer>3</rethink><think>3-3=0;</think><answer>0</answer>"
    off.append(gap([right(first), *map(float, first.scores["form"].value)], [1.0, 0.5, 0.5, 0.5, 0.5]))  # type: ignore[arg-type]
    holds = first.answer == whole and [turn.role for turn in first.turns] == ["long", "short"] * 2
    imposed = [0 if turn.forced is None else int(turn.forced.sum()) for turn in first.turns]
    lengths = [len(turn) - forced for turn, forced in zip(first.turns, imposed, strict=True)]
    holds &= imposed == [0, *accumulate(lengths[:-1])]
    cut = played(["so three"], ["<answer></answer>"], form=2.0)
    off.append(gap(cut.scores["form"].value, [0.0, 0.0]))
    again = played([Cut("<think>1</think>")] * 2, [Cut("<answer>1</rethink>")] * 2, rounds=2)
    holds &= len(again.turns) == 4 and cut.answer == "so three<answer></answer>" and right(again) == 0.0
    good = (("long", "<think>a</think>"), ("short", "<answer>a</answer>"), ("short", "<answer>a</rethink>"))
    bad = ("<think> </think>", "<think>a</think>b", "<think>a", "<answer>a</answer>")
    worse = ("<answer></rethink>", "a</answer>", "<answer><think>a</answer>")
    holds &= all(well_formed(*one) for one in good) and not any(well_formed("long", text) for text in bad)
    holds &= not any(well_formed("short", text) for text in worse)
    return Finding(holds and max(off) < 1e-12, say(solution=first.answer, imposed=str(imposed), rewards_off=max(off)))


NEEDED = (True, False, True, False, False, True)
"""Which thoughts of the toy chain an answer needs; each that stands gives it a third of its chance."""


class _Chain:
    """Answers behind a chain that are right with the chance that the needed thoughts before them give."""

    def __init__(self, key: Key) -> None:
        self.key, self.calls = key, 0

    async def play(self, wanted: Sequence[Assignment]) -> list[Trajectory]:
        found = []
        for one in wanted:
            chance = sum(NEEDED[token] for token in one.prefix) / 3
            for number in range(one.samples):
                draw = self.key.derive(len(one.prefix), number).numpy().random()
                made = Trajectory(one.scenario, [], sample=one.first + number)
                made.scores["right"] = Score(float(draw < chance))
                found.append(made)
        return found

    async def score(self, trajectories: Sequence[Trajectory]) -> None:
        self.calls += len(trajectories)


def measured(seed: int, samples: int) -> list[Importance]:
    """The importance of the toy chain's thoughts; the later ones are longer."""
    made = _Chain(Key.of(seed).derive("importance"))
    thoughts = [[place] * 1 for place in range(len(NEEDED))]
    found = asyncio.run(
        importances(Assignment(ASKED[0]), thoughts, play=made.play, score=made.score, samples=samples, more=4)
    )
    assert made.calls == samples * (len(NEEDED) + 1)
    return found


@claim(
    "On a chain whose thoughts are needed or not, importance tells them apart, with the binomial error that it states."
)
def on_a_chain_whose_thoughts_are_needed_or_not_importance_tells() -> Finding:
    samples, repeats = 48, 300
    found = [measured(seed, samples) for seed in range(repeats)]
    means = [fmean(one[place].score for one in found) for place in range(len(NEEDED))]
    due = [one / 3 * (1 - 1 / 6) for one in NEEDED]
    variances = [rate * (1 - rate) for rate in accumulate((one / 3 for one in NEEDED), initial=0.0)]
    errors = [5 / 6 * math.sqrt((one + other) / samples) for one, other in pairwise(variances)]
    seen = [pstdev([one[place].score for one in found]) for place in range(len(NEEDED))]
    stated = [fmean(one[place].error for one in found) for place in range(len(NEEDED))]
    bias = max(abs(m - d) / (e / math.sqrt(repeats)) for m, d, e in zip(means, due, errors, strict=True) if e)
    spread = max(abs(s / e - 1) for s, e in zip(seen, errors, strict=True) if e)
    told = max(abs(s / e - 1) for s, e in zip(stated, errors, strict=True) if e)
    needed, filler = ([m for m, n in zip(means, NEEDED, strict=True) if n is kind] for kind in (True, False))
    apart = min(needed) - max(filler)
    bounded = all(-1 < one.score < 1 for row in found for one in row)
    saw = say(bias_in_standard_errors=bias, spread_off=spread, stated_error_off=told, needed_above_filler_by=apart)
    return Finding(bias < 3.5 and spread < 0.15 and told < 0.05 and apart > 0.25 and bounded, saw)


@claim(
    "The score is the effect times the share of the chain left to others: dearer thoughts score less, and |score| < 1."
)
def the_score_is_the_effect_times_the_share_of_the_chain_left_to() -> Finding:
    rows = [Importance(right, left, 8, tokens, 10) for right, left, tokens in product(range(9), range(9), (1, 4, 9))]
    by_hand = max(abs(one.score - (one.right - one.right_before) / 8 * (10 - one.tokens) / 10) for one in rows)
    cheap, dear = (Importance(7, 2, 8, tokens, 10).score for tokens in (2, 6))
    bounded = max(abs(one.score) for one in rows)
    return Finding(
        by_hand < 1e-12 and cheap > dear > 0 and bounded < 1, say(off_by_hand=by_hand, cheap=cheap, dear=dear)
    )


@claim("A turn cut at its longest is gone on from as it stands; answers behind a chain are samples of their own each.")
def a_turn_cut_at_its_longest_is_gone_on_from_as_it_stands_answers() -> Finding:
    told, flow, asked_for = Scenario("s", "1 + 2 - 3?", "0"), LongShort(), list[Assignment]()
    script: dict[str, Any] = {"long": [Cut("<think>so thr")], "short": ["<answer>0</answer>"]}
    (cut,) = rehearse(flow, told, script, verifier=SharedSums().verify)
    made = _Chain(Key.of(0))

    async def play(wanted: Sequence[Assignment]) -> list[Trajectory]:
        asked_for.extend(wanted)
        return await made.play(wanted)

    first = Assignment(ASKED[0], first=7)
    asyncio.run(importances(first, [[0], [1]], play=play, score=made.score, samples=5, more=4))
    numbers = [one.first for one in asked_for]
    holds = cut.answer == "<think>so thr<answer>0</answer>" and numbers == [7, 12, 17]
    return Finding(holds and LONG_SHORT.workflow == flow.name, say(solution=cut.answer, first_samples=str(numbers)))


def figures(made: TalkBench) -> tuple[float, float]:
    """How often it is right, and words of a solution."""
    played = made.play(150)
    return fmean(map(right, played)), fmean(map(own, played))


def after(weight: float) -> tuple[list[float], list[float]]:
    """By seed, how often the pair is right and its words, after 60 steps in which lengths count so much."""
    recipe = LONG_SHORT.but({"shaping.0.weight": weight})
    rights, words = zip(*(figures(bench(recipe, seed).run(60)) for seed in range(3)), strict=True)
    return list(rights), list(words)


@claim(
    "On tables the pair keeps at least 95 % of the long model's accuracy with under half of its tokens; without the "
    "length term, trained as long, it takes more than half of them.",
    slow=True,
)
def on_tables_the_pair_keeps_at_least_95_of_the_long_models() -> Finding:
    alone, words = figures(bench(GRPO, 0, _solo, policy=solving))
    start = figures(bench(LONG_SHORT))
    ours, free = after(1.0), after(0.0)
    holds = min(ours[0]) > 0.95 * alone and max(ours[1]) < 0.5 * words < min(free[1])
    saw = say(alone_right=alone, words=words, pair_before_training=start[0], its_words=start[1])
    saw += f"; after 60 steps right {line(ours[0])}, words {line(ours[1])}"
    return Finding(holds, f"{saw}; without the length term right {line(free[0])}, words {line(free[1])}")


claim.spares("who == role -> who != role", "both have equally many turns")
claim.spares("role == code -> role != code", "each of the two comes in turn, whichever is first")
claim.spares("-1 -> 1", "stands where nobody reads it")
claim.shipped(
    LONG_SHORT,
    "shaping",
    trains=("long", "short"),
    settings={"curriculum.prompts": 4},
    sees=lambda run: {"groups": run.mean("long/groups/with_signal"), "others": run.mean("short/groups/with_signal")},
)
