"""Hi-Agent's claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch

import hocket
from hocket import tasks
from hocket.agents.environments.protocol import Environment, Observation
from hocket.agents.environments.solitary import Solitary
from hocket.core.candidates import TURN_REWARD
from hocket.core.casting import Leading
from hocket.core.columns import RETURNS
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.talk import LookupPolicy, TalkBench
from hocket.lab.toys.recorded_answers import group_relative, line
from hocket.lab.toys.talks import stepped
from hocket.methods.agents.hi_agent import (
    HI_AGENT,
    PLANNER_SYSTEM,
    Subgoals,
    remaining,
)
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.types import Scenario, Trajectory, Turn
from hocket.update.gradient import GradientStep
from hocket.zoo.household import Household
from hocket.zoo.household import plan as household_plan
from hocket.zoo.maze import Maze

claim = Claims("hi-agent", "arXiv:2510.14388 (abstract)")

COLOURS = ("red", "green", "blue")
PLACES = ("1", "2", "3")
FORM = 0.1


# ---------------------------------------------------------------- landmarks in a row


@dataclass(frozen=True)
class Doors:
    """Rooms in a row. Each has three doors of three colours; one of them leads on, the others do not open.

    Attributes:
        rooms: how many; as many moves may be made, so that every one must be right.
    """

    rooms: int = 2

    agents = ("player",)
    name = "doors"

    def make(self, scenario: Scenario) -> Corridor:
        return Corridor(self.rooms)


class Corridor(Solitary):
    """One walk through the rooms: 1 at the end. Moves are the doors' places, landmarks their colours."""

    def __init__(self, rooms: int) -> None:
        super().__init__(rooms)
        self.rooms, self.room = rooms, 0

    def _begin(self) -> None:
        self.room = 0

    @property
    def done(self) -> bool:
        return self.room == self.rooms

    @property
    def remaining(self) -> int:
        """Moves to the end."""
        return self.rooms - self.room

    def _moves(self) -> tuple[str, ...]:
        return PLACES

    def _seen(self) -> Observation:
        return Observation(f"Room {self.room}: {' '.join(order(self.room))}.", state=str(self.room))

    def observe(self, agent: str) -> Observation:
        seen = self._seen()
        return Observation(seen.text, PLACES, seen.state)

    def _make(self, move: str) -> float:
        self.room += order(self.room)[PLACES.index(move)] == right(self.room)
        return float(self.done)


def order(room: int) -> tuple[str, ...]:
    """The colours of a room's doors from the left."""
    turn = room % 3
    return COLOURS[turn:] + COLOURS[:turn]


def right(room: int) -> str:
    """The colour that leads on."""
    return COLOURS[(room * room + 1) % 3]


def flow(rooms: int, **more: Any) -> Subgoals:
    """The walk, for planner and actor."""
    return Subgoals(Doors(rooms), **{"turns": rooms, "instruct": False, "memory": False, **more})


def names_colours(messages: Any, said: Any) -> Mapping[str, float]:
    """A planner that knows what landmarks are, and no more."""
    return dict.fromkeys(PLACES, -30.0)


def obeys(messages: Any, said: Any) -> Mapping[str, float]:
    """An actor that goes where it is told."""
    seen, colour = _told(str(messages[-1]["content"]))
    return {place: 30.0 for place, one in zip(PLACES, seen, strict=True) if one == colour}


def stumbles(messages: Any, said: Any) -> Mapping[str, float]:
    """An actor that knows what moves are, and no more."""
    return dict.fromkeys(COLOURS, -30.0)


def _told(text: str) -> tuple[list[str], str]:
    """The colours of the doors and the subgoal in what the actor is told."""
    return text.partition(": ")[2].partition(".")[0].split(), text.rpartition(" ")[2]


HELD = HI_AGENT.but(name="held", cast=Leading("planner", "actor"))


def bench(
    workflow: Subgoals, recipe: Recipe, actor: Any = obeys, words: tuple[str, ...] = (), seed: int = 0, **more: Any
) -> TalkBench:
    """Planner and actor on tables; `words` may be said besides."""
    prior = {"planner": names_colours, "actor": actor}
    scenario = [Scenario("walk", "walk")]
    return TalkBench(
        workflow, scenario, (*COLOURS, *PLACES, *words), recipe, prior=prior, seed=seed, **{"lr": 0.2, **more}
    )


def situation(workflow: Subgoals, room: int) -> str:
    """What the planner is told in a room."""
    corridor = workflow.world.make(Scenario("walk", "walk"))
    assert isinstance(corridor, Corridor)
    corridor.room = room
    return workflow.situation(corridor.observe("player"))


def by_role(played: list[Trajectory], role: str) -> list[tuple[Turn, float]]:
    """Every answer of a role with what it earned."""
    found = []
    for trajectory in played:
        values = trajectory.scores[TURN_REWARD].value
        found += [(turn, float(v)) for turn, v in zip(trajectory.turns, values, strict=True) if turn.role == role]  # type: ignore[arg-type]
    return found


def told(turn: Turn) -> str:
    """The last message before an answer."""
    return str(turn.prompt[-1]["content"])


# ---------------------------------------------------------------- the formula


@claim("R(move) = feedback + form, R(subgoal) = the mean feedback of the actor's moves for it + form, by hand.")
def r_feedback_form_r_the_mean_feedback_of_the_actors_moves_for_it() -> Finding:
    recipe = HI_AGENT.but({"rollout.alpha": 0.5, "rollout.candidates": 3})
    _, played = stepped(bench(flow(3), recipe, actor=None, words=("red\nblue",), seed=4))
    moves, subgoals = by_role(played, "actor"), by_role(played, "planner")
    off, feedback, kinds = [0.0], dict[str, list[float]](), set[bool]()
    for turn, earned in moves:
        colours, _ = _told(told(turn))
        legal = turn.text in PLACES
        led = legal and colours[PLACES.index(turn.text)] == right(_room(turn))
        feedback.setdefault(told(turn), []).append(float(led))
        off.append(earned - (0.5 * led + FORM * legal))
    for turn, earned in subgoals:
        named, *rest = turn.text.splitlines()
        tried = feedback[f"{told(turn)}\nSubgoal: {named}"]
        assert len(tried) % 3 == 0
        if len(tried) == 3:  # Said twice, the moves of both are one group.
            off.append(earned - (0.5 * fmean(tried) + FORM * (not rest)))
            kinds.add(bool(rest))
    holds = kinds == {True, False} and (len(moves), len(subgoals)) == (27, 9) and len(off) > 30
    holds &= 0.5 + FORM in {earned for _, earned in moves}
    return below(EXACT, holds, off=max(map(abs, off)))


@claim("A_i = (R_i - mean R)/(std R + 1e-8) over the subgoals for one situation, and over the moves for one subgoal.")
def a_i_over_the_subgoals_for_one_situation_and_over_the_moves_for() -> Finding:
    batch, played = stepped(bench(flow(3), HI_AGENT, actor=stumbles, seed=4))
    advantage, place = batch.occurrences.advantage.tolist(), 0
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for trajectory in played:
        for turn, reward in zip(trajectory.turns, trajectory.scores[TURN_REWARD].value, strict=True):  # type: ignore[arg-type]
            groups.setdefault((turn.role, told(turn)), []).append((float(reward), advantage[place]))
            place += len(turn)
    off, sizes = [], {"planner": 0, "actor": 0}
    for (role, _), members in groups.items():
        rewards, given = zip(*members, strict=True)
        flat = max(rewards) == min(rewards)
        off.append(gap(list(given), [0.0] * len(rewards) if flat else group_relative(rewards, 1e-8)))
        sizes[role] += 1
    figures = say(groups=sizes, off=max(off))
    return Finding(max(off) < 1e-10 and min(sizes.values()) >= 2, figures)


@claim("With the actor held, the planner's update is that of GRPO on a contextual bandit that pays R(subgoal).")
def with_the_actor_held_the_planners_update_is_that_of_grpo_on_a() -> Finding:
    off, moved, still, contexts = [0.0], [], [], set[str]()
    bandit = GRPO.but({"credit.epsilon": 1e-8})
    for seed in range(5):
        workflow = flow(3)
        one = bench(workflow, HELD.but({"update": GradientStep(method="sgd", lr=1.0, clip_norm=None)}), seed=seed)
        planner, actor = one.policies["planner"], one.policies["actor"]
        before = {room: _chances(planner, situation(workflow, room)) for room in range(3)}
        _, played = stepped(one)
        said = [turn for turn, _ in by_role(played, "planner")]
        rows = [
            {
                "group": told(turn),
                "scores": {"reward": (turn.text == right(_room(turn))) + FORM},
                "logp": [math.log(before[_room(turn)][one.words.index(turn.text)])],
            }
            for turn in said
        ]
        slope = inspect_rows(bandit, rows)["gradient"]
        wanted = {room: np.zeros(len(one.words)) for room in range(3)}
        for turn, (own,) in zip(said, slope, strict=True):
            room = _room(turn)
            wanted[room] -= own * (np.eye(len(one.words))[one.words.index(turn.text)] - before[room])
        for room, step in wanted.items():
            row = planner.rows.row(planner.rows.chat.opening(_messages(situation(workflow, room)))[-1], ())
            off.append(gap(planner.module.logits.detach()[row], torch.from_numpy(step)))
            moved.append(float(np.abs(step).max()))
        still.append(float(actor.module.logits.detach().abs().max()))
        contexts |= {told(turn) for turn in said}
    figures = say(steps=5, contexts=len(contexts), off=max(off), largest_step=max(moved), actor_moved=max(still))
    return Finding(max(off) < 1e-7 and max(moved) > 0.1 and max(still) == 0 and len(contexts) == 3, figures)


def _room(turn: Turn) -> int:
    return int(told(turn).split()[1].rstrip(":"))


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": PLANNER_SYSTEM}, {"role": "user", "content": text}]


def _chances(policy: LookupPolicy, text: str) -> Any:
    return policy.probabilities(text, system=PLANNER_SYSTEM).numpy()


# ---------------------------------------------------------------- what it costs

GOOD, MOST = 0.9, 4000
"""The chance to pass that counts as solved, and steps at most."""

HORIZONS = (2, 4, 6)

WHOLE = GRPO.but(name="whole episodes", cast=Leading("planner", "actor"), **{"rollout.samples": 4})


def to_solve(recipe: Recipe, rooms: int, seed: int) -> tuple[int, int]:
    """Subgoals sampled in training until each room is passed with chance `GOOD`, and until all are in one walk.

    The actor obeys, so the chances are exact.
    """
    workflow, found = flow(rooms), list[int]()
    one = bench(workflow, recipe, seed=seed)
    sampled = 0
    while one.done < MOST and len(found) < 2:
        result = one.step()
        sampled += sum(turn.role == "planner" for each in result.trajectories for turn in each.turns)
        planner = one.policies["planner"]
        chance = [_chances(planner, situation(workflow, room))[COLOURS.index(right(room))] for room in range(rooms)]
        solved = sum(float(one) >= GOOD for one in (min(chance), math.prod(chance)))
        found += [sampled] * (solved - len(found))
    return found[0], found[-1] if len(found) > 1 else sampled


@claim(
    "Subgoals sampled until every one of H rooms is passed grow about linearly in H; those of whole episodes that are "
    "paid at the end grow much faster.",
    slow=True,
)
def subgoals_sampled_until_every_one_of_h_rooms_is_passed_grow() -> Finding:
    cost = {
        recipe.name: [[to_solve(recipe, rooms, seed) for seed in range(3)] for rooms in HORIZONS]
        for recipe in (HELD, WHOLE)
    }
    each, walk = (
        {name: [fmean(one[place] for one in runs) for runs in found] for name, found in cost.items()}
        for place in range(2)
    )
    growth = {name: found[-1] / found[0] for name, found in each.items()}
    holds = 2 <= growth["held"] <= 4 and growth["whole episodes"] > 5 * growth["held"]
    figures = {name: " ".join(f"{value:.0f}" for value in found) for name, found in each.items()}
    whole = {name: " ".join(f"{value:.0f}" for value in found) for name, found in walk.items()}
    return Finding(holds, say(rooms=str(HORIZONS), sampled=figures, growth=growth, until_90_percent_of_walks=whole))


@claim(
    "Planner and actor learn together, from nothing, without a critic; with feedback left out they do not.", slow=True
)
def planner_and_actor_learn_together_from_nothing_without_a_critic() -> Finding:
    after: dict[str, list[float]] = {}
    for name, recipe in (("both", HI_AGENT), ("no feedback", HI_AGENT.but({"rollout.alpha": 0.0}))):
        for seed in range(3):
            one = bench(flow(3), recipe, actor=stumbles, seed=seed, measure=lambda walk: RETURNS.get(walk)["player"])
            before = one.success(100)
            after.setdefault(name, []).append(one.run(60).success(100))
            after.setdefault("before", []).append(before)
            assert set(one.policies) == {"planner", "actor"}
    holds = min(after["both"]) > 0.9 and max(after["no feedback"]) < 0.3 and max(after["before"]) < 0.2
    return Finding(holds, say(**{name.replace(" ", "_"): line(found) for name, found in after.items()}))


# ---------------------------------------------------------------- feedback and how it is played


@claim(
    "Progress is that fewer moves remain: in mazes and households by their own shortest ways; elsewhere it is refused."
)
def progress_is_that_fewer_moves_remain_in_mazes_and_households_by() -> Finding:
    wrong, seen = list[str](), list[float]()
    for name in ("maze?width=3&height=3&loops=1&steps=10", "household?steps=10"):
        workflow = tasks.find(f"subgoals:{name}").workflow  # type: ignore[attr-defined]
        for number in range(4):
            scenario = tasks.find(f"subgoals:{name}").scenario("train", number)
            environment = workflow.world.make(scenario)
            environment.reset(Key.of(number))
            rng = Key.of(number).numpy()
            for _ in range(6):
                if not environment.acting:
                    break
                moves = (*(environment.observe("player").actions or ()), "fly")
                worth = {move: workflow._made(environment, move).worth for move in moves}
                ways = {move: float(_left(environment, move) < _left(environment)) for move in moves}
                wrong += [f"{name} {number}"] if worth != ways or worth["fly"] != 0 else []
                seen += worth.values()
                environment.act({"player": moves[int(rng.integers(len(moves)))]})
    try:
        said = str(remaining(_Endless(3)))
    except hocket.ConfigurationError as error:
        said = str(error)
    holds = not wrong and 0.05 < fmean(seen) < 0.95 and "_Endless does not say how many moves remain" in said
    return Finding(holds, say(moves=len(seen), nearer=fmean(seen), wrong=len(wrong)))


def _left(environment: Environment, move: str | None = None) -> int:
    """Moves to the end, after a move, counted by trying all ways breadth first or by the house's own plan."""
    then = environment.clone()
    if move is not None:
        then.act({"player": move})
    if isinstance(then, Household):
        return len(household_plan(then.house, then.now))
    assert isinstance(then, Maze)
    reached, cells = 0, {then.cell}
    while then.layout.goal not in cells:
        cells |= {way for cell in cells for way in then.layout.ways[cell]}
        reached += 1
    return reached


class _Endless(Corridor):
    remaining = None  # type: ignore[assignment]


async def _likes_blue(seen: str, subgoal: str) -> float:
    return 0.25 * (subgoal == "blue") * seen.startswith("Room")


@claim("A judge's opinion of the subgoal is added to what it earns, and to nothing else.")
def a_judges_opinion_of_the_subgoal_is_added_to_what_it_earns_and() -> Finding:
    off = []
    _, played = stepped(bench(flow(2, judge=_likes_blue), HI_AGENT, seed=3))
    for turn, earned in by_role(played, "planner"):
        off.append(earned - (turn.text == right(_room(turn))) - FORM - 0.25 * (turn.text == "blue"))
    liked = sum(turn.text == "blue" for turn, _ in by_role(played, "planner"))
    most = max(earned for _, earned in by_role(played, "actor"))
    return below(EXACT, liked > 0, most == 1 + FORM, off=max(map(abs, off)))


claim.shipped(
    HI_AGENT,
    without={"rollout.alpha": 0.0},
    trains=("planner", "actor"),
    settings={"curriculum.prompts": 2},
    sees=lambda run: {
        "candidates": run.mean("branches"),
        "groups of the planner": run.mean("planner/groups/with_signal"),
        "groups of the actor": run.mean("actor/groups/with_signal"),
    },
)
