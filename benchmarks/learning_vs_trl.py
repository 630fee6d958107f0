"""How far SmolLM2 gets on a real task within the same processor seconds: `hocket train` beside TRL's `GRPOTrainer`.

    python benchmarks/learning_vs_trl.py --seconds 1800            two cores, half an hour of each

`vs_trl.py --setup` makes TRL's environment; SmolLM2 as docs/tutorial.md has it. Both sides learn the same by the same:
sums of two terms, judged by the last number of an answer of at most 20 tokens, 16 prompts of 8 answers a step, GRPO
with a clip of 0.2 and no KL, an adapter of rank 16 on all products, Adam at 5e-4, gradients of norm 1 at most, one
thread, fp32 unless the machine multiplies bf16. They run at once, each in a process of its own, and what is counted is
its own processor seconds from its first step on. At every mark each writes down its model, and all of them are measured
afterwards by one program: greedy, on 500 problems that neither has seen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import site
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import side_trl
from bench import BUILD, ROOT, machine

TASK = "reasoning-gym:chain_sum?min_terms=2&max_terms=2&min_digits=1&max_digits=2&extract=number"
WORK = BUILD / "learning"
PROMPTS, SAMPLES, TOKENS, HEAT, RATE, RANK, PROBLEMS = 16, 8, 20, 0.5, 5e-4, 16, 500


@dataclass(frozen=True)
class Job:
    """What one side is to do.

    Attributes:
        side: `ours` or `trl`. seconds: of the processor. marks: how often the model is written down.
        attention, micro, bf16: TRL's settings; `micro` answers are learnt from at a time.
        packages: where TRL's process finds what its environment lacks of hocket's.
    """

    side: str
    seconds: float
    marks: int
    seed: int
    attention: str = "sdpa"
    micro: int = 32
    bf16: bool = False
    packages: str = ""

    @property
    def folder(self) -> Path:
        return WORK / self.side

    def start(self) -> subprocess.Popen[str]:
        """The process; what it says goes to a log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        python = sys.executable if self.side == "ours" else str(side_trl.PYTHON)
        command = ["env", f"PYTHONPATH={ROOT}", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "HF_HUB_OFFLINE=1"]
        with (self.folder / "log").open("w") as log:
            return subprocess.Popen(
                [*command, "TRL_EXPERIMENTAL_SILENCE=1", python, __file__, "--side", json.dumps(asdict(self))],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )


class Course:
    """Processor seconds of the steps alone, and a line about every mark that they pass."""

    def __init__(self, job: Job, save: Callable[[Path], None]) -> None:
        self._job, self._save = job, save
        self.step, self.spent, self._marked = 0, 0.0, 0
        self._rewards: list[float] = []

    def resume(self) -> None:
        self._started = time.process_time()

    def passed(self, reward: float) -> bool:
        """Counts a step with its mean reward; whether there is to be another one."""
        self.spent += time.process_time() - self._started
        self.step += 1
        self._rewards.append(reward)
        due = min(self._job.marks, int(self.spent * self._job.marks / self._job.seconds))
        if due > self._marked:  # A long step may pass several marks, of which it makes the last.
            self._marked, folder = due, self._job.folder / f"mark-{due}"
            self._save(folder)
            said = {"mark": due, "seconds": self.spent, "step": self.step, "folder": str(folder)}
            print(json.dumps({**said, "reward": statistics.fmean(self._rewards)}), flush=True)
            self._rewards.clear()
        return self._marked < self._job.marks


def settings(model: str, seed: int) -> list[tuple[str, Any]]:
    """As `hocket train` is given them."""
    return [
        *(("task", TASK), ("model", model), ("seed", seed), ("threads", 1), ("steps", 10**6)),
        *(("curriculum.prompts", PROMPTS), ("rollout.samples", SAMPLES), ("update.lr", RATE)),
        *(("decoding.max_tokens", TOKENS), ("decoding.temperature", HEAT), ("runs", str(WORK / "runs"))),
    ]


def run_ours(job: Job) -> None:
    """The worker."""
    from hocket import tasks
    from hocket.train.config import configure
    from hocket.train.loop import train_step
    from hocket.train.trainer import Trainer

    task = tasks.find(TASK)
    parts = Trainer(configure([*settings("smollm2", job.seed), ("lora.rank", RANK)], task), task=task).parts
    policy: Any = parts.lead.policy
    course, going = Course(job, policy.save), True
    while going:
        course.resume()
        metrics = asyncio.run(train_step(parts, course.step + 1)).metrics
        going = course.passed(metrics["reward/mean"])


def run_trl(job: Job) -> None:
    """The worker."""
    sys.path.append(job.packages)
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from hocket import tasks
    from hocket.train.models import model_path

    torch.set_num_threads(1)
    task: Any = tasks.find(TASK)
    base = model_path("smollm2")
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation=job.attention)
    told: list[float] = []

    def right(completions: list[Any], number: list[int], **_: Any) -> list[float]:
        told[:] = [
            float(task.verify(said[0]["content"], task.scenario("train", one)) or 0.0)
            for said, one in zip(completions, number, strict=True)
        ]
        return list(told)

    def write(folder: Path) -> None:
        adapted.save_pretrained(folder / "adapter")

    class Turns(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *given: Any, **named: Any) -> None:
            course.resume()

        def on_step_end(self, arguments: Any, state: Any, control: Any, **named: Any) -> None:
            control.should_training_stop = not course.passed(sum(told) / len(told))

    asked = [task.scenario("train", number) for number in range(PROMPTS * 512)]
    rows = [[{"role": "user", "content": str(one.prompt)}] for one in asked]
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(
            output_dir=str(job.folder / "output"),
            use_cpu=True,
            bf16=job.bf16,
            seed=job.seed,
            gradient_checkpointing=False,
            per_device_train_batch_size=job.micro,
            gradient_accumulation_steps=PROMPTS * SAMPLES // job.micro,
            num_generations=SAMPLES,
            max_completion_length=TOKENS,
            temperature=HEAT,
            beta=0.0,
            loss_type="grpo",
            learning_rate=RATE,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            max_steps=10**6,
            logging_steps=10**6,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        reward_funcs=right,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": rows, "number": list(range(len(rows)))}),
        callbacks=[Turns()],
        peft_config=LoraConfig(r=RANK, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    adapted: Any = trainer.model
    course = Course(job, write)
    trainer.train()
    print(json.dumps({"steps": course.step, "seconds": course.spent}), file=sys.stderr)
    for folder in sorted(job.folder.glob("mark-*")):
        merge(base, folder, tokenizer)


def merge(base: str, folder: Path, tokenizer: Any) -> None:
    """Makes an adapter's folder one of a whole model."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    PeftModel.from_pretrained(plain, folder / "adapter").merge_and_unload().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def measure(model: str, problems: int = PROBLEMS) -> dict[str, float]:
    """Greedy accuracy on unseen problems, with its interval."""
    from hocket import tasks
    from hocket.train.assemble import build_parts
    from hocket.train.config import configure
    from hocket.train.unseen_scenarios import measured

    task = tasks.find(TASK)
    parts = build_parts(configure(settings(model, 0), task), task)
    found = asyncio.run(measured(parts, parts.rewards, n=problems, key=parts.key.derive("evaluation")))
    return {"accuracy": found.success, "low": found.low, "high": found.high}


def compare(jobs: list[Job], problems: int) -> dict[str, list[dict[str, Any]]]:
    """Runs both at once, then measures what they wrote down."""
    workers = {job.side: job.start() for job in jobs}
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        for name, worker in workers.items():
            said = worker.communicate()[0]
            if worker.returncode:
                raise SystemExit(f"{name} failed; the end of its log:\n{(WORK / name / 'log').read_text()[-2000:]}")
            found[name] = [json.loads(line) for line in said.splitlines() if line.startswith('{"mark"')]
    finally:
        for worker in workers.values():
            worker.kill()
    start = {"mark": 0, "seconds": 0.0, "step": 0, "folder": "smollm2", **measure("smollm2", problems)}
    return {
        name: [start, *({**one, **measure(one["folder"], problems)} for one in marks)] for name, marks in found.items()
    }


def show(found: dict[str, list[dict[str, Any]]]) -> None:
    """For people."""
    for name, marks in found.items():
        for one in marks:
            print(
                f"{name:5s} {one['seconds']:6.0f} s, step {one['step']:4d}: {100 * one['accuracy']:.1f} % "
                f"({100 * one['low']:.1f} to {100 * one['high']:.1f})"
            )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800.0, help="of the processor, for each side")
    parser.add_argument("--marks", type=int, default=6, help="how often the models are written down")
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="unseen ones that they are measured on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa", help="TRL's")
    parser.add_argument("--micro", type=int, default=32, help="answers that TRL learns from at a time")
    parser.add_argument("--bf16", action="store_true", help="TRL with bf16 autocast, on machines that multiply it")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        job = Job(**json.loads(options.side))
        (run_ours if job.side == "ours" else run_trl)(job)
        return
    if not side_trl.PYTHON.exists():
        parser.error("TRL is not installed; run python benchmarks/vs_trl.py --setup first")
    shutil.rmtree(WORK, ignore_errors=True)
    ours = Job("ours", options.seconds, options.marks, options.seed)
    own = {"attention": options.attention, "micro": options.micro, "bf16": options.bf16}
    trl = replace(ours, side="trl", packages=site.getsitepackages()[0], **own)
    about, found = machine(**side_trl.versions()), compare([ours, trl], options.problems)
    if options.json:
        json.dump({"machine": about, "sides": found}, sys.stdout, indent=1)
        print()
        return
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    show(found)


if __name__ == "__main__":
    main()
