"""Thoughts, and their shares of scripts and vocabularies."""

from __future__ import annotations

from hocket.methods.group_relative.qwen3_korean import thoughts


def test_thoughts_are_what_stands_before_the_answer():
    assert thoughts("<think>a</think>b<think>c") == "a c"
    assert thoughts("a b <answer>c</answer>") == "a b "
