"""All that is measured on an accelerator, in one command of at most twelve minutes.

    python benchmarks/device.py                 all parts; those that are done already are not repeated
    python benchmarks/device.py --seconds 180   as many parts as are sure to end in this time; again for the next ones
    python benchmarks/device.py --again --only "sampling 1.5B 64 rows"
    python benchmarks/device.py --counts        the arithmetic, memory and predicted time of each part; runs nothing
    python benchmarks/device.py --tiny          small models, on the processor where there is no device: checks that all
                                                parts run; the default there

Results are in build/device.json (build/device-tiny.json), which is written after each part. Each part is a process of
its own. A table follows: what was counted, what was predicted, and what was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import BUILD, ROOT
from device_cases import (
    DEPTHS,
    GIB,
    MIDDLE,
    REFERENCE,
    SAMPLING,
    TINY,
    TRAINER,
    Model,
    SamplingCase,
    TrainerCase,
    rates_of,
    table,
)

PAGES = 30 * GIB
"""Bytes that keys and values may take; 1,024 rows of the 1.5B take 22 GiB."""
PARTS: dict[str, float] = {
    "tests": 150,
    **dict.fromkeys(TRAINER, 50),
    **dict.fromkeys(SAMPLING, 40),
    "grpo beside TRL": 150,
    "agreement": 50,
    "control": 45,
}
"""Seconds after which a part is ended; together less than twelve minutes, and none more than three."""


# ---------------------------------------------------------------- parts, each in a process of its own


def device() -> str:
    """`cuda` where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def policy_of(model: Model, lora: int = 0, context: int = 0) -> Any:
    """A policy with random weights, made where it is used."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    from hocket.core.keys import Key
    from hocket.policies.causal_lm import CausalLM
    from hocket.policies.lora import add_adapter
    from hocket.policies.settings import LoraSettings

    core = Tokenizer(models.WordLevel({"<pad>": 0, "<end>": 1, "<unk>": 2}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>", unk_token="<unk>")
    with torch.random.fork_rng(), torch.device(device()):
        torch.manual_seed(0)
        module = AutoModelForCausalLM.from_config(model.config(), attn_implementation="sdpa")
    if lora:
        add_adapter(module, LoraSettings(rank=lora), Key.of(0))
    torch.backends.cuda.matmul.allow_tf32 = True
    return CausalLM(module.eval(), tokenizer, precision="bf16" if device() == "cuda" else "fp32")


def settle() -> None:
    """Waits for the device."""
    import torch

    if device() == "cuda":
        torch.cuda.synchronize()


def peak() -> float:
    """GiB that tensors had at most; of a processor, the process."""
    import resource

    import torch

    if device() == "cuda":
        return torch.cuda.max_memory_allocated() / GIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


def run_trainer(case: TrainerCase) -> dict[str, Any]:
    """Steps of the learner on one sequence of random tokens, every token of it a decision."""
    import numpy as np
    import torch

    from hocket.core.packing import pack
    from hocket.types import Quantity, Scenario, Trajectory, Turn

    policy = policy_of(case.model, case.lora)
    policy.token_budget, policy.checkpointing = float("inf"), True
    tokens = np.random.Generator(np.random.Philox(key=1)).integers(3, case.model.words, case.tokens)
    turn = Turn("policy", "policy", tokens[:1], tokens[1:], logp=np.zeros(case.tokens - 1, np.float32))
    batch = pack([Trajectory(Scenario("0"), [turn])])
    optimiser = torch.optim.AdamW([one for one in policy.module.parameters() if one.requires_grad], lr=1e-6)
    taken = []
    for _ in range(3):
        settle()
        start = time.perf_counter()
        policy.evaluate(batch, {Quantity.LOGP}).get(Quantity.LOGP).mean().backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        settle()
        taken.append(time.perf_counter() - start)
    seconds = min(taken[1:])
    name = torch.cuda.get_device_name() if device() == "cuda" else REFERENCE
    share = case.count(rates_of(name)).operations / seconds / rates_of(name)[0]
    return {"seconds": seconds, "tokens/s": case.tokens / seconds, "share": share, "gib": peak()}


def requests_of(case: SamplingCase, banned: tuple[int, ...] = (1,)) -> list[Any]:
    """Requests for `rows` answers, eight to a prompt; without the end, which is banned, all have one length."""
    import numpy as np

    from hocket.core.keys import Key
    from hocket.engine.requests import Request
    from hocket.types import Decoding

    draw = np.random.Generator(np.random.Philox(key=2))
    prompts = [tuple(draw.integers(3, case.model.words, case.prompt).tolist()) for _ in range(-(-case.rows // 8))]
    decoding = Decoding(max_tokens=case.new, banned=banned)
    return [Request(prompts[row // 8], decoding, Key.of(3).derive(row)) for row in range(case.rows)]


def run_sampling(case: SamplingCase) -> dict[str, Any]:
    """The second of two rounds with other prompts in the cache."""
    from dataclasses import replace

    from hocket.engine.local import LocalEngine

    policy = policy_of(case.model)
    engine = LocalEngine(policy, max_rows=case.rows, max_bytes=PAGES)
    engine.sample(requests_of(replace(case, new=min(case.new, 8))))
    engine.release()
    settle()
    start = time.perf_counter()
    samples = engine.sample(requests_of(case))
    settle()
    seconds = time.perf_counter() - start
    drawn = sum(len(sample.tokens) for sample in samples)
    return {"seconds": seconds, "tokens/s": drawn / seconds, "tokens": drawn, "gib": peak()}


def run_agreement(tiny: bool) -> dict[str, Any]:
    """By tokens of context: the largest distance of log-probs, and the share of them with equal bits."""
    import numpy as np

    from hocket.core.packing import pack
    from hocket.engine.local import LocalEngine
    from hocket.types import Quantity, Scenario, Trajectory, Turn

    model, depths, rows = (TINY, (16, 48), 2) if tiny else (MIDDLE, DEPTHS, 4)
    policy, result = policy_of(model), {}
    policy.token_budget = float("inf")
    for depth in depths:
        case = SamplingCase(model, rows, depth, 8 if tiny else 64)
        asked = requests_of(case, ())  # The learner knows no bans.
        samples = LocalEngine(policy, max_rows=rows, max_bytes=PAGES).sample(asked)
        turns = [
            Turn("policy", "policy", np.array(one.tokens), sample.tokens, logp=sample.logp, decoding=one.decoding)
            for one, sample in zip(asked, samples, strict=True)
        ]
        batch = pack([Trajectory(Scenario(str(number)), [turn]) for number, turn in enumerate(turns)])
        learnt = policy.evaluate(batch, {Quantity.LOGP}).get(Quantity.LOGP).detach().cpu().numpy()
        sampled = batch.logp["behaviour"].values.cpu().numpy()
        result[str(depth)] = {
            "largest": float(np.abs(learnt - sampled).max()),
            "equal": float((learnt == sampled).mean()),
        }
    return result


def run_tests(tiny: bool) -> dict[str, Any]:
    """Tests that pass and fail: runs on a device, and every operation there."""
    files = ["tests/kernels/test_operations.py", *([] if tiny else ["tests/train/test_accelerator.py"])]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", *files]
    text = _output([*command, "-k", "gate"] if tiny else [*command, "-n", "8"])
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", text)}
    return {"passed": 0, "failed": 0, **counts, "failures": re.findall(r"^FAILED (\S+)", text, re.MULTILINE)}


def run_grpo(tiny: bool) -> dict[str, Any]:
    """A step beside TRL's, or ours alone where TRL is not installed."""
    import side_trl

    more = ["--tiny", "--no-trl", "--threads", "1"] if tiny else [] if side_trl.PYTHON.exists() else ["--no-trl"]
    command = [sys.executable, "benchmarks/gpu_vs_trl.py", "--json", "--rounds", "1", *more]
    found: dict[str, Any] = json.loads(_output(command))
    return {"sides": found["sides"], "ratios": found["ratios"]}


def run_control(tiny: bool) -> dict[str, Any]:
    """Seconds of a run of each task, with the networks on the device, and the reward it came to."""
    import tempfile

    result = {}
    for task, recipe in (("gym:CartPole-v1", "ppo"), ("mpe:spread", "mappo")):
        with tempfile.TemporaryDirectory() as runs:
            command = [sys.executable, "-m", "hocket", "train", "--task", task, "--recipe", recipe, "--runs", runs]
            start = time.perf_counter()
            _output(
                [
                    *command,
                    "--steps",
                    "2" if tiny else "30",
                    "--evaluation.n",
                    "8",
                    "--evaluation.every",
                    "0",
                    "--device",
                    device(),
                ]
            )
            seconds = time.perf_counter() - start
            lines = next(Path(runs).rglob("metrics.jsonl")).read_text().splitlines()
            rewards = [row["reward/mean"] for row in map(json.loads, lines) if "reward/mean" in row]
        result[task] = {"seconds": seconds, "reward": rewards[-1] if rewards else None}
    return result


def _output(command: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def run_part(name: str, tiny: bool) -> dict[str, Any]:
    """One part, in this process."""
    cases: dict[str, Callable[[], dict[str, Any]]] = {
        "tests": lambda: run_tests(tiny),
        "grpo beside TRL": lambda: run_grpo(tiny),
        "agreement": lambda: run_agreement(tiny),
        "control": lambda: run_control(tiny),
    }
    if name in TRAINER:
        return run_trainer(TRAINER[name].small() if tiny else TRAINER[name])
    if name in SAMPLING:
        return run_sampling(SAMPLING[name].small() if tiny else SAMPLING[name])
    return cases[name]()


# ---------------------------------------------------------------- the command


def run_all(options: argparse.Namespace, file: Path) -> dict[str, Any]:
    """Runs what is missing, each part in a process of its own, and keeps it after each."""
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    begun = time.monotonic()
    for name in options.only or PARTS:
        if name in results and not options.again:
            continue
        if options.seconds and time.monotonic() - begun + PARTS[name] > options.seconds:
            print(f"the time is up; run the same command again for {name!r} and what follows")
            break
        command = [sys.executable, __file__, "--part", name, *(["--tiny"] if options.tiny else [])]
        start, limit = time.perf_counter(), PARTS[name] * (4 if options.tiny else 1)  # Processors may be busy.
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
            failure = "" if not done.returncode else done.stderr.strip()[-2000:]
            results[name] = {"failure": failure} if failure else json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            results[name] = {"failure": f"not done after {limit:.0f} s"}
        results[name]["took"] = round(time.perf_counter() - start, 1)
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(results, indent=1))
        print(f"{name}: {results[name].get('failure') or 'done'} ({results[name]['took']} s)", flush=True)
    return results


def counted(results: dict[str, Any], tiny: bool, rates: tuple[float, float]) -> str:
    """The table of trainer and sampling: counted, predicted, measured, published."""
    rows = [["case", "operations", "bytes", "predicted s", "predicted GiB", "measured", "published"]]
    for name, case in {**TRAINER, **SAMPLING}.items():
        count = (case.small() if tiny else case).count(rates)
        result = results.get(name)
        measured = "not run yet"
        if result is not None:
            measured = result.get("failure", "").splitlines()[-1:] or [
                f"{result['seconds']:.2f} s, {result['tokens/s']:,.0f} tokens/s, {result['gib']:.1f} GiB"
                + (f", {100 * result['share']:.1f} %" if "share" in result else "")
            ]
            measured = measured[0]
        published = case.published if isinstance(case, TrainerCase) else ""
        numbers = f"{count.operations:.2e}", f"{count.traffic:.2e}", f"{count.seconds:.2f}", f"{count.memory / GIB:.1f}"
        rows.append([name, *numbers, measured, published])
    return table(rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(PARTS), metavar="PART", help="; ".join(PARTS))
    parser.add_argument("--again", action="store_true", help="repeat parts that are done")
    parser.add_argument("--seconds", type=float, help="begin no part that may end later")
    parser.add_argument("--counts", action="store_true", help="what each case needs; runs nothing")
    parser.add_argument("--tiny", action="store_true", help="small models; the default without a CUDA device")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counts:
        print(counted({}, False, rates_of(REFERENCE)))
        return
    options.tiny = options.tiny or device() == "cpu"
    if options.part:
        print(json.dumps(run_part(options.part, options.tiny)))
        return
    import torch

    name = torch.cuda.get_device_name() if device() == "cuda" else "processor"
    results = run_all(options, BUILD / ("device-tiny.json" if options.tiny else "device.json"))
    print(f"\n{name}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}\n")
    print(counted(results, options.tiny, rates_of(name)))
    for part in ("tests", "grpo beside TRL", "agreement", "control"):
        if part in results:
            print(f"\n{part}: {json.dumps(results[part])}")


if __name__ == "__main__":
    main()
