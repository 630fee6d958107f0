"""Groups that failed: which help is the least that works, and what stays as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.rollout.independent import Independent
from hocket.rollout.rescue import HELPED, HintAsPrefix, HintInPrompt, Reference, Rescued
from hocket.types import Score
from tests.rollout_cases import Stage, assignments

HINTS = ("first", "second", "third")
LADDER = tuple(HintInPrompt("hints", share) for share in (0.34, 0.67, 1.0))


class Helped(Stage):
    """Rewards by what is asked: `rule(scenario, source, hint, sample)`."""

    def trajectory(self, assignment, sample):
        made = super().trajectory(assignment, sample)
        made.info["reward"] = self.table(assignment.scenario.id, assignment.source, assignment.hint, sample)
        made.turns[0].text = assignment.hint or "plain"
        return made

    async def score(self, trajectories):
        self.scored += trajectories
        for one in trajectories:
            one.scores["verdict"] = Score(float(one.info["reward"]))


def stage(table):
    made = Helped(rule=lambda scenario, sample: 0.0)
    made.table = table
    return made


@settings(max_examples=60)
@given(
    own=st.lists(st.booleans(), min_size=3, max_size=3),
    helped=st.lists(st.lists(st.booleans(), min_size=2, max_size=2), min_size=3, max_size=3),
    take=st.sampled_from([1, 2, None]),
)
def test_the_least_help_that_works_is_what_playing_all_of_them_finds(own, helped, take):
    def table(scenario, source, hint, sample):
        if source == "own":
            return own[sample]
        rung = len(hint.removeprefix("Hint: ").split()) - 1
        return helped[rung][sample - 3 - 2 * rung]

    made = stage(table)
    found = made.collect(Rescued(LADDER, samples=3, take=take, tries=2), assignments("a", hints=HINTS))
    group = found.trajectories
    least = next((rung for rung, tries in enumerate(helped) if any(tries)), None)
    if any(own) or least is None:
        assert [one.text for one in group] == ["plain"] * 3
        assert not any(HELPED.present(one) for one in group)
        assert len(made.asked) == (1 if any(own) else 4)
    else:
        tries = sum(helped[least]) if take else 2
        given_way = min(take or 2, tries)
        assert [HELPED.get(one) for one in group if HELPED.present(one)] == [least + 1] * given_way
        assert [one.text for one in group[:given_way]] == ["Hint: " + " ".join(HINTS[: least + 1])] * given_way
        assert len(group) == (3 if take else 2)
        assert all(one.info["reward"] for one in group[:given_way]) or take is None
        assert len(made.asked) == 2 + least
    everything = [*found.trajectories, *found.discarded]
    assert len(everything) == len({id(one) for one in everything}) == len(made.scored)
    assert all(one.source == ("helped" if HELPED.present(one) else "own") for one in everything)


def test_a_success_is_asked_as_without_help_and_others_are_in_place():
    made = stage(lambda scenario, source, hint, sample: source != "own" or scenario == "b")
    asked = assignments("a", "b", "c", demonstration="right")
    found = made.collect(Rescued((Reference(),), samples=2), asked)
    assert made.asked[0] == [replace(one, samples=2) for one in asked]
    assert [one.scenario.id for one in made.asked[1]] == ["a", "c"]
    assert [(one.scenario.id, one.source) for one in found.trajectories] == [
        *[("a", "expert"), ("a", "own"), ("b", "own"), ("b", "own"), ("c", "expert"), ("c", "own")]
    ]
    assert found.metrics == {"rollout/failed": 2, "rollout/rescued": 2, "rollout/tries": 2, "rollout/rung": 1}


def test_what_was_said_with_a_bare_help_is_read_behind_the_plain_prompt():
    made = stage(lambda scenario, source, hint, sample: source == "helped")
    found = made.collect(Rescued((HintInPrompt("answer", bare=True),), samples=2), assignments("a", answer="42"))
    again = made.asked[-1][0]
    assert (again.source, again.hint, again.scenario.metadata["demonstration"]) == ("expert", None, "Hint: 42")
    assert found.trajectories[0].scores["verdict"].value == 1.0
    assert found.trajectories[0].scenario is found.trajectories[1].scenario


def test_one_of_several_scores_may_decide():
    class Formed(Helped):
        async def score(self, trajectories):
            await super().score(trajectories)
            for one in trajectories:
                one.scores["form"] = Score(1.0)

    def rescued(score):
        made = Formed(rule=lambda scenario, sample: 0.0)
        made.table = lambda scenario, source, hint, sample: source == "expert"
        return made.collect(Rescued(samples=2, score=score), assignments("a", demonstration="x")).metrics

    assert rescued(None)["rollout/failed"] == 0
    assert rescued("verdict")["rollout/rescued"] == 1


def test_a_rung_without_anything_to_tell_is_passed_over():
    made = stage(lambda scenario, source, hint, sample: source == "expert")
    ladder = (HintInPrompt("hints", 0.2), HintAsPrefix("hints"), HintAsPrefix("tokens", 1.0), Reference())
    asked = [replace(one, budget=3) for one in assignments("a", hints=HINTS, tokens=(1, 2, 3), demonstration="x")]
    found = made.collect(Rescued(ladder, samples=2), asked)
    # A fifth of three hints is none, hints are no tokens here, and a whole answer leaves no room to go on.
    assert HELPED.get(found.trajectories[0]) == 4
    assert len(made.asked) == 2


def test_there_is_no_help_in_the_first_steps_and_bad_settings_are_told():
    rescued = Rescued(LADDER, samples=3, after=5)
    assert rescued.at(5) == Independent(3)
    assert rescued.at(6) is rescued
    with pytest.raises(ValueError, match="ladder must hold a help at least"):
        Rescued(ladder=())
    for wrong in ({"take": 0}, {"tries": 0}, {"samples": 0}, {"after": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Rescued(**wrong)
    with pytest.raises(ValueError, match="share must lie in"):
        HintAsPrefix(share=0.0)
