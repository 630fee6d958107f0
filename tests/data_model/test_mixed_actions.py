"""Turns of unlike policies in one batch: actions of unequal shapes, and log-densities in float64."""

from __future__ import annotations

import numpy as np
import torch

from hocket.core.batch import MixedActions
from hocket.core.packing import pack
from hocket.types import Scenario, Trajectory, Turn


def words(*tokens: int) -> Turn:
    logp = np.full(len(tokens), -0.5, np.float32)
    return Turn("writer", "words", np.arange(3), np.array(tokens), logp=logp)


def steps(*values: float) -> Turn:
    action = np.repeat(np.array(values, np.float32)[:, None], 4, 1)
    return Turn("painter", "pictures", np.zeros((len(values), 2)), action, logp=np.array(values) / 3)


def mixed() -> list[Trajectory]:
    return [
        Trajectory(Scenario("a"), [words(7, 8), steps(0.1, 0.2)]),
        Trajectory(Scenario("b"), [steps(0.3), words(9)]),
    ]


def test_each_policy_reads_its_own_actions() -> None:
    batch = pack(mixed())
    assert isinstance(batch.action, MixedActions)
    pictures = torch.nonzero(batch.policy[batch.turn] == batch.names["policy"].index("pictures")).flatten()
    texts = torch.nonzero(batch.policy[batch.turn] == batch.names["policy"].index("words")).flatten()
    assert batch.action[pictures].tolist() == torch.tensor([[0.1] * 4, [0.2] * 4, [0.3] * 4]).tolist()
    assert batch.action[texts].tolist() == [7, 8, 9]
    assert batch.tokens().tolist() == [7, 8, 0, 0, 0, 9]
    assert len(batch.action) == batch.decisions == 6


def test_a_minibatch_of_one_policy_has_plain_actions() -> None:
    batch = pack(mixed())
    part = batch.take(torch.tensor([2, 3]))
    assert torch.is_tensor(part.action)
    assert part.action.shape == (2, 4)
    assert isinstance(batch.take(torch.tensor([1, 2])).action, MixedActions)
    assert torch.is_tensor(pack([Trajectory(Scenario("a"), [words(1)])]).action)


def test_float64_log_densities_stay_and_others_are_float32() -> None:
    behaviour = pack(mixed()).logp["behaviour"]
    assert behaviour.values.dtype == torch.float64
    assert behaviour.values[2].item() == 0.1 / 3
    assert pack([Trajectory(Scenario("a"), [words(1)])]).logp["behaviour"].values.dtype == torch.float32
    listed = Turn("a", "p", np.zeros(1), np.zeros(1, np.int64), logp=[-1.0])  # type: ignore[arg-type]
    assert pack([Trajectory(Scenario("a"), [listed])]).logp["behaviour"].values.dtype == torch.float32
