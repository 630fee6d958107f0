"""What collaboration-gap claims."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Literal

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import Prior, TalkBench
from hocket.lab.toys.turn_toys import SEEDS
from hocket.methods.base.grpo import GRPO
from hocket.nano.tokenizer import build_tokenizer
from hocket.tasks.split_maze import CollaborationGap, SplitMaze, SplitMazes, posed
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario, Trajectory
from hocket.workflows.chat import Chat
from hocket.workflows.split_map import Route, SplitMap, agreed_route, route_in

claim = Claims("collaboration-gap", "arXiv:2511.02687")


TASK = SplitMazes()
MAP = re.compile(r"(?:^[.#?SG]+$\n?)+", re.MULTILINE)


def by_hand(maze: SplitMaze, route: Sequence[str]) -> float:
    """The grade, by a walk on a padded board and distances by relaxation."""
    rows = maze.text().split("\n")
    board = ["#" * (maze.width + 2), *(f"#{row}#" for row in rows), "#" * (maze.width + 2)]
    places = [(y, x) for y, row in enumerate(board) for x, mark in enumerate(row) if mark != "#"]
    far = {place: 0.0 if board[place[0]][place[1]] == "G" else math.inf for place in places}
    for _ in places:
        for y, x in places:
            beside = [far.get(near, math.inf) for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1))]
            far[y, x] = min(far[y, x], 1 + min(beside))
    here = start = next((y, x) for y, x in places if board[y][x] == "S")
    for move in route:
        y, x = here
        there = {"north": (y - 1, x), "south": (y + 1, x), "west": (y, x - 1), "east": (y, x + 1)}[move]
        if there not in far or far[here] == 0:
            break
        here = there
    return max(0.0, 1 - far[here] / far[start])


TRANSCRIPTS: tuple[tuple[list[str], Route | None], ...] = (
    (["go <answer>east, south</answer>", "<answer>East south</answer>"], ("east", "south")),
    (["<answer>east</answer>", "agreed"], ("east",)),
    (["right down", "Down, then?", "<answer>south</answer>", "I agree."], ("south",)),
    (["<answer>east</answer>", "I do not agree", "what do you see?"], None),
    (["<answer>east</answer>", "I disagree: <answer>west</answer>", "fine, I agree"], ("west",)),
    (["<answer>east</answer>", "<answer>west</answer>", "<answer>west</answer>"], ("west",)),
    (["I agree", "go east if you can"], None),
    (["<answer>east</answer>", "", "<answer>east</answer>"], None),
    (["<answer>up up</answer><answer>left</answer>", "west"], ("west",)),
)


def read(text: str, hidden: frozenset[int] = frozenset()) -> SplitMaze:
    """The maze of a map; what is unknown counts as wall."""
    marks = "".join(text.split())
    walls = tuple(mark in "#?" for mark in marks)
    return SplitMaze(len(text.split()[0]), walls, marks.index("S"), marks.index("G"), (hidden, frozenset()))


@claim(
    "Transcripts are read as the route that both agreed on, and routes graded by how much of the way is valid.",
    "grade and agreement chosen here",
)
def grading_is_exact() -> Finding:
    gap, partial, whole = 0.0, 0, 0
    for number in range(20):
        maze, rng = TASK.maze("train", number), Key.of(number).derive("routes").numpy()
        best = maze.shortest()
        assert best is not None
        for length in range(12):
            drawn = [("north", "east", "south", "west")[n] for n in rng.integers(4, size=length)]
            for route in ((*best[:length], *drawn), tuple(drawn)):
                grade = maze.grade(route)
                gap = max(gap, abs(grade - by_hand(maze, route)))
                partial, whole = partial + (0 < grade < 1), whole + (grade == 1)
    wrong = [
        said
        for said, route in TRANSCRIPTS
        if agreed_route([(("alice", "bob")[n % 2], text) for n, text in enumerate(said)]) != route
    ]
    return Finding(
        gap < 1e-12 and min(partial, whole) > 50 and not wrong,
        f"480 routes in 20 mazes ({whole} whole, {partial} in part) graded anew: off by {gap:.1e}; "
        f"{len(TRANSCRIPTS) - len(wrong)} of {len(TRANSCRIPTS)} transcripts settle the route they should",
    )


Solver = Callable[[str], Route | None]
"""A route for a map in text, where it finds one."""


def merged(maps: Sequence[str]) -> str:
    """What several maps of one maze show together."""
    return "".join(next((mark for mark in marks if mark != "?"), "?") for marks in zip(*maps, strict=True))


def able(text: str) -> Route | None:
    return read(text).shortest()


def short_sighted(text: str) -> Route | None:
    """Finds routes of up to six moves alone."""
    route = able(text)
    return route if route is not None and len(route) <= 6 else None


def seen_maps(messages: Sequence[Message]) -> list[str]:
    """All maps that somebody was told, each once."""
    told = [str(message["content"]) for message in messages if message["role"] == "user"]
    return list(dict.fromkeys(found.strip() for text in told for found in MAP.findall(text)))


def told_route(messages: Sequence[Message]) -> Route | None:
    """The route that the partner proposed last."""
    return route_in(str(messages[-1]["content"])) if len(messages) > 1 else None


def frank(solver: Solver, messages: Sequence[Message]) -> str:
    """Shows its map until it knows both, then proposes what the solver finds; accepts what is proposed."""
    if told_route(messages):
        return "agreed"
    maps = seen_maps(messages)
    if "?" in merged(maps):
        return f"My map:\n{maps[0]}"
    route = solver(merged(maps))
    return "no idea" if route is None else f"<answer>{', '.join(route)}</answer>"


SEEN: tuple[Literal["merged", "whole", "halves"], ...] = ("merged", "whole", "halves")


@functools.cache
def chat() -> Chat:
    return Chat(build_tokenizer())


def success(workflow: SplitMap, scenario: Scenario, say: Mapping[str, Callable[[tuple[Message, ...]], str]]) -> float:
    """Whether scripts solve a maze."""
    parts = {role: Part(say[role]) for role in workflow.roles}
    (played,) = rehearse(workflow, scenario, parts, chat=chat(), verifier=TASK.verify)
    return TASK.success(played)


@claim("A pair that tells each other all scores exactly as one agent with both halves, and with the map: gap 0.")
def frank_pairs_have_no_gap() -> Finding:
    told, apart, rates = [], 0.0, []
    mazes = [TASK.scenario("train", number) for number in range(30)]
    for name, solver in (("able", able), ("short-sighted", short_sighted)):
        say = dict.fromkeys(("policy", "alice", "bob"), functools.partial(frank, solver))
        alone, whole, pair = ([success(SplitMap(see=see, messages=6), maze, say) for maze in mazes] for see in SEEN)
        gap = CollaborationGap.of(alone, pair)
        apart = max(apart, *(abs(a - b) + abs(a - c) for a, b, c in zip(alone, whole, pair, strict=True)))
        rates.append(gap.solo)
        told.append(f"{name} {gap.solo:.3f} alone, {gap.pair:.3f} as a pair, gap {gap.gap}")
    return Finding(
        apart == 0 and rates[0] == 1 and 0.1 < rates[1] < 0.9,
        f"30 mazes of 6 x 6, pairs that show their maps: {'; '.join(told)}; no maze differs",
    )


CORNERS, DENSITY, LENGTHS = (0, 8), 0.3, (4, 8)
HALVES = (frozenset({2, 5, 6, 7}), frozenset({1, 3, 4}))


def completions(text: str) -> Iterator[tuple[float, SplitMaze]]:
    """The 3 x 3 mazes that a map allows, each with the chance that a draw makes and keeps it."""
    marks = "".join(text.split())
    open_ends = [place for place, mark in enumerate(marks) if mark == "?"]
    for bits in itertools.product((False, True), repeat=len(open_ends)):
        walls = [mark == "#" for mark in marks]
        for place, wall in zip(open_ends, bits, strict=True):
            walls[place] = wall
        maze = replace(read(text), walls=tuple(walls))
        if LENGTHS[0] <= maze.distances().get(maze.start, -1) <= LENGTHS[1]:
            count = sum(walls)
            yield DENSITY**count * (1 - DENSITY) ** (len(marks) - 2 - count), maze


@functools.cache
def guess(text: str) -> tuple[Route, float]:
    """The likeliest of all routes given a map, and the chance that its hidden cells are open."""
    known = list(completions(text))
    routes = dict.fromkeys(route for _, maze in known for route in whole_routes(maze))
    chances = {
        route: sum(chance for chance, maze in known if maze.grade(route) == 1.0) / sum(chance for chance, _ in known)
        for route in routes
    }
    best = max(chances, key=lambda route: chances[route])
    return best, chances[best]


def whole_routes(maze: SplitMaze) -> Iterator[Route]:
    """Every way to the goal that enters no cell twice."""
    waiting: list[tuple[tuple[int, ...], Route]] = [((maze.start,), ())]
    while waiting:
        path, route = waiting.pop()
        if path[-1] == maze.goal:
            yield route
            continue
        for move in ("north", "east", "south", "west"):
            to = maze.after(path[-1], move)
            if to is not None and to not in path:
                waiting.append(((*path, to), (*route, move)))


def guessing(messages: tuple[Message, ...]) -> str:
    """Proposes the likeliest route by its own map."""
    return f"<answer>{', '.join(guess(seen_maps(messages)[0])[0])}</answer>"


def accepting(messages: tuple[Message, ...]) -> str:
    return "agreed"


@claim("A mute pair scores at the rate at which hidden cells can be guessed.", "derived")
def mute_pairs_guess() -> Finding:
    """All 3 x 3 mazes between two corners, played; and mazes as the task draws them."""
    blank = "S??\n???\n??G"
    every = [(chance, replace(maze, hidden=HALVES)) for chance, maze in completions(blank)]
    mass = sum(chance for chance, _ in every)
    say = {"alice": guessing, "bob": accepting}
    played = sum(chance * success(SplitMap(), posed(maze, "maze"), say) for chance, maze in every) / mass
    views: dict[str, float] = {}
    for chance, maze in every:
        views[maze.halves[0]] = views.get(maze.halves[0], 0.0) + chance
    computed = sum(chance * guess(view)[1] for view, chance in views.items()) / mass
    task = SplitMazes(width=3, height=3, density=DENSITY, least=LENGTHS[0], most=LENGTHS[1])
    drawn = [task.maze("train", number) for number in range(400)]
    guesses = [guess(maze.halves[0]) for maze in drawn]
    found = fmean(maze.grade(route) == 1.0 for maze, (route, _) in zip(drawn, guesses, strict=True))
    expected = fmean(chance for _, chance in guesses)
    error = math.sqrt(sum(chance * (1 - chance) for _, chance in guesses)) / len(drawn)
    return Finding(
        abs(played - computed) < 1e-12 and computed < 0.9 and abs(found - expected) < 3 * error and error < 0.03,
        f"all {len(every)} mazes of 3 x 3 cells between two corners: a pair that tells nothing solves {played:.4f} of "
        f"the mass, the likeliest hidden cells are open with {computed:.4f}; of 400 mazes of the task {found:.3f} "
        f"against {expected:.3f} +- {error:.3f}",
    )


SHOWN = (1, 3, 4)
ROUTES = tuple(
    tuple("east" if step in east else "south" for step in range(4)) for east in itertools.combinations(range(4), 2)
)
STATEMENTS = tuple(
    " ".join(["open", *(str(cell) for cell in cells)])
    for size in range(len(SHOWN) + 1)
    for cells in itertools.combinations(SHOWN, size)
)
PROPOSALS = tuple(f"<answer>{', '.join(route)}</answer>" for route in ROUTES)
WORDS = (*STATEMENTS, *PROPOSALS)
TALK = SplitMap(messages=6, system=None)
STRONG, WEAK = 40, 6
HANDOVERS = range(5)


def known(messages: tuple[Message, ...]) -> tuple[str, str]:
    """What an agent of the tables knows: its map, and what it heard last."""
    last = str(messages[-1]["content"]).rpartition("\n")[2]
    return seen_maps(messages)[0], last.partition(": ")[2] if last[:3] in ("Ali", "Bob") else ""


def language(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A base that knows what words mean, but seldom says what helps."""
    own, heard = known(messages)
    if heard in PROPOSALS:
        return {heard: 2.0}
    if not heard:
        marks = "".join(own.split())
        return {" ".join(["open", *(str(cell) for cell in SHOWN if marks[cell] == ".")]): 2.0}
    opened = [int(word) for word in heard.split()[1:]]
    whole = enumerate("".join(own.split()))
    marks = "".join(mark if mark != "?" else ".#"[place not in opened] for place, mark in whole)
    maze = read(f"{marks[:3]}\n{marks[3:6]}\n{marks[6:]}")
    return {word: 2.0 for word, route in zip(PROPOSALS, ROUTES, strict=True) if maze.grade(route) == 1.0}


def ambiguous(key: Key) -> list[Scenario]:
    """Eight mazes with one route of four moves."""
    every = [replace(maze, hidden=HALVES) for _, maze in completions("S??\n???\n??G")]
    single = [maze for maze in every if sum(maze.grade(route) == 1.0 for route in ROUTES) == 1]
    chosen = key.numpy().permutation(len(single))[:8].tolist()
    return [posed(single[place], f"maze {place}") for place in chosen]


def solved(trajectory: Trajectory) -> float:
    return float(trajectory.scores["task"].value == 1.0)


def bench(workflow: SplitMap, mazes: Sequence[Scenario], seed: int, prior: Prior | Mapping[str, Prior]) -> TalkBench:
    roles = {role: "strong" if role == "opener" else "weak" for role in workflow.roles}
    recipe = GRPO.but({"rollout.samples": 8})
    return TalkBench(
        workflow, mazes, WORDS, recipe, view=known, prior=prior, roles=roles, verifier=TASK.verify, measure=solved,
        seed=seed, lr=0.3,
    )  # fmt: skip


def taught(mazes: Sequence[Scenario], seed: int, steps: int) -> Prior:
    """A pair of one policy that has learnt together, as logits."""
    policy = bench(TALK, mazes, seed, language).run(steps).policies["weak"]
    return lambda messages, said: np.log(policy.probabilities(*messages).numpy()).tolist()


@functools.cache
def relayed(seed: int) -> tuple[float, ...]:
    """Success of a weak pair whose first k messages a strong opener says; the last is the strong pair alone."""
    mazes = ambiguous(Key.of(seed).derive("mazes"))
    strong, weak = taught(mazes, 2 * seed, STRONG), taught(mazes, 2 * seed + 1, WEAK)
    found = [
        bench(replace(TALK, relay=k), mazes, seed, {"strong": strong, "weak": weak}).success(30, seed=k)
        for k in HANDOVERS
    ]
    return (*found, bench(TALK, mazes, seed, strong).success(30))


@claim("Relay inference: the more messages a strong opener says first, the more a weak pair solves.", slow=True)
def a_strong_opener_helps() -> Finding:
    curves = [relayed(seed) for seed in SEEDS]
    mean = [fmean(values) for values in zip(*curves, strict=True)]
    rises = [after - before for before, after in pairwise(mean[:-1])]
    gains = [curve[HANDOVERS[-1]] - curve[0] for curve in curves]
    return Finding(
        min(rises) > -0.02 and min(gains) > 0.15 and mean[2] - mean[0] > 0.15,
        f"pairs of tables after {WEAK} and {STRONG} steps, 8 mazes, 5 seeds: the weak pair solves {mean[0]:.3f}, with "
        f"the strong one's first {', '.join(map(str, HANDOVERS[1:]))} messages "
        f"{', '.join(f'{one:.3f}' for one in mean[1:-1])}, the strong pair {mean[-1]:.3f}; least gain of a seed "
        f"{min(gains):.3f}",
    )
