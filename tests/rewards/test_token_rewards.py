"""Rewards of spans, lists, calls, steps and thinking; likelihood ranks; segments found in texts."""

from __future__ import annotations

import asyncio

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Level
from hocket.core.keys import Key
from hocket.core.markup import has_thought
from hocket.core.signals import REWARD, returns
from hocket.lab.microscope import RecordedBatch
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.adacot import ThinkingPenalties, well_formed
from hocket.methods.group_relative.fc_entropy_grpo import CallMatch
from hocket.methods.group_relative.rank_grpo import ListGain
from hocket.methods.group_relative.spectral_po import StepScores
from hocket.methods.group_relative.text2grad import SpanRewards, placed, span_rewards, spans_of
from hocket.methods.group_relative.unlikeliness_reward import UnlikelinessReward, likelihood_ranks
from hocket.rewards.choices import SubsetMatch
from hocket.rewards.spans import SegmentsByText, numbered_by
from hocket.types import Scenario, Trajectory, Turn

LAW = settings(max_examples=80, deadline=None, derandomize=True)


def read(*rows):
    """A combined batch of trajectories with one decision each unless told."""
    filled = [{"group": "a", "logp": [-1.0], "scores": {"reward": 0.0}, **row} for row in rows]
    batch = RecordedBatch({"version": 1, "trajectories": filled}).batch
    return GRPO.combine(batch, {})


# ---------------------------------------------------------------- likelihood ranks


@LAW
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([-3.0, -1.0, -0.5])), min_size=1, max_size=10))
def test_ranks_by_hand(members):
    group = torch.tensor([g for g, _ in members])
    logp = torch.tensor([x for _, x in members], dtype=torch.float64)
    for (own, value), rank in zip(members, likelihood_ranks(logp, group, 3).tolist(), strict=True):
        others = [x for g, x in members if g == own]
        below, equal = sum(x < value for x in others), sum(x == value for x in others)
        assert rank == pytest.approx(below + (equal - 1) / 2)


def test_only_rewards_above_zero_are_ranked_down():
    batch = read(*({"scores": {"reward": r}, "logp": [p]} for r, p in ((1.0, -1.0), (-1.0, -2.0), (0.0, -3.0))))
    assert returns(UnlikelinessReward(0.3)(batch)).tolist() == pytest.approx([1 - 0.3 * 2 / 3, -1.0, 0.0])


# ---------------------------------------------------------------- spans


@LAW
@given(st.lists(st.sampled_from(["a", "b", "ab", "", "ba"]), max_size=8), st.lists(st.sampled_from(["a", "ab", "bb"])))
def test_spans_do_not_overlap_and_shares_add_up(pieces, words):
    text, spans = "".join(pieces), [(word, 1.0 + n) for n, word in enumerate(words)]
    found = [place for place in placed(text, spans) if place is not None]
    for start, end, score in found:
        assert text[start:end] == spans[int(score) - 1][0]
    taken = [n for start, end, _ in found for n in range(start, end)]
    assert len(taken) == len(set(taken))
    shared = span_rewards(pieces, spans, "shared")
    assert sum(shared) == pytest.approx(sum(score for _, _, score in found))
    whole = span_rewards(pieces, spans)
    assert [x != 0 for x in whole] == [x != 0 for x in shared]


def test_critiques_in_many_forms():
    assert spans_of('{"spans": [["a", 1], ["b", "x"], ["c", NaN]]}') == [("a", 1.0)]
    assert spans_of([("a", -0.5), "b", ["c", True]]) == [("a", -0.5)]
    assert spans_of("no JSON") == spans_of(None) == []


def test_a_judges_words_are_a_critique():
    rows = [{"info": {"pieces": ["a "], "feedback": {"critique": '[["a", 2]]'}}}, {"info": {"pieces": ["a"]}}]
    assert returns(SpanRewards()(read(*rows))).tolist() == [2.0, 0.0]
    assert returns(SpanRewards(weight=0.5)(read(*rows))).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("pieces", "separator", "numbers"),
    [
        (["a", "\n", "b", "\n", "<end>"], "\n", [0, 0, 1, 1, 2]),
        (["a\n\nb", "c"], "\n", [0, 2]),
        (["x", "</thi", "nk>y", "z"], "</think>", [0, 0, 0, 1]),
        ([], "\n", []),
    ],
)
def test_parts_are_numbered(pieces, separator, numbers):
    assert numbered_by(pieces, separator) == numbers


def test_segments_start_anew_in_each_turn_and_stay_without_texts():
    row = {"logp": [-1.0] * 4, "turn": [0, 0, 1, 1], "segment": [3, 3, 5, 5]}
    told = read({**row, "info": {"pieces": ["a\n", "b", "c\n", "d"]}})
    assert SegmentsByText()(told).segment.tolist() == [0, 1, 0, 1]
    assert SegmentsByText()(read(row)).segment.tolist() == [3, 3, 5, 5]
    silent = read({**row, "info": {"pieces": [""] * 4}})
    assert SegmentsByText()(silent).segment.tolist() == [3, 3, 5, 5]


# ---------------------------------------------------------------- lists, calls, options


def answered(text, answer):
    turn = Turn("a", "p", torch.zeros(1).numpy(), torch.zeros(1).long().numpy(), text=text)
    return Trajectory(Scenario("s", "q", answer), [turn])


def graded(reward, *trajectories):
    return asyncio.run(reward(list(trajectories), key=Key.of(0)))


def test_a_list_earns_its_discounted_gain_and_tells_its_hits():
    trajectory = answered("Rome\n\n paris \nRome\nOslo", ["rome", "Oslo"])
    (gain,) = graded(ListGain(), trajectory)
    assert trajectory.info["hits"] == [1.0, 0.0, 0.0, 1.0]
    assert gain == pytest.approx(1 + 1 / torch.log2(torch.tensor(5.0)).item())
    assert graded(ListGain(), answered("", ["x"]), answered("x", "x")) == [0.0, None]


def test_calls_need_not_be_ordered_where_told():
    swapped = answered("g()\nf(x=1)", "f(x=1)\ng()")
    assert graded(CallMatch(), swapped) == [0.0]
    assert graded(CallMatch(ordered=False), swapped, answered("f(x='1')\ng()", "f(x=1)\ng()")) == [1.0, 0.0]
    assert CallMatch().verify("f(" * 5000, "f()") == 0.0
    assert CallMatch().verify("f(x={'a': [1, 2.0]})", "f(x={'a':[1,2.0]})") == 1.0
    assert CallMatch().verify("f(x={'a': [1, 2]})", "f(x={'a':[1,2.0]})") == 0.0


def test_options_in_tags_or_plain():
    given = [answered(t, ["A", "C"]) for t in ("<answer>a, c</answer>", "A", "A,B", "")]
    assert graded(SubsetMatch(), *given, answered("A", None)) == [1.0, 0.5, 0.0, 0.0, None]


# ---------------------------------------------------------------- steps, thinking


def test_only_groups_without_a_right_answer_are_scored_by_steps():
    rows = [
        {"scores": {"reward": 0.0}, "text": "1 + 1 = 3"},
        {"scores": {"reward": 0.0}, "text": "1 + 1 = 2"},
        {"scores": {"reward": 0.0}, "text": "1 + 1 = 2", "group": "b"},
        {"scores": {"reward": 1.0}, "text": "1 + 1 = 2", "group": "b"},
    ]
    batch = read(*rows)
    found = returns(StepScores()(batch)).tolist()
    assert found[2:] == [0.0, 1.0]
    assert 0 < found[0] < 0.5 < found[1] < 1
    assert StepScores()(read(*rows[2:])).scores is not None
    assert returns(StepScores()(read(*rows[2:]))).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "thought", "formed"),
    [
        ("<think>a</think>b", True, True),
        ("<think></think>b", False, True),
        ("b", False, True),
        ("<think>a", False, False),
        ("a</think>", False, False),
        ("<think><think>a</think>", True, False),
        ("<think>a</think><think>b</think>", True, True),
    ],
)
def test_thinking_is_seen(text, thought, formed):
    assert (has_thought(text), well_formed(text)) == (thought, formed)


def test_without_labels_the_unthinking_tell_what_is_needed():
    think, straight = "<think>a</think>b", "b"
    texts = [(think, 1.0, "easy"), (straight, 1.0, "easy"), (think, 1.0, "hard"), (straight, 0.0, "hard")]
    texts += [(think, 1.0, "unknown"), (think, 0.0, "unknown")]
    rows = [{"text": t, "scores": {"reward": r}, "group": g} for t, r, g in texts]
    batch = read(*rows)
    charged = (returns(ThinkingPenalties(miss=0.3, over=0.2)(batch)) - returns(batch)).tolist()
    assert charged == pytest.approx([-0.2, 0, 0, -0.3, 0, 0])
    assert REWARD[Level.TRAJECTORY] in batch.scores
