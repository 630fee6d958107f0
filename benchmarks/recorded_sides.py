"""Both sides of `recorded_vs_trl.py`: steps from recorded answers, each run by the Python of its own environment."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import side_trl
from bench import BUILD, Stopwatch, forget_peak, preload, resident
from sides import Line, Side

Kind = Literal["dpo", "sft", "reward"]
MODULES = (
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.llama.modeling_llama",
    "transformers.models.auto.modeling_auto",
)
WORDS = ("time", "people", "water", "light", "house", "place", "work", "part", "world", "hand", "year", "day", "way")
"""A token each in SmolLM2's vocabulary, after a space."""


@dataclass(frozen=True)
class Data:
    """What is learnt from: `prompts` a step, prompts of `prompt` tokens and answers of `answer`, before the template.

    Attributes:
        kind: of training. folder: the model. spelled: a token is a character of it, else a word.
        batches: different ones; with few of them a reference has seen all after the first steps.
        uneven: by which share lengths may be below or above those named, evenly drawn.
    """

    kind: Kind
    folder: str
    prompts: int
    prompt: int
    answer: int
    spelled: bool
    batches: int = 32
    uneven: float = 0.0

    @property
    def size(self) -> int:
        """Scenarios."""
        return self.prompts * self.batches

    def text(self, number: int, length: int) -> str:
        """`length` tokens at random, the same on every side."""
        import numpy as np

        draw = np.random.Generator(np.random.Philox(key=number))
        length = round(length * (1 + self.uneven * draw.uniform(-1, 1)))
        if self.spelled:
            return "".join("abcdefghijklmnopqrstuvwxyz"[letter] for letter in draw.integers(0, 26, length))
        return " ".join(WORDS[word] for word in draw.integers(0, len(WORDS), length))

    def asked(self, number: int) -> str:
        """The prompt of a scenario."""
        return self.text(3 * number, self.prompt)

    def said(self, number: int, place: int) -> str:
        """Its answer: the chosen one at place 0, the rejected one at 1."""
        return self.text(3 * number + 1 + place, self.answer)


@dataclass(frozen=True)
class Settings:
    """How a side is run.

    Attributes:
        ours: whether it is this library. compute: of products, `fp32` or `bf16` (autocast, in TRL); ours also `auto`.
        checkpointing, precompute: TRL's settings of these names.
    """

    ours: bool
    compute: str = "fp32"
    checkpointing: bool = False
    precompute: bool = False

    def start(self, name: str, data: Data) -> Side:
        """A worker on one thread."""
        python = Path(sys.executable) if self.ours else side_trl.PYTHON
        order = json.dumps({"data": asdict(data), "settings": asdict(self)})
        log = BUILD / "recorded" / f"{name.replace(' ', '-')}.log"
        silent = {"TRL_EXPERIMENTAL_SILENCE": "1"}
        return Side.start(name, [python, Path(__file__), order], log=log, threads=1, wait="PASSIVE", extra=silent)


# ---------------------------------------------------------------- ours


def run_ours(data: Data, settings: Settings) -> None:
    """The worker: steps as `hocket train` makes them."""
    line, watch = Line(), Stopwatch()
    import torch

    from hocket.stages import Split
    from hocket.tasks.text import TextTask
    from hocket.train.config import configure
    from hocket.train.loop import collect, learn
    from hocket.train.trainer import Trainer
    from hocket.types import Scenario

    class Given(TextTask):
        """Prompts with two answers each."""

        name = "given"

        def size(self, split: Split) -> int:
            return data.size

        def scenario(self, split: Split, number: int) -> Scenario:
            chosen, rejected = data.said(number, 0), data.said(number, 1)
            told = {"chosen": chosen, "rejected": rejected, "demonstration": chosen}
            return Scenario(str(number), data.asked(number), metadata=told)

        def verify(self, text: str, scenario: Scenario) -> None:
            return None

    preload(*MODULES)
    torch.set_num_threads(1)
    before = forget_peak()
    task = Given()
    pairs: list[tuple[str, Any]] = [
        ("model", data.folder),
        ("recipe", {"dpo": "dpo", "sft": "sft", "reward": "reward-model"}[data.kind]),
        ("runs", str(BUILD / "recorded" / "runs")),
        ("steps", 10**6),
        ("threads", 1),
        ("precision", settings.compute),
        ("curriculum.prompts", data.prompts),
    ]
    parts = Trainer(configure(pairs, task), task=task).parts
    policy: Any = parts.lead.policy
    layers = sum(weight.numel() for weight in policy.model.base_model.parameters())
    line.tell(threads=1, layers=layers, precision=policy.precision)
    number = 0
    while line.wait():
        number += 1
        key = parts.key.derive("step", number)
        with watch("step"):
            with watch("reading"):
                experience, problems = asyncio.run(collect(parts, key))
            with watch("learner"):
                _, metrics = learn(parts, experience.trajectories, key, number)
        if problems:
            raise RuntimeError(problems[0])
        line.tell(**watch.take(), tokens=sum(one.length for one in experience.trajectories), loss=metrics["loss"])
    line.tell(memory=(resident("VmHWM") - before) / 1024)


# ---------------------------------------------------------------- TRL


def run_trl(data: Data, settings: Settings) -> None:
    """The worker: steps of a trainer of TRL, driven through its callbacks."""
    line, watch = Line(), Stopwatch()
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, TrainerCallback
    from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer

    torch.set_num_threads(1)
    preload(*MODULES)
    before = forget_peak()
    tokenizer = AutoTokenizer.from_pretrained(data.folder)
    common: dict[str, Any] = {
        "output_dir": str(BUILD / "recorded" / "trl-output"),
        "use_cpu": True,
        "bf16": settings.compute == "bf16",
        "gradient_checkpointing": settings.checkpointing,
        "per_device_train_batch_size": data.prompts,
        "max_length": None,
        "max_steps": 10**6,
        "logging_steps": 10**6,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }

    def message(role: str, text: str) -> list[dict[str, str]]:
        return [{"role": role, "content": text}]

    rows = range(data.size)
    columns = {
        "prompt": [message("user", data.asked(row)) for row in rows],
        "chosen": [message("assistant", data.said(row, 0)) for row in rows],
        "rejected": [message("assistant", data.said(row, 1)) for row in rows],
    }
    counted = [0, 0.0]

    class Turns(TrainerCallback):  # type: ignore[misc]
        """Waits for the parent before each step and reports after it."""

        def on_step_begin(self, *given: Any, **named: Any) -> None:
            if line.wait() is None:
                line.tell(memory=(resident("VmHWM") - before) / 1024)
                raise SystemExit(0)
            self.stop = watch.start("step")

        def on_step_end(self, *given: Any, **named: Any) -> None:
            self.stop()
            line.tell(**watch.take(), tokens=counted[0], loss=counted[1])

    kind = AutoModelForSequenceClassification if data.kind == "reward" else AutoModelForCausalLM
    more = {"num_labels": 1} if data.kind == "reward" else {}
    given = {"processing_class": tokenizer, "callbacks": [Turns()]}
    given["model"] = kind.from_pretrained(data.folder, dtype=torch.float32, **more)
    if data.kind == "dpo":
        arguments = DPOConfig(**common, precompute_ref_log_probs=settings.precompute)
        trainer = DPOTrainer(args=arguments, train_dataset=Dataset.from_dict(columns), **given)
    elif data.kind == "sft":
        columns = {"prompt": columns["prompt"], "completion": columns["chosen"]}
        trainer = SFTTrainer(args=SFTConfig(**common), train_dataset=Dataset.from_dict(columns), **given)
    else:
        arguments = RewardConfig(**common)
        trainer = RewardTrainer(args=arguments, train_dataset=Dataset.from_dict(columns), **given)
    compute = trainer.compute_loss

    def counting(model: Any, inputs: Any, *others: Any, **named: Any) -> Any:
        mask = inputs["completion_mask"] if "completion_mask" in inputs else inputs.get("labels", torch.zeros(1)) > 0
        counted[0] = int(mask.sum())
        found = compute(model, inputs, *others, **named)
        counted[1] = float(found[0] if isinstance(found, tuple) else found)
        return found

    trainer.compute_loss = counting
    line.tell(threads=1)
    trainer.train()


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    chosen = Settings(**order["settings"])
    (run_ours if chosen.ours else run_trl)(Data(**order["data"]), chosen)
