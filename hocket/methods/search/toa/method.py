"""TOA: tree search over which model answers next, for data to learn from (Ye et al., arXiv:2412.17061).

Several models sit at a question. A node of the tree is a chain of answers, each by a seat that read those before; a
Monte Carlo tree search chooses where the tree grows and who answers there, and the reward of each new answer is backed
up. The best answer of the tree is kept: what a policy is fine-tuned on (`toa`), or what it is to prefer to the tree's
worst (`toa-dpo`).

Only the abstract and a summary were at hand. Selection by upper confidence bounds is theirs; the constant, progressive
widening, the order in which seats are tried, and that the tree's best is shown to the learner as an answer to the
question alone are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

from hocket.core import sums
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.credit.reinforce import Uniform
from hocket.methods.base.conventions import COMMON
from hocket.methods.base.dpo import DPO
from hocket.methods.search.toa.seats import Growth, WideningTree, best_answer, seat_of, worth
from hocket.methods.search.toa.workflow import Speakers
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.recipe import Recipe
from hocket.rollout.dynamic import total
from hocket.rollout.message_search import RETURN
from hocket.rollout.message_tree import MessageNode, StepTree
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Score, Trajectory


@dataclass(eq=False)
class SeatTree(StepTree):
    """The tree of one scenario, for which so many `tokens` were sampled so far."""

    tokens: int = 0


@dataclass(frozen=True)
class SeatSearch:
    """`calls` answers per scenario by `seats`, where `growth` says; fewer where `tokens` are spent before.

    Raises:
        ValueError: when there are fewer calls than seats, so that some would never answer.
    """

    seats: tuple[str, ...] = ("agent_1", "agent_2", "agent_3")
    calls: int = 16
    tokens: int | None = None
    growth: Growth = WideningTree()

    def __post_init__(self) -> None:
        if not self.seats or len(set(self.seats)) < len(self.seats):
            raise ValueError(f"seats must be different roles, at least one, not {', '.join(self.seats) or 'none'}")
        if self.calls < len(self.seats):
            raise ValueError(
                f"calls = {self.calls} do not pay for an answer of each of {len(self.seats)} seats; raise it or seat "
                "fewer"
            )
        if self.tokens is not None and self.tokens < 1:
            raise ValueError(f"tokens must be at least 1, or null, not {self.tokens}")

    async def __call__(self, asked: Sequence[Assignment], *, play: Play, score: Grade) -> list[SeatTree]:
        """The trees, grown side by side.

        Raises:
            HocketError: when all answers of a round failed.
        """
        trees = [SeatTree(one) for one in asked]
        for _ in range(self.calls):
            live = [tree for tree in trees if self.tokens is None or tree.tokens < self.tokens]
            placed = [(tree, *self.growth.place(tree.root, self.seats)) for tree in live]
            played = await play([_asked(*one) for one in placed]) if placed else []
            sound = [one for one in played if one.failure is None]
            if played and not sound:
                raise HocketError(f"every answer of a search failed: {played[0].failure}")
            await score(sound)
            for (tree, node, _), episode in zip(placed, played, strict=True):
                _grow(tree, node, episode)
        return trees


def _asked(tree: SeatTree, node: MessageNode, seat: str) -> Assignment:
    speakers = Speakers((*(turn.role for turn in node.path), seat))
    return replace(tree.onward(node), options=(*tree.asking.options, speakers))


def _grow(tree: SeatTree, node: MessageNode, episode: Trajectory) -> None:
    """Puts in an answer, if it came."""
    if episode.failure is not None:
        return
    new = episode.turns[len(node.path) :]
    if len(new) != 1:
        raise ConfigurationError(
            f"a search over seats asks for one answer at a time, and {len(new)} came; take --workflow relay, and a "
            "task that is answered in text"
        )
    tree.tokens += len(new[0].action)
    RETURN.write(episode, total_of(episode))
    child = tree.add(episode, node)
    child.back_up(worth(child))


def total_of(episode: Trajectory) -> float:
    """The sum of an episode's scores."""
    return sum(map(total, episode.scores.values()))


@dataclass(frozen=True)
class TreeOfAgents(Rollout):
    """The best answer of a tree per scenario, as a demonstration to the first role, which is asked the question alone.

    The models are the policies as they were before training, and whoever else the run seats (`roles.agent_2.model`).
    An answer worth no more than `least` is not shown.
    """

    search: SeatSearch = SeatSearch()
    least: float = 0.0

    plays_reference: ClassVar[bool] = True

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
        """Demonstrations, scored as they were in the tree."""
        trees = await self.search([replace(one, actor="reference") for one in asked], play=play, score=score)
        shown = [_told(one, tree, self.least) for one, tree in zip(asked, trees, strict=True)]
        wanted = [one for one in shown if one is not None]
        given = await play(wanted) if wanted else []
        await score(given)
        return Experience(given, metrics=_metrics(trees, len(wanted)))


@dataclass(frozen=True)
class PairsOfTree(Rollout):
    """The best and the worst answer of a tree per scenario, chosen and rejected, as answers to the question alone.

    Where they are worth the same there is no pair. Models as in `TreeOfAgents`.
    """

    search: SeatSearch = SeatSearch()

    plays_reference: ClassVar[bool] = True

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
        """Per scenario the chosen trajectory, then the rejected one."""
        trees = await self.search([replace(one, actor="reference") for one in asked], play=play, score=score)
        shown = [_compared(one, tree) for one, tree in zip(asked, trees, strict=True)]
        wanted = [one for one in shown if one is not None]
        given = await play(wanted) if wanted else []
        for one in given:
            one.scores["preference"] = Score(1.0 if one.sample == 0 else 0.0)
        return Experience(given, metrics=_metrics(trees, len(wanted)))


def _told(asking: Assignment, tree: SeatTree, least: float) -> Assignment | None:
    best = best_answer(tree.root)
    if best is None or worth(best) <= least:
        return None
    return _given(asking, {"demonstration": best.episodes[0].answer}, "expert")


def _compared(asking: Assignment, tree: SeatTree) -> Assignment | None:
    answers = tree.root.ends
    if not answers:
        return None
    best, worst = max(answers, key=worth), min(answers, key=worth)
    if worth(best) <= worth(worst):
        return None
    pair = {"chosen": best.episodes[0].answer, "rejected": worst.episodes[0].answer}
    return replace(_given(asking, pair, "imported"), samples=2, first=0)


def _given(asking: Assignment, texts: Mapping[str, str], source: Any) -> Assignment:
    scenario = replace(asking.scenario, metadata={**asking.scenario.metadata, **texts})
    return replace(asking, scenario=scenario, samples=1, source=source)


def _metrics(trees: Sequence[SeatTree], kept: int) -> dict[str, float]:
    best = [node for tree in trees if (node := best_answer(tree.root)) is not None]
    first = [worth(tree.root.children[0]) for tree in trees if tree.root.children]
    return {
        "rollout/messages": float(sum(tree.calls for tree in trees)),
        "rollout/tokens": float(sum(tree.tokens for tree in trees)),
        "rollout/kept": float(kept),
        "rollout/best": sums.mean([*map(worth, best)]) if best else 0.0,
        "rollout/first": sums.mean(first) if first else 0.0,
        "rollout/refined": fmean(len(node.path) > 1 for node in best) if best else 0.0,
        "rollout/depth": fmean(len(node.path) for tree in trees for node in tree.root.ends),
        "rollout/seats": float(len({seat_of(node) for node in best})),
    }


TOA = Recipe(
    name="toa",
    title="TOA: the best answer of a tree whose actions are models, imitated",
    source="Ye et al., arXiv:2412.17061",
    family="search",
    catalogue_ids=("toa",),
    axes=("search", "team", "data"),
    formula="next = argmax_child Q + c sqrt(ln N / N_child), widened where children < widen N^power;  "
    "L = -mean_t log pi(a_t | question), a the tree's best answer",
    conventions={
        **COMMON,
        "models": "agent_1 to agent_3, the policy as it was before training; --roles.agent_2.model seats another",
        "search": "16 answers per scenario; rollout.search.tokens bounds what is sampled",
        "value": "an answer's reward; a node's Q is the mean over the answers from it on",
        "constants": "c = 0.2, widen 1.5, power 0.4, chains of at most 4; ours",
        "kept": "the best answer, the earliest of equals, if it earned more than 0",
        "other ways to grow": "rollout.search.growth hocket.methods.search.toa.SeatBeam or "
        "hocket.methods.search.toa.Alone",
        "aggregation": "mean over all decisions of the answers kept",
    },
    task="sums",
    workflow="relay",
    rollout=TreeOfAgents(),
    credit=Uniform(),
    objective=NegativeLogLikelihood(aggregate="token-mean"),
)


TOA_DPO = DPO.but(
    name="toa-dpo",
    title="TOA: the best answer of a tree whose actions are models against its worst",
    source="Ye et al., arXiv:2412.17061",
    family="search",
    catalogue_ids=("toa",),
    axes=("search", "team", "data"),
    conventions={
        **DPO.conventions,
        **{name: TOA.conventions[name] for name in ("models", "search", "value", "constants", "other ways to grow")},
        "pairs": "a tree's best answer against its worst, where they are worth different",
    },
    task="sums",
    workflow="relay",
    rollout=PairsOfTree(),
)
