"""Claims about the survey of optimising language-model agents."""

from __future__ import annotations

from hocket.apps.report import map as maps
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.methods.surveys.survey_llm_agent_optimization import SURVEY_LLM_AGENT_OPTIMIZATION as SURVEY

claim = Claims("survey-llm-agent-optimization", "arXiv:2503.12434")


@claim("Every leaf of its taxonomy has a recipe or a searcher, or says why not; so has every method that it names.")
def every_leaf_has_a_recipe_or_a_searcher() -> Finding:
    problems = maps.problems(SURVEY)
    sizes = {f"{axis.name}={cell.name}": len(maps.members(cell.holds)) for axis in SURVEY.axes for cell in axis.cells}
    return Finding(
        not problems and sum(size == 0 for size in sizes.values()) == 1, say(problems=len(problems), **sizes)
    )
