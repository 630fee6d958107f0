"""What each role did and learnt: from recorded episodes and from metrics kept per role, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hocket.apps.report.conversations import calls_in, digits, earned
from hocket.core import sums
from hocket.train.kinds.words import UnitNames

Row = Mapping[str, Any]


@dataclass
class AgentTotals:
    """Totals of one agent over the episodes of a step.

    Attributes:
        policies: which decided. turns, decisions, calls: made in all episodes; calls are calls of tools.
        reward: its turn rewards, None where there are none.
        surprise: -log-prob of what it sampled, in nats, summed over `sampled` decisions.
    """

    policies: list[str] = field(default_factory=list)
    turns: int = 0
    decisions: int = 0
    calls: int = 0
    reward: float | None = None
    surprise: float = 0.0
    sampled: int = 0

    def add(self, turn: Row) -> None:
        policy = str(turn.get("policy") or "")
        if policy and policy not in self.policies:
            self.policies.append(policy)
        self.turns += 1
        self.decisions += turn.get("length", 0)
        self.calls += len(calls_in(str(turn.get("text", ""))))
        logps, forced = turn.get("logp") or [], turn.get("forced")
        if forced:
            logps = [logp for logp, imposed in zip(logps, forced, strict=False) if not imposed]
        if None in logps:
            logps = [logp for logp in logps if logp is not None]
        self.surprise -= sums.total(logps)
        self.sampled += len(logps)


@dataclass
class StepTotals:
    """What a step's episodes come to: how many, how many failed, and what each agent did."""

    episodes: int = 0
    failed: int = 0
    agents: dict[str, AgentTotals] = field(default_factory=dict)

    @staticmethod
    def of(episodes: Sequence[Row]) -> StepTotals:
        """Sums over the episodes of one step; those of another source than the policies are left out."""
        totals = StepTotals()
        for episode in episodes:
            if episode.get("source", "own") != "own":
                continue
            totals.episodes += 1
            totals.failed += episode.get("failure") is not None
            for turn in episode.get("turns", ()):
                totals.agents.setdefault(str(turn.get("agent", "")), AgentTotals()).add(turn)
            for agent, rewards in earned(episode).items():
                played = totals.agents.setdefault(agent, AgentTotals())
                played.reward = (played.reward or 0.0) + sums.total(rewards.values())
        return totals

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


Measure = Callable[[Row, float], float | None]
"""A number about an agent from its totals and the number of episodes; None where it does not apply."""


def _per(total: float | None, count: float) -> float | None:
    return total / count if total is not None and count else None


MEASURES: Mapping[str, Measure] = {
    "turns per episode": lambda played, n: _per(played["turns"], n),
    "decisions per episode": lambda played, n: _per(played["decisions"], n),
    "decisions per turn": lambda played, n: _per(played["decisions"], played["turns"]),
    "tool calls per episode": lambda played, n: _per(played["calls"] or None, n),
    "turn rewards per episode": lambda played, n: _per(played["reward"], n),
    "sampling entropy": lambda played, n: _per(played["surprise"], played["sampled"]),
}


def table(steps: Sequence[Row], rows: Sequence[Row], config: Row, units: UnitNames) -> dict[str, Any] | None:
    """A table with a row per role, values of the first and the last step recorded; None where there is one role.

    Args:
        steps: the recorded steps with `summed`. rows: the metrics of training steps. config: of the run.
        units: what its decisions are called.
    """
    agents = list(dict.fromkeys(agent for step in steps for agent in step["summed"]["agents"]))
    if len(agents) < 2:
        return None
    columns = {name: [_ends(steps, agent, measure) for agent in agents] for name, measure in MEASURES.items()}
    for name, key in (("KL to the reference", "kl/reference"), ("groups with signal", "groups/with_signal")):
        columns[name] = [
            _latest(rows, [f"{learner}/{key}" for learner in _learners(agent, steps[-1])]) for agent in agents
        ]
    shown = {name: values for name, values in columns.items() if any(values)}
    cells = list(zip(*shown.values(), strict=True))
    return {
        "columns": [name.replace("decisions", units.decisions) for name in shown],
        "rows": [
            {"name": agent, "colour": place % 6, "cast": _cast(agent, steps[-1], config), "cells": cells[place]}
            for place, agent in enumerate(agents)
        ],
    }


def series(steps: Sequence[Row], value: Callable[[Row], float | None]) -> list[tuple[float, float]]:
    """A number of each recorded step, where there is one."""
    return [(float(step["step"]), number) for step in steps if (number := value(step["summed"])) is not None]


def each_agent(steps: Sequence[Row], measure: Measure) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """A measure of each agent by step, agents without it left out."""
    for agent in dict.fromkeys(agent for step in steps for agent in step["summed"]["agents"]):
        points = [
            (float(step["step"]), value)
            for step in steps
            if (played := step["summed"]["agents"].get(agent)) is not None
            and (value := measure(played, step["summed"]["episodes"])) is not None
        ]
        if points:
            yield agent, points


def _ends(steps: Sequence[Row], agent: str, measure: Measure) -> str:
    values = [value for name, points in each_agent(steps, measure) if name == agent for _, value in points]
    if not values:
        return ""
    first, last = (_brief(value) for value in (values[0], values[-1]))
    return last if len(values) == 1 or first == last else f"{first} → {last}"


def _learners(role: str, step: Row) -> list[str]:
    """Under whose name a role's metrics may stand: its own, or that of the one policy that played it last."""
    played = step["summed"]["agents"].get(role)
    return [role, *(played["policies"] if played and len(played["policies"]) == 1 else ())]


def _latest(rows: Sequence[Row], keys: Sequence[str]) -> str:
    """The last value of the first of the metrics that was measured."""
    for key in keys:
        values = [row[key] for row in rows if isinstance(row.get(key), (int, float))]
        if values:
            return _brief(values[-1])
    return ""


def _brief(value: float) -> str:
    return f"{digits(float(f'{value:.3g}')):g}".replace("-", "−")


def _cast(role: str, step: Row, config: Row) -> str:
    """Who plays a role, in words."""
    roles = config.get("roles")
    settings = (roles.get(role) if isinstance(roles, Mapping) else None) or {}
    if settings.get("endpoint"):
        return f"{settings.get('model') or 'a model'} behind an endpoint"
    played = step["summed"]["agents"].get(role)
    words = ", ".join(played["policies"]) if played else ""
    return f"{words}, frozen" if settings.get("frozen") else words
