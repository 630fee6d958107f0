"""The whole reward to the turns that decided, and who says which they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket import tasks
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Level
from hocket.core.components import from_plain, to_plain
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import returns, rewards_by_occurrence
from hocket.lab.claims.harness import EXACT, gap, inspect_rows
from hocket.lab.talk import TalkBench
from hocket.lab.toys.episodes import episode
from hocket.methods.agents.epo_explicit.method import EPO_EXPLICIT, DecisiveTurns, JudgedTurns
from hocket.recipes import find
from hocket.rewards.combine import WeightedSum
from hocket.rollout.named_turns import NamedBy, ProbedTurns, worth
from hocket.train.aio import run_async
from hocket.train.loop import collect
from hocket.types import Scenario, Score, Trajectory, Turn

ROWS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), min_size=1, max_size=4),
        st.floats(-2, 2),
        st.floats(-2, 2),
        st.sets(st.integers(0, 4)),
    ),
    min_size=1,
    max_size=5,
)
"""Tokens of each turn, a reward of the whole and one of the last turn, which turns were decisive."""


def turn_of(size: int) -> Turn:
    return Turn("a", "p", np.zeros(1, np.int64), np.zeros(size, np.int64), logp=-np.ones(size, np.float32))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(ROWS)
def test_named_turns_get_the_return_and_the_others_nothing(rows):
    shared = turn_of(2)
    found = []
    for sizes, whole, last, named in rows:
        turns = [shared, *map(turn_of, sizes)]
        scores = {"r": Score(whole), "t": Score([0.0] * len(sizes) + [last], Level.TURN)}
        found.append(Trajectory(Scenario("s"), turns, scores=scores, info={"decisive": sorted(named)}))
    batch = WeightedSum()(pack(found), {})
    total = returns(batch).tolist()
    after = DecisiveTurns()(batch)
    earned = rewards_by_occurrence(after)
    for number, (sizes, _, _, named) in enumerate(rows):
        mine = earned[after.occurrences.trajectory == number].tolist()
        wanted: list[float] = []
        for place, size in enumerate([2, *sizes]):
            wanted += [0.0] * (size - 1) + [total[number] * (place in named)] if size else []
        assert mine == pytest.approx(wanted)
    assert bool(torch.isfinite(earned).all())


def test_nobody_asked_nothing_changes():
    batch = WeightedSum()(pack([Trajectory(Scenario("s"), [turn_of(2)], scores={"r": Score(1.0)})]), {})
    assert DecisiveTurns()(batch) is batch


@dataclass(frozen=True)
class Two(Workflow):
    """The second word decides."""

    fails: bool = False

    roles = ("agent", "other")

    async def play(self, scenario, team):
        await team.other("before")
        said = [str(await team.agent(text)) for text in ("one", "two")]
        if self.fails and said == ["red", "red"]:
            raise RuntimeError("lost")
        return Outcome(rewards={"right": float(said[1] == "red")})


def test_the_judge_names_the_roles_turns_by_their_place_among_all():
    recipe = find("grpo").but(
        rollout=JudgedTurns(samples=12, judge=NamedBy(lambda dialogue, turns: [1, 0]), role="agent")
    )
    bench = TalkBench(Two(fails=True), [Scenario("s", "s")], ("red", "blue"), recipe)
    found, _ = run_async(collect(bench.parts, Key.of(1)))
    assert len(found.trajectories) == 12
    lost = [one for one in found.trajectories if one.failure is not None]
    assert lost
    for one in found.trajectories:
        assert one.info["decisive"] == ([] if one in lost else [1, 2])
    assert found.metrics == {"rollout/decisive": 2.0}


def test_what_changed_most_is_named():
    judge = ProbedTurns(rollouts=20, by="change")
    recipe = find("grpo").but(rollout=JudgedTurns(samples=6, judge=judge, role="agent"))
    bench = TalkBench(Two(), [Scenario("s", "s")], ("red", "blue"), recipe)
    found, _ = run_async(collect(bench.parts, Key.of(2)))
    whole = [one for one in found.trajectories if one.failure is None]
    assert sum(one.info["decisive"] == [2] for one in whole) >= len(whole) - 1 > 2


def test_they_are_values():
    recipe = find("epo-explicit")
    assert from_plain(to_plain(recipe)) == recipe
    with pytest.raises(ValueError, match="samples"):
        JudgedTurns(samples=0)


def test_what_an_episode_is_worth_to_an_agent() -> None:
    turns = [Turn(name, "p", np.zeros(1, np.int64), np.zeros(size, np.int64)) for name, size in (("a", 2), ("b", 1))]
    scores = {"whole": Score(0.5), "none": Score(None), "turn": Score([1.0, None], Level.TURN)}
    scores |= {"decision": Score([0.25, -1.0, 4.0], Level.DECISION), "more": Score([0.0, 8.0], Level.TURN)}
    one = Trajectory(Scenario("s"), turns, scores=scores)
    found = [worth(one), worth(one, "a"), worth(one, "b"), worth(one, "c")]
    assert gap(found, [12.75, 0.75, 12.5, 0.5]) < EXACT


def test_lessons_of_an_advised_task_are_the_inner_ones() -> None:
    task: Any = tasks.find("advised:magpie")
    one_side: Any = tasks.find("advised:magpie?who=ann")
    inner: Any = tasks.find("magpie")
    wrong, heard = 0, 0
    for number in range(40):
        scenario = task.scenario("train", number)
        said = task.lessons.play(scenario, Key.of(number).numpy())
        plain = inner.lessons.play(scenario, Key.of(number).numpy())
        alone = one_side.lessons.play(scenario, Key.of(number).numpy())
        for advice, act, lesson in zip(said[::2], said[1::2], plain, strict=True):
            wrong += advice.prompt != ({"role": "system", "content": task.workflow.system}, *lesson.prompt)
            told = f"{lesson.prompt[0]['content']}\nStrategy: {lesson.said[0]['content']}"
            wrong += str(act.prompt[0]["content"]) != told or not advice.said == act.said == lesson.said
            heard += 1
        wrong += alone[::3] != plain or [*alone[1::3], *alone[2::3]] != [*said[::2], *said[1::2]]
    flow, bare = task.workflow, inner.lessons
    wrong += (task.lessons.steps, task.lessons.talks) != (2 * bare.steps, 2 * bare.talks)
    wrong += (flow.advised, one_side.workflow.advised, flow.every) != (("ann", "bob"), ("ann",), True)
    wrong += (task.name, task.size("eval"), task.kind) != ("advised:magpie", None, "text")
    assert wrong == 0
    assert heard > 80


def test_recorded_rewards_are_paid_to_named_advice() -> None:
    turns = [{"tokens": [0] * size, "agent": name} for name, size in (("x", 1), ("a", 2), ("y", 2), ("b", 1))]
    rows, shares = [], {(0, "a"): 3.5, (2, "b"): 7.5, (0, None): 10.5}
    for (at, whom), _ in shares.items():
        row = episode("talk", 0.5, turns)
        row["scores"] = {"whole": 0.5}
        row["turn_scores"] = [{"own": value} for value in (0.0, 3.0, 0.0, 7.0)]
        row["info"] = {"decisive": [at], "advises": [whom if place == at else None for place in range(4)]}
        rows.append(row)
    made, off = inspect_rows(EPO_EXPLICIT, rows), 0.0
    for advantages, ((at, _), due) in zip(made["advantages"], shares.items(), strict=True):
        off = max(off, gap(advantages, [due * (place == at) for place in rows[0]["turn"]]))
    assert off < EXACT
