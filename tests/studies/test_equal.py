"""Which methods are the baseline under another name, on made-up batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hocket.apps.studies.equal import Lens, gradient, made_up, ratio, relate
from hocket.apps.studies.planning import Planner, StudyRun
from hocket.apps.studies.study import Study, StudyMethod
from hocket.core.keys import Key

COUNT = 24


def lens(baseline: str = "grpo", **settings: Any) -> tuple[Lens, Planner]:
    planner = Planner(Study(baseline=baseline, settings=settings))
    documents = [made_up(Key.of(3).derive(number)) for number in range(COUNT)]
    return Lens(documents, planner.recipe(StudyMethod(baseline, baseline), "sums")), planner


def relation(found: tuple[Lens, Planner], recipe: str, **settings: Any) -> dict[str, Any]:
    run: StudyRun = found[1].run(StudyMethod("other", recipe, settings), "sums", 0)
    return relate(run, found[0])


def test_a_recipe_is_its_own_equal() -> None:
    assert relation(lens(), "grpo") == {"relation": "equal", "factor": 1.0, "batches": COUNT}


def test_half_the_horizon_is_twice_the_gradient() -> None:
    found = lens("dr-grpo", **{"objective.horizon": 64})
    told = relation(found, "dr-grpo", **{"objective.horizon": 32})
    assert told["relation"] == "proportional"
    assert told["factor"] == pytest.approx(2.0)


def test_without_scale_the_factor_changes_from_group_to_group() -> None:
    assert relation(lens(), "dr-grpo")["relation"] == "different"


def test_clipping_shows_only_where_a_batch_is_used_twice() -> None:
    clip = {"objective.low": 0.05, "objective.high": 0.05}
    assert relation(lens(), "grpo", **clip)["relation"] == "equal"
    assert relation(lens(**{"update.epochs": 2}), "grpo", **clip)["relation"] == "different"


@pytest.mark.parametrize(
    ("recipe", "settings", "why"),
    [
        ("grpo", {"update.lr": 1e-3}, "update"),
        ("grpo", {"rollout.samples": 4}, "curriculum"),
        ("dapo", {}, "rollout"),
        ("grpo-kl", {}, "gradient"),
    ],
)
def test_what_differs_is_told(recipe: str, settings: dict[str, Any], why: str) -> None:
    told = relation(lens(), recipe, **settings)
    assert told["relation"] == "different"
    assert why in told["because"]


def test_a_value_loss_counts_as_part_of_the_gradient() -> None:
    recipe = lens()[1].recipe(StudyMethod("ppo", "ppo"), "sums")
    document = made_up(Key.of(4))
    decisions = sum(len(row["logp"]) for row in document["trajectories"])
    found = gradient(recipe, document)
    assert found.shape == (3 * decisions,)
    assert np.abs(found[decisions : 2 * decisions]).max() > 0


def test_ratios() -> None:
    one = np.array([1.0, -2.0, 0.0])
    assert ratio(3 * one, one) == pytest.approx(3.0)
    assert ratio(one + np.array([0.0, 0.0, 1e-3]), one) == 0.0
    assert ratio(0 * one, one) == 0.0
    assert ratio(one, 0 * one) == 0.0
    assert ratio(0 * one, 0 * one) is None


def test_made_up_batches_are_the_same_again_and_differ_among_themselves() -> None:
    assert made_up(Key.of(1)) == made_up(Key.of(1))
    assert made_up(Key.of(1)) != made_up(Key.of(2))
