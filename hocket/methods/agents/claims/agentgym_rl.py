"""AgentGym-RL's claims."""

from __future__ import annotations

from itertools import product
from statistics import fmean
from typing import Any

import torch

from hocket.agents.environments.protocol import Observation
from hocket.agents.environments.solitary import PLAYER, Solitary
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.episode import Limits
from hocket.lab.claims.harness import SEEDS, Claims, Finding, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.methods.agents.agentgym_rl import AGENTGYM_RL, TurnHorizon
from hocket.types import Message, Scenario
from hocket.zoo.maze import DIRECTIONS

claim = Claims("agentgym-rl", "arXiv:2509.08755 and its released code")
# The signs of the trail and where each points; a wrong step leads back to the gate.
SIGNS = {("wood", "ring"): "east", ("wood", "star"): "south", ("cellar", "ring"): "south", ("cellar", "star"): "west"}
SIGNS |= {("tower", "ring"): "west", ("tower", "star"): "north"}
AREAS = ("wood ring star star ring", "cellar ring star ring star", "tower star ring star")
TRAIL = [(area, sign) for area, *signs in map(str.split, AREAS) for sign in signs]
GOALS, ROAD = (2, 6, 11), 6
"""Signs to pass (with the gate 3, 7 and 12 turns), and turns of the safe way round, which leads to the near goal."""


def sight(place: int) -> str:
    """What is seen at the gate (0), on the trail (1 to 11), or on the road (below 0)."""
    if place <= 0:
        return f"You are {'on the road' if place else 'at the gate'}."
    return "You are in the {}, a {} on the sign.".format(*TRAIL[place - 1])


def onward(place: int, move: str, goal: int) -> int:
    """Where a move leads; the goal lies behind the last sign."""
    if place == 0:
        return {"east": 1, "west": -1}.get(move, 0)
    if place > 0:
        return place + 1 if move == SIGNS[TRAIL[place - 1]] else 0
    arrived = move == "west" and place == 1 - ROAD and goal == GOALS[0]
    return goal + 1 if arrived else max(place - (move == "west"), 1 - ROAD)


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
        return Observation(sight(self.place), state=str(self.place))

    def _make(self, move: str) -> float:
        self.place = onward(self.place, move, self.goal)
        return float(self.done)


class Hill:
    """The world of climbs."""

    agents = (PLAYER,)
    name = "hill"

    def make(self, scenario: Scenario) -> Climb:
        return Climb(int(scenario.metadata["goal"]))


def view(messages: tuple[Message, ...]) -> str:
    return str(messages[-1]["content"]).split("\n")[0]


def climber(*horizon: TurnHorizon, turns: int | None = None, road: bool = True, **more: Any) -> TalkBench:
    """A bench on the hill; before training the policy half knows the signs, and the road well or not at all."""
    before = {sight(place + 1): {SIGNS[sign]: 1.0} for place, sign in enumerate(TRAIL)} | {sight(-1): {"west": 2.0}}
    before[sight(0)] = {"east": 0.5, "west": 1.0} if road else {"east": 6.0, "west": -6.0}
    scenarios = [Scenario(f"{goal} signs", f"{goal}", metadata={"goal": goal}) for goal in GOALS]
    flow, recipe = PlayEnvironment(Hill(), memory=False, instruct=False), AGENTGYM_RL.but(hooks=horizon)
    more |= {"prior": lambda messages, _: before[view(messages)], "limits": Limits(turns=turns)}
    return TalkBench(flow, scenarios, DIRECTIONS, recipe, view=view, **{"lr": 0.12, **more})


def chances(bench: TalkBench, place: int) -> dict[str, float]:
    """How likely each move is at a place."""
    return dict(zip(DIRECTIONS, bench.policies["policy"].probabilities(sight(place)).tolist(), strict=True))


def arrival(bench: TalkBench) -> float:
    """The exact chance to arrive within 16 turns, mean over goals."""
    moves = {place: chances(bench, place) for place in range(1 - ROAD, len(TRAIL) + 1)}
    arrived = []
    for goal in GOALS:
        at, there = {0: 1.0}, 0.0
        for _ in range(16):
            after: dict[int, float] = {}
            for (place, chance), move in product(at.items(), DIRECTIONS):
                to = onward(place, move, goal)
                after[to] = after.get(to, 0.0) + chance * moves[place][move]
            there += after.pop(goal + 1, 0.0)
            at = after
        arrived.append(there)
    return fmean(arrived)


def longest(bench: TalkBench, steps: int) -> list[int]:
    """Turns of the longest episode of each step."""
    return [max(len(one.turns) for one in bench.step().trajectories) for _ in range(steps)]


def logits(bench: TalkBench) -> torch.Tensor:
    return bench.policies["policy"].module.logits.detach()


def numbers(bench: TalkBench) -> list[str]:
    """All metrics but those of speed, as text, so that missing ones are equal too."""
    speed = ("time/", "throughput/")
    return [str([one for one in sorted(row.items()) if not one[0].startswith(speed)]) for row in bench.history]


@claim("With a constant schedule it is the fixed horizon, bit for bit.")
def with_a_constant_schedule_it_is_the_fixed_horizon_bit_for_bit() -> Finding:
    """The same run three times: by the run's own limit, by one horizon, and by three equal ones."""
    equal, moves = [], []
    for seed in range(2):
        fixed = climber(seed=seed, turns=8)
        lengths = longest(fixed, 3)
        moves.append(float(logits(fixed).abs().max()))
        for schedule in (TurnHorizon((8,), ()), TurnHorizon((8, 8, 8), (1, 2))):
            ours = climber(schedule, seed=seed)
            same = longest(ours, 3) == lengths == [8, 8, 8] and numbers(ours) == numbers(fixed)
            equal.append(same and torch.equal(logits(ours), logits(fixed)))
    counts = say(runs_of_3_steps=len(equal), equal_to_the_limit_8_bit_for_bit=sum(equal), logits_moved_by=max(moves))
    return Finding(all(equal) and max(moves) > 0.1, counts)


@claim("Episodes have at most h(t) turns; h moves on after the steps of the released lists.")
def episodes_have_at_most_h_turns_h_moves_on_after_the_steps_of_the() -> Finding:
    lengths, (released,) = longest(climber(TurnHorizon((2, 5, 9), (2, 4)), seed=0), 6), AGENTGYM_RL.hooks
    assert isinstance(released, TurnHorizon)
    at = {step: released.at(step) for step in (1, 100, 101, 200, 201, 5000)}
    holds = lengths == [2, 2, 5, 5, 9, 9] and list(at.values()) == [10, 10, 20, 20, 30, 30]
    return Finding(holds, f"longest episodes of six steps {lengths}, the released schedule by step {at!r}")


ARMS = {"4-8-16": TurnHorizon((4, 8, 16), (18, 36)), "16": TurnHorizon((16,), ()), "4": TurnHorizon((4,), ())}


def course(bench: TalkBench, *budgets: int) -> list[float]:
    """The exact success after so many turns in the world, those of all episodes together."""
    spent, reached = 0.0, []
    for budget in budgets:
        while spent < budget:
            spent += bench.step().metrics["tokens/generated"]
        reached.append(arrival(bench))
    return reached


@claim(
    "At equal turns in the world 4-8-16 beats a fixed horizon of 16, with fewer collapses; a fixed 4 plateaus "
    "below both.",
    slow=True,
)
def at_equal_turns_in_the_world_4_8_16_beats_a_fixed_horizon_of_16() -> Finding:
    ends: dict[str, list[float]] = {}
    collapses, gains = dict.fromkeys(ARMS, 0), dict.fromkeys(ARMS, 0.0)
    for (arm, horizon), seed in product(ARMS.items(), SEEDS):
        bench = climber(horizon, seed=seed)
        before = chances(bench, 0)["east"]
        half, end = course(bench, 4000, 8000)
        ends.setdefault(arm, []).append(end)
        gains[arm] = max(gains[arm], end - half)
        # Collapsed is who has unlearnt the way that all goals share.
        collapses[arm] += chances(bench, 0)["east"] < before
    ours, fixed, short = ends.values()
    holds = min(ours) > 0.85 and fmean(ours) > fmean(fixed) + 0.2 and collapses["4-8-16"] < collapses["16"]
    plateau = max(short) < 0.5 and fmean(short) + 0.05 < fmean(fixed) and gains["4"] < 0.05
    figures = {f"fixed {arm}" if len(arm) < 3 else arm: line(values) for arm, values in ends.items()}
    rest = say(most_of_4_in_the_second_half=gains["4"], collapsed=collapses)
    return Finding(holds and plateau, f"success within 16 turns after 8000 in the world: {say(**figures)}, {rest}")


@claim(
    "Where long episodes tempt to nothing, the schedule gains nothing: a fixed horizon of 16 gets there sooner.",
    "derived here; a counter-example",
    slow=True,
)
def where_long_episodes_tempt_to_nothing_the_schedule_gains_nothing() -> Finding:
    def end(arm: str, seed: int) -> float:
        return course(climber(ARMS[arm], seed=seed, road=False, lr=0.4), 5000)[0]

    ours, fixed = ([end(arm, seed) for seed in SEEDS] for arm in ("4-8-16", "16"))
    return Finding(min(fixed) > max(ours), say(success_after_5000_turns_of_growing=line(ours), of_fixed_16=line(fixed)))


claim.shipped(AGENTGYM_RL, "hooks", settings={"curriculum.prompts": 4})
