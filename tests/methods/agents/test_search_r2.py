"""Search-R2: calls that are cut off, and its lessons."""

from __future__ import annotations

import re
from collections import Counter

from hocket.core.keys import Key
from hocket.methods.agents.search_r2 import JUDGE, TRIM, ActorRefiner, RefinedLookup, reviewed
from hocket.testing import Part, rehearse, tool_call
from hocket.types import Decoding
from hocket.zoo.tasks.lookup import Lookup


def test_a_call_that_is_cut_off_is_none() -> None:
    task = Lookup(hops=2)
    scenario = task.scenario("train", 0)
    whole = tool_call("search", query=scenario.metadata["gold"][0])
    made = []
    for said, most in ((whole, 12), (whole[:-6], 200)):
        parts = {"actor": Part(said, "<answer>1</answer>"), "discriminator": Part("yes"), "trimmer": Part()}
        (played,) = rehearse(ActorRefiner((task.search,)), scenario, parts, decoding=Decoding(max_tokens=most))
        made.append([str(call["result"])[:6] for call in played.info["calls"]])
    assert made == [[], ["error:"]]


def test_the_first_flaw_of_a_beginners_attempt_is_known() -> None:
    sound, flaws, clean = 0, Counter[int | None](), Counter[float]()
    for skill in (0.0, 0.6, 1.0):
        task = RefinedLookup(skill=skill)
        for number in range(200):
            asked, rng = task.scenario("train", number % (task.size("train") or 1)), Key.of(number).numpy()
            gold, right = list(asked.metadata["gold"]), f"<answer>{asked.answer}</answer>"
            steps, wrong = task.attempt(asked, rng)
            queries = [one.call.arguments["query"] for step in steps for one in step.made]
            if wrong is None:
                sound += queries == gold and steps[-1].said == right
            elif len(queries) > len(gold):  # A detour: without it all is right.
                sound += [*queries[:wrong], *queries[wrong + 1 :]] == gold and steps[-1].said == right
            else:  # A guess: the answer comes too early, or says anything.
                sound += queries == gold[:wrong] and wrong == len(steps) - 1
            flaws[wrong] += 1
            clean[skill] += wrong is None
    holds = sound == 600 and set(flaws) == {None, 0, 1, 2} and clean[0.0] == 0 and clean[1.0] == 200
    assert holds
    assert abs(clean[0.6] - 120) < 20


def test_the_flaws_of_beginners() -> None:
    task, guesses, flawed, wrong = RefinedLookup(), 0, 0, 0
    for seed in range(100):
        long = RefinedLookup(skill=0.0, digits=3)
        said = long.attempt(long.scenario("train", 0), Key.of(seed).derive("long").numpy())[0][-1].said
        wrong += not re.fullmatch(r"<answer>[1-9]\d\d</answer>", said)
    for number in range(2000):
        asked = task.scenario("train", number % (task.size("train") or 1))
        steps, flaw = task.attempt(asked, Key.of(number).derive("beginner").numpy())
        queries = [one.call.arguments["query"] for step in steps for one in step.made]
        if flaw is None:
            continue
        flawed += 1
        if len(queries) > len(asked.metadata["gold"]):
            wrong += queries[flaw] not in (task.facts.numbers if flaw else task.facts.keeps)
        else:
            guesses += 1
            wrong += not re.fullmatch(r"<answer>[1-9]\d</answer>", steps[-1].said)
    holds = wrong == 0 and abs(flawed / 2000 - 0.6) < 0.03 and abs(guesses / flawed - 0.2) < 0.03
    assert holds


def test_lessons_show_the_refiner_an_attempt() -> None:
    task, off, shown_right, cuts = RefinedLookup(skill=0.6), [0.0, 0.0, 0.0], 0, Counter[int]()
    for number in range(1000):
        asked, again = task.scenario("train", number % (task.size("train") or 1)), Key.of(number).numpy()
        play, verdict, cut = task.lessons.play(asked, Key.of(number).numpy())
        (said, _), (steps, wrong) = task.attempt(asked, again), task.attempt(asked, again)
        shown_right += play.said == tuple(message for step in said for message in step.messages)
        texts = [str(one.prompt[0]["content"]) for one in (verdict, cut)]
        shown_right += texts == [reviewed(str(asked.prompt), steps, asks) for asks in (JUDGE, TRIM)]
        place = int(str(cut.said[0]["content"]))
        cuts[place - len(steps)] += wrong is None
        off[0] += (float((verdict.said[0]["content"] == "yes") == (wrong is None)) - 0.8) / 1000
        off[1] += 0.0 if wrong is None else (float(place == wrong + 1) - 0.6 - 0.4 / len(steps)) / 1000
        off[2] += 0.0 if wrong is not None else (float(place == 2) - 1 / 3) / 1000
    holds = shown_right == 2000 and set(cuts) - {-3} == {0, -1, -2} and max(map(abs, off)) < 0.03
    assert holds
