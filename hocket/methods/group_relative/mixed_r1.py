"""Mixed-R1: one GRPO run over tasks of several kinds, each prompt naming its reward (arXiv:2505.24164).

`Routed` grades only the scenarios that ask for it, by equality, nearness of numbers, overlap of boxes or similarity of
words (`bag_similarity`), so that every kind has statistics of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, get_args

from torch import Tensor

from hocket.core.keys import Key
from hocket.core.numerals import last_number, listed, number, spelled
from hocket.methods.base.grpo import GRPO
from hocket.rewards.ngrams import counts, unit
from hocket.rewards.verifiers import equal, final_answer
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory


def match(given: str, reference: Any) -> float:
    """1 if the answers are equal, numbers by value and letters in any case."""
    return float(equal(given.lower(), str(reference).lower()))


Kind = Literal["match", "chart", "box", "open"]


Grade = Callable[[str, Any], float]
"""How good a final answer is, given the reference."""


def spelling(tokens: Sequence[str]) -> Tensor:
    """Tokens as unit vectors of their hashed character n-grams: alike when spelt alike. `[M, 256]` float64."""
    return unit(counts(tokens, buckets=256, orders=(1, 2, 3)))


def bag_similarity(given: str, reference: str, embed: Embedding = spelling) -> float:
    """BMAS of two texts' words by the cosine of their vectors, in [-1, 1]; two empty texts agree.

    The paper takes the tokenizer's embeddings of the model: give them as `embed`. Lower case and words are chosen here.
    """
    left, right = given.lower().split(), reference.lower().split()
    if not left or not right:
        return float(left == right)
    return max_average(unit(embed(left).double()) @ unit(embed(right).double()).T)


def box_overlap(given: str, reference: Any) -> float:
    """Intersection over union of the boxes in a text and a reference; 0 for a text without one."""
    left, right = box_in(given), box_in(reference)
    return overlap(left, right) if left is not None and right is not None else 0.0


def near_number(given: str, reference: Any, tolerance: float = 0.05) -> float:
    """1 if the last number of a text lies within `tolerance` of the reference, relative to it; else 0.

    The tolerance is that of relaxed accuracy for charts (ChartQA, arXiv 2203.10244).
    """
    value, wanted = number(last_number(given) or ""), number(spelled(reference))
    if value is None or wanted is None:
        return 0.0
    gap, size = Fraction(value - wanted), Fraction(wanted)
    return float(abs(gap) <= Fraction(str(tolerance)) * abs(size))


GRADES: dict[str, Grade] = {"match": match, "chart": near_number, "box": box_overlap, "open": bag_similarity}
"""Mixed-R1 (arXiv 2505.24164): closed answers, charts, grounding, free text."""


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


Embedding = Callable[[Sequence[str]], Tensor]
"""A vector per token, `[M, D]`."""


Box = tuple[float, float, float, float]
"""x0, y0, x1, y1."""


def max_average(similarity: Tensor) -> float:
    """`(mean_i max_j S_ij + mean_j max_i S_ij) / 2` of a similarity matrix `[M, N]`: BMAS (Mixed-R1, arXiv 2505.24164).

    0 when one side is empty.
    """
    if 0 in similarity.shape:
        return 0.0
    return float((similarity.max(1).values.mean() + similarity.max(0).values.mean()) / 2)


def overlap(first: Box, second: Box) -> float:
    """Intersection over union of two boxes; a box of no area overlaps nothing."""

    def area(box: Box) -> float:
        return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])

    pairs = list(zip(first, second, strict=True))
    common = area((max(pairs[0]), max(pairs[1]), min(pairs[2]), min(pairs[3])))
    union = area(first) + area(second) - common
    return common / union if union > 0 else 0.0


def box_in(said: Any) -> Box | None:
    """A box from four numbers, or from text that holds exactly four."""
    found = listed(said) if isinstance(said, str) else [float(one) for one in said]
    return (found[0], found[1], found[2], found[3]) if len(found) == 4 else None


MIXED_R1 = GRPO.but(
    name="mixed-r1",
    title="Mixed-R1: each prompt names its reward",
    source="Mixed-R1, arXiv:2505.24164 (abstract)",
    catalogue_ids=("mixed-r1",),
    axes=("reward", "data", "policy"),
    formula="R = the reward the prompt names: match, chart (5%), box IoU, BMAS = (mean_i max_j S + mean_j max_i S)/2",
    conventions={
        **GRPO.conventions,
        "router": "metadata 'reward' of the scenario; a scenario with an answer that names none is matched",
        "answer": "inside the last <answer> tags, else the last line",
        "BMAS": "cosine of hashed character n-grams of lower-case words; Routed.grade takes a model's embeddings",
        "data engine": "not part of the loop; filter the task's file, or take a curriculum by difficulty",
    },
    note="shown on text; its modality comes later; the data engine is left to the task",
    task="worked-sums?wordings=2",
    rewards=ROUTES,
)
