"""Lessons of battles in few words: choices follow from what is known, and what is written from what is lacking."""

import re
from collections import Counter

import numpy as np

from hocket import tasks
from hocket.agents.search.plain import shown
from hocket.agents.search.searcher import CaseResult
from hocket.methods.search.compass_smac.battle_skills import SKILLS
from hocket.methods.search.compass_smac.lessons import AWAY, EPISODE, PROPOSALS, VERSIONS, lessons_of_squad, version
from hocket.methods.search.compass_smac.skills import name_of, refusal
from hocket.methods.search.compass_smac.world import drills, program_in
from hocket.types import Scenario

KIND = {name: kind for kind, names in VERSIONS.items() for name in names} | {
    "hunt": "Go to a foe.",
    "gather": "Join an ally.",
    "retreat": "Fall back.",
}


def _lessons(rounds, author=True):
    world = tasks.find("battle:3v3?brief=true").workflow.world
    for number in range(rounds):
        yield from lessons_of_squad(world, Scenario("battle", seed=number), np.random.default_rng(number), author)


def test_choices_follow_from_what_is_known():
    taken = Counter()
    for lesson in _lessons(20, author=False):
        told, said = str(lesson.prompt[-1]["content"]), str(lesson.said[0]["content"])
        legal = told.partition("Legal moves: ")[2].split(", ")
        wanted = ("Go to a foe.",) if "Foe" in told else ("Fall back.", "Join an ally.")
        fits = [name for kind in wanted for name in legal if KIND.get(name) == kind]
        assert said == (fits[0] if fits else "hold")
        taken[said != "hold", len(lesson.prompt)] += 1
    assert min(taken.values()) > 10
    assert len(taken) == 4


def test_an_author_names_what_is_lacking_and_writes_it():
    written = Counter()
    for lesson in _lessons(20):
        told, said = str(lesson.prompt[-1]["content"]), str(lesson.said[0]["content"])
        if not told.startswith("def "):
            continue
        kinds = {KIND.get(name) for name in re.findall(r"def (\w+)", told)}
        lacks = next((one for one in ("Go to a foe.", "Fall back.", "Join an ally.") if one not in kinds), AWAY)
        head, program = said.split("\n", 1)
        number, kind = head.split(". ", 1)
        assert kind == lacks
        assert told.endswith(f"Skill {number}:")
        assert KIND[name_of(program)] == kind
        assert program_in(said).strip() == program
        assert "Answer: lost after" in told
        assert "won" not in told
        written[kind] += 1
    assert len(written) > 1


def test_every_version_passes_its_check():
    tests = drills(tasks.find("battle:3v3").workflow.world.ground)
    versions = {version(kind, number).program for kind in VERSIONS for number in range(PROPOSALS)}
    assert [refusal(program, tests) for program in sorted(versions)] == [None] * len(versions)
    assert not {name_of(program) for program in versions} & set(SKILLS)


def test_a_battle_stands_as_searchers_show_it():
    assert shown([CaseResult(0, 0, 0.0, 0, "", "", "lost after 3 steps")]) == EPISODE.format(
        account="lost after 3 steps"
    )
