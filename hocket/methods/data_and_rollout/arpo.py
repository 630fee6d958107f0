"""ARPO: an agent's episodes fork where a tool's answer has made it unsure (Dong et al., arXiv:2507.19849).

`EntropyForks` plays part of a budget of episodes from the beginning. Wherever the policy goes on after a tool's answer,
the entropy of its first words is compared with that of the episode's first words, and the more it has risen the
likelier a fork from there. What forks share is credited once per episode (the paper's soft form), or by the mean of its
episodes' advantages (`SharedMean`, the hard one, `arpo-hard`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import ALTERNATIVES, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_mean
from hocket.credit.refinement import Refined
from hocket.methods.base.conventions import TURNS
from hocket.methods.base.grpo import GRPO
from hocket.rollout.groups import groups
from hocket.rollout.message_tree import StepTree
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Replay, Trajectory, Turn

FORKED = InfoColumn("forked", "How many turns of another episode of the scenario it began with; 0 from the beginning.")


def uncertainty(turn: Turn, words: int) -> float:
    """`-sum p log p` over the likeliest tokens at each of the first `words` of a turn, in nats, as the release counts.

    0 where nothing was sampled.

    Raises:
        ConfigurationError: when the engine records no alternatives.
    """
    if not len(turn):
        return 0.0
    if not ALTERNATIVES.present(turn):
        raise ConfigurationError(
            "rollout: forks follow the entropy of the likeliest tokens, which this engine does not record; set "
            "engine.kind to local"
        )
    logp = np.asarray(ALTERNATIVES.get(turn)[1], np.float64)[:words]
    logp = logp[logp > -np.inf]
    return -float((np.exp(logp) * logp).sum())


@dataclass(eq=False)
class Forked(StepTree):
    """The episodes of one scenario in the order in which they were begun; a place in the tree is how one of them began.

    A fork of a fork draws for the workflow what the first of them drew.
    """

    key: Key
    episodes: list[Trajectory] = field(default_factory=list)

    def reaches(self, depth: int) -> bool:
        """Whether some episode has more than `depth` turns."""
        return any(len(one.turns) > depth for one in self.episodes)

    def continued(self, known: Trajectory, depth: int) -> Assignment:
        """One more that goes as `known` did for its first `depth` turns."""
        begun = next(one for one in self.episodes if one.turns[:1] == known.turns[:1])
        return replace(self.further(), replay=Replay(tuple(known.turns[:depth]), sample=begun.sample))


@dataclass(frozen=True)
class EntropyForks(Rollout):
    """`samples` episodes per scenario, `begun` of them from the beginning, the others forked from these where unsure.

    ARPO (arXiv 2507.19849). After each answer of a tool the episode is forked `beam - 1` times at most, each time with
    probability `clip(base + weight (H_t - H_0) / log vocabulary, 0, 1)`: H_t is the sum of `-p log p` over the
    `likeliest` tokens at each of the first `words` that are sampled after the answer, H_0 of the episode's first
    `words`. A fork goes on from there to its end and may be forked in later turns. Turns are gone through in order,
    until there are `samples` episodes; what is missing at the end is played from the beginning. All of a scenario's
    episodes are one group.

    Attributes:
        begun: None is half of `samples`. vocabulary: the size whose logarithm entropies are divided by; by default that
            of the release's models.
    """

    samples: int = 16
    begun: int | None = None
    beam: int = 2
    base: float = 0.5
    weight: float = 0.2
    words: int = 20
    likeliest: int = 10
    vocabulary: int = 151_936

    taught: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.roots <= self.samples or min(self.beam, self.words, self.likeliest) < 1:
            raise ValueError(
                f"begun must lie between 1 and samples, beam, words and likeliest be at least 1, not {self.begun} of "
                f"{self.samples}, {self.beam}, {self.words} and {self.likeliest}"
            )
        if self.vocabulary < 2:
            raise ValueError(f"vocabulary must be at least 2, not {self.vocabulary}")

    @property
    def roots(self) -> int:
        """Episodes from the beginning."""
        return (self.samples + 1) // 2 if self.begun is None else self.begun

    def chance(self, now: float, first: float) -> float:
        """The probability of a fork where entropies (nats) are `now` after a tool's answer and were `first`."""
        return min(max(self.base + self.weight * (now - first) / math.log(self.vocabulary), 0.0), 1.0)

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
        """Per scenario its episodes in the order in which they were begun."""
        asked = [replace(one, decoding=replace(one.decoding, alternatives=self.likeliest)) for one in asked]
        trees = [Forked(one, key.derive(one.scenario.id)) for one in asked]
        await self._play(play, [(tree, [tree.further(self.roots)]) for tree in trees])
        depth = 1
        while any(tree.reaches(depth) and len(tree.episodes) < self.samples for tree in trees):
            await self._play(play, [(tree, self._forks(tree, depth)) for tree in trees])
            depth += 1
        forks = sum(len(tree.episodes) - self.roots for tree in trees)
        short = [(tree, self.samples - len(tree.episodes)) for tree in trees]
        await self._play(play, [(tree, [tree.further(left)] if left else []) for tree, left in short])
        found = [one for tree in trees for one in tree.episodes]
        await score(found)
        return Experience(found, metrics={"rollout/forks": float(forks)})

    def _forks(self, tree: Forked, depth: int) -> list[Assignment]:
        """The episodes that go on from before turn `depth` of those that have one of their own there."""
        found: list[Assignment] = []
        for number, one in enumerate(tree.episodes):
            if one.failure is not None or len(one.turns) <= depth or FORKED.get(one, 0) >= depth:
                continue
            now, first = (uncertainty(turn, self.words) for turn in (one.turns[depth], one.turns[0]))
            chance = self.chance(now, first)
            draws = tree.key.derive("fork", depth, number).numpy().random(self.beam - 1)
            for drawn in draws.tolist():
                if drawn < chance and len(tree.episodes) + len(found) < self.samples:
                    found.append(tree.continued(one, depth))
        return found

    async def _play(self, play: Play, asked: Sequence[tuple[Forked, Sequence[Assignment]]]) -> None:
        """Plays what is asked for all trees together."""
        flat = [(tree, one) for tree, wanted in asked for one in wanted]
        for (tree, asking), played in zip(flat, await groups(play, [one for _, one in flat]), strict=True):
            for one in played:
                FORKED.write(one, 0 if asking.replay is None else len(asking.replay.turns))
                tree.episodes.append(one)


@dataclass(frozen=True)
class SharedMean(Refined):
    """A decision that several trajectories share gets the mean of the advantages they give it, in each of them.

    ARPO's hard advantage estimation (arXiv 2507.19849, section 3.2); the mean is over those where it counts.
    """

    def refine(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        used = seen.weight != 0
        mean = segment_mean(seen.advantage[used].double(), seen.decision[used], batch.decisions)
        return replace(seen, advantage=torch.where(used, mean[seen.decision], seen.advantage.double()))


CONVENTIONS: Mapping[str, str] = {
    **GRPO.conventions,
    **TURNS,
    "budget": "16 episodes, 8 from the beginning, at most one fork per turn and episode, base 0.5 and weight 0.2: the "
    "release's settings as recalled",
    "entropy": "as in the release the sum of -p log p over the ten likeliest tokens at each of the first 20 sampled in "
    "a turn; it reads the stretch before the tool's answer, this the one after it, as the paper says",
    "log vocabulary": "of rollout.vocabulary, 151,936 as of the release's models",
    "a step in several episodes": "sampled and computed once, counted once per episode",
}

ARPO = GRPO.but(
    name="arpo",
    title="ARPO: episodes fork where a tool's answer left the policy unsure",
    source="Dong et al., Agentic Reinforced Policy Optimization, arXiv:2507.19849",
    family="data-and-rollout",
    catalogue_ids=("arpo",),
    axes=("rollout", "credit"),
    formula="fork after a tool's answer with P = clip(base + w (H_t - H_0) / log V, 0, 1);  A_i = (R_i - mean R)/"
    "(std R + eps) over all leaves, a shared token once per leaf",
    conventions={**CONVENTIONS},
    task="lookup",
    requires=(Requirement.TOOLS,),
    rollout=EntropyForks(),
)

ARPO_HARD = ARPO.but(
    name="arpo-hard",
    title="ARPO with the mean advantage of its leaves on shared tokens",
    formula="A_it = mean over the leaves j that share token t of (R_j - mean R)/(std R + eps)",
    conventions={**CONVENTIONS, "a step in several episodes": "by the mean of its leaves' advantages"},
    credit=SharedMean(of=GRPO.credit),
)
