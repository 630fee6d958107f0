"""Teams with a traitor."""

from dataclasses import replace

import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.toys.beliefs import believing, fresh_play
from hocket.methods.marl.bardec_pomdp.method import BARDEC_POMDP, types_of
from hocket.methods.marl.bardec_pomdp.traitor import TRAITOR
from hocket.methods.marl.claims.bardec_pomdp import TASK


def test_a_traitor_has_a_policy_of_its_own():
    parts = believing(BARDEC_POMDP, TASK, curriculum__prompts=2)
    assert parts.player.seats == {**{f"player_{number}": "policy" for number in range(3)}, TRAITOR: TRAITOR}
    batch = fresh_play(parts)
    for joint in ([], [None, *batch.joint[1:]]):
        with pytest.raises(ConfigurationError):
            types_of(replace(batch, joint=joint), 3)


def test_worlds_of_another_kind_or_size_are_refused():
    with pytest.raises(ConfigurationError, match="nobody can be"):
        believing(BARDEC_POMDP, "dilemma:gathering")
    with pytest.raises(ConfigurationError, match="of 2 members"):
        believing(BARDEC_POMDP, TASK, regularisers__2__members=2)
