"""What agentgym-rl claims."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import torch

from hocket.environments.maze import DIRECTIONS
from hocket.environments.protocol import Observation
from hocket.environments.solitary import PLAYER, Solitary
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import Table, TalkBench
from hocket.lab.toys.turn_toys import SEEDS
from hocket.methods.agents.agentgym_rl import AGENTGYM_RL, TurnHorizon
from hocket.types import Message, Scenario
from hocket.workflows.environment import PlayEnvironment
from hocket.workflows.episode import Limits

claim = Claims("agentgym-rl", "arXiv:2509.08755 and its released code")


SIGNS = {
    "wood, a ring": "east",
    "wood, a star": "south",
    "cellar, a ring": "south",
    "cellar, a star": "west",
    "tower, a ring": "west",
    "tower, a star": "north",
}
"""Where each sign of the trail points; a wrong step leads back to the gate."""


TRAIL = [
    f"{area}, a {sign}"
    for area, signs in (
        ("wood", ("ring", "star", "star", "ring")),
        ("cellar", ("ring", "star", "ring", "star")),
        ("tower", ("star", "ring", "star")),
    )
    for sign in signs
]
ROAD = 6
"""Turns of the safe way round, which leads to the near goal alone."""


GOALS = (2, 6, 11)
"""Signs to pass; with the gate 3, 7 and 12 turns."""


def told(place: int) -> str:
    """What is seen at the gate (0), on the trail (1 to 11), or on the road (below 0)."""
    if place == 0:
        return "You are at the gate."
    return "You are on the road." if place < 0 else f"You are in the {TRAIL[place - 1]} on the sign."


def onward(place: int, move: str, goal: int) -> int:
    """Where a move leads; the goal lies behind the last sign."""
    if place == 0:
        return {"east": 1, "west": -1}.get(move, 0)
    if place > 0:
        return place + 1 if move == SIGNS[TRAIL[place - 1]] else 0
    if move != "west":
        return place
    arrived = place == 1 - ROAD and goal == GOALS[0]
    return goal + 1 if arrived else max(place - 1, 1 - ROAD)


class Climb(Solitary):
    """One way up: 1 on reaching the goal."""

    def __init__(self, goal: int) -> None:
        super().__init__(limit=64)
        self.goal = goal
        self.place = 0

    def _begin(self) -> None:
        self.place = 0

    @property
    def done(self) -> bool:
        return self.place == self.goal + 1

    def _moves(self) -> tuple[str, ...]:
        return DIRECTIONS

    def _seen(self) -> Observation:
        return Observation(told(self.place), state=str(self.place))

    def _make(self, move: str) -> float:
        self.place = onward(self.place, move, self.goal)
        return float(self.done)


@dataclass(frozen=True)
class Hill:
    """The world of climbs."""

    agents = (PLAYER,)
    name = "hill"

    def make(self, scenario: Scenario) -> Climb:
        return Climb(int(scenario.metadata["goal"]))


BEFORE: Mapping[str, Mapping[str, float]] = {
    told(0): {"east": 0.5, "west": 1.0},
    told(-1): {"west": 2.0},
    **{told(place): {SIGNS[TRAIL[place - 1]]: 1.0} for place in range(1, len(TRAIL) + 1)},
}
"""Logits of the policy before training: it half knows the signs, and the road well."""


def view(messages: tuple[Message, ...]) -> str:
    return str(messages[-1]["content"]).split("\n")[0]


NO_ROAD = {"east": 6.0, "west": -6.0}
"""Logits at the gate of a policy that never takes the road."""


def climber(
    horizon: TurnHorizon | None, seed: int, limits: Limits | None = None, *, road: bool = True, lr: float = 0.12
) -> TalkBench:
    before = BEFORE if road else {**BEFORE, told(0): NO_ROAD}
    return TalkBench(
        PlayEnvironment(Hill(), memory=False, instruct=False),
        [Scenario(f"{goal} signs", f"{goal}", metadata={"goal": goal}) for goal in GOALS],
        DIRECTIONS,
        AGENTGYM_RL.but(hooks=() if horizon is None else (horizon,)),
        view=view,
        prior=lambda messages, said: before[view(messages)],
        seed=seed,
        lr=lr,
        limits=limits or Limits(turns=None),
    )


def chances(bench: TalkBench, place: int) -> dict[str, float]:
    """How likely each move is at a place."""
    (policy,) = bench.policies.values()
    return dict(zip(DIRECTIONS, policy.probabilities(told(place)).tolist(), strict=True))


def arrivals(bench: TalkBench, turns: int = 16) -> list[float]:
    """The exact chance to arrive within `turns`, per goal."""
    moves = {place: chances(bench, place) for place in range(1 - ROAD, len(TRAIL) + 1)}
    found = []
    for goal in GOALS:
        at = {0: 1.0}
        for _ in range(turns):
            after: dict[int, float] = {}
            for place, chance in at.items():
                for move, likely in moves[place].items() if place != goal + 1 else (("", 1.0),):
                    to = onward(place, move, goal) if move else place
                    after[to] = after.get(to, 0.0) + chance * likely
            at = after
        found.append(at.get(goal + 1, 0.0))
    return found


def longest(bench: TalkBench, steps: int) -> list[int]:
    """Turns of the longest episode of each step."""
    return [max(len(one.turns) for one in bench.step().trajectories) for _ in range(steps)]


def logits(bench: TalkBench) -> torch.Tensor:
    (policy,) = bench.policies.values()
    assert isinstance(policy.module, Table)
    return policy.module.logits.detach()


def numbers(bench: TalkBench) -> list[str]:
    """All metrics but those of speed, as text, so that missing ones are equal too."""
    speed = ("time/", "throughput/")
    return [str([one for one in sorted(row.items()) if not one[0].startswith(speed)]) for row in bench.history]


@claim("With a constant schedule it is the fixed horizon, bit for bit.")
def constant_is_fixed() -> Finding:
    """The same run three times: by the run's own limit, by one horizon, and by three equal ones."""
    same, moved = [], 0.0
    for seed in range(2):
        fixed = climber(None, seed, Limits(turns=8))
        lengths = longest(fixed, 3)
        moved = max(moved, float(logits(fixed).abs().max()))
        for schedule in (TurnHorizon((8,), ()), TurnHorizon((8, 8, 8), (1, 2))):
            ours = climber(schedule, seed)
            same.append(longest(ours, 3) == lengths == [8, 8, 8])
            same[-1] &= numbers(ours) == numbers(fixed) and torch.equal(logits(ours), logits(fixed))
    return Finding(
        all(same) and moved > 0.1,
        f"{sum(same)} of {len(same)} runs of 3 steps with a constant schedule equal the run with limits.turns = 8 bit "
        f"for bit, weights and metrics; logits moved by up to {moved:.2f}",
    )


@claim("Episodes have at most h(t) turns; h moves on after the steps of the released lists.")
def horizon_holds() -> Finding:
    """Six steps with horizons 2, 5 and 9; and the released lists."""
    lengths = longest(climber(TurnHorizon((2, 5, 9), (2, 4)), 0), 6)
    (released,) = AGENTGYM_RL.hooks
    assert isinstance(released, TurnHorizon)
    at = [released.at(step) for step in (1, 100, 101, 200, 201, 5000)]
    return Finding(
        lengths == [2, 2, 5, 5, 9, 9] and at == [10, 10, 20, 20, 30, 30],
        f"longest episodes of six steps {lengths}; the released schedule at steps 1, 100, 101, 200, 201, 5000: {at}",
    )


BUDGET = 8000
"""Turns in the world, those of all episodes together."""


ARMS = {
    "4-8-16": TurnHorizon((4, 8, 16), (18, 36)),
    "16": TurnHorizon((16,), ()),
    "4": TurnHorizon((4,), ()),
}


@dataclass(frozen=True)
class Course:
    """A run of `BUDGET` turns: exact success within 16 turns half-way and at the end, and the chance to take the trail
    before and after."""

    half: float
    end: float
    trail: tuple[float, float]

    @property
    def collapsed(self) -> bool:
        """Whether it has unlearnt the way that all goals share."""
        return self.trail[1] < self.trail[0]


@functools.cache
def course(arm: str, seed: int) -> Course:
    bench = climber(ARMS[arm], seed)
    before, spent, half = chances(bench, 0)["east"], 0.0, None
    while spent < BUDGET:
        spent += bench.step().metrics["tokens/generated"]
        if half is None and spent >= BUDGET / 2:
            half = fmean(arrivals(bench))
    assert half is not None
    return Course(half, fmean(arrivals(bench)), (before, chances(bench, 0)["east"]))


@claim(
    "At equal turns in the world 4-8-16 beats a fixed horizon of 16, with fewer collapses; a fixed 4 plateaus "
    "below both.",
    slow=True,
)
def growing_beats_fixed() -> Finding:
    ours, fixed, short = ([course(arm, seed) for seed in SEEDS] for arm in ARMS)
    ends = [[one.end for one in arm] for arm in (ours, fixed, short)]
    fallen = [sum(one.collapsed for one in arm) for arm in (ours, fixed)]
    gain = max(one.end - one.half for one in short)
    means = [fmean(arm) for arm in ends]
    holds = min(ends[0]) > 0.85 and means[0] > means[1] + 0.2 and fallen[0] < fallen[1]
    plateau = max(ends[2]) < 0.5 and means[2] + 0.05 < means[1] and gain < 0.05
    return Finding(
        holds and plateau,
        f"success within 16 turns over goals 3, 7 and 12 turns away, after {BUDGET} turns in the world, 5 seeds: "
        f"4-8-16 {_shown(ends[0])}; fixed 16 {_shown(ends[1])}; fixed 4 {_shown(ends[2])}, of which the second half "
        f"brought at most {gain:.3f}; runs that take the trail less than before training: {fallen[0]} and {fallen[1]}",
    )


@claim(
    "Where long episodes tempt to nothing, the schedule gains nothing: a fixed horizon of 16 gets there sooner.",
    "derived here; a counter-example",
    slow=True,
)
def without_temptation_nothing_is_gained() -> Finding:
    """The counter-example: the same hill for a policy that never takes the road, with larger steps."""
    ends = []
    for arm in ("4-8-16", "16"):
        found = []
        for seed in SEEDS:
            bench, spent = climber(ARMS[arm], seed, road=False, lr=0.4), 0.0
            while spent < 5000:
                spent += bench.step().metrics["tokens/generated"]
            found.append(fmean(arrivals(bench)))
        ends.append(found)
    return Finding(
        min(ends[1]) > max(ends[0]),
        f"success after 5000 turns in the world, never by the road, lr 0.4, 5 seeds: 4-8-16 {_shown(ends[0])}; fixed "
        f"16 {_shown(ends[1])}",
    )


def _shown(numbers: list[float]) -> str:
    return " ".join(f"{number:.2f}" for number in numbers)
