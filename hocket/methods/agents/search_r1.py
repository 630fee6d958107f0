"""Search-R1: GRPO over responses that search as they go (Jin et al., arXiv:2503.09516).

A response runs until it closes a search; what is found is put into it, and it runs on (`SearchWithin`). What was found
stands in the response as imposed decisions: context of weight 0, in no ratio, no denominator and no KL. The only reward
is whether the last answer equals the known one once both are normalised (`NormalisedMatch`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.columns import CALLS, TOOL_CALLS
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO_KL
from hocket.objectives.divergence import KLToReference
from hocket.rewards.opinions import Opinions
from hocket.rewards.verifiers import answer_text
from hocket.stages import Reward
from hocket.tools import find_all
from hocket.tools.protocol import Call, Tool
from hocket.types import Scenario, Trajectory
from hocket.workflows.team import Team
from hocket.workflows.tool_loop import Made
from hocket.workflows.tool_use import ToolsOf, tools_for
from hocket.workflows.workflow import Outcome, Workflow, asked

OPENED, CLOSED = "<search>", "</search>"
_QUERY = re.compile(r"<search>((?:(?!<search>).)*)</search>\Z", re.DOTALL)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True)
class SearchWithin(Workflow):
    """One response with searches in it: Search-R1, algorithm 1.

    It runs until `</search>`; the tool is asked for what stands between the tags, `<information>..</information>` with
    the answer is imposed behind it, and the response goes on from there, `turns` times at most. Every part is a turn
    that begins with all before it as imposed decisions, so what the policy wrote counts once and what was found never.
    `Outcome.info` has `tool_calls` and `calls`, as with tools that are called.

    Attributes:
        tools_of: as in `ToolUse`; the tool called `search` is asked, or the only one. turns: parts of a response.
        masked: whether what was found carries no loss; otherwise it is learnt from as if it had been said.
    """

    name = "search-r1"
    description = "searches within one response; what they find is imposed (Search-R1)"

    tools_of: ToolsOf | str | None = None
    turns: int = 4
    masked: bool = True

    roles = ("policy",)

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise ConfigurationError(f"workflow search-r1: turns must be at least 1, not {self.turns}")
        if isinstance(self.tools_of, str):
            object.__setattr__(self, "tools_of", find_all(self.tools_of))

    def equipped(self, tools: ToolsOf) -> SearchWithin:
        return self if self.tools_of is not None else replace(self, tools_of=tools)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        tool, asks, made = self._tool(scenario, team), asked(team.assignment), list[Made]()
        prefix, said = tuple(team.assignment.prefix), len(team.assignment.prefix)
        while True:
            decoding = team.assignment.decoding
            way = replace(decoding, max_tokens=decoding.max_tokens + len(prefix), stop=(*decoding.stop, CLOSED))
            reply = await team.policy.fresh()(asks, prefix=prefix, decoding=way)
            if not self.masked and reply.turn.forced is not None:
                reply.turn.forced[said : len(prefix)] = False
            query = _QUERY.search(reply.text)
            if query is None or len(made) + 1 == self.turns:
                break
            result = await tool({"query": query[1]})
            made.append(Made(Call(tool.name, {"query": query[1]}), result, len(made)))
            said = len(reply.tokens)
            prefix = (*reply.tokens.tolist(), *team.policy.encoded(f"<information>{result}</information>"))
        info = {TOOL_CALLS.name: len(made), CALLS.name: [one.plain for one in made]}
        return Outcome(answer=reply.text, info=info)

    def _tool(self, scenario: Scenario, team: Team) -> Tool:
        assert not isinstance(self.tools_of, str)  # names became tools at construction
        given = () if self.tools_of is None else tools_for(self.tools_of, scenario, team.key)
        found = [tool for tool in given if tool.name == "search" or len(given) == 1]
        if not found:
            raise ConfigurationError(
                "workflow search-r1 has nothing to search; choose a task that brings a search tool, such as lookup or "
                "multihop, or --workflow 'search-r1?tools_of=search:PATH'"
            )
        return found[0]


def normalised(text: str) -> str:
    """Lower case, without punctuation and articles, one space between words, as open questions are graded."""
    plain = "".join(one for one in text.lower() if one not in string.punctuation)
    return " ".join(_ARTICLE.sub(" ", plain).split())


@dataclass(frozen=True)
class NormalisedMatch(Reward):
    """1 if the last tagged answer equals a known one once both are `normalised`, else 0; None without a known one."""

    name: str = "correct"
    weight: float = 1.0

    outside = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.verify(one.answer, one.scenario) for one in trajectories)

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """The verdict on one response."""
        known, given = scenario.answer, tagged(text)
        if known is None:
            return None
        allowed = known if isinstance(known, (list, tuple)) else (known,)
        return float(given is not None and normalised(given) in {normalised(answer_text(one)) for one in allowed})


SEARCH_R1 = GRPO_KL.but(
    name="search-r1",
    title="Search-R1: searches within a response, what they find masked from the loss",
    source="Jin et al., Search-R1, arXiv:2503.09516",
    family="agents",
    catalogue_ids=("search-r1",),
    axes=("environment", "objective", "reward", "rollout"),
    formula="L = -1/N sum_i 1/sum_t I_it sum_t I_it (min(r_it A_i, clip(r_it) A_i) - beta k3_it),  I_it = 0 for what a "
    "search found, else 1;  R_i = [answer equals the known one]",
    conventions={
        **GRPO_KL.conventions,
        "KL": "k3 in the loss on the same decisions, coefficient 0.001",
        "retrieved tokens": "imposed decisions of weight 0: in no ratio, no denominator and no KL",
        "exact match": "lower case, without punctuation and articles",
        "neither a search nor an answer": "ends the response; the paper asks to think again",
        "algorithm": "GRPO; the paper has PPO besides",
        "start": "the paper starts from chat models, which search when told to; the shipped base needs a phase of "
        "sft on demonstrations first (task lookup?tags=true)",
    },
    task="lookup?tags=true",
    requires=(Requirement.TOOLS,),
    workflow="search-r1",
    rewards=(NormalisedMatch(),),
    regularisers=(KLToReference("k3", coefficient=0.001, aggregate="sequence-mean"),),
)
