"""Environments with a list of legal moves, and what it costs to say anything else."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hocket.agents.environments.protocol import Environment, Observation, same_move
from hocket.core.keys import Key


@dataclass(frozen=True)
class IllegalMoves:
    """What an illegal or unreadable move costs.

    Attributes:
        tries: how many illegal moves in a row are forgiven: the agent is asked again. One more ends the episode.
        penalty: taken from the mover's reward at each forgiven one. It breaks a zero sum.
        forfeit: what the mover earns where it ends the episode; None is the worst that the game knows, else -1.
    """

    tries: int = 0
    penalty: float = 0.0
    forfeit: float | None = None

    def __post_init__(self) -> None:
        if self.tries < 0 or self.penalty < 0:
            raise ValueError(f"tries = {self.tries}, penalty = {self.penalty}: neither may be negative")


class LegalMoves(Environment):
    """An environment that knows its legal moves in words. A subclass gives the members that begin with an underscore.

    Where several move at once and some moves are illegal but forgiven, the others' moves are kept, and only those in
    error are asked again.

    Args:
        agents: the seats.
        rule: what illegal moves cost.
    """

    zero_sum = False
    """Whether the rewards of all seats sum to zero; what one forfeits is then shared out among the others."""

    worst: float = -1.0
    """What a forfeit costs unless the rule says so."""

    def __init__(self, agents: Sequence[str], rule: IllegalMoves) -> None:
        self.agents = tuple(agents)
        self.rule = rule
        self._counts: Counter[str] = Counter()
        self._wrong: Counter[str] = Counter()
        self._kept: dict[str, Any] = {}
        self._forfeited = False

    # ------------------------------------------------------------ what a subclass gives

    @abstractmethod
    def _begin(self, key: Key) -> None:
        """Starts an episode."""

    @abstractmethod
    def _movers(self) -> tuple[str, ...]:
        """Who moves at this point; nobody when it is over."""

    @abstractmethod
    def _moves(self, agent: str) -> Mapping[str, Any]:
        """The legal moves of a mover: what stands for each word inside."""

    @abstractmethod
    def _seen(self, agent: str) -> Observation:
        """What a seat sees, without moves."""

    @abstractmethod
    def _make(self, moves: Mapping[str, Any]) -> Mapping[str, float]:
        """Makes the legal moves of all movers; returns what each seat earned."""

    # ------------------------------------------------------------ the protocol

    def reset(self, key: Key) -> None:
        self._counts, self._wrong, self._kept, self._forfeited = Counter(), Counter(), {}, False
        self._begin(key)

    @property
    def acting(self) -> tuple[str, ...]:
        return () if self._forfeited else tuple(agent for agent in self._movers() if agent not in self._kept)

    @property
    def illegal(self) -> Mapping[str, int]:
        return dict(self._counts)

    def observe(self, agent: str) -> Observation:
        observation = self._seen(agent)
        if agent not in self.acting:
            return Observation(observation.text, (), observation.state, observation.news, observation.pictures)
        actions = tuple(self._moves(agent))
        if not self._wrong[agent]:
            return Observation(observation.text, actions, observation.state, observation.news, observation.pictures)
        notice = "That was not a legal move. Try again."
        return Observation(f"{observation.text}\n{notice}", actions, observation.state, notice, observation.pictures)

    def act(self, moves: Mapping[str, str]) -> Mapping[str, float]:
        self.check_movers(moves)
        earned = dict.fromkeys(self.agents, 0.0)
        for agent in self.acting:
            legal = self._moves(agent)
            move = same_move(moves[agent], tuple(legal))
            if move is None:
                self._counts[agent] += 1
                self._wrong[agent] += 1
            else:
                self._kept[agent] = legal[move]
                self._wrong[agent] = 0
        losers = [agent for agent in self.acting if self._wrong[agent] > self.rule.tries]
        if losers:
            self._forfeited = True
            return self._forfeits(losers)
        for agent in self.acting:
            earned[agent] -= self.rule.penalty
        if not self.acting:
            joint, self._kept = self._kept, {}
            for agent, reward in self._make(joint).items():
                earned[agent] += reward
        return earned

    def _forfeits(self, losers: Sequence[str]) -> dict[str, float]:
        cost = self.worst if self.rule.forfeit is None else self.rule.forfeit
        rest = [agent for agent in self.agents if agent not in losers]
        earned = {agent: cost if agent in losers else 0.0 for agent in self.agents}
        if self.zero_sum:
            sharers = rest or self.agents
            for agent in sharers:
                earned[agent] -= cost * len(losers) / len(sharers)
        return earned

    def _copy_record(self, other: LegalMoves) -> None:
        """Takes over another episode's record of moves: for `clone`."""
        self._counts, self._wrong = Counter(other._counts), Counter(other._wrong)
        self._kept, self._forfeited = dict(other._kept), other._forfeited
