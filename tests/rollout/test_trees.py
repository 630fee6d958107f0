"""Rollouts that cut, continue and share what was sampled: serial groups, trees, forced answers, compressed thoughts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
import pytest
from rollout_cases import NoHistory, Stage, assignments

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.bench import Player
from hocket.lab.policy import Tabular
from hocket.lab.world import World
from hocket.methods.group_relative.gcpo_geometryzero import ContrastGroups
from hocket.methods.group_relative.lc_r1 import CompressedThoughts, FirstMention
from hocket.methods.group_relative.mrt import ForcedAnswers, block_ends, cumulative_regret
from hocket.methods.group_relative.pta_grpo import PlanTree
from hocket.methods.group_relative.s_grpo import SerialGroup
from hocket.methods.group_relative.ton import DroppedThoughts
from hocket.rollout.branches import ending_tokens, thinking_span, tokens_covering
from hocket.train.loop import Playing
from hocket.types import Assignment, Scenario, Score

WORDS = ("<think>", "s ", "</think>", "<answer>7</answer>", "<answer>3</answer>", "7 ")
SEED = Key.of(3)


@dataclass(frozen=True)
class Chains(World):
    """Responses over `WORDS`; an answer ends one."""

    def finished(self, tokens):
        return len(tokens) > 0 and (tokens[-1] in (3, 4) or len(tokens) >= self.horizon)


class Spelled:
    """Words one to one, for functions that need no player."""

    def encode(self, text):
        return WORLD.encode(text)

    def decode(self, tokens):
        return WORLD.decode(tokens)


WORLD = Chains(questions=2, tokens=6, horizon=5, reward=lambda question, answer: 0.0, context="position", words=WORDS)


def collect(rollout, *, world=WORLD, right=lambda answer: answer[-1] == 3, bias=None):
    """What a rollout brings back from the lab, the policies behind it, and what was scored."""
    policy = Tabular(world)
    if bias is not None:
        policy.logits.data[:, bias] += 1.0
    player = Player(world, {"policy": policy, "reference": policy})
    scored = []

    async def score(trajectories):
        scored.extend(trajectories)
        for trajectory in trajectories:
            answer = [int(token) for turn in trajectory.turns for token in turn.action]
            trajectory.scores["verdict"] = Score(float(right(answer)))

    asked = []
    for number in range(2):
        scenario = world.scenario("train", number)
        asked.append(Assignment(Scenario(scenario.id, scenario.prompt, "7", scenario.metadata)))
    run = rollout.collect(asked, play=Playing(player, SEED), score=score, ledger=NoHistory(), key=SEED)
    return asyncio.run(run), scored


def tokens_of(trajectory):
    return [int(token) for turn in trajectory.turns for token in turn.action]


# ---------------------------------------------------------------- places in the text


@pytest.mark.parametrize(
    ("tokens", "span"),
    [([0, 1, 1, 2, 3], (1, 3)), ([1, 1, 2, 3], (0, 2)), ([0, 1, 3], (1, 2)), ([0, 1, 1], (1, 3)), ([3], (0, 0))],
)
def test_thinking_span(tokens, span):
    assert thinking_span(Spelled(), np.array(tokens)) == span
    assert thinking_span(None, np.array(tokens)) == (0, len(tokens))


def test_the_closing_tag_is_added_where_a_thought_is_open():
    phrase, closed = "</think><answer>7</answer>", (2, 3)
    for tokens, cut, wanted in (
        ([0, 1, 2, 3], 2, closed),
        ([0, 1, 2, 3], 3, (3,)),
        ([1, 1, 2, 3], 1, closed),  # The thought was opened before the response.
        ([1, 1, 2, 3], 0, closed),
        ([3], 0, (3,)),
    ):
        assert ending_tokens(Spelled(), np.array(tokens), cut, phrase) == wanted
    assert ending_tokens(None, np.array([1]), 0, phrase) == ()


def test_tokens_covering():
    tokens = np.array([0, 1, 2])
    assert [tokens_covering(Spelled(), tokens, n) for n in (0, 1, 7, 8, 9, 10, 99)] == [0, 1, 1, 2, 2, 3, 3]


# ---------------------------------------------------------------- serial groups


def test_a_serial_group_is_cut_from_one_chain():
    experience, scored = collect(SerialGroup(samples=4, phrase="</think>"), bias=1)
    assert len(experience.trajectories) == len(scored) == 8
    for group in (experience.trajectories[:4], experience.trajectories[4:]):
        chain = group[-1].turns[0]
        assert [t.info["exit"] for t in group] == [0, 1, 2, 3]
        kept = []
        for exit in group[:-1]:
            turn = exit.turns[0]
            own = 0
            while own < min(len(turn), len(chain)) and turn.action[own] == chain.action[own] and not turn.forced[own]:
                own += 1
            assert np.allclose(turn.logp[:own], chain.logp[:own])
            kept.append(own)
        assert len({t.sample for t in group}) == 4
        weights = pack(group).occurrences.weight
        assert float(weights.min()) in (0.0, 1.0)
    again, _ = collect(SerialGroup(samples=4, phrase="</think>"), bias=1)
    assert [tokens_of(t) for t in again.trajectories] == [tokens_of(t) for t in experience.trajectories]


def test_the_kept_part_of_a_chain_is_its_own_and_the_phrase_is_not():
    experience, _ = collect(SerialGroup(samples=3, phrase="s "), bias=1)
    for exit in experience.trajectories[:2]:
        forced = exit.turns[0].forced
        assert forced.sum() == 1
        place = int(forced.argmax())
        assert tokens_of(exit)[place] == 1
        assert not forced[:place].any()


# ---------------------------------------------------------------- trees


def test_a_plan_is_one_turn_of_several_trajectories():
    rollout = PlanTree(plans=3, solutions=2, marker="", plan_tokens=2)
    experience, scored = collect(rollout, bias=1)
    batch = pack(experience.trajectories)
    shared = [t for t in experience.trajectories if len(t.turns) == 2]
    assert shared
    for one, other in zip(shared[::2], shared[1::2], strict=True):
        assert one.turns[0] is other.turns[0] is one.turns[1].parent
        assert len(one.turns[0]) == 2
        assert len(one.turns[1].observation) == len(one.turns[1])
        assert not one.turns[1].forced.any()
    occurrences = sum(len(tokens_of(t)) for t in experience.trajectories)
    assert len(batch.occurrences) == occurrences
    assert batch.decisions == occurrences - 2 * len(shared) // 2
    assert len(scored) == len(experience.trajectories)


def test_a_response_that_ends_within_its_plan_stands_alone():
    experience, _ = collect(PlanTree(plans=4, solutions=3, marker="", plan_tokens=1), bias=3)
    alone = [t for t in experience.trajectories if tokens_of(t) in ([3], [4])]
    assert alone
    assert all(len(t.turns) == 1 for t in alone)


def test_without_words_every_episode_is_a_plan():
    stage = Stage(lambda name, sample: 1.0)
    found = stage.collect(PlanTree(plans=2, solutions=3), assignments("a", "b"))
    assert len(found.trajectories) == 12
    assert all(len(t.turns) == 1 for t in found.trajectories)


# ---------------------------------------------------------------- forced answers


def test_forced_values_stand_for_prefixes():
    rollout = ForcedAnswers(samples=2, blocks=3, tries=2, phrase="<answer>7</answer>")
    experience, _ = collect(rollout, bias=1)
    assert len(experience.trajectories) == 4
    for trajectory in experience.trajectories:
        values, segments = trajectory.info["forced_values"], trajectory.turns[0].segment
        # Whoever is made to say 7 is right; the last value is what the trajectory earned itself.
        assert values[:-1] == [1.0] * (len(values) - 1)
        assert values[-1] == trajectory.scores["verdict"].value
        assert segments[0] == 0
        assert segments.max() == len(values) - 2
        assert (np.diff(segments) >= 0).all()
    assert all(t.source == "baseline" for t in experience.discarded)
    assert len({(t.scenario.id, t.sample) for t in experience.discarded}) == len(experience.discarded)


def test_blocks_and_regret():
    assert block_ends(0, 8, 4) == [2, 4, 6, 8]
    assert block_ends(3, 5, 4) == [4, 5]
    assert block_ends(2, 2, 4) == [2]
    assert cumulative_regret([0.0, 0.25, 1.0]) == 1.75


# ---------------------------------------------------------------- compressed thoughts


@dataclass(frozen=True)
class Told(Chains):
    """One response: a thought that says 7, goes on, and answers."""

    def finished(self, tokens):
        return len(tokens) >= self.horizon


def test_a_right_thought_is_cut_and_read_again():
    script = [0, 5, 1, 2, 3]  # <think> 7 s </think> 7
    policy = Tabular(Told(**{**vars(WORLD), "horizon": 5}))
    for question in range(2):
        for place, token in enumerate(script):
            policy.logits.data[policy.row(question, script[:place]), token] = 50.0
    player = Player(policy.world, {"policy": policy, "reference": policy})

    async def score(trajectories):
        for trajectory in trajectories:
            trajectory.scores["verdict"] = Score(1.0)

    asked = [Assignment(Scenario("a", "?", "7", {"question": 0})), Assignment(Scenario("b", "?", "9", {"question": 1}))]
    rollout = CompressedThoughts(samples=1)
    found = asyncio.run(rollout.collect(asked, play=Playing(player, SEED), score=score, ledger=NoHistory(), key=SEED))
    short, whole = found.trajectories
    assert tokens_of(short) == [0, 5, 2, 3]
    assert not short.turns[0].forced.any()
    assert short.info["thinking"] == {"tag": 2, "kept": 1, "original": 2, "reached": True}
    assert short.scores["verdict"].value == 1.0
    assert tokens_of(whole) == script
    assert whole.info["thinking"] == {"tag": 3, "kept": 2, "original": 2, "reached": False}
    assert [tokens_of(t) for t in found.discarded] == [script]
    assert found.discarded[0].source == "baseline"


def test_first_mention():
    extract = FirstMention()
    assert extract("it is 7.", 7) == 7
    assert extract("17 and 70 and 7.5 and a7", "7") is None
    assert extract("-7 or 7", ["9", "7"]) is not None
    assert extract("anything", "") is None
    assert extract("", None) is None


# ---------------------------------------------------------------- contrast, dropout


def test_contrast_means_are_written_to_everybody():
    stage = Stage(lambda name, sample: float(sample < 1 << 21))
    found = stage.collect(ContrastGroups(samples=2, probes=3), assignments("a", "b"))
    assert len(found.trajectories) == 16
    assert [t.source for t in found.trajectories[:8]] == ["own"] * 2 + ["baseline"] * 6
    assert all(t.info["accuracy_with"] == 1.0 and t.info["accuracy_without"] == 0.0 for t in found.trajectories)
    assert [one.hint is not None for one in stage.asked[0]] == [False, True, True] * 2
    learnt = stage.collect(ContrastGroups(samples=0, probes=3), assignments("a"))
    assert {t.source for t in learnt.trajectories} == {"own"}


def test_thoughts_are_dropped_by_draws_of_their_own():
    stage = Stage(lambda name, sample: 1.0)
    asked = assignments("a", "b", demonstration="<think>x</think><answer>1</answer>")
    stage.collect(DroppedThoughts(samples=30), asked)
    shown = [one.scenario.metadata["demonstration"] for one in stage.asked[0]]
    assert len(shown) == 60
    assert {len(set(shown[:30])), len(set(shown[30:]))} == {2}
    assert [one.first for one in stage.asked[0]] == [*range(30), *range(30)]
    stage.collect(DroppedThoughts(share=0.0), asked)
    assert "x" in stage.asked[1][0].scenario.metadata["demonstration"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SerialGroup(samples=1),
        lambda: PlanTree(plans=0),
        lambda: ForcedAnswers(tries=0),
        lambda: CompressedThoughts(samples=0),
        lambda: ContrastGroups(probes=0),
        lambda: DroppedThoughts(share=2.0),
    ],
)
def test_settings_are_checked(make):
    with pytest.raises(ValueError, match="must"):
        make()
