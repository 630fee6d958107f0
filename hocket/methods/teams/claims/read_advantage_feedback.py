"""ReAd's claims."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean, stdev
from typing import Any

import numpy as np

from hocket import tasks
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.episode import Limits
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.core.columns import ACTIONS, RETURNS
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, same_gradient, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.read_advantage_feedback import (
    LOGGED,
    PROPOSED,
    READ,
    AdvantageFeedback,
    AdvisedCarry,
    AdvisedPlayer,
    Critic,
    LoggedCritic,
    Moves,
    features,
    fitted,
    gain,
    joint,
    logged,
    moves_in,
    proposing,
    sensible,
    waiting,
)
from hocket.nano.tokenizer import build_tokenizer
from hocket.stages import Player
from hocket.testing import Part, ScriptedEngine
from hocket.train.aio import run_async
from hocket.types import Assignment, Decoding, Message, Scenario, Trajectory

claim = Claims("read-advantage-feedback", "arXiv:2405.14314")

NAMES = ("alice", "bob", "carol", "dave")
CHAT = Chat(build_tokenizer())
SMALL = "advised_carry?size=2&things=2&known=2"
TAUGHT = f"lessons:{SMALL}"

# ---------------------------------------------------------------- advantages


def table(agents: Sequence[str], moves: Sequence[str], seed: int) -> dict[tuple[str, ...], float]:
    """Any value of every joint move."""
    rng = Key.of(seed).derive("table").numpy()
    return {one: float(rng.normal()) for one in itertools.product(moves, repeat=len(agents))}


def value_of(agents: Sequence[str], worth: Mapping[tuple[str, ...], float]) -> Callable[[Moves], float]:
    """Q of the moves of all agents."""
    return lambda moves: worth[tuple(moves[name] for name in agents)]


@claim(
    "Sequential advantages sum to the joint one in every order of the agents, so that moves that are each accepted are "
    "worth more together than waiting.",
    "A(s, a) = sum_i Q(s, a^1..i, w) - Q(s, a^1..i-1, w)",
)
def sequential_advantages_sum_to_the_joint_one_in_every_order_of() -> Finding:
    off, accepted, worse = 0.0, 0, 0
    for seed, size in itertools.product(range(6), (1, 2, 3, 4)):
        agents, said = NAMES[:size], ("wait", "go 2", "go 3")
        worth = table(agents, said, seed)
        value = value_of(agents, worth)
        for chosen in itertools.product(said, repeat=size):
            whole = worth[chosen] - worth[("wait",) * size]
            moves = dict(zip(agents, chosen, strict=True))
            off = max(off, abs(joint(value, moves, agents) - whole))
            for order in itertools.permutations(agents):
                made: dict[str, str] = {}
                parts = []
                for name in order:
                    parts.append(gain(value, made, name, moves[name], agents))
                    made[name] = moves[name]
                off = max(off, abs(math.fsum(parts) - whole))
                if min(parts) > 0:
                    accepted, worse = accepted + 1, worse + (whole <= 0)
    rest = waiting({"bob": "go 2"}, NAMES[:3]) == {"alice": "wait", "bob": "go 2", "carol": "wait"}
    return below(1e-12, rest, worse == 0, accepted > 50, off_by=off)


@claim(
    "Weighting a planner's joint moves by exp(A / beta) raises what is expected for every beta > 0, the more the "
    "smaller it is; so does taking only what is above a threshold that some moves reach.",
    "pi ~ mu exp(A / beta)",
)
def weighting_a_planners_joint_moves_by_exp_raises_what_is_expected() -> Finding:
    least, falls, cut = math.inf, 0, math.inf
    for seed in range(40):
        agents = NAMES[:2]
        worth = table(agents, ("wait", "go 2", "go 3", "go 4"), seed)
        prior = Key.of(seed).derive("prior").numpy().dirichlet(np.ones(len(worth)))
        value = value_of(agents, worth)
        gains = np.array([joint(value, dict(zip(agents, one, strict=True)), agents) for one in worth])
        plain, before = float(prior @ gains), -math.inf
        for beta in (100.0, 10.0, 1.0, 0.3, 0.1):
            tilted = prior * np.exp((gains - gains.max()) / beta)
            now = float(tilted @ gains / tilted.sum())
            least, falls, before = min(least, now - plain), falls + (now <= before), now
        above = gains > 0.0
        if above.any():
            cut = min(cut, float((prior * above) @ gains / (prior @ above)) - plain)
    return Finding(
        least > 0 and falls == 0 and cut > 0, say(least_gain=least, falls=falls, least_gain_by_threshold=cut)
    )


# ---------------------------------------------------------------- proposals


@dataclass(frozen=True)
class Told(Critic):
    """Values by the joint move in words, 0 where none is said."""

    worth: tuple[tuple[str, float], ...] = ()

    def __call__(self, question: str, moves: Moves) -> float:
        return dict(self.worth).get(" / ".join(moves.values()), 0.0)


def episode(
    flow: AdvantageFeedback, scenario: Scenario, says: Part | Callable[..., str], critic: Critic | None = None
) -> Trajectory:
    """An episode of a planner that is a script, or a function of all messages."""
    part = says if isinstance(says, Part) else Part(says)
    actors = {role: Actor(role, ScriptedEngine(part, CHAT), CHAT) for role in flow.roles}
    options = () if critic is None else (critic,)
    asked = Assignment(scenario, decoding=replace(Decoding(), max_tokens=200), options=options)
    (made,) = asyncio.run(TextPlayer(flow, actors, flow.limits or Limits()).play([asked], key=Key.of(0)))
    assert made.failure is None, made.failure
    return made


def task_of(name: str) -> AdvisedCarry:
    found = tasks.find(name)
    assert isinstance(found, AdvisedCarry)
    return found


ALONE = "advised_carry?team=1&length=1&things=3&known=3"


@claim(
    "Of a move's proposals the first above epsilon is made, else the best of all; what is expected rises with every "
    "round, as by enumeration of all proposals.",
)
def of_a_moves_proposals_the_first_above_epsilon_is_made_else_the() -> Finding:
    scenario = task_of(ALONE).scenario("train", 0)
    worth = {"go 2": -0.2, "go 4": -0.1, "go 5": 0.1, "go 6": 0.3}
    critic, means, wrong = Told((), tuple(worth.items())), list[float](), 0
    for rounds, epsilon in itertools.product((0, 1, 2), (0.0, 0.2)):
        found = []
        for said in itertools.product(worth, repeat=rounds + 1):
            flow = AdvantageFeedback(agents=1, rounds=rounds, epsilon=epsilon)
            made = episode(flow, scenario, Part(*said), critic)
            good = [one for one in said if worth[one] > epsilon]
            due = good[0] if good else max(said, key=lambda one: worth[one])
            tried = said if not good else said[: said.index(due) + 1]
            taken = [one for one in ACTIONS.get(made) if one is not None]
            wrong += taken != [due] or PROPOSED.get(made) != [{"alice": [(worth[one], one) for one in tried]}]
            found.append(worth[due])
        means.append(fmean(found))
    rises = all(late > early for early, late in zip(means, means[2:], strict=False))
    return Finding(wrong == 0 and rises, say(wrong=wrong, expected=str([round(one, 4) for one in means])))


@claim(
    "An agent is told what those before it will do and which of its own proposals were refused, with their advantages; "
    "the world moves once they are settled, and without a critic the first proposals are made.",
)
def an_agent_is_told_what_those_before_it_will_do_and_which_of_its() -> Finding:
    scenario = task_of("advised_carry?length=1").scenario("train", 0)
    worth = {"go 2 / wait": 0.1, "go 3 / wait": -0.25, "go 2 / go 2": -0.1, "go 2 / go 4": 0.5}
    part = Part("go 3", "go 2", "go 2", "go 4")
    made = episode(AdvantageFeedback(), scenario, part, Told((), tuple(worth.items())))
    part.assert_done()
    first, second, third, fourth = part.questions
    holds = second == f"{first}\nRefused: go 3 (-0.25)." and third.endswith("\nalice will go 2.")
    holds &= fourth == f"{third}\nRefused: go 2 (-0.20)." and "You: alice in" in first and "You: bob in" in third
    holds &= ACTIONS.get(made) == [None, "go 2", None, "go 4"] and len(LOGGED.get(made)) == 1
    row, paid = LOGGED.get(made)[0]
    holds &= list(row) == features(first, {"alice": "go 2", "bob": "go 4"}) and paid == RETURNS.get(made)["bob"]
    holds &= proposing("x", {"bob": "wait"}, [(0.5, "drop")]) == "x\nbob will wait.\nRefused: drop (+0.50)."
    plain = Part("go 3", "go 2")
    bare = episode(AdvantageFeedback(), scenario, plain)
    plain.assert_done()
    return Finding(holds and ACTIONS.get(bare) == ["go 3", "go 2"], say(moves=str(ACTIONS.get(made))))


@claim("In ReAd-J one planner proposes all moves, is judged by their joint advantage and told it of what was refused.")
def in_read_j_one_planner_proposes_all_moves_is_judged_by_their() -> Finding:
    scenario = task_of("advised_carry?length=1").scenario("train", 0)
    worth = {"go 3 / go 3": -0.1, "go 2 / go 4": 0.3, "wait / wait": 0.1}
    said = "alice: go 3\nbob: go 3", "Alice:  go 2\nbob: go 4\neve: drop"
    part = Part(*said)
    made = episode(AdvantageFeedback(together=True), scenario, part, Told((), tuple(worth.items())))
    part.assert_done()
    tried = PROPOSED.get(made)[0]["alice"]
    holds = part.questions[1] == f"{part.questions[0]}\nRefused: {said[0]} (-0.20)." and {
        turn.agent for turn in made.turns
    } == {"alice"}
    holds &= [round(value, 9) for value, _ in tried] == [-0.2, 0.2] and [one for _, one in tried] == list(said)
    holds &= moves_in("bob: take hat", ("alice", "bob")) == {"alice": "wait", "bob": "take hat"}
    return Finding(holds, say(advantages=str([round(value, 6) for value, _ in tried])))


# ---------------------------------------------------------------- the critic


@claim("The critic is the ridge regression of returns from a step on; what is told of a state and moves is by hand.")
def the_critic_is_the_ridge_regression_of_returns_from_a_step_on() -> Finding:
    rng = Key.of(3).numpy()
    inputs, returns, ridge = rng.normal(size=(50, 4)), rng.normal(size=50), 0.3
    wide = np.vstack([inputs, math.sqrt(ridge) * np.eye(4)])
    due = np.linalg.lstsq(wide, np.concatenate([returns, np.zeros(4)]), rcond=None)[0]
    off = float(np.abs(np.array(fitted(inputs, returns, ridge)) - due).max())
    one = Trajectory(Scenario("s"), [])
    LOGGED.write(one, [([1.0], 0.0), ([2.0], 0.5), ([3.0], 0.25)])
    off = max(off, *(abs(a - b) for a, b in zip(logged(one)[1], (0.75, 0.75, 0.25), strict=True)))
    stand = "alice in 5 with hat. bob in 1 with nothing.\nTo do: fetch hat (with alice), fetch cup (in 3), search 9.\n"
    text = f"Rooms 1 to 9, 3 a row.\n{stand}You: alice in 5 with hat. Here: nothing."
    cases = {
        ("wait", "wait"): [1, 2, 1, 2, 2, 2, 2, 0, 0, 0],
        ("go 1", "go 3"): [1, 2, 1, 2, 2, 1, 1, 0, 0, 0],
        ("go 9", "go 9"): [1, 2, 1, 2, 2, 3, 1, 0, 0, 1],
        ("drop", "take cup"): [1, 2, 1, 2, 2, 2, 2, 0, 0, 0],
        ("go 0", "jump"): [1, 2, 1, 2, 2, 2, 2, 0, 0, 0],
    }
    two = text.replace("Rooms 1 to 9, 3", "Rooms 1 to 4, 2").replace("5", "4").replace("search 9", "search 2")
    smaller = features(two, {"alice": "go 1", "bob": "go 9"}) == [1, 2, 1, 2, 1, 1, 1, 0, 0, 0]
    near = text.replace("alice in 5", "alice in 1").replace("bob in 1", "bob in 3")
    found = {pair: features(text, dict(zip(NAMES, pair, strict=False))) for pair in cases}
    wrong = [pair for pair, row in cases.items() if found[pair] != row]
    here = features(near, {"alice": "drop", "bob": "take cup"}) == [1, 2, 1, 0, 0, 0, 0, 1, 1, 0]
    value = Critic((0.0,) * 3 + (1.0, 0.0, -1.0) + (0.0,) * 4)
    off = max(off, abs(value(text, {"alice": "go 1", "bob": "wait"}) - 1.0))
    return below(1e-9, not wrong and here and smaller, off_by=off)


@claim(
    "A step is judged once `wait` steps are over and something was logged: by the ridge regression of all that the "
    "hook holds, which its shipped ridge moves by less than a ten-thousandth.",
    "derived",
)
def a_step_is_judged_once_wait_steps_are_over_and_something_was() -> Finding:
    pupil = after_lessons(READ, SMALL, TAUGHT, FEW, steps=1)
    plain, run, task = pupil.parts.player, pupil.parts, task_of("advised_carry")
    rows = [logged(episode(AdvantageFeedback(), task.scenario("train", number), planner(0))) for number in range(6)]
    held = {"inputs": [row for one, _ in rows for row in one], "returns": [value for _, one in rows for value in one]}
    (hook,) = (one for one in READ.hooks if isinstance(one, LoggedCritic))
    unjudged = [
        replace(hook, wait=wait).seat(plain, run, step, held) is plain for wait, step in ((1, 1), (3, 2), (3, 3))
    ]
    unjudged.append(hook.seat(plain, run, 2, {"inputs": [], "returns": []}) is plain)
    inputs, returns = np.array(held["inputs"]), np.array(held["returns"])
    found = []
    for wait, step in ((1, 2), (3, 4), (1, 9)):
        seated = replace(hook, wait=wait).seat(plain, run, step, held)
        assert isinstance(seated, AdvisedPlayer)
        found.append(np.array(seated.critic.weights))
    due = np.linalg.lstsq(inputs, returns, rcond=None)[0]
    told, exact = inputs @ found[0], inputs @ due
    off = float(np.abs(told - exact).max() / np.abs(exact).max())
    same = all(np.array_equal(one, found[0]) for one in found)
    kept = hook.keep >= 100 * len(returns)
    return Finding(all(unjudged) and same and 0 < off < 1e-4 and kept, say(moved_by=off, kept=hook.keep))


@claim("Of equal advantages the move proposed first is made; the team's score is what each of them earned.", "derived")
def of_equal_advantages_the_move_proposed_first_is_made_the_teams() -> Finding:
    scenario = task_of(ALONE).scenario("train", 0)
    worth = {"go 2": -0.1, "go 4": -0.1, "go 5": -0.3}
    wrong, moved = 0, 0
    for said in itertools.product(worth, repeat=3):
        made = episode(AdvantageFeedback(agents=1), scenario, Part(*said), Told((), tuple(worth.items())))
        due = min(range(3), key=lambda place: (-worth[said[place]], place))
        wrong += ACTIONS.get(made) != [said[due] if place == due else None for place in range(3)]
        moved += due > 0
    task, scores = task_of("advised_carry?team=3"), []
    for number in range(4):
        made = episode(AdvantageFeedback(agents=3), task.scenario("train", number), planner(number))
        team: Any = made.scores["reward"].value
        scores.append((float(team), RETURNS.get(made)))
    shares = all(abs(score - one) < 1e-12 for score, paid in scores for one in paid.values())
    return Finding(wrong == 0 and moved > 5 and shares and max(score for score, _ in scores) > 0, say(wrong=wrong))


@claim("The loss is GRPO's, of every proposal by what the team earned in the end.", "ours")
def the_loss_is_grpos_of_every_proposal_by_what_the_team_earned_in() -> Finding:
    return same_gradient(READ, GRPO)


# ---------------------------------------------------------------- what it brings


def planner(seed: int) -> Callable[[tuple[Message, ...]], str]:
    """One that proposes what is sensible, and anything in a third of all cases."""
    rng = Key.of(seed).derive("planner").numpy()

    def says(messages: tuple[Message, ...]) -> str:
        asked = str(messages[-1]["content"])
        others = dict(re.findall(r"^(\w+) will (.+)\.$", asked, re.MULTILINE))
        return f"go {int(rng.integers(1, 10))}" if rng.random() < 0.35 else sensible(asked, others)

    return says


@dataclass(frozen=True)
class Physical(Critic):
    """Refuses only what the world would: moves that do nothing there."""

    def __call__(self, question: str, moves: Moves) -> float:
        legal = [re.fullmatch(r"go [1-9]|take \w+|drop|wait", said) is not None for said in moves.values()]
        return float(sum(legal) - len(legal)) + 0.1 * sum(said != "wait" for said in moves.values())


@dataclass(frozen=True)
class Chance(Critic):
    """Values of nothing but chance, each its own for a state and joint move."""

    def __call__(self, question: str, moves: Moves) -> float:
        return float(Key.of(0).derive("chance", question, *moves.values()).numpy().normal())


@cache
def critic() -> Critic:
    """Regressed on play of the planner that nobody judged."""
    task, says = task_of("advised_carry"), planner(0)
    rows = [logged(episode(AdvantageFeedback(), task.scenario("train", number), says)) for number in range(30)]
    inputs = np.array([row for one, _ in rows for row in one])
    return Critic(fitted(inputs, np.array([value for _, one in rows for value in one]), 1e-3))


def compared(flow: AdvantageFeedback, judge: Critic | None) -> tuple[list[float], list[float], list[float]]:
    """Steps, returns and proposals of unseen episodes."""
    task, says = task_of("advised_carry"), planner(1)
    made = [episode(flow, task.scenario("eval", number), says, judge) for number in range(24)]
    steps = [float(len(PROPOSED.get(one))) for one in made]
    return steps, [RETURNS.get(one)["alice"] for one in made], [float(len(one.turns)) for one in made]


@claim(
    "With a critic of its own logged play a planner that is wrong in a third of all cases ends in fewer steps and "
    "earns more than without, and than where only what the world would refuse is proposed anew; "
    "its proposals are no fewer.",
    "its queries were fewer in the paper",
    slow=True,
)
def with_a_critic_of_its_own_logged_play_a_planner_that_is_wrong_in() -> Finding:
    judged, bare, physical = (compared(AdvantageFeedback(), one) for one in (critic(), None, Physical(())))
    errors = []
    for other in (bare, physical):
        for place, sign in ((0, 1), (1, -1)):
            gaps = [sign * (b - a) for a, b in zip(judged[place], other[place], strict=True)]
            errors.append(fmean(gaps) / (stdev(gaps) / math.sqrt(len(gaps))))
    steps, earned, queries = ([fmean(one[place]) for one in (judged, bare, physical)] for place in range(3))
    saw = say(steps=steps, earned=earned, proposals=queries, errors=errors)
    return Finding(min(errors) > 3 and queries[0] > queries[1], saw)


FEW = {"curriculum.prompts": 1, "rollout.samples": 2}


def earned_and_steps(pupil: Pupil, player: Player) -> tuple[list[list[float]], list[list[float]]]:
    """What a player's team earns in unseen scenarios, and its steps, under three keys."""
    parts = pupil.parts
    asked = [Assignment(parts.task.scenario("eval", number), 1, parts.decoding) for number in range(24)]
    made = [run_async(player.play(asked, key=Key.of(seed).derive("unseen"))) for seed in range(3)]
    earned = [[RETURNS.get(one)["alice"] for one in row] for row in made]
    return earned, [[float(len(PROPOSED.get(one))) for one in row] for row in made]


@claim(
    "So it is with a language model: after lessons the shipped one earns more in unseen scenarios, and in fewer steps, "
    "with a critic of its own logged play than without, than where chance refuses, and than where only moves of a "
    "wrong form are proposed anew; under each of three keys.",
    "derived",
    slow=True,
)
def so_it_is_with_a_language_model_after_lessons_the_shipped_one() -> Finding:
    pupil = after_lessons(READ, SMALL, TAUGHT, {"curriculum.prompts": 4}, steps=120).run(1)
    memory: Any = pupil.parts.hooks.memories["LoggedCritic"]
    own = Critic(fitted(np.array(memory["inputs"]), np.array(memory["returns"]), 1e-3))
    plain = pupil.parts.player
    players = [*(AdvisedPlayer(plain, one) for one in (own, Chance(()), Physical(()))), plain]
    judged, *others = (earned_and_steps(pupil, player) for player in players)
    least, errors = math.inf, list[float]()
    for other in others:
        for place, sign in ((0, 1), (1, -1)):
            gaps = sign * (np.array(judged[place]) - np.array(other[place]))
            least = min(least, *gaps.mean(axis=1).tolist())
            errors.append(float(gaps.mean() / (gaps.std(ddof=1) / math.sqrt(gaps.size))))
    earned, steps = ([round(float(np.mean(one[place])), 3) for one in (judged, *others)] for place in range(2))
    saw = say(earned=str(earned), steps=str(steps), least=least, least_errors=min(errors))
    return Finding(least > 0 and min(errors) > 2, saw)


def seen(run: ShippedRun) -> dict[str, float]:
    """Proposals that were refused once there was a critic, and what was earned."""
    last = [*run.results[-1].trajectories, *run.results[-1].discarded]
    tried = [len(said) for one in last for row in PROPOSED.get(one) for said in row.values()]
    return {"refused": fmean(tried) - 1, "earned": fmean(RETURNS.get(one)["alice"] for one in last)}


claim.spares("read-advantage-feedback: hooks.0.keep = 800000", "no run of a sensible length logs so many steps")
claim.spares("0.00025 -> 0.01", "a rate for after the lessons, where neither recipe nor user states one")

claim.shipped(
    READ,
    "hooks",
    first={"recipe": "sft", "steps": 60, "update.lr": 0.003, "task": TAUGHT},
    settings={"curriculum.prompts": 2},
    steps=2,
    sees=seen,
)
