"""One training step of a language model: how long each part takes, and how far that is from the arithmetic it needs.

    python benchmarks/step.py                                 the shipped base, 16 prompts x 8 samples
    python benchmarks/step.py --prompt-tokens 512 --json      long prompts, one JSON document

Parts: sampling; the learner's forward and backward pass with every sequence padded and run whole by the model's own
code (`padded`), with shared prefixes computed once (`shared`), and the latter in bf16 (`bf16`);
and a whole step, which samples in the same precision, learns and updates by AdamW. Variants take turns within a round;
ratios are taken within rounds, and the spread is that of the rounds. Seconds are processor seconds over all threads on
one thread (other programs do not count), wall-clock seconds on more.

The floor counts 2 operations per weight and token forward, 4 backward, for tokens computed once, at the rate of a large
fp32 matrix product measured beside it; attention is not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
from bench import Clock, machine, matrix_rate, spread

from hocket.agents.workflows.chat import Chat
from hocket.core.batch import Batch
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request, Sample
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.policies.prefix_tree import tree_of
from hocket.policies.sequences import rows_of
from hocket.tasks import find
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

VARIANTS = ("padded", "shared", "bf16")


class Bench:
    """A policy with a fixed set of requests."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.policy = CausalLM.from_pretrained(options.model, key=Key.of(0))
        self.chat = Chat(self.policy.tokenizer)
        self.policy.end_of_turn = self.chat.stops
        # One for each precision: an engine keeps what it made of the weights.
        self.engines = {kind: LocalEngine(self.policy) for kind in ("fp32", "bf16")}
        self.samples = options.samples
        decoding = Decoding(max_tokens=options.max_tokens)
        self.requests = [
            Request(self.prompt(number, options.prompt_tokens), decoding, Key.of(1).derive(number, sample))
            for number in range(options.prompts)
            for sample in range(options.samples)
        ]
        self.optimiser = torch.optim.AdamW(self.policy.parameter_groups()["policy"], lr=0.0, foreach=True)

    @property
    def engine(self) -> LocalEngine:
        """Of the variant chosen."""
        return self.engines[self.policy.precision]

    def prompt(self, number: int, tokens: int | None) -> tuple[int, ...]:
        """A sum, repeated up to `tokens` where that is given."""
        text = self.chat.opening(find("sums").scenario("train", number).messages)
        return tuple(text) if tokens is None else tuple((list(text) * (tokens // len(text) + 1))[:tokens])

    def choose(self, variant: str) -> None:
        self.policy.share_prefixes = variant != "padded"
        self.policy.precision = "bf16" if variant == "bf16" else "fp32"

    def batch(self, samples: list[Sample]) -> Batch:
        turns = [
            Turn("a", "policy", np.array(request.tokens), sample.tokens, sample.logp, decoding=request.decoding)
            for request, sample in zip(self.requests, samples, strict=True)
        ]
        return pack([Trajectory(Scenario(str(n // self.samples)), [turn]) for n, turn in enumerate(turns)])

    def learn(self, batch: Batch) -> None:
        """The gradient of a weighted sum of all log-probs."""
        weight = torch.linspace(-1, 1, batch.decisions)
        self.optimiser.zero_grad(set_to_none=True)
        for chunk in self.policy.chunks(batch, torch.arange(batch.decisions)):
            logp = self.policy.evaluate(batch, {Quantity.LOGP}, chunk).logp
            torch.autograd.backward((logp[chunk] * weight[chunk]).sum())

    def step(self) -> None:
        self.learn(self.batch(self.engine.sample(self.requests)))
        self.optimiser.step()


def measure(bench: Bench, rounds: int, clock: Clock) -> dict[str, list[float]]:
    """Seconds of every part and variant by round; the first round warms up and is left out."""
    bench.choose("shared")
    batch = bench.batch(bench.engine.sample(bench.requests))
    work: dict[str, tuple[str, Callable[[], Any]]] = {
        "sample shared": ("shared", lambda: bench.engine.sample(bench.requests)),
        "sample bf16": ("bf16", lambda: bench.engine.sample(bench.requests)),
        **{f"learn {variant}": (variant, lambda: bench.learn(batch)) for variant in VARIANTS},
        **{f"step {variant}": (variant, bench.step) for variant in VARIANTS},
    }
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds + 1):
        names = list(work) if turn % 2 else list(work)[::-1]
        for name in names:
            variant, do = work[name]
            bench.choose(variant)
            start = clock()
            do()
            if turn:
                seconds[name].append(clock() - start)
    bench.choose("shared")
    return seconds


def report(bench: Bench, threads: int, rounds: int) -> dict[str, Any]:
    """All figures on a number of threads."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    speed = matrix_rate("fp32", clock)
    seconds = measure(bench, rounds, clock)
    samples = bench.engine.sample(bench.requests)
    generated = sum(len(sample.tokens) for sample in samples)
    batch = bench.batch(samples)
    once = len(tree_of(rows_of(batch, torch.arange(batch.decisions))).token)
    prompts = sum(len(tokens) for tokens in {request.tokens for request in bench.requests})
    layers = sum(p.numel() for name, p in bench.policy.model.named_parameters() if "embed" not in name)
    head = bench.policy.model.lm_head.weight.numel()
    floor = {
        "sample": 2 * ((prompts + generated) * layers + generated * head) / speed,
        "learn": 6 * (once * layers + batch.decisions * head) / speed,
    }
    floor["step"] = floor["sample"] + floor["learn"]
    ratios = {
        f"{part} {one} / {other}": spread(
            [a / b for a, b in zip(seconds[f"{part} {one}"], seconds[f"{part} {other}"], strict=True)]
        )
        for part, one, other in (
            ("learn", "padded", "shared"),
            ("step", "padded", "shared"),
            ("sample", "shared", "bf16"),
            ("learn", "shared", "bf16"),
            ("step", "shared", "bf16"),
        )
    }
    return {
        "threads": threads,
        "seconds_are": "processor" if threads == 1 else "wall",
        "gflops_fp32": speed / 1e9,
        "tokens": {"generated": generated, "computed_once": once, "sequences": sum(map(_length, bench.requests))},
        "tokens_per_second": generated / statistics.median(seconds["sample shared"]),
        "seconds": {name: spread(values) for name, values in seconds.items()},
        "floor": floor,
        "floor_fraction": {
            name: floor[name.split()[0]] / statistics.median(values) for name, values in seconds.items()
        },
        "ratio": ratios,
    }


def _length(request: Request) -> int:
    return len(request.tokens)


def show(found: dict[str, Any]) -> None:
    tokens = found["tokens"]
    print(
        f"\n{found['threads']} thread(s), {found['seconds_are']} seconds; fp32 product {found['gflops_fp32']:.0f} "
        f"GFLOP/s; {tokens['generated']} tokens generated at {found['tokens_per_second']:.0f}/s, learner computes "
        f"{tokens['computed_once']}"
    )
    for name, value in found["seconds"].items():
        print(
            f"  {name:14s} {value['median']:.3f} s  ({value['least']:.3f} to {value['most']:.3f}), floor "
            f"{100 * found['floor_fraction'][name]:.0f} %"
        )
    for name, value in found["ratio"].items():
        print(f"  {name:24s} {value['median']:.2f}  ({value['least']:.2f} to {value['most']:.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(BASE), help="folder of a llama, mistral, qwen2 or qwen3 model")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=None, help="repeat each prompt up to this length")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    bench = Bench(options)
    about = machine(torch=torch.__version__, parameters=sum(p.numel() for p in bench.policy.model.parameters()))
    if not options.json:
        print(", ".join(f"{name} {value}" for name, value in about.items()))
    found = []
    for threads in options.threads:
        found.append(report(bench, threads, options.rounds))
        if not options.json:
            show(found[-1])
    if options.json:
        json.dump({"machine": about, "runs": found}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
