"""SAMALM's claims: the fusion by hand, scripted actors and critics on a floor, and the shipped model in all roles."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from hocket import tasks
from hocket.agents.environments.reading import WholeText
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.reply import Reply
from hocket.core.columns import ALTERNATIVES, RETURNS
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.lab.talk import TalkBench, last_message
from hocket.lab.toys.episodes import episode
from hocket.lab.toys.recorded_answers import group_relative
from hocket.methods.teams.samalm.method import (
    CRITIC,
    OVERSEER,
    SAMALM,
    TRIED,
    Checks,
    VerifiedMoves,
    VerifiedTask,
    certainty,
    chances,
    fused,
    fusion_weights,
    grade,
    grade_in,
    said_alone,
    said_together,
)
from hocket.methods.teams.samalm.task import arrived, touched
from hocket.methods.teams.samalm.world import COMMANDS, Crossing, Crossings, sensible
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario, Trajectory

claim = Claims("samalm", "arXiv:2503.09758, by its abstract; the formulas are the entropy-weight method's")

FREE = Limits(turns=None)

# ---------------------------------------------------------------- the fusion


def drawn_chances(rng: np.random.Generator, levels: int) -> list[float]:
    """Any distribution: flat and peaked ones, some with zeros."""
    found = rng.dirichlet(np.full(levels, rng.choice([0.1, 1.0, 20.0])))
    if rng.random() < 0.2:
        found[int(rng.integers(levels))] = 0.0
    return list((found / found.sum()).tolist())


@claim(
    "w_c = (1 - H_c / ln K) / sum_c' (1 - H_c' / ln K) of a critic's grades, g = sum_c w_c E_c[grade]; or equal ones."
)
def w_c_sum_c_of_a_critics_grades_g_sum_c_w_c_e_c_grade_or_equal() -> Finding:
    off, rng = [0.0], Key.of(0).derive("fusion").numpy()
    for _ in range(2000):
        levels, critics = int(rng.integers(2, 10)), int(rng.integers(1, 5))
        opinions = [drawn_chances(rng, levels) for _ in range(critics)]
        bits = [-math.fsum(one * math.log2(one) for one in opinion if one > 0) for opinion in opinions]
        sure = 1 - np.array(bits) / math.log2(levels)
        due = sure / sure.sum()
        means = [sum(k * p for k, p in enumerate(one)) / (levels - 1) for one in opinions]
        found, weights = fused(opinions), fusion_weights(opinions)
        assert found is not None
        off += [float(np.abs(due - weights).max()), abs(found - float(np.dot(due, means))), abs(sum(weights) - 1)]
        off += [abs(certainty(one) - one_sure) for one, one_sure in zip(opinions, sure.tolist(), strict=True)]
        off += [abs(grade(one) - mean) for one, mean in zip(opinions, means, strict=True)]
        off += [abs((fused(opinions, "equal") or 0.0) - sum(means) / critics)]
        off += [abs(one - 1 / critics) for one in fusion_weights(opinions, "equal")]
    return Finding(max(off) < 1e-9, say(largest_difference=max(off), of=len(off) - 1))


@claim(
    "A critic to whom all grades are alike has weight 0 exactly, so it changes nothing to the bit; one that is certain "
    "of a grade has certainty 1, and the less certain counts less.",
)
def a_critic_to_whom_all_grades_are_alike_has_weight_0_exactly_so() -> Finding:
    rng, wrong = Key.of(1).derive("uniform").numpy(), 0
    for _ in range(1000):
        levels = int(rng.integers(2, 10))
        sharp, logit = drawn_chances(rng, levels), float(rng.normal() * 5)
        share = math.exp(logit) / math.fsum([math.exp(logit)] * levels)
        for flat in ([1 / levels] * levels, [share] * levels):
            wrong += certainty(flat) != 0.0
            for opinions, place in (([sharp, flat], 1), ([flat, sharp], 0), ([flat, sharp, flat], 0)):
                weights = fusion_weights(opinions)
                wrong += weights[place] != 0.0 or fused(opinions) != fused([sharp])
            wrong += fused([flat, flat]) is not None or fusion_weights([flat, flat]) != [0.0, 0.0]
        one_hot = [float(place == levels - 1) for place in range(levels)]
        wrong += certainty(one_hot) != 1.0 or grade(one_hot) != 1.0
        less = [0.7 * one + 0.3 / levels for one in sharp]
        wrong += not certainty(less) < certainty(sharp) or not np.diff(fusion_weights([less, sharp]))[0] > 0
    return Finding(wrong == 0, say(wrong=wrong))


def area(scores: Sequence[float], good: Sequence[bool]) -> float:
    """How often a good one scores above a bad one, ties half."""
    high = np.array([s for s, g in zip(scores, good, strict=True) if g])
    low = np.array([s for s, g in zip(scores, good, strict=True) if not g])
    return float(((high[:, None] > low).mean() + (high[:, None] >= low).mean()) / 2)


def peaked(level: float, sharpness: float, levels: int = 5) -> list[float]:
    """A distribution around a grade."""
    weight = np.exp(-sharpness * np.abs(np.arange(1, levels + 1) - level))
    return list((weight / weight.sum()).tolist())


def commands_graded(seed: int, count: int = 400) -> tuple[list[float], list[bool]]:
    """Any commands on floors: the grade by rule of each, and whether its robot then touches nobody in that second."""
    levels, well, floor = list[float](), list[bool](), 0
    while len(levels) < count:
        course = Crossings(robots=3, people=3).make(Scenario("floor"))
        rng = Key.of(seed).derive("graded", floor).numpy()
        course.reset(Key.of(seed).derive("floor", floor))
        floor += 1
        while course.acting:
            moves = {seat: COMMANDS[int(rng.integers(len(COMMANDS)))] for seat in course.acting}
            levels += [float(said_alone(course, seat, move, 5)[0]) for seat, move in moves.items()]
            seats = list(moves)
            course.act(moves)
            well += [course.agents.index(seat) not in course.touched for seat in seats]
    return levels, well


@claim(
    "Where one critic is noise and unsure, grades fused by entropy tell commands that touch nobody from those that do "
    "better than with equal weights; where noise is surer than who knows they do worse, for certainty is all that the "
    "weights see.",
    slow=True,
)
def where_one_critic_is_noise_and_unsure_grades_fused_by_entropy() -> Finding:
    gains, against, areas = list[float](), list[float](), list[float]()
    for seed in SEEDS:
        levels, well = commands_graded(seed)
        rng = Key.of(seed).derive("critics").numpy()
        noise = rng.uniform(1, 5, len(levels))
        heard = [level + rng.normal() * 0.7 for level in levels]
        for sharp, loud, found in ((2.5, 1.0, gains), (1.5, 4.0, against)):
            pairs = [
                (peaked(one, sharp), peaked(other, loud * rng.uniform(0.3, 1.7)))
                for one, other in zip(heard, noise, strict=True)
            ]
            by = [area([fused(pair, way) or 0.0 for pair in pairs], well) for way in ("entropy", "equal")]
            found.append(by[0] - by[1])
            areas += by[:1] if found is gains else []
    holds = min(gains) > 0 and fmean(gains) > 0.015 and max(against) < 0
    return Finding(holds, say(area=areas, gain=gains, where_noise_is_surer=against))


# ---------------------------------------------------------------- what a model tells

WORDS = ("1", "2", "3", "4", "5", "well", "ahead fast", "stop")


@dataclass(frozen=True)
class _Straight(Crossings):
    """One robot, nobody else, two commands."""

    robots: int = 1
    people: int = 0
    length: int = 2


def table(prior: Callable[[tuple[Message, ...], tuple[str, ...]], Any], checks: Checks, **how: Any) -> TalkBench:
    """A table in all roles on a floor without others."""
    flow = VerifiedMoves(_Straight(), reading=WholeText(), memory=False, instruct=False, checks=checks)
    asked = [Scenario("floor", seed=number) for number in range(4)]
    return TalkBench(flow, asked, WORDS, SAMALM, view=last_message, prior=prior, length=1, **how)


def opinionated(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Critics between grades and a word that is none, by their role; the actor between its commands."""
    system = str(messages[0]["content"]) if messages[0]["role"] == "system" else ""
    if not system:
        return {**dict.fromkeys(WORDS, -40.0), "ahead fast": 0.0, "stop": 0.0}
    lean = 1.0 if "all commands" in system else -0.5
    moves = 1.0 if "fast" in str(messages[-1]["content"]).rpartition("\n")[2] else 0.0
    return {**{str(n): lean * (n - 3) + moves * (n > 3) for n in range(1, 6)}, "well": 1.0, "stop": -40.0}


@claim(
    "A critic's opinion is the model's own distribution of the grade token, what is on other tokens spread evenly, and "
    "not the one grade that it happens to say.",
)
def a_critics_opinion_is_the_models_own_distribution_of_the_grade() -> Finding:
    bench, off, seen = table(opinionated, Checks(alternatives=8), seed=3), [0.0], set[int | None]()
    for one in (row for _ in range(3) for row in bench.play(2)):
        rounds = [row for tried in TRIED.get(one) for row in tried]
        for turn in one.turns:
            if turn.role in (CRITIC, OVERSEER):
                seen.add(grade_in(turn.text, 5))
                logits = opinionated(tuple(turn.prompt), ())
                full = np.exp(np.array([logits.get(word, 0.0) for word in WORDS]))
                full /= full.sum()
                due = full[:5] + full[5:].sum() / 5
                reply = Reply(turn.text, turn.action, turn.finish, turn)
                off.append(float(np.abs(due - chances(reply, [frozenset({n}) for n in range(5)])).max()))
        off.append(float(any(row["robot_1"][1] is None for row in rounds)))
    return Finding(max(off) < 1e-9 and len(seen) >= 4, say(largest_difference=max(off), grades_said=len(seen)))


# ---------------------------------------------------------------- asking again


@dataclass(frozen=True)
class Watched(Crossings):
    """A floor that scripts may look at."""

    opened: list[Crossing] = field(default_factory=list, compare=False)

    def make(self, scenario: Scenario) -> Crossing:
        self.opened.append(super().make(scenario))
        return self.opened[-1]


def moves_told(question: str) -> dict[str, str]:
    """The commands that an overseer is told."""
    return dict(re.findall(rf"^(robot_\d): ({'|'.join(COMMANDS)})\.$", question, re.MULTILINE))


@dataclass
class Stand:
    """Scripted actors and critics: a sensible command or, with chance `noise`, any; a true grade or, with `doubt`, any.

    With `refuses` critics refuse with that chance, whatever is commanded, and the overseer has no opinion.
    """

    noise: float
    doubt: float = 0.2
    refuses: float | None = None

    def played(self, seed: int, checks: Checks, turns: int | None = None) -> Trajectory:
        """One crossing, of so many moves at most."""
        world = Watched()
        flow = VerifiedMoves(world, reading=WholeText(), memory=False, instruct=False, checks=checks, turns=turns)
        rng = Key.of(seed).derive("stand").numpy()

        def actor(messages: tuple[Message, ...]) -> str:
            seat = str(messages[-1]["content"]).partition(":")[0]
            anything = rng.random() < self.noise
            return COMMANDS[int(rng.integers(len(COMMANDS)))] if anything else sensible(world.opened[-1], seat)

        def critic(messages: tuple[Message, ...]) -> str:
            question = str(messages[-1]["content"])
            joint = moves_told(question)
            if self.refuses is not None:
                return "well" if joint else "1 no" if rng.random() < self.refuses else "5 good"
            if rng.random() < self.doubt:
                return f"{int(rng.integers(1, 6))} perhaps"
            if joint:
                return said_together(world.opened[-1], joint, 5)
            first = question.partition("\n")[0]
            return said_alone(world.opened[-1], first.partition(":")[0], first.split(". ")[-1].removesuffix("."), 5)

        parts = {**{seat: Part(actor) for seat in world.agents}, CRITIC: Part(critic), OVERSEER: Part(critic)}
        (one,) = rehearse(flow, Scenario("floor", seed=seed), parts, seed=seed, limits=FREE)
        assert one.failure is None, one.failure
        return one


def asked_anew(played: Sequence[Trajectory]) -> float:
    """The share of commands that were refused."""
    task = tasks.find("verified:crossing")
    assert isinstance(task, VerifiedTask)
    return fmean(task.describe(one)["refused"] for one in played)


@claim(
    "Proposed, graded and proposed anew, commands of equally noisy actors touch fewer than when made at once, at two "
    "noises and with critics that err; where as many are refused by chance they do not.",
    slow=True,
)
def proposed_graded_and_proposed_anew_commands_of_equally_noisy() -> Finding:
    figures, holds = dict[str, Any](), True
    for noise in (0.5, 0.8):
        plain = [Stand(noise).played(seed, Checks(rounds=0)) for seed in range(7000, 7100)]
        checked = [Stand(noise).played(seed, Checks()) for seed in range(7000, 7100)]
        gaps = np.array([touched(one) for one in plain]) - np.array([touched(one) for one in checked])
        errors = float(gaps.mean() / (gaps.std(ddof=1) / math.sqrt(len(gaps))))
        rates = [[fmean(map(measure, rows)) for rows in (plain, checked)] for measure in (touched, arrived)]
        holds &= errors > 2 and rates[1][1] > rates[1][0]
        figures[f"noise_{noise:g}_touched"] = f"{rates[0][0]:.3f} to {rates[0][1]:.3f}, {errors:.2f} standard errors"
        figures[f"arrived_at_{noise:g}"] = f"{rates[1][0]:.2f} to {rates[1][1]:.2f}"
        figures[f"refused_at_{noise:g}"] = f"{asked_anew(checked):.2f}"
        if noise == 0.5:
            by_chance = [Stand(noise, refuses=0.35).played(seed, Checks()) for seed in range(7000, 7040)]
            found = fmean(map(touched, by_chance)), fmean(map(touched, checked[:40]))
            holds &= found[0] > found[1]
            figures["of_40_by_chance"] = f"{found[0]:.3f}, by critics {found[1]:.3f}"
    return Finding(holds, "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items()))


def heard(one: Trajectory, role: str) -> list[str]:
    """The questions of a role, in order."""
    return [str(turn.prompt[-1]["content"]) for turn in one.turns if turn.role == role]


def scripted(checks: Checks, said: dict[str, Any], world: Crossings | None = None, seed: int = 1) -> Trajectory:
    """A crossing whose roles say these."""
    world = world or Crossings(robots=2, people=0, length=1)
    flow = VerifiedMoves(world, reading=WholeText(), memory=False, instruct=False, checks=checks)
    parts = {role: Part(said[role]) if callable(said[role]) else Part(*said[role]) for role in flow.roles}
    (one,) = rehearse(flow, Scenario("floor", seed=seed), parts, seed=seed, limits=FREE)
    assert one.failure is None, one.failure
    for part in parts.values():
        part.assert_done()
    return one


@claim(
    "A command is asked for 1 + rounds times at most, by the actor that was refused alone, told what was refused and "
    "what critics said; what both accept is asked for once, and an opinion on one command for once.",
)
def a_command_is_asked_for_1_rounds_times_at_most_by_the_actor_that() -> Finding:
    wrong, calls = 0, dict[int, int]()
    for rounds in range(4):
        said = {"robot_1": ["stop"] * (1 + rounds), "robot_2": ["ahead fast"] * (1 + rounds)}
        critics = {CRITIC: ["1 bad"] * 2 * (1 + rounds), OVERSEER: [f"2 worse {n}" for n in range(1 + rounds)]}
        one = scripted(replace(Checks(), rounds=rounds), {**said, **critics})
        calls[rounds] = len(heard(one, "robot_1"))
        wrong += len(TRIED.get(one)[0]) != 2 + rounds
        for place, question in enumerate(heard(one, "robot_1")):
            told = [f"Refused: stop (1 bad; 2 worse {n})." for n in range(place)]
            wrong += question.split("\n")[-place:] != told if place else "Refused" in question
    well = {CRITIC: ["5 good"] * 2, OVERSEER: ["5 good"]}
    (first,) = TRIED.get(scripted(Checks(), {"robot_1": ["stop"], "robot_2": ["stop"], **well}))
    half = {CRITIC: ["1 bad", "5 good", "5 fine"], OVERSEER: ["3 so", "4 so"]}
    one = scripted(Checks(), {"robot_1": ["stop", "left slow"], "robot_2": ["ahead fast"], **half})
    (rows,) = TRIED.get(one)
    wrong += [row["robot_1"][0] for row in rows] != ["stop", "left slow", "left slow"]
    wrong += [row["robot_2"][0] for row in rows] != ["ahead fast"] * 3 or len(heard(one, CRITIC)) != 3
    wrong += "robot_1: left slow.\nrobot_2: ahead fast." not in heard(one, OVERSEER)[1]
    holds = wrong == 0 and calls == {n: n + 1 for n in range(4)} and len(first) == 2
    return Finding(holds, say(wrong=wrong, calls_of_an_actor_by_rounds=str(calls)))


@claim("A robot follows that command of its that was graded best in any round, of equal ones the last.", "ours")
def a_robot_follows_that_command_of_its_that_was_graded_best_in_any() -> Finding:
    found, moves = {}, ["ahead fast", "left fast", "right fast"]
    for grades, due in (("312", 0), ("121", 1), ("122", 2), ("322", 0)):
        for seat in range(2):
            others = ["stop", "stop", "stop"]
            said = {"robot_1": others if seat else moves, "robot_2": moves if seat else others}
            own = [grade if mine == seat else "1" for grade in grades for mine in range(2)]
            one = scripted(Checks(threshold=1.0), {**said, CRITIC: own, OVERSEER: ["well"] * 3})
            (rows,) = TRIED.get(one)
            found[f"{grades}_{seat + 1}"] = rows[-1][f"robot_{seat + 1}"][0] == moves[due] and len(rows) == 4
    said = {"robot_1": ["stop", "left slow"], "robot_2": ["stop"], CRITIC: ["2", "4", "3"], OVERSEER: ["well", "2"]}
    (rows,) = TRIED.get(scripted(Checks(rounds=1), said))
    # An overseer without a grade counts nothing; one with a grade as much as the other, for each is certain.
    due_rows = [{"robot_1": ("stop", 0.25), "robot_2": ("stop", 0.75)}]
    due_rows += [{"robot_1": ("left slow", 0.375), "robot_2": ("stop", 0.5)}]
    due_rows += [{"robot_1": ("left slow", 0.375), "robot_2": ("stop", 0.75)}]
    found["graded"] = rows == due_rows
    # Without anybody's opinion a command is as good as one that all find best, and the later one is followed.
    said = {"robot_1": ["stop", "left slow"], "robot_2": ["stop"] * 3}
    critics = {CRITIC: ["well", "1", "1", "5", "5"], OVERSEER: ["well", "1", "5"]}
    (rows,) = TRIED.get(scripted(Checks(), {**said, **critics}))
    found["no_opinion"] = [row["robot_1"] for row in rows] == [("stop", None), ("stop", 0), *[("left slow", 1)] * 2]
    return Finding(all(found.values()), say(**found))


@claim(
    "Each robot's turn earns what the world paid for the command that was made and nothing for refused ones; critics "
    "earn minus the squared distance of their grade from whether it cost nothing, the overseer where it saw that.",
    "ours",
)
def each_robots_turn_earns_what_the_world_paid_for_the_command_that() -> Finding:
    wrong, seen = 0, set[tuple[bool, bool]]()
    for seed in range(12):
        stand = Stand(0.8, doubt=0.5) if seed % 3 else Stand(0.8, refuses=0.35)
        one = stand.played(seed, Checks())
        given = iter(zip(one.turns, one.scores["reward"].value, strict=True))  # type: ignore[arg-type]
        replay, returns = Crossings().make(one.scenario), Counter[str]()
        replay.reset(Key.of(seed).derive("environment"))
        for rows in TRIED.get(one):
            earned = replay.act({seat: move for seat, (move, _) in rows[-1].items()})
            returns.update(earned)
            block, left = list[Any](), len(rows) - 1
            while left:
                block.append(next(given))
                left -= block[-1][0].role == OVERSEER
            saw_it = all(rows[-2][seat][0] == rows[-1][seat][0] for seat in earned)
            told = [turn for turn, _ in block if turn.role == OVERSEER]
            due = [0.0] * (len(told) - 1) + [loss_of(told[-1].text, min(earned.values()) >= 0) * saw_it]
            wrong += not np.allclose([paid for turn, paid in block if turn.role == OVERSEER], due)
            for seat, pay in earned.items():
                at = followed([row[seat][1] for row in rows[:-1]])
                for name, by in ((seat, None), (f"{CRITIC} of {seat}", pay >= 0)):
                    mine = [(turn, paid) for turn, paid in block if turn.agent == name]
                    due = [0.0] * len(mine)
                    due[at] = pay if by is None else loss_of(mine[at][0].text, by)
                    wrong += not np.allclose([paid for _, paid in mine], due)
            seen.add((min(earned.values()) < 0, saw_it))
        wrong += next(given, None) is not None or bool(replay.acting) or RETURNS.get(one) != dict(returns)
    return Finding(wrong == 0 and len(seen) == 4, say(wrong=wrong, crossings=12))


def loss_of(text: str, well: bool) -> float:
    """What a critic earns that says this."""
    level = grade_in(text, 5)
    return -1.0 if level is None else -(((level - 1) / 4 - well) ** 2)


def followed(grades: Sequence[float | None]) -> int:
    """Which of a robot's proposals it follows, graded so in each round: a low grade asks for the next."""
    least = [1.0 if grade is None else grade for grade in grades]
    best = max(place for place, grade in enumerate(least) if grade == max(least))
    return sum(grade < 0.5 for grade in least[:best])


@claim("Each agent is compared with itself: A = (R - mean)/std over the samples of the sum of all it earned.")
def each_agent_is_compared_with_itself_a_std_over_the_samples_of() -> Finding:
    worst = 0.0
    for number in range(20):
        own = Key.of(number).derive("floor").numpy().normal(size=(6, 2)).tolist()
        turns = [[{"tokens": [1], "agent": f"robot_{n}", "reward": r} for n, r in enumerate(mine)] for mine in own]
        found = inspect_rows(SAMALM, [episode("g", 0.0, mine) for mine in turns])["advantages"]
        for agent in range(2):
            due = group_relative([mine[agent] for mine in own])
            worst = max(worst, gap([row[agent] for row in found], due))
    return Finding(worst < 1e-9, say(off_by_hand_on_20_groups=worst))


claim.spares("samalm: workflow = None", "the task verified:crossing brings the workflow along")
claim.spares("rng.random() < SKILL -> rng.random() >= SKILL", "how able a beginner is may be chosen freely")
claim.spares("rng.random() < 0.5 -> rng.random() >= 0.5", "how many commands are graded that nobody gives is free")
claim.spares("0.5 -> 20.0", "how many commands are graded that nobody gives may be chosen freely")
claim.spares("rng.random() < 0.75 -> rng.random() >= 0.75", "how able a beginner is may be chosen freely")
claim.spares("0.75 -> 30.0", "how able a beginner is may be chosen freely")

# ---------------------------------------------------------------- as shipped


def seen(run: ShippedRun) -> dict[str, float]:
    """Commands that were refused, those that were asked for anew, and grades that the model told."""
    played = [one for row in run.results if row.experience for one in row.experience.trajectories]
    turns = [turn for one in played for turn in one.turns]
    anew = sum("Refused: " in str(turn.prompt[-1]["content"]) for turn in turns)
    told = sum(ALTERNATIVES.present(turn) for turn in turns if turn.role in (CRITIC, OVERSEER))
    return {"refused": asked_anew(played), "asked anew": float(anew), "grades": float(told)}


claim.shipped(
    SAMALM,
    "workflow",
    "credit",
    task="crossing?robots=2&people=1&length=6",
    first={"recipe": "sft", "steps": 30, "update.lr": 0.003, "task": "lessons:verified:crossing?robots=2&people=1"},
    settings={"curriculum.prompts": 2, "rollout.samples": 4},
    sees=seen,
)
