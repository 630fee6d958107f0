"""Curr-ReFT's claims, on problems of three steps, each with one right token of six.

Yes/no needs the first step, a choice two, an open question all. A first token 0 gives a vague answer; any other begins
to reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, cast

import numpy as np

from hocket.core.keys import Key
from hocket.curriculum.random_order import Shuffled
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.recorded_answers import lines
from hocket.lab.toys.training import accuracy, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.curr_reft import CURR_REFT, CURR_REFT_SELF
from hocket.stages import Reward
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Scenario, Score, Trajectory, Turn

claim = Claims("curr-reft", "arXiv:2503.07065")
PROBLEMS, UPDATES = 3, 75
FORMS = ("binary", "choice", "open")


def code(problem: int) -> list[int]:
    return [(2 * problem + 3 * place + 1) % 6 for place in range(3)]


def posed_as(scenario: Scenario, form: str, key: Key) -> Scenario:
    problem = int(scenario.metadata["question"]) % PROBLEMS
    answer = {"binary": "yes", "choice": "AB", "open": f"{'-'.join(map(str, code(problem)))} apples"}
    told = {"question": problem + PROBLEMS * FORMS.index(form), "format": form}
    return replace(scenario, id=f"lab/{problem}/{form}", answer=answer[form], metadata=told)


def concluded(vague: str, question: int, answer: Answer) -> str:
    """What an answer says in the question's format, when a hedge says `vague` to an open question."""
    form, right = FORMS[question // PROBLEMS], code(question % PROBLEMS)
    if answer[0] == 0:
        return vague if form == "open" else "perhaps"
    first, second = (token == wanted for token, wanted in zip(answer[1:3], right, strict=False))
    if form == "binary":
        return "yes" if first else "no"
    if form == "choice":
        return "AB" if first and second else "A" if first else "C"
    return f"{'-'.join(map(str, answer[1:]))} {'apples' if [*answer[1:]] == right else 'pears'}"


def solved(question: int, answer: Answer) -> float:
    """Whether an open question is answered; others do not count."""
    return float(question // PROBLEMS == 2 and answer[0] != 0 and [*answer[1:]] == code(question % PROBLEMS))


def shared_steps(question: int, prefix: Answer) -> Hashable:
    """Steps that a format needs are taken in contexts that all formats share; all else is its own."""
    problem, form = question % PROBLEMS, question // PROBLEMS
    own = not prefix or not prefix[0] or len(prefix) > form + 1
    return (problem, form, len(prefix)) if own else (problem, prefix[1:])


def orders_compared(vague: str, *names: str) -> dict[str, list[float]]:
    world = World(9, 6, 4, solved, text=partial(concluded, vague), context=shared_steps)
    base = CURR_REFT.but({"curriculum.pose": posed_as, "curriculum.per_stage": UPDATES * PROBLEMS // 3})
    changes: dict[str, Any] = {"staged": {}, "shuffled": {"curriculum.order": "shuffled"}}
    changes["open alone"] = {"curriculum.stages": ("open",)}
    return {
        name: [3 * one.success() for one in trained(world, base.but(changes[name]), UPDATES, prompts=PROBLEMS, lr=0.2)]
        for name in names
    }


@dataclass(frozen=True)
class Numbers:
    """Endless questions whose answers are whole numbers, negative ones and large ones too."""

    def size(self, split: str) -> int | None:
        return None

    def scenario(self, split: str, number: int) -> Scenario:
        return Scenario(f"n{number}", "How many?", answer=f"{number % 3000 - 1500:,}", metadata={"kept": 1})


@claim("Formats come by position alone: 320 yes/no questions, 320 choices, then open ones, as shipped; or drawn alike.")
def formats_come_by_position_alone_320_yes_no_questions_320_choices() -> Finding:
    task, ledger, key, curriculum = cast(Any, Numbers()), Ledger(), Key.of(0), cast(Any, CURR_REFT.curriculum)

    def formats(asked: int, count: int) -> list[str]:
        return [one.metadata["format"] for one in curriculum(task, asked, count, ledger, key)]

    staged = formats(0, 1300) == ["binary"] * 320 + ["choice"] * 320 + ["open"] * 660
    at_once, plain = curriculum(task, 312, 16, ledger, key), Shuffled()(task, 312, 16, ledger, key)
    alone = [one for place in range(312, 328) for one in curriculum(task, place, 1, ledger, key)]
    staged &= at_once == alone and [one.origin for one in at_once] == [one.id for one in plain]
    own = replace(curriculum, pose=lambda one, form, key: replace(one, answer=form))
    told = [one.answer for one in own(task, 319, 2, ledger, key)]
    drawn = [replace(curriculum, order="shuffled").format_at(place, key) for place in range(900)]
    counts = [drawn.count(form) for form in FORMS]
    holds = staged and told == ["binary", "choice"] and all(abs(count - 300) < 60 for count in counts)
    return Finding(holds and curriculum.prompts == 16, say(staged=staged, drawn_of_900=str(counts)))


@claim("A yes is graded by match, letters by their share without a wrong one, open answers by shared words.")
def a_yes_is_graded_by_match_letters_by_their_share_without_a_wrong() -> Finding:
    (reward,) = CURR_REFT.rewards
    cases: list[tuple[str, Any, str, float | None]] = [
        ("<answer>Yes. </answer>", "yes", "binary", 1.0),
        ("no", "yes", "binary", 0.0),
        ("AC", "ac", "choice", 1.0),
    ]
    cases += [("A", "AC", "choice", 0.5), ("A", "ACD", "choice", 1 / 3), ("AB", "AC", "choice", 0.0)]
    cases += [("", "AC", "choice", 0.0), ("two pears", "two apples", "open", 0.5), ("7.0", 7, "open", 1.0)]
    rows = []
    for text, answer, form, _ in [*cases, ("A", "A C", "", 0.5), ("7", None, "open", None)]:
        turn = Turn("solo", "solo", np.zeros(1, np.int64), np.ones(1, np.int64), text=text)
        rows.append(Trajectory(Scenario("s", "?", answer, {"format": form} if form else {}), [turn]))
    given = asyncio.run(reward(rows, key=Key.of(0)))
    wanted = [*(one[-1] for one in cases), 2 / 3, None]
    return Finding(given == wanted and reward.weight == 1.0, say(grades=str(given)))


@dataclass(frozen=True)
class Says(Reward):
    """What a judge says by a sample's number; asked of nothing it fails."""

    name: str = "judge"
    weight: float = 1.0

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [(None, 0.5, 0.4)[max(one.sample, 0) % 3] for one in trajectories] if trajectories[0] else []


@claim(
    "As shipped those of 8 samples are learnt from that score 1/2 or more in all; with a judge, if it does not object."
)
def as_shipped_those_of_8_samples_are_learnt_from_that_score_1_2_or() -> Finding:
    async def play(asked: Sequence[Assignment]) -> list[Trajectory]:
        turn = Turn("solo", "solo", np.zeros(1, np.int64), np.ones(1, np.int64))
        return [
            Trajectory(one.scenario, [turn], sample, failure="lost" if sample == 7 else None)
            for one in asked
            for sample in range(one.samples)
        ]

    def kept(rollout: Any, least: int = 4) -> tuple[list[int], float]:
        async def score(played: Sequence[Trajectory]) -> None:
            for one in played:
                one.scores.update(a=Score(0.25), b=Score(0.25 if one.sample >= least else 0.2))

        asked = [Assignment(Scenario(name, "?")) for name in "ab"]
        found = asyncio.run(rollout.collect(asked, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
        complete = len(found.trajectories) + len(found.discarded) == 16
        return [one.sample for one in found.trajectories] * complete, found.metrics["rollout/kept"]

    shipped = CURR_REFT_SELF.rollout
    judged = CURR_REFT_SELF.but({"rollout.judge": Says()}).rollout
    seen = [kept(shipped), kept(judged), kept(shipped, 9), kept(judged, 9)]
    wanted = [([4, 5, 6] * 2, 6 / 16), ([4, 6] * 2, 4 / 16), ([], 0.0), ([], 0.0)]
    return Finding(seen == wanted, say(kept_and_their_share=str(seen)))


@claim(
    "at equal updates formats from easy to hard beat a shuffled order and open questions alone, on open "
    "questions, where vague answers tempt",
    slow=True,
)
def at_equal_updates_formats_from_easy_to_hard_beat_a_shuffled() -> Finding:
    # A vague answer to an open question earns a third, by the words it shares.
    right = orders_compared("some of the apples", "staged", "shuffled", "open alone")
    ahead = fmean(right["staged"]) - max(fmean(right["shuffled"]), fmean(right["open alone"]))
    return Finding(ahead > 0.2, say(accuracy_on_open_questions=right))


@claim(
    "where nothing tempts, a shuffled order does as well: the claim needs open questions that mislead early",
    "derived: a counter-example",
    slow=True,
)
def where_nothing_tempts_a_shuffled_order_does_as_well_the_claim() -> Finding:
    right = orders_compared("something", "staged", "shuffled")
    return Finding(fmean(right["shuffled"]) > fmean(right["staged"]) - 0.1, say(accuracy_on_open_questions=right))


def skills(question: int, answer: Answer) -> float:
    """Question 0, the new skill, wants (0, 1); question 1, the old one, (0, 2) or (1, 2)."""
    return float(answer == (0, 1) if question == 0 else answer in ((0, 2), (1, 2)))


def skilled(policy: Tabular) -> None:
    """Before RL: both begin mostly with 0, and after any beginning 2 follows."""
    for question in range(2):
        policy.logits[policy.row(question, ()), 0] += 3.0
        policy.logits[policy.row(question, ()), 1] += 1.5
    for first in range(4):
        policy.logits[policy.row(0, (first,)), 2] += 3.0


def restored(world: World, seed: int) -> list[float]:
    """Accuracy on the new skill and the old one: at the start, after RL on the new one, and after self-training."""
    pose = {"curriculum.pose": lambda one, form, key: replace(one, id="lab/0", metadata={"question": 0})}
    first = Bench(world, CURR_REFT.but(pose, rewards=()), seed, start=skilled)
    row = [accuracy(question, first) for question in range(2)]
    after = first.run(60).policy.logits.detach().clone()
    (second,) = trained(world, CURR_REFT_SELF, 60, seeds=(seed,), start=lambda policy: policy.logits.copy_(after))
    return row + [accuracy(question, bench) for bench in (first, second) for question in range(2)]


@claim("self-training on selected samples restores an old skill that fell during RL, and keeps the new one", slow=True)
def self_training_on_selected_samples_restores_an_old_skill_that() -> Finding:
    # The skills share their second step.
    world = World(2, 4, 2, skills, context=lambda question, prefix: ("shared", prefix) if prefix else question)
    rows = [restored(world, seed) for seed in SEEDS]
    columns = [fmean(column) for column in zip(*rows, strict=True)]
    least, kept = min(row[5] - row[3] for row in rows), min(row[4] - row[2] for row in rows)
    saw = lines(new_skill_before_and_after_RL_and_self_training=columns[::2], old_skill=columns[1::2])
    return Finding(columns[3] < columns[1] - 0.2 and least > 0.2 and kept > -0.05, saw)


claim.spares("right + int(step) -> right - int(step)", "the steps lie alike on both sides")
claim.spares("rng.random() < 0.5 -> rng.random() >= 0.5", "yes and no are equally likely")

claim.shipped(CURR_REFT_SELF, without={"rollout.least": 0.0})
claim.shipped(CURR_REFT, without={"curriculum.stages": ("open",)}, steps=3, settings={"curriculum.per_stage": 16})
