"""What teams with a meta-plan refuse, and how drafts are read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hocket import tasks
from hocket.core.columns import ACTIONS, RETURNS
from hocket.core.errors import ConfigurationError
from hocket.methods.search.capo_coop_plan import PLANS, MetaPlan, agrees
from hocket.methods.search.claims.capo_coop_plan import begun, episode, episodes, replayed, task_of
from hocket.types import Scenario
from hocket.zoo.tasks.carry import WRITE, answer, plan_text


def test_a_draft_without_a_plan_leaves_the_one_before() -> None:
    def forgetful(question: str) -> str:
        """Drafts once, and later says what is no plan."""
        return "Let us go." if "News: " in question and question.endswith(WRITE) else answer(question)

    played = episode(MetaPlan(), task_of("carry").scenario("eval", 2), forgetful)
    plans = [talk["plan"] for talk in PLANS.get(played)]
    kept = all(set(plan[name]) <= set(plans[0][name]) | {""} for plan in plans for name in plan) and len(plans) > 2
    cases = {"agree": True, "Agree.": True, "I agree, go": True, '"agree"': True, "no": False, "disagree": False}
    cases |= {"give hat to bob": False, "they agree": False, "": False}
    assert kept
    assert {text: agrees(text) for text in cases} == cases


MAZE = Scenario("m", metadata={"world": {"type": "hocket.zoo.maze.Mazes"}})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: MetaPlan(agents=5), "agents = 5 is 1 to 4"),
        (lambda: MetaPlan(rounds=-1), "agents = 2 is 1 to 4; rounds = -1"),
        (lambda: episode(MetaPlan(), Scenario("s")), "meta-plan plays worlds, and scenario s names none"),
        (
            lambda: episode(MetaPlan(), task_of("carry?team=3").scenario("eval", 0)),
            r"carry\?size=3&things=4 has the agents alice, bob, carol and meta-plan",
        ),
        (lambda: episode(MetaPlan(), MAZE), r"maze\?width=4&height=4 has the agents player and meta-plan alice, bob"),
        (lambda: tasks.find("carry?things=9"), r"task carry\?size=3&things=9: 2 to 6 rows, 1 to 8 things"),
    ],
)
def test_what_a_team_cannot_plan_in_is_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises((ValueError, ConfigurationError), match=f"^{sentence}"):
        make()


def test_the_team_earns_what_the_world_paid() -> None:
    off = []
    for world, played in episodes():
        paid = 0.0
        past = begun(world, played.scenario.seed)
        for step, now in replayed(world, played):
            paid += (len(now.brought) - len(past.brought)) * (1 - step / (2 * world.steps)) / world.things
            past.brought = now.brought
        score = played.scores["reward"]
        off += [abs(paid - float(np.asarray(score.value))), *(abs(paid - one) for one in RETURNS.get(played).values())]
    assert max(off) < 1e-09


def test_an_agent_reads_the_plan_and_its_own_subtask() -> None:
    wrong, told = 0, 0
    for world, played in episodes():
        worlds = replayed(world, played)
        carry, plan, step = begun(world, played.scenario.seed), {}, 0
        talks = {talk["step"]: talk["plan"] for talk in PLANS.get(played)}
        acting = [turn for turn, made in zip(played.turns, ACTIONS.get(played), strict=True) if made is not None]
        for place, turn in enumerate(acting):
            if place % world.team == 0:
                if step:
                    _, carry = next(worlds)
                if step in talks:
                    carry.share()
                    plan = talks[step]
                step += 1
            question = str(turn.prompt[-1]["content"])
            first = next((one for one in plan[turn.agent] if one in carry.subtasks(turn.agent)), "")
            now = [line for line in question.split("\n") if line.startswith("Now: ")]
            wrong += bool(now) != bool(first) or (bool(now) and not now[0].startswith(f"Now: {first}"))
            wrong += f"Plan:\n{plan_text(plan)}" not in question or f"You: {turn.agent} in" not in question
            told += bool(now)
    bare = episode(MetaPlan(plans=False), task_of("carry").scenario("eval", 0))
    wrong += any("Plan:" in str(turn.prompt[-1]["content"]) for turn in bare.turns) or bool(PLANS.get(bare))
    assert wrong == 0
    assert told > 100
