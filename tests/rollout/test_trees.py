"""Places in the text of a thought, and settings of rollouts that cut, share and sample again."""

from __future__ import annotations

import numpy as np
import pytest
from rollout_cases import THOUGHTS

from hocket.methods.group_relative.aepo import Tempered
from hocket.methods.group_relative.cppo import Refilled
from hocket.methods.group_relative.edge_grpo import GuidedCorrection
from hocket.methods.group_relative.gcpo_geometryzero import ContrastGroups
from hocket.methods.group_relative.lc_r1 import CompressedThoughts
from hocket.methods.group_relative.mrt import ForcedAnswers
from hocket.methods.group_relative.pta_grpo import PlanTree
from hocket.methods.group_relative.s_grpo import SerialGroup
from hocket.methods.group_relative.ton import DroppedThoughts
from hocket.rollout.branches import ending_tokens, thinking_span, tokens_covering


class Spelled:
    """Words one to one, for functions that need no player."""

    def encode(self, text, after=()):
        return THOUGHTS.encode(text)

    def decode(self, tokens):
        return THOUGHTS.decode(tokens)


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
    # Neither opened nor closed in its tokens, but its text says that the prompt opened it.
    assert ending_tokens(Spelled(), np.array([1, 1]), 1, phrase) == (3,)
    assert ending_tokens(Spelled(), np.array([1, 1]), 1, phrase, "<think>and so on") == closed


def test_tokens_covering():
    tokens = np.array([0, 1, 2])
    assert [tokens_covering(Spelled(), tokens, n) for n in (0, 1, 7, 8, 9, 10, 99)] == [0, 1, 1, 2, 2, 3, 3]


# ---------------------------------------------------------------- settings


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


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Tempered(hot=0.9),
        lambda: Tempered(extra=0),
        lambda: GuidedCorrection(samples=1),
        lambda: GuidedCorrection(share=1.5),
        lambda: Refilled(rate=1.0),
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        wrong()
