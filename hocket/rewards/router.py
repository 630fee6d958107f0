"""One reward per kind of scenario: each prompt names the reward that grades it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from hocket.keys import Key
from hocket.markup import tagged
from hocket.rewards.similarity_bags import bag_similarity, box_overlap, near_number
from hocket.rewards.verifiers import equal, last_line
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory

Kind = Literal["match", "chart", "box", "open"]

Grade = Callable[[str, Any], float]
"""How good a final answer is, given the reference."""


def match(given: str, reference: Any) -> float:
    """1 if the answers are equal, numbers by value and letters in any case."""
    return float(equal(given.lower(), str(reference).lower()))


GRADES: dict[str, Grade] = {"match": match, "chart": near_number, "box": box_overlap, "open": bag_similarity}
"""Mixed-R1 (arXiv 2505.24164): closed answers, charts, grounding, free text."""


def final_answer(text: str) -> str:
    """What is graded: the text of the last `<answer>` tags, else the last line that is not blank."""
    inside = tagged(text)
    return (inside if inside is not None else last_line(text) or "").strip()


@dataclass(frozen=True)
class Routed(Reward):
    """Grades the scenarios that ask for this reward; about the others it has no opinion.

    So a mixed batch has one score per kind, with statistics of its own, and every trajectory exactly one opinion.

    Attributes:
        kind: `match`, `chart` (within a relative tolerance), `box` (intersection over union), `open` (BMAS).
        key: the entry of the scenario's metadata that names its kind.
        default: whether it grades scenarios with an answer that name none.
        grade: another way to grade, instead of the kind's own.
    """

    kind: str = "match"
    key: str = "reward"
    default: bool = False
    weight: float = 1.0
    grade: Grade | None = None
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.grade is None and self.kind not in GRADES:
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))} or come with a grade, not {self.kind!r}")

    @property
    def name(self) -> str:
        return self.kind

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [
            self.graded(one.text, one.scenario.answer) if self.asked(one.scenario) else None for one in trajectories
        ]

    def asked(self, scenario: Scenario) -> bool:
        """Whether it grades this scenario."""
        wanted = scenario.metadata.get(self.key)
        return scenario.answer is not None and (self.default if wanted is None else wanted == self.kind)

    def graded(self, text: str, reference: Any) -> float:
        """The grade of a completion."""
        return (self.grade or GRADES[self.kind])(final_answer(text), reference)


ROUTES = tuple(Routed(kind, default=kind == "match") for kind in get_args(Kind))
"""Mixed-R1's four rewards."""
