"""The skirmish against its rules written once more, unit by unit, and who learns what over how many links."""

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.zoo.joint.skirmish import ATTACK, MOVES, Skirmish, forwarded


class _Plain:
    """One skirmish with the rules as the page tells them."""

    def __init__(self, world, place, health):
        self.world, self.time = world, 0
        self.place, self.health = [tuple(one) for one in place.tolist()], health.tolist()

    def away(self, one, other):
        return max(abs(a - b) for a, b in zip(self.place[one], self.place[other], strict=True))

    def step(self, actions):
        n, units = self.world.count, range(len(self.place))
        before, held = list(self.health), {self.place[u] for u in units if self.health[u] > 0}
        up = [unit for unit in units if before[unit] > 0]
        hits, goals = dict.fromkeys(units, 0), {}
        for unit in up:
            if unit >= n:
                target, goal = self._foe(unit, [u for u in up if u < n], held)
            else:
                attack = actions[unit] - ATTACK
                target = attack + n if attack >= 0 else None
                walk = MOVES[actions[unit]].tolist() if attack < 0 else [0, 0]
                goal = self._plus(unit, walk)
            if target is not None and target in up and self.away(unit, target) <= self.world.reach:
                hits[target] += 1
            goals[unit] = goal
        self.health = [max(0, before[unit] - hits[unit]) for unit in units]
        place, taken = list(self.place), set()
        for unit in up:
            goal = goals[unit]
            inside = all(0 <= part < self.world.size for part in goal)
            if self.health[unit] and inside and goal not in held and goal not in taken:
                place[unit] = goal
                taken.add(goal)
        self.place = place
        self.time += 1
        lost = sum(before[n:]) - sum(self.health[n:])
        won = not any(self.health[n:]) and any(self.health[:n])
        over = not any(self.health[n:]) or not any(self.health[:n])
        whole = self.world.foes * self.world.strength
        return 0.5 * lost / whole + 0.5 * won, over, not over and self.time >= self.world.length

    def _plus(self, unit, walk):
        return tuple(a + b for a, b in zip(self.place[unit], walk, strict=True))

    def _foe(self, unit, soldiers, held):
        nearest = min(soldiers, key=lambda one: (self.away(unit, one), one))
        if self.away(unit, nearest) <= self.world.reach:
            return nearest, self.place[unit]
        down, right = (a - b for a, b in zip(self.place[nearest], self.place[unit], strict=True))
        ways = [(np.sign(down), 0), (0, np.sign(right))]
        first, second = ways if abs(down) > abs(right) else ways[::-1]
        goal = self._plus(unit, first)
        return None, self._plus(unit, second) if goal in held else goal


@pytest.mark.parametrize(
    ("world", "ends"),
    [
        (Skirmish(), {"won", "lost"}),
        (Skirmish(2, 4, health=6), {"lost"}),
        (Skirmish(5, 3, size=11, reach=1, length=12), {"late"}),
        (Skirmish(1, 1, size=5, sight=2), {"lost"}),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_steps_are_those_of_the_rules_unit_by_unit(world, ends):
    width, rng = 40, np.random.default_rng(3)
    ours = world.open(width)
    ours.reset(range(width), range(width))
    plain = [_Plain(world, ours.place[slot], ours.health[slot]) for slot in range(width)]
    over, earned, seen = np.zeros(width, bool), np.zeros(width), set()
    for _ in range(world.length):
        legal = ours.allowed()
        chosen = [np.array([_eager(mask, rng) for mask in masks]) for masks in legal]
        moved = ours.step(chosen, ~over)
        for slot in np.flatnonzero(~over):
            paid, ended, late = plain[slot].step([int(one[slot]) for one in chosen])
            assert ours.place[slot].tolist() == [list(one) for one in plain[slot].place]
            assert ours.health[slot].tolist() == plain[slot].health
            assert moved.rewards[slot] == pytest.approx([paid] * world.count)
            assert moved.terminated[slot].tolist() == [ended] * world.count
            assert moved.truncated[slot].tolist() == [late] * world.count
            earned[slot] += paid
            seen |= {"won" if ours.won()[slot] else "lost"} if ended else {"late"} if late else set()
        over |= moved.terminated[:, 0] | moved.truncated[:, 0]
    assert over.all()
    assert np.array_equal(earned > 1 - 1e-9, ours.won())
    assert seen >= ends


def _eager(mask, rng):
    """Any legal action, an attack wherever there is one, mostly."""
    attacks = np.flatnonzero(mask[ATTACK:]) + ATTACK
    choices = attacks if len(attacks) and rng.random() < 0.9 else np.flatnonzero(mask)
    return int(rng.choice(choices))


def test_a_fact_reaches_exactly_those_within_so_many_links():
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, facts, hops = int(rng.integers(1, 7)), int(rng.integers(1, 6)), int(rng.integers(0, 5))
        links = rng.random((n, n)) < 0.3
        links |= links.T
        told = rng.random((n, facts)) < 0.3
        far = np.full((n, n), n + 9)
        far[links] = 1
        np.fill_diagonal(far, 0)
        for middle in range(n):
            far = np.minimum(far, far[:, middle, None] + far[middle])
        wanted = [[any(told[m, f] and far[m, a] <= hops for m in range(n)) for f in range(facts)] for a in range(n)]
        assert forwarded(told, links, hops).tolist() == wanted


def test_what_is_seen_and_what_is_told():
    """Three in a line, each beside the next; the first alone sees a foe, and the last learns of it over two links."""
    for hops in (0, 1, 2):
        field = Skirmish(3, 1, size=20, sight=3, radio=4, hops=hops).open(1)
        field.reset([0], [0])
        field.place[0] = [[0, 3], [4, 3], [8, 3], [0, 6]]
        knows = [bool(sight[0, -6]) for sight in field.seen()]
        assert knows == [True, hops > 0, hops > 1]
        assert [bool(sight[0, -2]) for sight in field.seen()] == [True, False, False]
        field.health[0, 1] = 0  # The messenger falls.
        assert [bool(sight[0, -6]) for sight in field.seen()] == [True, False, False]
        assert not field.seen()[1].any()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("skirmish:3", "write skirmish:3v3"),
        ("skirmish:3v3?hopps=2", "did you mean 'hops'"),
        ("skirmish:0v3", "count = 0; at least 1"),
        ("skirmish:5v3?size=6", "at least 9 rows"),
        ("skirmish:3v3?reach=4", "beyond sight = 3"),
    ],
)
def test_wrong_names_are_refused_in_a_sentence(name, why):
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)
