"""Claims about the survey of optimising language-model agents."""

from __future__ import annotations

import math

from hocket import tasks
from hocket.apps.report import map as maps
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured, largest, run
from hocket.methods.surveys.survey_llm_agent_optimization import SURVEY_LLM_AGENT_OPTIMIZATION as SURVEY
from hocket.recipes import find

claim = Claims("survey-llm-agent-optimization", "arXiv:2503.12434")

MAZE = "maze?width=3&height=3&steps=10&reading=number"
LEAVES = {
    "reward-based": "gigpo",
    "actor-critic": "ppo",
    "preference-based": "dmpo",
}
"""By leaf a recipe that runs on one maze of several turns."""


@claim("Every leaf of its taxonomy has a recipe or a searcher, or says why not; so has every method that it names.")
def every_leaf_has_a_recipe_or_a_searcher() -> Finding:
    problems = maps.problems(SURVEY)
    sizes = {f"{axis.name}={cell.name}": len(maps.members(cell.holds)) for axis in SURVEY.axes for cell in axis.cells}
    return Finding(
        not problems and sum(size == 0 for size in sizes.values()) == 1, say(problems=len(problems), **sizes)
    )


@claim(
    "On one maze of several turns three of the leaves with weights take steps as shipped, with a gradient above 0.",
    slow=True,
)
def on_one_maze_three_leaves_take_steps() -> Finding:
    task, sizes = tasks.find(MAZE), dict[str, float]()
    for leaf, name in LEAVES.items():
        shipped = run(configured(find(name), MAZE, task, {"curriculum.prompts": 8}), task, 2)
        sizes[leaf] = largest(shipped.gradients)
    return Finding(all(math.isfinite(size) and size > 0 for size in sizes.values()), say(**sizes))
