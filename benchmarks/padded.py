"""What do sampling and learning cost where an architecture has no form? Seconds, tokens a second, and peak memory.

python benchmarks/padded.py [CASE ..] [--rounds 3] [--precision fp32] [--json]

Each case is a model with random weights, in a fresh process: answers are sampled to prompts of unequal lengths, their
log-probs and entropies are learnt from in one forward and backward pass, and a second turn continues the conversations.
Times are processor seconds on one thread without the first round; memory is the peak above that of the loaded model.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Case:
    """A model of `kind` with these settings; `prompts` of unequal lengths, `samples` each, of `new` tokens."""

    kind: str
    settings: dict[str, Any]
    vocabulary: int = 32_000
    prompts: int = 16
    samples: int = 4
    shortest: int = 40
    new: int = 48


_NEOX = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 8}
_FALCON = {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8, "alibi": False}
CASES = {
    "gpt_neox-32k": Case("gpt_neox", _NEOX),
    "gpt_neox-128k": Case("gpt_neox", _NEOX, vocabulary=128_000, prompts=8, samples=2),
    "falcon-32k": Case("falcon", _FALCON),
    "gpt_neox-long": Case("gpt_neox", _NEOX, vocabulary=8_000, prompts=4, samples=2, shortest=700, new=32),
}


def peak() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def policy_of(case: Case, precision: str) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from hocket.policies.causal_lm import CausalLM
    from hocket.policies.loading import read_tokenizer
    from hocket.train.models import model_path

    torch.set_num_threads(1)
    config = AutoConfig.for_model(
        case.kind, vocab_size=case.vocabulary, max_position_embeddings=2048, eos_token_id=None, **case.settings
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    policy = CausalLM(model, read_tokenizer(model_path("nano")), precision=precision)
    policy.end_of_turn = ()
    return policy


def measure(case: Case, rounds: int, precision: str) -> dict[str, float]:
    """Medians over rounds of one case, in this process."""
    import numpy as np
    import torch

    from hocket.core.keys import Key
    from hocket.core.packing import pack
    from hocket.engine.local import LocalEngine
    from hocket.engine.requests import Decoding, Request
    from hocket.types import Quantity, Scenario, Trajectory, Turn

    policy = policy_of(case, precision)
    engine = LocalEngine(policy)
    decoding = Decoding(max_tokens=case.new)
    draws = Key.of(0).numpy()
    prompts = [
        tuple(draws.integers(3, case.vocabulary, case.shortest + 3 * number).tolist()) for number in range(case.prompts)
    ]
    start = peak()
    seconds: dict[str, list[float]] = {"sampling": [], "learning": [], "second turn": []}
    peaks = {}
    for _ in range(rounds + 1):
        requests = [
            Request(prompt, decoding, Key.of(0).derive(n, s))
            for n, prompt in enumerate(prompts)
            for s in range(case.samples)
        ]
        begun = time.process_time()
        answers = engine.sample(requests)
        seconds["sampling"].append(time.process_time() - begun)
        more = [
            Request((*r.tokens, *a.tokens.tolist(), 5, 6, 7), decoding, Key.of(9).derive(n))
            for n, (r, a) in enumerate(zip(requests, answers, strict=True))
        ]
        begun = time.process_time()
        engine.sample(more)
        seconds["second turn"].append(time.process_time() - begun)
        peaks.setdefault("sampling", peak() - start)
        turns = [
            Turn("a", "policy", np.array(r.tokens), a.tokens, a.logp, decoding=decoding)
            for r, a in zip(requests, answers, strict=True)
        ]
        batch = pack([Trajectory(Scenario(str(n)), [turn]) for n, turn in enumerate(turns)])
        begun = time.process_time()
        for chunk in policy.chunks(batch, torch.arange(batch.decisions)):
            read = policy.evaluate(batch, [Quantity.LOGP, Quantity.ENTROPY], chunk)
            (read.logp.sum() + read.entropy.sum()).backward()
        seconds["learning"].append(time.process_time() - begun)
        peaks["learning"] = peak() - start
        off = (read.logp[chunk].detach() - batch.logp["behaviour"].values[chunk]).abs().max()
    drawn = len(requests) * case.new
    return {
        **{f"{name}_s": median(taken[1:]) for name, taken in seconds.items()},
        "sampled_per_s": drawn / median(seconds["sampling"][1:]),
        "learnt_per_s": sum(len(r.tokens) + case.new for r in requests) / median(seconds["learning"][1:]),
        **{f"{name}_mib": size for name, size in peaks.items()},
        "agreement": float(off),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.within:
        print(json.dumps(measure(CASES[options.case[0]], options.rounds, options.precision)))
        return
    for name in options.case:
        command = [sys.executable, __file__, name, "--within", "--rounds", str(options.rounds)]
        done = subprocess.run([*command, "--precision", options.precision], stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            json.dumps({name: found})
            if options.json
            else f"{name}: " + ", ".join(f"{k} {v:.3g}" for k, v in found.items())
        )


if __name__ == "__main__":
    main()
