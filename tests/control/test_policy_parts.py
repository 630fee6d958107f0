"""Parts of policies that stages ask for: gathered by recipes, installed by learners, refused in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from control_cases import Line
from fakes import TablePolicy

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.policy_parts import CentralCritic, PolicyPart
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.mappo import MAPPO
from hocket.methods.base.ppo import PPO
from hocket.objectives.alternating import AlternatingObjective
from hocket.objectives.entropy import EntropyBonus
from hocket.policies.control import ControlPolicy
from hocket.policies.control_parts import ControlPart, PartHost
from hocket.recipes import all_recipes
from hocket.train.learner import Learner


@dataclass(frozen=True)
class Halved(ControlPart):
    """Values are half as large."""

    needed: ClassVar[str] = "half values"
    advice: ClassVar[str] = "use ppo"

    def values(self, host: PartHost, batch: Batch, chosen: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return values / 2


@dataclass(frozen=True)
class Asking(EntropyBonus):
    """A stage that asks for a part."""

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (Halved(),)


HALVED = PPO.but(name="halved", regularisers=(*PPO.regularisers, Asking(), Asking(coefficient=2.0)))


def test_a_recipe_gathers_every_part_once_also_of_wrapped_stages() -> None:
    assert HALVED.policy_parts == (Halved(),)
    wrapped = PPO.but(objective=AlternatingObjective((PPO.objective, Asking())))
    assert wrapped.policy_parts == wrapped.objective.policy_parts == (Halved(),)
    assert GRPO.policy_parts == ()
    assert MAPPO.policy_parts == (CentralCritic(),)


def test_a_learner_installs_them_and_a_second_one_changes_nothing() -> None:
    policy = ControlPolicy(Line(), key=Key.of(1))
    Learner(policy, HALVED, total_steps=1)
    held = policy.attached
    assert held == (Halved(),)
    Learner(policy, HALVED, total_steps=1)
    assert policy.attached is held


@pytest.mark.parametrize(
    "name", sorted(name for name, recipe in all_recipes().items() if set(recipe.policy_parts) - {CentralCritic()})
)
def test_policies_of_other_kinds_are_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TablePolicy, "latents", False)
    recipe = all_recipes()[name]
    first = next(part for part in recipe.policy_parts if part != CentralCritic())
    with pytest.raises(ConfigurationError) as refused:
        Learner(TablePolicy(2, 2), recipe, total_steps=1)
    words = str(refused.value)
    assert words.startswith(f"recipe {name} needs {first.needed}")
    assert "TablePolicy is none" in words
    assert words.endswith(first.advice)
