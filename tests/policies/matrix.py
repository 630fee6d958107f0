"""The matrix of architectures: for each, whether hocket trains it, how, and how exactly.

    python tests/policies/matrix.py [NAME ...]     # measures rows anew, all that are missing without names
    python tests/policies/matrix.py --write        # writes docs/architectures.md from the rows
"""

from __future__ import annotations

import copy
import json
import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "engine")]
import architectures
import tiny_models

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies.causal_lm import CausalLM
from hocket.policies.form_reading import known_form
from hocket.policies.lora import add_adapter
from hocket.policies.lora_targets import coverage
from hocket.policies.refusals import check_architecture
from hocket.policies.settings import LoraSettings
from hocket.policies.support import supports
from hocket.recipes import find
from hocket.train.learner import Learner
from hocket.types import Decoding, Quantity, Scenario, Score, Trajectory, Turn

ROWS = Path(__file__).with_suffix(".jsonl")
PAGE = Path(__file__).parent.parent.parent / "docs" / "architectures.md"

EXACT = 1e-3
"""Largest difference in nats of a log-prob in fp32 from one in fp64; weights here are ten times those of a model."""


@dataclass(frozen=True)
class Row:
    """What was measured of an architecture.

    Attributes:
        path: `fast`, `own forward` or `refused`. agreement: the largest difference in nats of the learner's log-probs
            from an unpadded pass of the model in fp64. sampler: the same of the sampler's from the learner's.
        lora: the share of weights that an adapter with default targets reaches; None where it is refused.
        note: the sentence of a refusal.
    """

    name: str
    path: str
    agreement: float | None = None
    sampler: float | None = None
    lora: float | None = None
    note: str = ""


class Wide(TorchFunctionMode):
    """Architectures compute parts in fp32 whatever their weights are; here they are made in fp64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def wide(given: Any) -> Any:
            return torch.float64 if given is torch.float32 else given

        if func is torch.Tensor.float:
            func = torch.Tensor.double
        return func(*map(wide, args), **{name: wide(given) for name, given in (kwargs or {}).items()})


def measured(name: str) -> Row:
    """The row of an architecture.

    Raises:
        Exception: whatever goes wrong that is not a refusal.
    """
    try:
        config = architectures.shrunk(architectures.CONFIG_MAPPING[name])
        check_architecture(config, name)
        policy = CausalLM(architectures.tiny(name), tiny_models.tokenizer())
        path = "fast" if supports(policy.model, architectures.CONTEXT) else "own forward"
        if path != "fast" and supports(policy.model, 1):
            path = f"fast up to {known_form(policy.model).longest} tokens"
        wide = copy.deepcopy(policy.model).double()
        wide.set_experts_implementation("eager")  # The others multiply in fp32 at most.
        trajectories = sampled(policy, 0)
        batch = pack(trajectories)
        logp = policy.evaluate(batch, [Quantity.LOGP]).logp.detach()
        due = torch.cat([exact(wide, trajectory.turns[0]) for trajectory in trajectories])
        recorded = torch.from_numpy(np.concatenate([trajectory.turns[0].logp for trajectory in trajectories]))
        row = Row(name, path, worst(logp - due), worst(logp - recorded))
        two_steps(policy)
    except HocketError as error:
        return Row(name, "refused", note=str(error))
    try:
        model = architectures.tiny(name)
        add_adapter(model, LoraSettings(rank=2, alpha=4.0), Key.of(0))
        share = coverage(model).share
        two_steps(CausalLM(model, tiny_models.tokenizer()))
    except HocketError as error:
        return replace(row, note=f"LoRA: {error}")
    return replace(row, lora=share)


def worst(difference: Tensor) -> float:
    return float(f"{difference.abs().max().item():.1e}")


def sampled(policy: CausalLM, step: int) -> list[Trajectory]:
    """Two groups of three; one prompt is longer than the windows. Longer answers have higher rewards."""
    draw = Key.of(5).derive(step).numpy()
    prompts = [tuple(draw.integers(3, 43, length).tolist()) for length in (3 * architectures.WINDOW, 5)]
    requests = [
        Request(prompts[number // 3], Decoding(temperature=1.0, max_tokens=12), Key.of(step).derive(number))
        for number in range(6)
    ]
    samples = LocalEngine(policy).sample(requests)
    return [
        Trajectory(
            Scenario(str(number // 3)),
            [
                Turn(
                    "a",
                    policy.name,
                    np.array(request.tokens),
                    sample.tokens,
                    logp=sample.logp,
                    decoding=request.decoding,
                )
            ],
            sample=number % 3,
            scores={"sum": Score(float(sample.tokens.sum() % 7) + 0.1 * (number % 3))},
        )
        for number, (request, sample) in enumerate(zip(requests, samples, strict=True))
    ]


def exact(model: Any, turn: Turn) -> Tensor:
    """Log-probs of a turn's tokens by the model's own pass in fp64 over this sequence alone."""
    tokens = torch.from_numpy(np.concatenate([turn.observation, turn.action]))
    with torch.no_grad():
        try:
            with Wide():
                logits = model(input_ids=tokens[None, :-1], use_cache=False).logits[0]
        except RuntimeError:  # It has constants of fp32.
            logits = model.float()(input_ids=tokens[None, :-1], use_cache=False).logits[0]
    logp = logits[len(turn.observation) - 1 :].double().log_softmax(-1)
    return logp.gather(1, torch.from_numpy(turn.action)[:, None].long())[:, 0]


def two_steps(policy: CausalLM) -> None:
    """Two steps of GRPO, which must change weights that are trained and leave numbers in all of them."""
    learner = Learner(policy, find("grpo"), total_steps=2)
    trained = [weight for group in policy.parameter_groups().values() for weight in group]
    before = [weight.detach().clone() for weight in trained]
    for step in (1, 2):
        batch = learner.compute_credit(learner.annotate(pack(sampled(policy, step))), {"sum": 1.0}, step)
        metrics = learner.learn(batch, Key.of(0).derive(step), step)
        assert math.isfinite(metrics["gradient/norm"]) and metrics["gradient/norm"] > 0, metrics
    assert all(bool(weight.isfinite().all()) for weight in trained)
    assert any(not torch.equal(weight, old) for weight, old in zip(trained, before, strict=True))


def rows() -> dict[str, Row]:
    """Those on file, by name."""
    lines = ROWS.read_text().splitlines() if ROWS.exists() else []
    return {row.name: row for row in (Row(**json.loads(line)) for line in lines)}


def main(names: Sequence[str]) -> None:
    held = rows()
    for name in names or [name for name in architectures.NAMES if name not in held]:
        held[name] = measured(name)
        print(held[name], flush=True)
        ROWS.write_text("".join(json.dumps(asdict(held[name])) + "\n" for name in sorted(held)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    main(sys.argv[1:])
