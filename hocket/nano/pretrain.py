"""Pretraining of the nano base: from nothing to a folder in Hugging Face format, in minutes on one CPU thread.

The checkpoint is chosen by what it can do, not by time: training stops when greedy accuracy on held-out problems
enters a window, because a base that is too good or too bad leaves reinforcement learning nothing to show. All
decisions depend on steps and measurements alone, so a seed gives the same weights on the same machine.

Loss is taken on the assistant's tokens only: the numbers and words of questions are random, and a model of this
size should not spend itself on predicting them.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch.nn import functional
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3ForCausalLM

from hocket.nano.card import model_card
from hocket.nano.corpus import TrainingChat, chats, render
from hocket.nano.measure import ask, full_report
from hocket.nano.model import nano_config, new_model
from hocket.nano.tokenizer import END, ROLE_TAGS, build_tokenizer
from hocket.tasks.arithmetic import verify

Progress = Callable[[dict[str, Any]], None]

_RENDERED_AT_ONCE = 512


@dataclass(frozen=True)
class Pretraining:
    """Settings of one pretraining. Accuracies are shares of right greedy answers to held-out `sums` problems."""

    seed: int = 0
    rows: int = 16
    """Packed rows in a batch."""
    row_length: int = 128
    """Tokens in a row; longer chats are left out."""
    matrix_lr: float = 6e-3
    """Step of Muon, for the matrices of the blocks, in the scale of AdamW's (updates have 0.2 of it as RMS)."""
    other_lr: float = 5e-3
    """Step of AdamW, for the embedding and the norms."""
    warmup: int = 30
    averaging: float = 0.98
    """Decay of the running mean of the weights; the mean is what is measured and saved."""
    precision: Literal["bf16", "fp32"] = "bf16"
    """Precision of matrix products in training; weights, optimiser and measurements are fp32."""
    window: tuple[float, float] = (0.20, 0.27)
    """Training stops when accuracy is inside, or at the measured checkpoint nearest to it if it jumps over.

    The held-out questions are distinct and drawn from a small part of all, so few of them are short; accuracy on
    the "eval" split comes out a few points higher."""
    measure_every: int = 50
    measure_after: int = 1500
    measure_problems: int = 500
    max_steps: int = 4000
    threads: int = 1
    """Threads of torch while pretraining; another number rounds differently and gives other weights."""
    card_problems: int = 1000
    """Problems behind each figure of the model card; 0 leaves the figures out."""


@dataclass(frozen=True)
class PackedBatch:
    """Chats laid end to end in rows of equal length.

    `tokens`, `positions` and `chat` are int64 [rows, length]: token ids, positions counted within each chat, and
    the number of the chat within its row (-1 where the row is empty). `targets` is int64 [rows, length]: the next
    token where it is trained, else -100.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    chat: torch.Tensor
    targets: torch.Tensor

    def attention_mask(self) -> torch.Tensor:
        """Additive mask [rows, 1, length, length]: causal, and closed between chats."""
        length = self.tokens.shape[1]
        same = self.chat[:, :, None] == self.chat[:, None, :]
        mask = same & torch.ones(length, length, dtype=torch.bool).tril()
        return torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)[:, None]


def trained_targets(ids: list[int], assistant: int, end: int) -> list[int]:
    """For each token the next one if the assistant wrote it (its end of turn included), else -100."""
    targets, speaking = [], False
    for token, following in zip(ids, [*ids[1:], -100], strict=True):
        speaking = token == assistant or (speaking and token != end)
        targets.append(following if speaking else -100)
    return targets


def pack(sequences: Iterator[list[int]], config: Pretraining, tokenizer: PreTrainedTokenizerFast) -> PackedBatch:
    """The next batch from a stream of token sequences; each goes into the first row with room.

    The batch is full when a sequence fits nowhere; that one sequence is dropped.
    """
    assistant, end = tokenizer.convert_tokens_to_ids([ROLE_TAGS["assistant"], END])
    shape = (config.rows, config.row_length)
    tokens = torch.full(shape, int(tokenizer.pad_token_id or 0))
    positions, chat, targets = torch.zeros_like(tokens), torch.full(shape, -1), torch.full(shape, -100)
    used, held = [0] * config.rows, [0] * config.rows
    for ids in sequences:
        row = next((row for row in range(config.rows) if used[row] + len(ids) <= config.row_length), None)
        if row is None:
            break
        place = slice(used[row], used[row] + len(ids))
        tokens[row, place] = torch.tensor(ids)
        positions[row, place] = torch.arange(len(ids))
        chat[row, place] = held[row]
        targets[row, place] = torch.tensor(trained_targets(ids, assistant, end))
        used[row], held[row] = used[row] + len(ids), held[row] + 1
    return PackedBatch(tokens, positions, chat, targets)


def _sequences(
    examples: Iterator[TrainingChat], tokenizer: PreTrainedTokenizerFast, longest: int
) -> Iterator[list[int]]:
    while True:
        for ids in render(itertools.islice(examples, _RENDERED_AT_ONCE), tokenizer):
            if len(ids) <= longest:
                yield ids


def loss_of(model: Qwen3ForCausalLM, batch: PackedBatch, precision: str) -> torch.Tensor:
    """Mean cross-entropy in nats over the trained tokens of a batch."""
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        hidden = model.model(
            input_ids=batch.tokens, attention_mask=batch.attention_mask(), position_ids=batch.positions
        ).last_hidden_state
        trained = batch.targets != -100
        logits = model.lm_head(hidden[trained])
    return functional.cross_entropy(logits.float(), batch.targets[trained])


class _Optimiser:
    """Muon on the matrices of the blocks and AdamW on everything else, with linear warm-up."""

    def __init__(self, model: Qwen3ForCausalLM, config: Pretraining) -> None:
        inside = [p for p in model.model.layers.parameters() if p.ndim == 2]
        chosen = {id(parameter) for parameter in inside}
        others = [p for p in model.parameters() if id(p) not in chosen]
        self._parts: list[tuple[torch.optim.Optimizer, float]] = [
            (
                torch.optim.Muon(inside, lr=config.matrix_lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
                config.matrix_lr,
            ),
            (torch.optim.AdamW(others, lr=config.other_lr, betas=(0.9, 0.95), weight_decay=0.0), config.other_lr),
        ]
        self._warmup = config.warmup

    def step(self, step: int) -> None:
        """One update from the gradients at hand; `step` counts from 1."""
        for optimiser, lr in self._parts:
            for group in optimiser.param_groups:
                group["lr"] = lr * min(1.0, step / max(1, self._warmup))
            optimiser.step()
            optimiser.zero_grad()


def _distinct(examples: Iterator[TrainingChat], n: int) -> list[TrainingChat]:
    """The first `n` chats with different questions."""
    by_question: dict[str, TrainingChat] = {}
    while len(by_question) < n:
        chat = next(examples)
        by_question.setdefault(chat.question, chat)
    return list(by_question.values())


class _Judge:
    """Measures averaged weights on held-out problems and remembers the checkpoint nearest to the window."""

    def __init__(self, config: Pretraining, tokenizer: PreTrainedTokenizerFast) -> None:
        self._asked = _distinct(chats(config.seed, task="sums", held_out=True), config.measure_problems)
        self._low, self._high = config.window
        self._tokenizer = tokenizer
        self.step, self.accuracy, self.weights = 0, -1.0, dict[str, torch.Tensor]()

    def measure(self, model: Qwen3ForCausalLM, forced: str = "") -> float:
        """Greedy accuracy of `model` on the held-out problems."""
        texts = ask(model, self._tokenizer, [chat.question for chat in self._asked], forced=forced)
        right = [verify(text, chat.answer) for text, chat in zip(texts, self._asked, strict=True)]
        return sum(right) / len(right)

    def consider(self, step: int, model: Qwen3ForCausalLM, accuracy: float) -> bool:
        """Keep the weights of `model` if they are the nearest so far; whether the window is reached."""
        centre = (self._low + self._high) / 2
        if abs(accuracy - centre) <= abs(self.accuracy - centre):
            self.step, self.accuracy = step, accuracy
            self.weights = {name: value.clone() for name, value in model.state_dict().items()}
        return accuracy >= self._low


def _train(
    config: Pretraining, tokenizer: PreTrainedTokenizerFast, judge: _Judge, progress: Progress
) -> tuple[Qwen3ForCausalLM, int]:
    """Trains until the judge is content; returns the averaged model and the number of steps made."""
    model_config = nano_config(tokenizer)
    model_config._attn_implementation = "eager"  # faster than the fused kernel's backward at these lengths
    model = new_model(model_config, torch.Generator().manual_seed(config.seed)).train()
    average = new_model(model_config, torch.Generator().manual_seed(config.seed))
    optimiser = _Optimiser(model, config)
    stream = _sequences(chats(config.seed), tokenizer, config.row_length)
    for step in range(1, config.max_steps + 1):
        loss = loss_of(model, pack(stream, config, tokenizer), config.precision)
        torch.autograd.backward(loss)
        optimiser.step(step)
        keep = min(config.averaging, 1 - 1 / step)
        with torch.no_grad():
            for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 1 - keep)
        last = step == config.max_steps
        if last or (step >= config.measure_after and step % config.measure_every == 0):
            accuracy = judge.measure(average)
            progress({"step": step, "loss": loss.item(), "accuracy": accuracy})
            if judge.consider(step, average, accuracy) or last:
                break
    average.load_state_dict(judge.weights)
    return average, step


def pretrain(config: Pretraining, out: Path, *, progress: Progress | None = None) -> dict[str, Any]:
    """Makes a base model and puts it, complete, at the folder `out` (replaced if it is there).

    `progress` is called with `{"step", "loss", "accuracy"}` at each measurement. Returns a summary: `step`,
    `held_out_accuracy`, `seconds` (of processor time, so that the load of the machine does not show), `parameters`
    and, unless `card_problems` is 0, the measured `figures`.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        return _pretrain(config, out, progress or (lambda _: None))
    finally:
        torch.set_num_threads(threads)


def _pretrain(config: Pretraining, out: Path, progress: Progress) -> dict[str, Any]:
    started = time.process_time()
    tokenizer = build_tokenizer()
    judge = _Judge(config, tokenizer)
    model, steps = _train(config, tokenizer, judge, progress)
    summary: dict[str, Any] = {
        "step": judge.step,
        "steps_made": steps,
        "held_out_accuracy": judge.accuracy,
        "seconds": time.process_time() - started,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "settings": asdict(config),
    }
    if config.card_problems:
        summary |= full_report(model, tokenizer, n=config.card_problems)
    _save(model, tokenizer, summary, out)
    return summary


def _save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, summary: dict[str, Any], out: Path) -> None:
    """Writes everything into a folder beside `out` and then renames it, so that `out` is never half written."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        fresh = Path(scratch) / "new"
        model.generation_config = GenerationConfig(
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True, temperature=1.0
        )
        model.save_pretrained(fresh)
        (fresh / "model.safetensors").chmod(0o644)  # safetensors makes it readable by its owner alone
        tokenizer.save_pretrained(fresh)
        (fresh / "pretraining.json").write_text(json.dumps(summary, indent=2) + "\n")
        (fresh / "README.md").write_text(model_card(summary))
        if out.exists():
            os.rename(out, Path(scratch) / "old")
        os.rename(fresh, out)
        shutil.rmtree(Path(scratch) / "old", ignore_errors=True)
