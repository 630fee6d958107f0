"""WebPilot's claims."""

from __future__ import annotations

import itertools
import math
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from hocket import tasks
from hocket.agents.environments.miniwob import MiniWoB
from hocket.agents.environments.protocol import World
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.team import Actor
from hocket.core.keys import Key
from hocket.engine.requests import Request
from hocket.lab.claims.harness import Check, Claims, Finding, cases, say
from hocket.lab.claims.lesson_data import lessons
from hocket.lab.claims.shipped_check import Shipment, configured
from hocket.methods.search.webpilot.bench import PAGE, Graded, Locks, clicks, greedy, turn, unscored
from hocket.methods.search.webpilot.method import (
    WEBPILOT,
    Asked,
    Branching,
    Errand,
    Opinion,
    PageSearch,
    Rules,
    Seen,
    backed_up,
    listed,
    move_of,
    share,
    split,
    wanted,
)
from hocket.methods.search.webpilot.prompts import Step
from hocket.methods.search.webpilot.world import Wizards
from hocket.nano.tokenizer import build_tokenizer
from hocket.rewards.judging import Judge
from hocket.rollout.message_tree import MessageNode
from hocket.testing import ScriptedEngine
from hocket.train.aio import run_async
from hocket.train.judges import judge_of
from hocket.train.loop import Playing
from hocket.types import Assignment, Scenario

claim = Claims("webpilot", "arXiv:2408.15978")
Explorer = Callable[[Request], str]


def explorer(able: float, *, heeds: bool = True) -> Explorer:
    """Clicks what is named by the subtask, or by the request where it has none, with probability `able`, else anything
    (one that heeds reflections, anything not tried at this page)."""

    def says(request: Request) -> str:
        page, draw = str(request.messages[-1]["content"]), request.key.numpy()
        things, now = listed(page), re.search(r"^Now: (.*)$", page, re.MULTILINE)
        part = now[1] if now else page.partition("\n1 ")[0]
        tried = re.findall(r"click (\d+) \(", page.partition("Tried:")[2].partition("\n")[0]) if heeds else []
        left = [number for number in things if number not in tried] or list(things)
        good = [number for number in left if share(part, things[number]) > 0]
        among = good if good and draw.random() < able else left
        return f"click {among[int(draw.integers(len(among)))]}"

    return says


def player(world: World, says: Explorer) -> TextPlayer:
    chat = Chat(build_tokenizer())
    actors = {"policy": Actor("policy", ScriptedEngine(says, chat), chat)}
    return TextPlayer(PlayEnvironment(world, memory=False, turns=200), actors, references=actors)


def searched(search: PageSearch, world: World, says: Explorer, count: int | range = 24) -> list[Errand]:
    seeds = range(count) if isinstance(count, int) else count
    asked = [Assignment(Scenario(f"s{number}", "", seed=number)) for number in seeds]
    return run_async(search.errands(asked, play=Playing(player(world, says), Key.of(0)), score=unscored))


def solved(errands: Sequence[Errand]) -> float:
    return fmean(one.solved is not None for one in errands)


WHOLE = {"crew": Rules(whole=True), "searches": 10**6}


def compared(world: World, able: float, moves: int, count: int = 24) -> dict[str, float]:
    """What three ways solve with as many moves on pages, those made again included."""
    search, says = PageSearch(moves=moves, branching=Branching(depth=12)), explorer(able)
    return {
        "webpilot": solved(searched(search, world, says, count)),
        "one tree": solved(searched(replace(search, **WHOLE), world, says, count)),  # type: ignore[arg-type]
        "greedy": greedy(Playing(player(world, says), Key.of(0)), moves, count),
    }


@claim("On long tasks, at equal moves on pages, subtasks with trees beat one tree and whole episodes of the explorer.")
def on_long_tasks_at_equal_moves_on_pages_subtasks_with_trees_beat() -> Finding:
    short, long = compared(Wizards(3), 0.5, 60), compared(Wizards(8), 0.5, 240)
    ahead = [found["webpilot"] - max(found["one tree"], found["greedy"]) for found in (short, long)]
    return Finding(min(ahead) > 0.2, say(pages_3=short, pages_8=long))


@claim(
    "So it is on pages of five steps in a real browser, to whose states it comes by making their moves again.",
    slow=True,
)
def so_it_is_on_pages_of_five_steps_in_a_real_browser_to_whose() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "wizard.html").write_text(PAGE, encoding="utf-8")
        found = compared(MiniWoB("wizard", root=folder, limit=40), 0.5, 120, count=12)
    return Finding(found["webpilot"] > max(found["one tree"], found["greedy"]) + 0.2, say(**found))


@claim(
    "On pages of the package, MiniWoB's click-checkboxes-large, it beats one tree and the explorer alone too.",
    slow=True,
)
def on_pages_of_the_package_miniwobs_click_checkboxes_large_it() -> Finding:
    found = compared(MiniWoB("click-checkboxes-large", limit=30), 0.6, 300, count=10)
    return Finding(found["webpilot"] > max(found["one tree"], found["greedy"]) + 0.1, say(**found))


def grown(pages: Graded, rule: Branching) -> tuple[list[float], list[bool]]:
    """The root's best after every move, until nothing is left; whether each was where the formula has it, anew."""
    turn: Any = object()
    root = MessageNode()
    seen, known = {root: Seen()}, list[tuple[int, ...]]()
    values, right = list[float](), list[bool]()
    while (node := rule.place(root, seen)) is not None:
        path = path_of(node)
        right.append(path == due(pages, rule, known))
        child = node.add(turn)
        seen[child] = Seen()
        backed_up(child, pages.grade((*path, len(node.children) - 1)), seen)
        known.append((*path, len(node.children) - 1))
        values.append(seen[root].best)
    return values, right


def path_of(node: MessageNode) -> tuple[int, ...]:
    return tuple(one.parent.children.index(one) for one in node.nodes[1:] if one.parent is not None)


def due(pages: Graded, rule: Branching, known: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Where the next move belongs, from the list of moves made so far."""

    def below(path: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [one for one in known if one[: len(path)] == path]

    def full(path: tuple[int, ...]) -> bool:
        whole = sum(rule.width**n for n in range(1, rule.depth - len(path) + 1)) if len(path) < rule.depth else 0
        return len([one for one in below(path) if one != path]) == whole

    here: tuple[int, ...] = ()
    while True:
        count = max(len(below(here)), 1)
        children = [one for one in known if len(one) == len(here) + 1 and one[: len(here)] == here]
        scores = {
            one: max(map(pages.grade, below(one))) + rule.explore * math.sqrt(count) / (1 + len(below(one)))
            for one in children
            if not full(one)
        }
        if len(children) < rule.width and rule.explore * math.sqrt(count) > max(scores.values(), default=-math.inf):
            return here
        here = max(scores, key=lambda one: scores[one])


@claim(
    "On small deterministic trees the root's value rises to the optimum and ends there, found in fewer moves than by "
    "trying them in a random order."
)
def on_small_deterministic_trees_the_roots_value_rises_to_the() -> Finding:
    gaps, falls, moves = [], 0, list[float]()
    for seed in range(120):
        pages = Graded(3, 4, seed)
        values, _ = grown(pages, Branching(width=3, depth=4))
        gaps.append(abs(values[-1] - pages.optimum))
        falls += any(late < early for early, late in itertools.pairwise(values))
        moves.append(float(next(n for n, value in enumerate(values, 1) if value == pages.optimum)))
    blind, error = (len(values) + 1) / 2, stdev(moves) / math.sqrt(len(moves))
    holds = max(gaps) == 0 and falls == 0 and len(values) == 120 and fmean(moves) < blind - 3 * error
    return Finding(holds, say(gap=max(gaps), moves=fmean(moves), standard_error=error, in_a_random_order=blind))


@claim("Where a tree grows is the formula computed anew from the moves made so far.", "the authors' code")
def where_a_tree_grows_is_the_formula_computed_anew_from_the_moves() -> Finding:
    right = list[bool]()
    for seed, explore, width in itertools.product(range(4), (0.0, 0.5, 2.0), (2, 3)):
        _, parts = grown(Graded(width, 3, seed), Branching(width, 3, explore))
        right += parts
    return Finding(all(right), say(moves=len(right), otherwise=right.count(False)))


@claim(
    "A proposal that repeats another takes one of a page's places; a page without one is closed.", "the authors' code"
)
def a_proposal_that_repeats_another_takes_one_of_a_pages_places_a() -> Finding:
    turn: Any = object()

    def placed(spent: int, width: int) -> bool:
        root, rule = MessageNode(), Branching(width=width, depth=1, explore=2.0)
        child = root.add(turn)
        seen = {root: Seen(spent=spent), child: Seen(worth=0.9, best=0.9, closed=True)}
        root.visits = child.visits = 1
        return (rule.place(root, seen) is root) == (1 + spent < width) != seen[root].closed

    return cases(itertools.product(range(4), (2, 3)), placed)


@dataclass(frozen=True)
class Watched(Rules):
    """Notes when a plan is refined, and after how many failures."""

    calls: list[tuple[tuple[str, ...], int]] = field(default_factory=list)

    def refined(self, task: str, parts: tuple[str, ...], tried: Sequence[str], times: int) -> tuple[str, ...]:
        self.calls.append((parts, times))
        return super().refined(task, parts, tried, times)


@claim("A plan is refined only when a subtask has failed: never with an able explorer, and as often as one failed.")
def a_plan_is_refined_only_when_a_subtask_has_failed_never_with_an() -> Finding:
    able, noisy = Watched(), Watched()
    calm = searched(PageSearch(crew=able), Wizards(5), explorer(1.0))
    busy = searched(PageSearch(crew=noisy, refinements=50, moves=400), Wizards(5), explorer(0.2, heeds=False))
    counts = sum(one.refinements for one in busy), sum(one.failed for one in busy)
    holds = not able.calls and solved(calm) == 1 and counts[0] == counts[1] == len(noisy.calls) > 0
    return Finding(holds, say(able=len(able.calls), refined=counts[0], failed=counts[1]))


@claim("A refined plan solves what the first cannot: a subtask that is possible only after a later one.")
def a_refined_plan_solves_what_the_first_cannot_a_subtask_that_is() -> Finding:
    search = PageSearch(branching=Branching(width=1, depth=1))
    with_, without = (searched(replace(search, refinements=n), Locks(), stubborn) for n in (3, 0))
    return Finding(
        solved(with_) > 0.9 and solved(without) == 0, say(refined=solved(with_), not_refined=solved(without))
    )


def stubborn(request: Request) -> str:
    """Clicks what the subtask names, where that is listed; else what is chosen already, or the first link."""
    page = str(request.messages[-1]["content"])
    now = re.search(r"^Now: (.*)$", page, re.MULTILINE)
    part = now[1] if now else page.partition("\n1 ")[0]
    things = listed(page)
    good = [number for number in things if share(part, things[number]) > 0]
    return f"click {good[0]}" if good and now else "wait"


@claim("Told what came of moves at the same page, an explorer that knows nothing solves more with fewer moves.")
def told_what_came_of_moves_at_the_same_page_an_explorer_that_knows() -> Finding:
    search = PageSearch(moves=200, searches=8, branching=Branching(width=6, depth=2))
    told, untold = (searched(replace(search, reflect=one), Wizards(3), explorer(0.0), 32) for one in (True, False))
    moves = [fmean(one.moves for one in errands) for errands in (told, untold)]
    holds = solved(told) > solved(untold) + 0.15 and moves[0] < 0.75 * moves[1]
    return Finding(holds, say(told=solved(told), untold=solved(untold), moves=moves[0], moves_untold=moves[1]))


@claim("A grade is .75 of the effect and .25 of what may come, and the largest grade below a page stands at it.")
def a_grade_is_75_of_the_effect_and_25_of_what_may_come_and_the() -> Finding:
    errands = searched(PageSearch(moves=60), Wizards(4), explorer(0.5), 6)
    off, wrong, nodes = 0.0, 0, 0
    for errand in errands:
        for node in errand.root.below():
            best = max(errand.seen[one].worth for one in node.below())
            wrong += errand.seen[node].best != best
            nodes += 1
            if node.turn is None or node.aside is None:
                continue
            since = [one.turn for one in node.nodes if one.turn is not None]
            off = max(off, min(abs(errand.seen[node].worth - one) for one in graded(node, since)))
    return Finding(off < 1e-12 and wrong == 0, say(nodes=nodes, off=off, best_otherwise=wrong))


def graded(node: MessageNode, since: Sequence[Any]) -> list[float]:
    """What a node may be worth by hand, for any subtask that it may have been in, and wherever that began."""
    assert node.aside is not None
    before, after = (str(turn.prompt[-1]["content"]) for turn in node.aside.turns[-2:])
    task, coming = before.partition("\n1 ")[0], node.aside.turns[-1]
    found = []
    for part, start in itertools.product((*split(task), task), range(len(since))):
        words = wanted(part)
        things = [listed(str(t.prompt[-1]["content"])).get(move_of(t).split()[1], "").split() for t in since[start:]]
        following = listed(after).get(move_of(coming).split()[1], "").split()
        covered = len(words & {word.lower() for thing in things for word in thing}) / len(words)
        useful = listed(before) != listed(after) and bool(words & {word.lower() for word in things[-1]})
        future = len(words & {word.lower() for word in following}) / len(words)
        done = useful and covered == 1
        found.append(0.75 * covered * (1 if useful else 0.5) + 0.25 * (1.0 if done else future))
    return found


def _step(part: str, acted: Sequence[str], changed: bool, coming: str = "button other") -> Step:
    before, after = "Do it.\n1 button one", "Do it.\n1 button two" if changed else "Do it, please.\n1 button one"
    return Step(task="all", part=part, acted=tuple(acted), before=before, after=after, coming=coming)


@claim("The rules' opinion of a move is by hand; a subtask that failed is tried once more, then after the next one.")
def the_rules_opinion_of_a_move_is_by_hand_a_subtask_that_failed_is() -> Finding:
    both = 'choose "ash oak"'
    steps = {
        _step(both, ["link oak", "link ash"], True): Opinion(1.0, 1.0, True, "it is what was asked"),
        _step(both, ["link ash"], True, "link oak"): Opinion(0.5, 0.5, False, "it is what was asked"),
        _step(both, ["link ash", "link fir"], True): Opinion(0.25, 0.0, False, "it changed the page"),
        _step(both, ["link oak", "link ash", "link fir"], True): Opinion(0.5, 0.0, False, "it changed the page"),
        _step(both, ["link oak", "link ash"], False, "ash and oak"): Opinion(0.5, 1.0, False, "nothing changed"),
        _step("click it", ["link fir"], True): Opinion(1.0, 1.0, True, "it is what was asked"),
    }
    found = cases(steps.items(), lambda step, due: Rules().opinions([step]) == [due])
    shares = [share(both, "ASH, #3"), share(both, "an oak; an ash"), share("click on it", ""), share("pick ash", "")]
    parts, turned = ("one", "two", "three"), ("two", "one", "three")
    later = [Rules().refined("all", parts, (), times) for times in (1, 2, 3)] == [parts, turned, turned]
    alone = Rules().refined("all", ("one",), (), 2) == ("one",)
    holds = found.holds and shares == [0.5, 1.0, 1.0, 0.0] and later and alone
    return Finding(holds, f"{found.saw}, shares {shares}")


def tried(parts: tuple[str, ...], *worths: float) -> tuple[Errand, list[MessageNode]]:
    """A search that tried moves of these worths at its first page, each the end of a subtask."""
    errand = Errand(Assignment(Scenario("s", ""), first=5), task="all", parts=parts)
    nodes = [errand.root.add(turn(f"click {place}")) for place, _ in enumerate(worths)]
    errand.seen |= {node: Seen(worth=one, done=True, reflection="so") for node, one in zip(nodes, worths, strict=True)}
    return errand, nodes


@claim("As shipped its numbers are those that its page states, the authors' where they have one.", "the authors' code")
def as_shipped_its_numbers_are_those_that_its_page_states_the() -> Finding:
    stated = PageSearch(Rules(), Branching(3, 7, 0.5), 0.75, 12, 1, 3, True, 160, 1.0)
    parts = Rules().plan(["Select Ab, cD and click Submit."])[0]
    return Finding(WEBPILOT.rollout == stated and len(parts) == 3, say(parts=len(parts)))


CREW, LESSONS = "page-crew", 240
PAGES = Wizards(pages=3, links=4, names=6, dead=True)


def judging(name: str) -> Judge:
    """A language model as `--judge` has it."""
    found = judge_of(configured(WEBPILOT, CREW, tasks.find(CREW), {"judge": name}), None)
    assert found is not None
    return found


def taught() -> str:
    """The shipped model after the lessons, given once."""
    return lessons(f"lessons:{CREW}", LESSONS)


UNSEEN = range(1, 41, 2)
"""Seeds of pages that no lesson is of: those have even ones."""


def compare_with_pages(judge: Judge) -> dict[str, float]:
    """How often a model's plan has all parts in order, and what it says of right and wrong moves, page by page."""
    plans, right, wrong = list[bool](), list[Step](), list[Step]()
    for seed in UNSEEN:
        wizard = PAGES.make(Scenario("", "", seed=seed))
        wizard.reset(Key.of(seed))
        request, named = wizard.asked, re.findall(r"\w+", wizard.asked)[1:-3]
        plans.append(Asked(judge).plan([request]) == [(*(f"Choose {name}" for name in named), "click Submit")])
        for name in named:
            for thing, before, after, went_on in clicks(wizard, name):
                step = Step(request, f"Choose {name}", (thing,), before, after, "button Submit")
                (right if went_on else wrong).append(step)
    done, refused = ([one.done for one in Asked(judge).opinions(steps)] for steps in (right, wrong))
    return {"plans": fmean(plans), "accepted": fmean(done), "refused": 1 - fmean(refused)}


@claim(
    "After the lessons of `page-crew` the shipped model splits tasks of pages it has not seen, calls moves complete "
    "that are and refuses the others, and as planner, controller and appraiser leads a search to the end; untaught it "
    "splits none and does not tell moves apart.",
    slow=True,
)
def after_the_lessons_of_page_crew_the_shipped_model_splits_tasks() -> Finding:
    judge = judging(taught())
    ours, other = compare_with_pages(judge), compare_with_pages(judging("nano"))
    good = solved(searched(PageSearch(judge=judge), PAGES, explorer(0.4), UNSEEN))
    told_apart = other["accepted"] + other["refused"] - 1
    holds = ours["plans"] > 0.5 and min(ours["accepted"], ours["refused"], good) > 0.8
    return Finding(holds and other["plans"] == 0 and told_apart < 0.3, say(taught=ours, untaught=other, solved=good))


def _crew_as_shipped() -> Finding:
    """With a taught model as explorer and crew; without, the crew leaves the task whole."""
    return Shipment(
        WEBPILOT,
        without={"rollout.crew": Rules(whole=True)},
        task=CREW,
        settings={"model": taught(), "judge": taught(), "curriculum.prompts": 12, "rollout.searches": 3},
        sees=lambda run: {
            "solved": run.mean("rollout/solved"),
            "subtasks complete": run.mean("rollout/subtasks_complete"),
            "subtasks failed": run.mean("rollout/subtasks_failed"),
            "plans refined": run.mean("rollout/refinements"),
            "judge asked": run.mean("judge/questions"),
        },
    )()


claim.append(
    Check(
        claim.row,
        f"As shipped, `hocket train --recipe webpilot --task {CREW} --model TAUGHT --judge TAUGHT --rollout.searches "
        f"3`, TAUGHT being the shipped model after `--recipe sft --task lessons:{CREW}`: one model explores, plans, "
        "refuses and refines where a subtask failed, and pages are solved and learnt from; without the plan the "
        "gradient is another.",
        _crew_as_shipped,
        claim.source,
        slow=True,
        shipped=True,
    )
)
claim.shipped(
    WEBPILOT,
    without={"rollout.crew": Rules(whole=True)},
    first={"recipe": "sft", "task": "lessons:miniwob:click-checkboxes?limit=12", "steps": 40, "update.lr": 0.003},
    sees=lambda run: {
        "solved": run.mean("rollout/solved"),
        "subtasks complete": run.mean("rollout/subtasks_complete"),
        "moves": run.mean("rollout/moves"),
    },
    settings={"curriculum.prompts": 6},
)

LEFT_OPEN = "what a run takes where neither recipe nor user says; the paper trains nothing"
claim.spares("webpilot: curriculum.prompts = 640", LEFT_OPEN)
claim.spares("webpilot: objective.horizon = 5120", "the mean is over decisions, whatever the horizon")
claim.spares("webpilot: update.epochs = 40", LEFT_OPEN)
claim.spares("webpilot: update.minibatches = 40", LEFT_OPEN)
claim.spares("webpilot: update.clip_norm = 40.0", LEFT_OPEN)
claim.spares("webpilot: update.clip_norm = 0.0", LEFT_OPEN)
claim.spares("webpilot: update.warmup = 40", LEFT_OPEN)
claim.spares("webpilot: update.weight_decay = 1.0", LEFT_OPEN)
claim.spares("webpilot: credit.value = 40.0", "a likelihood reads no advantage")
claim.spares("webpilot: credit.value = 0.0", "a likelihood reads no advantage")
