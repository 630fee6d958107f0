"""VideoChat-M1: agents that plan their calls, read each other between steps, plan anew, and vote (text part).

Each agent writes a plan of calls of its own (`P_i = G_i(Q, T)`), all carry out a step at a time, what is found goes to
a memory that all read, and between steps each may rewrite the rest of its plan (`P_i' = G_i(Q, T, M, P_i)`); in the end
each answers, and the answer of most is the team's (`PlanTogether`). All are trained at once by GRPO, each compared with
itself over a question's samples, on the sum of three rewards: the verdict, whether the agent's plans could be carried
out, and how its calls served the team.

The paper's agents are four models before a video, and GPT-4o judges whether they worked together well; here they see a
film in words through search and crop (`hocket.methods.teams.videochat_m1.task`), and a rule counts an agent's calls
that are about the question and find what nobody had found. Its text was not at hand, only its abstract and summaries of
it, from which come the two formulas, the sum of the rewards and the drawn acyclic graph of who reads whom
(`PeersLeftOut`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.casting import Separate
from hocket.core.columns import CALLS, TOOL_CALLS, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.credit.each_agent import EachAgent
from hocket.credit.group import GroupRelative
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.videochat_m1.task import (
    Seen,
    answer_question,
    carried_out,
    plan_question,
    readable,
    rest_question,
    steps_of,
)
from hocket.rollout.independent import Independent
from hocket.stages import Grade, LedgerView, More, Play
from hocket.types import Assignment, Experience, Scenario
from hocket.zoo.tasks.clips import given

REWRITTEN = InfoColumn("rewritten", "How often an agent changed the rest of its plan between steps.")
SERVED = InfoColumn("served", "The share of all calls that the team may make that found something for it.")


@dataclass(frozen=True)
class InOrder:
    """What a rollout asks of the workflow: agents read only those before them in an order drawn by this key."""

    key: Key


# ---------------------------------------------------------------- one episode


@dataclass(frozen=True)
class PlanTogether(Workflow):
    """Agents plan calls, carry out a step at a time, read what was found, may plan the rest anew, answer and vote.

    A scenario's metadata say the `clip`, frames that nobody is shown, and the `cue` that is asked about. Every question
    is a conversation of its own that holds all that its agent is to know; what calls and peers say is never learnt
    from. A rest that cannot be read leaves the plan as it is, and calls beyond the budget are not made.

    An agent earns the verdicts on the team's answer and on its own, weighed as `own` says; `form` if all its plans were
    calls that could be carried out and no more than it may make; and `process` times the share of its calls that served
    the team: those about the question that found what no call had found before, of equal ones in a step the earliest
    agent's.

    Attributes:
        agents: how many; `agent_1`, `agent_2`, .. calls: of each, its budget.
        talk: whether agents read what others found; otherwise they work alone, and only vote together.
        own: the share of an agent's own answer in its verdict; with 0 only the team's counts, and whoever loses every
            vote learns nothing of answers. form, process: weights beside the verdict.
    """

    name = "plan-together"
    description = (
        "several plan tool calls, read each other between steps, plan anew and vote (VideoChat-M1); task films"
    )

    agents: int = 3
    calls: int = 2
    talk: bool = True
    own: float = 0.5
    form: float = 0.2
    process: float = 1.0

    scores = True

    def __post_init__(self) -> None:
        if self.agents < 1 or self.calls < 1 or self.form < 0 or self.process < 0 or not 0 <= self.own <= 1:
            raise ConfigurationError(
                "plan-together: agents and calls are at least 1, form and process at least 0, own in [0, 1], not "
                f"{self.agents}, {self.calls}, {self.form}, {self.process} and {self.own}"
            )
        object.__setattr__(self, "roles", tuple(f"agent_{number + 1}" for number in range(self.agents)))

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        crew = _Crew(self, scenario, team)
        await crew.plan()
        for step in range(self.calls):
            crew.carry_out()
            if step + 1 < self.calls:
                await crew.plan_anew(self.calls - step - 1)
        answers = await crew.answer()
        votes = [given(str(one)) for one in answers]
        chosen = votes.index(Counter(votes).most_common(1)[0][0])
        verdict, earned = team.verify(answers[chosen]), dict[Reply, float]()
        for agent, answer in enumerate(answers):
            worked = self.form * crew.legal[agent] + self.process * crew.served[agent] / self.calls
            earned[answer] = self.own * team.verify(answer) + worked
        info = {
            TOOL_CALLS.name: len(crew.made),
            CALLS.name: [{"agent": agent, "step": one.step, "result": one.text} for agent, one in crew.made],
            REWRITTEN.name: crew.rewritten,
            SERVED.name: sum(crew.served) / (self.agents * self.calls),
        }
        return Outcome(str(answers[chosen]), {"team": (1 - self.own) * verdict}, {"own": earned}, info)


class _Crew:
    """The agents of an episode: their plans, and what was found."""

    def __init__(self, flow: PlanTogether, scenario: Scenario, team: Team) -> None:
        clip = scenario.metadata.get("clip")
        if not clip or any("seen" not in frame for frame in clip) or "cue" not in scenario.metadata:
            raise ConfigurationError(
                f"plan-together looks at a film, and scenario {scenario.id} has none; take --task films, or rows with "
                'columns clip, a list of frames such as {"seen": "cat runs", "sounds": "bell"}, and cue, such as bell'
            )
        self.flow, self.team, self.clip = flow, team, clip
        self.question, self.cue = str(scenario.prompt), str(scenario.metadata["cue"])
        drawn = team.assignment.option(InOrder)
        self.reads = read_by(flow.agents, flow.talk, None if drawn is None else drawn.key)
        self.plans: list[list[str]] = [[] for _ in range(flow.agents)]
        self.made: list[tuple[int, Seen]] = []
        self.legal = [True] * flow.agents
        self.served = [0] * flow.agents
        self.rewritten = 0

    def memory(self, agent: int) -> list[Seen]:
        """What an agent reads."""
        return [one for by, one in self.made if by in self.reads[agent]]

    async def plan(self) -> None:
        """Everybody's first plan."""
        flow = self.flow
        said = await self._asked(
            [plan_question(agent + 1, flow.agents, flow.calls, self.question) for agent in range(flow.agents)]
        )
        for agent, reply in enumerate(said):
            self._take(agent, str(reply), flow.calls)

    def carry_out(self) -> None:
        """The next call of everybody."""
        known = {one.line for _, one in self.made}
        for agent, plan in enumerate(self.plans):
            if not plan:
                continue
            found = carried_out(plan.pop(0), self.clip, self.cue)
            self.legal[agent] &= found.legal
            self.served[agent] += found.bears and found.line not in known
            known.add(found.line)
            self.made.append((agent, found))

    async def plan_anew(self, left: int) -> None:
        """Everybody reads, and may change the rest of its plan, of `left` calls at most."""
        flow = self.flow
        said = await self._asked(
            [
                rest_question(agent + 1, flow.agents, self.question, self.memory(agent), self.plans[agent])
                for agent in range(flow.agents)
            ]
        )
        for agent, reply in enumerate(said):
            before = list(self.plans[agent])
            self._take(agent, str(reply), left)
            self.rewritten += before != self.plans[agent]

    async def answer(self) -> Sequence[Reply]:
        """What everybody says in the end."""
        return await self._asked(
            [answer_question(self.question, self.memory(agent)) for agent in range(self.flow.agents)]
        )

    async def _asked(self, questions: Sequence[str]) -> list[Reply]:
        """What all say at the same time, each in a conversation of its own."""
        asking = (self.team[f"agent_{n}"].fresh()(question) for n, question in enumerate(questions, start=1))
        return list(await asyncio.gather(*asking))

    def _take(self, agent: int, said: str, most: int) -> None:
        """A plan that was said in place of what an agent has; one that cannot be read changes nothing."""
        steps = steps_of(said)
        self.legal[agent] &= readable(said) and len(steps) <= most
        if steps:
            self.plans[agent] = steps[:most]


def read_by(agents: int, talk: bool, order: Key | None) -> list[frozenset[int]]:
    """Whose findings each agent reads, its own among them: all, with an order those before it, or nobody else's."""
    if not talk:
        return [frozenset({agent}) for agent in range(agents)]
    if order is None:
        return [frozenset(range(agents))] * agents
    drawn = order.numpy().permutation(agents).tolist()
    return [frozenset(drawn[: drawn.index(agent) + 1]) for agent in range(agents)]


@dataclass(frozen=True)
class PeersLeftOut(Independent):
    """Independent samples, of which some scenarios' agents read only those before them in a drawn order.

    So nobody comes to rely on one peer: the agent dropout of the paper, which draws an acyclic graph at every step. All
    samples of a scenario share the order; evaluation leaves nobody out.

    Attributes:
        dropout: the chance of a scenario.
    """

    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout <= 1:
            raise ValueError(f"dropout is a chance, in [0, 1], not {self.dropout}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        chances = key.derive("dropout").numpy().random(len(asked))
        told = [
            replace(one, options=(*one.options, InOrder(key.derive("order", place)))) if chance < self.dropout else one
            for place, (one, chance) in enumerate(zip(asked, chances.tolist(), strict=True))
        ]
        return await super().collect(told, play=play, score=score, ledger=ledger, key=key, more=more)


VIDEOCHAT_M1 = GRPO.but(
    name="videochat-m1",
    title="VideoChat-M1: agents that plan tool calls together, paid for the answer and for how they worked together",
    source="Chen et al., VideoChat-M1: Collaborative Policy Planning for Video Understanding via Multi-Agent "
    "Reinforcement Learning, arXiv:2511.19524 (abstract, and summaries of it)",
    family="teams",
    catalogue_ids=("videochat-m1",),
    axes=("team", "policy", "reward"),
    formula="P_i = G_i(Q, T);  P_i' = G_i(Q, T, M, P_i);  R_i = R_res + 0.2 R_format,i + process R_col,i;  "
    "A_i = (R_i - mean)/(std + eps) over agent i's parts in a question's samples",
    conventions={
        **GRPO.conventions,
        "films": "in words; the paper's are videos, looked at by seven tools of which search and crop are here",
        "R_res": "the verdict, 1 or 0, half on the team's answer and half on the agent's own (workflow.own = 0.5); for "
        "the team's alone agents that lose every vote came to answer nonsense",
        "R_format": "1 if all plans of the agent were calls that could be carried out, within its budget; weight 0.2",
        "R_col": "the share of the agent's calls that served: about the question, and found before by none; a rule, of "
        "which the paper has GPT-4o give 0 or 1; weight workflow.process = 1, as the plain sum has it",
        "budget": "2 calls of each of 3 agents, none beyond is made; the paper has 4 agents, and fines more than 5",
        "answer": "the plurality's, of equals that of the earliest agent",
        "role weights": "one policy each, all trained at once; the paper's are four different models",
        "agent dropout": "rollout.dropout = 0: in these films whoever reads nobody cannot know the answer; the paper "
        "draws a graph at every step",
        "KL": "left out; the paper has one to the model before",
    },
    task="films",
    requires=(Requirement.AGENTS, Requirement.TURNS, Requirement.TURN_REWARDS, Requirement.TOOLS),
    workflow="plan-together",
    cast=Separate(),
    rollout=PeersLeftOut(samples=8),
    credit=EachAgent(GroupRelative()),
)
