"""The collaboration gap's claims."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from hocket.agents.workflows.chat import Chat
from hocket.core.keys import Key
from hocket.lab.claims.harness import SEEDS, Claims, Finding, say
from hocket.lab.talk import Prior, TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.lab.toys.talks import as_prior
from hocket.methods.base.grpo import GRPO
from hocket.methods.teams.collaboration_gap.task import CollaborationGap, SplitMaze, SplitMazes, posed
from hocket.methods.teams.collaboration_gap.workflow import Route, SplitMap, agreed_route, route_in
from hocket.nano.tokenizer import build_tokenizer
from hocket.testing import Part, rehearse
from hocket.types import Message, Scenario

claim = Claims("collaboration-gap", "arXiv:2511.02687")
TASK = SplitMazes()
MAP = re.compile(r"(?:^[.#?SG]+$\n?)+", re.MULTILINE)
WAYS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
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


def by_hand(maze: SplitMaze, route: Sequence[str]) -> float:
    """The grade, by a walk on the board and distances by relaxation."""
    board = {(y, x): m for y, row in enumerate(maze.text().split("\n")) for x, m in enumerate(row) if m != "#"}
    far = {place: 0.0 if mark == "G" else math.inf for place, mark in board.items()}
    for _, (y, x) in itertools.product(board, board):
        far[y, x] = min(far[y, x], *(1 + far.get((y + down, x + right), math.inf) for down, right in WAYS.values()))
    here = start = next(place for place, mark in board.items() if mark == "S")
    for move in route:
        there = (here[0] + WAYS[move][0], here[1] + WAYS[move][1])
        if there not in far or far[here] == 0:
            break
        here = there
    return max(0.0, 1 - far[here] / far[start])


def read(text: str) -> SplitMaze:
    """The maze of a map; what is unknown counts as wall."""
    marks = "".join(text.split())
    walls = tuple(mark in "#?" for mark in marks)
    return SplitMaze(len(text.split()[0]), walls, marks.index("S"), marks.index("G"), (frozenset(), frozenset()))


@claim(
    "Transcripts are read as the route that both agreed on, and routes graded by how much of the way is valid.",
    "grade and agreement chosen here",
)
def transcripts_are_read_as_the_route_that_both_agreed_on_and() -> Finding:
    grades, gaps = [], []
    for number in range(20):
        maze, rng = TASK.maze("train", number), Key.of(number).derive("routes").numpy()
        best = maze.shortest()
        assert best is not None
        for length in range(12):
            drawn = [tuple(WAYS)[n] for n in rng.integers(4, size=length)]
            for route in ((*best[:length], *drawn), tuple(drawn)):
                grades.append(maze.grade(route))
                gaps.append(abs(grades[-1] - by_hand(maze, route)))
    partial, whole = sum(0 < grade < 1 for grade in grades), sum(grade == 1 for grade in grades)
    said = ([(("alice", "bob")[n % 2], text) for n, text in enumerate(texts)] for texts, _ in TRANSCRIPTS)
    right = [agreed_route(talk) == route for talk, (_, route) in zip(said, TRANSCRIPTS, strict=True)]
    figures = say(routes=len(grades), in_mazes=20, whole=whole, in_part=partial, off_by=max(gaps))
    told = f"{figures}, {sum(right)} of {len(right)} transcripts settle the route they should"
    return Finding(max(gaps) < 1e-12 and min(partial, whole) > 50 and all(right), told)


def merged(maps: Sequence[str]) -> str:
    """What several maps of one maze show together."""
    return "".join(next((mark for mark in marks if mark != "?"), "?") for marks in zip(*maps, strict=True))


def seen_maps(messages: Sequence[Message]) -> list[str]:
    """All maps that somebody was told, each once."""
    texts = [str(message["content"]) for message in messages if message["role"] == "user"]
    return list(dict.fromkeys(one.strip() for text in texts for one in MAP.findall(text)))


def frank(most: float, messages: Sequence[Message]) -> str:
    """Shows its map until it knows both, then proposes a route of up to `most` moves; accepts what is proposed."""
    if len(messages) > 1 and route_in(str(messages[-1]["content"])):
        return "agreed"
    maps = seen_maps(messages)
    if "?" in merged(maps):
        return f"My map:\n{maps[0]}"
    route = read(merged(maps)).shortest()
    return "no idea" if route is None or len(route) > most else f"<answer>{', '.join(route)}</answer>"


def success(workflow: SplitMap, scenario: Scenario, say: Mapping[str, Callable[[tuple[Message, ...]], str]]) -> float:
    """Whether scripts solve a maze."""
    parts = {role: Part(say[role]) for role in workflow.roles}
    return TASK.success(rehearse(workflow, scenario, parts, chat=Chat(build_tokenizer()), verifier=TASK.verify)[0])


@claim("A pair that tells each other all scores exactly as one agent with both halves, and with the map: gap 0.")
def a_pair_that_tells_each_other_all_scores_exactly_as_one_agent() -> Finding:
    mazes = [TASK.scenario("train", number) for number in range(30)]
    flows = (SplitMap(see="merged", messages=6), SplitMap(see="whole", messages=6), SplitMap(see="halves", messages=6))
    gaps, apart = {}, 0.0
    for name, most in (("able", math.inf), ("short-sighted", 6)):
        scripts = dict.fromkeys(("policy", "alice", "bob"), functools.partial(frank, most))
        alone, whole, pair = ([success(flow, maze, scripts) for maze in mazes] for flow in flows)
        gaps[name] = CollaborationGap.of(alone, pair)
        apart = max(apart, *(abs(a - b) + abs(a - c) for a, b, c in zip(alone, whole, pair, strict=True)))
    rates = {name: f"{one.solo:.3f} alone, {one.pair:.3f} as a pair, gap {one.gap}" for name, one in gaps.items()}
    holds = apart == 0 and gaps["able"].solo == 1 and 0.1 < gaps["short-sighted"].solo < 0.9
    return Finding(holds, say(mazes_of_6_x_6=30, **rates, largest_difference_of_a_maze=apart))


BLANK, DENSITY, LENGTHS = "S??\n???\n??G", 0.3, (4, 8)
HALVES = (frozenset({2, 5, 6, 7}), frozenset({1, 3, 4}))


def completions(text: str) -> Iterator[tuple[float, SplitMaze]]:
    """The 3 x 3 mazes that a map allows, each with the chance that a draw makes and keeps it."""
    marks = "".join(text.split())
    for bits in itertools.product((False, True), repeat=marks.count("?")):
        drawn = iter(bits)
        walls = [next(drawn) if mark == "?" else mark == "#" for mark in marks]
        maze = replace(read(text), walls=tuple(walls))
        if LENGTHS[0] <= maze.distances().get(maze.start, -1) <= LENGTHS[1]:
            yield DENSITY ** sum(walls) * (1 - DENSITY) ** (len(marks) - 2 - sum(walls)), maze


@functools.cache
def guess(text: str) -> tuple[Route, float]:
    """The likeliest of all routes given a map, and the chance that its hidden cells are open."""
    known = list(completions(text))
    mass = sum(chance for chance, _ in known)
    routes = dict.fromkeys(route for _, maze in known for route in whole_routes(maze, (maze.start,)))
    chances = {route: sum(c for c, maze in known if maze.grade(route) == 1.0) / mass for route in routes}
    best = max(chances, key=lambda route: chances[route])
    return best, chances[best]


def whole_routes(maze: SplitMaze, path: tuple[int, ...], route: Route = ()) -> Iterator[Route]:
    """Every way to the goal that enters no cell twice."""
    if path[-1] == maze.goal:
        yield route
        return
    for move in reversed(WAYS):
        to = maze.after(path[-1], move)
        if to is not None and to not in path:
            yield from whole_routes(maze, (*path, to), (*route, move))


@claim("A mute pair scores at the rate at which hidden cells can be guessed.", "derived")
def a_mute_pair_scores_at_the_rate_at_which_hidden_cells_can_be() -> Finding:
    every = [(chance, replace(maze, hidden=HALVES)) for chance, maze in completions(BLANK)]
    mass = sum(chance for chance, _ in every)
    scripts: dict[str, Callable[[tuple[Message, ...]], str]] = {
        "alice": lambda messages: f"<answer>{', '.join(guess(seen_maps(messages)[0])[0])}</answer>",
        "bob": lambda messages: "agreed",
    }
    played = sum(chance * success(SplitMap(), posed(maze, "maze"), scripts) for chance, maze in every) / mass
    computed = sum(chance * guess(maze.halves[0])[1] for chance, maze in every) / mass
    task = SplitMazes(width=3, height=3, density=DENSITY, least=LENGTHS[0], most=LENGTHS[1])
    drawn = [task.maze("train", number) for number in range(400)]
    guesses = [guess(maze.halves[0]) for maze in drawn]
    solved = fmean(maze.grade(route) == 1.0 for maze, (route, _) in zip(drawn, guesses, strict=True))
    expected = fmean(chance for _, chance in guesses)
    error = math.sqrt(sum(chance * (1 - chance) for _, chance in guesses)) / len(drawn)
    holds = abs(played - computed) < 1e-12 and computed < 0.9 and abs(solved - expected) < 3 * error and error < 0.03
    all_mazes = say(mazes_of_3_x_3=len(every), mass_that_a_mute_pair_solves=played, chance_of_open_cells=computed)
    return Finding(holds, f"{all_mazes}; of 400 mazes of the task {solved:.3f}, expected {expected:.3f} +- {error:.3f}")


SHOWN = (1, 3, 4)
ROUTES = tuple(
    tuple("east" if step in east else "south" for step in range(4)) for east in itertools.combinations(range(4), 2)
)
STATEMENTS = tuple(
    " ".join(["open", *map(str, cells)]) for size in range(4) for cells in itertools.combinations(SHOWN, size)
)
PROPOSALS = tuple(f"<answer>{', '.join(route)}</answer>" for route in ROUTES)
TALK = SplitMap(messages=6, system=None)


def known(messages: tuple[Message, ...]) -> tuple[str, str]:
    """What an agent of the tables knows: its map, and what it heard last."""
    last = str(messages[-1]["content"]).rpartition("\n")[2]
    return seen_maps(messages)[0], last.partition(": ")[2] if last[:3] in ("Ali", "Bob") else ""


def language(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """A base that knows what words mean, but seldom says what helps."""
    own, heard = known(messages)
    if heard in PROPOSALS:
        return {heard: 2.0}
    marks = "".join(own.split())
    if not heard:
        return {" ".join(["open", *(str(cell) for cell in SHOWN if marks[cell] == ".")]): 2.0}
    opened = [int(word) for word in heard.split()[1:]]
    marks = "".join(mark if mark != "?" else ".#"[place not in opened] for place, mark in enumerate(marks))
    maze = read(f"{marks[:3]}\n{marks[3:6]}\n{marks[6:]}")
    return {word: 2.0 for word, route in zip(PROPOSALS, ROUTES, strict=True) if maze.grade(route) == 1.0}


def bench(workflow: SplitMap, mazes: Sequence[Scenario], seed: int, prior: Prior | Mapping[str, Prior]) -> TalkBench:
    roles = {role: "strong" if role == "opener" else "weak" for role in workflow.roles}
    return TalkBench(
        workflow, mazes, (*STATEMENTS, *PROPOSALS), GRPO.but({"rollout.samples": 8}), view=known, prior=prior, lr=0.3,
        roles=roles, verifier=TASK.verify, measure=lambda one: float(one.scores["task"].value == 1.0), seed=seed,
    )  # fmt: skip


def taught(mazes: Sequence[Scenario], seed: int, steps: int) -> Prior:
    """A pair of one policy that has learnt together, as logits."""
    return as_prior(bench(TALK, mazes, seed, language).run(steps).policies["weak"])


def relayed(seed: int) -> list[float]:
    """Success of a weak pair whose first 0 to 4 messages a strong opener says; the last is the strong pair alone."""
    every = [replace(maze, hidden=HALVES) for _, maze in completions(BLANK)]
    single = [maze for maze in every if sum(maze.grade(route) == 1.0 for route in ROUTES) == 1]
    places = Key.of(seed).derive("mazes").numpy().permutation(len(single))[:8].tolist()
    mazes = [posed(single[place], f"maze {place}") for place in places]
    strong, weak = taught(mazes, 2 * seed, 40), taught(mazes, 2 * seed + 1, 6)
    teams = [bench(replace(TALK, relay=k), mazes, seed, {"strong": strong, "weak": weak}) for k in range(5)]
    return [*(team.success(30, seed=k) for k, team in enumerate(teams)), bench(TALK, mazes, seed, strong).success(30)]


@claim("Relay inference: the more messages a strong opener says first, the more a weak pair solves.", slow=True)
def relay_inference_the_more_messages_a_strong_opener_says_first() -> Finding:
    curves = [relayed(seed) for seed in SEEDS]
    mean = [fmean(values) for values in zip(*curves, strict=True)]
    gain = min(curve[4] - curve[0] for curve in curves)
    holds = min(b - a for a, b in pairwise(mean[:-1])) > -0.02 and gain > 0.15 and mean[2] - mean[0] > 0.15
    pairs = "pairs of tables after 6 and 40 steps, 8 mazes, 5 seeds"
    openings = say(solved_after_0_1_2_3_4_strong_openings=line(mean[:-1]), by_the_strong_pair=mean[-1])
    return Finding(holds, f"{pairs}, {openings}, least gain of a seed {gain:.3f}")
