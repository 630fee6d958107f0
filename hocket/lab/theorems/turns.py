"""Of turns, where the policy decides how long it plays: what a baseline per turn does to the expected gradient.

The games have two turns. The first move may end the game, so who reaches the second turn was decided before; every
group of samples is enumerated, and the recipe itself says what step it would make.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hocket.core.batch import GroupBy
from hocket.core.keys import Key
from hocket.credit.group import GroupRelative, StepRelative
from hocket.credit.turn_level import TurnAndOutcome, TurnRelative
from hocket.lab.microscope import inspect
from hocket.lab.theorems.theorem import Theorem, apart, bent
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.stages import Credit

SAMPLES = 3
MOVES = 3
INDEX, STATE = GroupBy("scenario", "agent", "turn_index"), GroupBy("scenario", "state")
Path = tuple[int, ...]


@dataclass(frozen=True)
class TwoTurns:
    """Move 0 stops. Otherwise a second move follows, in a state of its own, or after `again` in the first one again.

    Attributes:
        logits: of the first state and of the state after each other move, `[3, 3]`.
        first, second: what the moves earn, `[3]` and `[3, 3]`; `outcome`: what the whole earns besides, `[3, 3]`.
        again: the move that leads back to the first state; None for none.
    """

    logits: Tensor
    first: Tensor
    second: Tensor
    outcome: Tensor
    again: int | None = None

    @property
    def paths(self) -> list[Path]:
        """Every way to play it."""
        return [(0,), *itertools.product(range(1, MOVES), range(MOVES))]

    def states(self, path: Path) -> list[int]:
        """The state before each move."""
        return [0, *(0 if move == self.again else move for move in path[:-1])]

    def logps(self, path: Path) -> list[float]:
        table = torch.log_softmax(self.logits, -1)
        return [float(table[state, move]) for state, move in zip(self.states(path), path, strict=True)]

    def rewards(self, path: Path) -> list[float]:
        """What each move earned."""
        return [float(self.first[path[0]]), *(float(self.second[path]) for _ in path[1:])]

    def whole(self, path: Path) -> float:
        """What the whole earned besides."""
        return float(self.outcome[path[0], path[1] if len(path) > 1 else 0])

    def row(self, path: Path, group: str, **more: Any) -> dict[str, Any]:
        """A way to play it, as a recorded trajectory."""
        return {
            "group": group,
            "scores": {"reward": self.whole(path)},
            "turn_scores": [{"reward": reward} for reward in self.rewards(path)],
            "logp": self.logps(path),
            "tokens": list(path),
            "turn": list(range(len(path))),
            "state": [str(state) for state in self.states(path)],
            **more,
        }

    def slopes(self, path: Path) -> Tensor:
        """The gradient of each move's log-probability on the logits, `[L, 3, 3]`."""
        table = torch.softmax(self.logits, -1)
        slopes = torch.zeros(len(path), *self.logits.shape, dtype=torch.float64)
        for place, (state, move) in enumerate(zip(self.states(path), path, strict=True)):
            slopes[place, state] = -table[state]
            slopes[place, state, move] += 1
        return slopes

    def chance(self, path: Path) -> float:
        return math.exp(math.fsum(self.logps(path)))

    @property
    def gradient(self) -> Tensor:
        """Of the expected sum of all rewards on the logits."""
        parts = [
            self.chance(path) * (math.fsum(self.rewards(path)) + self.whole(path)) * self.slopes(path).sum(0)
            for path in self.paths
        ]
        return torch.stack(parts).sum(0)

    @property
    def going(self) -> float:
        """The probability that there is a second turn."""
        return 1 - float(torch.softmax(self.logits, -1)[0, 0])

    def groups(self, size: int) -> Iterator[tuple[float, tuple[Path, ...]]]:
        """Every multiset of `size` plays with its probability."""
        for drawn in itertools.combinations_with_replacement(self.paths, size):
            ways = math.factorial(size)
            for count in Counter(drawn).values():
                ways //= math.factorial(count)
            yield ways * math.prod(self.chance(path) for path in drawn), drawn

    def expected(self, recipe: Recipe, size: int = SAMPLES) -> Tensor:
        """The mean over all groups of the step that the recipe makes on the logits."""
        groups = list(self.groups(size))
        rows = [self.row(path, str(number)) for number, (_, drawn) in enumerate(groups) for path in drawn]
        # All groups are one batch; a step's denominators are those of a batch of one group.
        steps = iter(inspect(recipe, {"version": 1, "trajectories": rows})["gradient"])
        total = torch.zeros_like(self.logits)
        for chance, drawn in groups:
            for path in drawn:
                slope = torch.tensor(next(steps), dtype=torch.float64)
                total -= chance * len(groups) * torch.einsum("t,trv->rv", slope, self.slopes(path))
        return total


def game(key: Key, *, again: bool = False, outcome: bool = True, last: bool = True) -> TwoTurns:
    """A random game."""
    rng = key.numpy()

    def numbers(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape))

    drawn = TwoTurns(numbers(MOVES, MOVES), numbers(MOVES), numbers(MOVES, MOVES), numbers(MOVES, MOVES))
    if not outcome:
        drawn = replace(drawn, outcome=torch.zeros(MOVES, MOVES, dtype=torch.float64))
    if not last:
        drawn = replace(drawn, second=torch.zeros(MOVES, MOVES, dtype=torch.float64))
    return replace(drawn, again=1) if again else drawn


def summed(credit: Credit) -> Recipe:
    """The policy gradient with this credit: sums over decisions, means over trajectories."""
    return find("grpo").but({"credit": credit, "objective.aggregate": "sequence-sum"})


def _others(key: Key) -> float:
    """By turn index, by state, and where a state is met twice."""
    cases = [(game(key.derive("a")), INDEX), (game(key.derive("b")), STATE), (game(key.derive("c"), again=True), STATE)]
    return max(apart(world.expected(summed(TurnRelative(by=by))), world.gradient) for world, by in cases)


def _everyone(key: Key) -> float:
    world = game(key)
    expected = world.expected(summed(TurnRelative(by=INDEX, baseline="everyone")))
    return apart(expected, (SAMPLES - 1) / SAMPLES * world.gradient)


def _whole(key: Key) -> float:
    world = game(key)
    return apart(world.expected(summed(GroupRelative(scale=None))), (SAMPLES - 1) / SAMPLES * world.gradient)


def _whole_counter() -> float:
    world = game(Key.of(3))
    shared = find("grpo").but({"credit": GroupRelative(scale=None), "objective.aggregate": "sequence-turn-mean"})
    return bent(world.gradient.flatten(), world.expected(shared).flatten())


def _by_turn(one: TwoTurns, second: float) -> Tensor:
    """The true gradient with the first turn's part times (G - 1)/G and the second's times `second`."""
    factor = torch.tensor([(SAMPLES - 1) / SAMPLES, second, second], dtype=torch.float64)
    return factor[:, None] * one.gradient


def _mean(key: Key) -> float:
    world = game(key)
    reached = 1 - (1 - world.going) ** SAMPLES
    wanted = _by_turn(world, 1 - reached / (SAMPLES * world.going))
    return apart(world.expected(summed(TurnRelative(by=INDEX, baseline="mean"))), wanted)


def _short() -> TwoTurns:
    """A game that the policy mostly ends at once."""
    world = game(Key.of(3))
    ending = torch.zeros(MOVES, MOVES, dtype=torch.float64)
    ending[0, 0] = 2.0
    return replace(world, logits=world.logits + ending)


def _mean_counter() -> float:
    world = _short()
    expected = world.expected(summed(TurnRelative(by=INDEX, baseline="mean")))
    return bent(world.gradient.flatten(), expected.flatten())


def _alone(key: Key) -> float:
    """`GroupRelative` gives 0 to a member without others."""
    world = game(key)
    expected = world.expected(summed(GroupRelative(by=INDEX, scale=None, leave_one_out=True)))
    wanted = torch.cat([world.gradient[:1], (1 - (1 - world.going) ** (SAMPLES - 1)) * world.gradient[1:]])
    return apart(expected, wanted)


def _alone_counter() -> float:
    world = _short()
    expected = world.expected(summed(GroupRelative(by=INDEX, scale=None, leave_one_out=True)))
    return bent(world.gradient.flatten(), expected.flatten())


def _process(key: Key) -> float:
    world = game(key, outcome=False)
    more = replace(world, first=world.first + 1.0, second=world.second + 1.0)
    process = summed(StepRelative(scale=None))
    return apart(world.expected(process), more.expected(process))


def _process_counter() -> float:
    """Every turn earns 1, so longer is better; the process form sees nothing."""
    ones = torch.ones(MOVES, MOVES, dtype=torch.float64)
    world = replace(game(Key.of(3), outcome=False), first=ones[0], second=ones)
    expected = world.expected(summed(StepRelative(scale=None)))
    return apart(world.gradient, expected)


def _turn_and_outcome(key: Key) -> float:
    world = game(key, last=False)
    expected = world.expected(summed(TurnAndOutcome(scale=None)))
    return apart(expected, (SAMPLES - 1) / SAMPLES * world.gradient)


def _turn_and_outcome_counter() -> float:
    world = game(Key.of(3), last=False)
    expected = world.expected(summed(TurnAndOutcome()))
    return bent(world.gradient.flatten(), expected.flatten())


THEOREMS = (
    Theorem(
        "A turn's reward-to-go minus the mean over other trajectories, 0 without any, gives the exact policy gradient "
        "though the policy decides when it ends: by turn, by state, also where a state is met twice.",
        "derived",
        "expectation",
        _others,
    ),
    Theorem(
        "Dividing the turn's sum by all G trajectories, those that never came there counting 0, gives (G-1)/G of it.",
        "derived",
        "expectation",
        _everyone,
    ),
    Theorem(
        "The group's mean return as baseline of every turn, summed over decisions, gives (G-1)/G of the gradient.",
        "derived",
        "expectation",
        _whole,
        counter=_whole_counter,
        claim="dividing each episode's sum by its number of turns keeps the direction (Flow-GRPO's 1/T_i)",
    ),
    Theorem(
        "The mean over those who reached a turn that all reach with probability p shrinks its part of the gradient by "
        "1 - (1 - (1-p)^G)/(G p): rarely reached turns most.",
        "derived",
        "expectation",
        _mean,
        counter=_mean_counter,
        claim="a mean per turn index only rescales the gradient, as the mean of whole groups does",
    ),
    Theorem(
        "Leave-one-out per turn with credit 0 for who is alone shrinks a turn's part by 1 - (1-p)^(G-1).",
        "derived",
        "expectation",
        _alone,
        counter=_alone_counter,
        claim="leave-one-out per turn is unbiased whatever is given to a turn that nobody else reached",
    ),
    Theorem(
        "A constant added to every turn's reward changes nothing in GRPO's process form, in any group.",
        "derived; DeepSeekMath, arXiv:2402.03300, section 4.1.3",
        "expectation",
        _process,
        counter=_process_counter,
        claim="normalising rewards before summing them follows the policy gradient (where every turn earns 1, longer "
        "episodes earn more and the credit is 0)",
    ),
    Theorem(
        "MT-GRPO's added form without deviations and with c = 1 gives (G-1)/G of the policy gradient, whether or not "
        "there is a tool call.",
        "derived; Zeng et al., arXiv:2505.11821",
        "expectation",
        _turn_and_outcome,
        counter=_turn_and_outcome_counter,
        claim="normalising turn and outcome rewards by deviations of their own keeps the direction",
    ),
)
