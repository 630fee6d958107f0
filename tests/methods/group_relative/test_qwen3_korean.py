"""Thoughts, and their shares of scripts and vocabularies."""

from __future__ import annotations

from judged_cases import asking
from rewards_cases import answered, graded

from hocket.methods.group_relative.qwen3_korean import (
    QWEN3_KOREAN,
    LanguageShare,
    script_share,
    thoughts,
    vocabulary_share,
)


def test_thoughts_are_what_stands_before_the_answer():
    assert thoughts("<think>a</think>b<think>c") == "a c"
    assert thoughts("a b <answer>c</answer>") == "a b "


def test_shares_of_scripts_and_vocabularies():
    assert script_share("둘 two", "Hangul") == 0.25
    assert script_share("1 + 1", "HANGUL") is None
    assert vocabulary_share("Hana, two", frozenset({"hana"})) == 0.5
    found = graded(LanguageShare(), answered("<think>하나</think><answer>one</answer>"), answered("<answer>1</answer>"))
    assert found == [1.0, None]
    assert graded(LanguageShare(words=("hana",), part="all"), answered("hana dul")) == [0.5]


def test_the_judge_in_place_of_the_second_rule():
    right, lucky = answered("<answer>7</answer>", answer="7"), answered("<answer>7</answer> by luck 7", answer="7")
    judged = asking(QWEN3_KOREAN, lambda prompt: "no" if "luck" in prompt else "yes")
    assert graded(QWEN3_KOREAN.rewards[1], right, lucky) == [1.0, 1.0]
    assert graded(judged.rewards[1], right, lucky) == [1.0, 0.0]
    assert [reward.name for reward in judged.rewards] == ["correct", "judge", "language"]
    assert judged.combine.gates == ("correct", "judge")
