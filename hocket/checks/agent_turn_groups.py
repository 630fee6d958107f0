"""AT-GRPO: candidates of one agent's turn, compared with each other. And ReMA's ratio per turn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import torch

from hocket.casting import Separate
from hocket.checks.check import Check, Finding
from hocket.checks.rewarded import SEEDS, document, line
from hocket.core.candidates import TURN_REWARD
from hocket.core.columns import InfoColumn
from hocket.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.talk import TalkBench
from hocket.microscope import Reading, look
from hocket.recipe import Recipe
from hocket.recipes.group_relative import GRPO
from hocket.recipes.team_credit import AT_GRPO, REMA
from hocket.types import Evaluation, Scenario, Trajectory, Turn
from hocket.workflows import Outcome, SingleTurn, Workflow
from hocket.workflows.reply import Reply
from hocket.workflows.team import Team

GOAL = InfoColumn("goal", "Whether the goal was reached.")


# ---------------------------------------------------------------- a grid, a planner and a checker

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


# ---------------------------------------------------------------- ReMA's turn-level ratio


def turns_document(key: Key, *, gap: float = 0.3) -> dict[str, object]:
    """Random trajectories of 1 to 4 turns of 1 to 4 decisions."""
    rng = key.numpy()
    rows = []
    for number in range(8):
        lengths = rng.integers(1, 5, int(rng.integers(1, 5)))
        turn = [place for place, length in enumerate(lengths) for _ in range(int(length))]
        behaviour = -rng.exponential(1.0, len(turn)) - 1.0
        rows.append(
            {
                "group": f"group {number % 2}",
                "scores": {"reward": float(rng.random())},
                "turn": turn,
                "logp_behaviour": behaviour.tolist(),
                "logp": (behaviour + gap * rng.normal(size=len(turn))).tolist(),
            }
        )
    return document(rows)


def ratios(recipe: Recipe, batch: dict[str, object]) -> list[float]:
    """The ratio of each occurrence's turn."""
    read = Reading(batch)
    objective = recipe.objective
    own = read.logp[read.batch.occurrences.decision] - read.batch.logp["behaviour"].values
    return objective.ratio(own, read.batch).tolist()  # type: ignore[attr-defined,no-any-return]


def ratio_is_one_at_first() -> Finding:
    """At pi = pi_old every turn's ratio is 1 and the gradient is A / (turns, trajectories, decisions of the turn)."""
    batch = turns_document(Key.of(1), gap=0.0)
    found = look(REMA, batch)
    worst = max(abs(ratio - 1) for mean in ("geometric", "arithmetic") for ratio in _of(mean, batch))
    rows = batch["trajectories"]
    for row, gradient, advantage in zip(rows, found["gradient"], found["advantages"], strict=True):  # type: ignore[call-overload]
        turns = row["turn"]
        for turn, g, a in zip(turns, gradient, advantage, strict=True):
            want = -a / (len(rows) * len(set(turns)) * turns.count(turn))  # type: ignore[arg-type]
            worst = max(worst, abs(g - want))
    return Finding(worst < 1e-12, f"ratios and gradients within {worst:.1e}")


def _of(mean: str, batch: dict[str, object]) -> list[float]:
    return ratios(REMA.but({"objective.mean": mean}), batch)


def longer_turns_keep_their_loss() -> Finding:
    """A turn said twice over, with the same log-ratios, leaves the loss as it is; a token-level loss moves."""
    batch = turns_document(Key.of(2))
    rows = [dict(row) for row in batch["trajectories"]]  # type: ignore[attr-defined]
    for row in rows:
        keep = [place for place, turn in enumerate(row["turn"]) for _ in range(2 if turn == 0 else 1)]
        for name in ("turn", "logp", "logp_behaviour"):
            row[name] = [row[name][place] for place in keep]
    moved = {}
    for recipe in (REMA, REMA.but({"objective.mean": "arithmetic"}), GRPO):
        moved[recipe.objective] = abs(look(recipe, batch)["loss"] - look(recipe, document(rows))["loss"])
    geometric, arithmetic, tokens = moved.values()
    holds = max(geometric, arithmetic) < 1e-12 and tokens > 1e-4
    return Finding(
        holds, f"the loss moves by {geometric:.1e} and {arithmetic:.1e} (arithmetic); GRPO's by {tokens:.1e}"
    )


def geometric_stays_below() -> Finding:
    """The geometric mean never exceeds the arithmetic one, and both agree in first order."""
    above, furthest = -math.inf, 0.0
    for seed in range(20):
        batch = turns_document(Key.of(seed), gap=0.5)
        uncapped = {mean: ratios(REMA.but({"objective.mean": mean, "objective.cap": None}), batch) for mean in MEANS}
        above = max(above, *(g - a for g, a in zip(uncapped["geometric"], uncapped["arithmetic"], strict=True)))
        near = turns_document(Key.of(seed), gap=1e-4)
        both = [_of(mean, near) for mean in MEANS]
        furthest = max(furthest, *(abs(g - a) for g, a in zip(*both, strict=True)))
    return Finding(
        above <= 1e-12 and furthest < 1e-6, f"largest excess {above:.1e}; {furthest:.1e} apart at gaps of 1e-4"
    )


MEANS = ("geometric", "arithmetic")


def turns_are_bounded() -> Finding:
    """Far from the old policy: no ratio above e^3, and no loss of a bad turn beyond three times its advantage."""
    batch = turns_document(Key.of(5), gap=8.0)
    largest = max(max(_of(mean, batch)) for mean in MEANS)
    read = Reading(batch)
    assessed, _ = REMA.assess(read.batch, REMA.init(), {})
    (terms,) = REMA.loss(Evaluation(read.logp), assessed)
    advantage = assessed.occurrences.advantage
    bad = advantage < 0
    excess = float((terms.value[bad] - 3 * advantage[bad].abs()).max())
    holds = largest <= math.exp(3) * (1 + 1e-12) and excess <= 1e-12
    return Finding(holds, f"largest ratio {largest:.3f} of {math.exp(3):.3f}; excess over the dual bound {excess:.1e}")


_AT, _REMA = "arXiv:2510.11062", "arXiv:2503.09501 and the authors' code"

CHECKS = (
    Check(
        "at-grpo",
        "all members of a group answer one identical prompt; credit is that of the mixed reward; the best goes on",
        candidates_share_their_prompt,
        _AT,
    ),
    Check("at-grpo", "with one agent and one turn it is GRPO", one_turn_is_grpo, _AT),
    Check(
        "at-grpo",
        "a planner and a checker with a policy each clearly beat a single agent; exchanging the two collapses success",
        roles_beat_a_single_agent,
        _AT,
        slow=True,
    ),
    Check("rema", "the turn-level ratio is 1 for every turn when pi = pi_old", ratio_is_one_at_first, _REMA),
    Check(
        "rema",
        "a turn made twice as long with the same log-ratios keeps its loss",
        longer_turns_keep_their_loss,
        _REMA,
    ),
    Check("rema", "the geometric ratio never exceeds the arithmetic one", geometric_stays_below, _REMA),
    Check("rema", "log-ratios of turns are capped at 3, bad turns' losses at three times A", turns_are_bounded, _REMA),
)
