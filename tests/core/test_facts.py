"""What stages need and promise, gathered by the recipe; stages in the wrong place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from hocket import credit, objectives, rollout
from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.reasoning_sql.method import ClauseMatch, JudgeFailures
from hocket.methods.base.grpo import GRPO
from hocket.rewards.functions import FunctionReward
from hocket.rewards.score import grade
from hocket.rewards.verifiers import ExactMatch
from hocket.stages import Credit, Stage, walk
from hocket.types import Quantity, Scenario, Trajectory


@dataclass(frozen=True)
class Forgetful(Credit):
    """States what it reads itself and says nothing of what it wraps."""

    of: Credit = credit.GAE()

    reads = frozenset({Column.ENTROPY})

    def __call__(self, batch: Batch) -> Occurrences:
        return self.of(batch)


def test_a_stage_says_what_its_parts_say() -> None:
    inner = credit.EachAgent(credit.EachScore(credit.GroupRelative()))
    assert [type(stage).__name__ for stage in walk(inner)] == ["EachAgent", "EachScore", "GroupRelative"]
    assert inner.least_samples == 2
    assert credit.EachAgent(credit.GAE()).gives_targets
    assert not credit.EachScore(credit.GAE()).gives_targets
    assert credit.AlternatingCredit((credit.GAE(), credit.GroupRelative())).reads == {Column.VALUE}
    assert not credit.AlternatingCredit((credit.GAE(), credit.GroupRelative())).gives_targets
    assert credit.EntropyScaled(credit.GreedyBaseline()).needs_baseline
    both = objectives.AlternatingObjective((objectives.PolicyGradient(), objectives.Pairwise()))
    assert both.couples is Level.PAIR
    assert both.on_policy_only
    assert JudgeFailures(FunctionReward(lambda completions: [0.0])).outside
    assert not JudgeFailures(ClauseMatch()).outside


def test_a_recipe_gathers_what_a_wrapper_does_not_pass_on() -> None:
    recipe = GRPO.but(credit=Forgetful(), regularisers=(objectives.ValueLoss(),))
    assert {Column.ENTROPY, Column.VALUE} <= recipe.reads
    assert Quantity.VALUE in recipe.needs
    with pytest.raises(ConfigurationError, match="reads values that nothing trains"):
        GRPO.but(credit=Forgetful())


def test_a_fact_may_be_a_field_without_default() -> None:
    @dataclass(frozen=True)
    class Counted(Stage):
        least_samples: int

    with pytest.raises(TypeError):
        Counted()  # type: ignore[call-arg]
    assert Counted(3).least_samples == 3


@pytest.mark.parametrize(
    "wrapped", [credit.EachAgent(credit.GreedyBaseline()), credit.EachScore(credit.GreedyBaseline())]
)
def test_a_wrapped_baseline_is_refused_where_the_rollout_gives_none(wrapped: Credit) -> None:
    with pytest.raises(ConfigurationError, match="GreedyBaseline reads a greedy baseline; set rollout to"):
        GRPO.but(credit=wrapped)
    assert GRPO.but(credit=wrapped, rollout=rollout.WithGreedyBaseline()).credit == wrapped


class Kept(dict[str, Any]):
    """A journal in memory."""

    put = dict.__setitem__


class Foreign:
    """A stage of nobody's making."""

    name = "foreign"
    weight = 1.0

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [0.5 for _ in trajectories]


LOSS: Any = objectives.ClippedSurrogate()
GROUP: Any = credit.GroupRelative()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"credit": LOSS}, "credit: ClippedSurrogate is an objective, not a credit; write {type: hocket.credit.NAME}"),
        ({"credit": None}, "credit: None is not a credit"),
        ({"credit": Foreign()}, "credit: Foreign is not a credit; derive its class from hocket.stages.Credit"),
        ({"credit": credit.EachAgent(LOSS)}, "credit.credit: ClippedSurrogate is an objective, not a credit"),
        ({"objective": objectives.Among(GROUP)}, "objective.of: GroupRelative is a credit, not an objective"),
        ({"shaping": (LOSS,)}, "shaping.0: ClippedSurrogate is an objective, not a shaping"),
        ({"shaping": LOSS}, "shaping takes a list"),
        ({"rewards": (ExactMatch(), GROUP)}, "rewards.1: GroupRelative is a credit, not a reward"),
        ({"hooks": (GROUP,)}, "hooks.0: GroupRelative is a credit, not a hook"),
        ({"cast": GROUP}, "cast: GroupRelative is no cast"),
        ({"credit.by": LOSS}, "credit.by: ClippedSurrogate is an objective, not a GroupBy"),
        ({"credit.weigh": [LOSS]}, "credit.weigh.0: ClippedSurrogate is an objective, not a weight"),
    ],
)
def test_a_component_in_the_wrong_place_is_refused_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        GRPO.but(changes)
    assert sentence in str(refusal.value)


def test_a_reward_that_derives_from_nothing_goes_on_working() -> None:
    reward: Any = Foreign()
    journal = Kept()
    assert GRPO.but(rewards=(reward,)).rewards == (reward,)
    one = Trajectory(Scenario("a", prompt="1"), [])
    asyncio.run(grade([one], [reward], Key.of(0), journal=journal))
    assert one.scores["foreign"].value == 0.5
    assert len(journal) == 1, "what comes from outside is journalled"
