"""The operations that sampler and learner leave to kernels, and the columns that compute them.

A column has every operation as functions with the signatures of `hocket.policies.kernels`. The first column that can
compute on a device and type serves it: the kernels in C++ on processors, Triton on accelerators, plain torch anywhere.
`HOCKET_KERNELS` in the environment leaves columns out: with `torch` (or `off`) plain torch is left, with `triton` that
and Triton.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.policies import kernels
from hocket.policies.kernels import UNBOUNDED, Opening, ScoreBounds
from hocket.policies.kernels.build import OFF
from hocket.policies.operations import plain
from hocket.policies.operations.flat_tree import FlatTree
from hocket.policies.operations.pieces import paths_of
from hocket.policies.prefix_tree import TokenRun


@dataclass(frozen=True)
class Operation:
    """What a column computes.

    Attributes:
        name: in words. functions: forward and, if there is one, backward. by_head: whether the head size matters.
    """

    name: str
    functions: tuple[str, ...]
    by_head: bool = False


OPERATIONS = (
    Operation("norm and add", ("add_norm", "add_norm_backward")),
    Operation("rotary turn", ("apply_rope", "apply_rope_backward"), by_head=True),
    Operation("gate", ("gate", "gate_backward")),
    Operation("attention over a tree", ("tree_attention", "tree_attention_backward"), by_head=True),
    Operation("attention over pages", ("paged_attention",), by_head=True),
    Operation("log-prob and entropy", ("token_logprobs", "token_logprobs_backward")),
    Operation("sampling", ("draw",)),
)


class Functions(Protocol):
    """The functions of a column; see `hocket.policies.kernels`, whose these are.

    Attributes:
        RECORDABLE: whether none of them waits for what a device has computed, so that a CUDA graph can record them.
    """

    @property
    def RECORDABLE(self) -> bool: ...

    def add_norm(
        self, x: Tensor, delta: Tensor | None, epsilon: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]: ...

    def add_norm_backward(
        self, gradient: Tensor, normal: Tensor, inverse: Tensor, more: Tensor | None, *, delta: bool
    ) -> tuple[Tensor, Tensor | None]: ...

    def gate(self, both: Tensor, opening: Opening = "silu") -> Tensor: ...

    def gate_backward(self, gradient: Tensor, both: Tensor, opening: Opening = "silu") -> Tensor: ...

    def apply_rope(
        self,
        qkv: Tensor,
        weight: Tensor | None,
        cosine: Tensor,
        sine: Tensor,
        depth: Tensor,
        epsilon: float,
        shared: int,
    ) -> tuple[Tensor, Tensor]: ...

    def apply_rope_backward(
        self,
        gradient: Tensor,
        qkv: Tensor,
        weight: Tensor | None,
        cosine: Tensor,
        sine: Tensor,
        depth: Tensor,
        inverse: Tensor,
        shared: int,
    ) -> tuple[Tensor, Tensor | None]: ...

    def tree_attention(
        self,
        turned: Tensor,
        qkv: Tensor,
        paths: Any,
        scale: float,
        size: int,
        shared: int,
        bounds: ScoreBounds = UNBOUNDED,
    ) -> tuple[Tensor, Tensor]: ...

    def tree_attention_backward(
        self,
        turned: Tensor,
        qkv: Tensor,
        out: Tensor,
        gradient: Tensor,
        sums: Tensor,
        paths: Any,
        scale: float,
        size: int,
        shared: int,
        bounds: ScoreBounds = UNBOUNDED,
    ) -> Tensor: ...

    def placed(
        self, table: Tensor, run_start: Tensor, run_row: Tensor, position: Tensor, device: torch.device, group: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What attention over pages takes as `table`, `run_start` and `run_row`, once for all layers.

        All arguments are on the processor, `position` those of the tokens of all runs; `group` query heads share a key
        head.
        """
        ...

    def paged_attention(
        self,
        qkv: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        position: Tensor,
        slot: Tensor,
        table: Tensor,
        run_start: Tensor,
        run_row: Tensor,
        weight: Tensor | None,
        epsilon: float,
        cosine: Tensor,
        sine: Tensor,
        scale: float,
        heads: int,
        shared: int,
        bounds: ScoreBounds = UNBOUNDED,
        sums: Tensor | None = None,
    ) -> Tensor: ...

    def token_logprobs(
        self, logits: Tensor, action: Tensor, temperature: Tensor, *, entropy: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]: ...

    def token_logprobs_backward(
        self,
        logits: Tensor,
        action: Tensor,
        temperature: Tensor,
        peaks: Tensor,
        totals: Tensor,
        entropy: Tensor | None,
        gradient: Tensor,
        for_entropy: Tensor | None,
    ) -> None: ...

    def draw(
        self, logits: Tensor, uniform: Tensor, temperature: Tensor, greedy: Tensor, forced: Tensor
    ) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class OperationColumn:
    """One way to compute every operation.

    Attributes:
        name: `c++`, `triton` or `torch`.
        devices: kinds of device, and None for any. dtypes: of activations.
        largest, multiple: head sizes are multiples of the second up to the first.
        most_group: the most query heads that share a key head; 0 for any number.
        absent: why it cannot be had, from a head size (0 where no head is concerned); None if it can.
        functions: loads the functions. paths: makes of a tree's nodes what attention over it takes as `paths`.
    """

    name: str
    devices: tuple[str, ...] | None
    dtypes: tuple[torch.dtype, ...]
    largest: int
    multiple: int
    most_group: int
    absent: Callable[[int], str | None]
    functions: Callable[[], Functions]
    paths: Callable[[Sequence[TokenRun], torch.device], Any]

    def refusal(
        self, operation: Operation, device: torch.device, dtype: torch.dtype, head: int = 0, group: int = 1
    ) -> str | None:
        """Why it cannot compute an operation, in a sentence; None if it can. `group` query heads share a key head."""
        if self.devices is not None and device.type not in self.devices:
            return f"the {self.name} column computes on {' or '.join(self.devices)}, not on {device.type}"
        if dtype not in self.dtypes:
            known = ", ".join(_short(known) for known in self.dtypes)
            return f"the {self.name} column has {operation.name} in {known}, not in {_short(dtype)}"
        if operation.by_head and head and (head % self.multiple or head > self.largest):
            return (
                f"the {self.name} column has {operation.name} for heads of a multiple of {self.multiple} numbers up to "
                f"{self.largest}, not of {head}"
            )
        if operation.by_head and self.most_group and group > self.most_group:
            return f"the {self.name} column lets {self.most_group} query heads share a key head, not {group}"
        why = self.absent(head if operation.by_head else 0)
        return None if why is None else f"the {self.name} column is not available: {why}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# ---------------------------------------------------------------- the three columns


def _no_kernels(head: int) -> str | None:
    return kernels.reason(head or kernels.ANY_HEAD)


def _no_triton(head: int) -> str | None:
    chosen = os.environ.get(OFF, "").lower()
    if chosen in ("torch", "off", "0", "no"):
        return f"switched off by {OFF}"
    return _triton_fault()


@functools.cache
def _triton_fault() -> str | None:
    """Why Triton does not load; None where it does."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed; install hocket[triton]"
    try:
        _triton_functions()
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return f"triton does not load: {(str(error).strip() or type(error).__name__).splitlines()[0]}"
    return None


def _triton_functions() -> Functions:
    from hocket.policies.operations import triton_column

    return triton_column


def _interpreted() -> bool:
    """Whether Triton's kernels run on the processor."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _triton_paths(nodes: Sequence[TokenRun], device: torch.device) -> Any:
    from hocket.policies.operations.triton_column import TritonTree

    return TritonTree.of(FlatTree.of(nodes, device))


_NARROW = (torch.float32, torch.bfloat16)
COMPILED = OperationColumn(
    name="c++",
    devices=("cpu",),
    dtypes=_NARROW,
    largest=512,
    multiple=16,
    most_group=0,
    absent=_no_kernels,
    functions=lambda: cast(Functions, kernels),
    paths=lambda nodes, device: paths_of(nodes),
)
"""The kernels of processors, `hocket.policies.kernels`."""
TRITON = OperationColumn(
    name="triton",
    devices=("cuda", "cpu") if _interpreted() else ("cuda",),
    dtypes=_NARROW,
    largest=256,
    multiple=2,
    most_group=64,
    absent=_no_triton,
    functions=_triton_functions,
    paths=_triton_paths,
)
"""CUDA, and ROCm, which torch calls the same."""
PLAIN = OperationColumn(
    name="torch",
    devices=None,
    dtypes=(*_NARROW, torch.float64),
    largest=2**30,
    multiple=2,
    most_group=0,
    absent=lambda head: None,
    functions=lambda: plain,
    paths=FlatTree.of,
)
"""Anything that torch runs on."""
COLUMNS = (COMPILED, TRITON, PLAIN)
"""In order of preference."""


def column_of(device: torch.device, dtype: torch.dtype, head: int = 0, group: int = 1) -> OperationColumn:
    """The first column that has every operation there; `head` 0 where no heads are concerned.

    Raises:
        ConfigurationError: when none has, with what each says.
    """
    return _column_of(device.type, dtype, head, group)


def common_column(device: torch.device, dtype: torch.dtype, shapes: Sequence[tuple[int, int, int]]) -> OperationColumn:
    """The one that serves all layers of a model, whose attention has `shapes`: query heads, key heads, their size."""
    columns = {column_of(device, dtype, size, heads // shared).name: None for heads, shared, size in shapes}
    return [column for column in COLUMNS if column.name in columns][-1]


@functools.cache
def _column_of(device: str, dtype: torch.dtype, head: int, group: int) -> OperationColumn:
    refusals = []
    for column in COLUMNS:
        operations = OPERATIONS if head else [operation for operation in OPERATIONS if not operation.by_head]
        sentences = (column.refusal(operation, torch.device(device), dtype, head, group) for operation in operations)
        why = next((sentence for sentence in sentences if sentence is not None), None)
        if why is None:
            return column
        refusals.append(why)
    raise ConfigurationError(f"no column of operations serves: {'; '.join(refusals)}")


def functions_for(x: Tensor) -> Functions:
    """The functions that compute on such a tensor where heads do not matter."""
    return _functions_for(x.device.type, x.dtype)


@functools.cache
def _functions_for(device: str, dtype: torch.dtype) -> Functions:
    return _column_of(device, dtype, 0, 1).functions()
