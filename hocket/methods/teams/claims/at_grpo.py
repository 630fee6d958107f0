"""AT-GRPO's claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from hocket.agents.workflows.library import find as find_workflow
from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.candidates import TURN_REWARD
from hocket.core.casting import Separate
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, gradient, inspect_rows, say
from hocket.lab.documents import random_document
from hocket.lab.microscope import RecordedBatch
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import document, group_relative, line
from hocket.lab.toys.talks import played_by, stepped
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.at_grpo import AT_GRPO
from hocket.recipe import Recipe
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("at-grpo", "arXiv:2510.11062")
GOAL = InfoColumn("goal", "Whether the goal was reached.")
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
GRIDS = ("S..#.#..G", "S#....#.G", "S.#..#..G")
"""Three by three, row by row; `#` is a wall, and from S four moves are the fewest to G."""
Cell = tuple[int, int]


START, END = (0, 0), (2, 2)


def distances(grid: str) -> dict[Cell, int]:
    """The fewest moves from each cell of a maze to the goal."""
    cells = {divmod(place, 3) for place, mark in enumerate(grid) if mark != "#"}
    away, waiting = {END: 0}, [END]
    for cell in waiting:
        for down, right in MOVES.values():
            before = (cell[0] - down, cell[1] - right)
            if before in cells and before not in away:
                away[before] = away[cell] + 1
                waiting.append(before)
    return away


def walked(grid: str, at: Cell, path: str) -> Cell:
    """Where a path leads, up to its first move that brings nobody nearer; walls and the edge stop it."""
    away = distances(grid)
    for move in path.split():
        there = (at[0] + MOVES[move][0], at[1] + MOVES[move][1])
        if away.get(there, away[at]) >= away[at]:
            return at
        at = there
    return at


def nearer(grid: str, at: Cell, path: str) -> float:
    """How many moves nearer to the goal a path leads, as a share of the way."""
    away = distances(grid)
    return (away[at] - away[walked(grid, at, path)]) / 4


@played_by("planner", "checker")
async def planner_and_checker(scenario: Scenario, team: Team) -> Outcome:
    """The planner writes a path of four moves; the checker mends the first bad one, up to four times."""
    grid, at = str(scenario.prompt), START

    def worth(reply: Reply) -> Mapping[str, float]:
        # A path of four distinct moves is not wanted for its own sake: the agents' own reward is for reading well.
        return {"team": nearer(grid, at, reply.text), "own": 0.0}

    at = walked(grid, at, (await team.planner.candidates(grid, score=worth)).text)
    for _ in range(4):
        if at != END:
            edit = await team.checker.fresh().candidates(f"{grid} stuck at {at}", score=worth)
            at = walked(grid, at, edit.text.split()[0])
    return Outcome(rewards={"goal": float(at == END)})


def pathfinder(*, dense: bool) -> Workflow:
    """One agent writes the whole path; it is paid for the goal alone, or for the way it came."""

    @played_by("policy")
    async def flow(scenario: Scenario, team: Team) -> Outcome:
        grid, path = str(scenario.prompt), (await team.policy(str(scenario.prompt))).text
        goal = float(walked(grid, START, path) == END)
        return Outcome(rewards={"way": nearer(grid, START, path) if dense else goal}, info={GOAL.name: goal})

    return flow


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
    earlier = [token for link in turn.context() if link is not turn for token in (*link.observation, *link.action)]
    return tuple(map(int, (*earlier, *turn.observation)))


@played_by("first", "second")
async def two_agents(scenario: Scenario, team: Team) -> Outcome:
    """Two agents that remember, two turns each: every turn is asked for candidates."""
    message = str(scenario.prompt)
    for place, role in ((place, role) for place in range(2) for role in ("first", "second")):

        def worth(reply: Reply, place: int = place) -> Mapping[str, float]:
            words = reply.text.split()
            return {"team": words.count("up") / 3, "own": 0.25 * (place + len(set(words)))}

        message = (await team[role].candidates(message, score=worth)).text
    return Outcome(rewards={"goal": 1.0})


@claim("all members of a group answer one identical prompt; credit is that of the mixed reward; the best goes on")
def all_members_of_a_group_answer_one_identical_prompt_credit_is() -> Finding:
    recipe = AT_GRPO.but({"rollout.candidates": 4, "rollout.trunks": 2, "rollout.alpha": 0.5})
    scenarios = [Scenario(word, word) for word in ("a", "b")]
    batch, played = stepped(TalkBench(two_agents, scenarios, ("up", "down", "left"), recipe, length=2))
    rows: dict[tuple[str, str, tuple[int, ...]], list[tuple[float, float, bool]]] = {}
    advantage, place = batch.occurrences.advantage.tolist(), 0
    for trajectory in played:
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
    figures = say(groups_of_one_prompt=len(sizes), least=min(sizes), most=max(sizes), advantages_within=max(gaps))
    return Finding(max(gaps) < 1e-10 and min(sizes) >= 4 and sum(sizes) == 2 * 2 * 4 * 4, figures)


@claim("the shipped team: solver and checker answer several times each, paid for the verdict and their form")
def the_shipped_team_solver_and_checker_answer_several_times_each() -> Finding:
    words = ("red", "<answer>red</answer>", "<answer>blue</answer>")
    flow, questions = find_workflow(str(AT_GRPO.workflow)), [Scenario("a", "a", "red"), Scenario("b", "b", "red")]
    bench = TalkBench(flow, questions, words, AT_GRPO, verifier=lambda text, _: float("red" in text))
    _, played = stepped(bench)
    rewards = [value for one in played for value in one.scores[TURN_REWARD].value]  # type: ignore[union-attr]
    texts = [turn.text for one in played for turn in one.turns]
    right = [float("red" in text) + 0.1 * ("<answer>" in text) for text in texts]
    shown = [str(turn.prompt[-1]["content"]) for one in played for turn in one.turns if turn.agent == "checker"]
    branches = sum(row["branches"] for row in bench.history)
    holds = len(texts) == 16 and branches == 12 and len(set(texts)) == 3 and all("Another answer:" in s for s in shown)
    return Finding(gap(rewards, right) < 1e-12 and holds, say(answers=len(texts), rewards_off=gap(rewards, right)))


@claim("every answer has one weight, however long it is")
def every_answer_has_one_weight_however_long_it_is() -> Finding:
    lengths = ((1, 4), (3, 2), (2, 5))
    rows = [
        {"group": "g", "logp": [-1.0] * sum(one), "turn": [0] * one[0] + [1] * one[1], "agent": ["a", "b"]}
        | {"tokens": [1] * sum(one), "scores": {"reward": float(number)}}
        for number, one in enumerate(lengths)
    ]
    made = inspect_rows(AT_GRPO, rows)
    pairs = zip(lengths, made["gradient"], made["advantages"], strict=True)
    gaps = [gap(g, [-a / (6 * one[place >= one[0]]) for place, a in enumerate(own)]) for one, g, own in pairs]
    return Finding(max(gaps) < 1e-12, say(gradients_off_by_hand=max(gaps)))


@claim("where nobody scored a turn its reward-to-go counts; where decisions see apart, a prompt is what was seen first")
def where_nobody_scored_a_turn_its_reward_to_go_counts_where() -> Finding:
    paid = ((1.0, 0.2, 0.5), (0.0, 0.9, 0.1), (0.0, 0.3, 0.7))
    rows = [
        {"group": "g", "scores": {"goal": goal}, "turn_scores": [{}, {"own": one}, {"own": other}], "logp": [-1.0] * 3}
        | {"turn": [0, 1, 2], "agent": ["a"] * 3, "tokens": [1] * 3}
        for goal, one, other in paid
    ]
    wanted = [group_relative(values, 1e-8) for values in zip(*((sum(p), p[1], p[2]) for p in paid), strict=True)]
    off = gap(inspect_rows(AT_GRPO, rows)["advantages"], [list(own) for own in zip(*wanted, strict=True)])
    alone = [{"group": "g", "scores": {"reward": float(n)}, "logp": [-1.0] * 2, "tokens": [1, 2]} for n in range(4)]
    seen, credit = RecordedBatch(document(alone)).batch, []
    for kind, shape in (("f", (2,)), ("i", (2, 1))):
        # The first two begin alike, and so do the others; what follows differs throughout.
        places = [np.array([n // 2, n], dtype=kind).reshape(shape) for n in range(4)]
        credit.append(AT_GRPO.credit(seen.but(observation=places)).advantage[::2].tolist())
    pair = [-(0.5**0.5), 0.5**0.5]
    return below(1e-7, advantages_off=off, seen_apart_off=gap(credit, [pair * 2] * 2))


@claim("with one agent and one turn it is GRPO")
def with_one_agent_and_one_turn_it_is_grpo() -> Finding:
    """The same samples, the same gradient and, trained side by side, the same policy to the last bit."""
    grpo, batch = GRPO.but({"credit.epsilon": 1e-8}), random_document(Key.of(3), graded=True)
    apart, chances = gap(gradient(AT_GRPO, batch), gradient(grpo, batch)), []
    for recipe in (AT_GRPO, grpo.but({"rollout.samples": 4})):
        policy = walking(pathfinder(dense=True), recipe, seed=1).run(5).policies["policy"]
        words = [(), *((move,) for move in MOVES)]
        chances.append(torch.stack([policy.probabilities(grid, said=said) for grid in GRIDS for said in words]))
    same = torch.equal(*chances) and bool((chances[0] - 0.25).abs().max() > 0.05)
    return Finding(apart < 1e-12 and same, say(gradients_within=apart, equal_policies_after_5_steps=same))


@claim(
    "a planner and a checker with a policy each clearly beat a single agent; exchanging the two collapses success",
    slow=True,
)
def a_planner_and_a_checker_with_a_policy_each_clearly_beat_a() -> Finding:
    reach: dict[str, list[float]] = {"team": [], "seats exchanged": [], "one agent by GRPO": [], "paid for the way": []}
    words = {"team": 0.0, "one agent by GRPO": 0.0}

    def grown(name: str, bench: TalkBench) -> TalkBench:
        reach[name].append(bench.run(25).success(20))
        if name in words:
            words[name] += sum(row["tokens/generated"] for row in bench.history) / 5
        return bench

    for seed in SEEDS:
        bench = grown("team", walking(planner_and_checker, AT_GRPO.but(cast=Separate()), seed))
        actors = bench.player.actors
        bench.player = replace(bench.player, actors={"planner": actors["checker"], "checker": actors["planner"]})
        reach["seats exchanged"].append(bench.success(20))
        for name, dense in (("one agent by GRPO", False), ("paid for the way", True)):
            grown(name, walking(pathfinder(dense=dense), GRPO.but({"rollout.samples": 16}), seed))
    team, swapped, one, dense_ = reach.values()
    holds = min(team) > 0.75 and min(team) > max(*one, *dense_) + 0.2 and max(swapped) < 0.2
    figures = say(**{name: line(values) for name, values in reach.items()}, words_sampled=words)
    return Finding(holds and words["team"] <= words["one agent by GRPO"], f"goal reached: {figures}")


claim.spares(
    "-1 -> 1", "marks a conversation's beginning, where nothing was said; after any other prompt something was"
)

claim.shipped(AT_GRPO, "credit", trains=("solver", "checker"), sees=lambda run: {"candidates": run.mean("branches")})
