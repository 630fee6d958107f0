"""Out of memory, the learner does the same in smaller parts, and the run that did is one run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models
from tiny_runs import REWARDS, TINY, rows, weights

from hocket import tasks
from hocket.apps.cli.parser import split_settings
from hocket.core.batch import Batch, Level
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.policies.causal_lm import CausalLM
from hocket.policies.sequences import TOKEN_BUDGET
from hocket.train.config import configure
from hocket.train.oom_retry import MemoryRetry, RetryingProblem, out_of_memory
from hocket.train.trainer import Trainer, resumed
from hocket.types import Evaluation, Quantity, Scenario, Terms, Trajectory, Turn

REFUSED = "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes. Error code 12 (Cannot allocate memory)"  # noqa: E501


def limited(policy: CausalLM, most: int) -> list[int]:
    """Lets `policy` evaluate so many decisions at once at most; returns a list that fills with those it was asked."""
    whole, asked = policy.evaluate, []

    def evaluate(batch: Batch, needs: Any, decisions: Any = None, **more: Any) -> Evaluation:
        asked.append(len(decisions))
        if len(decisions) > most:
            raise RuntimeError(REFUSED)
        return whole(batch, needs, decisions, **more)

    policy.evaluate = evaluate  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError(REFUSED), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_errors_of_allocators(error: Exception, found: bool) -> None:
    assert out_of_memory(error) == found


def test_a_refused_allocation_is_seen() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert out_of_memory(caught.value)


# ---------------------------------------------------------------- one gradient


def problem(policy: CausalLM, seed: int) -> RetryingProblem:
    draw = Key.of(seed).numpy()
    played = []
    for number in range(12):
        seen, acted = (
            draw.integers(3, 30, 20 + int(draw.integers(30))),
            draw.integers(3, 30, 1 + int(draw.integers(30))),
        )
        turn = Turn("a", policy.name, seen, acted, logp=np.zeros(len(acted), np.float32))
        played.append(Trajectory(Scenario(str(number)), [turn]))
    batch = pack(played)
    advantage = torch.from_numpy(draw.normal(size=len(batch.occurrences.decision))).float()
    batch = batch.credited(advantage=advantage, weight=torch.ones(len(advantage)) / len(advantage))

    def loss(now: Evaluation, batch: Batch) -> list[Terms]:
        seen = batch.occurrences
        return [Terms(-now.logp[seen.decision] * seen.advantage, seen.weight)]

    return RetryingProblem(
        batch=batch,
        policy=policy,
        optimiser=torch.optim.SGD(policy.module.parameters(), lr=0.1),
        loss_terms=loss,
        needs=frozenset({Quantity.LOGP}),
        couples=Level.DECISION,
        idle_without_advantage=True,
        retry=MemoryRetry([policy]),
    )


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 99), most=st.integers(100, 250), coupled=st.booleans())
def test_gradients_do_not_depend_on_how_much_fits(seed: int, most: int, coupled: bool) -> None:
    found = []
    for limit in (10**9, most):
        policy = tiny_models.policy()
        policy.token_budget = 2048
        posed = problem(policy, seed)
        posed.couples = Level.BATCH if coupled else Level.DECISION
        asked = limited(policy, limit)
        report = posed.gradient()
        found.append((report["loss"], [weight.grad for weight in policy.module.parameters()]))
        taken = posed.retry.taken()
        refused = any(count > limit for count in asked)
        assert (taken is not None) == refused
        assert policy.token_budget < 2048 if refused else policy.token_budget == 2048
        assert posed.retry.taken() is None
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-5)
    for whole, parts in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(whole, parts, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_checkpointing_is_the_last_resort() -> None:
    policy = tiny_models.policy()
    posed = problem(policy, 0)
    limited(policy, 0)
    with pytest.raises(RuntimeError, match="allocate memory"):
        posed.gradient()
    assert posed.retry.taken() == (256, True)


def test_other_errors_are_not_tried_again() -> None:
    calls = []

    def work() -> None:
        calls.append(1)
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        MemoryRetry([tiny_models.policy()])(work)

    def hungry() -> None:
        calls.append(1)
        raise MemoryError

    with pytest.raises(MemoryError):
        MemoryRetry([])(hungry)  # Nobody has a budget.
    assert len(calls) == 2


# ---------------------------------------------------------------- runs


@pytest.fixture
def trainer(tmp_path: Path) -> Callable[..., Trainer]:
    reward = tmp_path / "mine.py"
    reward.write_text(REWARDS)

    def made(name: str, *more: str) -> Trainer:
        words = [*TINY, "--checkpoint.steps", "99", "--runs", str(tmp_path), "--run", name, "--steps", "4", *more]
        pairs = [*split_settings(words, set())[1], ("reward", (f"{reward}:spread",))]
        return Trainer(configure(pairs, tasks.find("sums")))

    return made


def machine(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "machine.json").read_text())
    return found


def test_a_step_out_of_memory_is_done_again(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    """The parts of this small step are the same before and after, so the run must end as one that had memory."""
    trainer("plain").run()
    spared = trainer("spared")
    for _ in range(2):
        spared.step()
    policy = spared.parts.lead.policy
    assert isinstance(policy, CausalLM)
    whole, tried = policy.evaluate, []

    def once(*arguments: Any, **more: Any) -> Evaluation:
        tried.append(1)
        if len(tried) == 1:
            raise RuntimeError(REFUSED)
        return whole(*arguments, **more)

    policy.evaluate = once  # type: ignore[method-assign]
    spared.step()
    said = (tmp_path / "spared" / "messages.txt").read_text()
    assert f"memory ran out; from step 2 on with parts of {TOKEN_BUDGET // 2} tokens" in said
    change = {
        "step": 2,
        "why": "memory ran out",
        "threads": None,
        "token_budget": TOKEN_BUDGET // 2,
        "checkpointing": False,
    }
    assert machine(tmp_path / "spared")["changes"] == [change]
    assert [path.name for path in (tmp_path / "spared" / "checkpoints").glob("step-*")] == ["step-000002"]
    spared.step()
    spared.folder.release()  # And goes on from step 2 in another process.
    onward = resumed(tmp_path / "spared")
    assert onward.progress.step == 2
    onward.run()
    policy = onward.parts.lead.policy
    assert isinstance(policy, CausalLM)
    assert policy.token_budget == TOKEN_BUDGET // 2
    assert rows(tmp_path / "spared") == rows(tmp_path / "plain")
    assert weights(tmp_path / "spared") == weights(tmp_path / "plain")


@pytest.mark.slow
def test_smaller_parts_are_learnt_from(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    sizes = ["--curriculum.prompts", "8", "--rollout.samples", "8", "--decoding.temperature", "3", "--steps", "1"]
    policies, asked = [], []
    for name in ("plain", "spared"):
        made = trainer(name, *sizes)
        policy = made.parts.lead.policy
        assert isinstance(policy, CausalLM)
        asked.append(limited(policy, 10**9 if name == "plain" else int(0.7 * max(asked[0]))))
        policies.append(policy)
        made.run()
    assert max(asked[1]) == max(asked[0]) > max(asked[1][-2:])
    assert policies[1].token_budget < policies[0].token_budget
    left, right = (dict(rows(tmp_path / name)[-1]) for name in ("plain", "spared"))
    assert left["gradient/norm"] == pytest.approx(right["gradient/norm"], rel=1e-4)


def test_nothing_is_left_to_spare(trainer: Callable[..., Trainer]) -> None:
    hopeless = trainer("hopeless")
    hopeless.step()
    policy = hopeless.parts.lead.policy
    assert isinstance(policy, CausalLM)
    limited(policy, 0)
    with pytest.raises(HocketError, match="out of memory in step 1"):
        hopeless.step()
    hopeless.folder.release()


@pytest.mark.parametrize(("kind", "ways"), [("cpu", [True]), ("cuda", [True, "host"])])
def test_after_checkpointing_only_an_accelerator_has_something_left(kind, ways) -> None:
    policy = SimpleNamespace(token_budget=256, checkpointing=False, device=torch.device(kind))
    retry, tried = MemoryRetry([policy]), []

    def work() -> None:
        tried.append(policy.checkpointing)
        raise MemoryError

    with pytest.raises(MemoryError):
        retry(work)
    assert tried == [False, *ways]
    assert retry.taken() == (256, ways[-1])
