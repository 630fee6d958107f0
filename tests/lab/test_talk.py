"""Workflows on tables: what is sampled is what is learnt from, casts seat and teach whom they should."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.casting import Alternating, Cast, Separate, Shared, Swapping
from hocket.lab.talk import TalkBench, last_message, total
from hocket.recipes import find
from hocket.types import Scenario

COLOURS = ("red", "blue", "green")
SHARED = Shared()
SCENARIOS = [Scenario(colour, colour, answer=colour) for colour in COLOURS]


class Duet(Workflow):
    """The planner sees the colour, the worker only what the planner says, and must say the colour."""

    roles = ("planner", "worker")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        plan = await team.planner(scenario.prompt)
        said = await team.worker("plan", plan)
        return Outcome(answer=str(said), rewards={"team": float(str(said) == scenario.answer)})


def bench(cast: Cast = SHARED, recipe: str = "grpo", **settings: object) -> TalkBench:
    return TalkBench(Duet(), SCENARIOS, COLOURS, find(recipe).but({"cast": cast}), lr=0.1, **settings)  # type: ignore[arg-type]


def weights(found: TalkBench) -> dict[str, torch.Tensor]:
    return {name: policy.module.logits.detach().clone() for name, policy in found.policies.items()}


def changed(before: dict[str, torch.Tensor], found: TalkBench) -> set[str]:
    return {name for name, now in weights(found).items() if not torch.equal(now, before[name])}


@pytest.mark.parametrize("cast", [Shared(), Separate()])
def test_a_team_learns_to_pass_a_message_on(cast: Cast) -> None:
    found = bench(cast)
    assert found.expected() == pytest.approx(1 / 3)
    assert found.run(80).expected() > 0.9


@pytest.mark.parametrize("length", [1, 3])
def test_sampler_and_learner_agree_at_any_length(length: int) -> None:
    found = bench(recipe="ppo", length=length, ends=True)
    for _ in range(3):
        row = found.step().metrics
        assert row["agreement/largest"] < 1e-6


def test_the_exact_mean_is_that_of_the_joint_distribution() -> None:
    def prior(messages: object, said: Sequence[str]) -> dict[str, float]:
        told = messages[-1]["content"]  # type: ignore[index]
        return {"red": 0.5, "blue": -0.3 if told == "blue" else 0.2}

    found = bench(Separate(), prior=prior)
    policies, want = found.policies, 0.0
    for goal, colour in enumerate(COLOURS):
        plan = policies["planner"].probabilities(colour)
        for said, chance in zip(COLOURS, plan.tolist(), strict=True):
            want += chance * float(policies["worker"].probabilities("plan", said)[goal]) / 3
    assert found.expected() == pytest.approx(want, abs=1e-12)
    leaves = list(found.outcomes(SCENARIOS[0]))
    assert len(leaves) == 9
    assert sum(chance for chance, _ in leaves) == pytest.approx(1.0)
    played = found.play(400, seed=1)
    mean, error = sum(map(total, played)) / len(played), math.sqrt(0.25 / len(played))
    assert abs(mean - want) < 5 * error


def test_swapping_exchanges_the_policies_and_not_the_names() -> None:
    found = bench(Swapping(every=2))
    seen = [{turn.role: turn.policy for turn in found.step().trajectories[0].turns} for _ in range(4)]
    straight, turned = {"planner": "planner", "worker": "worker"}, {"planner": "worker", "worker": "planner"}
    assert seen == [straight, straight, turned, turned]


def test_only_whose_turn_it_is_learns() -> None:
    found = bench(Alternating(every=1))
    for expected in ("planner", "worker", "planner"):
        before = weights(found)
        found.step()
        assert changed(before, found) == {expected}


def test_stages_first_alone_then_together() -> None:
    found = bench(Alternating(first=2, order=("worker", "planner"), together=True))
    before = weights(found)
    found.run(2)
    assert changed(before, found) == {"worker"}
    before = weights(found)
    found.step()
    assert changed(before, found) == {"planner", "worker"}


def test_a_frozen_policy_stays_as_it_is() -> None:
    found = bench(Separate(), frozen=frozenset({"worker"}))
    before = weights(found)
    found.run(3)
    assert changed(before, found) == {"planner"}


@pytest.mark.slow
def test_a_view_forgets() -> None:
    class Twice(Workflow):
        roles = ("policy",)

        async def play(self, scenario: Scenario, team: Team) -> Outcome:
            await team.policy(scenario.prompt)
            said = await team.policy("again")
            return Outcome(rewards={"right": float(str(said) == scenario.answer)})

    whole = TalkBench(Twice(), SCENARIOS, COLOURS, find("grpo"))
    blind = TalkBench(Twice(), SCENARIOS, COLOURS, find("grpo"), view=last_message)
    for found in (whole, blind):
        found.run(60)
    assert whole.expected() > 0.9
    # Without the past one answer serves all three colours.
    assert blind.expected() == pytest.approx(1 / 3, abs=1e-9)


def test_equal_seeds_give_equal_weights() -> None:
    one, two, other = (bench(seed=seed).run(3) for seed in (4, 4, 5))
    assert torch.equal(weights(one)["policy"], weights(two)["policy"])
    assert not torch.equal(weights(one)["policy"], weights(other)["policy"])
