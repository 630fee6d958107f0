"""TRL: steps of its `GRPOTrainer` on a case's model, driven through its callbacks, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import BUILD, ROOT, Stopwatch, device_peak, forget_peak, preload, resident
from cases import BETWEEN, MODULES, Case, between, prompt_text
from sides import Line, Side

PYTHON = Path(os.environ.get("HOCKET_TRL_PYTHON") or BUILD / "trl" / "bin" / "python")

BRIEF = 4
"""Tokens of a response in a brief step."""


@dataclass(frozen=True)
class Settings:
    """How TRL is run, on `threads` of torch that wait by OpenMP's policy `wait`.

    Attributes:
        compute: `bf16` is autocast. attention: `eager` or `sdpa`. micro: samples in a micro-batch, 0 for all.
        weights: fp32 master weights, or pure `bfloat16`, which has not been seen to learn.
        compiled: the training pass goes through torch.compile. device: `cpu` or `cuda`.
    """

    threads: int = 2
    wait: str = "ACTIVE"
    compute: str = "bf16"
    attention: str = "eager"
    micro: int = 0
    weights: str = "float32"
    compiled: bool = False
    device: str = "cpu"

    @property
    def label(self) -> str:
        """All of it in words."""
        micro = f"micro-batches of {self.micro}" if self.micro else "one micro-batch"
        return (
            f"{self.threads} threads {self.wait}, {self.weights} weights, {self.compute}, {self.attention} attention, "
            f"{micro}{', compiled' if self.compiled else ''}"
        )

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
            extra={"TRL_EXPERIMENTAL_SILENCE": "1"},
        )


def set_up() -> None:
    """Makes TRL's environment: torch first and by exact pin, so that no other package brings another build of it."""
    constraints = ROOT / "constraints.txt"
    torch = next(line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    subprocess.run([sys.executable, "-m", "venv", str(PYTHON.parent.parent)], check=True)
    subprocess.run([*pip, torch], check=True)
    subprocess.run(
        [*pip, "-c", str(constraints), torch, "trl", "datasets", "transformers", "accelerate", "peft"], check=True
    )


def versions() -> dict[str, str]:
    """Of the packages in TRL's environment that matter."""
    shown = subprocess.run([str(PYTHON), "-m", "pip", "list", "--format=json"], capture_output=True, check=True)
    found = {one["name"]: one["version"] for one in json.loads(shown.stdout)}
    return {name: found[name] for name in ("torch", "trl", "transformers")}


def run(case: Case, settings: Settings) -> None:
    """The worker."""
    line, watch = Line(), Stopwatch(settings.device)
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    cuda = settings.device == "cuda"
    torch.set_num_threads(settings.threads)
    preload(*MODULES)
    before = forget_peak()
    tokenizer = AutoTokenizer.from_pretrained(case.folder)
    model = AutoModelForCausalLM.from_pretrained(
        case.folder, dtype=getattr(torch, settings.weights), attn_implementation=settings.attention
    )
    micro = settings.micro or case.rows
    arguments = GRPOConfig(
        output_dir=str(case.folder / "trl-output"),
        use_cpu=not cuda,
        bf16=settings.compute == "bf16",
        gradient_checkpointing=False,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=case.rows // micro,
        num_generations=case.samples,
        max_completion_length=case.new,
        temperature=1.0,
        beta=0.0,
        learning_rate=1e-4,
        max_steps=10**6,
        logging_steps=10**6,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        torch_compile=settings.compiled,
    )
    counted = [0]

    def half(prompts: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        told = (case.turns - 1) * (BETWEEN + 1)
        counted[0] = sum(len(ids) - told for ids in completion_ids)
        return [float(number % 2) for number in range(len(prompts))]

    def converse(prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Several turns as TRL plays them: the whole history is read again at each."""
        opening = [tokenizer(prompt)["input_ids"] for prompt in prompts]
        histories = [list(ids) for ids in opening]
        masks: list[list[int]] = [[] for _ in prompts]
        for turn in range(case.turns):
            if turn:
                said = [tokenizer.eos_token_id, *tokenizer(between(turn))["input_ids"]]
                for history, mask in zip(histories, masks, strict=True):
                    history += said
                    mask += [0] * len(said)
            answers, _ = trainer._generate_single_turn(histories, None, {}, case.samples)
            for history, mask, answer in zip(histories, masks, answers, strict=True):
                history += answer
                mask += [1] * len(answer)
        completions = [history[len(ids) :] for history, ids in zip(histories, opening, strict=True)]
        return {"prompt_ids": opening, "completion_ids": completions, "logprobs": None, "env_mask": masks}

    def peak() -> float:
        """MiB, of the device's memory where it has its own."""
        return device_peak() if cuda else (resident("VmHWM") - before) / 1024

    class Turns(TrainerCallback):  # type: ignore[misc]
        """Waits for the parent before each step and reports after it."""

        def on_step_begin(self, *given: Any, **named: Any) -> None:
            command = line.wait()
            if command is None:
                line.tell(memory=peak())
                raise SystemExit(0)
            trainer.generation_config.max_new_tokens = BRIEF if command == "brief" else case.new
            self.stop = watch.start("step")

        def on_step_end(self, *given: Any, **named: Any) -> None:
            self.stop()
            line.tell(**watch.take(), tokens=counted[0])

    rows = [prompt_text(number, case.prompt) for number in range(case.prompts)] * 64
    trainer = GRPOTrainer(
        model=model,
        args=arguments,
        reward_funcs=half,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": rows}),
        callbacks=[Turns()],
        peft_config=_adapter(case),
        **({"rollout_func": converse} if case.turns > 1 else {}),
    )
    trainer.model.generate = watch.timed("sampling", trainer.model.generate)
    line.tell(threads=torch.get_num_threads(), device=settings.device, brief=True)
    trainer.train()


def _adapter(case: Case) -> Any:
    """What PEFT is asked for; None where all weights are trained."""
    if not case.lora:
        return None
    from peft import LoraConfig

    return LoraConfig(r=case.lora, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    run(Case(**given["case"]), Settings(**given["settings"]))
