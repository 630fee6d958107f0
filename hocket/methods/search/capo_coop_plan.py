"""CaPo: agents agree on one plan before they act, and agree anew when somebody made progress (arXiv:2411.04679).

First a meta plan: one agent drafts who does what, the others say what is wrong with it, it drafts anew, for so many
rounds at most or until all agree. Then they act by it, each told the plan and its own next subtask. Whenever a thing is
found, lost, or a subtask is finished, whoever did it leads another such talk and the plan is revised; between such
events nobody talks (`MetaPlan`). A subtask has one owner: of those a plan names twice the first counts.

From the abstract are the two phases, talks of several turns in both, and revision on progress. That one agent designs
and the others evaluate is told by summaries of the paper; how many rounds, who leads a revision, and all wording are
chosen here. The paper's worlds are of pictures (ThreeDWorld, VirtualHome); the one here is a grid of rooms in words,
task `carry`. The paper trains nothing (`--steps 0` only plays); that the team then learns from what it earned is ours.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from hocket.agents.environments.protocol import Environment, World
from hocket.agents.environments.reading import LastLine
from hocket.agents.workflows.environment import SEATS
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.columns import ACTIONS, ILLEGAL, LIMIT, MESSAGES, RETURNS, InfoColumn
from hocket.core.components import from_plain
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.types import Scenario
from hocket.zoo.carry import AGENTS
from hocket.zoo.tasks.carry import AGREE, appraising, drafting, following, plan_text

PLANS = InfoColumn(
    "meta_plans",
    "Every talk about the plan, in order: `step`, `leader`, `news`, `messages`, whether they `agreed`, and the `plan` "
    "that came of it, by agent.",
)


@runtime_checkable
class Progressing(Protocol):
    """What an environment must tell so that its agents can plan.

    Attributes:
        progress: what came of the last moves, as (agent, sentence).
    """

    progress: Sequence[tuple[str, str]]

    def situation(self, agent: str) -> str:
        """What an agent knows, in words."""
        ...

    def subtasks(self, agent: str) -> Mapping[str, str]:
        """What is to be done, as far as an agent knows and can do it, by name, and how it stands in words."""
        ...

    def share(self) -> None:
        """All tell all what they know, as they do when they talk."""
        ...


@dataclass(frozen=True)
class MetaPlan(Workflow):
    """The agents of a world draft a plan, criticise it, act by it, and revise it when there was progress.

    The world is the scenario's `metadata["world"]`, a component in plain form, and its environments are `Progressing`.
    A talk takes `1 + rounds x agents` messages at most, so an episode `(1 + revisions)` times as many; where no plan
    can be read in a draft the one before stands. All earn what the world pays, once for the whole episode.

    Attributes:
        agents: how many; roles `alice`, `bob` and so on. rounds: of criticism in a talk; with 0 the draft stands.
        plans: without, nobody plans and each acts by itself. revise: without, the first plan stands.
        revisions: in an episode at most.
    """

    name = "meta-plan"
    description = "agents of a world agree on who does what, and anew after progress (CaPo); task carry"

    agents: int = 2
    rounds: int = 2
    plans: bool = True
    revise: bool = True
    revisions: int = 16

    scores = True

    def __post_init__(self) -> None:
        if not 1 <= self.agents <= len(AGENTS) or self.rounds < 0 or self.revisions < 0:
            raise ValueError(
                f"agents = {self.agents} is 1 to {len(AGENTS)}; rounds = {self.rounds} and revisions = "
                f"{self.revisions} are at least 0"
            )
        object.__setattr__(self, "roles", AGENTS[: self.agents])
        object.__setattr__(self, "limits", Limits(turns=None))  # The world ends, and so do the talks.

    @property
    def messages(self) -> int:
        """Messages about plans in an episode, at most."""
        talks = (1 + self.revisions * self.revise) * self.plans
        return talks * (1 + self.rounds * self.agents)

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        world = world_of(scenario, self.roles)
        environment = world.make(scenario)
        environment.reset(Key.of(scenario.seed).derive("environment"))
        if not isinstance(environment, Progressing):
            raise ConfigurationError(
                f"{world.name} tells neither subtasks nor progress, so nobody can plan there; take --task carry"
            )
        course = _Course(self, team, environment)
        try:
            return await course.run()
        finally:
            environment.close()


def world_of(scenario: Scenario, roles: Sequence[str]) -> World:
    """The world of a scenario.

    Raises:
        ConfigurationError: where it names none, or one of other agents.
    """
    plain = scenario.metadata.get("world")
    if plain is None:
        raise ConfigurationError(f"meta-plan plays worlds, and scenario {scenario.id} names none; take --task carry")
    world: World = from_plain(plain, where="world")
    if tuple(world.agents) != tuple(roles):
        raise ConfigurationError(
            f"{world.name} has the agents {', '.join(world.agents)} and meta-plan {', '.join(roles)}; set "
            f"--workflow 'meta-plan?agents={len(world.agents)}'"
        )
    return world


class _Course:
    """One episode while it is played.

    Attributes:
        plan: who does what, as it stands. talks: those about it so far.
    """

    def __init__(self, flow: MetaPlan, team: Team, environment: Any) -> None:
        self.flow, self.team, self.environment = flow, team, environment
        self.plan: dict[str, tuple[str, ...]] = {}
        self.talks: list[dict[str, Any]] = []
        self.steps, self.paid = 0, dict.fromkeys(environment.agents, 0.0)
        self.moves: list[str | None] = []

    async def run(self) -> Outcome:
        environment: Environment = self.environment
        if self.flow.plans:
            await self.talk(self.flow.roles[0], ())
        while environment.acting:
            await self.step()
            news = self.environment.progress
            if (
                news
                and environment.acting
                and self.flow.plans
                and self.flow.revise
                and self.revised < self.flow.revisions
            ):
                await self.talk(news[0][0], [sentence for _, sentence in news])
        return self.outcome()

    @property
    def revised(self) -> int:
        """How often the plan was revised."""
        return len(self.talks) - 1

    async def step(self) -> None:
        """Asks all who act, side by side, and makes their moves."""
        asked = []
        for seat in self.environment.acting:
            seen = self.environment.observe(seat)
            can = self.environment.subtasks(seat)
            first = next((one for one in self.plan.get(seat, ()) if one in can), "")
            question = following(seen.told(), plan_text(self.plan), first, can.get(first, ""))
            asked.append((seat, seen, self.team[seat].fresh()(question, state=seen.state)))
        replies = await asyncio.gather(*(call for _, _, call in asked))
        moves = {
            seat: LastLine()(str(reply), seen.actions) or ""
            for (seat, seen, _), reply in zip(asked, replies, strict=True)
        }
        self.moves += moves.values()
        for seat, earned in self.environment.act(moves).items():
            self.paid[seat] += earned
        self.steps += 1

    async def talk(self, leader: str, news: Sequence[str]) -> None:
        """Drafts and criticises a plan until all agree, for so many rounds at most."""
        self.environment.share()
        situation, before, said, agreed = self.environment.situation(leader), plan_text(self.plan), 0, False
        draft = str(await self._ask(leader, drafting(situation, before, news)))
        self._take(draft)
        for _ in range(self.flow.rounds):
            others = [one for one in self.flow.roles if one != leader]
            told = appraising(situation, plan_text(self.plan))
            views = await asyncio.gather(*(self._ask(one, told) for one in others))
            said += len(views)
            objections = [str(one).strip() for one in views if not agrees(str(one))]
            agreed = not objections
            if agreed:
                break
            told = drafting(situation, plan_text(self.plan), news, " ".join(" ".join(objections).split()))
            self._take(str(await self._ask(leader, told)))
            said += 1
        self.talks.append(
            {
                "step": self.steps,
                "leader": leader,
                "news": list(news),
                "messages": 1 + said,
                "agreed": agreed,
                "plan": {name: list(subtasks) for name, subtasks in self.plan.items()},
            }
        )

    def _ask(self, seat: str, question: str) -> Any:
        self.moves.append(None)
        return self.team[seat].fresh()(question)

    def _take(self, draft: str) -> None:
        """The plan in a draft, where there is one."""
        can = {name for seat in self.flow.roles for name in self.environment.subtasks(seat)}
        self.plan = plan_in(draft, self.flow.roles, sorted(can)) or self.plan

    def outcome(self) -> Outcome:
        environment: Environment = self.environment
        info: dict[str, Any] = {
            SEATS.name: list(environment.agents),
            RETURNS.name: dict(self.paid),
            ILLEGAL.name: dict(environment.illegal),
            ACTIONS.name: self.moves,
            MESSAGES.name: sum(talk["messages"] for talk in self.talks),
            PLANS.name: self.talks,
        }
        if environment.truncated:
            info[LIMIT.name] = "the environment cut the episode short"
        earned = sum(self.paid.values()) / len(self.paid)
        return Outcome(rewards={"reward": earned}, info=info)


def agrees(text: str) -> bool:
    """Whether an evaluation accepts the plan: it begins with `agree`."""
    return re.match(rf"\W*(?:i )?{AGREE}", text, re.IGNORECASE) is not None


def plan_in(text: str, agents: Sequence[str], open_: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Who does what: of lines `NAME: subtask, subtask` those subtasks that are open, each to whom it is given first.

    A part of a line that holds an open subtask's words and more is that subtask. Empty where there is none.
    """
    found: dict[str, list[str]] = {agent: [] for agent in agents}
    taken: set[str] = set()
    for name, rest in re.findall(r"^\W*(\w+)\s*:\s*(.*)$", text, re.MULTILINE):
        agent = name.casefold()
        if agent not in found:
            continue
        for part in re.split(r"[,;.]|\bthen\b|\band\b", rest):
            words = " ".join(re.findall(r"\w+", part.casefold()))
            meant = max((one for one in open_ if f" {one} " in f" {words} "), key=len, default=None)
            if meant is not None and meant not in taken:
                taken.add(meant)
                found[agent].append(meant)
    return {agent: tuple(subtasks) for agent, subtasks in found.items()} if taken else {}


CAPO = GRPO.but(
    name="capo-coop-plan",
    title="CaPo: one plan agreed on before acting, and anew after progress",
    source="Liu et al., CaPo, arXiv:2411.04679 (abstract)",
    family="search",
    catalogue_ids=("capo-coop-plan",),
    axes=("team", "search"),
    formula="plan_0 = agreed(draft, criticism);  a_t ~ pi(. | seen_t, plan, first open subtask of mine);  "
    "plan <- agreed(draft | plan, news) at progress alone;  GRPO on the team's return",
    conventions={
        **GRPO.conventions,
        "roles": "one drafts, all others evaluate, in one policy; --cast separate gives each agent its own",
        "talk": "2 rounds of criticism at most; an evaluation that begins with agree accepts",
        "progress": "what the world says: a thing found, lost or brought, a room searched in vain; 16 times at most",
        "leader": "the first agent at the start, then whoever made progress",
        "owner": "a subtask that a plan names twice belongs to whom it names first",
        "acting": "each agent is told the plan and its own first subtask that is open; without one it acts by itself",
        "learning": "ours: messages and moves by the team's return; the paper trains nothing (steps 0)",
    },
    task="carry",
    requires=(Requirement.AGENTS, Requirement.TURNS),
    workflow="meta-plan",
)
