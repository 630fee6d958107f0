"""AT-GRPO's claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.candidates import TURN_REWARD
from hocket.core.casting import Separate
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import SEEDS, gap, gradient, say
from hocket.lab.documents import random_document
from hocket.lab.talk import TalkBench
from hocket.lab.toys.rewarded import group_relative, line
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.at_grpo import AT_GRPO
from hocket.recipe import Recipe
from hocket.types import Scenario, Trajectory, Turn
from hocket.workflows.reply import Reply
from hocket.workflows.single import SingleTurn
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("at-grpo", "arXiv:2510.11062")
GOAL = InfoColumn("goal", "Whether the goal was reached.")
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
GRIDS = ("S..#.#..G", "S#....#.G", "S.#..#..G")
"""Three by three, row by row; `#` is a wall, and from S four moves are the fewest to G."""
Cell = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """A maze of `GRIDS`."""

    name: str
    START: ClassVar[Cell] = (0, 0)
    END: ClassVar[Cell] = (2, 2)

    def distances(self) -> dict[Cell, int]:
        """The fewest moves from each of its cells to the goal."""
        cells = {divmod(place, 3) for place, mark in enumerate(self.name) if mark != "#"}
        away, waiting = {self.END: 0}, [self.END]
        for cell in waiting:
            for down, right in MOVES.values():
                before = (cell[0] - down, cell[1] - right)
                if before in cells and before not in away:
                    away[before] = away[cell] + 1
                    waiting.append(before)
        return away

    def walked(self, at: Cell, path: str) -> Cell:
        """Where a path leads, up to its first move that brings nobody nearer; walls and the edge stop it."""
        away = self.distances()
        for move in path.split():
            there = (at[0] + MOVES[move][0], at[1] + MOVES[move][1])
            if away.get(there, away[at]) >= away[at]:
                return at
            at = there
        return at

    def nearer(self, at: Cell, path: str) -> float:
        """How many moves nearer to the goal a path leads, as a share of the way."""
        away = self.distances()
        return (away[at] - away[self.walked(at, path)]) / 4


class PlannerChecker(Workflow):
    """The planner writes a path of four moves; the checker mends the first bad one, up to four times."""

    roles = ("planner", "checker")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        grid, at = Grid(str(scenario.prompt)), Grid.START

        def worth(reply: Reply) -> Mapping[str, float]:
            # A path of four distinct moves is not wanted for its own sake: the agents' own reward is for reading well.
            return {"team": grid.nearer(at, reply.text), "own": 0.0}

        at = grid.walked(at, (await team.planner.candidates(str(scenario.prompt), score=worth)).text)
        for _ in range(4):
            if at != Grid.END:
                edit = await team.checker.fresh().candidates(f"{scenario.prompt} stuck at {at}", score=worth)
                at = grid.walked(at, edit.text.split()[0])
        return Outcome(rewards={"goal": float(at == Grid.END)})


class Pathfinder(SingleTurn):
    """One agent writes the whole path; it is paid for the goal alone, or for the way it came."""

    def __init__(self, dense: bool) -> None:
        self.dense = dense

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        grid, path = Grid(str(scenario.prompt)), (await team.policy(str(scenario.prompt))).text
        goal = float(grid.walked(Grid.START, path) == Grid.END)
        way = grid.nearer(Grid.START, path) if self.dense else goal
        return Outcome(rewards={"way": way}, info={GOAL.name: goal})


def reached(trajectory: Trajectory) -> float:
    """Whether the goal was reached."""
    score = trajectory.scores.get("goal")
    return float(GOAL.get(trajectory) if score is None else score.value or 0.0)  # type: ignore[arg-type]


def walking(workflow: Workflow, recipe: Recipe, seed: int) -> TalkBench:
    """A bench in the three grids."""
    scenarios = [Scenario(name, name) for name in GRIDS]
    return TalkBench(workflow, scenarios, tuple(MOVES), recipe, length=4, measure=reached, lr=0.1, seed=seed)


def tokens_before(turn: Turn) -> tuple[int, ...]:
    """Every token that stood before an answer, from the root of its conversation."""
    links = [
        [*link.observation.tolist(), *(link.action.tolist() if link is not turn else ())] for link in turn.context()
    ]
    return tuple(token for tokens in links for token in tokens)


class TwoAgents(Workflow):
    """Two agents that remember, two turns each: every turn is asked for candidates."""

    roles = ("first", "second")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        message = str(scenario.prompt)
        for place, role in ((place, role) for place in range(2) for role in self.roles):

            def worth(reply: Reply, place: int = place) -> Mapping[str, float]:
                words = reply.text.split()
                return {"team": words.count("up") / 3, "own": 0.25 * (place + len(set(words)))}

            message = (await team[role].candidates(message, score=worth)).text
        return Outcome(rewards={"goal": 1.0})


@claim("all members of a group answer one identical prompt; credit is that of the mixed reward; the best goes on")
def _() -> Finding:
    recipe = AT_GRPO.but({"rollout.candidates": 4, "rollout.trunks": 2, "rollout.alpha": 0.5})
    result = TalkBench(
        TwoAgents(), [Scenario(w, w) for w in ("a", "b")], ("up", "down", "left"), recipe, length=2
    ).step()
    assert result.batch is not None
    rows: dict[tuple[str, str, tuple[int, ...]], list[tuple[float, float, bool]]] = {}
    advantage, place = result.batch.occurrences.advantage.tolist(), 0
    for trajectory in result.trajectories:
        for turn, reward in zip(trajectory.turns, trajectory.scores[TURN_REWARD].value, strict=True):  # type: ignore[arg-type]
            words, own = turn.text.split(), advantage[place : place + len(turn)]
            right = 0.5 * words.count("up") / 3 + 0.25 * (len(set(words)) + (turn.parent is not None))
            if abs(right - float(reward)) > 1e-12 or len(set(own)) > 1:
                return Finding(False, f"{turn}: reward {reward}, {right} by hand")
            member = (float(reward), own[0], trajectory.source == "own")
            rows.setdefault((trajectory.scenario.id, turn.agent, tokens_before(turn)), []).append(member)
            place += len(turn)
    gaps, sizes = [], [len(members) for members in rows.values()]
    for members in rows.values():
        rewards, advantages, trunks = zip(*members, strict=True)
        flat = max(rewards) == min(rewards)
        gaps.append(gap(list(advantages), [0.0] * len(rewards) if flat else group_relative(rewards, 1e-8)))
        # Both trunks open with the same prompt, so such a group holds the candidates of both.
        if len(members) == 4 and max(rewards) != rewards[trunks.index(True)]:
            return Finding(False, "another candidate than the best was executed")
    holds = max(gaps) < 1e-10 and min(sizes) >= 4 and sum(sizes) == 2 * 2 * 4 * 4
    figures = say(groups_of_one_prompt=len(sizes), least=min(sizes), most=max(sizes), advantages_within=max(gaps))
    return Finding(holds, figures)


@claim("with one agent and one turn it is GRPO")
def _() -> Finding:
    """The same samples, the same gradient and, trained side by side, the same policy to the last bit."""
    grpo, batch = GRPO.but({"credit.epsilon": 1e-8}), random_document(Key.of(3), graded=True)
    apart, chances = gap(gradient(AT_GRPO, batch), gradient(grpo, batch)), []
    for recipe in (AT_GRPO, grpo.but({"rollout.samples": 4})):
        policy = walking(Pathfinder(dense=True), recipe, seed=1).run(5).policies["policy"]
        words = [(), *((move,) for move in MOVES)]
        chances.append(torch.stack([policy.probabilities(grid, said=said) for grid in GRIDS for said in words]))
    same = torch.equal(*chances) and bool((chances[0] - 0.25).abs().max() > 0.05)
    return Finding(apart < 1e-12 and same, say(gradients_within=apart, equal_policies_after_5_steps=same))


@claim(
    "a planner and a checker with a policy each clearly beat a single agent; exchanging the two collapses success",
    slow=True,
)
def _() -> Finding:
    reach: dict[str, list[float]] = {"team": [], "seats exchanged": [], "one agent by GRPO": [], "paid for the way": []}
    words = {"team": 0.0, "one agent by GRPO": 0.0}

    def grown(name: str, bench: TalkBench) -> TalkBench:
        reach[name].append(bench.run(25).success(20))
        if name in words:
            words[name] += sum(row["tokens/generated"] for row in bench.history) / 5
        return bench

    for seed in SEEDS:
        bench = grown("team", walking(PlannerChecker(), AT_GRPO.but(cast=Separate()), seed))
        actors = bench.player.actors
        bench.player = replace(bench.player, actors={"planner": actors["checker"], "checker": actors["planner"]})
        reach["seats exchanged"].append(bench.success(20))
        for name, dense in (("one agent by GRPO", False), ("paid for the way", True)):
            grown(name, walking(Pathfinder(dense), GRPO.but({"rollout.samples": 16}), seed))
    team, swapped, one, dense_ = reach.values()
    holds = min(team) > 0.75 and min(team) > max(*one, *dense_) + 0.2 and max(swapped) < 0.2
    figures = say(**{name: line(values) for name, values in reach.items()}, words_sampled=words)
    return Finding(holds and words["team"] <= words["one agent by GRPO"], f"goal reached: {figures}")
