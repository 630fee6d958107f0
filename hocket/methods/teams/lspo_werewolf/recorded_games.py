"""Games given as a list of episodes, by brute force: what any value is, by sums over those episodes that agree so far.

An episode has a `scenario`, `moves` (each a `role`, what it `private`ly knows, and the `intent` of what it says) and a
`payoff` by role. A situation is `(role, scenario, private, heard)`, heard being `(role, intent)` of each move before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Situation = Any  # As named tuples of the same four are, too.
Worth = Mapping[str, float]
Plan = Mapping[Situation, Mapping[int, float]]
Forced = tuple[Situation | None, int | None]


class Records:
    """A game of these courses; an intent that was heard in a situation brings on average there what it brought."""

    def __init__(self, courses: Sequence[Any]) -> None:
        self.courses = courses
        self.roles = sorted({role for one in courses for role in one.payoff})
        self.known: dict[Situation, dict[int, list[Any]]] = {}
        for one in courses:
            for place, move in enumerate(one.moves):
                self.known.setdefault(situation_of(one, place), {}).setdefault(move.intent, []).append(one)

    def value(self, plan: Plan, force: Forced = (None, None), here: Sequence[Any] | None = None, at: int = 0) -> Worth:
        """What each role earns from where the first `at` moves of all of `here` agree; `force` sets an intent."""
        courses = self.courses if here is None else here
        if at == 0 and here is None:
            return self.mixed([(len(group), self.value(plan, force, group)) for group in split(courses, _scenario)])
        ended = [(1, one.payoff) for one in courses if len(one.moves) == at]
        going = [one for one in courses if len(one.moves) > at]
        ways = [(len(group), self.spoken(plan, force, group, at)) for group in split(going, _speaker(at))]
        return self.mixed([*ended, *ways])

    def spoken(self, plan: Plan, force: Forced, here: Sequence[Any], at: int) -> Worth:
        """From where the same role, knowing the same, has said nothing yet."""
        situation = situation_of(here[0], at)
        chances = dict(plan[situation])
        if situation == force[0]:
            chances = {intent: float(intent == force[1]) for intent in chances}
        parts = []
        for intent, usual in self.known[situation].items():
            group = [one for one in here if one.moves[at].intent == intent]
            worth = self.value(plan, force, group, at + 1) if group else self.mixed([(1, one.payoff) for one in usual])
            parts.append((chances[intent], worth))
        return self.mixed(parts, 1.0)

    def mixed(self, parts: Sequence[tuple[float, Worth]], whole: float | None = None) -> Worth:
        total = sum(share for share, _ in parts) if whole is None else whole
        return {role: sum(share * one.get(role, 0.0) for share, one in parts) / total for role in self.roles}

    def places(self, situation: Situation) -> list[list[Any]]:
        """The courses of each hidden way to come to a situation."""
        at = len(situation[3])
        own = [one for one in self.courses if len(one.moves) > at and situation_of(one, at) == situation]
        return split(own, lambda one: tuple(one.moves[:at]))

    def chance(self, here: Sequence[Any], at: int, plan: Plan, apart: str) -> tuple[float, float]:
        """How likely chance and all but a role lead where these courses agree in `at` moves; and that role's part."""
        one, others, own = here[0], 1.0, 1.0
        before = [course for course in self.courses if course.scenario == one.scenario]
        others *= len(before) / len(self.courses)
        for place in range(at + 1):
            going = [x for x in before if len(x.moves) > place and _speaker(place)(x) == _speaker(place)(one)]
            others *= len(going) / len(before)
            if place == at:
                return others, own
            move = one.moves[place]
            step = plan[situation_of(one, place)][move.intent]
            own, others = (own * step, others) if move.role == apart else (own, others * step)
            before = [x for x in going if x.moves[place].intent == move.intent]
        raise AssertionError

    def action_values(self, plan: Plan) -> dict[Situation, dict[int, float]]:
        found: dict[Situation, dict[int, float]] = {}
        for situation, intents in self.known.items():
            at, places = len(situation[3]), self.places(situation)
            reach = [self.chance(here, at, plan, situation[0])[0] for here in places]
            shares = [one / sum(reach) if sum(reach) else 1 / len(places) for one in reach]
            found[situation] = {
                intent: sum(
                    share * self.spoken(plan, (situation, intent), here, at)[situation[0]]
                    for share, here in zip(shares, places, strict=True)
                )
                for intent in intents
            }
        return found

    def reached(self, plan: Plan) -> dict[Situation, float]:
        return {
            one: sum(self.chance(here, len(one[3]), plan, one[0])[0] for here in self.places(one)) for one in self.known
        }

    def best(self, role: str, plan: Plan) -> float:
        """The most of all pure plans of a role."""
        own = [situation for situation in self.known if situation[0] == role]
        worth = []
        for chosen in itertools.product(*(self.known[one] for one in own)):
            pure = {one: {i: float(i == said) for i in self.known[one]} for one, said in zip(own, chosen, strict=True)}
            worth.append(self.value({**plan, **pure})[role])
        return max(worth)

    def solved(self, iterations: int) -> Plan:
        """Linear CFR from the figures above: regret and average of iteration t count t times."""
        regret = {one: dict.fromkeys(intents, 0.0) for one, intents in self.known.items()}
        total = {one: dict.fromkeys(intents, 0.0) for one, intents in self.known.items()}
        for number in range(1, iterations + 1):
            plan = {one: even({i: max(r, 0.0) for i, r in known.items()}) for one, known in regret.items()}
            values, reached = self.action_values(plan), self.reached(plan)
            for one, worth in values.items():
                mean = sum(plan[one][intent] * value for intent, value in worth.items())
                places = self.places(one)
                own = sum(self.chance(here, len(one[3]), plan, one[0])[1] for here in places)
                for intent, value in worth.items():
                    regret[one][intent] += number * reached[one] * (value - mean)
                    total[one][intent] += number * own * plan[one][intent]
        return {one: even(sums) for one, sums in total.items()}


def situation_of(course: Any, at: int) -> Situation:
    """Where a move was made: all that its role knew."""
    heard = tuple((move.role, move.intent) for move in course.moves[:at])
    return course.moves[at].role, course.scenario, course.moves[at].private, heard


def split(courses: Sequence[Any], by: Callable[[Any], Any]) -> list[list[Any]]:
    """Courses of one value each, in the order of their first."""
    groups: dict[Any, list[Any]] = {}
    for one in courses:
        groups.setdefault(by(one), []).append(one)
    return list(groups.values())


def _scenario(course: Any) -> Any:
    return course.scenario


def _speaker(at: int) -> Callable[[Any], Any]:
    return lambda course: (course.moves[at].role, course.moves[at].private)


def even(sums: Mapping[int, float]) -> dict[int, float]:
    """Shares of a whole; even where all are 0."""
    whole = sum(sums.values())
    return {intent: one / whole if whole > 0 else 1 / len(sums) for intent, one in sums.items()}
