"""Independent answers of a masked-diffusion language model, by an order of commits and a likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience

Order = Literal["distribution", "sampled", "left", "random"]
Likelihood = Literal["path", "one-pass", "coupled"]


@dataclass(frozen=True)
class Unmasking:
    """How an answer is filled in, and what of it is learnt: an option of an `Assignment`.

    Attributes:
        order: which places are committed first. `distribution`: those whose likeliest token is surest, a function of
            the state alone, so that the product of recorded probabilities is the path's. `sampled`: those whose sampled
            token is likeliest (LLaDA's low-confidence remasking, also d1's and CJ-GRPO's); the product is then no
            probability, as of masses (.9, .1) and (.6, .4) the four pairs would sum to 1.9 in all orders. `left`,
            `random`: exact too.
        commits: tokens committed at every step. doubling: 1, 2, 4, ... in place of it (CJ-GRPO's ASS).
        end_held: the factor of the confidence of the end token at the first step, which rises to 1 (its EOSER); 1 is
            none.
        likelihood: the decisions that are learnt. `path`: every commit in its recorded state. `one-pass`: all tokens of
            the final answer from a fully masked one, with tokens of the prompt masked by `hide` (diffu-GRPO).
            `coupled`: each token once, in one of two complementary masks (coupled-GRPO).
        hide: see `one-pass`.
    """

    order: Order = "distribution"
    commits: int = 1
    doubling: bool = False
    end_held: float = 1.0
    likelihood: Likelihood = "path"
    hide: float = 0.15

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            raise ValueError(f"order is {self.order!r}; choose from {', '.join(get_args(Order))}")
        if self.likelihood not in get_args(Likelihood):
            raise ValueError(f"likelihood is {self.likelihood!r}; choose from {', '.join(get_args(Likelihood))}")
        if self.commits < 1:
            raise ValueError(f"commits must be at least 1, not {self.commits}")
        if not 0 <= self.end_held <= 1 or not 0 <= self.hide < 1:
            raise ValueError(f"end_held must be in [0, 1] and hide in [0, 1), not {self.end_held} and {self.hide}")

    def counts(self, places: int) -> list[int]:
        """How many tokens are committed at each step until all `places` are filled."""
        result: list[int] = []
        while (left := places - sum(result)) > 0:
            result.append(min(left, 2 ** len(result) if self.doubling else self.commits))
        return result


@dataclass(frozen=True)
class MaskFilling(Rollout):
    """`samples` independent answers to every scenario, filled in as `Unmasking` says."""

    plays: ClassVar[str] = "masked"

    samples: int = 8
    order: Order = "distribution"
    commits: int = 1
    doubling: bool = False
    end_held: float = 1.0
    likelihood: Likelihood = "path"
    hide: float = 0.15

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        self.unmasking()

    def unmasking(self) -> Unmasking:
        """The option of its assignments."""
        return Unmasking(self.order, self.commits, self.doubling, self.end_held, self.likelihood, self.hide)

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
        option = self.unmasking()
        trajectories = await play(
            [replace(item, samples=self.samples, options=(*item.options, option)) for item in asked]
        )
        await score(trajectories)
        return Experience(trajectories)
