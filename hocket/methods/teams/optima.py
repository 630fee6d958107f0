"""Optima: agents learn to talk briefly and readably, by imitation and DPO on their own dialogues (arXiv:2410.08115).

Tokens are charged (`MessageCost`) and what the base model finds likely is rewarded (`Readability`). `optima-sft`
imitates each scenario's best dialogue (`BestAbove`); `optima-dpo` grows a tree of dialogues (`DialogueTree`) and
compares answers to the same history (`SiblingTurns`); `optima` does both by turns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hocket.agents.workflows.reply import Reply
from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked, with_line
from hocket.core import sums
from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import ANSWER, edit_distance
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_count, segment_extreme, segment_mean
from hocket.core.signals import REWARD, counted_trajectories, returns, turn_visits
from hocket.credit.alternating import AlternatingCredit
from hocket.credit.pairs import Pairing, members_by_group, paired_turns
from hocket.credit.sibling_turns import TurnNode, tree_of, turns_of
from hocket.methods.base.conventions import COMMON
from hocket.objectives.alternating import AlternatingObjective
from hocket.objectives.likelihood import NegativeLogLikelihood
from hocket.objectives.preference import Pairwise
from hocket.recipe import Recipe
from hocket.rewards.members import with_return
from hocket.rollout.alternating import AlternatingRollout
from hocket.rollout.dynamic import total
from hocket.rollout.groups import groups
from hocket.rollout.independent import Independent
from hocket.rollout.message_tree import MessageNode, StepTree, grafted
from hocket.stages import Credit, Grade, LedgerView, More, Play, Rollout, Shaping
from hocket.types import Assignment, Experience, Scenario, Trajectory


@dataclass(frozen=True)
class DialogueTree(Rollout):
    """`expansions` times a message is chosen per scenario, and the episode goes on from it `children` times to its end.

    Optima (arXiv 2410.08115, and the authors' code). Messages are nodes; those before the chosen one are replayed, so
    what dialogues have in common is one object, sampled and computed once. The beginning is expanded first. Then among
    the `top` messages with the highest mean score of their episodes, after which something was said, one is drawn with
    probability proportional to exp(mean). Messages that differ from one already expanded by less than `alike` of their
    characters (edit distance over length) are passed over; the beginning is taken when none is left.

    The score that guides the growth is the sum of an episode's scores as they stand; shaping comes later. A player
    without workflows begins anew each time, so its trees have one level.
    """

    expansions: int = 8
    children: int = 3
    alike: float = 0.25
    top: int = 10

    def __post_init__(self) -> None:
        if self.expansions < 1 or self.children < 1 or self.top < 1:
            raise ValueError("expansions, children and top must be at least 1")
        if self.expansions * self.children < 2:
            raise ValueError("a tree needs two episodes to compare: raise expansions or children")
        if not 0 <= self.alike <= 1:
            raise ValueError(f"alike must lie in [0, 1], not {self.alike}")

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
        """Per scenario all its episodes, in the order in which they were played."""
        trees = [StepTree(one) for one in asked]
        expanded: list[list[MessageNode]] = [[] for _ in asked]
        found: list[list[Trajectory]] = [[] for _ in asked]
        for number in range(self.expansions):
            for tree, before in zip(trees, expanded, strict=True):
                before.append(self._chosen(tree.root, before, key.derive(tree.asking.scenario.id, number)))
            wanted = zip(trees, expanded, strict=True)
            played = await groups(play, [tree.onward(nodes[-1], samples=self.children) for tree, nodes in wanted])
            await score([one for group in played for one in group])
            for tree, mine, group in zip(trees, found, played, strict=True):
                mine += group
                for one in group:
                    if one.failure is None:
                        grafted(tree.root, one).back_up(sums.total(map(total, one.scores.values())))
        nodes = sum(1 for tree in trees for _ in tree.root.below()) - len(trees)
        metrics = {"rollout/messages": float(nodes), "rollout/expanded": float(sum(map(len, expanded)))}
        return Experience([one for group in found for one in group], metrics=metrics)

    def _chosen(self, root: MessageNode, expanded: Sequence[MessageNode], key: Key) -> MessageNode:
        """The message to go on from."""
        done = [node.turn.text for node in expanded if node.turn is not None]
        fresh = [
            node
            for node in root.below()
            if node.turn is not None
            and node.children
            and node not in expanded
            and not any(_apart(node.turn.text, text) < self.alike for text in done)
        ]
        if not expanded or not fresh:
            return root
        best = sorted(fresh, key=lambda node: -node.mean)[: self.top]
        weight = np.exp(np.array([node.mean for node in best]) - best[0].mean)
        drawn = float(key.numpy().random()) * weight.sum()
        return best[min(int((weight.cumsum() < drawn).sum()), len(best) - 1)]


def _apart(one: str, other: str) -> float:
    """The edit distance of two texts over the length of the longer one plus 1, as the authors have it."""
    return edit_distance(one, other) / (max(len(one), len(other)) + 1)


SYSTEM = "You and your partner know different things. Talk briefly, then give the answer as <answer>..</answer>."


@dataclass(frozen=True)
class TwoHalves(Workflow):
    """Alice and Bob talk in turn about one question; each sees the question and its own half of the facts.

    The information-asymmetric setting of Optima (arXiv 2410.08115). The halves are `metadata["halves"]`, two texts;
    without them both know the question alone. A dialogue ends with an answer in tags that agrees with the partner's
    last one, or, without `agree`, with the first answer; or after `messages`. The last answer given is the team's.

    Attributes:
        messages: at most. agree: whether both must give the answer. system: a system prompt for both where they know
            different things, None for none.
    """

    name = "two-halves"
    description = "two who hold half of the facts each talk (Optima)"

    messages: int = 10
    agree: bool = True
    system: str | None = SYSTEM

    roles = ("alice", "bob")
    scores = True

    def __post_init__(self) -> None:
        if self.messages < 1:
            raise ValueError(f"messages must be at least 1, not {self.messages}")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        halves: Sequence[str] = scenario.metadata.get("halves") or ("", "")
        told = self.system is not None and any(halves)
        agents = {role: team[role].fresh(system=self.system) if told else team[role] for role in self.roles}
        said: list[Reply] = []
        answers: dict[str, str] = {}
        final: Reply | None = None
        for number in range(self.messages):
            role = self.roles[number % 2]
            new = [f"{self.roles[1 - number % 2].capitalize()}: {said[-1]}"] if said else []
            if number < 2:
                known = [f"You know: {halves[number]}"] if halves[number] else []
                question, lines = asked(team.assignment), "\n".join([*known, *new])
                reply = await agents[role](with_line(question, lines) if lines else question)
            else:
                reply = await agents[role](*new)
            said.append(reply)
            found = ANSWER.search(str(reply))
            if found is not None:
                answers[role], final = found[1].strip(), reply
                if not self.agree or len(set(answers.values())) == 1 < len(answers):
                    break
        right = 0.0 if final is None else team.verify(final)
        return Outcome(answer=None if final is None else str(final), rewards={"task": right})


@dataclass(frozen=True)
class MessageCost(Shaping):
    """Takes `weight * tokens / (most tokens among the scenario's samples)` from the return: Optima (arXiv 2410.08115).

    Tokens are the decisions of all turns, whoever said them. Trajectories that do not count set no maximum.
    """

    weight: float = 0.6

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ValueError(f"weight must be at least 0, not {self.weight}")

    def __call__(self, batch: Batch) -> Batch:
        groups, among = GroupBy("scenario")(batch), counted_trajectories(batch)
        length = batch.lengths().double()
        most = segment_extreme(length[among], groups.index[among], groups.size, largest=True)[groups.index]
        cost = torch.where(among, length / most.clamp(min=1.0), 0.0)
        return with_return(batch, returns(batch) - self.weight * cost)


def message_losses(batch: Batch) -> tuple[Tensor, Tensor]:
    """The mean of -log p_reference over the decisions of each message, `[M]` float64, and whose it is, `[M]`.

    A message is a trajectory's visit to a turn. Imposed decisions, and those whose log-prob is unknown, are left out,
    and messages in which none is left.
    """
    seen, reference = batch.occurrences, batch.logp[Column.REFERENCE.name]
    visit, starts = turn_visits(batch)
    used = (reference.present & ~batch.forced)[seen.decision]
    loss = -reference.values.detach().double()[seen.decision[used]]
    size = int(starts.sum())
    known = segment_count(visit[used], size) > 0
    return segment_mean(loss, visit[used], size)[known], seen.trajectory[starts][known]


@dataclass(frozen=True)
class Readability(Shaping):
    """Adds `weight / max_u NLL(u)` to the return, NLL(u) the reference's mean loss per token of message u.

    Optima (arXiv 2410.08115): a private code is what the base model would hardly have written. The reference is the
    policy before training, and it reads each message after what its speaker was told, as it was sampled; the authors'
    code shows the base model the message alone. A loss below `floor` nats counts as `floor`, so that a dialogue of a
    deterministic model is worth no more than `weight / floor`. A trajectory without a known log-prob gets nothing.
    """

    weight: float = 1.0
    floor: float = 0.1

    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE})

    def __post_init__(self) -> None:
        if self.weight < 0 or self.floor <= 0:
            raise ValueError(f"weight must be at least 0 and floor positive, not {self.weight} and {self.floor}")

    def __call__(self, batch: Batch) -> Batch:
        if Column.REFERENCE.name not in batch.logp:
            raise ConfigurationError("Readability reads log-probs 'reference', which are missing")
        loss, owner = message_losses(batch)
        known = segment_count(owner, batch.trajectories) > 0
        worst = segment_extreme(loss, owner, batch.trajectories, largest=True)
        return with_return(batch, returns(batch) + torch.where(known, self.weight / worst.clamp(min=self.floor), 0.0))


def task_scores(batch: Batch) -> list[float]:
    """What each trajectory earned before shaping; inf where that is not told (a batch of combined rewards)."""
    found = [
        score.values.nan_to_num().double()
        for name, score in batch.scores.items()
        if score.level is Level.TRAJECTORY and name not in REWARD.values()
    ]
    return torch.stack(found).sum(0).tolist() if found else [math.inf] * batch.trajectories


@dataclass(frozen=True)
class BestAbove(Credit):
    """Advantage 1 for the best trajectory of each group if its return is above `least`; all others get weight 0.

    What is imitated in Optima's iSFT (arXiv 2410.08115): generate, rank, select. Among equals the first in assignment
    order is taken; of the best ones of all groups the `share` with the highest return is kept, rounded up. A dialogue
    whose own scores, before shaping, do not exceed `task` is never imitated, however brief and readable it is.
    """

    by: GroupBy = GroupBy("scenario")
    least: float = 0.5
    share: float = 1.0
    task: float = 0.0

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("whole trajectories are ranked: by may not name a column of turns")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], not {self.share}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64 and weights."""
        seen, value = batch.occurrences, returns(batch).tolist()
        earned, order = task_scores(batch), batch.order.tolist()
        solved = [[one for one in members if earned[one] > self.task] for members in members_by_group(batch, self.by)]
        best = [max(members, key=lambda one: value[one]) for members in solved if members]
        best = sorted((one for one in best if value[one] > self.least), key=lambda one: (-value[one], order[one]))
        kept = torch.zeros(batch.trajectories, dtype=torch.bool)
        kept[best[: math.ceil(self.share * len(best) - 1e-9)]] = True
        here = kept[seen.trajectory] & (seen.weight != 0)
        weight = torch.where(here, seen.weight, torch.zeros_like(seen.weight))
        return replace(seen, advantage=here.double(), weight=weight)


@dataclass(frozen=True)
class SiblingTurns(Pairing):
    """Pairs of turns that answer the same history: the most valuable against the least. Optima (arXiv 2410.08115).

    Episodes of a group form a tree, whose nodes are turns; a node is worth the mean return of the episodes through it.
    Of the answers to one history the best and the worst make a pair if they differ by more than `margin` and the best
    is worth more than `least`. Of a group's pairs the `share` whose better turn is worth most is kept, rounded down but
    at least one. `pairs` name an episode through each of the two turns (the earliest), and `compared` the turns; only
    their decisions keep a weight. Turns are the same if they are one object, which `hocket.rollout.DialogueTree` sees
    to; where nothing is shared, first turns are compared. Among equals the first in assignment order is taken.
    A turn is preferred only if the mean of its episodes' own scores, before shaping, exceeds `task`.
    """

    margin: float = 0.3
    least: float = 0.15
    share: float = 0.5
    task: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], not {self.share}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` and `compared`, `[P, 2]` each; advantages are left as they are."""
        value, earned, turns = returns(batch).tolist(), task_scores(batch), turns_of(batch)
        found: list[tuple[TurnNode, TurnNode]] = []
        for members in members_by_group(batch, self.by):
            here = [
                pair
                for told in tree_of(members, turns).below()
                if (pair := self._pair(told, value, earned)) is not None
            ]
            here.sort(key=lambda pair: -pair[0].value(value))
            found += here[: max(1, int(self.share * len(here) + 1e-9))]
        return paired_turns(
            batch, [((better.leaves[0], better.turn), (worse.leaves[0], worse.turn)) for better, worse in found]
        )

    def _pair(self, told: TurnNode, value: list[float], earned: list[float]) -> tuple[TurnNode, TurnNode] | None:
        answers = told.children
        if len(answers) < 2:
            return None
        better = max(answers, key=lambda one: one.value(value))
        worse = min(answers, key=lambda one: one.value(value))
        apart = better.value(value) - worse.value(value) > self.margin
        good = better.value(value) > self.least and better.value(earned) > self.task
        return (better, worse) if apart and good else None


_REWARD = {
    **COMMON,
    "reward": "R = R_task - 0.6 tokens / (most tokens of the scenario's dialogues) + 1.0 / max_u NLL(u)",
    "NLL(u)": "mean loss per token of message u under the policy before training, after what its speaker was told, "
    "at the sampling temperature; at least 0.1",
    "weights": "0.6 and 1, those of the released configurations",
    "agents": "one policy plays all roles; where a scenario has no halves both know the question, and are told no more",
    "iterations": "every step samples with the weights as they are; there is no reset to the base model",
}


OPTIMA_SFT = Recipe(
    name="optima-sft",
    title="Optima, iSFT: the best dialogue of each scenario is imitated",
    source="Chen et al., arXiv:2410.08115, and the authors' code",
    family="dialogue",
    axes=("team", "reward", "rollout"),
    formula="L = -mean_t log pi(a_t) over the best dialogue of each scenario with R > 0.5",
    conventions={
        **_REWARD,
        "selection": "the best of 10 per scenario that earned anything from the task, if R > 0.5",
        "aggregation": "mean over all decisions of the chosen dialogues, every speaker's",
    },
    requires=(Requirement.AGENTS, Requirement.TURNS),
    workflow="two-halves",
    rollout=Independent(samples=10),
    shaping=(MessageCost(weight=0.6), Readability(weight=1.0)),
    credit=BestAbove(least=0.5),
    objective=NegativeLogLikelihood(aggregate="token-mean"),
)


OPTIMA_DPO = OPTIMA_SFT.but(
    name="optima-dpo",
    title="Optima, iDPO: turns of a dialogue tree that answer the same history are compared",
    axes=("team", "reward", "rollout", "objective"),
    formula="L = -mean_pairs log sigmoid(beta (d_w - d_l)), d = log pi(u | h) - log pi_ref(u | h), of messages "
    "u_w, u_l with V(u_w) - V(u_l) > 0.3, V the mean R of the dialogues through a message",
    conventions={
        **_REWARD,
        "tree": "8 expansions of 3 dialogues; the beginning first, then a message drawn by exp(mean score) from the "
        "ten best; one that differs by less than a quarter from an expanded one is passed over",
        "score that guides the tree": "the task's, since tokens and readability are compared only when all is said",
        "pairs": "best against worst answer to one history, if they differ by more than 0.3 and the best is worth more "
        "than 0.15 and was ever right; of a scenario's pairs the better half by the chosen one's value, at least one",
        "aggregation": "log-probs summed over the decisions of each of the two messages, mean over pairs",
        "reference": "the policy before training; DPO's and the reader of messages",
        "beta": "0.1",
    },
    rollout=DialogueTree(expansions=8, children=3),
    credit=SiblingTurns(margin=0.3, least=0.15, share=0.5),
    objective=Pairwise(beta=0.1),
)


OPTIMA = OPTIMA_DPO.but(
    name="optima",
    title="Optima, iSFT-DPO: rounds of imitation and of comparison",
    catalogue_ids=("optima",),
    formula=f"by turns of 10 steps: {OPTIMA_SFT.formula};  {OPTIMA_DPO.formula}",
    conventions={
        **OPTIMA_SFT.conventions,
        **OPTIMA_DPO.conventions,
        "aggregation": f"iSFT: {OPTIMA_SFT.conventions['aggregation']}; iDPO: {OPTIMA_DPO.conventions['aggregation']}",
        "rounds": "10 steps of iSFT, then 10 of iDPO, and so on; optima-sft and optima-dpo are the two alone",
    },
    rollout=AlternatingRollout((OPTIMA_SFT.rollout, OPTIMA_DPO.rollout), every=10),
    credit=AlternatingCredit((OPTIMA_SFT.credit, OPTIMA_DPO.credit), every=10),
    objective=AlternatingObjective((OPTIMA_SFT.objective, OPTIMA_DPO.objective), every=10),
)
