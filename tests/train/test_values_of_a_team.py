"""Every policy's values are its own learner's, and those of policies without a value function stay unknown."""

from __future__ import annotations

import math

import pytest
import torch

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Batch
from hocket.core.casting import Separate
from hocket.core.packing import pack
from hocket.lab.talk import TalkBench
from hocket.recipes import find
from hocket.types import Scenario

WORDS = ("red", "blue")


class Pair(Workflow):
    roles = ("first", "second")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = await team.first(str(scenario.prompt))
        answer = await team.second(f"then {said}")
        return Outcome(rewards={"right": float(answer.text == scenario.prompt)})


def bench(**settings: object) -> TalkBench:
    scenarios = [Scenario(word, word) for word in WORDS]
    found = TalkBench(Pair(), scenarios, WORDS, find("marft"), seed=2, **settings)  # type: ignore[arg-type]
    for number, learner in enumerate(found.learners.values()):
        values = learner.policy.module.values  # type: ignore[attr-defined]
        if values is not None:
            with torch.no_grad():
                values.fill_(1.0 + number)
    return found


def annotated(found: TalkBench) -> Batch:
    batch = pack(found.play(2))
    for learner in found.learners.values():
        batch = learner.annotate(batch)
    return batch


def test_the_chain_has_the_value_of_each() -> None:
    batch = annotated(bench())
    assert batch.value is not None
    assert batch.valued is not None
    assert bool(batch.valued.all())
    agent = batch.agent[batch.turn]
    assert batch.value.tolist() == [1.0 + code for code in agent.tolist()]


def test_a_policy_that_learns_no_values_is_environment_to_the_other() -> None:
    batch = annotated(bench(recipes={"second": find("grpo")}))
    assert batch.valued is not None
    assert batch.valued.tolist() == (batch.agent[batch.turn] == 0).tolist()
    credit = find("marft").but({"credit.whiten": False}).compute_credit(batch, {}, {})[0].occurrences
    rewards = batch.scores["right"].values
    own = batch.agent[batch.turn[credit.decision]] == 0
    assert credit.advantage[own].tolist() == (rewards[credit.trajectory[own]] - 1.0).tolist()


def test_values_of_a_frozen_policy_are_nobodys() -> None:
    found = bench(frozen=frozenset({"second"}))
    batch = annotated(found)
    assert batch.valued is not None
    assert batch.valued.tolist() == (batch.agent[batch.turn] == 0).tolist()
    row = found.step().metrics
    assert math.isfinite(row["first/loss"])


@pytest.mark.slow
def test_both_roles_learn_in_a_team_with_mixed_recipes() -> None:
    found = bench(recipes={"second": find("grpo").but(cast=Separate())}, lr=0.2)
    before = found.expected()
    assert found.run(40).expected() > before + 0.2
