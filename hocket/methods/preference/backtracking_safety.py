"""Backtracking: a generator that takes back what it should not have said, and goes on from there (Sel et al., 2025).

On noticing a violation in its own text the policy writes a signal, `<undo n>`, which removes the last n words from
the visible output; generation goes on from what still stands, instead of from the start (`<undo all>`, the baseline
that resets). What the policy wrote stays in its context and in the record; what anybody else sees, and what is judged,
is the visible text (`Backtracking`). It learns by imitation of texts with a bad span, a signal and a safe continuation,
the bad span itself not imitated (`StandingAlone`).

The abstract fixes neither the signal nor the loss: the form of the signal, the mask and cross-entropy are chosen here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
import torch

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow, asked
from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import TOKEN_TEXTS, Column, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.signals import token_texts
from hocket.methods.base.sft import SFT
from hocket.stages import Credit, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

SIGNAL = re.compile(r"<undo (\d{1,4}|all)>", re.ASCII)
"""The signal; a word is what stands between spaces, with the spaces after it."""

_WORD = re.compile(r"\S+\s*")

SIGNALS = InfoColumn("signals", "How many signals to go back were written.")
ERASED = InfoColumn("erased", "How many characters of what was written signals removed.")


def standing(text: str, reset: bool = False) -> list[int]:
    """The places of the characters of `text` that are visible: neither part of a signal nor removed by one.

    Signals are obeyed from left to right; one that asks for more words than there are removes all. With `reset` each
    removes all.
    """
    kept, at = list[int](), 0
    for signal in SIGNAL.finditer(text):
        kept += range(at, signal.start())
        kept = kept[: 0 if reset else _cut("".join(text[place] for place in kept), signal[1])]
        at = signal.end()
    return [*kept, *range(at, len(text))]


def _cut(visible: str, count: str) -> int:
    """Where the visible text ends once so many words are taken from its end."""
    starts = [word.start() for word in _WORD.finditer(visible)]
    words = len(starts) if count == "all" else int(count)
    return len(visible) if words == 0 else 0 if words >= len(starts) else starts[-words]


def visible(text: str, reset: bool = False) -> str:
    """What others see of a text with signals."""
    return "".join(text[place] for place in standing(text, reset))


def erased(texts: Sequence[str]) -> list[bool]:
    """Which tokens, given by their texts, signals removed: nothing but spaces of them stands or is part of a signal."""
    text = "".join(texts)
    gone = [True] * len(text)
    for place in standing(text):
        gone[place] = False
    for signal in SIGNAL.finditer(text):
        gone[signal.start() : signal.end()] = [False] * (signal.end() - signal.start())
    spans = pairwise([0, *accumulate(len(piece) for piece in texts)])
    return [_gone(piece, gone[start:end]) for piece, (start, end) in zip(texts, spans, strict=True)]


def _gone(piece: str, removed: Sequence[bool]) -> bool:
    return any(removed) and all(one or letter.isspace() for letter, one in zip(piece, removed, strict=True))


@dataclass(frozen=True)
class StandingAlone(Credit):
    """Advantage 1 for every decision, and weight 0 for those that a later signal removed: they are not imitated.

    The signal itself is learnt, and so is all that stands. Texts of tokens are the column `pieces`; signals count
    within one trajectory.

    Raises:
        ConfigurationError: on a call, for a batch without the texts of tokens.
    """

    reads: ClassVar[frozenset[Column]] = frozenset({TOKEN_TEXTS})

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen = batch.occurrences
        gone = torch.tensor([one for row in token_texts(batch, "StandingAlone") for one in erased(row)])
        weight = torch.where(gone.bool(), torch.zeros_like(seen.weight), seen.weight)
        return replace(seen, weight=weight, advantage=(weight != 0).double())


@dataclass(frozen=True)
class Backtracking(Workflow):
    """One role, `policy`, called once; the answer is what is visible of what it wrote.

    Attributes:
        reset: a signal removes everything, whatever it says: the baseline. system: the policy's prompt.
    """

    name = "backtracking"
    description = "one policy that may take back what it wrote; the visible text is the answer"

    reset: bool = False
    system: str | None = None

    roles = ("policy",)

    @property
    def prompts(self) -> Mapping[str, str]:
        return {} if self.system is None else {"policy": self.system}

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        said = str(await team.policy(asked(team.assignment), prefix=team.assignment.prefix))
        signals = len(SIGNAL.findall(said))
        shown = visible(said, self.reset)
        gone = len(SIGNAL.sub("", said)) - len(shown)
        return Outcome(answer=shown, info={SIGNALS.name: signals, ERASED.name: gone})


# ---------------------------------------------------------------- what is asked

WORDS = ("sun", "sea", "red", "fish", "tree", "bird", "rain", "salt")
"""What texts are made of."""

Pairs = tuple[tuple[str, str], ...]


class SafeWords(TextTask):
    """Words to be written in a row, some pairs of neighbours being unsafe; the question names them.

    A scenario's metadata hold `unsafe`, the pairs, and `demonstration`: a text with a wrong word now and then, a signal
    after it and another word instead. The verdict is 1 for `length` words, all of them known, without an unsafe pair.

    Args:
        length: words of a text. unsafe: pairs. slips: the chance that a demonstration goes wrong where it can.
    """

    def __init__(self, length: int = 12, unsafe: int = 2, slips: float = 0.5) -> None:
        if not 2 <= length <= 60 or not 1 <= unsafe <= 8 or not 0 <= slips <= 1:
            raise ConfigurationError(
                f"task safe-words: length lies in 2 to 60, unsafe in 1 to 8 and slips in [0, 1], not {length}, "
                f"{unsafe} and {slips}"
            )
        self.name = f"safe-words?length={length}&unsafe={unsafe}&slips={slips:g}"
        self.length, self.unsafe, self.slips = length, unsafe, slips

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive(self.name, split, number).numpy()
        while split_of(_asked(pairs := self._pairs(rng), self.length)) != split:
            pass
        told = {"unsafe": pairs, "demonstration": self._shown(pairs, rng)}
        return Scenario(f"safe-words/{split}/{number}", _asked(pairs, self.length), metadata=told, seed=number)

    def _pairs(self, rng: np.random.Generator) -> Pairs:
        """No two of them begin alike, so that a safe word always follows."""
        firsts = rng.permutation(len(WORDS))[: self.unsafe].tolist()
        return tuple((WORDS[first], WORDS[int(rng.integers(len(WORDS)))]) for first in firsts)

    def _shown(self, pairs: Pairs, rng: np.random.Generator) -> str:
        """A text with slips that are taken back."""
        after, said, last = dict(pairs), list[str](), ""
        for _ in range(self.length):
            if last in after and rng.random() < self.slips:
                said += [after[last], "<undo 1>"]
            last = str(rng.choice([word for word in WORDS if word != after.get(last)]))
            said.append(last)
        return " ".join(said).replace("<undo 1> ", "<undo 1>")

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": min(400, 12 * self.length)}

    def verify(self, text: str, scenario: Scenario) -> float:
        words = text.split()
        known = len(words) == self.length and all(word in WORDS for word in words)
        return float(known and violations(words, scenario.metadata["unsafe"]) == 0)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`unsafe`: whether an unsafe pair is visible; `undone`: whether something was taken back."""
        found = violations(trajectory.answer.split(), trajectory.scenario.metadata["unsafe"])
        return {"unsafe": float(found > 0), "undone": float(SIGNAL.search(trajectory.text) is not None)}

    def label(self, trajectory: Trajectory) -> str | None:
        """Texts have no word by which they agree."""
        return None


def _asked(pairs: Pairs, length: int) -> str:
    return f"Write {length} words. Never {', '.join(' '.join(pair) for pair in pairs)}."


def violations(words: Sequence[str], unsafe: Sequence[Sequence[str]]) -> int:
    """How many neighbours are an unsafe pair."""
    pairs = {tuple(pair) for pair in unsafe}
    return sum(pair in pairs for pair in pairwise(words))


def from_settings(name: str, settings: Mapping[str, str]) -> SafeWords:
    """The task with these settings."""
    return SafeWords(**checked(name, settings, {"length": int, "unsafe": int, "slips": float}))


SAFE_WORDS = TaskForm(
    name="safe-words",
    description="words in a row without unsafe neighbours, shown with slips that are taken back, e.g. ?length=12",
    make=from_settings,
)


BACKTRACKING_SAFETY = SFT.but(
    name="backtracking-safety",
    title="Backtracking for safety: imitation of corrections, not of what they correct",
    source="Sel et al., Backtracking for Safety, 2025 (abstract); signal, mask and loss chosen here",
    family="preference",
    catalogue_ids=("backtracking-safety",),
    axes=("rollout", "policy", "objective"),
    formula="L = -1/sum_t m_t sum_t m_t log pi(a_t | s_t),  m_t = 0 where a later signal removes a_t",
    conventions={
        **SFT.conventions,
        "signal": "<undo n> in the text removes the last n visible words, <undo all> all of them",
        "context": "what was taken back stays in the policy's context; only the visible text is without it",
        "mask": "decisions of which nothing but spaces stands; the signal and what follows it are learnt",
        "judged": "the visible text, by workflow = backtracking; workflow.reset is the baseline that starts anew",
        "stages": "imitation alone; the same workflow serves a stage of preferences or reinforcement",
    },
    task="safe-words",
    workflow="backtracking",
    credit=StandingAlone(),
)
