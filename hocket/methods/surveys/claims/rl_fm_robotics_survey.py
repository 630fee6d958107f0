"""Claims about foundation models and RL for robots."""

from __future__ import annotations

import math

from hocket import tasks
from hocket.apps.report import map as maps
from hocket.core.surveys import Gap
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured, largest, run
from hocket.methods.surveys.rl_fm_robotics_survey import RL_FM_ROBOTICS_SURVEY as SURVEY
from hocket.recipes import find

claim = Claims("rl-fm-robotics-survey", "arXiv:2410.16411 (abstract)")

RUNS = {
    "language": "capo-coop-plan",
    "vision-language": "mm-eureka",
    "diffusion": "dppo",
    "transformer-rl": "ppo-attention",
}
"""Of each class of models, a recipe."""


@claim(
    "Small counterparts of three of its four classes take a training step as shipped; a planner in language earns "
    "nothing before its lessons.",
    slow=True,
)
def each_class_takes_a_training_step() -> Finding:
    sizes: dict[str, float] = {}
    weights: dict[str, float] = {}
    for model, name in RUNS.items():
        recipe = find(name)
        task = tasks.find(recipe.task or "sums")
        settings = {"model": "nano-vlm"} if model == "vision-language" else {}
        step = run(configured(recipe, task.name, task, settings), task, 1)
        sizes[model] = largest(step.gradients)
        weights[model] = sum(weight.numel() for weight in step.parts.lead.policy.module.parameters())
    cells = {cell.name: cell for cell in SURVEY.axes[0].cells}
    placed = all(name in maps.members(cells[model].holds) for model, name in RUNS.items())
    sound = all(math.isfinite(size) and (size > 0) == (model != "language") for model, size in sizes.items())
    return Finding(sound and placed and set(RUNS) == set(cells), say(gradients=sizes, weights=weights))


@claim("Its classes of models and what joins them with RL have recipes, or the map says that there is none.")
def its_classes_have_recipes() -> Finding:
    problems = maps.problems(SURVEY)
    gaps = [cell.name for axis in SURVEY.axes for cell in axis.cells if isinstance(cell.holds, Gap)]
    return Finding(not problems and len(gaps) == 3, say(problems=len(problems)) + f", {gaps}")
