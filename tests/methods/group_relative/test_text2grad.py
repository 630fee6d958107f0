"""Spans found in texts, and critiques in many forms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_cases import Scripted
from rewards_cases import read

from hocket.core.signals import returns
from hocket.methods.group_relative.text2grad import SpanRewards, placed, span_rewards, spans_of

LAW = settings(max_examples=80, deadline=None, derandomize=True)


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


def test_a_judge_is_the_critic_where_nobody_else_was():
    said = {"good": 'Well: [["good", 1], ["bad", -1]].', "plain": "no complaints", "silent": None}
    judge = Scripted(lambda prompt: next(words for name, words in said.items() if f"Answer:\n{name}" in prompt))
    rows = [
        {"info": {"pieces": ["good ", "and ", "bad"], "prompt": "Q"}, "text": "good and bad", "logp": [-1.0] * 3},
        {"info": {"pieces": ["plain"]}, "text": "plain"},
        {"info": {"pieces": ["silent"]}, "text": "silent"},
        {"info": {"pieces": ["own"], "critique": [["own", 3]]}, "text": "own"},
    ]
    found = SpanRewards(judge=judge)(read(*rows))
    assert found.scores["reward/decision"].values.tolist() == [1.0, 0.0, -1.0, 0.0, 0.0, 3.0]
    assert len(judge.asked) == 3, "a critique that is there is not asked for"
    assert "Question:\nQ" in judge.asked[0].prompt
    assert all(question.choices == () for question in judge.asked)
