"""LATR: groups grown as trees that fork where another token is nearly as likely and goes on differently.

Independent samples of one prompt often say the same (Xing et al., arXiv:2510.24302). `LookaheadTrees` lets one greedy
way of a prompt fork where the policy hesitates; a fork that says nearly what its parent says some tokens later is cut
off again, and when there are as many ways as samples all are finished by ordinary sampling, as one group. Rules and
constants are those of the released code (starreeze/latr).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import ClassVar

from hocket.core.columns import ALTERNATIVES, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import edit_distance
from hocket.methods.base.grpo import GRPO
from hocket.rollout.branches import NUMBERED, continued, only_turn
from hocket.rollout.groups import groups
from hocket.rollout.independent import Independent
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Tokenizer, tokenizer_of
from hocket.types import Assignment, Experience, Trajectory

STEERED = InfoColumn("steered", "How many of its first decisions a tree made, not a draw; 0 for a plain sample.")

SYMBOLS = "+-*/\\<>=()[]{}_^&%$0123456789"
"""Digits and signs, forks from which the release means never to cut off."""

Ranked = Sequence[tuple[int, float]]
"""The likeliest tokens at a place, each with its log-prob in nats, the first the likeliest."""


def apart(one: Sequence[int], other: Sequence[int]) -> float:
    """How many tokens are put in, left out or changed between two stretches of equal length, per token."""
    letters = {token: chr(number) for number, token in enumerate({*one, *other})}
    texts = ("".join(letters[token] for token in tokens) for tokens in (one, other))
    return edit_distance(*texts) / len(one)


@dataclass(eq=False)
class Way:
    """A way through the tree, greedy from its own first token on.

    Attributes:
        tokens: as far as they are known. born: the place of its own first token, where it left its parent.
        ranked: what was likely at each known place; nothing where the token was imposed. ended: whether they end it.
    """

    tokens: list[int] = field(default_factory=list)
    born: int = 0
    parent: Way | None = None
    ranked: list[Ranked] = field(default_factory=list)
    ended: bool = False

    def over(self, time: int) -> bool:
        """Whether it says nothing at place `time`, nor after."""
        return self.ended and len(self.tokens) <= time

    def descends(self, other: Way) -> bool:
        """Whether it is `other` or left it, at once or later."""
        return self is other or (self.parent is not None and self.parent.descends(other))


@dataclass(eq=False)
class Growing:
    """The tree of one scenario: `live` ways that each have said `time` tokens, in the order in which they were born."""

    rule: LookaheadTrees
    asking: Assignment
    words: Tokenizer | None
    live: list[Way] = field(default_factory=lambda: [Way()])
    time: int = 0
    asked: int = 0
    forks: int = 0
    pruned: int = 0

    @property
    def room(self) -> int:
        """The most tokens of a response."""
        most = self.asking.decoding.max_tokens
        return most if self.asking.budget is None else min(most, self.asking.budget)

    def wants(self) -> list[Way]:
        """Grows as far as the ways are known; those that must be read on first, none when it is grown."""
        while not self.grown:
            short = [way for way in self.live if not way.ended and len(way.tokens) <= self.time]
            if short:
                return short
            self._fork()
            self.time += 1
            for way in self._alike():
                self.drop(way)
                self.pruned += 1
        return []

    @property
    def grown(self) -> bool:
        """Whether the ways go on by sampling: all are there and old enough to stay, or none goes on."""
        old = max(self.rule.ages)
        full = len(self.live) >= self.rule.branches
        settled = full and all(way.over(self.time) or self.time - way.born > old for way in self.live)
        return settled or all(way.over(self.time) for way in self.live) or self.time == self.rule.height

    def _fork(self) -> None:
        """New ways at `time`: second choices first, then third ones, in the order of the ways, as there is room."""
        found = [
            (rank, place, token)
            for place, way in enumerate(self.live)
            if len(way.tokens) > self.time
            for rank, token in self.rule.choices(way.ranked[self.time], way.tokens[self.time])
        ]
        for _, place, token in sorted(found)[: max(0, self.rule.branches - len(self.live))]:
            parent = self.live[place]
            self.live.append(Way([*parent.tokens[: self.time], token], self.time, parent, [()] * (self.time + 1)))
            self.forks += 1

    def _alike(self) -> list[Way]:
        """The ways that now, at one of the ages, say too nearly what their parents say."""
        return [way for way in self.live if self.time - way.born in self.rule.ages and self._copies(way)]

    def _copies(self, way: Way) -> bool:
        parent, here = way.parent, slice(way.born, self.time)
        if parent is None or way.over(self.time) or parent.over(self.time):
            return False
        if self.words is not None and self.rule.spared:
            left = self.words.decode([parent.tokens[way.born]]).strip()
            if left and left in self.rule.spared:
                return False
        return apart(way.tokens[here], parent.tokens[here]) < self.rule.distance

    def drop(self, way: Way) -> None:
        """Cuts off a way with all that left it."""
        self.live = [one for one in self.live if not one.descends(way)]

    def ahead(self, way: Way) -> Assignment:
        """A way read on greedily, by the largest age."""
        begun = (*self.asking.prefix, *way.tokens)
        more = min(max(self.rule.ages), self.room - len(begun))
        first = self.asking.first + NUMBERED + self.asked
        self.asked += 1
        asks = continued(self.asking, begun, first=first, more=more)
        greedy = replace(asks.decoding, temperature=0.0, alternatives=self.rule.candidates + 1)
        return replace(asks, decoding=greedy, source="branch")

    def read(self, way: Way, episode: Trajectory) -> None:
        """Takes what was read; a way that failed, or was no single response, is cut off.

        Raises:
            ConfigurationError: when the engine told no alternatives.
        """
        turn, begun = only_turn(episode), len(self.asking.prefix)
        if turn is None:
            self.drop(way)
            return
        if not ALTERNATIVES.present(turn):
            raise ConfigurationError(
                "rollout: trees fork by the likeliest tokens, which this engine does not tell; set engine.kind to local"
            )
        way.tokens = turn.action[begun:].tolist()
        tokens, logp = ALTERNATIVES.get(turn)
        way.ranked += [list(zip(*one, strict=True)) for one in zip(tokens.tolist(), logp.tolist(), strict=True)]
        way.ended = turn.finish == "stop" or len(turn) >= self.room

    def leaves(self) -> list[Assignment]:
        """One sample that goes on from each way, and plain ones for what is missing."""
        found = []
        for place, way in enumerate(self.live):
            begun = (*self.asking.prefix, *way.tokens[: self.time])
            more = 0 if way.over(self.time) else self.room - len(begun)
            found.append(continued(self.asking, begun, first=self.asking.first + place, more=more))
        rest = self.rule.samples - len(found)
        plain = replace(self.asking, samples=rest, first=self.asking.first + len(found))
        return [*found, *([plain] if rest else [])]

    def begun(self, leaf: Trajectory, place: int) -> float:
        """Notes what the tree has said of a leaf, which is the policy's to learn from; its log-prob in nats."""
        way = self.live[place] if place < len(self.live) else Way()
        own = min(len(way.tokens), self.time)
        STEERED.write(leaf, own)
        turn, start = only_turn(leaf), len(self.asking.prefix)
        if turn is None or not own:
            return 0.0
        if turn.forced is not None:
            turn.forced[start : start + own] = False
        if way.over(self.time) and len(turn) < self.room:
            turn.finish, leaf.truncated, leaf.terminated = "stop", False, True
        return 0.0 if turn.logp is None else math.fsum(turn.logp[start : start + own].tolist())


@dataclass(frozen=True)
class LookaheadTrees(Rollout):
    """`samples` per scenario, of which `branches` begin as the ways of a tree that forks and is cut back.

    LATR (arXiv 2510.24302, and the released code). The tree begins as one greedy way. At every token each of the
    `candidates` next likely ones starts a way of its own if its probability exceeds `least` and is less than `gap`
    below the chosen one's, while there are fewer ways than wanted. At each of `ages` tokens a way is compared with the
    one it left: if less than `distance` of the tokens differ (edit distance over length, neither having ended), it is
    cut off, and what left it as well. When all ways are there and older than the last age, or `height` is reached,
    each goes on by ordinary sampling; a way that ended before stays as it is. Ways that are missing then are plain
    samples. All are one group.

    What the tree has said is learnt from as if it had been drawn, as in the release, though it was chosen: the column
    `steered` counts these tokens, and `rollout/steered_logp` is what this bias comes to.

    Attributes:
        ages: in tokens. height: the most tokens of a tree; None for no bound.
        spared: a way that left a token that is part of this text is never cut off; `SYMBOLS` are the release's.
        shares, until: the share of ways among the samples, and the last step of each share but the last one; one share
            holds throughout.
        metrics: `rollout/forks` and, of these, `rollout/pruned`; `rollout/steered` tokens of a sample, and
            `rollout/steered_logp`, their log-prob, the log-ratio of policy to behaviour (0 where all was drawn).
    """

    samples: int = 8
    candidates: int = 1
    least: float = 0.25
    gap: float = 0.15
    ages: tuple[int, ...] = (20, 30, 50)
    distance: float = 0.4
    height: int | None = None
    spared: str = ""
    shares: tuple[float, ...] = (1.0,)
    until: tuple[int, ...] = ()

    needs_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.samples < 2 or self.candidates < 1 or (self.height is not None and self.height < 1):
            raise ValueError(
                f"samples must be at least 2, candidates and height at least 1, not {self.samples}, {self.candidates} "
                f"and {self.height}"
            )
        if not (0 <= self.least < 1 and 0 < self.gap <= 1 and 0 <= self.distance <= 1):
            raise ValueError(
                f"least must lie in [0, 1), gap in (0, 1] and distance in [0, 1], not {self.least}, {self.gap} and "
                f"{self.distance}"
            )
        if not self.ages or min(self.ages) < 1:
            raise ValueError(f"ages must be at least 1, and one at least, not {self.ages}")
        if not self.shares or not all(0 <= share <= 1 for share in self.shares):
            raise ValueError(f"shares must lie in [0, 1], and be one at least, not {self.shares}")
        if len(self.until) != len(self.shares) - 1 or list(self.until) != sorted(set(self.until)):
            raise ValueError(f"until must rise and be one fewer than shares, not {self.until} for {self.shares}")

    @property
    def branches(self) -> int:
        """How many ways a tree has at most."""
        return round(self.samples * self.shares[0])

    def at(self, step: int) -> Rollout:
        """With the share of this step."""
        share = self.shares[sum(step > last for last in self.until)]
        alone = replace(self, shares=(share,), until=())
        return alone if alone.branches else Independent(self.samples)

    def choices(self, ranked: Ranked, chosen: int) -> list[tuple[int, int]]:
        """The tokens that start a way of their own beside the chosen one, each with its rank from 1."""
        known = dict(ranked)
        others = [token for token, _ in ranked if token != chosen][: self.candidates]
        most = math.exp(known.get(chosen, -math.inf))
        likely = ((rank, token, math.exp(known[token])) for rank, token in enumerate(others, start=1))
        return [(rank, token) for rank, token, share in likely if share > self.least and most - share < self.gap]

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
        """Per scenario its ways in the order in which they were born, then its plain samples."""
        trees = [Growing(self, one, tokenizer_of(play)) for one in asked]
        tried = list[Trajectory]()
        while wanted := [(tree, way) for tree in trees for way in tree.wants()]:
            played = await groups(play, [tree.ahead(way) for tree, way in wanted])
            for (tree, way), (episode,) in zip(wanted, played, strict=True):
                tree.read(way, episode)
                tried.append(episode)
        leaves = [tree.leaves() for tree in trees]
        played = await groups(play, [one for wanted_of in leaves for one in wanted_of])
        ends, found, log_ratios = iter(played), list[Trajectory](), list[float]()
        for tree, wanted_of in zip(trees, leaves, strict=True):
            group = [one for _ in wanted_of for one in next(ends)]
            log_ratios += [tree.begun(one, place) for place, one in enumerate(group)]
            found += group
        await score(found)
        metrics = {
            "rollout/forks": float(sum(tree.forks for tree in trees)),
            "rollout/pruned": float(sum(tree.pruned for tree in trees)),
            "rollout/steered": fmean(STEERED.get(one, 0) for one in found),
            "rollout/steered_logp": fmean(log_ratios),
        }
        return Experience(found, tried, metrics)


CONVENTIONS: Mapping[str, str] = {
    **GRPO.conventions,
    "thresholds": "probability above 0.25 and less than 0.15 below the first choice: the paper's",
    "choices": "second ones only, at temperature 1; distance 0.4: as released",
    "ages": "20, 30 and 50 tokens: the paper's, for answers of up to 1,024",
    "symbols": "forks from digits and signs are not cut off, as the release means it",
    "until a tree is full": "ways go on greedily, as in the release's default; each tree ends by itself",
    "missing ways": "plain samples; the release repeats the first way",
    "tokens of the tree": "learnt from as if drawn; their log-probs are the policy's",
    "shares": "all samples begin in the tree; the release falls to 0.75, 0.5, 0.25 and 0 after 10, 20, 80 and 200 "
    "steps (rollout.shares, rollout.until)",
}

LATR = GRPO.but(
    name="latr",
    title="LATR: groups as trees that fork where another token goes on differently",
    source="Xing et al., Lookahead Tree-Based Rollouts, arXiv:2510.24302, and the released code (starreeze/latr)",
    family="data-and-rollout",
    catalogue_ids=("latr",),
    axes=("rollout",),
    formula="fork at token v beside the top one u if pi(v) > tau_abs and pi(u) - pi(v) < tau_rel, up to K ways; cut "
    "off at age r if edit_distance(child, parent)/r < tau_ed;  A_i = (R_i - mean R)/(std R + eps)",
    conventions={**CONVENTIONS},
    rollout=LookaheadTrees(spared=SYMBOLS),
)

LATR_NANO = LATR.but(
    name="latr-nano",
    title="LATR for short answers of single characters",
    conventions={
        **CONVENTIONS,
        "thresholds": "probability above 0.1 and less than 0.5 below the first choice, for the shipped model, which "
        "seldom hesitates between just two of its characters",
        "ages": "5, 10 and 15 tokens, for the short answers of the shipped model",
        "symbols": "cut off like all others, since most answers of the shipped model are digits and signs",
    },
    rollout=LookaheadTrees(least=0.1, gap=0.5, ages=(5, 10, 15)),
)
