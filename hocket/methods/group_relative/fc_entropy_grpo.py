"""GRPO for function calls with a bonus for undecided reasoning tokens (Hao et al., arXiv:2508.05118).

`EntropyLifted` adds to a reasoning token's advantage what grows with its entropy, at most a share of the advantage, so
that signs stay. `CallMatch` pays calls whose syntax tree equals the reference's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column
from hocket.core.keys import Key
from hocket.core.markup import without_thoughts
from hocket.credit.refinement import Refined
from hocket.methods.base.conventions import ENTROPY
from hocket.methods.base.grpo import GRPO
from hocket.rewards.spans import SegmentsByText
from hocket.stages import Reward
from hocket.types import Trajectory

_BLOCK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_LONGEST = 10_000


Call = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]
"""A name, positional arguments, and keyword arguments by name; every argument with its type."""


def calls_of(source: str) -> tuple[Call, ...] | None:
    """The calls that `source` spells, in order: `f(x=1)` or several, one per line or in a list. None if it is no calls.

    Arguments are literals. The order of keywords, whitespace and quotes do not matter; a value's type does.
    """
    if len(source) > _LONGEST:
        return None
    try:
        body = ast.parse(source.strip()).body
        statements = [statement.value for statement in body if isinstance(statement, ast.Expr)]
        if len(statements) != len(body) or not body:
            return None
        if len(statements) == 1 and isinstance(statements[0], (ast.List, ast.Tuple)):
            statements = list(statements[0].elts)
        return tuple(_call(node) for node in statements)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("not a call")
    name = ast.unparse(node.func)
    positional = tuple(_typed(ast.literal_eval(argument)) for argument in node.args)
    keywords = sorted((str(keyword.arg), _typed(ast.literal_eval(keyword.value))) for keyword in node.keywords)
    return name, positional, tuple(keywords)


def _typed(value: Any) -> Any:
    """A literal with its type, so that 1, 1.0, True and "1" differ; as text, which can be sorted."""
    if isinstance(value, dict):
        return "dict", str(sorted((_typed(key), _typed(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return type(value).__name__, str([_typed(item) for item in value])
    return type(value).__name__, repr(value)


@dataclass(frozen=True)
class CallMatch(Reward):
    """1 if the completion calls exactly what the scenario's answer calls, else 0: right format and equal syntax trees.

    The calls are the content of the `<tool_call>` blocks, or the whole completion after the last `</think>` where there
    is no block. With `ordered` their order matters. None where the scenario's answer spells no calls.
    """

    name: str = "calls"
    weight: float = 1.0
    ordered: bool = True
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.verify(trajectory.text, trajectory.scenario.answer) for trajectory in trajectories]

    def verify(self, text: str, answer: Any) -> float | None:
        """The verdict on one completion."""
        wanted = calls_of(answer) if isinstance(answer, str) else None
        if wanted is None:
            return None
        blocks = _BLOCK.findall(without_thoughts(text))
        given = calls_of("\n".join(block.strip() for block in blocks) if blocks else text.rpartition("</think>")[2])
        if given is None:
            return 0.0
        return float(given == wanted if self.ordered else sorted(given) == sorted(wanted))


def entropy_lift(advantage: Tensor, entropy: Tensor, gain: float, share: float) -> Tensor:
    """`A + min(gain H, share |A|)`, `[E]`: below share 1 it has the sign of A, and is 0 where A is."""
    return advantage + torch.minimum(gain * entropy, share * advantage.abs())


@dataclass(frozen=True)
class EntropyLifted(Refined):
    """`A_t <- A_t + min(gain H_t, share |A_t|)` on reasoning decisions (arXiv 2508.05118, EGPO in later versions).

    The paper's abstract says that credit is raised by a bounded bonus that grows with the entropy of the reasoning, the
    outcome setting the direction. The form is our choice: a bound that is a share of |A| keeps the sign and leaves
    groups without signal at 0, which a constant bound would not.

    Attributes:
        gain: of the bonus, per nat. share: bound of the bonus as a share of |A|, in [0, 1).
        segment: decisions with this segment number are reasoning (see `hocket.rewards.SegmentsByText`); None takes all.
    """

    gain: float = 0.4
    share: float = 0.5
    segment: int | None = None

    adds: ClassVar[frozenset[Column]] = frozenset({Column.ENTROPY})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gain < 0 or not 0 <= self.share < 1:
            raise ValueError(f"gain must be at least 0 and share in [0, 1), not {self.gain} and {self.share}")

    def refine(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        lifted = entropy_lift(seen.advantage.double(), self.entropy(batch), self.gain, self.share)
        if self.segment is not None:
            reasoning = batch.segment[seen.decision] == self.segment
            lifted = torch.where(reasoning, lifted, seen.advantage.double())
        return replace(seen, advantage=lifted)


FC_ENTROPY_GRPO = GRPO.but(
    name="fc-entropy-grpo",
    title="GRPO with an entropy bonus for reasoning before function calls",
    source="Hao et al., Exploring Superior Function Calls via Reinforcement Learning, arXiv:2508.05118",
    catalogue_ids=("fc-entropy-grpo",),
    axes=("credit", "reward"),
    formula="A_t <- A + min(c H_t, kappa |A|) at reasoning decisions",
    conventions={
        **GRPO.conventions,
        "entropy": ENTROPY,
        "form of the bonus": "our choice: bounded by a share of |A|, so it never flips a sign and leaves 0 at 0",
        "constants": "credit.gain c = 0.4, credit.share kappa = 0.5",
        "reasoning": "what stands before the first </think>, tag included; all of an answer without it",
        "reward": "the task's; for calls `CallMatch`, 1 for an equal syntax tree and else 0",
        "data": "the filter by syntax tree is `calls_of`; the quality filter by a model is left out",
    },
    task="calculator?digits=5",
    shaping=(SegmentsByText(separator="</think>"),),
    credit=EntropyLifted(of=GRPO.credit, gain=0.4, share=0.5, segment=0),
)
