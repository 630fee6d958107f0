"""The claims of knowledge injection, among strange devices and in households."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from hocket import tasks
from hocket.core.columns import ILLEGAL, RETURNS
from hocket.core.keys import Key
from hocket.environments.devices import VERBS, Darkness, Shed
from hocket.environments.household import Household, moves
from hocket.environments.protocol import Environment
from hocket.environments.solitary import PLAYER
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.taught import after_lessons
from hocket.lab.talk import TalkBench
from hocket.lab.toys.rewarded import line
from hocket.methods.agents.knowledge_injection_text_games import (
    KNOWLEDGE_INJECTION_TEXT_GAMES,
    Informed,
    InformedPlay,
    InformedWorld,
    Knowledge,
)
from hocket.types import Message, Scenario, Trajectory
from hocket.workflows.environment import PlayEnvironment
from hocket.workflows.library import find as find_workflow

claim = Claims("knowledge-injection-text-games", "the abstract; worlds, tables and figures are our own")


# ---------------------------------------------------------------- what is told

SHED = Shed({"lamp": "pull", "bell": "push"}, VERBS[:3])
FITS = "Fits: pull lamp; push bell."
ASKED = "Start lamp bell. Verbs: push pull turn."


def episode(**knowledge: Any) -> Informed:
    """An episode among two devices."""
    found = Informed(Darkness(SHED, 6), Knowledge(**knowledge))
    found.reset(Key.of(3))
    return found


@claim("What an agent sees is followed by the verbs that fit each object and the moves that were accepted, each once.")
def _() -> Finding:
    told = {
        "both": [f"{ASKED}\n{FITS}", f"The lamp starts. {ASKED}\n{FITS}\nWorked: pull lamp."],
        "affordances": [f"{ASKED}\n{FITS}", f"The lamp starts. {ASKED}\n{FITS}"],
        "memory": [ASKED, f"The lamp starts. {ASKED}\nWorked: pull lamp."],
        "none": [ASKED, f"The lamp starts. {ASKED}"],
    }
    wrong = list[str]()
    for kind, (first, second) in told.items():
        made = episode(kind=kind)
        wrong += [kind] if made.observe(PLAYER).text != first else []
        made.act({PLAYER: " Pull  lamp."})
        wrong += [kind] if made.observe(PLAYER).text != second else []
        made.act({PLAYER: "pull lamp"})  # It runs already.
        seen = made.observe(PLAYER)
        wrong += [kind] if seen.text != second.replace("The lamp starts.", "Nothing happens.") else []
        wrong += [kind] if seen.actions is not None or dict(made.illegal) != {PLAYER: 1} else []
        twin = made.clone()
        twin.act({PLAYER: "push bell"})
        wrong += [kind] if twin.acting or not made.acting or made.remembered(PLAYER) != ("pull lamp",) else []
    before, start = episode(at="before"), episode(at="start")
    wrong += ["before"] if before.observe(PLAYER).text != f"{FITS}\n{ASKED}" else []
    opening = start.observe(PLAYER).text
    start.act({PLAYER: "pull lamp"})
    wrong += ["start"] if [opening, start.observe(PLAYER).text] != told["both"][:1] + told["none"][1:] else []
    return Finding(not wrong, say(wrong=str(wrong), kinds=len(told)))


@claim("Moves are remembered with the latest last, `most` of them; of those that scored, no others.")
def _() -> Finding:
    house = tasks.find("informed:household?most=2&kind=memory")
    scored = tasks.find("informed:household?kind=memory&kept=scored&dense=0.5")
    wrong, seen = 0, 0
    for number, task in itertools.product(range(6), (house, scored)):
        made: Informed = task.workflow.world.make(task.scenario("train", number))  # type: ignore[attr-defined]
        made.reset(Key.of(number))
        rng, due = Key.of(number).numpy(), list[str]()
        while made.acting and len(due) < 5:
            legal = made.within.observe(PLAYER).actions or ()
            move = "fly" if rng.random() < 0.3 else legal[int(rng.integers(len(legal)))]
            earned = made.act({PLAYER: move})[PLAYER]
            if move in legal and (task is house or earned > 0):
                due = [*(one for one in due if one != move), move]
            wrong += made.remembered(PLAYER) != tuple(due[-made.knowledge.most :])
            seen += 1
    return Finding(wrong == 0 and seen > 60, say(wrong=wrong, moves=seen))


@claim("Shuffled, a remembered move keeps its verb and names an object by its whole name, drawn once.")
def _() -> Finding:
    lamps = {"lamp": "pull", "desk lamp": "push", "bell": "turn"}
    named, unlike = 0, set[tuple[str, ...]]()
    for number in range(20):
        made = Informed(Darkness(Shed(lamps, VERBS[:3]), 6), Knowledge(kind="memory", shuffled=True))
        made.reset(Key.of(number))
        made.act({PLAYER: "push desk lamp"})
        (said,) = once = made.remembered(PLAYER)
        named += said in {f"push {name}" for name in lamps} and once == made.remembered(PLAYER)
        unlike.add(once)
    return Finding(named == 20 and len(unlike) == 3, say(whole=named, of=20, unlike=len(unlike)))


@claim("As shipped both kinds are told after what is seen, and no list of legal moves; `listed` leaves it.")
def _() -> Finding:
    flow = find_workflow(str(KNOWLEDGE_INJECTION_TEXT_GAMES.workflow))
    plain, listed = (opened(houses(1)[0], kind="none", listed=one).observe(PLAYER).actions for one in (False, True))
    within = opened(houses(1)[0], kind="none").within.observe(PLAYER).actions
    holds = isinstance(flow, InformedPlay) and flow.knowledge == Knowledge() and Knowledge().kind == "both"
    return Finding(holds and plain is None and bool(listed) and listed == within, say(listed=len(listed or ())))


# ---------------------------------------------------------------- households, without learning


def houses(count: int = 200) -> list[Scenario]:
    """Errands in houses of one room."""
    task = tasks.find("household?steps=60")
    return [task.scenario("train", number) for number in range(count)]


def opened(scenario: Scenario, number: int = 0, **knowledge: Any) -> Informed:
    """An episode of 60 moves in a house, paid 1 for each sub-goal."""
    task: Any = tasks.find("household?steps=60&dense=1")
    found = InformedWorld(task.workflow.world, Knowledge(**knowledge)).make(scenario)
    found.reset(Key.of(number))
    return found


def household(made: Environment) -> Household:
    """The house beneath."""
    assert isinstance(made.bare, Household)
    return made.bare


@claim("In a household the verbs that fit are those of its legal moves: none that is never legal, and none left out.")
def _() -> Finding:
    foreign, missed = 0, 0
    for scenario in houses(10):
        made = household(opened(scenario))
        table = {f"{verb} {name}" for name, verbs in made.affordances.items() for verb in verbs}
        rng, found, now = Key.of(1).numpy(), set[str](), made.now
        for _ in range(3000):
            legal = list(moves(made.house, now))
            found |= {move.words for move in legal}
            now = legal[int(rng.integers(len(legal)))].then
        foreign, missed = foreign + len(found - table), missed + len(table - found)
    return Finding(foreign == missed == 0, say(legal_but_not_told=foreign, told_but_never_legal=missed))


def read(told: str, verbs: tuple[str, ...]) -> list[str]:
    """The moves that a line of affordances speaks of."""
    found = list[str]()
    for clause in told.rpartition("Fits: ")[2].removesuffix(".").split("; "):
        *others, last = clause.split(", ")
        verb = max((one for one in verbs if last.startswith(f"{one} ")), key=len)
        found += [f"{one}{last.removeprefix(verb)}" for one in (*others, verb)]
    return found


@cache
def spoken(kind: str, shuffled: bool) -> tuple[float, float]:
    """Of one who says what it reads that fits, or any verb with any object: illegal moves, and sub-goals an episode."""
    illegal, reached = list[float](), list[float]()
    for number, scenario in enumerate(houses()):
        made = opened(scenario, number, kind=kind, shuffled=shuffled)
        table = household(made).affordances
        verbs = tuple(sorted({verb for fitting in table.values() for verb in fitting}))
        rng, earned = Key.of(number).derive("speaker").numpy(), 0.0
        sayings = [f"{verb} {name}" for verb in verbs for name in table] if kind == "none" else []
        while made.acting:
            said = sayings or read(made.observe(PLAYER).text, verbs)
            made.act({PLAYER: said[int(rng.integers(len(said)))]})
            earned += sum(one[PLAYER] for one in made.parts.values())
        illegal.append(made.illegal[PLAYER] / household(made).steps)
        reached.append(earned)
    return fmean(illegal), fmean(reached)


@claim(
    "In households, one who says at random what it reads that fits makes fewer illegal moves and reaches more "
    "sub-goals than one who says any verb with any object; from a shuffled table it does not."
)
def _() -> Finding:
    blind, told, lied = spoken("none", False), spoken("affordances", False), spoken("affordances", True)
    holds = told[0] < blind[0] - 0.1 and lied[0] > blind[0] - 0.03
    holds &= told[1] > 1.5 * blind[1] and lied[1] < 1.25 * blind[1]
    illegal, reached = (say(any_verb=blind[place], what_fits=told[place], shuffled=lied[place]) for place in range(2))
    return Finding(holds, f"illegal moves: {illegal}; sub-goals in 60 moves: {reached}")


# ---------------------------------------------------------------- a scorer of moves that is a table

NAMES, TRIED = ("lamp", "bell"), VERBS[:3]
WORDS = tuple(f"{verb} {name}" for verb in TRIED for name in NAMES)
SHEDS = list(itertools.product(TRIED, repeat=2))
SEEDS, STEPS = range(2), 40


@dataclass(frozen=True)
class Two:
    """Two devices and three verbs, four moves."""

    name: str = "two"
    agents: tuple[str, ...] = (PLAYER,)

    def make(self, scenario: Scenario) -> Darkness:
        return Darkness(Shed(dict(zip(NAMES, SHEDS[scenario.metadata["shed"]], strict=True)), TRIED), 4)


def seen(messages: tuple[Message, ...]) -> Hashable:
    """The scorer's state: the lines that are told besides."""
    return tuple(str(messages[-1]["content"]).split("\n")[1:])


@cache
def scored(seed: int, **knowledge: Any) -> tuple[float, float]:
    """What is earned and the share of illegal moves, after training; wrong tables are drawn anew in each episode."""
    world = InformedWorld(Two(), Knowledge(**knowledge))
    flow = PlayEnvironment(world, memory=False, turns=4, own_chance=True, instruct=False)
    cases = [Scenario(f"shed {n}", "start", metadata={"shed": n}, seed=n) for n in range(len(SHEDS))]
    recipe = KNOWLEDGE_INJECTION_TEXT_GAMES
    made = TalkBench(flow, cases, WORDS, recipe, view=seen, seed=seed, lr=0.2).run(STEPS)
    return figures(made.play(40))


def figures(played: list[Trajectory]) -> tuple[float, float]:
    """What was earned, and the share of illegal moves."""
    return (
        fmean(RETURNS.get(one)[PLAYER] for one in played),
        fmean(ILLEGAL.get(one)[PLAYER] / len(one.turns) for one in played),
    )


def by_seed(**knowledge: Any) -> tuple[list[float], list[float]]:
    """Both over seeds."""
    found = [scored(seed, **knowledge) for seed in SEEDS]
    return [one for one, _ in found], [one for _, one in found]


@claim(
    "A scorer of moves that learns by reinforcement alone earns more with fewer illegal moves where it is told both "
    "kinds of knowledge; shuffled, both gains vanish.",
    slow=True,
)
def _() -> Finding:
    (told, wrong), (none, blind), (lied, misled) = (
        by_seed(kind=kind, shuffled=shuffled) for kind, shuffled in (("both", False), ("none", False), ("both", True))
    )
    holds = min(told) > 0.9 and min(told) > max(none) + 0.2 and max(wrong) < min(blind) - 0.3
    holds &= max(lied) < max(none) + 0.1 and min(misled) > min(blind) - 0.1
    earned = say(earned_both=line(told), none=line(none), shuffled=line(lied))
    return Finding(holds, f"{earned}; {say(illegal_both=line(wrong), none=line(blind), shuffled=line(misled))}")


@claim(
    "Each kind of knowledge alone earns less than both; told at the start alone, they are worth less than in every "
    "turn.",
    slow=True,
)
def _() -> Finding:
    ways: dict[str, dict[str, Any]] = {
        "both": {"kind": "both", "shuffled": False},
        "affordances": {"kind": "affordances"},
        "memory": {"kind": "memory"},
        "none": {"kind": "none", "shuffled": False},
        "start": {"kind": "both", "at": "start"},
    }
    earned = {name: by_seed(**how)[0] for name, how in ways.items()}
    mean = {name: fmean(found) for name, found in earned.items()}
    holds = mean["both"] > max(mean["affordances"], mean["memory"], mean["start"]) + 0.02
    holds &= min(mean["affordances"], mean["start"]) > mean["none"]
    return Finding(holds, say(**{name: line(found) for name, found in earned.items()}))


# ---------------------------------------------------------------- the shipped model

LESSONS, RL, LR = 60, 25, 5e-4


@cache
def shipped(settings: str) -> tuple[float, float, float, float]:
    """What the shipped model earns and its illegal moves, in the first and the last five steps after lessons."""
    task = f"informed:devices?{settings}"
    how = {"update.lr": LR, "curriculum.prompts": 16}
    pupil = after_lessons(KNOWLEDGE_INJECTION_TEXT_GAMES, task, f"lessons:{task}", how, steps=LESSONS).run(RL)
    parts = [
        [one for row in pupil.results[last] for one in row.trajectories] for last in (slice(0, 5), slice(-5, None))
    ]
    (before, wrong), (after, late) = map(figures, parts)
    return before, after, wrong, late


@claim(
    "After the same lessons the shipped model learns to use what it is told: it earns more with fewer illegal moves "
    "than from a shuffled table, where it hardly gains.",
    slow=True,
)
def _() -> Finding:
    told, lied = shipped("kind=both"), shipped("kind=both&shuffled=true")
    holds = told[1] > told[0] + 0.15 and told[3] < lied[3] - 0.1 and told[1] > lied[1] + 0.15
    columns = ("earned_first", "last", "illegal_first", "last_illegal")
    saw = [say(**dict(zip(columns, found, strict=True))) for found in (told, lied)]
    return Finding(holds, f"true: {saw[0]}; shuffled: {saw[1]}")


claim.shipped(
    KNOWLEDGE_INJECTION_TEXT_GAMES,
    "workflow",
    task="devices",
    first={"recipe": "sft", "steps": 40, "update.lr": 0.003, "task": "lessons:informed:devices"},
    settings={"curriculum.prompts": 8},
    sees=lambda run: {"reward": run.mean("reward/mean"), "groups": run.mean("groups/with_signal")},
)
