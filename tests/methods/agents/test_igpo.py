"""Beliefs, what the policy itself would say where each turn began, and the information that turns gain."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_cases import NoHistory

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.engine.local import LocalEngine
from hocket.engine.requests import ContextFull, Sample
from hocket.lab.claims.harness import gap
from hocket.methods.agents.claims.igpo import believing, turn_rewards
from hocket.methods.agents.igpo import BELIEFS, IGPO, GainRelative, InformationGain, WithBeliefs, gains
from hocket.nano import BASE
from hocket.nano.tokenizer import build_tokenizer
from hocket.policies.causal_lm import CausalLM
from hocket.rewards.combine import WeightedSum
from hocket.testing import ScriptedEngine
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Decoding, Experience, Quantity, Scenario, Score, Trajectory, Turn

ASKED = Scenario("sum", "What is 2 + 3?", "5")


class TwoTurns(Workflow):
    """Asks, tells something, and asks again."""

    roles = ("solver",)

    async def play(self, scenario, team):
        await team.solver(scenario.prompt)
        await team.solver("Are you sure?")
        return Outcome()


class Playing:
    """What the training loop hands to a rollout."""

    def __init__(self, player):
        self.player = self.tokenizer = player

    async def __call__(self, asked):
        return await self.player.play(asked, key=Key.of(3))


def collected(player, rollout, *scenarios, decoding=None):
    async def score(trajectories):
        return None

    asked = [Assignment(scenario, decoding=decoding or Decoding(max_tokens=8)) for scenario in scenarios]
    return asyncio.run(rollout.collect(asked, play=Playing(player), score=score, ledger=NoHistory(), key=Key.of(0)))


def scripted(replies=("hm",) * 20, **actor):
    chat = Chat(build_tokenizer())
    engine = ScriptedEngine(replies, chat)
    return TextPlayer(TwoTurns(), {"solver": Actor("solver", engine, chat, **actor)}), engine


def test_a_certain_script_believes_everything():
    player, engine = scripted()
    experience = collected(player, WithBeliefs(samples=2), ASKED)
    assert [one.info["beliefs"] for one in experience.trajectories] == [[1.0, 1.0], [1.0, 1.0]]
    assert experience.metrics["rollout/belief"] == 1.0
    asked = [request for request in engine.requests if request.prefix]
    # Both samples said the same, so there are two questions and not four.
    assert len(asked) == 2
    assert {len(request.prefix) for request in asked} == {asked[0].decoding.max_tokens}


def test_the_context_is_what_the_turn_had_been_told():
    player, engine = scripted()
    (one,) = collected(player, WithBeliefs(samples=1), ASKED).trajectories
    sampled = [request.tokens for request in engine.requests if not request.prefix]
    imposed = [request.tokens for request in engine.requests if request.prefix]
    assert imposed == sampled
    assert len(one.turns) == 2


def test_nobody_is_asked_without_an_answer_or_a_learner():
    player, engine = scripted()
    (one,) = collected(player, WithBeliefs(samples=1), replace(ASKED, answer=None)).trajectories
    assert one.info["beliefs"] is None
    assert not any(request.prefix for request in engine.requests)
    player, _ = scripted(learns=False)
    (one,) = collected(player, WithBeliefs(samples=1), ASKED).trajectories
    assert one.info["beliefs"] == [None, None]


def test_no_room_is_no_opinion_and_no_log_probs_is_an_error():
    class Full(ScriptedEngine):
        async def submit(self, request):
            if request.prefix and len(request.tokens) > 60:
                raise ContextFull("no room")
            return await super().submit(request)

    class Silent(ScriptedEngine):
        async def submit(self, request):
            sample = await super().submit(request)
            return Sample(sample.tokens, None, sample.finish, sample.version, sample.forced)

    chat = Chat(build_tokenizer())
    player = TextPlayer(TwoTurns(), {"solver": Actor("solver", Full(["hm " * 30] * 9, chat), chat)})
    (one,) = collected(player, WithBeliefs(samples=1), ASKED, decoding=Decoding(max_tokens=99)).trajectories
    assert one.info["beliefs"] == [1.0, None]
    player = TextPlayer(TwoTurns(), {"solver": Actor("solver", Silent(["hm"] * 9, chat), chat)})
    with pytest.raises(ConfigurationError, match="log-probs of imposed tokens"):
        collected(player, WithBeliefs(samples=1), ASKED)


@pytest.mark.parametrize("setting", [{"samples": 0}, {"measure": "odds"}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ValueError, match=r"samples|measure"):
        WithBeliefs(**setting)


def test_bounds_of_credit_are_checked():
    with pytest.raises(ValueError, match="floor must be at least 0"):
        GainRelative(floor=-1e-8)
    with pytest.raises(ValueError, match="gamma"):
        GainRelative(gamma=2.0)


@pytest.mark.skipif(not (BASE / "config.json").is_file(), reason="the base has not been pretrained here")
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_beliefs_of_a_language_model_are_those_of_its_learner(temperature):
    torch.set_num_threads(1)
    policy = CausalLM.from_pretrained(str(BASE), name="solver", key=Key.of(0))
    chat = Chat(policy.tokenizer)
    policy.end_of_turn = chat.stops
    player = TextPlayer(TwoTurns(), {"solver": Actor("solver", LocalEngine(policy), chat)})
    decoding = Decoding(temperature=temperature, max_tokens=8)
    experience = collected(player, WithBeliefs(samples=2), ASKED, decoding=decoding)
    phrase, gold = player.encode("<answer>"), player.encode("5")
    for one in experience.trajectories:
        assert len(one.info["beliefs"]) == 2
        for turn, belief in zip(one.turns, one.info["beliefs"], strict=True):
            action = np.array([*phrase, *gold])
            imposed = replace(turn, action=action, logp=None, version=None, forced=None)
            batch = pack([replace(one, turns=[*turn.context()[:-1], imposed])])
            place = torch.nonzero(batch.turn == batch.turn[-1]).flatten()[len(phrase) :]
            logp = policy.evaluate(batch, {Quantity.LOGP}, place).logp[place].detach()
            assert belief == pytest.approx(math.exp(float(logp.mean())), rel=1e-4)
            assert 0.0 < belief <= 1.0
    turns: list[Turn] = experience.trajectories[0].turns
    assert all(len(turn) <= 8 for turn in turns)


LAW = settings(max_examples=60, deadline=None, derandomize=True)


@LAW
@given(
    beliefs=st.lists(st.floats(0, 1), min_size=1, max_size=8),
    agents=st.lists(st.integers(0, 2), min_size=8, max_size=8),
)
def test_gains_of_each_agent_telescope(beliefs, agents):
    agents = agents[: len(beliefs)]
    found = gains(beliefs, agents)
    for agent in set(agents):
        own = [(held, gain) for held, gain, who in zip(beliefs, found, agents, strict=True) if who == agent]
        assert sum(gain for _, gain in own) == pytest.approx(own[-1][0] - own[0][0], abs=1e-12)
        assert own[-1][1] == 0.0


def test_unknown_beliefs_earn_nothing():
    assert gains([0.1, None, 0.5, 0.9], [0, 0, 0, 0]) == pytest.approx([0.0, 0.0, 0.4, 0.0])


def turn(agent="solo", parent=None):
    return Turn(agent, "solo", np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(2, np.float32), parent=parent)


def shaped(trajectories):
    batch = InformationGain(weight=2.0)(WeightedSum()(pack(trajectories), {}))
    return batch.scores[REWARD[Level.TURN]].values.tolist()


def test_gains_join_what_turns_earn_already():
    turns = [turn(), turn(), turn()]
    one = Trajectory(Scenario("s"), turns, scores={"step": Score([1.0, 0.0, 0.0], Level.TURN)})
    one.info["beliefs"] = [0.25, 0.5, 0.25]
    assert shaped([one]) == pytest.approx([1.5, -0.5, 0.0])


def test_a_trajectory_without_beliefs_earns_nothing_and_a_shared_turn_is_the_firsts():
    stem = turn()
    one = Trajectory(Scenario("s"), [stem, turn(parent=stem)], info={"beliefs": [0.0, 0.5]})
    two = Trajectory(Scenario("s"), [stem, turn(parent=stem)], info={"beliefs": [0.0, 0.25]})
    none = Trajectory(Scenario("s"), [turn(), turn()], info={"beliefs": None})
    assert shaped([one, two, none]) == pytest.approx([1.0, 0.0, 0.0, 0.0, 0.0])


def test_without_the_column_it_says_what_is_missing():
    with pytest.raises(ConfigurationError, match="beliefs"):
        shaped([Trajectory(Scenario("s"), [turn()])])


def test_who_is_asked_about_a_belief() -> None:
    class Plays:
        """Plays two turns, whose answer is believed with .25 and .5; a letter is a token."""

        def __init__(self, *, told: bool) -> None:
            self.tokenizer, self.player, self.answers = self, self if told else None, list[tuple[int, ...]]()

        def encode(self, text: str, after: Sequence[int] = ()) -> tuple[int, ...]:
            return tuple(map(ord, text))

        def decode(self, tokens: Sequence[int]) -> str:
            return "".join(map(chr, tokens))

        async def likelihood(self, asked: Sequence[tuple[Turn, Sequence[int]]]) -> list[Any]:
            self.answers = [tuple(tokens) for _, tokens in asked]
            chances = [(0.25, 0.5)[number % 2] for number in range(len(asked))]
            return [np.full(len(one), math.log(p), np.float32) for one, p in zip(self.answers, chances, strict=True)]

        async def __call__(self, given: Sequence[Assignment]) -> list[Trajectory]:
            turns = (Turn("p", "p", np.zeros(0, np.int64), np.ones(1, np.int64)) for _ in range(1000))
            made = [Trajectory(one.scenario, list(islice(turns, 2))) for one in given for _ in range(one.samples)]
            made[1].failure = "lost"
            return made

    async def score(trajectories: Sequence[Trajectory]) -> None:
        return None

    def collected(play: Plays) -> Experience:
        given = [Assignment(Scenario(f"{n}", answer=gold), 3) for n, gold in enumerate(("42", "", None, ["so", "no"]))]
        return run_async(IGPO.rollout.collect(given, play=play, score=score, ledger=Ledger(), key=Key.of(0)))

    play, deaf = Plays(told=True), Plays(told=False)
    told, untold = collected(play), collected(deaf)
    found = [BELIEFS.get(one) for one in told.trajectories]
    known = [[0.25, 0.5], None, *[[0.25, 0.5]] * 6, *[None] * 16, *[[0.25, 0.5]] * 8]
    holds = [one is None for one in found] == [one is None for one in known] and not untold.metrics
    off = gap([one for one in found if one], [one for one in known if one])
    off = max(off, abs(told.metrics["rollout/belief"] - 0.5))
    asked = {"".join(map(chr, one)) for one in play.answers}
    (gains,) = turn_rewards([believing("g", 0.0, [None, 0.25, 0.5, None])])
    holds &= asked == {"<answer>42", "<answer>so"} and {BELIEFS.get(one) for one in untold.trajectories} == {None}
    assert holds
    assert off < 1e-06
    assert gap(gains, [0.0, 0.25, 0.0, 0.0]) < 1e-12
