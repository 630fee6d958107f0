"""Rewards that look at how often a tool was called, and whether that was needed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.columns import TEXT, TOOL_CALLS, InfoColumn
from hocket.core.method_columns import ACCURACY_WITH, ACCURACY_WITHOUT
from hocket.errors import ConfigurationError
from hocket.keys import Key
from hocket.markup import ANSWER
from hocket.rewards.members import with_return
from hocket.rewards.opinions import Opinions
from hocket.rewards.outcomes import RIGHT
from hocket.rewards.verifiers import answer_text, equal
from hocket.signals import counted_trajectories, returns
from hocket.stages import Reward, Shaping, State
from hocket.types import Batch, Trajectory

CONSTRUCTS = InfoColumn("constructs", "Whether the response uses what is contrasted; without it the text is searched.")

CALL = "<tool_call>"
"""How a response opens a call; the shipped base model was trained on it."""


def tool_calls(batch: Batch) -> Tensor:
    """Calls in each trajectory, `[N]` float64: column `tool_calls` where it is known, else counted in `text`."""
    if not TOOL_CALLS.present(batch):
        texts = TEXT.read(batch, "a reward on tool calls")
        return torch.tensor([float((text or "").count(CALL)) for text in texts], dtype=torch.float64)
    return torch.tensor([float(calls or 0) for calls in TOOL_CALLS.rows(batch)], dtype=torch.float64)


def efficiency(calls: Tensor, fewest: Tensor, smooth: float) -> Tensor:
    """OTC's r_tool of m calls when n suffice, `[N]` float64: 1 at m = n, falling to 0 as m grows.

    `sin(pi f / 2n)` with `f = 2nm / (m + n)` for n > 0, which is `sin(pi m / (m + n))`; `cos(pi m / (2m + c))` for
    n = 0, which is 1 at m = 0 too.
    """
    some = torch.sin(math.pi * calls / (calls + fewest).clamp(min=1.0))
    return torch.where(fewest > 0, some, torch.cos(math.pi * calls / (2 * calls + smooth)))


@dataclass(frozen=True)
class ToolEfficiency(Shaping):
    """The return times `alpha r_tool(m, n)`: a wrong answer, which earned nothing, gains nothing by being frugal.

    OTC (arXiv 2504.14870). m is the trajectory's number of calls, n the fewest of any right answer to its scenario so
    far; the current group enters n before the rewards, so a new record is not punished. Stateful: it remembers n per
    scenario. Reads column `tool_calls`, or counts calls in `text`.

    Attributes:
        alpha: scale. smooth: the c of `efficiency`, about the most calls there are.
        form: `group` as above; `alone` takes n = 0 throughout, as OTC-PPO, which has no groups.
        least: an answer is right when its return before is at least this.
    """

    alpha: float = 1.0
    smooth: float = 4.0
    form: Literal["group", "alone"] = "group"
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.smooth <= 0 or self.alpha <= 0:
            raise ValueError(f"alpha and smooth must be positive, not {self.alpha} and {self.smooth}")
        if self.form not in ("group", "alone"):
            raise ValueError(f"form must be group or alone, not {self.form!r}")

    def init(self) -> State:
        """No scenario was answered yet."""
        return {"fewest": {}}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        calls, value = tool_calls(batch), returns(batch)
        fewest: dict[str, float] = dict(state["fewest"])
        names = [batch.names["scenario"][code] for code in batch.scenario.tolist()]
        good = counted_trajectories(batch) & (value >= self.least)
        if self.form == "group":
            for row in good.nonzero().flatten().tolist():
                fewest[names[row]] = min(float(calls[row]), fewest.get(names[row], math.inf))
        # Where nobody was right yet, the factor meets a return of 0, unless rewards are graded: then m itself is n.
        known = [fewest.get(name, mine) for name, mine in zip(names, calls.tolist(), strict=True)]
        least = torch.tensor(known, dtype=torch.float64) if self.form == "group" else torch.zeros_like(calls)
        worth = efficiency(calls, least, self.smooth)
        return with_return(batch, self.alpha * worth * value), {"fewest": fewest}


# ---------------------------------------------------------------- when to search

_SEARCH = re.compile(r"<search>|" + re.escape(CALL))


@dataclass(frozen=True)
class SearchTable(Reward):
    """What guessing, searching and answering earn together: SEM (arXiv 2505.07903).

    A response answers, may then search, and answers again: `<answer>..</answer>`, a `<search>` or `<tool_call>`, and a
    last `<answer>..</answer>`; all turns' texts count. The answer before the search is the guess. The paper orders the
    cases in words; the numbers are chosen here. What breaks the form earns `malformed`.

    Attributes:
        direct: right without a search. missed: wrong without one.
        found, tried: right or wrong after a search that a wrong guess called for.
        needless, spoiled: right or wrong after a search although the guess was right.

    Raises:
        ValueError: unless `direct > found > needless > tried >= missed > spoiled`.
    """

    direct: float = 1.0
    found: float = 0.8
    needless: float = 0.3
    tried: float = 0.1
    missed: float = 0.0
    spoiled: float = -0.2
    malformed: float = 0.0
    name: str = "search"
    weight: float = 1.0

    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.direct > self.found > self.needless > self.tried >= self.missed > self.spoiled:
            raise ValueError("the table must satisfy direct > found > needless > tried >= missed > spoiled")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.judge(trajectory) for trajectory in trajectories)

    def judge(self, trajectory: Trajectory) -> float | None:
        """The table's entry for one attempt; None where the scenario has no answer."""
        answer = trajectory.scenario.answer
        if answer is None:
            return None
        guess, searched, final = parts_of("".join(turn.text for turn in trajectory.turns))
        if final is None or (searched and guess is None):
            return self.malformed
        return self.entry(guess is not None and matches(guess, answer), searched, matches(final, answer))

    def entry(self, guessed: bool, searched: bool, solved: bool) -> float:
        """The table itself: was the guess right, was there a search, is the final answer right?"""
        if not searched:
            return self.direct if solved else self.missed
        if guessed:
            return self.needless if solved else self.spoiled
        return self.found if solved else self.tried


def parts_of(text: str) -> tuple[str | None, bool, str | None]:
    """The guess before the first search (None without one), whether there was a search, and the final answer."""
    search = _SEARCH.search(text)
    after = ANSWER.findall(text[search.end() :] if search else text)
    before = ANSWER.findall(text[: search.start()]) if search else after
    return (before[-1] if before else None), search is not None, (after[-1] if after else None)


def matches(given: str, answer: object) -> bool:
    """Whether a given answer is the known one, or one of them; numbers by value."""
    allowed = answer if isinstance(answer, (list, tuple)) else (answer,)
    return any(equal(given, answer_text(one)) for one in allowed)


# ---------------------------------------------------------------- whether it helps


def contrast_sign(with_it: Tensor, without: Tensor, band: float) -> Tensor:
    """+1 where `a_w > a_o + band`, -1 where `a_w < a_o - band`, 0 between; same shape."""
    gap = with_it - without
    return (gap > band).double() - (gap < -band).double()


@dataclass(frozen=True)
class ContrastBonus(Shaping):
    """Adds `weight * sign` to rollouts that construct, the sign telling whether constructing helps on this scenario.

    GCPO (arXiv 2506.07160): the mean returns of rollouts told to construct and told not to give the sign, see
    `contrast_sign`. Reads column `accuracy_with` and `accuracy_without`, which `hocket.rollout.ContrastGroups` writes
    (a scenario without them has sign 0), and `constructs` where the task tells; else `marker` is sought in `text`.

    Attributes:
        weight: of the bonus. band: differences up to this are no difference.
        marker: what a response that constructs contains.
        unconditional: sign +1 everywhere: the ablation.
    """

    weight: float = 0.5
    band: float = 0.1
    marker: str = CALL
    unconditional: bool = False

    def __post_init__(self) -> None:
        if self.band < 0:
            raise ValueError(f"band must be at least 0, not {self.band}")

    def __call__(self, batch: Batch) -> Batch:
        sign = torch.ones(batch.trajectories, dtype=torch.float64) if self.unconditional else self._sign(batch)
        return with_return(batch, returns(batch) + self.weight * sign * self._constructs(batch))

    def _sign(self, batch: Batch) -> Tensor:
        told = [column.rows(batch) for column in (ACCURACY_WITH, ACCURACY_WITHOUT)]
        known = [None not in pair for pair in zip(*told, strict=True)]
        values = [torch.tensor([one or 0.0 for one in column], dtype=torch.float64) for column in told]
        return torch.where(torch.tensor(known), contrast_sign(values[0], values[1], self.band), 0.0)

    def _constructs(self, batch: Batch) -> Tensor:
        if CONSTRUCTS.present(batch):
            return torch.tensor([float(bool(one)) for one in CONSTRUCTS.rows(batch)], dtype=torch.float64)
        if not TEXT.present(batch):
            raise ConfigurationError("ContrastBonus reads 'text' or 'constructs', which this experience does not hold")
        return torch.tensor([float(self.marker in (text or "")) for text in TEXT.rows(batch)], dtype=torch.float64)
