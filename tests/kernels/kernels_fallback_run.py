"""Prints what a tiny policy finds, in a process of its own: whether there are kernels is settled once per process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

import numpy as np
import tiny_models
import torch

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import kernels
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)


def batch(policy: Any) -> Any:
    """Three prompts, two answers each."""
    draw = Key.of(5).numpy()
    trajectories = []
    for number in range(3):
        prompt = draw.integers(3, 40, 20 + 11 * number)
        for _ in range(2):
            turn = Turn("a", "policy", prompt, draw.integers(3, 40, 9), decoding=Decoding(temperature=0.8))
            trajectories.append(Trajectory(Scenario(str(number)), [turn]))
    return pack(trajectories)


def facts() -> dict[str, Any]:
    """Log-probs, entropies and gradients of a batch, greedy tokens, and sampled log-probs beside the learner's."""
    policy = tiny_models.policy("qwen3")
    read = batch(policy)
    now = policy.evaluate(read, [Quantity.LOGP, Quantity.ENTROPY])
    policy.module.zero_grad()
    (now.logp.sum() + now.entropy.square().sum()).backward()
    gradient = {name: float(p.grad.norm()) for name, p in policy.module.named_parameters() if p.grad is not None}
    half = tiny_models.policy("qwen3")
    half.precision = "bf16"
    prompts = [tuple(range(3, 12)), tuple(range(8, 30))]

    def sampled(temperature: float) -> Any:
        decoding = Decoding(temperature=temperature, max_tokens=20)
        asked = [Request(prompt, decoding, Key.of(2).derive(i)) for i, prompt in enumerate(prompts)]
        samples = LocalEngine(policy).sample(asked)
        turns = [
            Turn("a", "policy", np.array(r.tokens), s.tokens, logp=s.logp, decoding=r.decoding)
            for r, s in zip(asked, samples, strict=True)
        ]
        return pack([Trajectory(Scenario(str(n)), [turn]) for n, turn in enumerate(turns)])

    drawn = sampled(1.0)
    with torch.no_grad():
        return {
            "available": kernels.available(16),
            "reason": kernels.reason(16),
            "logp": now.logp.tolist(),
            "entropy": now.entropy.tolist(),
            "gradient": gradient,
            "bf16": half.evaluate(read, [Quantity.LOGP]).logp.tolist(),
            "greedy": sampled(0.0).action.tolist(),
            "sampled": drawn.logp["behaviour"].values.tolist(),
            "learned": policy.evaluate(drawn, [Quantity.LOGP]).logp.tolist(),
        }


if __name__ == "__main__":
    print(json.dumps(facts()))
