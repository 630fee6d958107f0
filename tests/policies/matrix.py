"""The matrix of architectures: for each, whether hocket trains it, how, and how exactly.

python tests/policies/matrix.py [NAME ...]     # measures these rows, or those that are missing
python tests/policies/matrix.py --write        # the same, and writes docs/architectures.md
"""

from __future__ import annotations

import copy
import json
import math
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import CONFIG_MAPPING

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
sys.path.insert(0, str(Path(__file__).parent))
import architectures
import tiny_models

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.engine.rereading_session import REREAD
from hocket.policies.causal_lm import CausalLM
from hocket.policies.form_reading import known_form
from hocket.policies.loading import first_line, text_apart
from hocket.policies.lora import add_adapter
from hocket.policies.lora_targets import coverage
from hocket.policies.refusals import UNFIT, check_architecture
from hocket.policies.settings import LoraSettings
from hocket.policies.support import supports
from hocket.recipes import find
from hocket.train.learner import Learner
from hocket.types import Decoding, Quantity, Scenario, Score, Trajectory, Turn

ROWS = Path(__file__).with_suffix(".jsonl")
PAGE = Path(__file__).parent.parent.parent / "docs" / "architectures.md"

VERSION = "5.23.0"
"""Of transformers, that the rows were measured with."""

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
        policy = policy_of(name)
        trajectories = sampled(policy, 0)
        recorded = torch.from_numpy(np.concatenate([trajectory.turns[0].logp for trajectory in trajectories]))
        difference, logp = from_exact(policy, trajectories)
        row = Row(name, path_of(policy), difference, worst(logp - recorded))
        two_steps(policy)
    except (HocketError, ImportError) as error:
        return Row(name, "refused", note=first_line(error))
    try:
        policy = policy_of(name, adapted=True)
        share = round(coverage(policy.model).share, 3)
        two_steps(policy)
    except HocketError as error:
        return replace(row, note=f"LoRA: {error}")
    return replace(row, lora=share)


def policy_of(name: str, *, adapted: bool = False) -> CausalLM:
    """A tiny policy of an architecture.

    Raises:
        ConfigurationError: for one that is refused, before there are weights.
    """
    config = SimpleNamespace(model_type=name) if name in UNFIT else architectures.shrunk(CONFIG_MAPPING[name])
    check_architecture(config, name)
    model = architectures.filled(text_apart(config), name)
    if adapted:
        add_adapter(model, LoraSettings(rank=2, alpha=4.0), Key.of(0))
    return CausalLM(model, tiny_models.tokenizer())


def path_of(policy: CausalLM) -> str:
    if supports(policy.model, architectures.CONTEXT):
        return "fast"
    if supports(policy.model, 1):
        return f"fast up to {known_form(policy.model).longest} tokens"
    return "own forward, no cache" if policy.model.config.model_type in REREAD else "own forward"


def from_exact(policy: CausalLM, trajectories: list[Trajectory]) -> tuple[float, Tensor]:
    """The largest difference of the learner's log-probs from those of passes in fp64 over single sequences; the former.

    The sequences are of unequal lengths.
    """
    wide = copy.deepcopy(policy.model).double()
    wide.set_experts_implementation("eager")  # The others multiply in fp32 at most.
    logp = policy.evaluate(pack(trajectories), [Quantity.LOGP]).logp.detach()
    due = torch.cat([exact(wide, trajectory.turns[0]) for trajectory in trajectories])
    return worst(logp - due), logp


def worst(difference: Tensor) -> float:
    return float(f"{difference.abs().max().item():.1e}")


def prompts_of(step: int) -> list[tuple[int, ...]]:
    """Two, of which one is longer than the windows."""
    draw = Key.of(5).derive(step).numpy()
    return [tuple(draw.integers(3, 43, length).tolist()) for length in (3 * architectures.WINDOW, 5)]


def written(step: int) -> list[Trajectory]:
    """One answer to each prompt, of tokens that no policy has chosen."""
    answer = Key.of(6).derive(step).numpy().integers(3, 43, 12)
    return [
        Trajectory(Scenario(str(number)), [Turn("a", "policy", np.array(prompt), answer)])
        for number, prompt in enumerate(prompts_of(step))
    ]


def sampled(policy: CausalLM, step: int) -> list[Trajectory]:
    """Two groups of three, with rewards that differ."""
    prompts = prompts_of(step)
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
        assert 0 < metrics["gradient/norm"] < math.inf, metrics
    assert all(bool(weight.isfinite().all()) for weight in trained)
    assert any(not torch.equal(weight, old) for weight, old in zip(trained, before, strict=True))


def rows() -> dict[str, Row]:
    """Those on file, by name."""
    lines = ROWS.read_text().splitlines() if ROWS.exists() else []
    return {row.name: row for row in (Row(**json.loads(line)) for line in lines)}


def page(held: Mapping[str, Row]) -> str:
    """The page of all rows."""
    kinds = {
        "fast": [row for row in held.values() if row.path.startswith("fast")],
        "own": [row for row in held.values() if row.path.startswith("own")],
        "refused": [row for row in held.values() if row.path == "refused"],
    }
    return _PAGE.format(
        version=VERSION,
        count=len(held),
        fast=len(kinds["fast"]),
        own=len(kinds["own"]),
        refused=len(kinds["refused"]),
        exact=EXACT,
        window=architectures.WINDOW,
        fast_rows="\n".join(map(_line, kinds["fast"])),
        own_rows="\n".join(map(_line, kinds["own"])),
        refused_rows="\n".join(f"| `{row.name}` | {row.note} |" for row in kinds["refused"]),
    )


def _line(row: Row) -> str:
    lora = "" if row.lora is None else f"{row.lora:.0%}"
    remark = "" if row.path in ("fast", "own forward") else row.path.removeprefix("own forward, ")
    note = "; ".join(part for part in (remark, row.note) if part)
    learner, sampler = (f"{size:.0e}" if size else "0" for size in (row.agreement, row.sampler))
    return f"| `{row.name}` | {learner} | {sampler} | {lora} | {note} |"


_PAGE = """# Architectures

Every causal architecture of transformers {version} ({count}), tried with tiny random weights: windows of {window}
tokens, sequences of 17 and 33 tokens, two GRPO steps of all weights and two with LoRA. Generated by
`python tests/policies/matrix.py --write`. `make slow` measures every row again.

- **{fast} take the fast path**: sampler and learner compute them by their form, see
  [engines](engines.md#architectures-of-the-fast-path).
- **{own} are computed by their own forward pass.** Those with no cache that rows can leave read the sequence anew for
  every token.
- **{refused} are refused** in one sentence, before their weights are read.

`learner` is the largest difference in nats of the learner's log-probs, in fp32, from passes of the model in fp64 over
single sequences. `sampler` is that of the sampler's log-probs from the learner's. Both are at most {exact:g}. `LoRA` is
the share of the tiny model's weights that an adapter with default targets acts on; `--lora.targets` reaches others.

## Fast path

| `model_type` | learner | sampler | LoRA | remark |
|---|---|---|---|---|
{fast_rows}

## Own forward pass

`gemma3n_text` is near to a form and has none: it has several residual streams, which every layer mixes anew with
weights of its own (AltUp); a form has one stream, to which layers add. Of `gemma3n` the part for text is read. State
spaces (`mamba`, `mamba2`, `falcon_h1`, `nemotron_h`, `granitemoehybrid`, ..) have no form either; prompts of equal
length are sampled together, and an adapter leaves out the layers that peft does not put one around.

| `model_type` | learner | sampler | LoRA | remark |
|---|---|---|---|---|
{own_rows}

## Refused

| `model_type` | sentence |
|---|---|
{refused_rows}
"""


def main(arguments: Sequence[str]) -> None:
    names = [argument for argument in arguments if argument != "--write"]
    held = rows()
    for name in names or [name for name in architectures.NAMES if name not in held]:
        try:
            held[name] = measured(name)
        except Exception:
            print(f"{name} fails:\n{traceback.format_exc(limit=-3)}", flush=True)
            continue
        print(held[name], flush=True)
        ROWS.write_text("".join(json.dumps(asdict(held[name])) + "\n" for name in sorted(held)))
    if "--write" in arguments:
        PAGE.write_text(page(held))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    main(sys.argv[1:])
