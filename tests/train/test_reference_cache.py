"""Passes over recorded answers: none is made twice, and what is left out changes no number."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import hocket.train.learner as learners
from hocket import tasks
from hocket.core.batch import Batch, RecordedNumbers
from hocket.core.columns import Column
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.methods.base.dpo import DPO
from hocket.methods.group_relative.sfpo import SFPO
from hocket.policies.causal_lm import CausalLM
from hocket.stages import Metrics
from hocket.train.annotate import annotate
from hocket.train.config import configure
from hocket.train.learner import Learner
from hocket.train.loop import RunContext, collect, learn
from hocket.train.models import model_path
from hocket.train.reference_cache import ReferenceCache
from hocket.train.trainer import Trainer
from hocket.types import Quantity, Trajectory


def prepared(folder: Path, recipe: str, task: str, *more: tuple[str, Any]) -> RunContext:
    pairs = [("recipe", recipe), ("task", task), ("runs", str(folder)), ("threads", 1), ("curriculum.prompts", 4)]
    found = tasks.find(task)
    return Trainer(configure([*pairs, *more], found), task=found).parts


def stepped(parts: RunContext, number: int) -> tuple[Batch, Metrics]:
    key = parts.key.derive("step", number)
    experience, _ = asyncio.run(collect(parts, key))
    batch, metrics = learn(parts, experience.trajectories, key, number)
    assert batch is not None
    return batch, metrics


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Decisions evaluated by whom: a `policy` with or `without` gradient, or a `reference`."""
    counted: Counter[str] = Counter()
    whole = CausalLM.evaluate

    def evaluate(self: CausalLM, batch: Batch, needs: Any, decisions: Any = None, **named: Any) -> Any:
        frozen = not any(weight.requires_grad for weight in self.acting_parameters())
        who = "reference" if frozen or (not self.adapted and self.lora) else "policy"
        size = batch.decisions if decisions is None else len(decisions)
        counted[who if who == "reference" or torch.is_grad_enabled() else "without"] += size
        return whole(self, batch, needs, decisions, **named)

    monkeypatch.setattr(CausalLM, "evaluate", evaluate)
    return counted


@pytest.mark.parametrize("adapter", [(), (("lora.rank", 2),)])
def test_a_step_evaluates_each_recorded_decision_once_and_the_reference_in_the_first_epoch_only(
    tmp_path: Path, passes: Counter[str], adapter: tuple[tuple[str, Any], ...]
) -> None:
    parts = prepared(tmp_path, "dpo", "graded-sums?size=4", *adapter)
    for number in range(1, 4):
        passes.clear()
        batch, _ = stepped(parts, number)
        assert passes == Counter({"policy": batch.decisions} | ({"reference": batch.decisions} if number == 1 else {}))


def test_samples_are_not_kept(tmp_path: Path) -> None:
    parts = prepared(tmp_path, "online-dpo", "sums", ("decoding.max_tokens", 4))
    stepped(parts, 1)
    assert len(parts.lead.reference_cache) == 0


@pytest.mark.parametrize(
    ("recipe", "task"),
    [("dpo", "graded-sums?size=6"), ("kto", "graded-sums?size=6"), ("sft", "sums"), ("lipo", "graded-sums?size=6")],
)
def test_what_is_left_out_changes_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, task: str
) -> None:
    def run(name: str) -> tuple[list[Metrics], list[Tensor], RecordedNumbers]:
        parts = prepared(tmp_path / name, recipe, task)
        found = [stepped(parts, number) for number in (1, 2, 3)]
        weights = [weight.detach().clone() for weight in parts.lead.policy.module.parameters()]
        return [metrics for _, metrics in found], weights, found[-1][0].logp["behaviour"]

    def every_pass(batch: Batch, reads: Any, policy: Any, reference: Any, *_: Any, **__: Any) -> Batch:
        return annotate(batch, reads, policy, reference)

    short, weights, behaviour = run("short")
    monkeypatch.setattr(learners, "annotate", every_pass)
    long, expected, whole = run("long")
    assert short == long
    assert all(torch.equal(one, other) for one, other in zip(weights, expected, strict=True))
    assert torch.equal(behaviour.values, whole.values)
    assert torch.equal(behaviour.present, whole.present)


def test_behaviour_that_a_stage_reads_is_evaluated_before_it_acts(tmp_path: Path, passes: Counter[str]) -> None:
    parts = prepared(tmp_path, "dpo", "graded-sums?size=4", ("objective.measure.old", 0.5))
    assert Column.BEHAVIOUR in parts.lead.recipe.reads
    batch, _ = stepped(parts, 1)
    assert passes["without"] == batch.decisions


@pytest.mark.parametrize("changes", [{"update.minibatches": 2}, {"update": SFPO.update}])
def test_an_update_that_does_not_begin_with_all_decisions_leaves_nothing_for_later(changes: dict[str, Any]) -> None:
    recipe = DPO.but(changes)
    policy = CausalLM.from_pretrained(model_path("nano"), key=Key.of(0))
    assert not Learner(policy, recipe, total_steps=1)._evaluates_all
    assert Learner(policy, DPO, total_steps=1)._evaluates_all


# ---------------------------------------------------------------- the cache alone


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[CausalLM, list[Trajectory]]:
    parts = prepared(tmp_path, "dpo", "graded-sums?size=4")
    experience, _ = asyncio.run(collect(parts, parts.key.derive("step", 1)))
    assert isinstance(parts.lead.reference, CausalLM)
    return parts.lead.reference, experience.trajectories


def referred(cache: ReferenceCache, reference: CausalLM, trajectories: list[Trajectory]) -> Tensor:
    batch = pack(trajectories)
    every = torch.arange(batch.decisions)
    return cache.logp(batch, reference, every, every)


def test_kept_numbers_are_those_of_any_batch_and_outlive_a_checkpoint(
    pairs: tuple[CausalLM, list[Trajectory]], passes: Counter[str]
) -> None:
    reference, trajectories = pairs
    cache = ReferenceCache()
    whole = referred(ReferenceCache(limit=0), reference, trajectories)
    referred(cache, reference, trajectories[:3])
    again = ReferenceCache()
    again.restore(cache.state())
    for one in (cache, again):
        assert torch.equal(referred(one, reference, trajectories), whole)
        passes.clear()
        assert torch.equal(referred(one, reference, trajectories), whole)
        assert not passes
    empty = ReferenceCache()
    empty.restore(ReferenceCache().state())
    assert len(empty) == 0


def test_another_temperature_or_prompt_is_another_entry(pairs: tuple[CausalLM, list[Trajectory]]) -> None:
    reference, trajectories = pairs
    cache = ReferenceCache()
    plain = referred(cache, reference, trajectories[:1])
    batch = pack(trajectories[:1])
    every = torch.arange(batch.decisions)
    warm = batch.but(temperature=torch.full((batch.turns,), 2.0))
    found = cache.logp(warm, reference, every, every)
    assert torch.equal(found, reference.evaluate(warm, {Quantity.LOGP}).logp.detach())
    assert not torch.equal(found, plain)
    other = batch.but(observation=[batch.observation[0][1:]])
    assert torch.equal(
        cache.logp(other, reference, every, every), reference.evaluate(other, {Quantity.LOGP}).logp.detach()
    )
    assert len(cache) == 3


def test_weights_that_change_make_it_forget(pairs: tuple[CausalLM, list[Trajectory]]) -> None:
    reference, trajectories = pairs
    cache = ReferenceCache()
    before = referred(cache, reference, trajectories)
    with torch.no_grad():
        for weight in reference.module.parameters():
            weight.mul_(1.01)
    after = referred(cache, reference, trajectories)
    assert not torch.equal(before, after)
    assert torch.equal(after, referred(ReferenceCache(limit=0), reference, trajectories))


def test_the_limit_holds(pairs: tuple[CausalLM, list[Trajectory]]) -> None:
    reference, trajectories = pairs
    sizes = [trajectory.length for trajectory in trajectories]
    cache = ReferenceCache(limit=sizes[0] + sizes[1])
    whole = referred(cache, reference, trajectories)
    assert 0 < len(cache) < len(trajectories)
    assert int(cache.state()["lengths"].sum()) <= sizes[0] + sizes[1]
    assert torch.equal(referred(cache, reference, trajectories), whole)
