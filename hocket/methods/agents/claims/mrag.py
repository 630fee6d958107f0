"""mRAG's claims."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from hocket.core.columns import CALLS
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, same_gradient, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.agents.mrag import (
    ANSWER,
    CALL,
    CALLED,
    KEEP,
    MRAG,
    PLAN,
    REASON,
    UNKNOWN,
    VERIFIED,
    BestPaths,
    Coordinated,
    Faithful,
    Kept,
    Relevant,
    TeamLookup,
)
from hocket.methods.base.sft import SFT
from hocket.rollout.independent import Independent
from hocket.testing import Part, rehearse
from hocket.train.aio import run_async
from hocket.types import Decoding, Scenario, Score, Trajectory

claim = Claims("mrag", "arXiv:2506.10844 and the authors' code")

ASKED = Scenario("q", "?")
TRAINED = ("coordinator", "planner", "searcher", "reasoner", "validator")


def scored(correct: float, faithful: float, relevant: float) -> Trajectory:
    """A trajectory of these measures."""
    one = Trajectory(ASKED, [])
    given = {"correct": correct, "faithful": faithful, "relevant": relevant}
    one.scores.update({name: Score(value) for name, value in given.items()})
    return one


# ---------------------------------------------------------------- which trajectories teach


@claim(
    "Kept are those of the highest (relevant + 4 correct + faithful)/6, three of equals at most, by correct, faithful "
    "and relevant and then by when they were drawn; none where all score alike or a measure is nowhere over one half.",
)
def kept_are_those_of_the_highest_6_three_of_equals_at_most_by() -> Finding:
    wrong, sizes = 0, Counter[int]()
    for seed in range(400):
        rng = Key.of(seed).derive("tables").numpy()
        rows = [tuple(rng.integers(0, 3, 3) / 2) for _ in range(int(rng.integers(1, 9)))]
        value = [round(4 * right + faith + form, 6) for right, faith, form in rows]
        poor = any(max(row[place] for row in rows) <= 0.5 for place in range(3))
        order = sorted(range(len(rows)), key=lambda n: (*(-part for part in rows[n]), n))
        due = [n for n in order if value[n] == max(value)][:3]
        due = [] if poor or len(set(value)) == 1 else due
        given = [scored(*map(float, row)) for row in rows]
        found = [given.index(one) for one in BestPaths().best(given)]
        sizes[len(found)] += 1
        wrong += found != due
    failed = scored(1.0, 1.0, 1.0)
    failed.failure = "it broke"
    lost = BestPaths().best([failed, scored(0.0, 0.0, 1.0)])
    weights = [(one.name, one.weight) for one in MRAG.rewards]
    ships = MRAG.rollout == BestPaths(8, 3) and weights == [
        ("correct", 4 / 6),
        ("faithful", 1 / 6),
        ("relevant", 1 / 6),
    ]
    return Finding(
        wrong == 0 and not lost and ships and set(sizes) == {0, 1, 2, 3}, say(wrong=wrong, kept=str(dict(sizes)))
    )


Actions = tuple[int, int]


def softmax(logits: Sequence[float]) -> np.ndarray:
    """Of some numbers."""
    raised = np.exp(np.array(logits, np.float64))
    return np.asarray(raised / raised.sum())


def slope(chances: Sequence[np.ndarray], actions: Actions) -> np.ndarray:
    """The gradient of the log-probability of what both agents do, by their logits, `[6]`."""
    return np.concatenate([np.eye(3)[did] - chance for chance, did in zip(chances, actions, strict=True)])


@claim(
    "Where trajectories are right or wrong, what is expected of a step is E[min(K, 3) where 0 < K < T]/p times the "
    "gradient of the chance p to be right, K of T right; imitating all of them, it is nothing.",
    "derived; two agents of three actions and all draws of four, enumerated",
)
def where_trajectories_are_right_or_wrong_what_is_expected_of_a() -> Finding:
    off, still, along = 0.0, 0.0, math.inf
    pairs: list[Actions] = [(one, other) for one in range(3) for other in range(3)]
    for seed in range(3):
        rng = Key.of(seed).derive("logits").numpy()
        chances = [softmax(rng.normal(size=3).tolist()) for _ in range(2)]
        good = {pairs[n] for n in rng.permutation(9)[:3].tolist()}
        chance = {pair: float(chances[0][pair[0]] * chances[1][pair[1]]) for pair in pairs}
        right = sum(chance[pair] for pair in good)
        rising = sum((chance[pair] * slope(chances, pair) for pair in good), np.zeros(6))
        expected, everything = np.zeros(6), np.zeros(6)
        for draws in itertools.product(pairs, repeat=4):
            weight = math.prod(chance[pair] for pair in draws)
            given = [scored(float(pair in good), float(pair in good), 1.0) for pair in draws]
            kept = [draws[given.index(one)] for one in BestPaths(samples=4).best(given)]
            expected += weight * sum((slope(chances, pair) for pair in kept), np.zeros(6))
            everything += weight * sum((slope(chances, pair) for pair in draws), np.zeros(6))
        factor = sum(min(k, 3) * math.comb(4, k) * right**k * (1 - right) ** (4 - k) for k in (1, 2, 3)) / right
        off = max(off, float(np.abs(expected - factor * rising).max()))
        still, along = max(still, float(np.abs(everything).max())), min(along, float(expected @ rising))
    return below(1e-12, along > 1e-4, off_by=off, imitating_all=still)


@claim("A single sample of a question teaches nothing.", "derived")
def a_single_sample_of_a_question_teaches_nothing() -> Finding:
    kept = [BestPaths(samples=1).best([scored(right, faith, 1.0)]) for right in (0.0, 1.0) for faith in (0.0, 1.0)]
    return Finding(not any(kept), say(kept=sum(map(len, kept))))


@claim("What is kept is learnt by maximum likelihood, and so are a random batch's decisions that count.")
def what_is_kept_is_learnt_by_maximum_likelihood_and_so_are_a() -> Finding:
    return same_gradient(MRAG, SFT)


@claim("All roles but the generator are one policy, which alone learns; the generator is a copy of its own.")
def all_roles_but_the_generator_are_one_policy_which_alone_learns() -> Finding:
    cast = MRAG.cast
    names = {role: cast.policy(role) for role in Coordinated.roles}
    holds = names == {**dict.fromkeys(TRAINED), "generator": "generator"} and cast == Kept()
    learning = [cast.learning(("policy", "generator"), step) for step in (1, 9)]
    return Finding(holds and learning == [frozenset({"policy"})] * 2, say(policies=str(names)))


# ---------------------------------------------------------------- what a response is worth


@claim("Faithful is the share of the answer's words in what was verified, relevant whether there is an answer at all.")
def faithful_is_the_share_of_the_answers_words_in_what_was_verified() -> Finding:
    due = {
        "<answer>57</answer>": (1.0, 1.0),
        "<answer>57 5</answer>": (0.5, 1.0),
        "<answer>Blue</answer>": (1.0, 1.0),
        "<answer>5</answer>": (0.0, 1.0),
        "<answer> </answer>": (0.0, 0.0),
        "57": (0.0, 0.0),
        "": (0.0, 0.0),
    }
    off = 0.0
    for text, wanted in due.items():
        one = Trajectory(ASKED, [], info={"answer": text})
        VERIFIED.write(one, ["ana: keeps the blue lamp", "blue lamp: number 57"])
        rows = [run_async(reward([one], key=Key.of(0)))[0] for reward in (Faithful(), Relevant())]
        off = max(off, *(abs((got or 0.0) - value) for got, value in zip(rows, wanted, strict=True)))
    bare = Trajectory(ASKED, [], info={"answer": "<answer>57</answer>"})
    return below(1e-12, Faithful().judge(bare) == 0.0, off_by_hand=off)


# ---------------------------------------------------------------- the team


def silent(**parts: Part) -> dict[str, Part]:
    """A script for every role; who is not named must not be asked."""
    return {role: parts.get(role, Part()) for role in Coordinated.roles}


@claim(
    "The coordinator's talk goes on and it is told what each agent said; the others are told the question and what was "
    "verified so far, and the last response is the answer."
)
def the_coordinators_talk_goes_on_and_it_is_told_what_each_agent() -> Finding:
    task = TeamLookup()
    scenario = task.scenario("train", 0)
    person, thing = scenario.metadata["gold"]
    one, two = (task.search.answer(name) for name in (person, thing))
    question, right = str(scenario.prompt), f"<answer>{scenario.answer}</answer>"
    calls = ["planner", f"searcher: {person}", "Reasoner", f"searcher:  {thing} ", "generator", "validator"]
    calls += ["guard", "finish"]
    parts = silent(
        coordinator=Part(*calls),
        planner=Part("look twice"),
        reasoner=Part(thing),
        searcher=Part(person, KEEP, "nobody", thing, KEEP),
        generator=Part(right),
        validator=Part("yes"),
    )
    (played,) = rehearse(Coordinated((task.search,)), scenario, parts)
    for part in parts.values():
        part.assert_done()
    parts["coordinator"].assert_asked(f"{question}\n{CALL}", "look twice", one, thing, two, right, "yes", UNKNOWN)
    parts["planner"].assert_asked(f"{question}\n{PLAN}")
    parts["reasoner"].assert_asked(f"{question}\n{one}\n{REASON}")
    parts["generator"].assert_asked(f"{question}\n{one}\n{two}\n{ANSWER}")
    parts["validator"].assert_asked(f"{question}\n{one}\n{two}\nAnswer: {scenario.answer}. Right? yes or no.")
    talk = [str(message["content"]) for message in parts["searcher"].asked[-1]]
    queries = [(call["turn"], call["arguments"]["query"]) for call in CALLS.get(played)]
    holds = talk == [f"{question}\n{one}\nFind {thing}.", "nobody", "nothing found", thing, two]
    holds &= queries == [(1, person), (3, "nobody"), (3, thing)] and played.info["tool_calls"] == 3
    holds &= played.answer == right and VERIFIED.get(played) == [one, two]
    holds &= CALLED.get(played) == [call.strip() for call in calls]
    return Finding(holds, say(turns=len(played.turns), queries=str(queries)))


@claim("The generator is asked at 0.1, or as cool as all where that is cooler; the others as the run says.")
def the_generator_is_asked_at_0_1_or_as_cool_as_all_where_that_is() -> Finding:
    task, found = TeamLookup(), []
    for temperature in (1.0, 0.0):
        parts = silent(coordinator=Part("planner", "generator", "finish"), planner=Part("."), generator=Part("."))
        way = Decoding(temperature=temperature, max_tokens=64)
        (played,) = rehearse(Coordinated((task.search,)), task.scenario("train", 0), parts, decoding=way)
        found += [turn.decoding.temperature for turn in played.turns if turn.decoding is not None]
    return Finding(found == [1.0, 1.0, 1.0, 0.1, 1.0, *[0.0] * 5], say(temperatures=str(found)))


# ---------------------------------------------------------------- lessons


@claim("It ships with its own workflow and, after lessons, 8 steps of 8 questions at 5e-4.")
def it_ships_with_its_own_workflow_and_after_lessons_8_steps_of_8() -> Finding:
    then = dict(TeamLookup().lessons.then(MRAG))
    holds = MRAG.workflow == "coordinated" and then == {"curriculum.prompts": 8, "steps": 8, "update.lr": 5e-4}
    return Finding(holds, say(then=str(then)))


TASK, TAUGHT = "team_lookup", "lessons:team_lookup"
SIZE = {"curriculum.prompts": 8, "update.lr": 5e-4}


def marks(pupil: Pupil) -> float:
    """How often a response to an unseen question is right."""
    return pupil.success(3)


@claim(
    "After lessons the shipped team is right more often after 8 steps of self-training, and more often than one that "
    "imitates two random trajectories of each question.",
    slow=True,
)
def after_lessons_the_shipped_team_is_right_more_often_after_8() -> Finding:
    made = [
        after_lessons(recipe, TASK, TAUGHT, SIZE, steps=160)
        for recipe in (MRAG, MRAG.but(name="mrag-random", rollout=Independent(samples=2)))
    ]
    before = marks(made[0])
    best, anything = (marks(pupil.run(8)) for pupil in made)
    return Finding(best > before + 0.1 and best > anything + 0.1, say(before=before, best=best, random=anything))


def seen(run: ShippedRun) -> dict[str, float]:
    """What is kept of the samples, and that searches and responses are in it."""
    kept = [one for row in run.results for one in row.trajectories]
    verified = fmean(len(VERIFIED.get(one)) for one in kept) if kept else 0.0
    return {"kept": run.mean("rollout/kept"), "score of all": run.mean("rollout/score"), "verified": verified}


LESSONS = {"recipe": "sft", "steps": 120, "update.lr": 0.003, "task": TAUGHT}

claim.shipped(
    MRAG, "rollout", first=LESSONS, settings=SIZE, trains=TRAINED, without={"rollout": Independent(8)}, sees=seen
)

claim.spares("1e-09 -> 4e-08", "only makes up for rounding")
claim.spares("self.rng.random() < VALIDATED -> self.rng.random() >= VALIDATED", "either way is as likely")
