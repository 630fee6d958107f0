"""The paged engine as it runs on a device, in plain torch on the processor, beside the engine of the C++ kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import test_interrupted
import torch
from test_paged_engine import held, make, mixed, same
from twin import column_alone

from hocket.core.packing import pack
from hocket.engine import local, paged_model, running
from hocket.engine.fixed_step import Body, FixedStep
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request, Sample
from hocket.policies import kernels
from hocket.policies.causal_lm import CausalLM
from hocket.policies.operations import plain
from hocket.types import Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(16), reason="no compiler for the kernels")
NEAR = 2e-4
"""Log-probs of two columns in fp32 differ by less."""


@pytest.fixture
def twin() -> Iterator[None]:
    with column_alone("torch"):
        yield


def near(samples: list[Sample], due: list[Sample]) -> None:
    """The same tokens, and log-probs up to rounding."""
    for sample, other in zip(samples, due, strict=True):
        assert sample.tokens.tolist() == other.tokens.tolist()
        assert sample.finish == other.finish
        assert np.abs(sample.logp - other.logp).max(initial=0.0) < NEAR


def distances(policy: CausalLM, asked: list[Request], samples: list[Sample]) -> np.ndarray:
    """How far the learner's log-probs are from the sampler's."""
    turns = [
        Turn("a", "policy", np.array(request.tokens), sample.tokens, logp=sample.logp, decoding=request.decoding)
        for request, sample in zip(asked, samples, strict=True)
    ]
    batch = pack([Trajectory(Scenario(str(number)), [turn]) for number, turn in enumerate(turns)])
    found = policy.evaluate(batch, [Quantity.LOGP]).logp.detach().numpy()
    return np.abs(found - batch.logp["behaviour"].values.numpy())


@pytest.mark.parametrize(("kind", "more"), [("qwen3", {}), ("llama", {}), ("mistral", {"sliding_window": 16})])
def test_tokens_are_those_of_the_kernels(kind: str, more: dict[str, int]) -> None:
    """All ways of sampling: temperatures, cut vocabularies, bans, stop strings, imposed beginnings."""
    policy = make(kind, **more)
    asked = mixed(8, seed=1)
    due = LocalEngine(policy).sample(asked)
    with column_alone("torch"):
        engine = LocalEngine(policy)
        near(engine.sample(asked), due)
        assert engine._cache is not None
        assert engine._cache.kernels is plain
        assert engine.counts.reused > 0
        held(engine)


def test_rows_that_end_make_room_and_pages_are_given_back() -> None:
    """Few rows and few pages: refill, eviction and rows that must wait, with the same tokens."""
    policy, asked = make(), mixed(14, seed=5)
    due = LocalEngine(policy).sample(asked)
    with column_alone("torch"):
        page = local.PagedCache(policy.model, "fp32", plain, 2**20).page_bytes
        engine = LocalEngine(policy, max_rows=8, max_bytes=10 * page)
        near(engine.sample(asked), due)
        assert engine.counts.evicted > 0
        assert engine.counts.preempted > 0
        assert held(engine) <= 10


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize(("precision", "bound"), [("fp32", 1e-4), ("bf16", 0.1)])
def test_sampler_and_learner_agree(precision: str, bound: float) -> None:
    policy = make(precision=precision)
    cut = [request.decoding.truncates or request.decoding.banned or request.prefix for request in mixed(24, seed=2)]
    asked = [request for request, some in zip(mixed(24, seed=2), cut, strict=True) if not some]
    assert distances(policy, asked, LocalEngine(policy).sample(asked)).max() < bound


def test_interrupted_responses_go_on_under_the_new_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights change thrice in the middle: tokens, and the version that wrote each, are those of the kernels."""
    monkeypatch.setattr(running, "BREATH", 0.0)
    policy = test_interrupted.make("fp32")
    kept = test_interrupted.states(policy, 1 + len(test_interrupted.SWITCHES))
    samples = []
    for column in ("c++", "torch"):
        with column_alone(column):
            engine = LocalEngine(policy)
            engine.interrupted = True
            samples.append(test_interrupted.interrupted(engine, policy, kept, test_interrupted.asked()))
    near(samples[1], samples[0])
    several = [(one.versions, other.versions) for one, other in zip(*samples, strict=True) if one.versions is not None]
    assert len(several) > 10
    assert all(np.array_equal(one, other) for one, other in several)


@pytest.mark.parametrize("column", ["c++", "torch"])
def test_passes_as_a_device_repeats_them_give_the_same(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of constant shapes, with rows that only fill a place and a pool that grows in between."""
    policy, asked, shapes = make(), mixed(14, seed=5), set[tuple[int, ...]]()
    with column_alone(column):
        due = LocalEngine(policy).sample(asked)

        def step(self: FixedStep, body: Body, *inputs: torch.Tensor) -> torch.Tensor:
            shapes.add(tuple(map(len, inputs)))
            return body(*inputs)

        monkeypatch.setattr(paged_model.PagedModel, "_recordable", lambda self: True)
        monkeypatch.setattr(FixedStep, "__call__", step)
        (same if column == "c++" else near)(LocalEngine(policy).sample(asked), due)
    assert shapes == {(16, 16, 16, 16, 17, 16)}


@pytest.mark.usefixtures("twin")
def test_pages_are_of_the_precision() -> None:
    engine = LocalEngine(make(precision="bf16"))
    engine.sample(mixed(2))
    assert engine._cache is not None
    assert engine._cache.pool.keys[0].dtype is torch.bfloat16
