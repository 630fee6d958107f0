"""What at-grpo claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import torch

from hocket.core.candidates import TURN_REWARD
from hocket.core.casting import Separate
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.documents import random_document
from hocket.lab.microscope import look
from hocket.lab.talk import TalkBench
from hocket.lab.toys.rewarded import SEEDS, line
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.at_grpo import AT_GRPO
from hocket.recipe import Recipe
from hocket.types import Scenario, Trajectory, Turn
from hocket.workflows.reply import Reply
from hocket.workflows.single import SingleTurn
from hocket.workflows.team import Team
from hocket.workflows.workflow import Outcome, Workflow

claim = Claims("at-grpo", "arXiv:2510.11062")


def reached(trajectory: Trajectory) -> float:
    """Whether the goal was reached."""
    score = trajectory.scores.get("goal")
    return float(GOAL.get(trajectory) if score is None else score.value or 0.0)  # type: ignore[arg-type]


GOAL = InfoColumn("goal", "Whether the goal was reached.")


MOVES: Mapping[str, tuple[int, int]] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
GRIDS = ("S..#.#..G", "S#....#.G", "S.#..#..G")
"""Three by three, row by row; `#` is a wall, and from S four moves are the fewest to G."""


STEPS_TO_GOAL = 4


@dataclass(frozen=True)
class Grid:
    """A maze, and the fewest moves from each of its cells to the goal."""

    name: str

    @property
    def cells(self) -> set[tuple[int, int]]:
        return {divmod(place, 3) for place, mark in enumerate(self.name) if mark != "#"}

    def distances(self) -> dict[tuple[int, int], int]:
        found, waiting = {(2, 2): 0}, [(2, 2)]
        for cell in waiting:
            for down, right in MOVES.values():
                before = (cell[0] - down, cell[1] - right)
                if before in self.cells and before not in found:
                    found[before] = found[cell] + 1
                    waiting.append(before)
        return found

    def after(self, at: tuple[int, int], move: str) -> tuple[int, int]:
        """Where a move leads; walls and the edge stop it."""
        there = (at[0] + MOVES[move][0], at[1] + MOVES[move][1])
        return there if there in self.cells else at

    def walked(self, at: tuple[int, int], path: str) -> tuple[int, int]:
        """Where a path leads, up to its first move that brings nobody nearer."""
        away = self.distances()
        for move in path.split():
            there = self.after(at, move)
            if away[there] >= away[at]:
                return at
            at = there
        return at

    def nearer(self, at: tuple[int, int], path: str) -> float:
        """How many moves nearer to the goal a path leads, as a share of the way."""
        away = self.distances()
        return (away[at] - away[self.walked(at, path)]) / STEPS_TO_GOAL


class PlannerChecker(Workflow):
    """The planner writes a path of four moves; the checker mends the first bad one, as often as it may."""

    roles = ("planner", "checker")

    def __init__(self, edits: int = 4) -> None:
        self.edits = edits

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        grid, at = Grid(str(scenario.prompt)), (0, 0)

        def worth(reply: Reply) -> Mapping[str, float]:
            # A path of four distinct moves is not wanted for its own sake: the agents' own reward is for reading well.
            return {"team": grid.nearer(at, reply.text), "own": 0.0}

        plan = await team.planner.candidates(str(scenario.prompt), score=worth)
        at = grid.walked(at, plan.text)
        for _ in range(self.edits):
            if at == (2, 2):
                break
            edit = await team.checker.fresh().candidates(f"{scenario.prompt} stuck at {at}", score=worth)
            at = grid.walked(at, edit.text.split()[0])
        return Outcome(rewards={"goal": float(at == (2, 2))})


class Pathfinder(Workflow):
    """One agent writes the whole path; it is paid for the goal alone, or for the way it came."""

    roles = ("pathfinder",)

    def __init__(self, dense: bool) -> None:
        self.dense = dense

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        grid = Grid(str(scenario.prompt))
        path = await team.pathfinder(str(scenario.prompt))
        goal = float(grid.walked((0, 0), path.text) == (2, 2))
        return Outcome(rewards={"way": grid.nearer((0, 0), path.text) if self.dense else goal}, info={GOAL.name: goal})


def walking(workflow: Workflow, recipe: Recipe, seed: int) -> TalkBench:
    """A bench in the three grids."""
    scenarios = [Scenario(name, name) for name in GRIDS]
    return TalkBench(workflow, scenarios, tuple(MOVES), recipe, length=4, measure=reached, lr=0.1, seed=seed)


def tokens_before(turn: Turn) -> tuple[int, ...]:
    """Every token that stood before an answer, from the root of its conversation."""
    found: list[int] = []
    for link in turn.context():
        found += link.observation.tolist()
        if link is not turn:
            found += link.action.tolist()
    return tuple(found)


class Talk(Workflow):
    """Two agents that remember, two turns each: every turn is asked for candidates."""

    roles = ("first", "second")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = str(scenario.prompt)
        for round_ in range(2):
            for role in self.roles:

                def worth(reply: Reply, place: int = round_) -> Mapping[str, float]:
                    words = reply.text.split()
                    return {"team": words.count("up") / 3, "own": 0.25 * (place + len(set(words)))}

                said = (await team[role].candidates(said, score=worth)).text
        return Outcome(rewards={"goal": 1.0})


@claim("all members of a group answer one identical prompt; credit is that of the mixed reward; the best goes on")
def candidates_share_their_prompt() -> Finding:
    """Groups hold one prompt, by an independent walk; advantages are those of the mixed reward; the best goes on."""
    recipe = AT_GRPO.but({"rollout.candidates": 4, "rollout.trunks": 2, "rollout.alpha": 0.5})
    bench = TalkBench(Talk(), [Scenario(w, w) for w in ("a", "b")], ("up", "down", "left"), recipe, length=2)
    result = bench.step()
    batch, found = result.batch, result.trajectories
    assert batch is not None
    rows: dict[tuple[str, str, tuple[int, ...]], list[tuple[float, float, bool]]] = {}
    seen, place = batch.occurrences, 0
    for trajectory in found:
        for turn, reward in zip(trajectory.turns, trajectory.scores[TURN_REWARD].value, strict=True):  # type: ignore[arg-type]
            words = turn.text.split()
            key = (trajectory.scenario.id, turn.agent, tokens_before(turn))
            rows.setdefault(key, []).append((float(reward), float(seen.advantage[place]), trajectory.source == "own"))
            right = 0.5 * words.count("up") / 3 + 0.25 * (len(set(words)) + (turn.parent is not None))
            if abs(right - float(reward)) > 1e-12 or len(set(seen.advantage[place : place + 2].tolist())) > 1:
                return Finding(False, f"{turn}: reward {reward}, {right} by hand")
            place += len(turn)
    worst, sizes = 0.0, []
    for members in rows.values():
        values = [reward for reward, _, _ in members]
        sizes.append(len(values))
        mean = fmean(values)
        std = math.sqrt(sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1))
        same = max(values) == min(values)
        worst = max(worst, *(abs(a - (0.0 if same else (r - mean) / (std + 1e-8))) for r, a, _ in members))
        # Both trunks open with the same prompt, so such a group holds the candidates of both.
        if len(members) == 4 and max(values) != next(reward for reward, _, trunk in members if trunk):
            return Finding(False, "another candidate than the best was executed")
    holds = worst < 1e-10 and min(sizes) >= 4 and sum(sizes) == 2 * 2 * 4 * 4
    return Finding(
        holds, f"{len(sizes)} groups of {min(sizes)} to {max(sizes)}, one prompt each; advantages within {worst:.1e}"
    )


@claim("with one agent and one turn it is GRPO")
def one_turn_is_grpo() -> Finding:
    """The same samples, the same gradient and, trained side by side, the same policy to the last bit."""
    grpo = GRPO.but({"credit.epsilon": 1e-8})
    batch = random_document(Key.of(3), graded=True)
    left, right = look(AT_GRPO, batch), look(grpo, batch)
    apart = max(
        abs(a - b)
        for one, other in zip(left["gradient"], right["gradient"], strict=True)
        for a, b in zip(one, other, strict=True)
    )
    chances = []
    for recipe in (AT_GRPO, grpo.but({"rollout.samples": 4})):
        policy = walking(Alone(), recipe, seed=1).run(5).policies["policy"]
        said = [(), *((move,) for move in MOVES)]
        chances.append(torch.stack([policy.probabilities(grid, said=words) for grid in GRIDS for words in said]))
    same = torch.equal(*chances) and bool((chances[0] - 0.25).abs().max() > 0.05)
    return Finding(apart < 1e-12 and same, f"gradients within {apart:.1e}; equal policies after 5 steps: {same}")


class Alone(SingleTurn):
    """One agent, one turn, paid for the way it came."""

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        path = await team.policy(str(scenario.prompt))
        return Outcome(rewards={"way": Grid(str(scenario.prompt)).nearer((0, 0), path.text)}, info={GOAL.name: 0.0})


@claim(
    "a planner and a checker with a policy each clearly beat a single agent; exchanging the two collapses success",
    slow=True,
)
def roles_beat_a_single_agent() -> Finding:
    """Planner and checker with a policy each, against one agent with as many sampled words."""
    found: dict[str, list[float]] = {"team": [], "swapped": [], "one": [], "dense": []}
    words = {"team": 0.0, "one": 0.0}
    for seed in SEEDS:
        bench = walking(PlannerChecker(), AT_GRPO.but(cast=Separate()), seed).run(25)
        found["team"].append(bench.success(20))
        seats = bench.player.seats
        bench.player = replace(bench.player, seats={"planner": seats["checker"], "checker": seats["planner"]})
        found["swapped"].append(bench.success(20))
        words["team"] += sum(row["tokens/generated"] for row in bench.history)
        for name, dense in (("one", False), ("dense", True)):
            single = walking(Pathfinder(dense), GRPO.but({"rollout.samples": 16}), seed).run(25)
            found[name].append(single.success(20))
        words["one"] += sum(row["tokens/generated"] for row in single.history)
    holds = (
        min(found["team"]) > 0.75
        and min(found["team"]) > max(*found["one"], *found["dense"]) + 0.2
        and max(found["swapped"]) < 0.2
        and words["team"] <= words["one"]
    )
    return Finding(
        holds,
        f"goal reached, 5 seeds: team {line(found['team'])}, seats exchanged {line(found['swapped'])}; one agent by "
        f"GRPO {line(found['one'])}, paid for the way {line(found['dense'])}; {words['team'] / 5:.0f} and "
        f"{words['one'] / 5:.0f} words sampled",
    )
