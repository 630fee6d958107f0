"""Self-play on tables: the real player and training step, and the exact distance from equilibrium."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspiel")

from hocket.agents.environments.openspiel import OpenSpiel
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.lab.exploitability import nash_conv
from hocket.lab.talk import TalkBench
from hocket.recipes import find
from hocket.types import Scenario


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_self_play_on_kuhn_poker_comes_nearer_to_equilibrium(seed: int) -> None:
    """From 11/12, uniform play, to less than half of it."""
    play = PlayEnvironment(OpenSpiel("kuhn_poker"), memory=False, instruct=False, own_chance=True)
    bench = TalkBench(
        workflow=play,
        scenarios=[Scenario(f"deal {number}", seed=number) for number in range(12)],
        words=("pass", "bet"),
        recipe=find("mars-self-play"),
        seed=seed,
    )
    (policy,) = bench.policies.values()

    def distance() -> float:
        return nash_conv(play, lambda one: policy.probabilities(*one.messages).tolist())

    assert distance() == pytest.approx(11 / 12)
    bench.run(60)
    assert distance() < 11 / 24
