"""Configuration: layers, types, unknown keys, files that reload to an equal value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hocket import tasks
from hocket.core.aliases import present_name
from hocket.core.batch import GroupBy
from hocket.core.components import differences, from_plain, load_named, to_plain, type_name
from hocket.core.errors import ConfigurationError
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.base.grpo import GRPO
from hocket.objectives.links import ApoZero
from hocket.recipes import all_recipes, find
from hocket.rollout.independent import Independent
from hocket.train.config import configure, loaded, read_pairs, settled
from hocket.train.settings import Config, Phase, RoleSettings, as_recipe
from hocket.types import Decoding


class SuggestingTask:
    name, kind = "suggesting", "text"

    def suggest(self, recipe: object) -> Mapping[str, Any]:
        return {"decoding.max_tokens": 77, "steps": 9, "credit.lam": 0.9, "rollout.samples": 6}


def made(*pairs: tuple[str, Any]) -> Config:
    return configure(list(pairs), SuggestingTask())  # type: ignore[arg-type]


def test_later_layers_win() -> None:
    assert made().decoding.max_tokens == 77
    assert made(("decoding.max_tokens", 5)).decoding.max_tokens == 5
    assert made(("decoding.max_tokens", 5), ("decoding.max_tokens", 6)).decoding.max_tokens == 6
    assert made(("recipe", "dr-grpo")).recipe.name == "dr-grpo"
    assert made(("objective.high", 0.4), ("recipe", "grpo")).recipe.objective.high == 0.4


def test_suggestions_reach_only_recipes_that_have_the_setting() -> None:
    assert made(("recipe", "ppo")).recipe.credit.lam == 0.9
    assert not hasattr(made().recipe.credit, "lam")


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("objective.hihg", 1)], ["objective.hihg", "'high'"]),
        ([("stepz", 1)], ["'stepz'", "'steps'"]),
        ([("steps", "many")], ["steps", "'many'", "whole number"]),
        ([("objective.low", "abc")], ["objective.low", "'abc'"]),
        ([("rollout.samples", 1)], ["GroupRelative", "rollout.samples"]),
        ([("recipe", "gpro")], ["gpro", "'grpo'"]),
        ([("recipe", "mine.py")], ["mine.py:NAME"]),
        ([("decoding.top_p", 0.9)], ["top_p"]),
        ([("decoding.temperature", 0)], ["temperature"]),
        ([("credit", {"type": "hocket.credit.Nope"})], ["Nope"]),
        ([("credit", {"type": "os.system"})], ["hocket.ROOM.CLASS"]),
        ([("credit", {"type": "hocket.credit.BestAgainstWorst"})], ["pairs", "objective"]),
        ([("recipe", "nofile.py:X")], ["nofile.py"]),
        ([("roles.worker", 3)], ["--roles.NAME.SETTING"]),
        ([("update.lr", -1.0)], ["lr", "positive"]),
        ([("update.schedule", "cosin")], ["update.schedule", "cosin"]),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(pairs: list[tuple[str, Any]], words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        made(*pairs)
    message = str(refusal.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize("name", sorted(all_recipes()))
def test_a_saved_configuration_reloads_to_an_equal_one(name: str, tmp_path: Path) -> None:
    config = made(("recipe", name), ("seed", 3), ("lora.rank", 4), ("roles.policy.frozen", True), ("reward", ("task",)))
    file = tmp_path / "config.yaml"
    file.write_text(config.to_yaml())
    again = configure(read_pairs(file), SuggestingTask())  # type: ignore[arg-type]
    assert again == config
    assert list(differences(again, config)) == []


def test_floats_written_the_yaml_way_are_numbers() -> None:
    assert made(("update.lr", "1e-5")).recipe.update.lr == 1e-5
    assert made(("objective.high", 1)).recipe.objective.high == 1


def test_nested_files_and_dotted_files_are_the_same(tmp_path: Path) -> None:
    nested, dotted = tmp_path / "nested.yaml", tmp_path / "dotted.yaml"
    nested.write_text("recipe: dapo\nobjective:\n  high: 0.5\ndecoding:\n  max_tokens: 4\n")
    dotted.write_text("recipe: dapo\nobjective.high: 0.5\ndecoding.max_tokens: 4\n")
    assert made(*read_pairs(nested)) == made(*read_pairs(dotted))


@pytest.mark.parametrize("text", ["- 1\n- 2\n", "a: [1\n", "just words"])
def test_files_that_are_no_settings_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"bad\.yaml"):
        read_pairs(file)


def test_a_users_recipe_loads_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from hocket.recipes import GRPO\nMINE = GRPO.but(name='mine', **{'objective.high': 0.9})\nother = 3\n"
    )
    assert as_recipe(f"{file}:MINE").objective.high == 0.9
    with pytest.raises(ConfigurationError, match="MINE"):
        as_recipe(f"{file}:MIME")


def test_a_users_class_travels_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "stages.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from hocket.curriculum import Shuffled\n"
        "@dataclass(frozen=True)\nclass Mine(Shuffled):\n    extra: float = 1.0\n"
    )
    built = from_plain({"type": f"{file}:Mine", "extra": 2.5})
    assert to_plain(built) == {"type": f"{file}:Mine", "prompts": 16, "extra": 2.5}
    assert from_plain(to_plain(built)) == built


def test_but_names_the_nearest_setting_and_keeps_the_parent() -> None:
    assert DR_GRPO.parent == GRPO.name
    with pytest.raises(ConfigurationError, match="aggregate"):
        GRPO.but(**{"objective.agregate": "token-mean"})


def test_group_by_and_decoding_come_back_from_plain_data() -> None:
    for value in (GroupBy("scenario", "agent"), Decoding(temperature=0.7, stop=("\n",))):
        assert from_plain(to_plain(value)) == value


def test_what_a_users_own_recipe_sets_stays_and_what_it_leaves_open_is_suggested() -> None:
    mine = GRPO.but(name="mine", **{"rollout.samples": 3})
    assert made(("recipe", mine)).recipe.rollout.samples == 3
    assert made(("recipe", GRPO.but(name="mine"))).recipe.rollout.samples == 6
    assert made(("recipe", mine), ("rollout.samples", 4)).recipe.rollout.samples == 4
    assert made(("recipe", "grpo")).recipe.rollout.samples == 6


def test_steps_left_open_are_the_tasks() -> None:
    assert settled(Config(), SuggestingTask()).steps == 9  # type: ignore[arg-type]
    assert settled(Config(steps=2), SuggestingTask()).steps == 2  # type: ignore[arg-type]


def test_a_stage_may_be_called_by_its_bare_name() -> None:
    recipe = find("dpo").but({"objective.link": "apo-zero"})
    assert recipe.objective.link == ApoZero()  # type: ignore[attr-defined]
    assert find("grpo").but({"rollout": "independent"}).rollout == Independent()
    with pytest.raises(ConfigurationError, match=r"'Hing' is not a link; write \{type: hocket.objectives.NAME\}"):
        find("dpo").but({"objective.link": "Hing"})
    with pytest.raises(ConfigurationError, match="not a link"):
        find("dpo").but({"objective.link": "clipped-surrogate"})


def test_a_saved_recipe_names_its_task_as_it_is_spelled_now() -> None:
    assert as_recipe({**to_plain(find("dpo")), "task": "graded_sums"}) == find("dpo")
    nested = as_recipe({**to_plain(find("mashost")), "task": "built:worked_sums"})
    assert nested == find("mashost")
    assert as_recipe({**to_plain(find("dpo")), "task": "my_data.jsonl"}).task == "my_data.jsonl"


def test_a_workflow_may_be_spelled_with_underscores() -> None:
    config = configure([("workflow", "tool_use"), ("tools", "calculator")], tasks.find("sums"))
    assert config.workflow == "tool_use?tools_of=calculator"


def test_classes_are_found_where_they_stand_now() -> None:
    """A saved configuration names rooms that have moved, and pieces that went home to the one paper that uses them."""
    assert present_name("hocket.workflows.Debate") == "hocket.agents.workflows.Debate"
    assert present_name("hocket.credit.GAE") == "hocket.credit.GAE"
    assert load_named("hocket.rewards.DatabaseMatch").__module__ == "hocket.methods.agents.mua_rl.reward"
    assert type_name(load_named("hocket.rewards.DatabaseMatch")) == "hocket.methods.agents.mua_rl.DatabaseMatch"
    assert load_named("hocket.methods.agents.mua_rl.DatabaseMatch") is load_named("hocket.rewards.DatabaseMatch")


# ---------------------------------------------------------------- the value itself


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stepz": 3}, "there is no setting 'stepz'; did you mean 'steps'?"),
        ({"stepz.n": 3}, "there is no setting 'stepz.n'; did you mean 'steps'?"),
        ({"update": {"lrr": 1}}, "update.lrr: GradientStep has no setting 'lrr'; did you mean 'lr'?"),
        ({"update.lrr": 1}, "update.lrr: GradientStep has no setting 'lrr'; did you mean 'lr'?"),
        (
            {"evaluation": {"evry": 1}},
            "evaluation.evry: EvaluationSettings has no setting 'evry'; did you mean 'every'?",
        ),
        ({"lora": {"rnk": 2}}, "lora.rnk: LoraSettings has no setting 'rnk'; did you mean 'rank'?"),
        ({"roles": {"solver": {"frozn": True}}}, "roles.solver.frozn is not a setting of RoleSettings; did you mean"),
        ({"plan": [{"recipe": "sft", "stps": 2}]}, "plan.0.stps is not a setting of Phase; did you mean 'steps'?"),
        ({"recipe": "grop"}, "recipe = 'grop' is unknown; did you mean 'grpo', "),
        ({"steps": "many"}, "steps = 'many': expected a whole number"),
        ({"evaluation": 3}, "evaluation = 3: write its settings, as evaluation={NAME: VALUE}"),
        ({"update": 3}, "update = 3 is no update"),
    ],
)
def test_a_configuration_refuses_what_it_does_not_know(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        Config(**settings)
    assert message in str(error.value)


@pytest.mark.parametrize("key", ["evaluation", "decoding", "memory", "limits"])
def test_a_group_of_settings_takes_no_single_value(key: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{key} = 3: it has settings of its own; write {key}\.NAME VALUE"):
        configure([("task", "sums"), (key, 3)], tasks.find("sums"))


def test_a_configuration_takes_dotted_and_nested_keys() -> None:
    nested = Config(
        recipe="ppo",
        update={"lr": 3e-4},
        evaluation={"n": 16},
        lora={"rank": 2},
        roles={"solver": {"frozen": True}},
        chat={"thinking": False},
        plan=[{"recipe": "sft", "steps": 2}],
        track="tensorboard",
    )
    keys = {"update.lr": 3e-4, "evaluation.n": 16, "lora.rank": 2, "roles.solver.frozen": True, "chat.thinking": False}
    dotted = Config(recipe=find("ppo"), plan=(Phase("sft", 2),), track=("tensorboard",), **keys)
    assert nested == dotted
    assert (nested.recipe.name, nested.recipe.update.lr, nested.evaluation.n) == ("ppo", 3e-4, 16)
    assert nested.roles == {"solver": RoleSettings(frozen=True)}
    assert replace(nested, steps=3).steps == 3
    assert Config().recipe == find("grpo")


def test_a_configuration_is_the_same_after_yaml() -> None:
    config = made(("recipe", "ppo"), ("update.lr", 3e-4), ("lora.rank", 2), ("roles.solver.frozen", True))
    assert loaded(yaml.safe_load(config.to_yaml()), SuggestingTask()) == config


def test_codes_and_their_adapter_are_named_in_any_order():
    pairs = [("weights", "nf4"), ("precision", "bf16"), ("lora.rank", 4)]
    found = [configure(order, tasks.find("sums")) for order in (pairs, pairs[::-1])]
    assert found[0] == found[1]
    assert found[0].weights == "nf4"
    with pytest.raises(ConfigurationError, match="cannot be trained in full"):
        configure(pairs[:2], tasks.find("sums"))
