"""Fixed weights that clients sample from: adapters in slots around one base, so that all of them share a batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from hocket.core.keys import Key
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request, Sample
from hocket.policies.causal_lm import CausalLM
from hocket.policies.lora import is_adapters, load_adapter
from hocket.policies.settings import LoraSettings
from hocket.policies.shared_base import SharedBaseCache

SLOTS = 8
"""Adapters of one shape that are loaded at once; each is some thousandth of the base."""


@dataclass(frozen=True)
class SamplerWeights:
    """What a sampling client samples from.

    Attributes:
        name: tells weights apart. lora: the adapter's settings. held: its weights in memory; or `folder`, where they
            are saved. None of both is the base alone.
    """

    name: str
    lora: LoraSettings
    held: Mapping[str, Tensor] | None = None
    folder: Path | None = None

    @staticmethod
    def of(name: str, lora: LoraSettings, policy: CausalLM) -> SamplerWeights:
        """A copy of what a policy's adapter is now."""
        return SamplerWeights(name, lora, {key: value.clone() for key, value in adapter_of(policy).items()})

    def put(self, policy: CausalLM) -> None:
        """Makes them the weights of a policy with an adapter of this shape."""
        if self.folder is not None:
            load_adapter(policy.model, self.folder / "adapter")
        else:
            with torch.no_grad():
                for name, weight in adapter_of(policy).items():
                    weight.copy_(self.held[name]) if self.held is not None else weight.zero_()
        policy.version += 1


def adapter_of(policy: CausalLM) -> Mapping[str, Tensor]:
    """The weights of a policy's adapter by name."""
    return {name: weight.detach() for name, weight in policy.model.named_parameters() if is_adapters(name)}


@dataclass(eq=False)
class _Slot:
    policy: CausalLM
    engine: LocalEngine
    weights: str = ""
    used: int = 0


@dataclass(eq=False)
class SamplerPool:
    """Engines for weights of one base. Requests for up to `SLOTS` adapters of one shape run as one batch.

    Weights are loaded into a slot while nothing is sampled, as a batch in progress would begin again. Requests are
    served in their order, so a client that samples without a pause keeps no other one waiting.
    """

    where: str
    base_cache: SharedBaseCache
    stops: Sequence[int]
    _slots: dict[LoraSettings, list[_Slot]] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _free: asyncio.Condition = field(default_factory=asyncio.Condition)
    _busy: int = 0
    _time: int = 0

    async def sample(self, weights: SamplerWeights, requests: Sequence[Request]) -> list[Sample]:
        """One answer to each request, by these weights."""
        async with self.policy(weights) as slot:
            return list(await asyncio.gather(*(slot.engine.submit(request) for request in requests)))

    @asynccontextmanager
    async def policy(self, weights: SamplerWeights) -> AsyncIterator[_Slot]:
        """Inside, a slot holds these weights."""
        async with self._turn:
            slot = self._holding(weights)
            if slot is None:
                async with self._free:
                    await self._free.wait_for(lambda: self._busy == 0)
                slot = self._loaded(weights)
            self._busy += 1
            self._time += 1
            slot.used = self._time
        try:
            yield slot
        finally:
            self._busy -= 1
            async with self._free:
                self._free.notify_all()

    def _holding(self, weights: SamplerWeights) -> _Slot | None:
        return next((slot for slot in self._slots.get(weights.lora, ()) if slot.weights == weights.name), None)

    def _loaded(self, weights: SamplerWeights) -> _Slot:
        slots = self._slots.setdefault(weights.lora, [])
        if len(slots) < SLOTS:
            policy = adapted_policy(self.where, weights.lora, Key.of(0), self.base_cache, f"slot-{len(slots)}")
            policy.end_of_turn = tuple(self.stops)
            slots.append(_Slot(policy, LocalEngine(policy, beside=slots[0].engine if slots else None)))
            slot = slots[-1]
        else:
            slot = min(slots, key=lambda slot: slot.used)
        weights.put(slot.policy)
        slot.weights = weights.name
        return slot


def adapted_policy(where: str, lora: LoraSettings, key: Key, base_cache: SharedBaseCache, name: str) -> CausalLM:
    """A policy with a fresh adapter on the base that all share."""
    return CausalLM.from_pretrained(where, name=name, lora=lora, base_cache=base_cache, key=key)
