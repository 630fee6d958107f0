"""Claims about recipes as shipped: what acts is told from what does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hocket.core.errors import ConfigurationError
from hocket.lab.claims.claim import Finding
from hocket.lab.claims.shipped_check import LEAST, Shipment, difference
from hocket.recipe import Recipe
from hocket.recipes import find

SMALL = {"curriculum.prompts": 8, "rollout.samples": 4, "decoding.max_tokens": 48}


def seen(recipe: Recipe | str, *slots: str, **how: Any) -> Finding:
    named = find(recipe) if isinstance(recipe, str) else recipe
    return Shipment(named, slots, settings=SMALL, **how)()


def test_a_part_that_changes_the_gradient_holds() -> None:
    found = seen("grpo", without={"credit.scale": None}, trains=("policy",))
    assert found.holds, found.saw


def test_runs_of_one_recipe_have_equal_gradients() -> None:
    found = seen("grpo", without={"name": "another-name"})
    assert not found.holds
    assert "relative change without 0," in found.saw


def test_a_clip_that_a_single_update_never_meets_does_not_hold() -> None:
    assert not seen("grpo", without={"objective.low": 0.1}).holds


def test_a_credit_without_what_it_reads_is_idle() -> None:
    found = seen("gigpo", "credit", task="sums")  # Answers of one turn.
    assert not found.holds
    assert "EpisodeAndTurn idle" in found.saw


def test_other_roles_than_those_named_do_not_hold() -> None:
    found = seen("grpo", without={"credit.scale": None}, trains=("planner",))
    assert not found.holds
    assert "learnt from policy" in found.saw


def test_a_figure_that_is_not_positive_does_not_hold() -> None:
    found = seen("grpo", without={"credit.scale": None}, sees=lambda run: {"turns": 0.0})
    assert not found.holds


def test_a_removal_that_removes_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="differs from grpo in none"):
        seen("gigpo", "objective", task="sums")
    with pytest.raises(ConfigurationError, match="say `without` what"):
        seen("grpo", "objective")


def test_a_first_phase_gives_the_weights_that_both_begin_with() -> None:
    first = {"recipe": "sft", "steps": 2, "update.lr": 0.0001, "curriculum.prompts": 8}
    warmed = Shipment(find("grpo"), without={"credit.scale": None}, task="worked-sums", settings=SMALL, first=first)
    plain = Shipment(find("grpo"), without={"credit.scale": None}, task="worked-sums", settings=SMALL)
    found, other = warmed(), plain()
    assert found.holds, found.saw
    assert found.saw != other.saw
    assert "from the weights of `hocket train --task worked-sums --recipe sft" in warmed.sentence


def test_a_change_of_less_than_one_in_a_hundred_needs_an_explanation() -> None:
    lowered = {"without": {"credit.epsilon": 1e-3}}
    explained = Shipment(find("grpo"), **lowered, small="a smaller denominator")
    unexplained = seen("grpo", **lowered)
    change = float(unexplained.saw.split("relative change without ")[1].split(",")[0])
    assert explained.least < change < LEAST
    assert not unexplained.holds
    assert explained.sentence.endswith("the gradient is another, by less than 1%: a smaller denominator.")


def test_a_claim_that_changes_settings_of_the_recipe_is_not_called_shipped() -> None:
    named = Shipment(find("grpo"), without={"credit.scale": None}, task="maze", settings={"judge": "nano"})
    assert named.sentence.startswith("As shipped, `hocket train --recipe grpo --task maze --judge nano`: ")
    smaller = Shipment(find("grpo"), without={"credit.scale": None}, settings={"curriculum.prompts": 8})
    assert smaller.sentence.startswith("Run as `hocket train --recipe grpo --curriculum.prompts 8`: ")


def test_more_updates_with_the_same_gradient_are_no_difference() -> None:
    one, other = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert difference([one, one], [one]) == 0
    assert difference([one, other], [one]) == pytest.approx(0.5**0.5)
    assert difference([one], [torch.ones(3)]) == 1
    assert difference([one], []) == 1
    assert difference([one, torch.ones(3)], [one, torch.zeros(3)]) == 1
