"""An adviser beside unchanged agents: it writes a line, and they act on it."""

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

ADVISES = InfoColumn("advises", "For each turn the name of the agent that it advised; None where it advised none.")


@dataclass(frozen=True)
class Advised(Workflow):
    """Any workflow with advised agents: their messages end with a line that the role `adviser` wrote.

    The adviser reads the agent's messages and, in a running conversation, the agent's last action. Each conversation of
    the agent has one with the adviser. With `every` there is advice before every turn, as from the strategist of EPO
    (arXiv 2502.12486). Without it the adviser is called once per agent and episode, before the first turn, and its line
    opens each of the agent's conversations: the meta plan of MPO (arXiv 2503.02682).

    The adviser is a separate policy if the cast says so (`hocket.core.Leading("adviser", "actor")`); the acting policy
    then need not be trained. Rewards are those of the inner workflow. Advice is recorded for the agent `adviser of
    NAME`, where NAME is the advised agent, and `Outcome.info` has `advises`.

    Attributes:
        inner: the workflow, or its name. every: whether there is advice before every turn. system: the adviser's
            prompt. lead: the words before the advice. who: the advised roles, separated by commas; empty: all.
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
        guided = {role: GuidedAgent(team[role], team[ADVISER].fresh(), self, [], heard) for role in self.advised}
        outcome = await self.within.play(scenario, _Beside(team, guided))
        for advice, acted in heard:
            advice.agent = f"{ADVISER} of {acted.agent}"
        if outcome is None:
            return None
        turns = next(iter(guided.values())).turns
        spread = {name: _spread(reward, turns) for name, reward in outcome.turn_rewards.items()}
        advised = {id(advice): acted.agent for advice, acted in heard}
        info = {**outcome.info, ADVISES.name: [advised.get(id(turn)) for turn in turns]}
        return replace(outcome, turn_rewards=spread, info=info)


def _spread(
    rewards: Mapping[Reply, float] | Sequence[float | None], turns: Sequence[Turn]
) -> Mapping[Reply, float] | Sequence[float | None]:
    """The inner workflow's rewards per turn, spread over all turns; the adviser's turns have none."""
    if isinstance(rewards, Mapping):
        return rewards
    left = iter(rewards)
    values = [None if turn.role == ADVISER else next(left, None) for turn in turns]
    return [*values, *left]  # What is too long stays so, and is refused where it is read.


class GuidedAgent(Agent):
    """An agent that asks the adviser before it answers.

    Args:
        actor: the agent. adviser: its adviser, in a separate conversation. flow: the settings. plan: the advice for the
            whole episode, once given. heard: turns of advice, each with the turn that read it.
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
        return GuidedAgent(actor, self._adviser.fresh(alike=alike), self._flow, self._plan, self._heard)

    def __call__(
        self, *pieces: Piece, prefix: Sequence[int] = (), state: str | None = None, decoding: Decoding | None = None
    ) -> Coroutine[Any, Any, Reply]:
        return self._guided(pieces, prefix, state, decoding)

    async def candidates(
        self, *pieces: Piece, score: Judge, state: str | None = None, decoding: Decoding | None = None
    ) -> Reply:
        guided, advice = await self._with_advice(pieces, state)
        return self._done(await super().candidates(guided, score=score, state=state, decoding=decoding), advice)

    async def _guided(
        self, pieces: Sequence[Piece], prefix: Sequence[int], state: str | None, decoding: Decoding | None
    ) -> Reply:
        guided, advice = await self._with_advice(pieces, state)
        return self._done(await super().__call__(guided, prefix=prefix, state=state, decoding=decoding), advice)

    def _done(self, reply: Reply, advice: Reply | None) -> Reply:
        """Records the agent's move and the source of its advice."""
        self._did = str(reply)
        if advice is not None:
            self._heard.append((advice.turn, reply.turn))
        return reply

    async def _with_advice(
        self, pieces: Sequence[Piece], state: str | None
    ) -> tuple[tuple[Message, ...], Reply | None]:
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
    """A team with some agents replaced."""

    def __init__(self, team: Team, agents: Mapping[str, Agent]) -> None:
        vars(self).update(vars(team))
        self._agents = {**self._agents, **agents}


def _messages(piece: Piece) -> tuple[Message, ...]:
    """A piece as messages; adjacent texts in a list are lines of one message."""
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
