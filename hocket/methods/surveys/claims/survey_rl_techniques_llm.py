"""Claims about the survey of RL techniques for language models."""

from __future__ import annotations

import math

from hocket import tasks
from hocket.apps.report import map as maps
from hocket.apps.report.cards import card_of, cards
from hocket.core.surveys import Gap
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured, largest, run
from hocket.methods.surveys.survey_rl_techniques_llm import SURVEY_RL_TECHNIQUES_LLM as SURVEY
from hocket.recipes import find

claim = Claims("survey-rl-techniques-llm", "arXiv:2507.04136")

RUNS = {
    "PPO": ("ppo", "sums"),
    "Q-learning": ("dqn", "gym:CartPole-v1"),  # Its store waits for 500 rows.
    "actor-critic": ("a2c", "gym:CartPole-v1"),
    "RLHF": ("ppo-rlhf", "sums"),
    "RLAIF": ("mpo-meta-reward", None),
    "DPO": ("dpo", "graded-sums"),
    "GRPO": ("grpo", "sums"),
}
"""Of each method that the survey names, a recipe and a task of its kind; its own where None."""


@claim("Every method that it names has a recipe, and no cell of its axes is empty without a reason.")
def every_method_that_it_names_has_a_recipe() -> Finding:
    problems = maps.problems(SURVEY)
    sizes = {cell.name: len(maps.members(cell.holds)) for cell in SURVEY.named}
    return Finding(not problems and min(sizes.values()) > 0, say(problems=len(problems), **sizes))


@claim("Each of its three axes places every recipe: by reward, by feedback and by optimisation.")
def each_of_its_axes_places_every_recipe() -> Finding:
    axes = [axis for axis in SURVEY.axes if axis.name != "problem"]
    placed = {axis.name: [name for cell in axis.cells for name in maps.members(cell.holds)] for axis in axes}
    lacking = {name: sorted(cards().keys() - set(names)) for name, names in placed.items()}
    return Finding(
        len(axes) == 3 and not any(lacking.values()), say(recipes=len(cards())) + f", without place {lacking}"
    )


@claim("Cells are read off the composition: with a judge's word as reward RLOO moves from verifier to judge alone.")
def cells_are_read_off_the_composition() -> Finding:
    judged = find("rloo").but(name="rloo-judged", rewards=find("qwen3-korean").rewards)
    cells = [cell for axis in SURVEY.axes for cell in axis.cells if axis.name in ("reward", "optimisation")]
    entries = [maps.entry_of(card_of(recipe)) for recipe in (find("rloo"), judged)]
    plain, changed = (
        {cell.name for cell in cells if not isinstance(cell.holds, Gap) and cell.holds(entry)} for entry in entries
    )
    return Finding(plain - changed == {"verifier"} and changed - plain == {"judge"}, f"{plain} became {changed}")


@claim("Every method that it names takes a training step as shipped, and its gradient is not 0.", slow=True)
def every_method_that_it_names_takes_a_training_step() -> Finding:
    sizes: dict[str, float] = {}
    for method, (name, chosen) in RUNS.items():
        recipe = find(name)
        task_name = chosen or recipe.task or "sums"
        task = tasks.find(task_name)
        shipped = run(configured(recipe, task_name, task, {}), task, 40 if recipe.store is not None else 2)
        sizes[method] = largest(shipped.gradients)
    sound = all(math.isfinite(size) and size > 0 for size in sizes.values())
    return Finding(sound and set(RUNS) == {cell.name for cell in SURVEY.named}, say(gradients=sizes))
