"""A crowd that votes, and how workflows of several are found by name."""

from __future__ import annotations

import pytest

from hocket.agents.workflows import library
from hocket.agents.workflows.crowd_vote import CrowdVote
from hocket.methods.teams.cpmobius.method import CoachPlayer
from hocket.methods.teams.mac_spgg.method import PublicGoods
from hocket.testing import rehearse
from hocket.types import Scenario

QUESTION = Scenario("q", "2 + 2?", answer="4")


def test_they_are_in_the_library() -> None:
    assert library.find("public-goods?agents=2&bonus=0") == PublicGoods(agents=2, bonus=0)
    assert library.find("crowd-vote?voters=5") == CrowdVote(5)
    assert library.find("coach-player?solutions=4&alike=true") == CoachPlayer(4, alike=True)


# ---------------------------------------------------------------- the crowd


@pytest.mark.parametrize(
    ("said", "answer"), [(("4", "5", "4"), "4"), (("5", "4", "3"), "5"), (("", "", "4"), "4"), (("", "", ""), "")]
)
def test_the_most_frequent_answer_counts(said: tuple[str, str, str], answer: str) -> None:
    replies = {f"voter_{n}": [text] for n, text in enumerate(said, start=1)}
    (played,) = rehearse(CrowdVote(), QUESTION, replies)
    assert played.answer == answer
    assert played.info["answers"] == {f"voter_{n}": text or None for n, text in enumerate(said, start=1)}
    assert {str(turn.prompt[-1]["content"]) for turn in played.turns} == {"2 + 2?"}
