"""LC-R1: GRPO on thoughts cut where they first reach the answer (Cheng et al., arXiv:2506.14755).

`CompressedThoughts` cuts right answers and reads them again, `RelativeLength` rewards short ones, and `TagBonus` pays
or charges the closing tag alone, by what was cut or for stopping too early. Advantages are centred, not divided.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.segments import segment_extreme
from hocket.core.signals import RIGHT, counted_trajectories, returns
from hocket.credit.group import GroupRelative
from hocket.methods.base.conventions import CENTRED, LENGTH, RIGHT_ANSWERS
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.base.grpo import GRPO
from hocket.rewards.judging import Judge, prompt_text, said
from hocket.rewards.members import SCENARIO, with_return
from hocket.rewards.tags import TagFormat
from hocket.rollout.branches import CLOSED, NUMBERED, OPENED, continued, only_turn, tokens_covering
from hocket.rollout.dynamic import total
from hocket.stages import Credit, Grade, LedgerView, More, Play, Rollout, Shaping, Tokenizer, tokenizer_of
from hocket.types import Assignment, Experience, Trajectory


class Extractor(Protocol):
    """Finds where a thought first reaches the right answer."""

    def __call__(self, thought: str, answer: Any) -> int | None:
        """How many characters of `thought` lead up to and include it; None if it never does."""
        ...


@dataclass(frozen=True)
class FirstMention:
    """The end of the first mention of the answer as a word or number of its own.

    A script in place of LC-R1's trained extractor; a mention by chance (a term of the problem that equals the answer)
    counts as found. With `behind` only mentions right behind that text count, such as `= `.
    """

    behind: str = ""

    def __call__(self, thought: str, answer: Any) -> int | None:
        known = answer if isinstance(answer, (list, tuple)) else [answer]
        pattern = "|".join(re.escape(str(one).strip()) for one in known if str(one).strip())
        if not pattern:
            return None
        found = re.search(rf"{re.escape(self.behind)}(?<![\w.])(?:{pattern})(?![\w]|\.\d)", thought)
        return None if found is None else found.end()


REACHED = (
    "Here are a problem, its answer and a thought about it. Quote, word by word, the sentence of the thought that "
    "first comes to the answer. Write the sentence alone, or NONE if the thought never comes to it."
)


def quoted_end(thought: str, quote: str) -> int | None:
    """Where the first occurrence of a quoted sentence ends in a thought, spaces levelled; None if it is not there."""
    words = quote.strip().strip("\"'`").split()
    found = re.search(r"\s+".join(map(re.escape, words)), thought) if words else None
    return None if found is None else found.end()


@dataclass(frozen=True)
class CompressedThoughts(Rollout):
    """`samples` trajectories, the right ones with their thought cut right after it first reaches the answer.

    LC-R1 (arXiv 2506.14755). What remains of the thought, its closing tag and what follows are read again by the
    policy, which gives their log-probs in the shorter context; all of it is learnt from, as the public trainer does.
    The uncut original is set aside. Column `thinking` of a right trajectory holds `tag` (the place of the closing tag
    among its decisions), `kept` and `original` (lengths of the thought) and `reached` (whether the thought reached the
    answer).

    Attributes:
        extract: finds the place. least: the total score of a right trajectory.
        judge: is asked for the sentence that first comes to the answer, in place of `extract`. Where it fails, or its
            quote is not in the thought, the trajectory is left whole and has no `thinking`.
    """

    samples: int = 8
    extract: Extractor = field(default_factory=FirstMention)
    least: float = RIGHT
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

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
        """The trajectories in their order, cut ones in place of their originals, which are discarded."""
        tokenizer = tokenizer_of(play)
        played = await play([replace(asking, samples=self.samples) for asking in asked])
        await score(played)
        places = (
            await asyncio.to_thread(self._quoted, self.judge, played, tokenizer)
            if self.judge is not None
            else self._extracted(played, tokenizer)
        )
        shorter: dict[int, Assignment] = {}
        for number, trajectory in enumerate(played):
            tokens = self._cut(trajectory, tokenizer, places[number]) if number in places else None
            if tokens is not None:
                asking = asked[number // self.samples]
                first = asking.first + NUMBERED + trajectory.sample
                shorter[number] = continued(asking, tokens.tolist(), first=first, more=0)
        again = dict(zip(shorter, await play(list(shorter.values())), strict=True))
        for number, trajectory in again.items():
            _take_over(trajectory, played[number])
        left = [replace_source(played[number]) for number in again]
        return Experience([again.get(number, trajectory) for number, trajectory in enumerate(played)], left)

    def _extracted(self, played: Sequence[Trajectory], tokenizer: Tokenizer | None) -> dict[int, int | None]:
        """Of right trajectories by number, how many characters of the thought lead up to the answer; None if all."""
        thoughts = {n: found for n, one in enumerate(played) if (found := self._thought(one, tokenizer)) is not None}
        return {n: self.extract(text, played[n].scenario.answer) for n, (_, text) in thoughts.items()}

    def _quoted(self, judge: Judge, played: Sequence[Trajectory], tokenizer: Tokenizer | None) -> dict[int, int | None]:
        """The same by a judge; without those that it cannot tell."""
        thoughts = {n: found for n, one in enumerate(played) if (found := self._thought(one, tokenizer)) is not None}
        asked = [
            f"{REACHED}\n\nProblem:\n{prompt_text(played[n].scenario)}\n\nAnswer: {played[n].scenario.answer}\n\n"
            f"Thought:\n{text}"
            for n, (_, text) in thoughts.items()
        ]
        places: dict[int, int | None] = {}
        for (n, (_, text)), quote in zip(thoughts.items(), said(judge, asked), strict=True):
            end = None if quote is None else quoted_end(text, quote)
            if end is not None or (quote or "").strip(" .").upper() == "NONE":
                places[n] = end
        return places

    def _thought(self, trajectory: Trajectory, tokenizer: Tokenizer | None) -> tuple[int, str] | None:
        """Where the thought of a right trajectory begins in its text, and the thought; None without one."""
        turn = only_turn(trajectory)
        if turn is None or tokenizer is None or trajectory.scenario.answer is None or not self._right(trajectory):
            return None
        text = tokenizer.decode(turn.action.tolist())
        opened, closed = text.find(OPENED), text.find(CLOSED)
        if closed < 0 or opened > closed:
            return None
        begin = opened + len(OPENED) if opened >= 0 else 0
        return begin, text[begin:closed]

    def _cut(
        self, trajectory: Trajectory, tokenizer: Tokenizer | None, reached: int | None
    ) -> NDArray[np.int64] | None:
        """The tokens of the compressed response; None to leave it. Describes its thought in the column `thinking`."""
        thought, turn = self._thought(trajectory, tokenizer), only_turn(trajectory)
        if thought is None or turn is None or tokenizer is None:
            return None
        begin, text = thought
        tag = tokens_covering(tokenizer, turn.action, begin + len(text) + 1) - 1
        start = tokens_covering(tokenizer, turn.action, begin)
        end = tag if reached is None else min(tokens_covering(tokenizer, turn.action, begin + reached), tag)
        described = {"tag": end, "kept": end - start, "original": tag - start, "reached": reached is not None}
        COMPRESSED.write(trajectory, described)
        return np.concatenate([turn.action[:end], turn.action[tag:]]) if end < tag else None

    def _right(self, trajectory: Trajectory) -> bool:
        return sum(total(score) for score in trajectory.scores.values()) >= self.least


def _take_over(shorter: Trajectory, original: Trajectory) -> None:
    """Gives a compressed trajectory what its original earned and how it ended, and makes its decisions its own."""
    shorter.scores, shorter.sample = dict(original.scores), original.sample
    shorter.info |= original.info
    shorter.terminated, shorter.truncated = original.terminated, original.truncated
    for turn, source in zip(shorter.turns, original.turns, strict=False):
        turn.forced = np.zeros(len(turn), np.bool_)
        turn.finish = source.finish


def replace_source(trajectory: Trajectory) -> Trajectory:
    """The trajectory as one that only informs, so that no history counts its scenario's reward twice."""
    trajectory.source = "baseline"
    return trajectory


@dataclass(frozen=True)
class RelativeLength(Shaping):
    """Adds `weight (1 - l_i / longest right answer of the group)` to every answer of a group that has a right one.

    LC-R1 (arXiv 2506.14755), as its public trainer has it: wrong answers take part, and longer ones than the longest
    right one lose. A group without a right answer gets no length term.
    """

    weight: float = 1.0
    least: float = RIGHT

    def __call__(self, batch: Batch) -> Batch:
        value, groups = returns(batch), SCENARIO(batch)
        among = counted_trajectories(batch) & (value >= self.least)
        length = batch.lengths().double()
        longest = segment_extreme(length[among], groups.index[among], groups.size, largest=True)[groups.index]
        term = torch.where(longest > 0, 1 - length / longest.clamp(min=1.0), 0.0)
        return with_return(batch, value + self.weight * term)


@dataclass(frozen=True)
class TagBonus(Credit):
    """The advantages of `base`, and at the tag that ends a right thought `c (1 - kept/original)`, or `-c`.

    LC-R1 (arXiv 2506.14755). The bonus is for the share of the thought that was cut away after the answer was found;
    where the thought ends before it ever reached the answer the tag loses `penalty`, so that thoughts stay sufficient.
    Reads column `thinking`, which `hocket.rollout.CompressedThoughts` writes for right trajectories; the others have
    no bonus.

    Attributes:
        base: credit for the whole. bonus: the c for what was cut. penalty: the c for a thought without the answer.
    """

    base: Credit = GroupRelative(scale=None)
    bonus: float = 1.0
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if self.base.pairs:
            raise ValueError("base yields pairs; set it to a credit that gives advantages")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen = self.base(batch)
        advantage, lengths = seen.advantage.double().clone(), batch.lengths()
        starts = (torch.cumsum(lengths, 0) - lengths).tolist()
        for row, thinking in enumerate(COMPRESSED.rows(batch)):
            if thinking is not None and int(thinking["tag"]) < int(lengths[row]):
                place = starts[row] + int(thinking["tag"])
                if seen.weight[place] != 0:
                    advantage[place] += self.at_tag(thinking)
        return replace(seen, advantage=advantage)

    def at_tag(self, thinking: dict[str, Any]) -> float:
        """What the tag of one right trajectory earns."""
        if not thinking["reached"]:
            return -self.penalty
        return self.bonus * (1 - int(thinking["kept"]) / max(int(thinking["original"]), 1))


COMPRESSED = InfoColumn(
    "thinking",
    "A right response's thought: place of its `tag`, tokens `kept` and `original`, "
    "and whether the answer was `reached`.",
)


LC_R1 = DR_GRPO.but(
    name="lc-r1",
    title="Length compression for reasoning",
    source="Cheng et al., Optimizing Length Compression in Large Reasoning Models, arXiv:2506.14755",
    catalogue_ids=("lc-r1",),
    axes=("reward", "credit", "rollout"),
    formula="A_it = R_i - mean R + [t closes a right thought] (c2 (1 - kept/original) or -c2),  "
    "R_i = verdict_i + tags_i + c (1 - l_i/longest right)",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        **RIGHT_ANSWERS,
        **LENGTH,
        "compression": "right answers only, as in the public trainer; all that remains is learnt from",
        "extractor": "--judge quotes the sentence that first comes to the answer (`REACHED`); without one, the "
        "answer's first mention as a word of its own",
        "length term": "for all answers of a group with a right one, after compression; c = shaping.0.weight = 1",
        "bonus": "c2 = credit.bonus = credit.penalty = 1, at the closing tag, after centring",
        "right answers": "compression asks the scores' sum; the length term the return before it",
    },
    note="without --judge the extractor is a rule; a judge that was taught (task marked-sums) quotes in half of the "
    "cases what it should, and that thoughts get shorter with it was not measured",
    rollout=CompressedThoughts(samples=8),
    shaping=(RelativeLength(), TagFormat(weight=1.0)),
    credit=TagBonus(),
    **{"objective.aggregate": "sequence-mean"},
)
