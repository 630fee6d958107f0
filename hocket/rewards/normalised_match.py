"""Exact match of answers as open questions are graded: case, punctuation, articles and spaces aside."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import answer_text
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

_ARTICLE = re.compile(r"\b(a|an|the)\b")


def normalised(text: str) -> str:
    """Lower case, without punctuation and articles, one space between words, as open questions are graded."""
    plain = "".join(one for one in text.lower() if one not in string.punctuation)
    return " ".join(_ARTICLE.sub(" ", plain).split())


@dataclass(frozen=True)
class NormalisedMatch(Reward):
    """1 if the last tagged answer equals a known one once both are `normalised`, else 0; None without a known one."""

    name: str = "correct"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.verify(one.answer, one.scenario) for one in trajectories)

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """The verdict on one response."""
        known, given = scenario.answer, tagged(text)
        if known is None:
            return None
        allowed = known if isinstance(known, (list, tuple)) else (known,)
        return float(given is not None and normalised(given) in {normalised(answer_text(one)) for one in allowed})
