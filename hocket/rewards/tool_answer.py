"""Rewards for answers with tools: malformed responses are penalised, and using all tools may earn a bonus."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hocket.core.columns import CALLS
from hocket.core.keys import Key
from hocket.core.markup import edit_distance, tagged, without_thoughts
from hocket.core.numerals import LONGEST, Number, number
from hocket.rewards.verifiers import allowed_answers, equal, token_match
from hocket.stages import Reward
from hocket.types import Trajectory

_TAG = re.compile(r"<(/?)(think|tool_call|answer)>")
_CALLED = re.compile(r'<tool_call>\s*\{[^{}]*?"name"\s*:\s*"([^"]+)"')
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMERALS = {word: str(number) for number, word in enumerate(_NUMBERS, start=1)}
ABSOLUTE, RELATIVE = Fraction(1, 1000), Fraction(1, 20)


# ---------------------------------------------------------------- form


def well_tagged(turns: Sequence[str]) -> bool:
    """Whether every `<think>`, `<tool_call>` and `<answer>` is closed before another opens, and an answer ends it all.

    `turns` are the policy's texts, in order; a tag may not extend over two of them. Words between tags are allowed.
    """
    ended = False
    for text in turns:
        opened: str | None = None
        ended = False
        for tag in _TAG.finditer(text):
            closing, name = bool(tag[1]), tag[2]
            if closing != (opened is not None) or (closing and name != opened):
                return False
            opened = None if closing else name
            ended = closing and name == "answer" and not text[tag.end() :].strip()
        if opened is not None:
            return False
    return ended


def tools_called(trajectory: Trajectory) -> frozenset[str]:
    """The names of the tools that were called: those in `info["calls"]`, else those the calls in the text spell."""
    made = CALLS.get(trajectory)
    if made is not None:
        return frozenset(str(call["name"]) for call in made)
    return frozenset(name for turn in trajectory.turns for name in _CALLED.findall(without_thoughts(turn.text)))


# ---------------------------------------------------------------- grades


def plain(text: str) -> str:
    """Lower case without white space around; number words up to twelve as digits."""
    text = text.strip().lower()
    return _NUMERALS.get(text, text)


def fact(given: str, reference: str) -> float:
    """1 if the answer states the reference, else 1 - d if d < 1/2, d their edit distance over the longer length.

    An answer states what it equals, or what stands alone behind its only "is", "was", "are", "were", "=" or ":",
    without a denial before it. One that lists the reference among others states nothing. Numbers are equal by value or
    not at all.
    """
    parts = _STATES.split(given)
    stated = parts[-1] if len(parts) == 2 and not _DENIES.search(parts[0]) else given
    words, right = (_PLAIN.sub(" ", text.removesuffix(".")).split() for text in (stated, reference))
    if right and (words == right or equal(" ".join(words), " ".join(right))):
        return 1.0
    if not right or number(reference) is not None or (_DENIES.search(given) and not _DENIES.search(reference)):
        return 0.0
    apart = edit_distance(given, reference) / max(len(given), len(reference))
    return 1 - apart if apart < 0.5 else 0.0


_STATES = re.compile(r"(?<=\w)\s+(?:is|was|are|were)\s+|\bit['’]s\s+|(?<=\w)\s*[=:]\s+")
_DENIES = re.compile(
    r"\b(?:not?|none|never|neither|nor|nothing|nobody|hardly|wrong|false|incorrect|except|doubt\w*|unlikely|if|unless|"
    r"whether|may|might|could|maybe|perhaps|possibly|some say|instead|opposite)\b|n['’]t\b|\?"
)
"""What denies an answer, or leaves it open."""
_PLAIN = re.compile(
    r"\A(?:the\s+)?(?:city|town|village|state|country|kingdom|republic|province|county|island|river|lake|year|month|name)"
    r"\s+of\s+|\b(?:the|an?)\s+|[\"“”]"
)
"""What may stand beside a reference and says nothing else, as in `the city of Paris`."""


def near(given: str, reference: str) -> float:
    """1 for numbers, complex ones too, less than a thousandth apart."""
    value, right = _complex(given), _complex(reference)
    return float(value is not None and right is not None and _square(value, right) < ABSOLUTE**2)


def nearly(given: str, reference: str) -> float:
    """1 for numbers that differ by less than a twentieth of the right one."""
    value, right = _complex(given), _complex(reference)
    if value is None or right is None:
        return 0.0
    return float(value == right or _square(value, right) < RELATIVE**2 * _square(right, (0, 0)))


def exact(given: str, reference: str) -> float:
    """1 if equal, numbers by value."""
    return float(equal(given, reference))


GRADES: dict[str, Callable[[str, str], float]] = {
    "exact": exact,
    "fact": fact,
    "near": near,
    "nearly": nearly,
    "f1": token_match,
}
"""What answers are worth, in [0, 1], after `plain`: the first four as in TAPO's code, `f1` as in Tool-Star's."""


_PARTS = re.compile(r"(?P<real>.*?[^e])??(?P<imaginary>(?:[-+−]\s*)?(?:[\d.][\d.,]*(?:e[-+−]?\d+)?)?)[ij]")


def _complex(text: str) -> tuple[Number, Number] | None:
    """A number as its real and imaginary part, such as `3 - 2.5i`, in brackets or without."""
    text = text.strip()
    text = text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text
    value = number(text)
    if value is not None:
        return value, 0
    match = _PARTS.fullmatch(text) if len(text) <= 2 * LONGEST else None
    if match is None or (match["real"] and match["imaginary"][:1] not in ("-", "+", "−")):
        return None
    imaginary = match["imaginary"].replace(" ", "")
    parts = number(match["real"] or "0"), number(f"{imaginary}1" if imaginary in ("", "-", "+", "−") else imaginary)
    return None if parts[0] is None or parts[1] is None else (parts[0], parts[1])


def _square(one: tuple[Number, Number], other: tuple[Number, Number]) -> Number:
    return (one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2


@dataclass(frozen=True)
class ToolAnswer(Reward):
    """`malformed` for a broken form, else the answer's grade s, plus `bonus` where s > 0 and all `tools` were called.

    TAPO (repository Goer17/TAPO, tool_dapo.py) has -1, s and no bonus, so that calls by themselves earn nothing.
    Tool-Star (arXiv 2505.16410 and its re_search.py) adds 0.1 where both kinds of tools were called. Form is that of
    all turns, see `well_tagged`; the graded answer is the last. No opinion without a known answer; of several the best
    fitting counts.

    Attributes:
        grade: `exact`, `fact`, `near`, `nearly` or `f1`, see `GRADES`; a scenario's metadata may name another under
            `key`.
        malformed: at most 0. tools, bonus: names of tools, and what calling each of them adds to a right answer.
    """

    grade: str = "exact"
    key: str = "grade"
    malformed: float = -1.0
    tools: tuple[str, ...] = ()
    bonus: float = 0.0
    name: str = "correct"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.grade not in GRADES:
            raise ValueError(f"grade must be one of {', '.join(GRADES)}, not {self.grade!r}")
        if self.malformed > 0 or self.bonus < 0:
            raise ValueError(f"malformed must be at most 0 and bonus at least 0, not {self.malformed} and {self.bonus}")
        if self.bonus > 0 and not self.tools:
            raise ValueError("a bonus needs the names of the tools it is for; set tools")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.judge(trajectory) for trajectory in trajectories]

    def judge(self, trajectory: Trajectory) -> float | None:
        """The reward of one attempt."""
        known = trajectory.scenario.answer
        if known is None:
            return None
        turns = [turn.text for turn in trajectory.turns]
        if not well_tagged(turns):
            return self.malformed
        worth = self.graded(tagged(turns[-1]) or "", known, str(trajectory.scenario.metadata.get(self.key, self.grade)))
        paid = worth > 0 and bool(self.tools) and tools_called(trajectory).issuperset(self.tools)
        return worth + self.bonus if paid else worth

    def graded(self, given: str, known: Any, grade: str) -> float:
        """The best grade among the known answers."""
        of = GRADES.get(grade, GRADES[self.grade])
        return max((of(plain(given), plain(answer)) for answer in allowed_answers(known)), default=0.0)
