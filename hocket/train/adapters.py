"""What the adapters of a run reach of their models, in words and for the summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hocket.train.learner import Learner


def _coverages(learners: Mapping[str, Learner]) -> Iterator[tuple[str, Any]]:
    """The reach of each trained policy's adapter, by the policy's name."""
    for name, learner in learners.items():
        if getattr(learner.policy, "lora", False) and not learner.frozen:
            from hocket.policies.lora_targets import coverage

            yield name, coverage(learner.policy.module)


def lines(learners: Mapping[str, Learner]) -> list[str]:
    """A sentence for each different reach."""
    return list(dict.fromkeys(f"LoRA: {reach.sentence()}" for _, reach in _coverages(learners)))


def warnings(learners: Mapping[str, Learner]) -> list[str]:
    """What to type where an adapter reaches hardly anything; why a model with one takes the slower pass."""
    sentences = [reach.advice() for _, reach in _coverages(learners) if reach.small]
    for learner in learners.values():
        because = getattr(getattr(learner.policy, "model", None), "padded_because", None)
        if because:
            sentences.append(f"LoRA: {because}, so the model takes the forward pass of transformers, which is slower")
    return list(dict.fromkeys(sentences))


def summary(learners: Mapping[str, Learner]) -> dict[str, Any]:
    """`adapters` in `summary.json`: the reach by policy; empty without adapters."""
    return {name: coverage.to_json() for name, coverage in _coverages(learners)}
