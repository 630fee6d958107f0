"""ReAgent-V's claims, on clips as records in words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from hocket.agents.workflows.single import SingleTurn
from hocket.core.keys import Key
from hocket.credit.pairs import BestAgainstWorst
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.recorded_answers import group_relative
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.base.sft import SFT
from hocket.methods.search.reagent_v import (
    ENOUGH,
    FIRST,
    REAGENT_V,
    REAGENT_V_DPO,
    REAGENT_V_GRPO,
    REVISIONS,
    ClipAgent,
    kept,
)
from hocket.rollout.selection import Selected
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario, Trajectory
from hocket.zoo.tasks.clips import STANCES, Clips, answer_question, picked, shown

claim = Claims("reagent-v", "the abstract, and the authors' code; clips are our own")
TASK = Clips()


# ---------------------------------------------------------------- frames


# ---------------------------------------------------------------- one episode

CLIP = [{"seen": "dog sits"}, {"seen": "cat runs", "sounds": "bell"}, {"seen": "boy hops"}, {"seen": "cat naps"}]
ASKED = Scenario("c", "What does the cat do after the bell?", "naps", metadata={"clip": CLIP, "tool": "sounds"})
LOOKED, HEARD = "1 dog sits; 2 cat runs; 4 cat naps", "sounds: 2 bell"


def played(agent: ClipAgent, **script: Any) -> Trajectory:
    """An episode by a script."""
    (one,) = rehearse(agent, ASKED, {**{role: [] for role in agent.roles}, **script})
    assert one.failure is None, one.failure
    return one


@claim(
    "Tools are asked first, the answer is graded, and of those who look again the conservative sees what was seen, the "
    "neutral frames picked with the critic's words too, the aggressive its tools besides; the most confident is kept."
)
def tools_are_asked_first_the_answer_is_graded_and_of_those_who() -> Finding:
    report = "3: the boy, and sounds"
    answerer = Part("none", "<answer>Runs</answer>")
    critic = Part(report)
    looks = {
        name: Part(said)
        for name, said in zip(STANCES, ("<answer>runs</answer> 4", "hops 9", "<answer>naps</answer>: 7"), strict=True)
    }
    one = played(ClipAgent(), answerer=answerer, critic=critic, **looks)
    question, again = str(ASKED.prompt), "2 cat runs; 3 boy hops; 4 cat naps"
    answerer.assert_shown(0, ("user", f"{question}\nWhich tools, of sounds, signs?"))
    answerer.assert_shown(1, ("user", f"{LOOKED}\n{question}"))
    critic.assert_shown(
        0, ("user", f"{LOOKED}\n{question}\nAnswer: runs\nGrade it from 0 to 10, and say what to look at again.")
    )
    for name, evidence in zip(STANCES, (LOOKED, again, f"{again}\n{HEARD}"), strict=True):
        told = f"{evidence}\n{question}\nAnswer: runs\nReport: {report}\n{STANCES[name]}\nAnswer, and how sure of ten."
        looks[name].assert_shown(0, ("user", told))
    noted = REVISIONS.get(one) == {"conservative": ("runs", 0.4), "neutral": (None, 0.0), "aggressive": ("naps", 0.7)}
    noted &= FIRST.get(one) == "runs" and one.info["answer"] == "<answer>naps</answer>"
    return below(EXACT, noted, grade=gap(one.scores["critic"].value, 0.3))


@claim("An answer that is graded enough stands, without anybody who looks again; so does every one of a single pass.")
def an_answer_that_is_graded_enough_stands_without_anybody_who() -> Finding:
    asked = {"answerer": ["sounds", "runs"]}
    good = played(ClipAgent(), **asked, critic=["6 of 10"])
    single = played(ClipAgent(enough=0.0), **asked, critic=["no idea"])
    told = str(good.turns[1].prompt[-1]["content"]).startswith(f"{LOOKED}\n{HEARD}\n")
    same = all(one.info["answer"] == "<answer>runs</answer>" and REVISIONS.get(one) == {} for one in (good, single))
    low = played(ClipAgent(), **asked, critic=["5"], **{stance: ["hm"] for stance in STANCES})
    stands = low.info["answer"] == "<answer>runs</answer>" and len(REVISIONS.get(low)) == 3
    grades = [good.scores["critic"].value, single.scores["critic"].value]
    return below(EXACT, told, same, stands, grades=gap(grades, [0.6, 0.0]))


@claim("Kept is the most confident revision that says something, of equals the more conservative, else the first.")
def kept_is_the_most_confident_revision_that_says_something_of() -> Finding:
    wrong = 0
    said = [(None, 0.0), ("a", 0.3), ("b", 0.3), ("c", 0.9)]
    for three in itertools.product(said, repeat=3):
        readable = [one for one in three if one[0] is not None]
        top = max((sure for _, sure in readable), default=None)
        due = next((answer for answer, sure in readable if sure == top), "first")
        wrong += kept("first", three) != due
    return Finding(wrong == 0, say(wrong=wrong))


# ---------------------------------------------------------------- critics of known accuracy

RIGHT, WRONG, GOOD, BAD, LOW, HIGH = "runs", "hops", "9", "2", "3", "8"
QUESTION = Scenario("q", "What does the cat do first?", RIGHT, metadata={"clip": CLIP, "tool": ""})
REVISED = [f"<answer>{word}</answer> {sure}" for word in (RIGHT, WRONG) for sure in (LOW, HIGH)]
WORDS = ("none", RIGHT, WRONG, GOOD, BAD, *REVISED)


def agents(skill: float, spots: float, slips: float, never: float) -> Any:
    """Whoever answers is right so often; the critic approves of so many right answers, and of so many wrong ones.

    The conservative says the same again, the others answer anew; each is sure or not by the toss of a coin. Whatever
    else might be said has the logit `never`.
    """

    def prior(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
        told = str(messages[-1]["content"])
        chances: dict[str, float] = {RIGHT: skill, WRONG: 1 - skill}
        before = RIGHT if f"Answer: {RIGHT}" in told else WRONG
        if "Which tools" in told:
            chances = {"none": 1.0}
        elif "Grade it" in told:
            approved = spots if before == RIGHT else slips
            chances = {GOOD: approved, BAD: 1 - approved}
        elif "Report" in told:
            same = {RIGHT: float(before == RIGHT), WRONG: float(before == WRONG)}
            words = same if STANCES["conservative"] in told else chances
            chances = {
                f"<answer>{word}</answer> {sure}": share / 2 for word, share in words.items() for sure in (LOW, HIGH)
            }
        return {word: math.log(chances[word]) if chances.get(word) else never for word in WORDS}

    return prior


def bench(skill: float, spots: float, slips: float, enough: float = ENOUGH, **how: Any) -> TalkBench:
    """A table in every seat; where it learns everything may be said."""
    never = -60.0 if "recipe" in how else -math.inf
    return TalkBench(
        ClipAgent(enough=enough), [QUESTION], WORDS, how.pop("recipe", REAGENT_V),
        prior=agents(skill, spots, slips, never), verifier=TASK.verify, view=lambda told: told[-1]["content"], **how,
    )  # fmt: skip


def right(one: Trajectory) -> float:
    return TASK.verify(str(one.info["answer"]), one.scenario)


def graded(one: Trajectory) -> float:
    """The critic's grade."""
    return total(one)


CRITICS = [(0.9, 0.2), (0.6, 0.4), (0.5, 0.5), (0.8, 0.8), (0.3, 0.6)]
"""Who approves of so many right and of so many wrong answers: AUC is 1/2 + (their difference)/2."""


@claim(
    "Looking again raises accuracy by 3/8 a (1 - a) (2 AUC - 1) where a answers in 1 are right and coins say how sure "
    "each stance is: more with a critic above chance, nothing at chance, less below it."
)
def looking_again_raises_accuracy_by_3_8_a_where_a_answers_in_1_are() -> Finding:
    off, gains = 0.0, {"above": list[float](), "at": list[float](), "below": list[float]()}
    for skill, (spots, slips) in itertools.product((0.4, 0.7), CRITICS):
        once, again = (bench(skill, spots, slips, enough=enough).expected(right) for enough in (0.0, ENOUGH))
        above = spots - slips  # 2 AUC - 1
        off = max(off, abs(again - once - 3 / 8 * skill * (1 - skill) * above), abs(once - skill))
        gains["above" if above > 0 else "below" if above else "at"].append(again - once)
    signs = min(gains["above"]) > 0.01 and max(map(abs, gains["at"])) < 1e-9 and max(gains["below"]) < -0.01
    return Finding(off < 1e-9 and signs, say(off=off, gains=gains))


@claim("What is graded enough is right in a s / (a s + (1 - a) f) of the cases: more than in all, above chance alone.")
def what_is_graded_enough_is_right_in_a_s_f_of_the_cases_more_than() -> Finding:
    off, gains = 0.0, []
    for skill, (spots, slips) in itertools.product((0.4, 0.7), CRITICS):
        one = bench(skill, spots, slips)
        found = [(chance, graded(episode), right(episode)) for chance, episode in one.outcomes(QUESTION)]
        taken = [(chance, good) for chance, grade, good in found if grade >= ENOUGH]
        share = sum(chance * good for chance, good in taken) / sum(chance for chance, _ in taken)
        off = max(off, abs(share - skill * spots / (skill * spots + (1 - skill) * slips)))
        gains.append((spots - slips, share - skill))
    signs = all((gain > 1e-6) == (apart > 0) for apart, gain in gains)
    return Finding(off < 1e-9 and signs, say(off=off, gains=[gain for _, gain in gains]))


@cache
def student(filtered: bool, seed: int, size: int = 48) -> float:
    """How often a student is right that imitated so many of a teacher's answers."""
    teacher = bench(0.55, 0.9, 0.2, seed=seed)
    episodes = teacher.play(4 * size)
    some = [one for one in episodes if not filtered or graded(one) >= ENOUGH][:size]
    assert len(some) == size
    prompt = answer_question(shown(CLIP, picked(CLIP, str(QUESTION.prompt), 3), []), str(QUESTION.prompt))
    shown_ = [
        Scenario(f"d{number}", prompt, RIGHT, metadata={"demonstration": FIRST.get(one)})
        for number, one in enumerate(some)
    ]
    learner = TalkBench(SingleTurn(), shown_, (RIGHT, WRONG), SFT, verifier=TASK.verify, seed=seed).run(60)
    return float(learner.policies["policy"].probabilities(prompt)[0])


@claim("From as many answers a student learns more where the critic's grade chose them than where nobody did.")
def from_as_many_answers_a_student_learns_more_where_the_critics() -> Finding:
    ours, all_ = ([student(chosen, seed) for seed in range(4)] for chosen in (True, False))
    holds = min(ours) > max(all_) and abs(fmean(ours) - 0.55 * 0.9 / (0.55 * 0.9 + 0.45 * 0.2)) < 0.08
    return Finding(holds, say(chosen=ours, as_they_come=all_))


@claim("With the recipe the answerer imitates its own well-graded answers, and gets better; imitating all it does not.")
def with_the_recipe_the_answerer_imitates_its_own_well_graded() -> Finding:
    found = {}
    for name, least in (("chosen", ENOUGH), ("all", 0.0)):
        recipe = REAGENT_V.but({"rollout.least": least, "rollout.samples": 16 if least else 9})
        found[name] = [
            bench(0.55, 0.9, 0.2, enough=0.0, recipe=recipe, seed=seed, lr=0.05).run(25).expected(right)
            for seed in range(3)
        ]
    return Finding(min(found["chosen"]) > 0.8 and min(found["chosen"]) > max(found["all"]) + 0.1, say(**found))


# ---------------------------------------------------------------- what is learnt from


def rows(grades: Sequence[float]) -> list[dict[str, Any]]:
    """Episodes of a question with these grades."""
    return [
        {"group": "q", "scores": {"critic": grade}, "logp": [-0.3 - 0.1 * n, -1.0], "logp_ref": [-0.5, -0.9]}
        for n, grade in enumerate(grades)
    ]


def grades() -> Iterable[list[float]]:
    rng = Key.of(4).derive("grades").numpy()
    return ([float(one) / 10 for one in rng.integers(0, 11, 6)] for _ in range(20))


@claim("The grade as reward is compared within a question's episodes; pairs are of its best- and its worst-graded.")
def the_grade_as_reward_is_compared_within_a_questions_episodes() -> Finding:
    worst, pairs = 0.0, isinstance(REAGENT_V_DPO.credit, BestAgainstWorst)
    for some in grades():
        advantages: list[list[float]] = inspect_rows(REAGENT_V_GRPO, rows(some))["advantages"]
        worst = max(worst, gap([row[0] for row in advantages], group_relative(some)))
        ours, plain = (inspect_rows(recipe, rows(some))["gradient"] for recipe in (REAGENT_V_DPO, ONLINE_DPO))
        moved = [place for place, row in enumerate(ours) if any(row)]
        best, least = some.index(max(some)), some.index(min(some))
        pairs &= sorted(moved) == sorted({best, least}) and gap(ours, plain) == 0
    return below(1e-9, pairs, off_by_hand=worst)


@claim(
    "Each recipe plays `ClipAgent` and teaches the answerer alone; imitated are, of a question's 8 episodes, those "
    "whose answer would stand without another look.",
    "derived",
)
def each_recipe_plays_clipagent_and_teaches_the_answerer_alone() -> Finding:
    held, taught = 0, list[set[str]]()
    for recipe in (REAGENT_V, REAGENT_V_DPO, REAGENT_V_GRPO):
        held += recipe.workflow == ClipAgent.name
        policies = {role: recipe.cast.policy(role) for role in ClipAgent.roles}
        names = tuple(dict.fromkeys(str(name) for name in policies.values()))
        learning = recipe.cast.learning(names, 1)
        taught.append({role for role, policy in policies.items() if policy in learning})
    rollout = REAGENT_V.rollout
    assert isinstance(rollout, Selected)
    same = rollout.least == ClipAgent().enough == ENOUGH and rollout.samples == 8
    return Finding(held == 3 and taught == [{"answerer"}] * 3 and same, say(least=rollout.least, recipes=held))


def seen(run: ShippedRun) -> dict[str, float]:
    """What was kept, and who looked again."""
    step = run.results[0]
    everything = [*step.trajectories, *step.discarded]
    again = fmean(float(bool(REVISIONS.get(one))) for one in everything)
    return {"kept": float(len(step.trajectories)), "looked at again": again}


claim.shipped(
    REAGENT_V,
    without={"rollout.least": 0.0},
    trains=("answerer",),
    first={"recipe": "sft", "steps": 100, "update.lr": 0.003, "task": "lessons:clips"},
    settings={"curriculum.prompts": 8},
    sees=seen,
)
claim.shipped(
    REAGENT_V_GRPO,
    "workflow",
    trains=("answerer",),
    first={"recipe": "sft", "steps": 100, "update.lr": 0.003, "task": "lessons:clips"},
    settings={"curriculum.prompts": 8},
    sees=lambda run: {"groups": run.mean("answerer/groups/with_signal")},
)
claim.shipped(
    REAGENT_V_DPO,
    "workflow",
    first={"recipe": "sft", "steps": 100, "update.lr": 0.003, "task": "lessons:clips"},
    settings={"curriculum.prompts": 8},
    sees=lambda run: {"pairs": run.mean("answerer/pairs/total")},
)
