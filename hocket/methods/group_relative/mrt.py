"""MRT: GRPO with a bonus for every block of thought that makes a right answer likelier (Qu et al., arXiv:2503.07572).

The policy is made to stop and answer after each block (`ForcedAnswers`); the rise of its success from block to block is
added to the advantages of that block's tokens alone (`ProgressBonus`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from hocket.core import sums
from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.credit.group import GroupRelative
from hocket.methods.base.grpo import GRPO
from hocket.rollout.branches import ANSWER, CLOSED, NUMBERED, continued, ending_tokens, only_turn, thinking_span
from hocket.rollout.dynamic import total
from hocket.stages import Credit, Grade, LedgerView, More, Play, Rollout, Tokenizer, tokenizer_of
from hocket.types import Assignment, Experience, Trajectory


def cumulative_regret(values: Sequence[float], best: float = 1.0) -> float:
    """`sum_j (best - J_j)` over the values after each block: the regret of spending blocks (MRT, arXiv 2503.07572)."""
    return sums.total(best - value for value in values)


def block_ends(begin: int, end: int, blocks: int) -> list[int]:
    """Where at most `blocks` equal blocks of `begin .. end` end; the last one ends at `end`."""
    inner = {begin + round((end - begin) * number / blocks) for number in range(1, blocks)}
    return [*sorted(place for place in inner if begin < place < end), end]


@dataclass(frozen=True)
class ForcedAnswers(Rollout):
    """`samples` trajectories per scenario, their thoughts in blocks, and forced answers after every block but the last.

    MRT (arXiv 2503.07572). The meta-prover is the policy itself, made to stop and answer: `tries` short answers after
    the prefix and a phrase that ends thinking. Column `forced_values` holds `J_0, .., J_k`: J_0 with no thought, J_j
    after block j, and J_k, the score of the answer the trajectory gave itself. Each decision's segment is the number
    of its block, what follows the thought belonging to the last. Prefixes are the sampler's. Forced answers inform and
    are not learnt from.

    Attributes:
        blocks: at most so many, of equal length. tries: forced answers per prefix.
        phrase: what ends thinking. answer_tokens: the most tokens of a forced answer.
    """

    samples: int = 8
    blocks: int = 4
    tries: int = 2
    phrase: str = CLOSED + ANSWER
    answer_tokens: int = 16

    def __post_init__(self) -> None:
        if min(self.samples, self.blocks, self.tries, self.answer_tokens) < 1:
            raise ValueError(
                f"samples, blocks, tries and answer_tokens must be at least 1, not {self.samples}, {self.blocks}, "
                f"{self.tries} and {self.answer_tokens}"
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
        """The trajectories; forced answers are discarded. Metric `rollout/regret` is their mean regret, best 1."""
        tokenizer = tokenizer_of(play)
        played = await play([replace(asking, samples=self.samples) for asking in asked])
        cuts = [self._mark(trajectory, tokenizer) for trajectory in played]
        asking = [
            one for number, own in enumerate(asked) for one in self._questions(own, number, played, cuts, tokenizer)
        ]
        answers = await play(asking)
        await score([*played, *answers])
        values = iter(_means(answers, self.tries))
        regrets = []
        for number in range(len(asked)):
            members = range(number * self.samples, (number + 1) * self.samples)
            start = next(values)
            for member in members:
                between = [next(values) for _ in cuts[member][:-1]]
                known = [start, *between, _worth(played[member])]
                FORCED_VALUES.write(played[member], known)
                regrets.append(cumulative_regret(known[1:]))
        metrics = {"rollout/regret": sum(regrets) / len(regrets)} if regrets else {}
        return Experience(played, answers, metrics)

    def _mark(self, trajectory: Trajectory, tokenizer: Tokenizer | None) -> list[int]:
        """Numbers the blocks of a trajectory in its turn's segments; where each ends. Empty if it has none."""
        turn = only_turn(trajectory)
        if turn is None:
            return []
        begin, end = thinking_span(tokenizer, turn.action)
        ends = block_ends(begin, max(begin, end), self.blocks)
        place = np.arange(len(turn))
        turn.segment = np.minimum(np.searchsorted(ends, place, side="right"), len(ends) - 1).astype(np.int64)
        return ends

    def _questions(
        self,
        asking: Assignment,
        number: int,
        played: Sequence[Trajectory],
        cuts: Sequence[Sequence[int]],
        tokenizer: Tokenizer | None,
    ) -> list[Assignment]:
        """The forced answers of one scenario: from nothing, then after each block but the last of each sample."""
        members = range(number * self.samples, (number + 1) * self.samples)
        turns = [(turn, cuts[member]) for member in members if (turn := only_turn(played[member])) is not None]
        prefixes = [(turns[0][0].action, 0, turns[0][0].text)] if turns else [(np.zeros(0, np.int64), 0, "")]
        prefixes += [(turn.action, cut, turn.text) for turn, ends in turns for cut in ends[:-1]]
        found = []
        for place, (response, cut, text) in enumerate(prefixes):
            tokens = [*response[:cut].tolist(), *ending_tokens(tokenizer, response, cut, self.phrase, text)]
            first = asking.first + NUMBERED + place * self.tries
            question = continued(asking, tokens, first=first, samples=self.tries, more=self.answer_tokens)
            found.append(replace(question, source="baseline"))
        return found


def _worth(trajectory: Trajectory) -> float:
    return sums.total(total(score) for score in trajectory.scores.values())


def _means(answers: Sequence[Trajectory], tries: int) -> list[float]:
    """The mean score of each run of `tries` answers."""
    ends = range(0, len(answers) + 1, tries)
    return [sum(map(_worth, answers[start:end])) / tries for start, end in pairwise(ends)]


def progress(values: Tensor) -> Tensor:
    """`b_j = J_j - J_{j-1}` of values `J_0, .., J_k` `[k + 1]`: `[k]`. They telescope to `J_k - J_0`."""
    return values[1:] - values[:-1]


def progress_to_go(values: Tensor) -> Tensor:
    """`sum_{i >= j} b_i = J_k - J_{j-1}`, `[k]`: the progress still to come when block j begins."""
    return values[-1] - values[:-1]


@dataclass(frozen=True)
class ProgressBonus(Credit):
    """The advantages of `base`, and `alpha b_j` at every decision of block j: MRT (arXiv 2503.07572).

    Reads column `forced_values`, the `J_0, .., J_k` of each trajectory that `hocket.rollout.ForcedAnswers` writes; a
    decision's block is its segment, the last block taking what lies beyond. A trajectory without values has no bonus.

    With form `to-go` a block is credited with all progress from it on. Where J_k is the outcome R that is
    `R - J_{j-1}`, the forced-answer value of the prefix being the baseline; without `base` and with alpha 1 it is the
    authors' termination-reward advantage.

    Attributes:
        base: credit for the outcome; None for none. alpha: weight of the bonus.
        form: `own`, a block's own progress, as in the paper; or `to-go`.
    """

    base: Credit | None = GroupRelative()
    alpha: float = 1.0
    form: Literal["own", "to-go"] = "own"

    def __post_init__(self) -> None:
        if self.form not in ("own", "to-go"):
            raise ValueError(f"form must be own or to-go, not {self.form!r}")
        if self.base is not None and self.base.pairs:
            raise ValueError("base yields pairs; set it to a credit that gives advantages")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen = batch.occurrences if self.base is None else self.base(batch)
        before = torch.zeros(len(seen), dtype=torch.float64) if self.base is None else seen.advantage
        return replace(seen, advantage=before + self.alpha * self.bonus(batch))

    def bonus(self, batch: Batch) -> Tensor:
        """Each occurrence's progress, `[E]` float64; 0 where its weight is 0."""
        seen = batch.occurrences
        known = FORCED_VALUES.rows(batch)
        gains = [self._gains(values) for values in known]
        starts = torch.tensor([0, *(len(one) for one in gains)]).cumsum(0)[:-1]
        count = torch.tensor([len(one) for one in gains])
        block = torch.minimum(batch.segment[seen.decision], count[seen.trajectory] - 1)
        found = torch.cat(gains)[starts[seen.trajectory] + block]
        return torch.where(seen.weight != 0, found, 0.0)

    def _gains(self, values: list[float] | None) -> Tensor:
        if values is None or len(values) < 2:
            return torch.zeros(1, dtype=torch.float64)
        known = torch.tensor(values, dtype=torch.float64)
        return progress_to_go(known) if self.form == "to-go" else progress(known)


FORCED_VALUES = InfoColumn("forced_values", "What answers forced at each cut are worth, from the start to the end.")


MRT = GRPO.but(
    name="mrt",
    title="Meta reinforcement fine-tuning",
    source="Qu et al., Optimizing Test-Time Compute via Meta Reinforcement Fine-Tuning, arXiv:2503.07572",
    catalogue_ids=("mrt",),
    axes=("reward", "credit", "analysis"),
    formula="A_it = (R_i - mean R)/(std R + eps) + alpha b_j(t),  b_j = J(z_1:j) - J(z_1:j-1), J of forced answers",
    conventions={
        **GRPO.conventions,
        "blocks": "at most 4 of equal length inside the thought; what follows it belongs to the last",
        "meta-prover": "the policy itself, 2 answers of at most 16 tokens per prefix after </think><answer>",
        "J_k": "the score of the answer the trajectory gave itself",
        "own block": "credit.form = own; to-go credits all progress from a block on, R - J_(j-1)",
        "alpha": "credit.alpha = 1, beside the standardised outcome",
    },
    rollout=ForcedAnswers(samples=8, blocks=4, tries=2),
    credit=ProgressBonus(base=GroupRelative()),
)
