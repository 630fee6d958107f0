"""Pretraining of nano-mdlm: a masked-diffusion language model with nano's tokenizer and sums.

A BERT that fills masked tokens of answers (LLaDA, arXiv:2502.09992): every token of an answer is masked with a chance
drawn per answer, and the loss is on masked tokens alone. Most sums have two terms of
one or two digits. The prompt is never masked. Answers are direct, and filled up with the end token. Training stops
early on purpose: a finished base leaves reinforcement learning nothing to show.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from hocket.core.keys import Key
from hocket.nano.tokenizer import END, ROLE_TAGS, build_tokenizer
from hocket.tasks.arithmetic import ArithmeticProblem, draw_terms, expression_of, question_of
from hocket.tasks.split import percentile_of, split_of

LENGTH = 8
"""Tokens of an answer: its tags, at most five characters, and the end."""

MASK = "<|mask|>"
_AT_ONCE = 256
_PAIRS = 0.9
_HELD_OUT = 5
_MEASURED = 100
POSITIONS = 64
"""Tokens of prompt and answer at most."""


@dataclass(frozen=True)
class MaskedPretraining:
    """Settings of one pretraining; matrices learn by Muon, all else by AdamW, as nano's."""

    seed: int = 0
    updates: int = 600
    batch: int = 96
    matrix_lr: float = 6e-3
    other_lr: float = 3e-3
    warmup: int = 50
    averaging: float = 0.98
    width: int = 64
    layers: int = 3
    heads: int = 4


def masked_tokenizer() -> PreTrainedTokenizerFast:
    """Nano's tokenizer with a mask token."""
    tokenizer = build_tokenizer()
    tokenizer.add_special_tokens({"mask_token": MASK})
    return tokenizer


def new_masked_model(config: MaskedPretraining, tokenizer: PreTrainedTokenizerFast) -> BertForMaskedLM:
    """A fresh model whose weights depend on the seed alone."""
    shape = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=4 * config.width,
        max_position_embeddings=POSITIONS,
        type_vocab_size=1,
        answer_length=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        attn_implementation="eager",
    )
    with torch.device("meta"):
        model = BertForMaskedLM(shape)
    model.to_empty(device="cpu")
    model.bert.embeddings.position_ids = torch.arange(POSITIONS)[None]
    model.bert.embeddings.token_type_ids = torch.zeros(1, POSITIONS, dtype=torch.long)
    model.tie_weights()
    generator = Key.of(config.seed).derive("weights").torch()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                weight.normal_(0.0, 0.05, generator=generator)
            else:
                weight.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
    return model


def pairs_of(
    rng: np.random.Generator, tokenizer: PreTrainedTokenizerFast, *, held_out: bool = False
) -> Iterator[tuple[list[int], list[int]]]:
    """Prompt ids, and answer ids of `LENGTH`, of sums without end: of the part of questions for pretraining.

    `held_out` questions, some 5 in 100, are apart from the others.
    """
    end = tokenizer.convert_tokens_to_ids(END)
    while True:
        some = [_problem(rng, held_out) for _ in range(_AT_ONCE)]
        prompts = tokenizer([asked(problem.question) for problem in some], add_special_tokens=False)["input_ids"]
        answers = tokenizer([f"<answer>{problem.answer}</answer>" for problem in some], add_special_tokens=False)[
            "input_ids"
        ]
        for prompt, answer in zip(prompts, answers, strict=True):
            yield prompt, answer + [end] * (LENGTH - len(answer))


def _problem(rng: np.random.Generator, held_out: bool) -> ArithmeticProblem:
    """A sum, in `_PAIRS` of all cases one of two terms of at most two digits."""
    pair = rng.random() < _PAIRS
    while True:
        terms = draw_terms(rng)
        question = question_of(expression_of(terms))
        apart = percentile_of(question, b"nano-mdlm") < _HELD_OUT
        small = len(terms) == 2 and max(map(abs, terms)) < 100
        if (small or not pair) and apart == held_out and split_of(question) == "pretrain":
            return ArithmeticProblem(question, str(sum(terms)))


def asked(question: str) -> str:
    """A question as nano's chat template writes it."""
    return f"{ROLE_TAGS['user']}{question}{END}{ROLE_TAGS['assistant']}"


def _batch(pairs: list[tuple[list[int], list[int]]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens `[B, W]`, prompt before answer, and whether each is one of an answer, `[B, W]`."""
    width = max(len(prompt) for prompt, _ in pairs) + LENGTH
    tokens, answers = np.full((len(pairs), width), pad), np.zeros((len(pairs), width), bool)
    for row, (prompt, answer) in enumerate(pairs):
        tokens[row, : len(prompt) + LENGTH] = prompt + answer
        answers[row, len(prompt) : len(prompt) + LENGTH] = True
    return torch.from_numpy(tokens), torch.from_numpy(answers)


@torch.no_grad()
def answered(
    model: BertForMaskedLM, tokenizer: PreTrainedTokenizerFast, pairs: list[tuple[list[int], list[int]]]
) -> float:
    """The share of answers that are right when the surest token is committed at every step."""
    tokens, answers = _batch(pairs, int(tokenizer.pad_token_id))
    mask, rows = int(tokenizer.mask_token_id), torch.arange(len(tokens))
    state, attended = tokens.masked_fill(answers, mask), tokens != tokenizer.pad_token_id
    for _ in range(LENGTH):
        logits = model(input_ids=state, attention_mask=attended.long()).logits
        logits[..., mask] = -torch.inf
        sure, best = logits.softmax(-1).max(-1)
        place = sure.masked_fill(state != mask, -1.0).argmax(1)
        state[rows, place] = best[rows, place]
    return float((state == tokens).all(1).float().mean())


def pretrain_masked(
    config: MaskedPretraining, out: Path, progress: Callable[[dict[str, float]], None] = lambda row: None
) -> dict[str, Any]:
    """Makes the model and writes it, with its tokenizer, to the folder `out` in Hugging Face format.

    Returns a summary: `updates`, `seconds` of processor time, `parameters`, `accuracy` on held-out sums.
    """
    started, tokenizer = time.process_time(), masked_tokenizer()
    model, average = (new_masked_model(config, tokenizer) for _ in range(2))
    matrices = [weight for weight in model.bert.encoder.parameters() if weight.ndim == 2]
    chosen = {id(weight) for weight in matrices}
    others = [weight for weight in model.parameters() if id(weight) not in chosen]
    optimisers: list[tuple[torch.optim.Optimizer, float]] = [
        (
            torch.optim.Muon(matrices, lr=config.matrix_lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
            config.matrix_lr,
        ),
        (torch.optim.AdamW(others, lr=config.other_lr, betas=(0.9, 0.95), weight_decay=0.0), config.other_lr),
    ]
    key = Key.of(config.seed)
    stream = pairs_of(key.derive("sums").numpy(), tokenizer)
    held = list(itertools.islice(pairs_of(key.derive("held out").numpy(), tokenizer, held_out=True), 400))
    mask, pad = int(tokenizer.mask_token_id), int(tokenizer.pad_token_id)
    noise, accuracy = key.derive("masks").torch(), 0.0
    for update in range(1, config.updates + 1):
        tokens, answers = _batch(list(itertools.islice(stream, config.batch)), pad)
        chance = torch.rand(len(tokens), 1, generator=noise)
        hidden = answers & (torch.rand(tokens.shape, generator=noise) < chance)
        read = {"input_ids": tokens.masked_fill(hidden, mask), "attention_mask": (tokens != pad).long()}
        logits = model.cls(model.bert(**read).last_hidden_state[hidden])
        torch.autograd.backward(functional.cross_entropy(logits, tokens[hidden]))
        for optimiser, lr in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = lr * min(1.0, update / config.warmup)
            optimiser.step()
            optimiser.zero_grad()
        keep = min(config.averaging, 1 - 1 / update)
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 1 - keep)
        if update % _MEASURED == 0 or update == config.updates:
            accuracy = answered(average, tokenizer, held)
            progress({"update": update, "accuracy": accuracy, "seconds": time.process_time() - started})
    summary = {
        "updates": config.updates,
        "seconds": time.process_time() - started,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "accuracy": accuracy,
        "settings": asdict(config),
    }
    average.save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    tokenizer.save_pretrained(out)
    (out / "pretraining.json").write_text(json.dumps(summary, indent=1) + "\n")
    return summary
