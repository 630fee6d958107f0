"""The recipes as data: found, written down and read back, derived, and refused when they do not fit."""

import json

import pytest
import torch

import hocket.recipes
from hocket.core.batch import Level
from hocket.core.components import from_plain, to_plain
from hocket.core.errors import ConfigurationError
from hocket.credit.gae import GAE
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import BestAgainstWorst
from hocket.credit.reinforce import GreedyBaseline, ReturnToGo
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.ppo import PPO
from hocket.methods.base.reinforce import REINFORCE
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.preference import Pairwise
from hocket.objectives.surrogate import ClippedSurrogate
from hocket.objectives.value import ValueLoss
from hocket.recipe import Recipe
from hocket.recipes import all_recipes, find
from hocket.rollout.independent import Independent
from hocket.update.gradient import GradientStep

RECIPES = all_recipes()
EXPECTED = {
    "reinforce", "reinforce-baseline", "reinforce++", "reinforce++-baseline", "rloo", "remax", "ppo", "ppo-rlhf",
    "grpo", "grpo-kl", "grpo-tis", "dr-grpo", "dapo", "gspo", "gspo-token", "cispo", "sft", "dpo", "online-dpo",
}  # fmt: skip


def test_all_families_are_found():
    assert set(RECIPES) >= EXPECTED


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_says_what_it_is(name):
    recipe = RECIPES[name]
    assert recipe.name == name
    assert recipe.title
    assert recipe.source
    assert recipe.family
    assert recipe.formula
    assert "\n" not in recipe.formula
    assert recipe.parent is None or recipe.parent in RECIPES
    for topic in ("aggregation", "detached", "temperature", "truncated samples"):
        assert recipe.conventions[topic]
    if isinstance(recipe.credit, GroupRelative) and recipe.credit.scale is not None:
        assert {"degrees of freedom", "epsilon", "group of one", "constant group"} <= set(recipe.conventions)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_survives_being_written_down(name):
    recipe = RECIPES[name]
    plain = json.loads(json.dumps(to_plain(recipe)))
    assert from_plain(plain) == recipe
    assert find(name) is recipe


def test_constants_and_names_lead_to_the_same_recipes():
    assert hocket.recipes.GRPO is find("grpo")
    assert "DR_GRPO" in dir(hocket.recipes)
    with pytest.raises(AttributeError, match="GRPQ"):
        hocket.recipes.GRPQ


def test_no_two_constants_share_a_name():
    constants = {key: value for key in dir(hocket.recipes) if isinstance(value := getattr(hocket.recipes, key), Recipe)}
    assert len(constants) == len({recipe.name for recipe in constants.values()}) == len(RECIPES)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ConfigurationError, match="did you mean 'dr-grpo'"):
        find("drgrpo")


def test_a_recipe_may_live_in_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from hocket.recipes import GRPO\nMINE = GRPO.but(name='mine', **{'objective.high': 0.3})\nN = 3\n")
    mine = find(f"{file}:MINE")
    assert (mine.name, mine.parent, mine.objective.high) == ("mine", "grpo", 0.3)
    with pytest.raises(ConfigurationError, match="is of type int"):
        find(f"{file}:N")
    with pytest.raises(ConfigurationError, match="did you mean 'MINE'"):
        find(f"{file}:MINA")


@pytest.mark.parametrize(
    ("path", "nearest"),
    [("credit.scal", "scale"), ("objectiv.low", "objective"), ("objective.agregate", "aggregate"), ("update.l", "lr")],
)
def test_an_unknown_path_is_refused_with_the_nearest(path, nearest):
    with pytest.raises(ConfigurationError, match=f"did you mean '{nearest}'"):
        GRPO.but({path: 1})


def test_a_value_that_makes_no_sense_names_its_path():
    with pytest.raises(ConfigurationError, match=r"objective\.aggregate"):
        GRPO.but({"objective.aggregate": "tokens"})


def test_catalogue_rows_are_given_to_what_they_are_and_not_inherited():
    assert GRPO.catalogue_ids == find("grpo-kl").catalogue_ids == ("grpo",)
    assert find("dr-grpo").catalogue_ids == ("dr-grpo",)
    assert find("remax").catalogue_ids == ("remax",)
    assert find("dapo").catalogue_ids == ()


def test_needs_follow_from_the_stages():
    assert not GRPO.wants_reference
    assert not GRPO.wants_value
    assert all(find(name).wants_reference for name in ("grpo-kl", "reinforce++", "reinforce++-baseline", "dpo"))
    assert PPO.wants_value
    assert [find(name).couples for name in ("grpo", "gspo", "dpo")] == [Level.DECISION, Level.TRAJECTORY, Level.PAIR]


# ---------------------------------------------------------------- what does not fit


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: GRPO.but(objective=Pairwise()), "GroupRelative yields advantages.*BestAgainstWorst"),
        (lambda: GRPO.but(regularisers=(Pairwise(),)), "Pairwise compares pairs"),
        (
            lambda: GRPO.but(cast="separate"),
            r"cast = 'separate' is no cast; write {type: hocket.core.NAME}; did you mean 'Separate'\?",
        ),
        (lambda: GRPO.but(cast={"typ": "hocket.core.Shared"}), "cast = .* is no cast; write {type: "),
        (lambda: GRPO.but(objective="hocket.objectives.Pairwise"), "objective = .*; did you mean 'Pairwise'"),
        (lambda: GRPO.but(rollout=3), "rollout = 3 is no rollout; write {type: hocket.rollout.NAME}"),
        (lambda: GRPO.but(credit=BestAgainstWorst()), "yields pairs, but ClippedSurrogate"),
        (lambda: GRPO.but({"rollout.samples": 1}), "rollout.samples must be at least 2"),
        (lambda: find("rloo").but(rollout=Independent(samples=1)), "at least 2"),
        (lambda: find("online-dpo").but({"rollout.samples": 1}), "at least 2"),
        (lambda: GRPO.but(credit=GreedyBaseline()), "WithGreedyBaseline"),
        (lambda: GRPO.but(regularisers=(ValueLoss(),)), "value loss needs targets.*GAE"),
        (lambda: PPO.but(credit=ReturnToGo()), "value loss needs targets"),
        (lambda: PPO.but(regularisers=()), "reads values that nothing trains.*ValueLoss"),
        (lambda: PPO.but(objective=PolicyGradient()), "no importance ratio.*update.epochs"),
        (lambda: REINFORCE.but({"update.epochs": 2}), "no importance ratio"),
        (lambda: REINFORCE.but({"update.minibatches": 2}), "no importance ratio"),
    ],
)
def test_stages_that_do_not_fit_are_refused_with_the_mend(make, reason):
    with pytest.raises(ConfigurationError, match=f"^recipe .*{reason}"):
        make()


def test_changes_are_checked_together_and_not_one_by_one():
    recipe = find("rloo").but(credit=ReturnToGo(), rollout=Independent(samples=1))
    assert recipe.rollout == Independent(samples=1)
    critic = REINFORCE.but(credit=GAE(), regularisers=(ValueLoss(),), update=GradientStep(epochs=1))
    assert critic.wants_value
    assert GRPO.but({"update.epochs": 4, "update.minibatches": 2}).update.epochs == 4


def test_a_plain_form_with_a_misfit_is_refused():
    plain = to_plain(GRPO)
    plain["rollout"]["samples"] = 1
    with pytest.raises(ConfigurationError, match="at least 2"):
        from_plain(plain)


def test_recipes_do_not_touch_global_generators():
    before = torch.random.get_rng_state()
    all_recipes()
    assert torch.equal(before, torch.random.get_rng_state())
    assert isinstance(GRPO.objective, ClippedSurrogate)
