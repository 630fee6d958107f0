"""OTC: GRPO that pays right answers by how few tool calls they took (Wang et al., arXiv:2504.14870).

`ToolEfficiency` multiplies the verdict by a factor that is 1 at the fewest calls of any right answer to the scenario so
far, and remembers that number; a wrong answer gains nothing by it. `otc-ppo` does without groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import TOOL_CALLS, TRACE
from hocket.core.markup import TOOL_CALL
from hocket.core.requirements import Requirement
from hocket.core.signals import RIGHT, counted_trajectories, returns
from hocket.methods.base.conventions import RIGHT_ANSWERS
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.ppo import PPO
from hocket.rewards.members import with_return
from hocket.stages import Shaping, State


def tool_calls(batch: Batch) -> Tensor:
    """Calls in each trajectory, `[N]` float64: column `tool_calls` where it is known, else counted in all turns."""
    if not TOOL_CALLS.present(batch):
        texts = TRACE.read(batch, "a reward on tool calls")
        return torch.tensor([float((text or "").count(TOOL_CALL)) for text in texts], dtype=torch.float64)
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
    scenario. Reads column `tool_calls`, or counts calls in all turns.

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


OTC = GRPO.but(
    name="otc",
    title="Optimal tool calls",
    source="Wang et al., OTC: Optimal Tool Calls via Reinforcement Learning, arXiv:2504.14870",
    catalogue_ids=("otc",),
    axes=("reward", "credit"),
    formula="R_i = alpha r_tool(m_i, n) verdict_i,  r_tool = sin(pi m/(m + n)) for n > 0, cos(pi m/(2m + c)) for n = 0",
    conventions={
        **GRPO.conventions,
        **RIGHT_ANSWERS,
        "n": "the fewest calls of any right answer to the scenario, this group included, remembered over the run",
        "calls": "column tool_calls, else <tool_call> counted in the text",
        "smoothing": "c = shaping.0.smooth = 4",
        "alpha": "1; in a standardised group it has no effect",
        "start": "a model whose calls vary: the shipped base calls once whatever is asked, where the factor is 1; the "
        "task's lessons (`--task 'calculator?lessons=40'`) teach it calls that are made again or left out",
    },
    task="calculator?lessons=40",
    requires=(Requirement.TOOLS,),
    shaping=(ToolEfficiency(),),
)


OTC_PPO = PPO.but(
    name="otc-ppo",
    title="Optimal tool calls with a critic",
    source=OTC.source,
    catalogue_ids=("otc",),
    formula="R_i = alpha cos(pi m_i/(2 m_i + c)) verdict_i, in PPO",
    conventions={
        **PPO.conventions,
        **RIGHT_ANSWERS,
        "calls": OTC.conventions["calls"],
        "smoothing": "c = shaping.0.smooth = 4",
    },
    task="calculator?lessons=40",
    requires=(Requirement.TOOLS,),
    shaping=(ToolEfficiency(form="alone"),),
)
