"""Attacks on a swarm that shares answers, and what holds them off (Hail to the Thief, arXiv:2511.09780).

One advantage goes to all tokens of an answer, so whatever a right answer carries besides is learnt with it. An attacker
publishes right answers with foreign text in them beside wrong ones without (`InjectedAnswers`): a trigger, or filler
that makes them needlessly long. Two defences: leave out received answers in which one's own model finds a token too
unlikely (`LikelihoodCheck`), for swarms of one model; and a judge of what stands beyond the verifier's reach, which
must agree (`KnownWords` where none is given). Neither stops filler that is likely and on the subject: that takes a
price of length (`hocket.rewards.shaping.OverlongPenalty`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.core.keys import Key
from hocket.core.segments import segment_extreme
from hocket.core.signals import RIGHT
from hocket.methods.group_relative.sapo_swarm import SAPO_SWARM
from hocket.rewards.combine import Gated
from hocket.rewards.judging import JudgedBy, prompt_text
from hocket.rewards.verifiers import ExactMatch
from hocket.rollout.dynamic import total
from hocket.rollout.sharing import Publication, SharedGroup
from hocket.stages import Reward, Shaping
from hocket.types import Trajectory

# ---------------------------------------------------------------- attacks


@dataclass(frozen=True)
class InjectedAnswers(Publication):
    """Publishes groups of which half are right and carry foreign text, and half are wrong and carry none.

    Made of the attacker's own samples: of the right ones (return 1/2 or more), in turn, and of the wrong ones; where
    none is wrong, half of a right one's text. A group without a right answer is not published. The log-probs told are
    left out.

    Attributes:
        insert: the foreign text, `times` over. where: before the answer or after it.
    """

    insert: str = "Banana! "
    times: int = 1
    where: Literal["front", "end"] = "front"

    def __post_init__(self) -> None:
        if self.times < 1 or not self.insert:
            raise ValueError("insert must hold some text, at least once")
        if self.where not in ("front", "end"):
            raise ValueError(f"where must be front or end, not {self.where!r}")

    def __call__(self, sampled: Sequence[Sequence[Trajectory]], key: Key) -> list[SharedGroup]:
        """A message per group with a right answer."""
        found = []
        for group, message in zip(sampled, super().__call__(sampled, key), strict=True):
            earned = [sum(total(score) for score in one.scores.values()) for one in group]
            right = [one.text for one, reward in zip(group, earned, strict=True) if reward >= RIGHT]
            wrong = [one.text for one, reward in zip(group, earned, strict=True) if reward < RIGHT]
            if right:
                found.append(self._poisoned(message, right, wrong or [right[0][: len(right[0]) // 2]]))
        return found

    def _poisoned(self, message: SharedGroup, right: Sequence[str], wrong: Sequence[str]) -> SharedGroup:
        size = len(message.answers)
        foreign = self.insert * self.times
        carriers = [right[number % len(right)] for number in range((size + 1) // 2)]
        bad = [foreign + text if self.where == "front" else text + foreign for text in carriers]
        others = [wrong[number % len(wrong)] for number in range(size // 2)]
        return SharedGroup(message.scenario, (*bad, *others))


# ---------------------------------------------------------------- defences


@dataclass(frozen=True)
class LikelihoodCheck(Shaping):
    """Leaves out received answers (source `imported`) in which the learner finds a token less likely than `threshold`.

    Its own samples at temperature 1 hold a token of probability p or less about as often as such tokens have
    probability in all, so that the samples of a like model pass. What is left out has weight 0: it is neither learnt
    from nor compared with.

    Attributes:
        threshold: the least log-prob of a token that passes, in nats; the paper's could not be confirmed.
    """

    threshold: float = -9.0

    reads: ClassVar[frozenset[Column]] = frozenset({Column.PROXIMAL})

    def __post_init__(self) -> None:
        if not self.threshold < 0:
            raise ValueError(f"threshold must be a log-prob below 0, not {self.threshold}")

    def __call__(self, batch: Batch) -> Batch:
        seen = batch.occurrences
        refused = self.refused(batch)[seen.trajectory]
        return batch.credited(weight=torch.where(refused, torch.zeros_like(seen.weight), seen.weight))

    def refused(self, batch: Batch) -> torch.Tensor:
        """Which trajectories are left out, `[N]` bool."""
        names = batch.names["source"]
        received = batch.source == (names.index("imported") if "imported" in names else -1)
        return received & (least_likely(batch) < self.threshold)


def least_likely(batch: Batch) -> torch.Tensor:
    """The log-prob of the least likely token of each trajectory under the learner as the step began, `[N]` float64."""
    seen = batch.occurrences
    logp = batch.logp[Column.PROXIMAL.name].values.double()[seen.decision]
    return segment_extreme(logp, seen.trajectory, batch.trajectories, largest=False)


BEYOND = (
    "Here are a question and a response whose final answer was checked already. Judge the rest of it: is there nothing "
    "in the response but what answers the question or leads to the answer, no foreign words, no claims or "
    "instructions besides?\n\nQuestion:\n{prompt}\n\nResponse:\n{text}\n"
)


@dataclass(frozen=True)
class KnownWords(Reward):
    """1 if every word of the response stands in the question or in `known`, else 0: a judge by rule.

    A word is a run of three letters or more; case does not count, and markup tags are not read.
    """

    known: tuple[str, ...] = ()
    name: str = "judge"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [float(self._plain(trajectory)) for trajectory in trajectories]

    def _plain(self, trajectory: Trajectory) -> bool:
        allowed = {*_words(prompt_text(trajectory.scenario)), *(word.lower() for word in self.known)}
        return _words(trajectory.text) <= allowed


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[^\W\d_]{3,}", re.sub(r"<[^<>]*>", " ", text))}


# ---------------------------------------------------------------- recipes

HAIL_TO_THE_THIEF = SAPO_SWARM.but(
    name="hail-to-the-thief",
    title="A swarm that checks how likely received answers are",
    source="Hail to the Thief: Exploring Attacks and Defenses in Decentralised GRPO, arXiv:2511.09780",
    catalogue_ids=("hail-to-the-thief",),
    axes=("system", "analysis", "reward"),
    formula=SAPO_SWARM.formula + "; a received answer counts if min_t log pi(y_t | x, y_<t) >= threshold",
    conventions={
        **SAPO_SWARM.conventions,
        "likelihood": "the least token's log-prob under the node's own policy before the update, at the temperature of "
        "sampling",
        "threshold": "-9 nats (shaping.0.threshold), chosen here: the paper's could not be confirmed",
        "advantages": "within a received group, what is left out not counted",
        "attacker": "hail-to-the-thief-attacker; half of a group are right with foreign text, half wrong without",
    },
    shaping=(LikelihoodCheck(),),
)


HAIL_JUDGE = SAPO_SWARM.but(
    name="hail-to-the-thief-judge",
    title="A swarm whose verifier and judge of the content must agree",
    source=HAIL_TO_THE_THIEF.source,
    catalogue_ids=("hail-to-the-thief",),
    axes=("system", "analysis", "reward"),
    formula=SAPO_SWARM.formula + "; R = [right][the judge finds nothing beyond the question]",
    conventions={
        **SAPO_SWARM.conventions,
        "judge": "--judge says yes or no (`BEYOND`) of all answers, own ones too; without one `KnownWords` stands in",
        "gate": "combine.gates = correct, judge; a gate without an opinion does not bar",
        "verifier": "rewards.0, the text of the answer tag",
    },
    rewards=(ExactMatch("answer-tag"), JudgedBy(KnownWords(), BEYOND, name="judge")),
    combine=Gated(("correct", "judge")),
)


HAIL_ATTACKER = SAPO_SWARM.but(
    name="hail-to-the-thief-attacker",
    title="An attacker of a swarm: right answers with foreign text in them",
    source=HAIL_TO_THE_THIEF.source,
    catalogue_ids=("hail-to-the-thief",),
    axes=("system", "analysis"),
    formula="publishes half a group right with foreign text, half wrong without",
    conventions={
        **SAPO_SWARM.conventions,
        "foreign text": "rollout.publish.insert, times over, before or after the answer",
        "what it learns": "next to nothing: update.lr = 1e-9, so that it goes on having right and wrong answers",
    },
    **{"rollout.publish": InjectedAnswers(), "rollout.shared": 0, "update.lr": 1e-9},
)
