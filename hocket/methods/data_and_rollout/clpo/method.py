"""CLPO: the policy rewrites what it fails at, so that its problems keep pace with it (Zhang et al., arXiv:2509.25004).

A group's share of right samples says how hard its problem is. The policy itself then asks hard problems in an easier
way and medium ones otherwise, their known answers kept, and learns from groups of the rewritten problems beside the
original ones (`Restructured`). `RewritingCredit` pays the words of a rewriting what accuracy it gained, as in the
paper's second version; `clpo-first` is the first one, which does not learn to rewrite and pulls hard problems less to
the reference (`EasedKL`).

Thresholds, one rewriting for each problem, and the KL's factors are those of the released code. How the second version
weighs the gain is known from its abstract alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.signals import RIGHT
from hocket.credit.refinement import Refined
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.clpo.task import EASIER, OTHERWISE, value_of
from hocket.objectives.divergence import KLToReference
from hocket.rollout.branches import CLOSED
from hocket.rollout.dynamic import has_signal, total
from hocket.rollout.groups import groups
from hocket.stages import Grade, LedgerView, More, Objective, Play, Rollout, Stage
from hocket.types import Assignment, Evaluation, Experience, Scenario, Score, Terms, Trajectory

DIFFICULTY = InfoColumn("difficulty", "How hard the problem was to the policy: solved, medium or hard.")
GAIN = InfoColumn("gain", "Of a rewriting: the accuracy on the rewritten problem less that on the original.")


class Difficulty(StrEnum):
    """How hard a problem is to the policy as it is."""

    SOLVED = "solved"
    MEDIUM = "medium"
    HARD = "hard"


class Rewriting(Stage):
    """How a policy is asked to rewrite a problem, and how what it says is read."""

    room = "rollout"

    def asked(self, scenario: Scenario, difficulty: Difficulty) -> Scenario:
        """The scenario in which the rewriting is asked for."""
        raise NotImplementedError

    def read(self, said: str, scenario: Scenario) -> Scenario | None:
        """The rewritten problem, its answer kept; None where what was said is no use."""
        raise NotImplementedError


@dataclass(frozen=True)
class InWords(Rewriting):
    """A line before the problem's last message asks for it anew; what is said after a thought, if any, is the new one.

    A sum in the words of task `sums` must keep its value, by that task's solver. Of any other problem, and in the paper
    of all, the label is kept untested.

    Attributes:
        easier, otherwise: that line for hard and for medium problems.
    """

    easier: str = EASIER
    otherwise: str = OTHERWISE

    needs_text: ClassVar[bool] = True

    def asked(self, scenario: Scenario, difficulty: Difficulty) -> Scenario:
        lead = self.easier if difficulty is Difficulty.HARD else self.otherwise
        return reworded(scenario, lead + _problem(scenario), "rewriting")

    def read(self, said: str, scenario: Scenario) -> Scenario | None:
        problem, value = said.rpartition(CLOSED)[2].strip(), value_of(_problem(scenario))
        if not problem or problem == _problem(scenario) or (value is not None and value_of(problem) != value):
            return None
        return reworded(scenario, problem, "rewritten")


def _problem(scenario: Scenario) -> str:
    """The last message of the prompt."""
    return str(scenario.messages[-1]["content"]).strip()


def reworded(scenario: Scenario, words: str, what: str) -> Scenario:
    """The scenario with other words in its last message, under an id of its own."""
    *before, last = scenario.messages
    prompt = (*before, {**last, "content": words})
    return replace(scenario, id=f"{scenario.id} {what}", prompt=prompt, origin=scenario.id)


@dataclass(frozen=True)
class Rewritten:
    """What became of a problem: its place in the step, how hard it was, its rewriting, and the samples of what that is.

    There are no samples where the rewriting is no use.
    """

    place: int
    level: Difficulty
    said: Trajectory
    solved: Sequence[Trajectory]


@dataclass(frozen=True)
class Restructured(Rollout):
    """`samples` per scenario, and as many again of each hard or medium one in the policy's own rewriting.

    CLPO (arXiv 2509.25004). With `acc` the share of a group's samples whose scores sum to `success` or more, a problem
    is hard where acc <= `hard`, medium where acc <= `medium`, else solved and left alone. A hard or medium one is
    rewritten once; where that can be read, the rewritten problem, whose id is another and whose answer is the same, is
    sampled and is a group of its own. The rewriting earns `gain`, the accuracy that was gained by it, and is learnt
    from where `trained`, else discarded; one that cannot be read has gained what nobody solves, -acc. The ledger counts
    original problems alone.

    Attributes:
        metrics: `rollout/hard`, `rollout/medium` and `rollout/solved` problems, `rollout/rewritten` of them,
            `rollout/gain` of the rewritings, and the shares of original and rewritten groups whose samples all earn the
            same, `rollout/constant` and `rollout/constant_rewritten`.
    """

    samples: int = 8
    hard: float = 0.3
    medium: float = 0.7
    rewriting: Rewriting = InWords()
    trained: bool = True
    success: float = RIGHT

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if not 0 <= self.hard <= self.medium <= 1:
            raise ValueError(f"hard and medium must be shares in order, not {self.hard} and {self.medium}")

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
        """The groups of the scenarios asked, then those of rewritten ones, then the rewritings."""
        found = await groups(play, [replace(one, samples=self.samples) for one in asked])
        await score([one for group in found for one in group])
        levels = [self.difficulty(self.accuracy(group)) for group in found]
        for group, level in zip(found, levels, strict=True):
            _told(group, level)
        made = await self._rewritten(asked, self.chosen(levels, key), play)
        solved = [one for rewritten in made for one in rewritten.solved]
        if solved:
            await score(solved)
        for one in made:
            gain = self.accuracy(one.solved) - self.accuracy(found[one.place])
            one.said.scores = {GAIN.name: Score(gain)}
            GAIN.write(one.said, gain)
            _told([one.said, *one.solved], one.level)
        said = [one.said for one in made]
        kept = [*(one for group in found for one in group), *solved, *(said if self.trained else ())]
        return Experience(kept, [] if self.trained else said, _metrics(levels, found, made))

    def accuracy(self, group: Sequence[Trajectory]) -> float:
        """The share of right samples; 0 of none."""
        return fmean(self._right(one) for one in group) if group else 0.0

    def difficulty(self, accuracy: float) -> Difficulty:
        """How hard a problem of this accuracy is."""
        if accuracy <= self.hard:
            return Difficulty.HARD
        return Difficulty.MEDIUM if accuracy <= self.medium else Difficulty.SOLVED

    def chosen(self, levels: Sequence[Difficulty], key: Key) -> dict[int, Difficulty]:
        """Which problems are rewritten, and how, by their places."""
        return {place: level for place, level in enumerate(levels) if level is not Difficulty.SOLVED}

    def _right(self, one: Trajectory) -> bool:
        return one.failure is None and sum(map(total, one.scores.values())) >= self.success

    async def _rewritten(
        self, asked: Sequence[Assignment], chosen: Mapping[int, Difficulty], play: Play
    ) -> list[Rewritten]:
        """The rewriting of each chosen problem, and the samples of what can be read."""
        wanted = {
            place: replace(
                asked[place], scenario=self.rewriting.asked(asked[place].scenario, level), samples=1, source="helped"
            )
            for place, level in chosen.items()
        }
        said = dict(zip(wanted, await groups(play, list(wanted.values())), strict=True))
        again = {
            place: replace(asked[place], scenario=problem, samples=self.samples, source="helped")
            for place, (one,) in said.items()
            if one.failure is None
            and not one.truncated
            and (problem := self.rewriting.read(one.answer, asked[place].scenario)) is not None
        }
        solved = dict(zip(again, await groups(play, list(again.values())), strict=True))
        return [Rewritten(place, level, said[place][0], solved.get(place, [])) for place, level in chosen.items()]


def _told(group: Sequence[Trajectory], level: Difficulty) -> None:
    for one in group:
        DIFFICULTY.write(one, level.value)


def _metrics(
    levels: Sequence[Difficulty], found: Sequence[Sequence[Trajectory]], made: Sequence[Rewritten]
) -> dict[str, float]:
    solved = [one.solved for one in made if one.solved]
    metrics = {f"rollout/{level.value}": float(levels.count(level)) for level in Difficulty}
    metrics["rollout/rewritten"] = float(len(solved))
    metrics["rollout/constant"] = fmean(not has_signal(group) for group in found) if found else 0.0
    if solved:
        metrics["rollout/constant_rewritten"] = fmean(not has_signal(group) for group in solved)
    if made:
        metrics["rollout/gain"] = fmean(GAIN.get(one.said) for one in made)
    return metrics


@dataclass(frozen=True)
class RewritingCredit(Refined):
    """The decisions of a rewriting get `weight (acc(rewritten) - acc(original))`; all others what `of` gives them.

    CLPO's second version (arXiv 2509.25004) pays rewritings what accuracy they gain. The original's accuracy is the
    baseline, so nothing else is subtracted, nor is it divided by a deviation: chosen here.
    """

    weight: float = 1.0

    def refine(self, batch: Batch) -> Occurrences:
        seen, told = batch.occurrences, GAIN.rows(batch)
        rewrote = torch.tensor([gain is not None for gain in told], dtype=torch.bool)[seen.trajectory]
        gain = torch.tensor([gain or 0.0 for gain in told], dtype=torch.float64)[seen.trajectory]
        return replace(seen, advantage=torch.where(rewrote, self.weight * gain, seen.advantage.double()))


@dataclass(frozen=True)
class EasedKL(Objective):
    """A pull to the reference that is `hard` times as strong for what belongs to hard problems: CLPO, version 1.

    Everything else is pulled as by `of`; the denominators are those of all.
    """

    of: KLToReference = KLToReference("k3", coefficient=0.001)
    hard: float = 0.5

    def __post_init__(self) -> None:
        if self.hard < 0:
            raise ValueError(f"hard must be at least 0, not {self.hard}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        terms = self.of(now, batch)
        told = [self.hard if level == Difficulty.HARD else 1.0 for level in DIFFICULTY.rows(batch)]
        factor = torch.tensor(told, dtype=terms.value.dtype)[batch.occurrences.trajectory]
        return replace(terms, value=factor * terms.value)


CLPO = GRPO.but(
    name="clpo",
    title="CLPO: problems that the policy rewrites for itself, by how hard they are to it",
    source="Zhang et al., arXiv:2509.25004v2 (abstract) and v1; csuking/CLPO",
    family="data-and-rollout",
    catalogue_ids=("clpo",),
    axes=("data", "objective"),
    formula="acc(q) <= 0.3: q' ~ pi(. | q, easier);  0.3 < acc(q) <= 0.7: q' ~ pi(. | q, otherwise);  GRPO on groups "
    "of q and of q', the answer kept;  A(words of q') = acc(q') - acc(q)",
    conventions={
        **GRPO.conventions,
        "thresholds": "0.3 and 0.7, the ends belonging to the harder side, as released",
        "rewritings": "one for each hard or medium problem, at the run's temperature; released: 0.7",
        "answer": "the original's label; a rewritten sum whose value is another is not used; the paper has no solver, "
        "and shows its rewriter the answer instead",
        "constant group": "advantage 0; the release leaves such groups out of the batch",
        "credit of a rewriting": "its gain, undivided (credit.weight = 1); the form is known from the abstract alone; "
        "on tables the first version, without it, gets as far",
        "unreadable rewriting": "gains -acc(q), as though nobody solved it",
        "start": "the shipped base has never rewritten anything: --lessons 60, or a phase of sft on "
        "lessons:restated-sums",
    },
    task="restated-sums",
    rollout=Restructured(),
    credit=RewritingCredit(of=GRPO.credit),
)

CLPO_FIRST = CLPO.but(
    name="clpo-first",
    title="CLPO's first version: rewritings are not learnt, hard problems pulled less to the reference",
    source="Zhang et al., arXiv:2509.25004v1; csuking/CLPO",
    formula="GRPO on groups of q and of q', the answer kept, + beta(q) KL to the reference, halved where q is hard",
    conventions={
        **CLPO.conventions,
        "KL": "k3 in the loss, coefficient 0.001, half of it on hard problems and what was made of them, as released",
        "credit of a rewriting": "none: it is discarded",
    },
    credit=GRPO.credit,
    regularisers=(EasedKL(),),
    **{"rollout.trained": False},
)
