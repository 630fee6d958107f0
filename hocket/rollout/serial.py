"""One chain of thought, answered at several places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.method_columns import CHAIN, EXIT
from hocket.keys import Key
from hocket.rollout.branches import (
    ANSWER,
    CLOSED,
    NUMBERED,
    adopt,
    continued,
    ending_tokens,
    only_turn,
    thinking_span,
)
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Words, words_of
from hocket.types import Assignment, Experience, Trajectory, Turn


@dataclass(frozen=True)
class SerialGroup(Rollout):
    """A group of one chain: cut at places drawn uniformly along its thought, ended there, and answered.

    S-GRPO (arXiv 2505.07686). The chain is sampled once; `samples - 1` copies of it are cut at different places, a
    phrase that ends thinking is appended, and the policy answers. The full chain completes the group, which is ordered
    front to back: columns `exit` (0 first) and `chain` say how. The kept part of the chain was the policy's own
    choice and is learnt from; the phrase was imposed and is not. A thought with fewer places than cuts is cut more
    than once at some, and a response without a thought is ended where it begins.

    Attributes:
        samples: members of a group, the full chain included. chains: groups of this kind per scenario.
        phrase: what ends thinking; a leading `</think>` is dropped where no thought is open.
        answer_tokens: the most tokens of an answer after a cut.
    """

    samples: int = 9
    chains: int = 1
    phrase: str = CLOSED + ANSWER
    answer_tokens: int = 32

    def __post_init__(self) -> None:
        if self.samples < 2 or self.chains < 1 or self.answer_tokens < 1:
            raise ValueError(
                f"samples must be at least 2, chains and answer_tokens at least 1, not {self.samples}, {self.chains} "
                f"and {self.answer_tokens}"
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
        """Per scenario and chain the exits from front to back, then the full chain."""
        words = words_of(play)
        chains = await play([replace(asking, samples=self.chains) for asking in asked])
        exits = [self._exits(asked[number // self.chains], chain, words, key) for number, chain in enumerate(chains)]
        answers = iter(await play([asking for cuts in exits for asking, _, _ in cuts]))
        found: list[Trajectory] = []
        for number, (chain, cuts) in enumerate(zip(chains, exits, strict=True)):
            for place, (_, source, kept) in enumerate(cuts):
                answer = next(answers)
                if answer.turns:
                    adopt(answer.turns[0], source, kept)
                answer.info |= {CHAIN.name: number % self.chains, EXIT.name: place}
                found.append(answer)
            chain.info |= {CHAIN.name: number % self.chains, EXIT.name: len(cuts)}
            found.append(chain)
        await score(found)
        return Experience(found)

    def _exits(
        self, asking: Assignment, chain: Trajectory, words: Words | None, key: Key
    ) -> list[tuple[Assignment, Turn, int]]:
        """For each cut of a chain: what to ask, the turn it is cut from, and how many of its tokens are kept."""
        turn = only_turn(chain)
        if turn is None:
            return []
        begin, end = thinking_span(words, turn.action)
        places = list(range(begin, max(end, begin + 1)))
        rng = key.derive("exits", asking.scenario.id, chain.sample).numpy()
        drawn = rng.choice(places, self.samples - 1, replace=len(places) < self.samples - 1)
        cuts = sorted(int(place) for place in drawn)
        found = []
        for number, cut in enumerate(cuts):
            tokens = [*turn.action[:cut].tolist(), *ending_tokens(words, turn.action, cut, self.phrase)]
            first = asking.first + NUMBERED + chain.sample * self.samples + number
            found.append((continued(asking, tokens, first=first, more=self.answer_tokens), turn, cut))
        return found
