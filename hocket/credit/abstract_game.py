"""A game of intents, estimated from recorded play, and its solution by counterfactual regret minimisation."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Public = tuple[tuple[str, int], ...]
"""What everybody has heard: who meant what, in order."""


class Move(NamedTuple):
    """A turn: whose, what its speaker alone knows, and the intent of what it says."""

    role: str
    private: Hashable
    intent: int


class Situation(NamedTuple):
    """An information state: all that a role knows when it speaks. `scenario` is what everybody was told."""

    role: str
    scenario: Hashable
    private: Hashable
    heard: Public


class Course(NamedTuple):
    """One episode as the abstract game sees it: its moves, and what it brought each role."""

    scenario: Hashable
    moves: tuple[Move, ...]
    payoff: Mapping[str, float]


Strategy = Mapping[Situation, Mapping[int, float]]
"""How likely each intent is in each situation."""


@dataclass
class Node:
    """A place in the tree, where chance decides who speaks and what they privately know, or someone speaks.

    Attributes:
        situation: of who speaks, None where chance decides. count: episodes that came by. brought: what they brought in
            all, by role. ended: what those brought in all that ended here.
        chances: what comes next by chance. intents: what comes next by what is meant.
    """

    situation: Situation | None = None
    count: int = 0
    brought: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    chances: dict[Hashable, Node] = field(default_factory=dict)
    intents: dict[int, Node] = field(default_factory=dict)

    def passed(self, payoff: Mapping[str, float]) -> Node:
        """Itself with one episode more."""
        self.count += 1
        _add(self.brought, payoff)
        return self

    def below(self) -> Iterator[Node]:
        """Itself and all nodes below, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [*node.chances.values(), *node.intents.values()][::-1]


def _add(sums: dict[str, float], payoff: Mapping[str, float], share: float = 1.0) -> None:
    for role, value in payoff.items():
        sums[role] = sums.get(role, 0.0) + share * value


class AbstractGame:
    """The tree of recorded episodes: intents are its actions, and frequencies and mean payoffs what chance does.

    What a role knows is the scenario, its private state and who meant what so far, so that what was said in other words
    is the same. An intent that was heard in a situation but never after the same hidden events brings there what it
    brought on average where it was heard.

    Attributes:
        roles: who moves or is paid. situations: every information state, with the nodes where it may be.
        intents: of each situation those that occurred, with how often.
    """

    def __init__(self, courses: Sequence[Course]) -> None:
        self.root = Node()
        for course in courses:
            self._record(course)
        paid = {role for course in courses for role in course.payoff}
        self.roles = tuple(sorted(paid | {move.role for course in courses for move in course.moves}))
        self.situations: dict[Situation, list[Node]] = {}
        for node in self.root.below():
            if node.situation is not None:
                self.situations.setdefault(node.situation, []).append(node)
        self.intents = {situation: self._completed(nodes) for situation, nodes in self.situations.items()}

    def _record(self, course: Course) -> None:
        heard: Public = ()
        node = self.root.passed(course.payoff).chances.setdefault(course.scenario, Node()).passed(course.payoff)
        for move in course.moves:
            situation = Situation(move.role, course.scenario, move.private, heard)
            node = node.chances.setdefault((move.role, move.private), Node(situation)).passed(course.payoff)
            node = node.intents.setdefault(move.intent, Node()).passed(course.payoff)
            heard = (*heard, (move.role, move.intent))
        _add(node.ended, course.payoff)

    def _completed(self, nodes: list[Node]) -> dict[int, int]:
        """Gives all nodes of a situation the same intents; returns how often each occurred."""
        found: dict[int, int] = {}
        for intent in sorted({intent for node in nodes for intent in node.intents}):
            known = [node.intents[intent] for node in nodes if intent in node.intents]
            found[intent] = sum(child.count for child in known)
            usual: dict[str, float] = {}
            for child in known:
                _add(usual, child.brought, 1 / found[intent])
            for node in nodes:
                node.intents.setdefault(intent, Node(count=1, brought=usual, ended=usual))
        return found

    # ------------------------------------------------------------ playing it

    def value(self, strategy: Strategy) -> dict[str, float]:
        """What each role earns on average."""
        return self._value(self.root, strategy)

    def _value(self, node: Node, strategy: Strategy) -> dict[str, float]:
        found = self._ended(node)
        for share, child in self._ways(node, strategy):
            _add(found, self._value(child, strategy), share)
        return found

    def _ended(self, node: Node) -> dict[str, float]:
        """What episodes that end here bring, times their share of those that come by."""
        return {role: node.ended.get(role, 0.0) / max(node.count, 1) for role in self.roles}

    def _ways(self, node: Node, strategy: Strategy) -> Iterator[tuple[float, Node]]:
        """What comes next, and how likely."""
        if node.situation is None:
            yield from ((child.count / node.count, child) for child in node.chances.values())
        else:
            chances = strategy[node.situation]
            yield from ((chances[intent], child) for intent, child in node.intents.items())

    def action_values(self, strategy: Strategy) -> dict[Situation, dict[int, float]]:
        """What each intent brings its speaker on average, everybody playing `strategy` before and after."""
        reach = self._reach(strategy)
        found: dict[Situation, dict[int, float]] = {}
        for situation, nodes in self.situations.items():
            weights = [reach[id(node)].get(situation.role, 1.0) for node in nodes]
            whole = sum(weights)
            found[situation] = {
                intent: sum(
                    (weight / whole if whole > 0 else 1 / len(nodes))
                    * self._value(node.intents[intent], strategy)[situation.role]
                    for node, weight in zip(nodes, weights, strict=True)
                )
                for intent in self.intents[situation]
            }
        return found

    def reached(self, strategy: Strategy) -> dict[Situation, float]:
        """How likely chance and the others lead to each situation, its own role doing all it can to come there."""
        reach = self._reach(strategy)
        return {one: sum(reach[id(node)][one.role] for node in nodes) for one, nodes in self.situations.items()}

    def _reach(self, strategy: Strategy) -> dict[int, dict[str, float]]:
        """By node: how likely chance and everybody but a role lead there, by that role."""
        found: dict[int, dict[str, float]] = {}
        waiting = [(self.root, dict.fromkeys(self.roles, 1.0))]
        while waiting:
            node, reach = waiting.pop()
            found[id(node)] = reach
            mover = None if node.situation is None else node.situation.role
            for chance, child in self._ways(node, strategy):
                waiting.append((child, {role: r * (1.0 if role == mover else chance) for role, r in reach.items()}))
        return found

    def best_response(self, role: str, strategy: Strategy) -> float:
        """The most that a role can earn against the others' `strategy`."""
        reach = self._reach(strategy)
        chosen: dict[Situation, int] = {}

        def choice(situation: Situation) -> int:
            if situation not in chosen:
                nodes = self.situations[situation]
                worth = {
                    intent: sum(reach[id(node)][role] * value(node.intents[intent]) for node in nodes)
                    for intent in self.intents[situation]
                }
                chosen[situation] = max(worth, key=lambda intent: worth[intent])
            return chosen[situation]

        def value(node: Node) -> float:
            if node.situation is not None and node.situation.role == role:
                return value(node.intents[choice(node.situation)])
            return self._ended(node)[role] + sum(share * value(child) for share, child in self._ways(node, strategy))

        return value(self.root)

    def nash_conv(self, strategy: Strategy) -> float:
        """The sum over roles of what each gains by its best response."""
        own = self.value(strategy)
        return sum(self.best_response(role, strategy) - own[role] for role in self.roles)

    # ------------------------------------------------------------ solving it

    def solved(self, iterations: int) -> Strategy:
        """The average strategy of linear CFR (Zinkevich et al. 2007; Brown and Sandholm 2019).

        Iteration t plays by regret matching, `sigma(a) ~ max(R(a), 0)` and evenly without regret; regrets and the
        average count it t times.
        """
        regret = {situation: dict.fromkeys(intents, 0.0) for situation, intents in self.intents.items()}
        total = {situation: dict.fromkeys(intents, 0.0) for situation, intents in self.intents.items()}
        for number in range(1, iterations + 1):
            now = {situation: _matched(known) for situation, known in regret.items()}
            self._walk(self.root, now, dict.fromkeys(self.roles, 1.0), 1.0, float(number), regret, total)
        return {situation: _shares(sums) for situation, sums in total.items()}

    def _walk(
        self,
        node: Node,
        now: Strategy,
        own: Mapping[str, float],
        chance: float,
        weight: float,
        regret: Mapping[Situation, dict[int, float]],
        total: Mapping[Situation, dict[int, float]],
    ) -> dict[str, float]:
        """The value of a node, adding regrets and the average below; `own` is each role's reach, `chance` chance's."""
        found, situation = self._ended(node), node.situation
        if situation is None:
            for share, child in self._ways(node, now):
                _add(found, self._walk(child, now, own, chance * share, weight, regret, total), share)
            return found
        mover, brought = situation.role, dict[int, float]()
        for intent, child in node.intents.items():
            share = now[situation][intent]
            reached = {**own, mover: own[mover] * share}
            below = self._walk(child, now, reached, chance, weight, regret, total)
            brought[intent] = below[mover]
            _add(found, below, share)
        others = chance * math.prod(reach for role, reach in own.items() if role != mover)
        for intent, value in brought.items():
            regret[situation][intent] += weight * others * (value - found[mover])
            total[situation][intent] += weight * own[mover] * now[situation][intent]
        return found


def _matched(regret: Mapping[int, float]) -> dict[int, float]:
    return _shares({intent: max(value, 0.0) for intent, value in regret.items()})


def _shares(sums: Mapping[int, float]) -> dict[int, float]:
    whole = sum(sums.values())
    return {intent: value / whole if whole > 0 else 1 / len(sums) for intent, value in sums.items()}
