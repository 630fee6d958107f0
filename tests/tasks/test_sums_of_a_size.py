"""Sums of a chosen number of terms and digits."""

from __future__ import annotations

import re

import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError


def test_terms_and_digits_are_kept_to() -> None:
    task = tasks.find("sums?terms=2&digits=1")
    assert task.name == "sums?terms=2&digits=1"
    for split in ("train", "eval"):
        prompts = [str(task.scenario(split, number).prompt) for number in range(20)]  # type: ignore[arg-type]
        assert all(re.fullmatch(r"What is \d [+-] \d\?", prompt) for prompt in prompts)
    assert tasks.find("sums").scenario("train", 3).prompt == tasks.find("sums?terms=0").scenario("train", 3).prompt


@pytest.mark.parametrize(
    ("name", "sentence"), [("sums?terms=7", "sums have 2, 3, 4 terms"), ("sums?digits=-1", "1 to 3")]
)
def test_other_sizes_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        tasks.find(name)
