"""Search over messages: who is kept, what it costs, and when it refuses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

import pytest
import torch

from hocket.agents.search.beam import beam_search, best_of
from hocket.agents.search.mcts import tree_search
from hocket.agents.workflows.pipeline import Pipeline
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.lab.talk import TalkBench, total
from hocket.methods.teams.masprm.values import HeadValue, verdict
from hocket.recipes import find
from hocket.stages import Play
from hocket.train.loop import Playing
from hocket.types import PAUSED, Assignment, Message, Quantity, Scenario, Trajectory

WORDS = ("red", "blue", "green")
SCENARIO = Scenario("one", "say red", answer="red")


def follows(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Agents repeat the last note, mostly."""
    last = str(messages[-1]["content"]).split()[-1]
    return {last: 2.5} if last in WORDS else {}


def setting(flow: Workflow | None = None) -> tuple[TalkBench, Play, Assignment]:
    bench = TalkBench(flow or Pipeline(), [SCENARIO], WORDS, find("grpo"), length=1, prior=follows)
    return bench, Playing(bench.player, Key.of(5)), Assignment(SCENARIO, decoding=bench.parts.decoding)


async def red(episodes: Sequence[Trajectory]) -> list[float]:
    """What the team knows without training: that the last note will be repeated."""
    return [float(one.turns[-1].text == "red") for one in episodes]


def test_a_beam_counts_its_messages_and_keeps_the_best() -> None:
    _, play, asking = setting()
    found = asyncio.run(beam_search(play, asking, red, width=2, candidates=3))
    assert found.messages == 3 + 6 + 6
    assert [turn.text for turn in found.episode.turns] == ["red"] * 3
    assert total(found.episode) == 1


def test_a_beam_is_better_than_one_pass() -> None:
    _, play, asking = setting()
    passes = asyncio.run(best_of(play, asking, verdict, samples=1))
    assert passes.messages == 3
    many = asyncio.run(play([Assignment(SCENARIO, samples=200, decoding=asking.decoding)]))
    straight = sum(map(total, many)) / 200
    guided = []
    for number in range(10):
        again = Assignment(SCENARIO, first=1000 * number, decoding=asking.decoding)
        guided.append(total(asyncio.run(beam_search(play, again, red, width=1, candidates=4)).episode))
    assert sum(guided) / 10 > straight + 0.2


def test_an_outcome_model_picks_among_those_kept() -> None:
    _, play, asking = setting()

    async def blue(episodes: Sequence[Trajectory]) -> list[float]:
        return [float(one.turns[-1].text == "blue") for one in episodes]

    async def nothing(episodes: Sequence[Trajectory]) -> list[float]:
        return [0.0] * len(episodes)

    found = asyncio.run(beam_search(play, asking, nothing, width=30, candidates=3, judge=blue))
    assert found.episode.turns[-1].text == "blue"


def test_the_best_of_several_is_the_earliest_of_equals() -> None:
    _, play, asking = setting()
    found = asyncio.run(best_of(play, asking, verdict, samples=8))
    first = next(one for one in asyncio.run(play([Assignment(SCENARIO, 8, asking.decoding)])) if total(one) == 1)
    assert found.episode.sample == first.sample
    assert found.messages == 24


@pytest.mark.parametrize("guided", [False, True])
def test_tree_search_finds_an_answer(guided: bool) -> None:
    _, play, asking = setting()
    found, root = asyncio.run(
        tree_search(play, asking, verdict, searches=8, key=Key.of(0), value=red if guided else None)
    )
    assert total(found.episode) == 1
    assert found.messages % 4 == 0
    assert root.visits == sum(child.visits for child in root.children)


def test_the_head_is_read_at_the_last_decision() -> None:
    bench, play, asking = setting()
    policy = bench.policies["policy"]
    policy.require(frozenset({Quantity.VALUE}))
    episodes = asyncio.run(play([Assignment(SCENARIO, 6, asking.decoding)]))
    assert policy.module.values is not None
    with torch.no_grad():
        policy.module.values.copy_(torch.linspace(-2, 2, len(policy.module.values), dtype=torch.float64))
    said = asyncio.run(HeadValue(policy)(episodes))
    for one, value in zip(episodes, said, strict=True):
        row = policy.rows.row(int(one.turns[-1].observation[-1]), ())
        assert value == pytest.approx(math.tanh(float(policy.module.values[row].detach())))
    assert asyncio.run(HeadValue(policy)([])) == []


def test_workflows_that_fail_or_say_nothing_are_refused() -> None:
    class Broken(Workflow):
        roles = ("a",)

        async def play(self, scenario: Scenario, team: Team) -> Outcome:
            await team.a("go")
            raise RuntimeError("lost")

    async def silent(asked: Sequence[Assignment]) -> list[Trajectory]:
        return [Trajectory(SCENARIO, [], info={"limit": PAUSED}) for one in asked for _ in range(one.samples)]

    _, play, asking = setting(Broken())
    with pytest.raises(HocketError, match="lost"):
        asyncio.run(beam_search(play, asking, red, width=1, candidates=2))
    with pytest.raises(HocketError, match="message by message"):
        asyncio.run(beam_search(silent, asking, red, width=1, candidates=2))
    with pytest.raises(HocketError, match="message by message"):
        asyncio.run(tree_search(silent, asking, verdict, searches=1, key=Key.of(0)))
    with pytest.raises(ValueError, match="width"):
        asyncio.run(beam_search(play, asking, red, width=0, candidates=2))
