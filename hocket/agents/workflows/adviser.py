"""An adviser beside agents that stay as they are: it writes a line, they act on it."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hocket.agents.workflows.candidates import Judge
from hocket.agents.workflows.chat import Tools
from hocket.agents.workflows.library import find
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Agent, Piece, Team
from hocket.agents.workflows.workflow import Outcome, Workflow, with_line
from hocket.core.columns import InfoColumn
from hocket.types import Decoding, Message, Scenario, Turn

SYSTEM = "You advise somebody who acts. Say in a line how to go about it, not the answer."
ADVISER = "adviser"

ADVISES = InfoColumn("advises", "Of each turn whom it advised, an agent's name; None for those of whoever acts.")


@dataclass(frozen=True)
class Advised(Workflow):
    """Any workflow whose agents are advised: what they are told ends with a line that the role `adviser` wrote.

    The adviser is told what the agent is told and, in a conversation that goes on, what the agent did last; each of the
    agent's conversations has one with the adviser beside it. With `every` it advises before every turn, as the
    strategist of EPO (arXiv 2502.12486) does. Without, it is asked once per agent and episode, before the first turn,
    and its line opens each of the agent's conversations: the meta plan of MPO (arXiv 2503.02682).

    The adviser is a policy of its own where the cast says so (`hocket.core.Leading("adviser", "actor")`), and then
    whoever acts need not be trained. Rewards are those of the inner workflow. Advice is that of the agent `adviser of
    NAME`, NAME being the agent who heard it, and `Outcome.info` has `advises`.

    Attributes:
        inner: the workflow, or its name. every: whether there is advice before every turn. system: the adviser's
            prompt. lead: what stands before the advice. who: roles that are advised, commas between; empty: all.
    """

    name = "advised"
    description = "an adviser beside any workflow, e.g. advised?inner=simulated-user (EPO, MPO)"

    inner: Workflow | str = "single"
    every: bool = True
    system: str = SYSTEM
    lead: str = "Strategy"
    who: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.inner, str):
            object.__setattr__(self, "inner", find(self.inner))
        if ADVISER in self.within.roles:
            raise ValueError(f"the inner workflow has a role {ADVISER!r} of its own; give that another name")
        for role in self.advised:
            if role not in self.within.roles:
                raise ValueError(f"who names {role!r}, but the roles are {', '.join(self.within.roles)}")
        object.__setattr__(self, "roles", (ADVISER, *self.within.roles))
        object.__setattr__(self, "scores", self.within.scores)
        limits = self.within.limits
        if limits is not None and limits.turns is not None:
            calls = 2 * limits.turns if self.every else limits.turns + len(self.advised)
            limits = replace(limits, turns=calls)
        object.__setattr__(self, "limits", limits)

    @property
    def within(self) -> Workflow:
        """The inner workflow itself."""
        assert not isinstance(self.inner, str)
        return self.inner

    @property
    def advised(self) -> tuple[str, ...]:
        """The roles that are advised."""
        named = tuple(role.strip() for role in self.who.split(",") if role.strip())
        return named or tuple(self.within.roles)

    @property
    def prompts(self) -> Mapping[str, str]:
        return {ADVISER: self.system, **self.within.prompts}

    @property
    def tools(self) -> Mapping[str, Tools]:
        return self.within.tools

    async def play(self, scenario: Scenario, team: Team) -> Outcome | None:
        heard: list[tuple[Turn, Turn]] = []
        guided = {role: Guided(team[role], team[ADVISER].fresh(), self, [], heard) for role in self.advised}
        outcome = await self.within.play(scenario, _Beside(team, guided))
        for advice, acted in heard:
            advice.agent = f"{ADVISER} of {acted.agent}"
        if outcome is None:
            return None
        turns = next(iter(guided.values())).turns
        spread = {name: _spread(reward, turns) for name, reward in outcome.turn_rewards.items()}
        whom = {id(advice): acted.agent for advice, acted in heard}
        info = {**outcome.info, ADVISES.name: [whom.get(id(turn)) for turn in turns]}
        return replace(outcome, turn_rewards=spread, info=info)


def _spread(
    given: Mapping[Reply, float] | Sequence[float | None], turns: Sequence[Turn]
) -> Mapping[Reply, float] | Sequence[float | None]:
    """Rewards per turn of the inner workflow as those of all turns; the adviser's have none."""
    if isinstance(given, Mapping):
        return given
    left = iter(given)
    values = [None if turn.role == ADVISER else next(left, None) for turn in turns]
    return [*values, *left]  # What is too long stays so, and is refused where it is read.


class Guided(Agent):
    """An agent that asks the adviser before it answers.

    Args:
        actor: the agent. adviser: whom it asks, with a conversation of its own. flow: how. plan: advice that holds for
            the whole episode, once it was given. heard: turns of advice, each with the turn in which it was heard.
    """

    def __init__(
        self, actor: Agent, adviser: Agent, flow: Advised, plan: list[str], heard: list[tuple[Turn, Turn]]
    ) -> None:
        vars(self).update(vars(actor))
        self._adviser, self._flow, self._plan, self._heard = adviser, flow, plan, heard
        self._did: str | None = None

    @property
    def turns(self) -> list[Turn]:
        """All turns of the episode so far."""
        return self._episode.turns

    def fresh(self, *, system: str | None = None, tools: Tools | None = None, alike: bool = False) -> Agent:
        actor = super().fresh(system=system, tools=tools, alike=alike)
        return Guided(actor, self._adviser.fresh(alike=alike), self._flow, self._plan, self._heard)

    def __call__(
        self, *pieces: Piece, prefix: Sequence[int] = (), state: str | None = None, decoding: Decoding | None = None
    ) -> Coroutine[Any, Any, Reply]:
        return self._guided(pieces, prefix, state, decoding)

    async def candidates(
        self, *pieces: Piece, score: Judge, state: str | None = None, decoding: Decoding | None = None
    ) -> Reply:
        guided, advice = await self._told(pieces, state)
        return self._done(await super().candidates(guided, score=score, state=state, decoding=decoding), advice)

    async def _guided(
        self, pieces: Sequence[Piece], prefix: Sequence[int], state: str | None, decoding: Decoding | None
    ) -> Reply:
        guided, advice = await self._told(pieces, state)
        return self._done(await super().__call__(guided, prefix=prefix, state=state, decoding=decoding), advice)

    def _done(self, reply: Reply, advice: Reply | None) -> Reply:
        """Records the agent's move and the source of its advice."""
        self._did = str(reply)
        if advice is not None:
            self._heard.append((advice.turn, reply.turn))
        return reply

    async def _told(self, pieces: Sequence[Piece], state: str | None) -> tuple[tuple[Message, ...], Reply | None]:
        """The agent's messages, with advice if there is any; and the advice, if it was requested in this call."""
        messages = tuple(message for piece in pieces for message in _messages(piece))
        if self._flow.every:
            advice = await self._asked(messages, state)
            return self._with(messages, str(advice)), advice
        if self._did is not None:
            return messages, None
        if self._plan:
            return self._with(messages, self._plan[0]), None
        advice = await self._asked(messages, state)
        self._plan.append(str(advice))
        return self._with(messages, self._plan[0]), advice

    def _asked(self, messages: Sequence[Message], state: str | None) -> Coroutine[Any, Any, Reply]:
        heard = [message for message in messages if message["role"] != "system"]
        if self._did is None:
            return self._adviser(heard, state=state)
        news = [str(message["content"]) for message in heard if message["role"] != "assistant"]
        return self._adviser("\n".join([f"Done: {self._did}", *news]), state=state)

    def _with(self, messages: Sequence[Message], advice: str) -> tuple[Message, ...]:
        return with_line(messages, f"{self._flow.lead}: {advice}")


class _Beside(Team):
    """A team in which some agents are others."""

    def __init__(self, team: Team, agents: Mapping[str, Agent]) -> None:
        vars(self).update(vars(team))
        self._agents = {**self._agents, **agents}


def _messages(piece: Piece) -> tuple[Message, ...]:
    """A piece as messages; texts side by side in a list are lines of one."""
    if isinstance(piece, (str, Reply)):
        return ({"role": "user", "content": str(piece)},)
    if isinstance(piece, Mapping):
        return (piece,)
    messages: list[Message] = []
    lines: list[str] = []
    for message in piece:
        if isinstance(message, Mapping):
            messages += [{"role": "user", "content": "\n".join(lines)}] if lines else []
            messages.append(message)
            lines = []
        else:
            lines.append(str(message))
    return (*messages, {"role": "user", "content": "\n".join(lines)}) if lines else tuple(messages)
