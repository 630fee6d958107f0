"""WebPilot: a task on web pages in parts, each searched by a tree of moves (Zhang et al., arXiv:2408.15978).

A planner splits the task into subtasks. For each a tree of moves grows from the page where the one before ended: an
explorer (the policy) proposes moves, told the subtask and what came of the moves tried beside and before; an appraiser
grades what a move effected and what can be done next; a controller says whether the subtask is complete. Only where it
failed the plan is refined and the tree begun anew. No page can be copied: to go on from a page the moves that led there
are made again in a new one, and they count.

The crew goes by rules on the words of task and page; with `--judge` a language model is planner, controller, appraiser
and writes the reflections (the lessons of `page-crew` teach a small one to). From the authors' code: grades .75 and
.25, the largest grade backed up, the bound, three proposals at a page of which each later one is made in view of the
others, one step of simulation. Ours are: the rules, the wording, one complete end instead of three (`ends`), that an
episode that ended is worth what it earned, and that the explorer then imitates its moves on pages it solved. The paper
trains nothing: `--update.lr 1e-12`.
"""

from __future__ import annotations

import asyncio
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import ClassVar

from hocket.agents.workflows.environment import Asides
from hocket.core import sums
from hocket.core.columns import LIMIT
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import COMMON
from hocket.methods.search.webpilot.prompts import PLAN, REFINE, Step
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.recipe import Recipe
from hocket.rewards.judging import Judge, grades, said, verdicts
from hocket.rollout.dynamic import total
from hocket.rollout.message_tree import MessageNode, onward
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import PAUSED, Assignment, Experience, Trajectory, Turn

# ---------------------------------------------------------------- who judges moves


@dataclass(frozen=True)
class Opinion:
    """What a crew thinks of a move: its effect and what may come of it, in [0, 1]; whether the subtask is complete."""

    effect: float
    future: float
    done: bool
    reflection: str


class Crew(ABC):
    """Planner, controller and appraiser."""

    @abstractmethod
    def plan(self, tasks: Sequence[str]) -> list[tuple[str, ...]]:
        """The subtasks of each task, at least one."""

    @abstractmethod
    def refined(self, task: str, parts: tuple[str, ...], tried: Sequence[str], times: int) -> tuple[str, ...]:
        """What is left to do once the first of `parts` failed, so many `times`; `tried` are the reflections on it."""

    @abstractmethod
    def opinions(self, steps: Sequence[Step]) -> list[Opinion]:
        """Of each move."""


_IDLE = frozenset(
    re.findall(
        r"\w+",
        "a an and the then of on in to into from with it its this that click press select choose enter type tick check "
        "open button link box checkbox field text option tab",
    )
)
"""Words that name nothing on a page."""


def wanted(part: str) -> frozenset[str]:
    """The words of a subtask that name something: those between quotation marks, else all but idle ones."""
    quoted = re.findall(r"[\"'“]([^\"'”]+)[\"'”]", part)
    words = re.findall(r"[\w#]+", " ".join(quoted or [part]).casefold())
    return frozenset(words) - (frozenset() if quoted else _IDLE)


def share(part: str, told: str) -> float:
    """The share of these words that stand in a text; 1 where there are none."""
    words = wanted(part)
    return len(words & set(re.findall(r"[\w#]+", told.casefold()))) / len(words) if words else 1.0


@dataclass(frozen=True)
class Rules(Crew):
    """A task is split at commas, "and" and "then". A subtask is complete once all that it names was acted on and the
    page changed; a move's effect is the share that was, half of it where the move did neither. What comes next is worth
    the share that it names. A subtask that failed is tried once more, and after the next one where it fails again.

    Attributes:
        whole: the task is its only part: a tree without a plan.
    """

    whole: bool = False

    def plan(self, tasks: Sequence[str]) -> list[tuple[str, ...]]:
        return [(task,) if self.whole else split(task) for task in tasks]

    def refined(self, task: str, parts: tuple[str, ...], tried: Sequence[str], times: int) -> tuple[str, ...]:
        return parts if times == 1 else (*parts[1:2], parts[0], *parts[2:])

    def opinions(self, steps: Sequence[Step]) -> list[Opinion]:
        return [self._opinion(step) for step in steps]

    def _opinion(self, step: Step) -> Opinion:
        covered, changed = share(step.part, " ".join(step.acted)), listed(step.before) != listed(step.after)
        useful = changed and (share(step.part, step.acted[-1]) > 0)
        done = useful and covered == 1
        what = "it is what was asked" if useful else "it changed the page" if changed else "nothing changed"
        return Opinion(covered if useful else covered / 2, 1.0 if done else share(step.part, step.coming), done, what)


def split(task: str) -> tuple[str, ...]:
    """A task's parts, in the order in which it names them; quoted words stay together."""
    parts = re.split(r"\s*(?:[,;]|\band\b|\bthen\b|\.\s)(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)\s*", task.strip().rstrip("."))
    return tuple(part for part in parts if wanted(part)) or (task,)


@dataclass(frozen=True)
class Asked(Crew):
    """A judge in all places; the rules where it says nothing, and for the plan where they leave a task whole.

    What came of a move is asked first and told with the other questions.
    """

    judge: Judge
    rules: Rules = Rules()

    def plan(self, tasks: Sequence[str]) -> list[tuple[str, ...]]:
        if self.rules.whole:
            return self.rules.plan(tasks)
        answers = said(self.judge, [PLAN.format(task=task) for task in tasks])
        return [_lines(answer) or split(task) for answer, task in zip(answers, tasks, strict=True)]

    def refined(self, task: str, parts: tuple[str, ...], tried: Sequence[str], times: int) -> tuple[str, ...]:
        told = REFINE.format(task=task, parts="\n".join(parts), tried="\n".join(tried) or "nothing")
        return _lines(said(self.judge, [told])[0]) or self.rules.refined(task, parts, tried, times)

    def opinions(self, steps: Sequence[Step]) -> list[Opinion]:
        rules = self.rules.opinions(steps)
        words = said(self.judge, [step.reflect for step in steps], 96)
        came = [" ".join((one or rule.reflection).split()) for one, rule in zip(words, rules, strict=True)]
        asked = [step.asked(one) for step, one in zip(steps, came, strict=True)]
        done = verdicts(self.judge, [one for one, _, _ in asked])
        effect, future = (grades(self.judge, [one[place] for one in asked]) for place in (1, 2))
        found = []
        for place, rule in enumerate(rules):
            graded = (effect[place], future[place])
            found.append(
                Opinion(
                    rule.effect if graded[0] is None else graded[0],
                    rule.future if graded[1] is None else graded[1],
                    rule.done if done[place] is None else bool(done[place]),
                    came[place],
                )
            )
        return found


def _lines(text: str | None) -> tuple[str, ...]:
    lines = [re.sub(r"^\W*\d*[.)]?\s*", "", line).strip() for line in (text or "").splitlines()]
    return tuple(line for line in lines if line)


# ---------------------------------------------------------------- pages as they are told


def told(turn: Turn) -> str:
    """What a turn was asked."""
    return str(turn.prompt[-1]["content"])


def shown(turn: Turn) -> str:
    """The page that a turn was asked about, without what else it was told."""
    return told(turn).partition("\nLegal moves:")[0]


def listed(page: str) -> dict[str, str]:
    """What can be acted on, by its number; empty where a page has no list."""
    return dict(re.findall(r"^(\d+) (.+)$", page, re.MULTILINE))


def move_of(turn: Turn) -> str:
    """The move that a turn says."""
    lines = [line.strip() for line in turn.text.splitlines() if line.strip()]
    return lines[-1].casefold() if lines else ""


def acted_on(turn: Turn) -> str:
    """What its move is about, in words: the listed thing that it numbers and what is typed there; else the move."""
    move = move_of(turn)
    found = re.fullmatch(r"(?:click|type) (\d+)\.?(?: (.*))?", move, re.DOTALL)
    thing = listed(told(turn)).get(found[1]) if found else None
    return move if found is None or thing is None else " ".join(filter(None, [thing, found[2]]))


# ---------------------------------------------------------------- the tree of a subtask


@dataclass(eq=False)
class Seen:
    """What is known of a node.

    Attributes:
        worth: its own grade. best: the largest grade from there on. done: whether the subtask is complete there.
        closed: nothing more can be tried from there. spent: proposals at its page that repeated another.
        reflection: what came of its move. aside: what was told besides the page when it was proposed.
    """

    worth: float = 0.0
    best: float = 0.0
    done: bool = False
    closed: bool = False
    spent: int = 0
    reflection: str = ""
    aside: str = ""


@dataclass(frozen=True)
class Branching:
    """Where a tree of moves grows: `best + explore sqrt(N_page) / (1 + N_child)`, an open proposal having neither.

    At a page `width` moves are proposed at most, those that repeat another included, and paths of a subtask are at most
    `depth` moves long.
    """

    width: int = 3
    depth: int = 7
    explore: float = 0.5

    def __post_init__(self) -> None:
        if self.width < 1 or self.depth < 1 or self.explore < 0:
            raise ValueError(
                f"width = {self.width} and depth = {self.depth} must be at least 1, explore = {self.explore} at least 0"
            )

    def place(self, root: MessageNode, seen: dict[MessageNode, Seen]) -> MessageNode | None:
        """The page at which the next move is proposed; None where nothing is left to try."""
        while not seen[root].closed:
            node, steps = root, 0
            while True:
                room = steps < self.depth and len(node.children) + seen[node].spent < self.width
                live = [child for child in node.children if not seen[child].closed]
                scale = self.explore * math.sqrt(max(node.visits, 1))
                best = max(live, key=lambda child: seen[child].best + scale / (1 + child.visits), default=None)
                if best is None and not room:
                    seen[node].closed = True
                    break
                if best is None or (room and scale > seen[best].best + scale / (1 + best.visits)):
                    return node
                node, steps = best, steps + 1
        return None


def backed_up(node: MessageNode, worth: float, seen: dict[MessageNode, Seen]) -> None:
    """Counts a visit in a node and all above, where the largest grade stands."""
    node.back_up(worth)
    for one in node.nodes:
        seen[one].best = max(seen[one].best, worth)


# ---------------------------------------------------------------- a task


@dataclass(eq=False)
class Errand:
    """The search for one scenario.

    Attributes:
        task: what the page asks for. parts: what is left of the plan. here: the node where the present subtask begins.
        moves: made on pages, those made again included. calls: proposals and looks ahead. searches: in this subtask.
        refinements: how often the plan was refined. failed: subtasks that did, the present one `again` times; `tried`
            is what came of that. complete: subtasks that were. solved: the episode that was.
    """

    asking: Assignment
    root: MessageNode = field(default_factory=MessageNode)
    seen: dict[MessageNode, Seen] = field(default_factory=dict)
    task: str = ""
    parts: tuple[str, ...] = ()
    moves: int = 0
    calls: int = 0
    searches: int = 0
    refinements: int = 0
    failed: int = 0
    again: int = 0
    tried: tuple[str, ...] = ()
    complete: int = 0
    solved: Trajectory | None = None
    over: bool = False

    def __post_init__(self) -> None:
        self.here = self.root
        self.seen[self.root] = Seen()


@dataclass(frozen=True)
class PageSearch(Rollout):
    """Episodes of an environment of one agent, found subtask by subtask; those that were solved are learnt from.

    Attributes:
        crew: by which rules it goes where there is no judge. branching: how the trees grow.
        weight: of a move's effect in its grade; the rest is what may come of it.
        searches: proposals for a subtask, after which it failed. ends: complete ends after which the best is taken.
        refinements: of a plan at most; after that a failed subtask is left at its best page.
        reflect: whether proposals are told what came of others. moves: made for a scenario at most, those made again
            included; the last search may go beyond. enough: what a solved episode earns.
        judge: who plans and appraises instead of rules.
    """

    crew: Rules = Rules()
    branching: Branching = Branching()
    weight: float = 0.75
    searches: int = 12
    ends: int = 1
    refinements: int = 3
    reflect: bool = True
    moves: int = 160
    enough: float = 1.0
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True
    needs_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if min(self.searches, self.ends, self.moves) < 1 or self.refinements < 0 or not 0 <= self.weight <= 1:
            raise ConfigurationError(
                f"rollout.searches = {self.searches}, ends = {self.ends}, moves = {self.moves}: at least 1; "
                f"refinements = {self.refinements}: at least 0; weight = {self.weight}: in [0, 1]"
            )

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The solved episodes; metrics count what was spent on all."""
        errands = await self.errands(asked, play=play, score=score)
        return Experience([one.solved for one in errands if one.solved is not None], metrics=_metrics(errands))

    async def errands(self, asked: Sequence[Assignment], *, play: Play, score: Grade) -> list[Errand]:
        """The searches, side by side.

        Raises:
            ConfigurationError: where an episode is not played move by move.
        """
        crew: Crew = self.crew if self.judge is None else Asked(self.judge, self.crew)
        errands = [Errand(one) for one in asked]
        await self._planned(errands, crew, play)
        while live := [one for one in errands if not one.over]:
            placed = [(one, self._place(one, crew)) for one in live]
            going = [(one, node) for one, node in placed if node is not None]
            played = await play([self._asked(one, node) for one, node in going]) if going else []
            if played and all(one.failure is not None for one in played):
                raise HocketError(f"every episode of a search failed: {played[0].failure}")
            ended = [one for one in played if one.failure is None and LIMIT.get(one) != PAUSED]
            await score(ended)
            fresh = [(one, self._grown(one, node, got)) for (one, node), got in zip(going, played, strict=True)]
            await self._appraised([(one, child) for one, child in fresh if child is not None], crew)
        return errands

    async def _planned(self, errands: Sequence[Errand], crew: Crew, play: Play) -> None:
        """Looks at the pages, which takes a move, and plans."""
        seen = await play([onward(one.asking, one.root, first=one.asking.first, samples=1, more=1) for one in errands])
        for errand, episode in zip(errands, seen, strict=True):
            if episode.failure is not None or not episode.turns:
                raise HocketError(f"a page cannot be looked at: {episode.failure}")
            errand.task = re.split(r"\n1 |\nLegal moves:", told(episode.turns[0]))[0].strip()
            errand.moves += 1
        tasks = [one.task for one in errands]
        plans = await asyncio.to_thread(crew.plan, tasks) if self.judge is not None else crew.plan(tasks)
        for errand, parts in zip(errands, plans, strict=True):
            errand.parts = parts

    def _place(self, errand: Errand, crew: Crew) -> MessageNode | None:
        """Where to propose the next move, subtasks that are through being left behind; None where all is over."""
        while errand.moves < self.moves and errand.solved is None:
            ends = [node for node in errand.here.below() if node is not errand.here and errand.seen[node].done]
            spent = errand.searches >= self.searches
            node = None if spent else self.branching.place(errand.here, errand.seen)
            if not errand.parts and errand.task:
                errand.parts = (errand.task,)  # The plan is through and the page is not: all of it once more.
            if len(ends) >= self.ends or (node is None and ends):
                self._leave(errand, max(ends, key=lambda one: errand.seen[one].worth), complete=True)
            elif node is not None:
                return node
            elif not self._failed(errand, crew):
                break
        errand.over = True
        return None

    def _leave(self, errand: Errand, node: MessageNode, *, complete: bool) -> None:
        """Goes on to the next subtask, from this page."""
        errand.complete += complete
        errand.parts, errand.here, errand.searches = errand.parts[1:], node, 0
        errand.again, errand.tried = 0, ()
        errand.seen[node].closed = False

    def _failed(self, errand: Errand, crew: Crew) -> bool:
        """What follows a failed subtask; whether anything does."""
        errand.failed += 1
        below = [node for node in errand.here.below() if node is not errand.here]
        if errand.refinements < self.refinements:
            errand.again += 1
            known = [(acted_on(node.turn), errand.seen[node].reflection) for node in below if node.turn is not None]
            errand.tried = tuple(dict.fromkeys(f"{acted} ({came})" for acted, came in known))
            before, errand.parts = errand.parts, crew.refined(errand.task, errand.parts, errand.tried, errand.again)
            if errand.parts[:1] != before[:1]:
                errand.again, errand.tried = 0, ()
            errand.refinements += 1
            errand.searches = 0
            errand.here = _anew(errand)
            return True
        open_ = [node for node in below if not node.episodes]
        if open_ and len(errand.parts) > 1:
            self._leave(errand, max(open_, key=lambda one: errand.seen[one].worth), complete=False)
            return True
        return False

    def _asked(self, errand: Errand, node: MessageNode) -> Assignment:
        """One proposal at a page, and what would be proposed after it."""
        now = _now(errand)
        told = (*(errand.seen[one].aside for one in node.nodes[1:]), self._aside(errand, node), now)
        errand.searches += 1
        errand.calls += 1
        asking = onward(errand.asking, node, first=errand.asking.first + errand.calls, samples=1, more=2)
        return replace(asking, options=(*errand.asking.options, Asides(told)))

    def _aside(self, errand: Errand, node: MessageNode) -> str:
        """What the explorer is told: the subtask, what led here, and what came of the moves tried here."""
        lines = [_now(errand)]
        if self.reflect:
            tried = [f"{move_of(one.turn)} ({errand.seen[one].reflection})" for one in node.children if one.turn]
            tried += errand.tried if node is errand.here else ()
            lines += [f"Tried: {'; '.join(tried)}"] if tried else []
            if node.turn is not None and node is not errand.here:
                lines.append(f"Before: {move_of(node.turn)} ({errand.seen[node].reflection})")
        return "\n".join(filter(None, lines))

    def _grown(self, errand: Errand, node: MessageNode, episode: Trajectory) -> MessageNode | None:
        """The new node, where the move is another than those tried at its page."""
        aside, length = self._aside(errand, node), len(node.path)
        errand.moves += len(episode.turns)
        new = episode.turns[length:]
        if episode.failure is not None or not new:
            errand.seen[node].spent += 1
            return None
        ended = LIMIT.get(episode) != PAUSED
        if not ended and len(new) != 2:
            raise ConfigurationError(
                f"webpilot goes move by move, and {len(new)} came; take an environment of one agent, such as "
                "miniwob:PAGE"
            )
        if move_of(new[0]) in [move_of(child.turn) for child in node.children if child.turn is not None]:
            errand.seen[node].spent += 1
            return None
        child = node.add(new[0])
        errand.seen[child] = Seen(aside=aside)
        last = child
        if len(new) == 2 and ended:  # What was only looked at came to an end, so it is a move like others.
            last = child.add(new[1])
            errand.seen[last] = Seen(aside=_now(errand))
        if ended:
            self._over(errand, last, episode)
        else:
            child.aside = episode
        return child

    def _over(self, errand: Errand, node: MessageNode, episode: Trajectory) -> None:
        """An episode that ended is worth what it earned."""
        node.episodes.append(episode)
        earned = sums.total(map(total, episode.scores.values()))
        seen = errand.seen[node]
        seen.closed, seen.worth, seen.reflection = True, min(max(earned, 0.0), 1.0), f"it ended with {earned:g}"
        backed_up(node, seen.worth, errand.seen)
        if earned >= self.enough:
            errand.solved = episode

    async def _appraised(self, fresh: Sequence[tuple[Errand, MessageNode]], crew: Crew) -> None:
        """Grades new moves after which the page is known."""
        steps = []
        going = [(errand, node) for errand, node in fresh if not node.episodes]
        for errand, node in going:
            assert node.turn is not None
            coming = node.children[0].turn if node.aside is None else node.aside.turns[-1]
            assert coming is not None
            since = [one.turn for one in node.nodes if one.turn is not None][len(errand.here.path) :]
            acted = tuple(acted_on(turn) for turn in since)
            part = errand.parts[0]
            steps.append(Step(errand.task, part, acted, shown(node.turn), shown(coming), acted_on(coming)))
        found = await asyncio.to_thread(crew.opinions, steps) if self.judge is not None else crew.opinions(steps)
        for (errand, node), opinion in zip(going, found, strict=True):
            seen = errand.seen[node]
            seen.worth = self.weight * opinion.effect + (1 - self.weight) * opinion.future
            seen.done, seen.reflection = opinion.done, opinion.reflection
            seen.closed |= opinion.done
            backed_up(node, seen.worth, errand.seen)


def _now(errand: Errand) -> str:
    """What the explorer is to do; nothing where that is the whole task, which the page says itself."""
    return f"Now: {errand.parts[0]}" if errand.parts and errand.parts[0] != errand.task else ""


def _anew(errand: Errand) -> MessageNode:
    """The page where the present subtask begins, with nothing tried there."""
    node = MessageNode(errand.here.parent, errand.here.turn)
    errand.seen[node] = Seen(aside=errand.seen[errand.here].aside)
    return node


def _metrics(errands: Sequence[Errand]) -> dict[str, float]:
    return {
        "rollout/solved": fmean(one.solved is not None for one in errands),
        "rollout/moves": fmean(one.moves for one in errands),
        "rollout/proposals": fmean(one.calls for one in errands),
        "rollout/subtasks_complete": fmean(one.complete for one in errands),
        "rollout/subtasks_failed": fmean(one.failed for one in errands),
        "rollout/refinements": fmean(one.refinements for one in errands),
    }


WEBPILOT = Recipe(
    name="webpilot",
    title="WebPilot: tasks on web pages in parts, each searched by a tree of moves",
    source="Zhang et al., arXiv:2408.15978, and the authors' code",
    family="search",
    catalogue_ids=("webpilot",),
    axes=("search", "team", "environment"),
    formula="next = argmax_child M + c sqrt(N) / (1 + N_child), an open proposal having M = N_child = 0;  "
    "S = .75 S_effect + .25 S_future;  M = max S from there on;  L = -mean_t log pi(move_t | page, subtask)",
    conventions={
        **COMMON,
        "crew": "rules on the words of task and page; --judge puts a model there",
        "trees": "3 proposals at a page, 7 moves deep, c = .5 for grades in [0, 1]: the authors' 5 for 0 to 10",
        "subtask": "12 proposals, then it failed; the first complete end is taken, the authors wait for three",
        "ends": "an episode that ended is worth what it earned, and one that earned 1 ends the search",
        "moves": "160 a scenario at most, those made again to come to a page included",
        "learning": "ours: the moves of solved pages, as they were asked for; the paper trains nothing",
        "aggregation": "mean over all decisions of the solved episodes",
    },
    task="miniwob:click-checkboxes?limit=12",
    requires=(Requirement.TURNS,),
    rollout=PageSearch(),
    credit=Uniform(),
    objective=NegativeLogLikelihood(aggregate="token-mean"),
)
