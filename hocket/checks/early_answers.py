"""Rows that ask where a thought could have ended: LC-R1, S-GRPO, MRT."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from hocket.checks.check import Check, Finding
from hocket.checks.rewarded import SEEDS, advantages, apart, document, line, shaped
from hocket.checks.toys import Instances, Verdict, bench
from hocket.credit import ProgressBonus
from hocket.credit.progress import progress, progress_to_go
from hocket.keys import Key
from hocket.lab import Answer, Bench, Tabular
from hocket.lab.world import answer_of
from hocket.microscope import look
from hocket.recipe import Recipe
from hocket.recipes.group_relative import DR_GRPO, GRPO
from hocket.recipes.length_and_tools import LC_R1, MRT, S_GRPO
from hocket.rollout import FirstMention
from hocket.rollout.forced import cumulative_regret
from hocket.types import Assignment

NEVER = -40.0
"""A logit that is never drawn."""

# ---------------------------------------------------------------- a thought of steps, its end, an answer

STEP, TAG, SEVEN, THREE = 0, 1, 2, 3


@dataclass(frozen=True)
class Thought(Instances):
    """Steps, the tag that ends thinking, and an answer, 7 or 3. The answer is 7, once `enough` steps were made."""

    enough: int = 2

    def finished(self, tokens: Sequence[int]) -> bool:
        return len(tokens) > 0 and (tokens[-1] in (SEVEN, THREE) or len(tokens) >= self.horizon)

    def answers(self) -> Iterator[Answer]:
        for steps in range(self.horizon - 1):
            yield from ((*[STEP] * steps, TAG, SEVEN), (*[STEP] * steps, TAG, THREE))
        yield (*[STEP] * (self.horizon - 1), TAG)
        yield (STEP,) * self.horizon

    def right(self, question: int, answer: Answer) -> float:
        """The verdict on an answer."""
        return float(answer[-1] == SEVEN and answer.count(STEP) >= self.enough)


def thought(horizon: int = 16) -> Thought:
    """One question, asked four times a step."""
    made = Thought(
        questions=1,
        tokens=4,
        horizon=horizon,
        reward=lambda question, answer: 0.0,
        context="last",
        words=("s ", "</think>", "<answer>7</answer>", "<answer>3</answer>"),
        count=2,
        about=lambda number: {"question": 0, "answer": "7"},
    )
    return Thought(**{**vars(made), "correct": made.right})


def thoughtful(policy: Tabular, more: float = 0.7, sure: float = 0.98) -> None:
    """A start that thinks enough, goes on with probability `more`, and then answers 7 with probability `sure`."""
    policy.logits.fill_(NEVER)
    for place in range(policy.world.horizon):
        thinking = [STEP] * place
        on = 0.99 if place < 2 else more
        policy.logits[policy.row(0, thinking), :2] = torch.tensor([on, 1 - on], dtype=torch.float64).log()
        if place:
            answering = [*thinking[:-1], TAG]
            shares = torch.tensor([sure, 1 - sure], dtype=torch.float64)
            policy.logits[policy.row(0, answering), 2:] = shares.log()


def steps_of(answer: Answer) -> float:
    """Steps in an answer's thought."""
    return float(answer.count(STEP))


# ---------------------------------------------------------------- S-GRPO


def decaying_pattern() -> Finding:
    """Pattern 0,1,1,0,1 earns 0, 1, 1/2, 0, 1/4, and an all-wrong group has no gradient."""

    def rows(pattern: Sequence[int]) -> list[dict[str, Any]]:
        told = [{"exit": place, "chain": 0} for place in range(len(pattern))]
        pairs = zip(pattern, told, strict=True)
        made = [{"group": "g", "scores": {"reward": v}, "logp": [-1.0, -2.0], "info": about} for v, about in pairs]
        return [made[place] for place in (2, 0, 4, 1, 3)]

    found = shaped(S_GRPO, rows((0, 1, 1, 0, 1)))
    back = [found[(2, 0, 4, 1, 3).index(place)] for place in range(5)]
    middle = sum(back) / 5
    given = advantages(S_GRPO, rows((0, 1, 1, 0, 1)))
    centre = apart(given, [value - middle for value in found])
    idle = look(S_GRPO, document(rows((0, 0, 0, 0, 0))))
    still = all(value == 0.0 for row in idle["gradient"] for value in row)
    holds = apart(back, [0, 1, 0.5, 0, 0.25]) == 0 and centre < 1e-12 and still
    return Finding(
        holds, f"pattern 0,1,1,0,1 earns {line(back)} in any order of the batch; all wrong: gradient 0 {still}"
    )


def thinks_as_long_as_it_must() -> Finding:
    """Thinking shrinks towards the steps needed at no loss of accuracy; under outcome reward alone it stays."""
    world = thought()
    serial_group = S_GRPO.but({"rollout.phrase": "</think>"})
    verdict = Verdict(lambda told, answer: world.right(0, answer))
    rows: dict[str, list[tuple[float, float]]] = {}
    for recipe in (GRPO, DR_GRPO, serial_group):
        made = [bench(world, recipe.but(rewards=(verdict,)), seed, 40, start=thoughtful) for seed in SEEDS]
        rows[recipe.name] = [(b.expected(lambda _, answer: steps_of(answer)), b.success()) for b in made]
    before = Bench(world, GRPO, start=thoughtful)
    length, accuracy = before.expected(lambda _, answer: steps_of(answer)), before.success()
    serial, plain, unbiased = rows["s-grpo"], rows["grpo"], rows["dr-grpo"]
    holds = max(n for n, _ in serial) < world.enough + 1 and min(a for _, a in serial) >= accuracy
    holds &= min(n for n, _ in unbiased) > length - 0.75
    holds &= min(n for n, _ in plain) > max(n for n, _ in serial)
    said = {name: f"{line([n for n, _ in found])} at {line([a for _, a in found])}" for name, found in rows.items()}
    return Finding(
        holds,
        f"2 steps suffice; before: {length:.2f} steps at accuracy {accuracy:.3f}; after 40 steps S-GRPO "
        f"{said['s-grpo']}; Dr. GRPO {said['dr-grpo']}; GRPO, whose 1/n_i favours short right answers, {said['grpo']}",
    )


# ---------------------------------------------------------------- LC-R1


def extractor_cuts_after_the_answer() -> Finding:
    """The extractor cuts right after the first right answer."""
    cases = {
        "12 + 5 = 17, so 17. Check: 17 - 5 = 12": "12 + 5 = 17",
        "117 is not it; 1.17 neither; 17.5 no; it is 17": "117 is not it; 1.17 neither; 17.5 no; it is 17",
        "no result": None,
    }
    extract = FirstMention()
    found = {text: (None if (end := extract(text, "17")) is None else text[:end]) for text in cases}
    behind = FirstMention(behind="= ")("17 is asked: 12 + 5 = 17.", 17)
    return Finding(
        found == cases and behind == 24, f"cut to {[one for one in found.values() if one]}; behind '= ' at {behind}"
    )


def only_the_tag_is_paid() -> Finding:
    """The tag alone gets the compression term; no right answer, no length term."""
    thoughts = [
        {"tag": 2, "kept": 2, "original": 8, "reached": True},
        {"tag": 4, "kept": 4, "original": 4, "reached": True},
        {"tag": 1, "kept": 1, "original": 1, "reached": False},
        None,
    ]
    rows = [
        {
            "group": "g",
            "scores": {"reward": float(told is not None)},
            "logp": [-1.0] * n,
            "text": "",
            "info": {"thinking": told},
        }
        for n, told in zip((4, 6, 3, 5), thoughts, strict=True)
    ]
    given = look(LC_R1, document(rows))["advantages"]
    plain = look(LC_R1.but(credit=LC_R1.credit.base), document(rows))["advantages"]  # type: ignore[attr-defined]
    extra = [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(given, plain, strict=True)]
    wanted: list[list[float]] = [[0, 0, 0.75, 0], [0] * 6, [0, -1.0, 0], [0] * 5]
    worst = max(apart(a, b) for a, b in zip(extra, wanted, strict=True))
    wrong = shaped(LC_R1, [{"group": "g", "scores": {"reward": 0.0}, "logp": [-1.0] * n, "text": ""} for n in (2, 9)])
    right = shaped(LC_R1, rows)
    lengths = apart(right, [1 + 1 - 4 / 6, 1.0, 1 + 1 - 3 / 6, 1 - 5 / 6])
    holds = worst < 1e-12 and wrong == [0.0, 0.0] and lengths < 1e-12
    return Finding(
        holds,
        f"tags get {extra[0][2]:.2f} and {extra[2][1]:.2f}, all else 0; returns {line(right)}; all wrong {line(wrong)}",
    )


@dataclass(frozen=True)
class Derivation(Thought):
    """Two steps, then the result, then as many re-checks (the same again) as one likes; tag; answer.

    Who never wrote the result down answers right by luck: in one instance of two.
    """

    def answers(self) -> Iterator[Answer]:
        yield from derivations(self.horizon)

    def finished(self, tokens: Sequence[int]) -> bool:
        return len(tokens) > 0 and (tokens[-1] == DONE or len(tokens) >= self.horizon)

    def right(self, question: int, answer: Answer) -> float:
        """How likely an answer is right."""
        return 0.0 if answer[-1] != DONE else (1.0 if RESULT in answer else 0.5)


RESULT, CLOSE, DONE = 1, 2, 3


def derivations(horizon: int) -> Iterator[Answer]:
    """Every derivation: steps and results in turn, closed at any place."""
    chain = [STEP, STEP, RESULT] * horizon
    for size in range(horizon - 1):
        yield (*chain[:size], CLOSE, DONE)
    yield (*chain[: horizon - 1], CLOSE)
    yield tuple(chain[:horizon])


def derivation(horizon: int = 13) -> Derivation:
    """One question, two instances: luck is with the first."""
    made = Derivation(
        questions=1,
        tokens=4,
        horizon=horizon,
        reward=lambda question, answer: 0.0,
        context="last",
        words=("s ", "7 ", "</think>", "<answer>7</answer>"),
        count=2,
        about=lambda number: {"question": 0, "answer": "7", "lucky": number == 0},
    )
    return Derivation(**{**vars(made), "correct": made.right})


def rechecking(policy: Tabular) -> None:
    """A start that was trained to check twice: it closes after the third result, seldom before or later."""
    policy.logits.fill_(NEVER)
    horizon = policy.world.horizon
    whole = ([STEP, STEP, RESULT] * horizon)[:horizon]
    for place in range(horizon):
        stop = 0.02 if place == 0 else (0.9 if place == 9 else 0.03)
        row = policy.row(0, whole[:place])
        policy.logits[row, whole[place]] = torch.tensor(1 - stop).log().double()
        policy.logits[row, CLOSE] = torch.tensor(stop).log().double()
        if place:
            policy.logits[policy.row(0, [*whole[: place - 1], CLOSE]), DONE] = 0.0


def derived(told: Mapping[str, Any], answer: Answer) -> float:
    """The verdict: the result was written down, or luck."""
    return float(answer[-1] == DONE and (RESULT in answer or told["lucky"]))


def compresses() -> Finding:
    """Length falls by 40 percent or more with accuracy within 2 points; without -c2 accuracy falls."""
    world, rows = derivation(), {}
    recipe = LC_R1.but(
        {"shaping.0.weight": 2.0, "credit.bonus": 2.0, "credit.penalty": 2.0}, rewards=(Verdict(derived),)
    )
    for name, made in (("lc-r1", recipe), ("no penalty", recipe.but({"credit.penalty": 0.0}))):
        runs = [bench(world, made, seed, 50, start=rechecking, lr=0.1) for seed in SEEDS]
        rows[name] = [(b.expected(lambda _, answer: len(answer)), b.success()) for b in runs]
    before = Bench(world, GRPO, start=rechecking)
    length, accuracy = before.expected(lambda _, answer: len(answer)), before.success()
    shorter = [1 - n / length for n, _ in rows["lc-r1"]]
    kept = [a - accuracy for _, a in rows["lc-r1"]]
    holds = min(shorter) >= 0.4 and min(kept) >= -0.02 and max(a for _, a in rows["no penalty"]) < accuracy - 0.05
    after, without = ([a for _, a in rows[name]] for name in ("lc-r1", "no penalty"))
    return Finding(
        holds,
        f"before: length {length:.2f}, accuracy {accuracy:.3f}; 50 steps, 5 seeds: shorter by {line(shorter)}, "
        f"accuracy {line(after)}; without the penalty accuracy {line(without)}",
    )


# ---------------------------------------------------------------- MRT


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


_SERIAL, _LC, _MRT = "arXiv:2505.07686", "arXiv:2506.14755 and its public trainer", "arXiv:2503.07572"

CHECKS = (
    Check("lc-r1", "the extractor cuts right after the first right answer", extractor_cuts_after_the_answer, _LC),
    Check(
        "lc-r1", "the tag alone gets the compression term; no right answer, no length term", only_the_tag_is_paid, _LC
    ),
    Check(
        "lc-r1",
        "length falls by 40 percent or more with accuracy within 2 points; without -c2 accuracy falls",
        compresses,
        _LC,
        slow=True,
    ),
    Check(
        "s-grpo",
        "pattern 0,1,1,0,1 earns 0, 1, 1/2, 0, 1/4, and an all-wrong group has no gradient",
        decaying_pattern,
        _SERIAL,
    ),
    Check(
        "s-grpo",
        "thinking shrinks towards the steps needed at no loss of accuracy; under outcome reward alone it stays",
        thinks_as_long_as_it_must,
        _SERIAL,
        slow=True,
    ),
    Check("mrt", "progress telescopes; credited to go, outputs rank by outcome", bonuses_telescope, "derived"),
    Check("mrt", "own-block credit may rank outputs otherwise", own_blocks_may_rank_otherwise, "the row"),
    Check(
        "mrt",
        "as accurate as outcome GRPO with fewer tokens and a lower regret at every budget",
        less_regret,
        _MRT,
        slow=True,
    ),
)
