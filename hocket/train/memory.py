"""How much the learner may hold at once: chosen at the start of a run, by measurement where memory is short."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch

from hocket.core.media import media_in, reader_of, words_of
from hocket.core.packing import pack
from hocket.policies.activation_cache import MAX_BYTES, WORTH, worth
from hocket.policies.family import CHECKPOINTING, Checkpointing
from hocket.policies.sequences import ATTENTION_LENGTH, Row
from hocket.policies.shapes import model_size
from hocket.policies.stored_weights import weight_count
from hocket.policies.support import supports
from hocket.stages import Task
from hocket.train.cores import PROC, control_groups
from hocket.train.oom_retry import LEAST_BUDGET
from hocket.train.settings import Config, MemorySettings
from hocket.types import Quantity, Scenario, Trajectory, Turn

if TYPE_CHECKING:
    from hocket.policies.causal_lm import CausalLM
    from hocket.train.learner import Learner

GIB = 2**30
LONGEST = 4096
"""Sequences of several turns, of a model without a limit of its own, are taken to be so long."""

LOOKED_AT = 16
"""Prompts whose lengths are looked at."""

SHARE = 0.8
"""Of the free memory, what is planned with; the rest is for what was not foreseen."""

OPERATIONS = {"cpu": 5e11, "cuda": 1e14}
"""What one measured forward and backward pass may cost, some seconds; shorter sequences are measured above it."""

SEEN = 2**28
"""Bytes that the smaller of the two measured batches should take, by the bound: enough to stand out from noise."""

LARGE, MEDIUM = 2**22, 2**20
"""Bytes from which a freed block is given back: of adapted models, and of passes that make activations again.

In such a pass gradients come to be as states go. Kept in the heap, they leave gaps that the next pass does not fit in.
"""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""

WAYS: dict[Checkpointing, str] = {
    False: "",
    True: " with checkpointing",
    "host": " with checkpoints in the host's memory",
}
"""In words."""

TIMES = 3
"""The larger batch has so many times the rows of the smaller."""


@dataclass(frozen=True)
class Cost:
    """Bytes of a forward and backward pass: `fixed + per_token * tokens`, tokens counted as the budget counts them.

    Attributes:
        length: tokens of a sequence from which on each further one costs the same, because no scores are held; None
            where they are.
    """

    fixed: float
    per_token: float
    length: int | None = None

    def row(self, length: int) -> float:
        """What a sequence of `length` tokens counts."""
        same = length if self.length is None else min(length, self.length)
        return length * (1 + same / ATTENTION_LENGTH)

    def longest(self, room: float) -> int:
        """Tokens of the longest sequence that fits into `room` bytes."""
        most = max(0.0, (room - self.fixed) / self.per_token)
        longest = int(ATTENTION_LENGTH / 2 * (math.sqrt(1 + 4 * most / ATTENTION_LENGTH) - 1))
        if self.length is None or longest <= self.length:
            return longest
        return int(most / (1 + self.length / ATTENTION_LENGTH))

    def budget(self, room: float) -> int:
        """The largest budget that fits into `room` bytes, a multiple of `LEAST_BUDGET`; 0 when none does."""
        if self.per_token <= 0:
            return 0
        return max(0, int((room - self.fixed) / self.per_token)) // LEAST_BUDGET * LEAST_BUDGET


@dataclass(frozen=True)
class MemoryPlan:
    """What was chosen; `token_budget` is None where there is nothing to choose.

    Attributes:
        why: in words. figures: GiB and bytes that it was chosen by.
        warning: a sentence where the longest sequences do not fit, with the length that does.
        predicted_mib: what the run is predicted to hold at its peak; None where that is not counted.
    """

    token_budget: int | None = None
    checkpointing: Checkpointing = False
    why: str = ""
    figures: dict[str, float] | None = None
    warning: str = ""
    predicted_mib: float | None = None


def planned(config: Config, task: Task, learners: Iterable[Learner], *, several_turns: bool) -> MemoryPlan:
    """What the learners of a run hold at once; that of a control task is small."""
    trained = [learner for learner in learners if hasattr(learner.policy, "token_budget")]
    if not trained:
        return MemoryPlan(why="a small network")
    policies = {id(learner.policy): cast("CausalLM", learner.policy) for learner in trained}
    largest = max(policies.values(), key=_weights)
    recipe = trained[0].recipe
    samples = recipe.curriculum.prompts * (recipe.rollout.samples or 1)
    responses = config.decoding.max_tokens
    limit = min(LONGEST, largest.context_length or LONGEST)

    def longest() -> int:
        return limit if several_turns else min(limit, 2 * longest_prompt(task, largest) + responses)

    held = held_bytes(
        largest,
        references=sum(learner.reference not in (None, learner.policy) for learner in trained),
        policies=sum(not learner.frozen for learner in trained),
        rows=min(256, samples),
        length=longest(),
    )
    return plan_memory(largest, config.memory, held=held, longest=longest, responses=responses)


def longest_prompt(task: Task, policy: CausalLM, most: int = LOOKED_AT) -> int:
    """Tokens of the longest of up to `most` prompts, pictures and sounds included, what the template adds left out."""
    size = task.size("train")
    count = most if size is None else min(most, size)
    scenarios = [task.scenario("train", number) for number in range(count)]
    reader = reader_of(policy.tokenizer)

    def tokens(scenario: Scenario) -> int:
        shown = [] if reader is None else [len(reader.ids(digest)) for _, digest in media_in(scenario.messages)]
        text = "\n".join(words_of(message["content"]) for message in scenario.messages)
        return len(policy.tokenizer(text)["input_ids"]) + sum(shown)

    return max(map(tokens, scenarios), default=0)


def _weights(policy: CausalLM) -> int:
    return sum(weight.numel() for weight in policy.module.parameters())


def plan_memory(
    policy: CausalLM, settings: MemorySettings, *, held: float, longest: Callable[[], int], responses: int
) -> MemoryPlan:
    """Chooses for `policy`, the largest of a run. Measures only where a generous bound does not fit.

    Args:
        held: bytes that the run holds beside one learner's pass, see `held_bytes`.
        longest: tokens of the run's longest sequences; called only when something is measured.
        responses: tokens of them that are decisions.
    """
    budget = int(settings.token_budget or policy.token_budget)
    if settings.token_budget is not None:
        return MemoryPlan(budget, settings.checkpointing or False, "set by memory.token_budget")
    free = available_memory(policy.device)
    if free is None:
        return MemoryPlan(budget, settings.checkpointing or False, "the system does not say how much memory is free")
    bound = bound_bytes(policy, budget)
    room = SHARE * free - held
    figures = {"free_gib": round(free / GIB, 2), "held_gib": round(held / GIB, 2), "bound_gib": round(bound / GIB, 2)}
    if bound <= room:
        return MemoryPlan(budget, settings.checkpointing or False, "there is plenty", figures)
    return _measured(policy, settings, room, figures, length=longest(), responses=responses)


def _measured(
    policy: CausalLM,
    settings: MemorySettings,
    room: float,
    figures: dict[str, float],
    *,
    length: int,
    responses: int,
) -> MemoryPlan:
    """The largest budget that fits without checkpointing, or with it where a long sequence would not fit otherwise."""
    ways = CHECKPOINTING if policy.device.type != "cpu" else CHECKPOINTING[:2]
    ways = ways if settings.checkpointing is None else (settings.checkpointing,)
    plan = MemoryPlan()
    for checkpointing in ways:
        cost = measured_cost(policy, length, responses, checkpointing=checkpointing)
        if cost is None:
            return MemoryPlan(
                int(policy.token_budget),
                checkpointing,
                "memory may be short, and it cannot be measured here",
                figures,
            )
        fits, needed = cost.budget(room), max(LEAST_BUDGET, LEAST_BUDGET * (cost.row(length) // LEAST_BUDGET))
        budget = int(min(policy.token_budget, max(LEAST_BUDGET, fits)))
        kib = cost.per_token / 1024
        why = f"{room / GIB:.1f} GiB for the learner at {kib:.0f} KiB a token" + WAYS[checkpointing]
        warning = ""
        if fits < needed:
            why += f", which is short for sequences of {length} tokens"
            warning = (
                f"memory is short for sequences of {length} tokens: {cost.longest(room)} fit; lower "
                "decoding.max_tokens, or see `hocket doctor --model` for ways that take less"
            )
        plan = MemoryPlan(budget, checkpointing, why, {**figures, "kib_per_token": round(kib, 1)}, warning)
        if fits >= needed:
            break
    return plan


# ---------------------------------------------------------------- what is needed


def bound_bytes(policy: CausalLM, budget: float) -> float:
    """An upper bound of what a forward and backward pass over `budget` tokens holds, gradients of weights aside."""
    size = model_size(policy.model.config)
    # Counted generously: norms, projections, rotary turns and gate with their gradients, and attention that keeps its
    # scores, of which a sequence has at most ATTENTION_LENGTH per token of the budget and head.
    layers = sum(
        (24 + 6 * layer.chosen) * layer.hidden + 8 * layer.inner + 3 * layer.heads * ATTENTION_LENGTH
        for layer in size.layers
    )
    logits = 4 * 2**24 + 8 * size.vocabulary
    return 4.0 * (layers * budget + logits)


def held_bytes(policy: CausalLM, *, references: int, policies: int, rows: int, length: int) -> float:
    """Bytes that a run holds beside the learner's activations: gradients, optimiser, references and sampled rows.

    Args:
        references: copies of the weights to take KL against. policies: trained policies of this size.
        rows: sequences sampled together. length: their tokens.
    """
    every = _weights(policy)
    trained = sum(weight.numel() for weight in policy.module.parameters() if weight.requires_grad)
    copies = references * every + (0.5 * every if policy.precision == "bf16" else 0.0)
    cache = rows * model_size(policy.model.config).cached(length)
    recorded = policies * MAX_BYTES if supports(policy.model, 1) and worth(policy.model) else 0
    # Gradients and AdamW's two moments for each trained weight.
    return 4.0 * (policies * 3 * trained + copies + cache) + recorded


def measured_cost(policy: CausalLM, length: int, responses: int, *, checkpointing: Checkpointing) -> Cost | None:
    """Runs two batches of equal sequences forward and backward and fits their peaks; None where none can be seen.

    The weights stay as they are, and no gradient is left behind.
    """
    affordable = OPERATIONS.get(policy.device.type, 5e11) / (6 * _weights(policy))
    length = int(max(8, min(length, affordable / (1 + TIMES))))
    per_token = bound_bytes(policy, 1) - bound_bytes(policy, 0)
    rows = int(max(1, min(SEEN / per_token, affordable / (1 + TIMES)) / length))
    if checkpointing:
        return_blocks()
    with _with_checkpointing(policy, checkpointing):
        _pass(policy, 1, length, responses)  # What is made once, at the first use, is not a cost of tokens.
        less = peak_of(lambda: _pass(policy, rows, length, responses), policy.device)
        more = peak_of(lambda: _pass(policy, TIMES * rows, length, responses), policy.device)
    if less is None or more is None:
        return None
    tokens = _cost_of(rows, length)
    rate = max(1.0, (more - less) / ((TIMES - 1) * tokens))
    return Cost(max(0.0, less - rate * tokens), rate, length if supports(policy.model, length) else None)


def _pass(policy: CausalLM, rows: int, length: int, responses: int) -> None:
    """One forward and backward pass over sequences that share nothing."""
    vocabulary = model_size(policy.model.config).vocabulary
    tokens = (np.arange(rows)[:, None] + 7 * np.arange(length)) % vocabulary
    split = max(1, length - responses)
    played = [
        Trajectory(
            Scenario(str(number)),
            [Turn("probe", policy.name, row[:split], row[split:], logp=np.zeros(length - split, np.float32))],
        )
        for number, row in enumerate(tokens)
    ]
    batch = pack(played)
    wanted = Quantity.LOGP if getattr(policy, "decides", True) else Quantity.SCORE
    policy.evaluate(batch, {wanted}).get(wanted).sum().backward()  # type: ignore[no-untyped-call]
    policy.module.zero_grad(set_to_none=True)


@contextlib.contextmanager
def _with_checkpointing(policy: CausalLM, checkpointing: Checkpointing) -> Iterator[None]:
    """Inside, everything is one part."""
    before = policy.token_budget, policy.checkpointing
    policy.token_budget, policy.checkpointing = float("inf"), checkpointing
    try:
        yield
    finally:
        policy.token_budget, policy.checkpointing = before


def _cost_of(rows: int, length: int) -> float:
    """Tokens of some rows as a budget counts them."""
    none = np.zeros(0, np.int64)
    return rows * Row(np.zeros(length, np.int64), none, none).cost


# ---------------------------------------------------------------- what there is


def peak_of(work: Callable[[], object], device: torch.device) -> int | None:
    """Bytes by which memory in use rises at most while `work` runs; None where the system does not tell."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return int(torch.cuda.max_memory_allocated(device)) - before
    _give_back()
    try:
        (PROC / "self" / "clear_refs").write_text("5")  # Resets the high-water mark (proc(5)).
        resident = _status("VmRSS")
    except (OSError, KeyError):
        return None
    work()
    return max(0, _status("VmHWM") - resident)


def _give_back() -> None:
    """Returns freed memory to the system, where the C library can, so that its use again is seen."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks(learners: Iterable[Learner]) -> None:
    """`return_blocks` with a large adapted model, whose backward pass takes blocks larger than those it frees."""
    adapted = [cast("CausalLM", learner.policy) for learner in learners if getattr(learner.policy, "lora", False)]
    if max((weight_count(policy.model) for policy in adapted), default=0) >= WORTH:
        return_blocks(LARGE)


def return_blocks(least: int = MEDIUM) -> None:
    """Has freed blocks of `least` bytes or more go back to the system at once, where the C library can do that.

    Passes that make activations again, and those of adapters, would use new memory of the heap for every layer.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        for parameter, size in ((M_MMAP_THRESHOLD, least), (M_TRIM_THRESHOLD, 16 * least)):
            library.mallopt(parameter, size)


def _status(name: str) -> int:
    """A size from `/proc/self/status`, bytes."""
    for line in (PROC / "self" / "status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise KeyError(name)


def available_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on `device`; None where the system does not tell."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    rooms = [room for folder in control_groups("memory") if (room := _group_room(folder)) is not None]
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
        rooms += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except OSError:
        pass
    if not rooms and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        # Half of what is built in is taken for free, as this system does not count it.
        rooms.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    return min(rooms, default=None)


def _group_room(folder: Path) -> int | None:
    """What a control group's limit leaves; None without one. Files it can forget count as room."""
    names = ("memory.max", "memory.current", "inactive_file")
    if not (folder / names[0]).is_file():
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    try:
        limit, used = (int((folder / name).read_text()) for name in names[:2])
        pairs = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        counted = {name: int(value) for name, value in pairs}
    except (OSError, ValueError):
        return None  # No such file, or `max`.
    return max(0, limit - used + counted.get(names[2], 0))
