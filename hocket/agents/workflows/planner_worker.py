"""A planner that splits a problem, and workers that each see one step."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hocket.agents.tools.protocol import Tool
from hocket.agents.workflows.plans import PLANNER_SYSTEM, WORKER_SYSTEM, notes_text, plan_steps
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.tool_loop import converse
from hocket.agents.workflows.tool_use import ToolsOf, tools_for
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.columns import InfoColumn
from hocket.core.markup import ANSWER
from hocket.types import Scenario

STEPS = InfoColumn("steps", "How many steps the plan had.")


@dataclass(frozen=True)
class PlannerWorker(Workflow):
    """The planner writes numbered steps, a worker with its own context does each, and the planner answers.

    Workers run at the same time. A plan without steps counts as the answer, and ends the episode. If the task has
    tools, workers may call them and continue with the results, which are no decisions.

    Attributes:
        steps: the largest number of steps. planner, worker: system prompts; the shipped base was trained on these.
        tools_of: the workers' tools, as in `ToolUse`; None is those of the task, if any. turns: a worker's limit.
        asks: the question to a worker with tools, with `{step}` in it; the shipped base calls tools with this wording.
    """

    name = "planner-worker"
    description = "a planner splits the problem, workers do a step each"

    steps: int = 4
    planner: str = PLANNER_SYSTEM
    worker: str = WORKER_SYSTEM
    tools_of: ToolsOf | None = None
    turns: int = 4
    asks: str = "What is {step}?"

    roles = ("planner", "worker")
    opens = True

    @property
    def prompts(self) -> Mapping[str, str]:
        return {"planner": self.planner, "worker": self.worker}

    def equipped(self, tools: ToolsOf) -> PlannerWorker:
        return self if self.tools_of is not None else replace(self, tools_of=tools)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        plan = await team.planner(asked(team.assignment))
        steps = plan_steps(str(plan))[: self.steps]
        if not steps:
            return Outcome(answer=str(plan), info={STEPS.name: 0})
        tools = () if self.tools_of is None else tools_for(self.tools_of, scenario, team.key)
        done = await asyncio.gather(*(self._done(team, step, tools) for step in steps))
        answer = await team.planner(notes_text(steps, [_result(reply) for reply in done]))
        return Outcome(answer=str(answer), info={STEPS.name: len(steps)})

    async def _done(self, team: Team, step: str, tools: Sequence[Tool]) -> Reply:
        """A worker's reply to a step, in its own conversation."""
        if not tools:
            return await team.worker.fresh()(step)
        agent = team.worker.fresh(tools=[tool.schema for tool in tools])
        reply, _ = await converse(agent, self.asks.replace("{step}", step), tools, turns=self.turns)
        return reply


def _result(reply: Reply) -> str:
    """A worker's result: the text in its answer tags, else its whole output."""
    tagged = ANSWER.search(str(reply))
    return str(reply).strip() if tagged is None else tagged[1].strip()
