"""Supervised steps of the nano model with eyes: a picture, a question, an answer whose tokens are learnt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hocket.nano.vision import IMAGE, PATCH, SIDE


def asked(words: str) -> str:
    """A picture and a question as the chat template writes them, up to the answer."""
    return f"<|user|>{IMAGE * (SIDE // PATCH) ** 2}{words}<|end|><|assistant|>"


def answer_loss(model: Any, tokenizer: Any, pixels: Tensor, questions: Sequence[str], texts: Sequence[str]) -> Tensor:
    """The mean cross-entropy in nats of the answers' tokens; pixels `[B, 3, SIDE, SIDE]`."""
    before = [asked(words) for words in questions]
    rows = [
        tokenizer(opening + text + tokenizer.eos_token, add_special_tokens=False)["input_ids"]
        for opening, text in zip(before, texts, strict=True)
    ]
    begun = [len(tokenizer(opening, add_special_tokens=False)["input_ids"]) for opening in before]
    width = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    due = torch.full_like(ids, -100)
    for number, (row, first) in enumerate(zip(rows, begun, strict=True)):
        due[number, first : len(row)] = ids[number, first : len(row)]
    logits = model(input_ids=ids, pixel_values=pixels).logits
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), due[:, 1:].flatten())


def update(optimiser: torch.optim.Optimizer, loss: Tensor, lr: float, step: int, steps: int) -> None:
    """One step, with a warm-up and a fall to nothing over the last third."""
    share = min(1.0, (step + 1) / 30, (steps - step) / (steps / 3))
    for group in optimiser.param_groups:
        group["lr"] = lr * share
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    nn.utils.clip_grad_norm_([weight for group in optimiser.param_groups for weight in group["params"]], 1.0)
    optimiser.step()


@torch.no_grad()
def answers(
    model: Any, tokenizer: Any, pixels: Tensor, questions: Sequence[str], longest: int, begun: str = ""
) -> list[str]:
    """Greedy answers, which begin with `begun`. Questions of one length are answered together."""
    texts = [""] * len(questions)
    encoded = [tokenizer(asked(words) + begun, add_special_tokens=False)["input_ids"] for words in questions]
    for length in sorted(set(map(len, encoded))):
        places = [place for place, ids in enumerate(encoded) if len(ids) == length]
        ids = torch.tensor([encoded[place] for place in places])
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            pixel_values=pixels[places],
            do_sample=False,
            max_new_tokens=longest,
        )
        for place, row in zip(places, out[:, length:], strict=True):
            texts[place] = begun + tokenizer.decode(row)
    return texts
