"""Random batches for the objectives' tests: trees, empty trajectories, filtered and weighted occurrences, float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from hocket.core.batch import Batch, Occurrences, RecordedNumbers
from hocket.core.keys import Key
from hocket.types import Evaluation, Terms

torch.set_num_threads(1)

Rows = Sequence[Sequence[int]]


def batch_of(rows: Rows, *, advantage: Tensor | None = None, weight: Tensor | None = None, **columns: Tensor) -> Batch:
    """A batch whose trajectory i consists of the decisions `rows[i]`; `columns` are log-probs by name."""
    decision = torch.tensor([d for row in rows for d in row], dtype=torch.long)
    trajectory = torch.tensor([i for i, row in enumerate(rows) for _ in row], dtype=torch.long)
    size = max((d for row in rows for d in row), default=-1) + 1
    size = max([size, *(len(column) for column in columns.values())])
    number, turns = len(rows), torch.zeros(1, dtype=torch.long)
    ones = torch.ones(len(decision), dtype=torch.float64)
    whole = torch.zeros(size, dtype=torch.long)
    return Batch(
        action=whole,
        turn=whole,
        segment=whole,
        version=whole,
        forced=whole.bool(),
        logp={name: RecordedNumbers(values, torch.ones(size, dtype=torch.bool)) for name, values in columns.items()},
        parent=turns - 1,
        agent=turns,
        role=turns,
        policy=turns,
        state=turns,
        index=turns,
        observation=[np.zeros(0, np.int64)],
        scenario=torch.zeros(number, dtype=torch.long),
        source=torch.zeros(number, dtype=torch.long),
        order=torch.arange(number),
        terminated=torch.ones(number, dtype=torch.bool),
        truncated=torch.zeros(number, dtype=torch.bool),
        occurrences=Occurrences(
            decision, trajectory, ones * 0 if advantage is None else advantage, ones if weight is None else weight
        ),
        names={},
    )


@st.composite
def batches(draw: st.DrawFn, *, credit: Sequence[str] = ("zero", "trajectory", "decision")) -> tuple[Batch, Tensor]:
    """A random batch with `behaviour` and `reference` log-probs, values and targets, and current log-probs `[T]`."""
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    shared = draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths)))
    kind = draw(st.sampled_from(list(credit)))
    weighting = draw(st.sampled_from(["ones", "some", "none", "importance"]))
    spread = draw(st.sampled_from([0.0, 0.1, 1.0, 8.0]))
    noise = Key.of(draw(st.integers(0, 10**6))).numpy()
    rows: list[list[int]] = []
    fresh = 0
    for length, share in zip(lengths, shared, strict=True):
        prefix = rows[-1][: length // 2] if share and rows else []
        own = list(range(fresh, fresh + length - len(prefix)))
        fresh += len(own)
        rows.append([*prefix, *own])
    size = sum(len(row) for row in rows)

    def normal(n: int) -> Tensor:
        return torch.from_numpy(noise.normal(size=n))

    weight = {
        "ones": torch.ones(size, dtype=torch.float64),
        "some": torch.from_numpy(noise.integers(0, 2, size)).double(),
        "none": torch.zeros(size, dtype=torch.float64),
        "importance": torch.from_numpy(noise.uniform(0.1, 2.0, size) * noise.integers(0, 2, size)),
    }[weighting]
    owner = torch.tensor([i for i, row in enumerate(rows) for _ in row], dtype=torch.long)
    advantage = {"zero": normal(size) * 0, "trajectory": normal(len(rows))[owner], "decision": normal(size)}[kind]
    old = -normal(fresh).abs()
    batch = batch_of(rows, advantage=advantage, weight=weight, behaviour=old, reference=-normal(fresh).abs())
    batch = batch.but(value=normal(fresh)).credited(target=normal(size))
    return batch, old + spread * normal(fresh)


def occurrences(batch: Batch) -> list[list[tuple[int, float, float]]]:
    """Per trajectory, (decision, advantage, weight) of every occurrence that counts."""
    found: list[list[tuple[int, float, float]]] = [[] for _ in range(batch.trajectories)]
    seen = batch.occurrences
    columns = (seen.decision, seen.trajectory, seen.advantage, seen.weight)
    for decision, owner, advantage, weight in zip(*(column.tolist() for column in columns), strict=True):
        if weight != 0:
            found[owner].append((decision, advantage, weight))
    return found


def naive_total(parts: list[list[tuple[float, Tensor]]], aggregate: str, horizon: int) -> Tensor:
    """(weight, term) per counted occurrence, by trajectory, to a loss; written out form by form."""
    filled = [part for part in parts if part]
    if not filled:
        return torch.zeros((), dtype=torch.float64)
    sums = [sum((w * x for w, x in part), torch.zeros((), dtype=torch.float64)) for part in filled]
    if aggregate == "token-mean":
        return sum(sums[1:], sums[0]) / sum(len(part) for part in filled)
    if aggregate == "sequence-mean":
        sums = [total / len(part) for total, part in zip(sums, filled, strict=True)]
    if aggregate == "constant-length":
        sums = [total / horizon for total in sums]
    return sum(sums[1:], sums[0]) / len(filled)


def value_and_gradient(loss: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Tensor]:
    """A function's value and gradient at `at`; a constant's gradient is 0."""
    leaf = at.clone().requires_grad_()
    total = loss(leaf)
    if total.requires_grad:
        total.backward()
    return total.detach(), torch.zeros_like(at) if leaf.grad is None else leaf.grad


def total_of(objective: Callable[[Evaluation, Batch], Terms], batch: Batch) -> Callable[[Tensor], Tensor]:
    """The objective's loss as a function of the current log-probs."""
    return lambda logp: objective(Evaluation(logp), batch).total()


def close(left: Tensor, right: Tensor, rtol: float = 1e-9) -> None:
    torch.testing.assert_close(left, right, rtol=rtol, atol=1e-12)


def doubles(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def near_an_edge(batch: Batch, logp: Tensor, *edges: float) -> bool:
    """Whether some log-ratio stands on a bound, where any subgradient is right."""
    gap = (logp - batch.logp["behaviour"].values)[batch.occurrences.decision]
    return any(bool(((gap - edge).abs() < 1e-9).any()) for edge in edges)
