"""LSPO: talk in a game is clustered, that game is solved, DPO follows the solution (Xu et al., arXiv:2502.04686).

Utterances become a few intents (`k_means`), episodes a game in these (`AbstractGame`), solved by counterfactual regret;
`IntentPairs` prefers what is meant too rarely to what is meant too often. A small game to try it on is `OneNight`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import TOKEN_TEXTS, Column, InfoColumn
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_sum
from hocket.core.signals import REWARD, counted_trajectories, rewards_by_occurrence, token_texts, turn_visits
from hocket.credit.pairs import paired_turns
from hocket.credit.sibling_turns import turns_of
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.rollout.independent import Independent
from hocket.stages import Credit
from hocket.types import Scenario

CARD = InfoColumn("card", "The card that the speaker held.")

CLAIM = re.compile(r"\b(seer|swear|promise|trust|innocent)\b", re.IGNORECASE)
DOUBT = re.compile(r"\b(liar|lie|lies|lying|doubt|wolf|hang)\b", re.IGNORECASE)
SPEAKER = "You are a {card}. Speak to the village: say that you are the seer, or keep to small talk."
JUDGE = "The speaker, villager or wolf, says: {said}\nSay whether you trust it or take it for a liar."


@dataclass(frozen=True)
class OneNight(Workflow):
    """A game of bluff in free words, small enough to be solved: a reduced Werewolf.

    The speaker is villager or wolf with even chances, which it alone knows. It claims to be somebody (a word such as
    seer, swear or trust) or keeps quiet. A quiet wolf is found out and loses 1 to the judge, a quiet villager wins 1.
    After a claim the judge doubts (a word such as liar, doubt or wolf) or believes. Believed, the speaker wins 1;
    doubted, a villager wins `stake` and a wolf loses it. Each gets what the other loses.

    Neither can gain where villagers always claim, wolves with `(s - 1) / (s + 1)`, and judges doubt with `2 / (s + 1)`.
    """

    name = "one-night"
    description = "one claims to be the seer, the other believes it or not (LSPO)"

    stake: float = 2.0

    roles = ("speaker", "judge")
    scores = True

    def __post_init__(self) -> None:
        if self.stake <= 1:
            raise ValueError(f"stake must be above 1, not {self.stake}")

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        card = ("villager", "wolf")[int(team.key.derive("card").numpy().integers(2))]
        said = await team.speaker(SPEAKER.format(card=card), state=card)
        if not CLAIM.search(said.text):
            won = 1.0 if card == "villager" else -1.0
            return Outcome(said.text, turn_rewards={"reward": {said: won}}, info={CARD.name: card})
        judged = await team.judge(JUDGE.format(said=said), state="judge")
        doubted = bool(DOUBT.search(judged.text))
        won = (self.stake if card == "villager" else -self.stake) if doubted else 1.0
        return Outcome(judged.text, turn_rewards={"reward": {said: won, judged: -won}}, info={CARD.name: card})


Public = tuple[tuple[str, int], ...]
"""What everybody has heard: who meant what, in order."""


class Move(NamedTuple):
    """A turn: whose, what its speaker alone knows, and the intent of what it says."""

    role: str
    private: Hashable
    intent: int


class Situation(NamedTuple):
    """An information state: all that a role knows when it speaks. `scenario` is what everybody was told."""

    role: str
    scenario: Hashable
    private: Hashable
    heard: Public


class Course(NamedTuple):
    """One episode as the abstract game sees it: its moves, and what it brought each role."""

    scenario: Hashable
    moves: tuple[Move, ...]
    payoff: Mapping[str, float]


Strategy = Mapping[Situation, Mapping[int, float]]
"""How likely each intent is in each situation."""


@dataclass
class GameNode:
    """A place in the tree, where chance decides who speaks and what they privately know, or someone speaks.

    Attributes:
        situation: of who speaks, None where chance decides. count: episodes that came by. brought: what they brought in
            all, by role. ended: what those brought in all that ended here.
        chances: what comes next by chance. intents: what comes next by what is meant.
    """

    situation: Situation | None = None
    count: int = 0
    brought: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    chances: dict[Hashable, GameNode] = field(default_factory=dict)
    intents: dict[int, GameNode] = field(default_factory=dict)

    def passed(self, payoff: Mapping[str, float]) -> GameNode:
        """Itself with one episode more."""
        self.count += 1
        _add(self.brought, payoff)
        return self

    def below(self) -> Iterator[GameNode]:
        """Itself and all nodes below, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [*node.chances.values(), *node.intents.values()]


def _add(sums: dict[str, float], payoff: Mapping[str, float], share: float = 1.0) -> None:
    for role, value in payoff.items():
        sums[role] = sums.get(role, 0.0) + share * value


class AbstractGame:
    """The tree of recorded episodes: intents are its actions, and frequencies and mean payoffs what chance does.

    What a role knows is the scenario, its private state and who meant what so far, so that what was said in other words
    is the same. An intent that was heard in a situation but never after the same hidden events brings there what it
    brought on average where it was heard.

    Attributes:
        roles: who moves or is paid. situations: every information state, with the nodes where it may be.
        intents: of each situation those that occurred, with how often.
    """

    def __init__(self, courses: Sequence[Course]) -> None:
        self.root = GameNode()
        for course in courses:
            self._record(course)
        paid = {role for course in courses for role in course.payoff}
        self.roles = tuple(sorted(paid | {move.role for course in courses for move in course.moves}))
        self.situations: dict[Situation, list[GameNode]] = {}
        for node in self.root.below():
            if node.situation is not None:
                self.situations.setdefault(node.situation, []).append(node)
        self.intents = {situation: self._completed(nodes) for situation, nodes in self.situations.items()}

    def _record(self, course: Course) -> None:
        heard: Public = ()
        node = self.root.passed(course.payoff).chances.setdefault(course.scenario, GameNode()).passed(course.payoff)
        for move in course.moves:
            situation = Situation(move.role, course.scenario, move.private, heard)
            node = node.chances.setdefault((move.role, move.private), GameNode(situation)).passed(course.payoff)
            node = node.intents.setdefault(move.intent, GameNode()).passed(course.payoff)
            heard = (*heard, (move.role, move.intent))
        _add(node.ended, course.payoff)

    def _completed(self, nodes: list[GameNode]) -> dict[int, int]:
        """Gives all nodes of a situation the same intents; returns how often each occurred."""
        found: dict[int, int] = {}
        for intent in sorted({intent for node in nodes for intent in node.intents}):
            known = [node.intents[intent] for node in nodes if intent in node.intents]
            found[intent] = sum(child.count for child in known)
            usual: dict[str, float] = {}
            for child in known:
                _add(usual, child.brought, 1 / found[intent])
            for node in nodes:
                node.intents.setdefault(intent, GameNode(count=1, brought=usual, ended=usual))
        return found

    # ------------------------------------------------------------ playing it

    def value(self, strategy: Strategy) -> dict[str, float]:
        """What each role earns on average."""
        return self._value(self.root, strategy)

    def _value(self, node: GameNode, strategy: Strategy) -> dict[str, float]:
        found = self._ended(node)
        for share, child in self._ways(node, strategy):
            _add(found, self._value(child, strategy), share)
        return found

    def _ended(self, node: GameNode) -> dict[str, float]:
        """What episodes that end here bring, times their share of those that come by."""
        return {role: node.ended.get(role, 0.0) / max(node.count, 1) for role in self.roles}

    def _ways(self, node: GameNode, strategy: Strategy) -> Iterator[tuple[float, GameNode]]:
        """What comes next, and how likely."""
        if node.situation is None:
            yield from ((child.count / node.count, child) for child in node.chances.values())
        else:
            chances = strategy[node.situation]
            yield from ((chances[intent], child) for intent, child in node.intents.items())

    def action_values(self, strategy: Strategy) -> dict[Situation, dict[int, float]]:
        """What each intent brings its speaker on average, everybody playing `strategy` before and after."""
        reach = self._reach(strategy)
        found: dict[Situation, dict[int, float]] = {}
        for situation, nodes in self.situations.items():
            weights = [reach[id(node)][situation.role] for node in nodes]
            whole = sum(weights)
            found[situation] = {
                intent: sum(
                    (weight / whole if whole > 0 else 1 / len(nodes))
                    * self._value(node.intents[intent], strategy)[situation.role]
                    for node, weight in zip(nodes, weights, strict=True)
                )
                for intent in self.intents[situation]
            }
        return found

    def reached(self, strategy: Strategy) -> dict[Situation, float]:
        """How likely chance and the others lead to each situation, its own role doing all it can to come there."""
        reach = self._reach(strategy)
        return {one: sum(reach[id(node)][one.role] for node in nodes) for one, nodes in self.situations.items()}

    def _reach(self, strategy: Strategy) -> dict[int, dict[str, float]]:
        """By node: how likely chance and everybody but a role lead there, by that role."""
        found: dict[int, dict[str, float]] = {}
        waiting = [(self.root, dict.fromkeys(self.roles, 1.0))]
        while waiting:
            node, reach = waiting.pop()
            found[id(node)] = reach
            mover = None if node.situation is None else node.situation.role
            for chance, child in self._ways(node, strategy):
                waiting.append((child, {role: r * (1.0 if role == mover else chance) for role, r in reach.items()}))
        return found

    def best_response(self, role: str, strategy: Strategy) -> float:
        """The most that a role can earn against the others' `strategy`."""
        reach = self._reach(strategy)
        chosen: dict[Situation, int] = {}

        def choice(situation: Situation) -> int:
            if situation not in chosen:
                nodes = self.situations[situation]
                worth = {
                    intent: sum(reach[id(node)][role] * value(node.intents[intent]) for node in nodes)
                    for intent in self.intents[situation]
                }
                chosen[situation] = max(worth, key=lambda intent: worth[intent])
            return chosen[situation]

        def value(node: GameNode) -> float:
            if node.situation is not None and node.situation.role == role:
                return value(node.intents[choice(node.situation)])
            return self._ended(node)[role] + sum(share * value(child) for share, child in self._ways(node, strategy))

        return value(self.root)

    def nash_conv(self, strategy: Strategy) -> float:
        """The sum over roles of what each gains by its best response."""
        own = self.value(strategy)
        return sum(self.best_response(role, strategy) - own[role] for role in self.roles)

    # ------------------------------------------------------------ solving it

    def solved(self, iterations: int) -> Strategy:
        """The average strategy of linear CFR (Zinkevich et al. 2007; Brown and Sandholm 2019).

        Iteration t matches regrets, `sigma(a) ~ max(R(a), 0)`, evenly without; regrets and average count it t times.
        """
        regret = {situation: dict.fromkeys(intents, 0.0) for situation, intents in self.intents.items()}
        total = {situation: dict.fromkeys(intents, 0.0) for situation, intents in self.intents.items()}
        for number in range(1, iterations + 1):
            now = {situation: _matched(known) for situation, known in regret.items()}
            self._walk(self.root, now, dict.fromkeys(self.roles, 1.0), 1.0, float(number), regret, total)
        return {situation: _shares(sums) for situation, sums in total.items()}

    def _walk(
        self,
        node: GameNode,
        now: Strategy,
        own: Mapping[str, float],
        chance: float,
        weight: float,
        regret: Mapping[Situation, dict[int, float]],
        total: Mapping[Situation, dict[int, float]],
    ) -> dict[str, float]:
        """The value of a node, adding regrets and the average below; `own` is each role's reach, `chance` chance's."""
        found, situation = self._ended(node), node.situation
        if situation is None:
            for share, child in self._ways(node, now):
                _add(found, self._walk(child, now, own, chance * share, weight, regret, total), share)
            return found
        mover, brought = situation.role, dict[int, float]()
        for intent, child in node.intents.items():
            share = now[situation][intent]
            reached = {**own, mover: own[mover] * share}
            below = self._walk(child, now, reached, chance, weight, regret, total)
            brought[intent] = below[mover]
            _add(found, below, share)
        others = chance * math.prod(reach for role, reach in own.items() if role != mover)
        for intent, value in brought.items():
            regret[situation][intent] += weight * others * (value - found[mover])
            total[situation][intent] += weight * own[mover] * now[situation][intent]
        return found


def _matched(regret: Mapping[int, float]) -> dict[int, float]:
    return _shares({intent: max(value, 0.0) for intent, value in regret.items()})


def _shares(sums: Mapping[int, float]) -> dict[int, float]:
    whole = sum(sums.values())
    return {intent: value / whole if whole > 0 else 1 / len(sums) for intent, value in sums.items()}


@dataclass(frozen=True)
class Said:
    """One turn: who said what in which trajectory, at the place `phase` in it; `counts`, whether it is learnt from."""

    trajectory: int
    turn: int
    role: str
    phase: int
    text: str
    counts: bool


@dataclass(frozen=True)
class IntentPairs(Credit):
    """Pairs of turns in one situation of an abstract game: an utterance meant too rarely against one meant too often.

    Latent space policy optimisation (LSPO, arXiv 2502.04686). What each role says at each place of an episode is
    clustered into `intents` kinds; the episodes become a game in these (`AbstractGame`), which CFR solves; in a
    situation, where `pi` is the solution's mix and `p` the shares of the intents in this experience, utterances of the
    intent of largest `pi / p` are preferred to those of the smallest, if the first is played too rarely and the second
    too often by more than `margin`. At an equilibrium no intent of the mix is worth less than another, so the preferred
    one is the better valued, and among equals the one that the mix plays more.

    A situation is a role, the scenario, the turn's `state` (what its speaker alone knows) and who meant what before; a
    turn without a state knows nothing apart. What roles earn are their turns' and decisions' rewards, and the
    trajectory's for all. A turn without words is clustered by its actions. Each utterance is in one pair at most:
    `pairs` name trajectories, `compared` their turns; all others get weight 0.

    Attributes:
        intents: clusters per role and place, fewer where fewer texts differ. iterations: of CFR.
        margin: how far apart `pi` and `p` must be.
    """

    intents: int = 4
    iterations: int = 200
    margin: float = 0.05

    reads: ClassVar[frozenset[Column]] = frozenset({TOKEN_TEXTS})
    pairs: ClassVar[bool] = True
    least_samples: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.intents < 2 or self.iterations < 1 or self.margin < 0:
            raise ValueError(
                f"intents must be at least 2, iterations at least 1 and margin at least 0, not {self.intents}, "
                f"{self.iterations} and {self.margin}"
            )

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` and `compared`, `[P, 2]` each; advantages are left as they are."""
        talk = self.talk(batch)
        situations, game = self.abstracted(batch, talk, self.meant(talk))
        found = self._found(situations, game, game.solved(self.iterations)) if game.situations else []
        return paired_turns(
            batch, [((better.trajectory, better.turn), (worse.trajectory, worse.turn)) for better, worse in found]
        )

    # ------------------------------------------------------------ from talk to a game

    def talk(self, batch: Batch) -> list[Said]:
        """Every turn of every trajectory that counts, in assignment order."""
        seen, order, roles = batch.occurrences, batch.order.tolist(), batch.names["role"]
        visit, starts = turn_visits(batch)
        counted = (segment_sum((seen.weight != 0).double(), visit, int(starts.sum())) > 0).tolist()
        actions, place = batch.action.tolist(), 0
        said: dict[int, list[Said]] = {}
        for trajectory, (turns, pieces) in enumerate(zip(turns_of(batch), self._pieces(batch), strict=True)):
            said[trajectory] = []
            own = seen.decision[seen.trajectory == trajectory]
            for phase, turn in enumerate(turns):
                here = (batch.turn[own] == turn).tolist()
                text = "".join(piece for piece, mine in zip(pieces, here, strict=True) if mine)
                text = text or " ".join(str(actions[at]) for at, mine in zip(own.tolist(), here, strict=True) if mine)
                role = roles[int(batch.role[turn])]
                said[trajectory].append(Said(trajectory, turn, role, phase, text, counted[place]))
                place += 1
        used = counted_trajectories(batch).tolist()
        chosen = sorted((row for row in said if used[row]), key=lambda row: order[row])
        return [one for row in chosen for one in said[row]]

    def _pieces(self, batch: Batch) -> list[list[str]]:
        lengths = batch.lengths().tolist()
        return (
            token_texts(batch, "IntentPairs") if TOKEN_TEXTS.present(batch) else [[""] * length for length in lengths]
        )

    def meant(self, talk: Sequence[Said]) -> list[int]:
        """The intent of each turn: a cluster among what its role said at that place, each text counting once."""
        texts: dict[tuple[str, int], set[str]] = {}
        for one in talk:
            texts.setdefault((one.role, one.phase), set()).add(one.text)
        intents: dict[tuple[str, int, str], int] = {}
        for (role, phase), known in texts.items():
            ordered = sorted(known)
            kinds = k_means(embedded(ordered), self.intents, Key.of(0).derive("utterances", role, phase))
            intents |= {(role, phase, text): kind for text, kind in zip(ordered, kinds, strict=True)}
        return [intents[one.role, one.phase, one.text] for one in talk]

    def abstracted(
        self, batch: Batch, talk: Sequence[Said], intents: Sequence[int]
    ) -> tuple[dict[tuple[Situation, int], list[Said]], AbstractGame]:
        """The game of these intents, and the turns that mean each intent in each situation."""
        payoffs = earned(batch)
        moves: dict[int, list[Move]] = {}
        found: dict[tuple[Situation, int], list[Said]] = {}
        for one, intent in zip(talk, intents, strict=True):
            before = moves.setdefault(one.trajectory, [])
            private = batch.names["state"][int(batch.state[one.turn])]
            move = Move(one.role, "" if private.startswith("\0") else private, intent)
            heard = tuple((other.role, other.intent) for other in before)
            scenario = batch.names["scenario"][int(batch.scenario[one.trajectory])]
            found.setdefault((Situation(one.role, scenario, move.private, heard), intent), []).append(one)
            before.append(move)
        scenarios = {row: batch.names["scenario"][int(batch.scenario[row])] for row in moves}
        return found, AbstractGame([Course(scenarios[row], tuple(own), payoffs[row]) for row, own in moves.items()])

    # ------------------------------------------------------------ and back

    def _found(
        self, said: dict[tuple[Situation, int], list[Said]], game: AbstractGame, mix: Strategy
    ) -> list[tuple[Said, Said]]:
        found: list[tuple[Said, Said]] = []
        for situation, counts in game.intents.items():
            better, worse = self.preferred(counts, mix[situation])
            if better != worse:
                members = ([one for one in said[situation, intent] if one.counts] for intent in (better, worse))
                found += list(zip(*members, strict=False))
        return found

    def preferred(self, counts: dict[int, int], mix: Mapping[int, float]) -> tuple[int, int]:
        """The intents to say more and less of, the same twice where the mix is met."""
        whole = sum(counts.values())
        share = {intent: count / whole for intent, count in counts.items()}
        better = max(share, key=lambda intent: mix[intent] / share[intent])
        worse = min(share, key=lambda intent: mix[intent] / share[intent])
        apart = min(mix[better] - share[better], share[worse] - mix[worse])
        return (better, worse) if apart > self.margin else (better, better)


def earned(batch: Batch) -> list[dict[str, float]]:
    """What each role earned in each trajectory: by its turns and decisions, and the trajectory's reward."""
    seen, roles = batch.occurrences, batch.names["role"]
    shared = batch.scores.get(REWARD[Level.TRAJECTORY])
    whole = [0.0] * batch.trajectories if shared is None else shared.values.tolist()
    local = {name: score for name, score in batch.scores.items() if name != REWARD[Level.TRAJECTORY]}
    rewards = rewards_by_occurrence(batch.but(scores=local))
    role = batch.role[batch.turn[seen.decision]]
    sums = segment_sum(rewards, seen.trajectory * len(roles) + role, batch.trajectories * len(roles))
    present = torch.zeros(batch.trajectories * len(roles), dtype=torch.bool)
    present[seen.trajectory * len(roles) + role] = True
    rows = zip(sums.reshape(-1, len(roles)).tolist(), present.reshape(-1, len(roles)).tolist(), whole, strict=True)
    return [
        {name: own + all_of for name, own, here in zip(roles, values, acts, strict=True) if here}
        for values, acts, all_of in rows
    ]


_WORD = re.compile(r"\w+")


def embedded(texts: Sequence[str]) -> Tensor:
    """`log(1 + count)` of the words and pairs of neighbouring words of each text, rows at length 1, `[M, D]` float64.

    Case does not count. Columns are the words and pairs of these texts.
    """
    rows = [_counts(text) for text in texts]
    columns = {gram: place for place, gram in enumerate(sorted({gram for row in rows for gram in row}))}
    points = torch.zeros(len(texts), len(columns), dtype=torch.float64)
    for place, row in enumerate(rows):
        for gram, count in row.items():
            points[place, columns[gram]] = math.log1p(count)
    length = points.norm(dim=-1, keepdim=True)
    return torch.where(length > 0, points / length, points)


def _counts(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return Counter([*((word,) for word in words), *itertools.pairwise(words)])


def k_means(points: Tensor, clusters: int, key: Key, *, restarts: int = 8, iterations: int = 50) -> list[int]:
    """Lloyd's algorithm from k-means++ seeds (Arthur and Vassilvitskii 2007): the cluster of each point `[M, D]`.

    Of `restarts` runs the one with the least squared distance to centres counts. Clusters are numbered by their first
    points. There are fewer than `clusters` where fewer points differ.
    """
    best: Tensor | None = None
    least = float("inf")
    for restart in range(restarts):
        centres = _seeds(points, clusters, key.derive("restart", restart).numpy())
        nearest = _nearest(points, centres)
        for _ in range(iterations):
            for cluster in range(len(centres)):
                if bool((nearest == cluster).any()):
                    centres[cluster] = points[nearest == cluster].mean(0)
            moved = _nearest(points, centres)
            if torch.equal(moved, nearest):
                break
            nearest = moved
        spread = float((points - centres[nearest]).square().sum())
        if best is None or spread < least - 1e-12:
            best, least = nearest, spread
    assert best is not None
    names: dict[int, int] = {}
    return [names.setdefault(cluster, len(names)) for cluster in best.tolist()]


def _seeds(points: Tensor, clusters: int, rng: np.random.Generator) -> Tensor:
    """Points drawn one after the other by their squared distance to those drawn before."""
    chosen = [int(rng.integers(len(points)))]
    while len(chosen) < clusters:
        far = torch.cdist(points, points[chosen]).min(1).values.square().numpy()
        if far.sum() <= 1e-18:
            break
        chosen.append(int(rng.choice(len(points), p=far / far.sum())))
    return points[chosen].clone()


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    return torch.cdist(points, centres).argmin(1)


def adjusted_rand(left: Sequence[int], right: Sequence[int]) -> float:
    """How far two partitions agree beyond chance (Hubert and Arabie 1985): 1 for the same, about 0 for unrelated."""

    def within(counts: Counter[tuple[int, ...]]) -> float:
        return sum(count * (count - 1) / 2 for count in counts.values())

    both = within(Counter(zip(left, right, strict=True)))
    one, other = (within(Counter((label,) for label in side)) for side in (left, right))
    every = len(left) * (len(left) - 1) / 2
    expected, most = one * other / every if every else 0.0, (one + other) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


LSPO_WEREWOLF = ONLINE_DPO.but(
    name="lspo-werewolf",
    title="Latent Space Policy Optimisation: utterances are clustered, their game is solved, DPO follows the solution",
    source="Xu et al., Learning Strategic Language Agents in the Werewolf Game, arXiv:2502.04686",
    family="teams",
    catalogue_ids=("lspo-werewolf",),
    axes=("team", "policy", "objective", "search", "environment"),
    formula="z = k-means(embedding) per role and place;  pi = CFR(game of z);  DPO on utterances of argmax_z pi/p "
    "against argmin_z pi/p in a situation, p the policy's own shares",
    conventions={
        **ONLINE_DPO.conventions,
        "embedding": "words and pairs of neighbouring words, chosen here; the paper takes a text embedding model",
        "clusters": "credit.intents of them, 4, of the texts that a role says at a place of the episode (its phase); "
        "found anew every step, which collects new talk",
        "abstract game": "estimated from the step's own episodes: frequencies stand for chance, means for payoffs",
        "CFR": "tabular and linear, 200 iterations, the average strategy; the paper's is Deep CFR",
        "pairs": "chosen here: intents of an equilibrium's mix are worth the same, so the preferred is the one played "
        "too rarely, the other the one played too often, by more than 0.05 each; any other is worth no more",
        "situation": "role, scenario, the turn's own state, and who meant what before, in whatever words",
        "aggregation": "log-probs summed over the decisions of each of the two turns, mean over pairs",
        "prompts": "those of the two utterances may differ in wording",
    },
    note="the shipped game has one claim and one verdict; nights, several days and a vote of many are not played",
    requires=(Requirement.AGENTS,),
    workflow="one-night",
    rollout=Independent(samples=64),
    credit=IntentPairs(intents=4),
)
