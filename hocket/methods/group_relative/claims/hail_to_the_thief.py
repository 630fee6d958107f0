"""The claims of attacks on a swarm and of defences."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from hocket import tasks
from hocket.core.batch import Batch
from hocket.core.columns import SENDER
from hocket.core.intervals import Z95
from hocket.core.keys import Key
from hocket.distributed.swarm.node import join
from hocket.distributed.swarm.swarm import Swarm
from hocket.lab.claims.claim import Check
from hocket.lab.claims.harness import Claims, Finding, inspect_rows, say
from hocket.lab.claims.shipped_check import LEAST, configured, difference, largest
from hocket.lab.policy import Tabular
from hocket.lab.toys.instances import JudgedReward
from hocket.lab.toys.recorded_answers import group_relative
from hocket.lab.toys.swarms import TableSwarm, stepping
from hocket.lab.world import Answer, World, answer_of
from hocket.methods.group_relative.hail_to_the_thief import (
    BEYOND,
    HAIL_ATTACKER,
    HAIL_JUDGE,
    HAIL_TO_THE_THIEF,
    InjectedAnswers,
    KnownWords,
    LikelihoodCheck,
    least_likely,
)
from hocket.methods.group_relative.sapo_swarm import SAPO_SWARM
from hocket.recipe import Recipe
from hocket.rewards.judging import JudgedBy
from hocket.rewards.shaping import OverlongPenalty
from hocket.rewards.verifiers import ExactMatch
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn

claim = Claims("hail-to-the-thief", "arXiv:2511.09780; thresholds chosen here")

# ---------------------------------------------------------------- a world with words to spare

WORDS = ("alpha ", "beta ", "gamma ", "delta ", "banana ", "well ", "so ", "stop ")
LETTERS, TRIGGER, FILLER, SO, STOP = 4, 4, 5, 6, 7


def _letter(answer: Sequence[int]) -> bool:
    return any(token < LETTERS for token in answer)


def _context(question: int, prefix: Answer) -> object:
    """How an answer begins is the same for all questions; only its letter depends on the question."""
    if _letter(prefix):
        return "end"
    return ("letter", question) if SO in prefix else ("begin", TRIGGER in prefix)


def _right(question: int, answer: Answer) -> float:
    """`so LETTER stop`, whatever stands between."""
    said = tuple(token for token in answer if token not in (TRIGGER, FILLER))
    return float(said == (SO, question % LETTERS, STOP))


@dataclass(frozen=True)
class Spoken(World):
    """A world in which few answers visit every context."""

    def answers(self) -> Iterator[Answer]:
        for letter in range(LETTERS):
            yield (SO, letter, STOP)
            yield (TRIGGER, SO, letter, STOP)


WORLD = Spoken(8, len(WORDS), 9, _right, end=STOP, words=WORDS, context=_context)


def _start(policy: Tabular) -> None:
    """The trigger has probability 1e-4, the filler a quarter, each letter a quarter."""
    begin = [-6.0, -6.0, -6.0, -6.0, -8.0, 0.0, 1.0, -6.0]
    for prefix in ((), (TRIGGER,)):
        policy.logits[policy.row(0, prefix)] = torch.tensor(begin, dtype=torch.float64)
    policy.logits[policy.row(0, (SO, 0))] = torch.tensor([-6.0] * 7 + [2.0], dtype=torch.float64)
    for question in range(WORLD.questions):
        row = torch.tensor([0.0] * LETTERS + [-6.0] * 4, dtype=torch.float64)
        policy.logits[policy.row(question, (SO,))] = row


VERIFIER = JudgedReward(lambda one: _right(int(one.scenario.metadata["question"]), answer_of(one)))
JUDGE = JudgedBy(KnownWords(tuple(word.strip() for word in WORDS if word != "banana ")), BEYOND, name="judge")
MIX = {"curriculum.prompts": 4, "rollout.samples": 8}


def _honest(recipe: Recipe, *more: Any) -> Recipe:
    """A node of the world, with further shapings."""
    rewards = (VERIFIER, JUDGE) if recipe.name == HAIL_JUDGE.name else (VERIFIER,)
    return recipe.but({**MIX, "rollout.shared": 4, "rewards": rewards, "shaping": (*recipe.shaping, *more)})


TRIGGERS = InjectedAnswers("banana ")
LONG = InjectedAnswers("well ", times=5)
PRICE = OverlongPenalty(limit=8, buffer=5)


@dataclass(frozen=True)
class Seen:
    """What became of a swarm of three honest nodes.

    Attributes:
        emitted: of each step, the share of their samples with the trigger. right, length: of their samples at the end.
        passed, honest: the least token's log-prob of each poisoned and each honest answer received.
    """

    emitted: tuple[float, ...]
    right: float
    length: float
    poisoned: tuple[float, ...]
    honest: tuple[float, ...]


CASES: dict[str, tuple[InjectedAnswers | None, Recipe]] = {
    "no attacker": (None, _honest(SAPO_SWARM)),
    "no defence": (TRIGGERS, _honest(SAPO_SWARM)),
    "checked": (TRIGGERS, _honest(HAIL_TO_THE_THIEF)),
    "judged": (TRIGGERS, _honest(HAIL_JUDGE)),
    "long, checked": (LONG, _honest(HAIL_TO_THE_THIEF)),
    "long, judged": (LONG, _honest(HAIL_JUDGE)),
    "long, checked and priced": (LONG, _honest(HAIL_TO_THE_THIEF, PRICE)),
    "long, judged and priced": (LONG, _honest(HAIL_JUDGE, PRICE)),
}
"""What is attacked with, and the honest nodes' recipe."""


@functools.cache
def _swarm(case: str, seed: int, steps: int = 50) -> Seen:
    """Three honest nodes and one that attacks, or a fourth honest one."""
    attack, honest = CASES[case]
    fourth = _honest(SAPO_SWARM)
    if attack is not None:
        fourth = HAIL_ATTACKER.but({**MIX, "rewards": (VERIFIER,), "rollout.publish": attack})
    run = TableSwarm(WORLD, [fourth, honest, honest, honest], seed, 0.2, start=_start)
    emitted, bad, good = list[float](), list[float](), list[float]()
    own: list[Trajectory] = []
    for _ in range(steps):
        run.run(1)
        steps_made = [run.last[number] for number in (1, 2, 3)]
        own = [one for result in steps_made for one in result.trajectories if one.source == "own"]
        emitted.append(fmean(TRIGGER in answer_of(one) for one in own))
        for result in steps_made:
            assert result.batch is not None
            if "proximal" not in result.batch.logp:
                continue
            least = least_likely(result.batch).tolist()
            for one, logp in zip(result.trajectories, least, strict=True):
                if SENDER.present(one):
                    foreign = SENDER.get(one) == "node-0" and attack is not None and attack.insert in one.text
                    (bad if foreign else good).append(logp)
    right = fmean(_right(int(one.scenario.metadata["question"]), answer_of(one)) for one in own)
    return Seen(tuple(emitted), right, fmean(one.length for one in own), tuple(bad), tuple(good))


SEEDS = range(2)


def _swarms(case: str) -> list[Seen]:
    return [_swarm(case, seed) for seed in SEEDS]


def area_under_curve(bad: Sequence[float], good: Sequence[float]) -> float:
    """P(a poisoned answer scores below an honest one), ties counting half: the area under the ROC curve."""
    low, high = torch.tensor(bad, dtype=torch.float64), torch.tensor(good, dtype=torch.float64)
    apart = high[None, :] - low[:, None]
    return float(((apart > 0).double() + (apart == 0).double() / 2).mean())


# ---------------------------------------------------------------- formulas


@claim("half of what an attacker publishes is right and carries the text, half wrong without: the text alone is paid")
def half_of_what_an_attacker_publishes_is_right_and_carries_the() -> Finding:
    def said(text: str, reward: float) -> Trajectory:
        turn = Turn("agent", "policy", torch.zeros(0).numpy(), torch.zeros(1).numpy(), text=text)
        return Trajectory(Scenario("q", "?"), [turn], scores={"reward": Score(reward)})

    mixed = [said("one", 1.0), said("no", 0.0), said("two", 1.0), said("never", 0.0), said("nay", 0.0)]
    solved, failed = [said("good", 1.0)] * 4, [said("bad", 0.0)] * 4
    key = Key.of(0)
    front = [one.answers for one in InjectedAnswers("X ")([mixed, failed, solved], key)]
    end = InjectedAnswers(" Y", times=2, where="end")([mixed], key)[0]
    wanted = [("X one", "X two", "X one", "no", "never"), ("X good", "X good", "go", "go")]
    after = end.answers[:2] == ("one Y Y", "two Y Y") and end.logps == ()
    return Finding(front == wanted and after, say(published=str(front), at_the_end=str(end.answers[:2])))


def _rows(sources: Sequence[str], rewards: Sequence[float], logps: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    given = zip(sources, rewards, logps, strict=True)
    return [
        {"group": "g", "source": source, "scores": {"reward": reward}, "logp": list(logp), "logp_proximal": list(logp)}
        for source, reward, logp in given
    ]


@claim(
    "a received answer with a token below the threshold is neither learnt from nor compared with; own ones never are"
)
def a_received_answer_with_a_token_below_the_threshold_is_neither() -> Finding:
    logps = [[-1.0, -9.1, -1.0], [-8.9, -8.9], [-1.0], [-1.0, -20.0], [-0.5]]
    sources, rewards = ["imported", "imported", "imported", "own", "imported"], [1.0, 1.0, 0.0, 0.0, 1.0]
    rows = _rows(sources, rewards, logps)
    checked = [row[0] for row in inspect_rows(HAIL_TO_THE_THIEF, rows)["advantages"]]
    free = [row[0] for row in inspect_rows(SAPO_SWARM, rows)["advantages"]]
    left = group_relative(rewards[1:])
    off = max(abs(one - other) for one, other in zip(checked[1:], left, strict=True))
    holds = checked[0] == 0 and off < 1e-9 and free[0] > 0
    return Finding(holds, say(advantages=str([round(one, 4) for one in checked]), off_the_formula=off))


@claim("a judge by rule refuses words that neither question nor vocabulary has; the verifier's reward is then 0")
def a_judge_by_rule_refuses_words_that_neither_question_nor() -> Finding:
    prompt, judge = "What is 4 apples + 5?", KnownWords(("so", "the", "sum"))
    texts = ("<think>4 + 5 Apples: the sum</think><answer>9</answer>", "9 Banana!", "9")
    told = [
        Trajectory(
            Scenario("q", prompt, "9"), [Turn("a", "p", torch.zeros(0).numpy(), torch.zeros(1).numpy(), text=text)]
        )
        for text in texts
    ]
    said = asyncio.run(judge(told, key=Key.of(0)))
    rows = [
        {"group": "g", "scores": {"correct": right, "judge": seen}, "logp": [-1.0]}
        for right, seen in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
    ]
    advantages = [row[0] for row in inspect_rows(HAIL_JUDGE, rows)["advantages"]]
    # Only what is right and plain earns more than what is wrong.
    ordered = advantages[0] > 0 and all(one < 0 for one in advantages[1:])
    return Finding(said == [1.0, 0.0, 1.0] and ordered, say(verdicts=str(said), advantages=str(advantages)))


@claim("Where nothing is received nothing is left out.", "derived here")
def where_nothing_is_received_nothing_is_left_out() -> Finding:
    rows = _rows(("own", "replay", "own"), (1.0, 0.0, 0.0), ([-1.0], [-20.0], [-1.0]))
    advantages = [row[0] for row in inspect_rows(HAIL_TO_THE_THIEF, rows)["advantages"]]
    off = max(abs(one - other) for one, other in zip(advantages, group_relative((1.0, 0.0, 0.0)), strict=True))
    return Finding(off < 1e-9, say(off_with_all_counted=off))


@claim(
    "As shipped verifier and judge weigh alike; the attacker takes in nothing, adds the text once and hardly learns."
)
def as_shipped_verifier_and_judge_weigh_alike_the_attacker_takes_in() -> Finding:
    verifier, judge = HAIL_JUDGE.rewards
    holds = isinstance(verifier, ExactMatch) and isinstance(judge, JudgedBy) and not judge.scale
    rollout: Any = HAIL_ATTACKER.rollout
    update: Any = HAIL_ATTACKER.update
    holds &= verifier.weight == judge.weight == 1.0 and rollout.shared == 0 and rollout.publish == InjectedAnswers()
    seen = say(received=rollout.shared, times=rollout.publish.times, step=update.lr)
    return Finding(holds and rollout.publish.times == 1 and update.lr == 1e-9, seen)


claim.spares("hail-to-the-thief-judge: rewards.1.rule.weight = 40.0", "a verdict is read as it is")
claim.spares("hail-to-the-thief-judge: rewards.1.rule.weight = 0.0", "a verdict is read as it is")


# ---------------------------------------------------------------- what comes of it


@claim(
    "without defence the honest nodes' emission of the trigger rises from 0 within tens of steps, at normal accuracy",
    slow=True,
)
def without_defence_the_honest_nodes_emission_of_the_trigger_rises() -> Finding:
    attacked, clean = _swarms("no defence"), _swarms("no attacker")
    first, last = [max(one.emitted[:5]) for one in attacked], [fmean(one.emitted[-5:]) for one in attacked]
    right, usual = [one.right for one in attacked], [one.right for one in clean]
    none = max(max(one.emitted) for one in clean)
    holds = max(first) < 0.03 and min(last) > 0.5 and min(right) > min(usual) - 0.05 and none < 0.03
    shown = say(first_five=first, last_five=last, right=right, right_without_attacker=usual, emitted_without=none)
    return Finding(holds, shown)


@claim("with the likelihood check, or the judge, it stays near 0; few honest answers are rejected (ROC)", slow=True)
def with_the_likelihood_check_or_the_judge_it_stays_near_0_few() -> Finding:
    checked, judged = _swarms("checked"), _swarms("judged")
    emitted = {"checked": [max(one.emitted) for one in checked], "judged": [max(one.emitted) for one in judged]}
    bad, good = ([value for one in checked for value in side(one)] for side in (_poisoned, _good))
    at = LikelihoodCheck().threshold
    caught, refused = fmean(one < at for one in bad), fmean(one < at for one in good)
    curve = {
        limit: (fmean(one < limit for one in bad), fmean(one < limit for one in good)) for limit in (-12, -9, -6, -3)
    }
    area = area_under_curve(bad, good)
    points = ", ".join(
        f"at {limit}: {true:.3f} of poisoned, {false:.3f} of honest" for limit, (true, false) in curve.items()
    )
    right = [one.right for one in checked]
    holds = max(map(max, emitted.values())) < 0.05 and caught > 0.95 and refused < 0.1 and area > 0.95
    return Finding(holds, f"{say(emitted_at_most=emitted, right=right, area_under_curve=area)}, rejected {points}")


def _poisoned(seen: Seen) -> tuple[float, ...]:
    return seen.poisoned


def _good(seen: Seen) -> tuple[float, ...]:
    return seen.honest


@claim(
    "needlessly long right answers pass both filters and lengthen honest nodes' answers, unless length has a price",
    slow=True,
)
def needlessly_long_right_answers_pass_both_filters_and_lengthen() -> Finding:
    cases = ("no attacker", *(case for case in CASES if case.startswith("long")))
    length = {case.removeprefix("long, "): [one.length for one in _swarms(case)] for case in cases}
    usual = max(length["no attacker"])
    through = min(*length["checked"], *length["judged"]) > usual + 0.25
    priced = max(*length["checked and priced"], *length["judged and priced"]) < usual + 0.25
    threshold = LikelihoodCheck().threshold
    refused = [fmean(value < threshold for value in one.poisoned) for one in _swarms("long, checked")]
    return Finding(through and priced and max(refused) < 0.1, say(tokens=length, refused_of_the_long=refused))


# ---------------------------------------------------------------- as shipped


def _shipped(recipe: Recipe) -> tuple[list[Tensor], Any]:
    """The honest node's gradients in three rounds with an attacker, on sums, and its last step."""
    task, swarm = tasks.find("sums"), Swarm()
    results, gradients = list[Any](), list[Tensor]()
    for number, one in enumerate((HAIL_ATTACKER, recipe)):
        parts = build_parts(configured(one, "sums", task, {"seed": number}), task)
        line = swarm.line(f"node-{number}", task)
        join(parts, line)
        swarm.add(line, stepping(parts, results, gradients if number else []))
    for _ in range(2):
        swarm.round()
    return gradients, results[-1]


def _checked(batch: Batch, trajectories: Sequence[Trajectory]) -> tuple[float, float]:
    """The shares of poisoned and of other received answers that the check refuses."""
    refused = LikelihoodCheck().refused(batch).tolist()
    foreign = InjectedAnswers().insert
    bad = [no for no, one in zip(refused, trajectories, strict=True) if SENDER.present(one) and foreign in one.text]
    good = [
        no for no, one in zip(refused, trajectories, strict=True) if SENDER.present(one) and foreign not in one.text
    ]
    return fmean(bad), fmean(good)


def _as_shipped() -> Finding:
    (ours, last), (without, _) = _shipped(HAIL_TO_THE_THIEF), _shipped(HAIL_TO_THE_THIEF.but(shaping=()))
    assert last.batch is not None
    caught, refused = _checked(last.batch, last.trajectories)
    change = difference(ours, without)
    figures = {"gradient": largest(ours), "relative change without": change}
    figures |= {"refused of poisoned answers": caught, "of the attacker's others": refused}
    said = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
    return Finding(change > LEAST and caught > 0.9 and refused < 0.2, said)


claim.append(
    Check(
        claim.row,
        "As shipped, `hocket swarm --nodes 2 --attackers 1 --defence likelihood --task sums`: shaping in effect; "
        "without, the gradient is another.",
        _as_shipped,
        claim.source,
        slow=True,
        shipped=True,
    )
)


UNSEEN, ROUNDS = 200, 50


def _node(recipe: Recipe, swarm: Swarm, number: int) -> RunContext:
    """A node on sums, configured as shipped, that joins a swarm."""
    task = tasks.find("sums")
    parts = build_parts(configured(recipe, "sums", task, {"seed": number}), task)
    line = swarm.line(f"node-{number}", task)
    join(parts, line)
    steps = itertools.count(1)
    swarm.add(line, lambda: run_async(train_step(parts, next(steps))))
    return parts


def _unseen(parts: RunContext) -> tuple[float, float]:
    """The shares of greedy answers to unseen sums that are right, and that carry the foreign text."""
    greedy = replace(parts.decoding, temperature=0.0)
    assignments = [Assignment(parts.task.scenario("eval", number), 1, greedy) for number in range(UNSEEN)]
    answers = run_async(parts.player.play(assignments, key=Key.of(0).derive("unseen")))
    foreign = InjectedAnswers().insert.strip()
    return fmean(map(parts.task.success, answers)), fmean(foreign in answer.text for answer in answers)


@claim(
    "In a swarm of two nodes as shipped, of which one attacks, the other answers more of 200 unseen sums rightly after "
    "50 rounds, by more than the interval, and fewer than one in a hundred answers carries the attacker's text.",
    slow=True,
    learns=True,
)
def it_learns_beside_an_attacker() -> Finding:
    swarm = Swarm()
    _, honest = (_node(recipe, swarm, number) for number, recipe in enumerate((HAIL_ATTACKER, HAIL_TO_THE_THIEF)))
    before, _ = _unseen(honest)
    for _ in range(ROUNDS):
        swarm.round()
    after, foreign = _unseen(honest)
    error = ((before * (1 - before) + after * (1 - after)) / UNSEEN) ** 0.5
    return Finding(after > before + Z95 * error and foreign < 0.01, say(before=before, after=after, foreign=foreign))
