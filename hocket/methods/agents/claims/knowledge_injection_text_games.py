"""The claims of knowledge injection, among strange devices and in households."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket import tasks
from hocket.agents.environments.protocol import Environment
from hocket.agents.environments.solitary import PLAYER
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.library import find as find_workflow
from hocket.core.columns import ILLEGAL, RETURNS
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, below, gap, say
from hocket.lab.claims.lesson_data import after_lessons
from hocket.lab.talk import TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.methods.agents.knowledge_injection_text_games.command_lab import attention
from hocket.methods.agents.knowledge_injection_text_games.command_lab import scores as by_hand
from hocket.methods.agents.knowledge_injection_text_games.commands import Commanded
from hocket.methods.agents.knowledge_injection_text_games.devices import VERBS, Darkness, Shed
from hocket.methods.agents.knowledge_injection_text_games.method import (
    KNOWLEDGE_INJECTION_TEXT_GAMES,
    Informed,
    InformedPlay,
    InformedWorld,
    Knowledge,
)
from hocket.methods.agents.knowledge_injection_text_games.reader import GraphAttention, OverCommands
from hocket.methods.base.ppo import PPO
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.loop import RunContext, train_step
from hocket.types import Message, Scenario, Trajectory
from hocket.zoo.household import Household, moves

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
def what_an_agent_sees_is_followed_by_the_verbs_that_fit_each() -> Finding:
    accepted, nothing, wrong = "The lamp starts.", "Nothing happens.", list[Any]()
    rows: list[tuple[dict[str, Any], str, str]] = [
        ({"kind": "both"}, f"{ASKED}\n{FITS}", f"{accepted} {ASKED}\n{FITS}\nWorked: pull lamp."),
        ({"kind": "affordances"}, f"{ASKED}\n{FITS}", f"{accepted} {ASKED}\n{FITS}"),
        ({"kind": "memory"}, ASKED, f"{accepted} {ASKED}\nWorked: pull lamp."),
        ({"kind": "none"}, ASKED, f"{accepted} {ASKED}"),
        ({"at": "before"}, f"{FITS}\n{ASKED}", f"{FITS}\nWorked: pull lamp.\n{accepted} {ASKED}"),
        ({"at": "start"}, f"{ASKED}\n{FITS}", f"{accepted} {ASKED}"),
    ]
    for knowledge, first, second in rows:
        made = episode(**knowledge)
        texts, due = [made.observe(PLAYER).text], [first, second, second.replace(accepted, nothing)]
        for move in (" Pull  lamp.", "pull lamp"):  # The second time it runs already.
            made.act({PLAYER: move})
            texts.append(made.observe(PLAYER).text)
        holds = made.observe(PLAYER).actions is None and dict(made.illegal) == {PLAYER: 1}
        wrong += [] if holds and texts == due and made.remembered(PLAYER) == ("pull lamp",) else [knowledge]
    return Finding(not wrong, say(wrong=str(wrong), kinds=len(rows)))


@claim("As shipped both kinds are told after what is seen, and no list of legal moves; `listed` leaves it.")
def as_shipped_both_kinds_are_told_after_what_is_seen_and_no_list() -> Finding:
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
def in_a_household_the_verbs_that_fit_are_those_of_its_legal_moves() -> Finding:
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
def in_households_one_who_says_at_random_what_it_reads_that_fits() -> Finding:
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
def a_scorer_of_moves_that_learns_by_reinforcement_alone_earns_more() -> Finding:
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
def each_kind_of_knowledge_alone_earns_less_than_both_told_at_the() -> Finding:
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


# ---------------------------------------------------------------- a graph in the place of lines

Graph = list[tuple[str, str, str]]


def seen_graph(made: Commanded, row: NDArray[np.float32]) -> Graph:
    """The triples of a row of numbers in words, in their order."""
    lexicon, commands = made.lexicon, made.lexicon.commands
    assert made.environment is not None
    bare: Any = made.environment.bare
    objects = list(bare.shed.fits) if isinstance(bare, Darkness) else list(bare.affordances)
    nodes = ["", *lexicon.verbs, *objects, *[""] * (commands.objects - len(objects)), "you"]
    text, names = commands.parts[:2]
    numbers = row[text + names : -1].astype(int).reshape(-1, 3)
    return [(nodes[i], ("", *lexicon.relations)[r], nodes[j]) for i, r, j in numbers.tolist() if i and r and j]


def played_out(settings: str, episodes: int = 12) -> Iterator[tuple[Commanded, NDArray[np.float32], Graph, int]]:
    """Random commands among devices: each row, what ought to be known by hand in its order, and illegal moves."""
    task: Any = tasks.find(f"commands:informed:devices?form=graph&count=4&spare=6&{settings}")
    for number in range(episodes):
        made, rng = task.make(), Key.of(number).derive("by hand").numpy()
        row = made.reset(2 * number)
        shed, wrong, worked = made.environment.bare.shed, 0, list[tuple[str, str]]()
        fits = [(name, "affords", verb) for name, verb in shed.fits.items()]
        over = False
        while not over:
            yield made, row, [*fits, *((name, "worked", verb) for name, verb in worked)], wrong
            action = int(rng.integers(task.actions))
            verb, name = VERBS[action // 4], list(shed.fits)[action % 4]
            legal = shed.fits[name] == verb and (name, verb) not in worked
            worked, wrong = [*worked, (name, verb)] if legal else worked, wrong + (not legal)
            row, earned, ended, cut = made.step(action)
            assert earned == legal / 4
            over = ended or cut


@claim(
    "As a graph, what is injected are exactly the triples of the world's affordances and of the moves that were "
    "accepted, beside those of the objects that are seen, and nothing of it is told in lines; each kind alone likewise."
)
def as_a_graph_what_is_injected_are_exactly_the_triples_of_the() -> Finding:
    wrong, rows, known = dict.fromkeys(("both", "affordances", "memory", "none"), 0), 0, 0
    for kind in wrong:
        left_out = {"affordances": ("worked",), "memory": ("affords",), "none": ("affords", "worked")}.get(kind, ())
        for made, row, due, _ in played_out(f"kind={kind}"):
            assert made.environment is not None
            sees = [("you", "sees", name) for name in made.environment.bare.shed.fits]  # type: ignore[attr-defined]
            wanted = [*sees, *(one for one in due if one[1] not in left_out)]
            text = made.environment.observe(PLAYER).text
            wrong[kind] += seen_graph(made, row) != wanted or "Fits" in text or "Worked" in text
            rows, known = rows + 1, max(known, len(wanted))
    return Finding(not any(wrong.values()) and known == 11, say(**wrong, rows=rows, most_triples=known))


@claim(
    "The graph attention is its formula, node by node in float64; blank triples and their order change nothing, and a "
    "node that nothing links to another does not move it.",
    "g_i = tanh sum_jr softmax_jr(LeakyReLU(a . W x_i + b . m_ijr)) m_ijr,  m_ijr = W x_j + u_r",
)
def the_graph_attention_is_its_formula_node_by_node_in_float64() -> Finding:
    errors = dict.fromkeys(("formula", "order", "unlinked"), 0.0)
    moved = 1.0
    for case in range(20):
        rng = np.random.default_rng(case)
        layer = GraphAttention(3, 6, key=Key.of(case)).double()
        nodes, there = rng.normal(size=(4, 7, 6)), rng.random((4, 7)) < 0.7
        triples = np.stack([rng.integers(0, size + 1, (4, 9)) for size in (6, 3, 6)], -1)  # The last node has none.
        given = [torch.from_numpy(one) for one in (nodes, triples, there)]
        with torch.no_grad():
            out = layer(*given)
            hand = [attention(layer, *row) for row in zip(nodes, triples.tolist(), there.tolist(), strict=True)]
            errors["formula"] = max(errors["formula"], gap(out, np.stack(hand)))
            padded = torch.cat([given[1].flip(1), torch.zeros(4, 2, 3, dtype=torch.long)], 1)
            errors["order"] = max(errors["order"], gap(out, layer(given[0], padded, given[2])))
            other = given[0].clone()
            other[:, -1] += 1.0
            errors["unlinked"] = max(errors["unlinked"], gap(out[:, :-1], layer(other, *given[1:])[:, :-1]))
            other[:, 0] += 1.0
            moved = min(moved, gap(out[:, :-1], layer(other, *given[1:])[:, :-1]))
    return below(EXACT, moved > 0.01, **errors)


@claim(
    "The score of a command is that of a layer over what a gated unit made of the text, the names of verb and object, "
    "and what attention made of the object, by hand in float64; one without an object has probability 0, and a value "
    "is of the mean over the others."
)
def the_score_of_a_command_is_that_of_a_layer_over_what_a_gated() -> Finding:
    errors, blank, commands = {"score": 0.0, "value": 0.0, "chance": 0.0}, 0, 0
    for name in ("commands:household?brief=false", "commands:informed:household?brief=false&form=graph"):
        task: Any = tasks.find(name)
        rows = [task.make().reset(2 * number) for number in range(12)]
        networks = [
            OverCommands(task.sight_form, (8, 6), acts=acts, last_gain=1.0, key=Key.of(3)).double()
            for acts in (True, False)
        ]
        for network, noise in itertools.product(networks, (Key.of(4).torch(),)):
            for weight in network.parameters():
                weight.data += 0.3 * torch.randn(weight.shape, generator=noise, dtype=torch.float64)
        actor, critic = networks
        with torch.no_grad():
            given = torch.from_numpy(np.stack(rows)).double()
            scores, values = actor(given).numpy(), critic(given).numpy()[:, 0]
        for row, score, value in zip(rows, scores, values, strict=True):
            hand, worth = by_hand(actor, row)[0], by_hand(critic, row)[1]
            there = ~np.isnan(hand)
            errors["score"] = max(errors["score"], gap(score[there], hand[there]))
            errors["value"] = max(errors["value"], abs(worth - value))
            chance = torch.softmax(torch.from_numpy(score), 0).numpy()[~there]
            errors["chance"] = max(errors["chance"], float(chance.max(initial=0.0)))
            blank, commands = blank + int((~there).sum()), commands + len(score)
    finding = below(EXACT, blank > 50, **errors)
    return Finding(finding.holds, say(**errors, without_object=blank, commands=commands))


# ---------------------------------------------------------------- hosts that score moves by networks

HOST_SEEDS, HOST_STEPS, REACHED = range(3), 45, 0.9
PLAIN, KNOWS, TOLD = "commands:devices", "commands:devices?graph=true", "commands:informed:devices"
LINKED, LIED = f"{TOLD}?form=graph", f"{TOLD}?form=graph&shuffled=true"


@cache
def hosted(name: str, seed: int, steps: int = HOST_STEPS) -> tuple[float, float, float, int]:
    """A network trained by PPO as `hocket train` does: return, share of illegal moves and moves in the last five steps.

    Last the first step whose return was `REACHED`, one more than there are where none was.
    """
    task: Any = tasks.find(name)
    config = configure([("recipe", PPO), ("task", name), ("steps", steps), ("seed", 100 + seed)], task)
    parts, last, first = build_parts(config, task), list[Trajectory](), steps + 1
    for step in range(1, steps + 1):
        played = _everything(parts, step)
        first = step if first > steps and fmean(map(task.success, played)) >= REACHED else first
        last += played if step > steps - 5 else []
    illegal = fmean(task.describe(one)["illegal"] for one in last)
    return fmean(map(task.success, last)), illegal, fmean(len(one.turns[0]) for one in last), first


def _everything(parts: RunContext, step: int) -> list[Trajectory]:
    experience = run_async(train_step(parts, step)).experience
    assert experience is not None
    return list(experience.trajectories)


def hosts(name: str, steps: int = HOST_STEPS) -> tuple[list[float], list[float], list[float], list[int]]:
    """All four over seeds."""
    earned, illegal, took, reached = zip(*(hosted(name, seed, steps) for seed in HOST_SEEDS), strict=True)
    return list(earned), list(illegal), list(took), list(reached)


@claim(
    "A network that scores moves and reads a graph makes fewer illegal moves and reaches the score in fewer where both "
    "kinds of knowledge are injected as triples, in each of 3 seeds; from shuffled triples it does neither, and no "
    "more without them than a scorer of the text alone.",
    "illegal moves fall, the score is reached in fewer steps, and with a wrong table the gain vanishes",
    slow=True,
)
def a_network_that_scores_moves_and_reads_a_graph_makes_fewer() -> Finding:
    (told, wrong, took, reached), (none, blind, long, never) = hosts(LINKED), hosts(KNOWS)
    (lied, misled, lost, _), (plain, unread, _, _) = hosts(LIED), hosts(PLAIN)
    holds = max(wrong) < min(*blind, *misled) - 0.5 and max(took) < min(*long, *lost) - 2 and min(told) > 0.95
    holds &= max(reached) < HOST_STEPS < min(never) and max(*lied, *plain) < max(none) + 0.1
    holds &= min(*misled, *unread) > min(blind) - 0.1
    return Finding(
        holds,
        say(illegal=line(wrong), no_triples=line(blind), shuffled=line(misled), text_alone=line(unread))
        + "; "
        + say(moves=line(took), no_triples=line(long), shuffled=line(lost))
        + "; "
        + say(earned=line(told), no_triples=line(none), shuffled=line(lied), text_alone=line(plain), reached=reached),
    )


@claim(
    "In as many steps as triples need, the same knowledge in lines of the text gains little, in a scorer that reads "
    "text alone and in one with a graph: where it is injected decides. Triples of one kind alone gain less than both.",
    slow=True,
)
def in_as_many_steps_as_triples_need_the_same_knowledge_in_lines_of() -> Finding:
    ways = {
        "text alone": PLAIN,
        "lines": TOLD,
        "graph": KNOWS,
        "lines beside a graph": f"{TOLD}?graph=true",
        "triples": LINKED,
        "affordances": f"{LINKED}&kind=affordances",
        "memory": f"{LINKED}&kind=memory",
    }
    earned = {name: hosts(task)[0] for name, task in ways.items()}
    mean = {name: fmean(found) for name, found in earned.items()}
    lines = {"text alone": "lines", "graph": "lines beside a graph"}
    gains = {name: mean[other] - mean[name] for name, other in lines.items()}
    holds = mean["triples"] - mean["graph"] > 0.3 + max(gains.values()) and min(gains.values()) > -0.05
    holds &= min(earned["triples"]) > max(*earned["affordances"], *earned["memory"])
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
def after_the_same_lessons_the_shipped_model_learns_to_use_what_it() -> Finding:
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
