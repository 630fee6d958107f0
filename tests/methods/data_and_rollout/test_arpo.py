"""Forks by entropy: settings that cannot be, and engines that tell none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome
from hocket.core.columns import ENTROPIES
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import below, gap
from hocket.lab.claims.lesson_data import begin
from hocket.lab.talk import TalkBench
from hocket.lab.toys.hops import ASKED, WAYS, Hops
from hocket.methods.data_and_rollout.arpo import ARPO, FORKED, EntropyForks, uncertainty
from hocket.train.aio import run_async
from hocket.train.loop import collect
from hocket.types import Assignment, Quantity, Scenario, Turn


@pytest.mark.parametrize(
    "setting", [{"begun": 17}, {"begun": 0}, {"beam": 0}, {"words": 0}, {"likeliest": 0}, {"vocabulary": 1}]
)
def test_a_budget_that_cannot_be_is_refused(setting):
    with pytest.raises(ValueError, match=r"\w"):
        EntropyForks(**setting)


def test_an_engine_that_records_no_alternatives_is_refused():
    turn = Turn("policy", "policy", np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros(1, np.float32))
    with pytest.raises(ConfigurationError, match="entrop"):
        uncertainty(turn, 20)


@dataclass(frozen=True)
class Numbered(Hops):
    """Asks each time for a number that the workflow draws itself."""

    name = "numbered"

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        drawn = int(team.key.numpy().integers(1 << 30))
        for number in range(4):
            await team.policy(f"{scenario.id}, hop {number} of {drawn}")
        return Outcome(rewards={"found": 0.0})


def test_where_the_workflow_draws_something_itself_forks_have_what_was_drawn():
    recipe, failed, forks, again = ARPO.but({"rollout.samples": 12, "rollout.begun": 3}), 0, 0, 0
    for seed in range(4):
        made = TalkBench(Numbered(), ASKED, WAYS, recipe, view=lambda messages: "", seed=seed)
        episodes = run_async(collect(made.parts, Key.of(seed)))[0].trajectories
        failed += sum(one.failure is not None for one in episodes)
        owner = {(one.scenario.id, id(turn)): one for one in reversed(episodes) for turn in one.turns}
        for one in episodes:
            depth = FORKED.get(one)
            above = owner[one.scenario.id, id(one.turns[depth - 1])] if depth else one
            forks, again = forks + (depth > 0), again + (FORKED.get(above) > 0 and above is not one)
    assert failed == 0 < again


def test_the_entropies_are_those_of_the_learner():
    parts = begin("grpo", "sums").parts
    way = replace(parts.decoding, entropies=3, temperature=0.7, max_tokens=12)
    asked = [Assignment(parts.task.scenario("train", number), 4, way) for number in range(6)]
    played = run_async(parts.player.play(asked, key=Key.of(0)))
    batch = pack(played)
    with torch.no_grad():
        known = parts.lead.policy.evaluate(batch, {Quantity.ENTROPY}).entropy
    assert known is not None
    worst, count = 0.0, 0
    for number, one in enumerate(played):
        told = ENTROPIES.get(one.turns[0])
        own = known[batch.occurrences.decision[batch.occurrences.trajectory == number]].tolist()
        assert len(told) == min(3, len(own))
        worst, count = max(worst, gap(told, own[: len(told)])), count + len(told)
    assert below(1e-05, count > 30, largest_gap=worst).holds
