"""Constraints, and the share of a checklist that is met."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judged_cases import asking
from rewards_cases import answered, graded

from hocket.core.errors import ConfigurationError
from hocket.methods.group_relative.ace_rl import (
    Checklist,
    EndsWith,
    HasSection,
    InOrder,
    Mentions,
    WordRange,
    decompose,
    instruction,
)


@pytest.mark.parametrize(
    ("constraint", "met", "missed"),
    [
        (WordRange(2, 3), "two words", "one"),
        (Mentions("sea"), "The Sea.", "the seaside"),
        (InOrder("first", "then"), "First this, then that", "then first"),
        (InOrder("first", "then"), "first, then", "first alone"),
        (EndsWith("end"), "this is the End.", "end of it"),
        (EndsWith("End"), "END!", "end so"),
        (HasSection("Summary"), "intro\n  summary: all well", "a summary: no"),
    ],
)
def test_constraints(constraint, met, missed):
    assert constraint(met)
    assert not constraint(missed)
    assert not constraint("")
    assert decompose(instruction([constraint])) == (constraint,)


def test_the_reward_is_the_share_and_nothing_without_constraints():
    constraints = (WordRange(1, 3), Mentions("sea"), EndsWith("end"), HasSection("x"))
    reward = Checklist()
    found = graded(
        reward, answered("sea end", constraints=constraints), answered("", constraints=constraints), answered("sea")
    )
    assert found == [0.75, 0.0, None]
    assert decompose(instruction(constraints)) == constraints
    worded = instruction((InOrder("a", "b"), EndsWith("Omega"), WordRange(1, 5)))
    assert worded == "Write a text: mention 'a' before 'b'; end with 'Omega'; use 1 to 5 words."


def test_a_demand_nobody_knows_is_refused():
    with pytest.raises(ConfigurationError, match="be nice"):
        decompose("Write a text: be nice.")


def test_a_judge_says_which_demands_are_met_and_takes_instructions_apart():
    listed = "- name a bird\n2. be polite\n\n"

    def say(prompt):
        if prompt.startswith("List every demand"):
            return listed if "birds" in prompt else "none can be told" if "fail" in prompt else None
        text, demand = prompt.split("Does it meet this demand: ")
        if demand.startswith("none"):
            return "hm"
        return "yes" if demand.split("?")[0] in ("name a bird", "mention 'sea'") and "owl" in text else "no"

    def asked(text, prompt, **metadata):
        given = answered(text, **metadata)
        given.scenario = replace(given.scenario, prompt=prompt)
        return given

    constraints = (Mentions("sea"), "be short", "name a bird")
    found = graded(
        asking(Checklist(), say),
        asked("an owl", "Write of birds."),
        asked("a cat", "Write of birds."),
        asked("an owl", "Write.", constraints=constraints),
        asked("an owl", "Write.", constraints=()),
        asked("an owl", "Write of cats."),
        asked("an owl", "Write to fail."),
    )
    assert found == [0.5, 0.0, pytest.approx(2 / 3), None, None, None]
