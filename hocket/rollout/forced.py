"""How likely is the answer to be right if it had to be given now? Forced answers after each block of a thought."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hocket.core.method_columns import FORCED_VALUES
from hocket.keys import Key
from hocket.rollout.branches import ANSWER, CLOSED, NUMBERED, continued, ending_tokens, only_turn, thinking_span
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Words, words_of
from hocket.types import Assignment, Experience, Trajectory


def cumulative_regret(values: Sequence[float], best: float = 1.0) -> float:
    """`sum_j (best - J_j)` over the values after each block: the regret of spending blocks (MRT, arXiv 2503.07572)."""
    return math.fsum(best - value for value in values)


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
        words = words_of(play)
        played = await play([replace(asking, samples=self.samples) for asking in asked])
        cuts = [self._mark(trajectory, words) for trajectory in played]
        asking = [one for number, own in enumerate(asked) for one in self._questions(own, number, played, cuts, words)]
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

    def _mark(self, trajectory: Trajectory, words: Words | None) -> list[int]:
        """Numbers the blocks of a trajectory in its turn's segments; where each ends. Empty if it has none."""
        turn = only_turn(trajectory)
        if turn is None:
            return []
        begin, end = thinking_span(words, turn.action)
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
        words: Words | None,
    ) -> list[Assignment]:
        """The forced answers of one scenario: from nothing, then after each block but the last of each sample."""
        members = range(number * self.samples, (number + 1) * self.samples)
        turns = [(turn, cuts[member]) for member in members if (turn := only_turn(played[member])) is not None]
        whole = turns[0][0].action if turns else np.zeros(0, np.int64)
        prefixes = [(whole, 0), *((turn.action, cut) for turn, ends in turns for cut in ends[:-1])]
        found = []
        for place, (response, cut) in enumerate(prefixes):
            tokens = [*response[:cut].tolist(), *ending_tokens(words, response, cut, self.phrase)]
            first = asking.first + NUMBERED + place * self.tries
            question = continued(asking, tokens, first=first, samples=self.tries, more=self.answer_tokens)
            found.append(replace(question, source="baseline"))
        return found


def _worth(trajectory: Trajectory) -> float:
    return math.fsum(total(score) for score in trajectory.scores.values())


def _means(answers: Sequence[Trajectory], tries: int) -> list[float]:
    """The mean score of each run of `tries` answers."""
    ends = range(0, len(answers) + 1, tries)
    return [sum(map(_worth, answers[start:end])) / tries for start, end in pairwise(ends)]
