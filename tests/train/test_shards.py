"""Weights in shares: what every rank holds, and that the bits are those of one process that holds everything."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rank_threads import on_ranks
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models

from hocket.core.batch import Batch
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.distributed.cluster.sharded_problem import whole_state
from hocket.distributed.cluster.sharding import divide
from hocket.distributed.cluster.shards import FETCH, PIECE, Meeting, Shards, Unit, blocks_of, bounds, strays
from hocket.recipe import Recipe
from hocket.recipes import all_recipes
from hocket.train.learner import Learner
from hocket.train.settings import OptimiserSettings
from hocket.types import Scenario as Told
from hocket.types import Score, Trajectory, Turn

STEPS = 2
TWICE = {"update.epochs": 2, "update.minibatches": 2}


def batch_of(seed: int, off: float = 0.0) -> Batch:
    """Groups of answers to prompts of their own, of random lengths and scores; their log-probs may be off."""
    draw, found = Key.of(seed).numpy(), []
    for group in range(5):
        seen = draw.integers(3, 40, draw.integers(2, 9))
        for sample in range(3):
            acted = draw.integers(3, 40, draw.integers(1, 8))
            logp = -draw.uniform(0.2, 3.0, len(acted)).astype(np.float32)
            turn = Turn("policy", "policy", seen, acted, logp=logp + np.float32(off))
            score = {"correct": Score(float(draw.integers(0, 4)))}
            found.append(Trajectory(Told(f"s{group}"), [turn], sample=sample, scores=score, terminated=True))
    return pack(found)


def learner_of(
    kind: str, recipe: Recipe, budget: int, *, again: bool = False, dtype: torch.dtype = torch.float32
) -> Learner:
    policy = tiny_models.policy(kind)
    policy.name = "policy"
    policy.model.to(dtype)
    policy.token_budget, policy.checkpointing = budget, again
    # Rounding at random draws for whole weights.
    optimiser = OptimiserSettings(rounding="masters")
    learner = Learner(policy, recipe, total_steps=STEPS, leaves=4, optimiser=optimiser)
    if learner.reference is not None:
        learner.reference.token_budget = budget  # type: ignore[attr-defined]
    return learner


def learnt(learner: Learner, off: float = 0.0) -> list[Any]:
    """What is told of some updates."""
    told = []
    for step in range(1, STEPS + 1):
        batch = learner.compute_credit(learner.annotate(batch_of(step, off)), {"correct": 1.0}, step)
        told.append(learner.learn(batch, Key.of(0).derive(step), step))
    return told


@dataclass
class Rank:
    """A rank that learnt with its shares, and what it was told."""

    learner: Learner
    meeting: Meeting
    told: list[Any]

    def shares(self) -> list[Tensor]:
        return [self.meeting.held[id(weight)].share for weight in self.learner.policy.module.parameters()]

    def held(self) -> int:
        """Bytes of parameters, gradients and moments."""
        whole, shares = list(self.learner.policy.module.parameters()), self.shares()
        moments = [
            one for kept in self.learner.optimiser.state.values() for name, one in kept.items() if name != "step"
        ]
        gradients = [one.grad for one in (*whole, *shares) if one.grad is not None]
        return nbytes([*whole, *shares, *gradients, *moments])


def nbytes(tensors: list[Tensor]) -> int:
    """Of the memory behind tensors, each counted once."""
    memory = [one.untyped_storage() for one in tensors]
    return sum({one.data_ptr(): one.nbytes() for one in memory if one.nbytes()}.values())


def on_shares(size: int, *made: Any, off: float = 0.0, ahead: bool = False, **more: Any) -> list[Rank]:
    """As many ranks learn with their shares, where the batch of the last one may be off, and layers may come ahead."""
    # Not in threads: that models are made without draws is a switch of the whole process.
    learners = [learner_of(*made, **more) for _ in range(size)]

    def learn(ranks: Any) -> Rank:
        learner, meeting = learners[ranks.rank], Meeting(ranks)
        divide({"policy": learner}, meeting)
        meeting.prefetches = ahead
        learner.ranks = ranks
        with meeting.jointly():
            return Rank(learner, meeting, learnt(learner, off if ranks.rank == size - 1 else 0.0))

    return on_ranks(size, learn)


def whole_of(ranks: list[Rank]) -> Any:
    """The optimiser's state, put together from all ranks."""
    states = [rank.learner.optimiser.state_dict() for rank in ranks]
    return whole_state(ranks[0].learner.optimiser, ranks[0].meeting, states[1:])


CASES: dict[str, tuple[str, str, dict[str, Any], int, dict[str, Any]]] = {
    "tied, many chunks": ("qwen3", "grpo-kl", {}, 40, {}),
    "values, mini-batches, activations made again": ("qwen3", "ppo", TWICE, 10**6, {"again": True}),
    "a coupled loss": ("llama", "gvpo", {}, 40, {}),
    "another architecture": ("gpt2", "ppo", TWICE, 40, {}),
    "and one more": ("gemma2", "grpo-kl", {}, 10**6, {}),
    "weights in bf16": ("qwen3", "ppo", TWICE, 40, {"dtype": torch.bfloat16}),
    "weights in float64": ("llama", "grpo-kl", {}, 40, {"dtype": torch.float64}),
}


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_shares_learn_the_bits_of_the_whole(case: str, size: int) -> None:
    kind, name, more, budget, how = CASES[case]
    recipe = all_recipes()[name].but({"update.lr": 1e-2, **more})
    alone = learner_of(kind, recipe, budget, **how)
    begun = [weight.detach().clone() for weight in alone.policy.module.parameters()]
    told = learnt(alone)
    ranks = on_shares(size, kind, recipe, budget, ahead=size == 2, **how)
    weights = list(alone.policy.module.parameters())
    assert not all(torch.equal(*pair) for pair in zip(weights, begun, strict=True)), "nothing was learnt"
    for parts, weight in zip(zip(*(rank.shares() for rank in ranks), strict=True), weights, strict=True):
        assert torch.equal(torch.cat(parts).reshape(weight.shape), weight)
    for rank in ranks:
        assert repr(rank.told) == repr(told)
    found, due = whole_of(ranks)["state"], alone.optimiser.state_dict()["state"]
    assert found.keys() == due.keys()
    numbers = torch.as_tensor
    assert all(torch.equal(numbers(found[at][name]), numbers(due[at][name])) for at in due for name in due[at])


def test_a_rank_that_has_another_loss_is_named() -> None:
    with pytest.raises(HocketError, match="learner 3 has another loss than learner 0"):
        on_shares(4, "qwen3", all_recipes()["grpo"], 40, off=0.5)


def test_what_fails_leaves_no_weights_behind() -> None:
    """Out of memory, an evaluation is begun again in smaller parts, maybe with other weights."""
    policies: list[Any] = [tiny_models.policy("qwen3") for _ in range(2)]

    def starve(meeting: Meeting, shards: Shards) -> None:
        with torch.no_grad(), shards.around():
            meeting.come(shards.inner[1])
            shards.inner[0].weights[0].fill()  # As where there is room for one weight, and not for the next.
            raise MemoryError

    def fail(ranks: Any) -> tuple[int, int]:
        module, meeting = policies[ranks.rank].module, Meeting(ranks)
        shards = Shards(module, meeting)
        with meeting.jointly(), pytest.raises(MemoryError):
            starve(meeting, shards)
        return meeting.gathered, nbytes(list(module.parameters()))

    assert on_ranks(2, fail) == [(0, 0)] * 2


@pytest.mark.parametrize("size", [2, 4])
def test_a_rank_holds_its_share_of_weights_gradients_and_moments(size: int) -> None:
    """Bytes are counted between updates; while it computes a rank has the layers it is at, and what is outside them."""
    recipe = all_recipes()["grpo-kl"].but({"update.lr": 1e-2})
    alone = learner_of("qwen3", recipe, 40)
    learnt(alone)
    weights = list(alone.policy.module.parameters())
    whole = sum(4 * weight.nbytes for weight in weights)  # Weights, gradients, two moments.
    slack = sum(4 * 4 * PIECE for _ in weights)
    for rank in on_shares(size, "qwen3", recipe, 40, ahead=size == 2):
        assert whole / size - slack <= rank.held() <= whole / size + slack
        policy, reference = (one.residence for one in (rank.learner.policy, rank.learner.reference))  # type: ignore
        layer = max(sum(held.nbytes for held in unit.weights) for unit in policy.inner)
        outside = sum(held.nbytes for one in (policy, reference) for held in one.outside.weights)
        assert rank.meeting.peak <= outside + (2 if rank.meeting.prefetches else 1) * layer
        assert rank.meeting.gathered == 0
        assert all(one.grad is not None for one in rank.shares() if one.numel())


def test_the_next_layer_comes_while_one_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forwards the layer after, backwards the one before; every round is that of a thread but the first of a pass."""
    rounds: list[tuple[int, int, bool]] = []
    plain = Meeting._round

    def noted(self: Meeting, kind: int, unit: Unit | None = None, gradients: Any = None) -> bool:
        if self.ranks.rank == 0 and unit is not None:
            ahead = self._coming is not None or threading.current_thread().name.startswith("ahead")
            rounds.append((kind, unit.number, ahead))
        return plain(self, kind, unit, gradients)

    monkeypatch.setattr(Meeting, "_round", noted)
    learners = [learner_of("qwen3", all_recipes()["grpo"], 10**6) for _ in range(2)]

    def learn(ranks: Any) -> list[int]:
        learner, meeting = learners[ranks.rank], Meeting(ranks)
        divide({"policy": learner}, meeting)
        meeting.prefetches = True
        learner.ranks = ranks
        with meeting.jointly():
            learnt(learner)
        assert meeting._coming is None
        assert meeting.gathered == 0
        return [unit.number for unit in learner.policy.residence.inner]  # type: ignore[attr-defined]

    inner = on_ranks(2, learn)[0]
    fetched = [(number, ahead) for kind, number, ahead in rounds if kind == FETCH and number in inner]
    first, last = inner[0], inner[-1]
    assert len(fetched) > 4 * len(inner)
    assert all(ahead == (number != first) for number, ahead in fetched if number not in (first, last))
    assert {ahead for number, ahead in fetched if number == first} == {True, False}  # Begun by it, and come back to.


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_shares_are_a_partition_that_begins_at_whole_pieces(count: int, size: int) -> None:
    ends = bounds(count, size)
    assert (ends[0], ends[-1], len(ends)) == (0, count, size + 1)
    assert ends == sorted(ends)
    assert all(end % PIECE == 0 or end == count for end in ends)


@pytest.mark.parametrize("kind", ["qwen3", "llama", "gpt2", "gemma2"])
def test_what_several_layers_use_or_is_no_weight_cannot_be_held_in_shares(kind: str) -> None:
    module: Any = tiny_models.policy(kind).module
    assert not strays(module)
    block, other = blocks_of(module)[:2]
    name = next(name for name, _ in block.named_parameters())
    place, last = name.rpartition(".")[::2]
    setattr(other.get_submodule(place), last, block.get_parameter(name))
    assert [one.endswith(name) for one in strays(module)] == [True, True]
    module.register_buffer("count", torch.zeros(1))
    assert strays(module)[-1] == "count"
