"""Thoughts, and their shares of scripts and vocabularies."""

from __future__ import annotations

from rewards_cases import answered, graded

from hocket.methods.group_relative.qwen3_korean import (
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
    words = LanguageShare(words=("hana", "dul"))
    assert [words.share("<think>Hana, zwei DUL! one"), words.share("<think> </think>hana")] == [0.5, None]
    assert LanguageShare(part="all").share("<think>하나 a1</think>둘!") == 3 / 14
