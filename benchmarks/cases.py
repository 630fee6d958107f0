"""What both sides of a comparison are given: a random model, its tokenizer, prompts; and the least work there is in it.

The weights are random, but arranged so that a response ends when it should: all states point along one direction, as
the layers add little, and tokens that are not to be sampled point against it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import BUILD

WORK = BUILD / "cases"
END, PAD = "<|end|>", "<|pad|>"
CHARACTERS = [chr(code) for code in range(33, 127)] + [" ", "\n"]
TEMPLATE = "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}<|end|>{% endif %}{% endfor %}"
MODULES = tuple(
    f"transformers.models.{name}.modeling_{name}" for name in ("llama", "qwen2", "qwen3", "qwen3_moe", "gemma3")
)
"""What the models need, imported late by `transformers`."""
BETWEEN = 32
"""Tokens of what is said between two turns, besides the end of the turn before."""


@dataclass(frozen=True)
class Case:
    """What is measured.

    Attributes:
        width, layers, heads: of the model. shared: heads of keys and values, half of `heads` when 0.
        inner: width of the feed-forward part, three times `width` when 0. kind: architecture.
        prompts, samples: continuations are `samples` to each of `prompts` prompts.
        prompt, new: tokens of a prompt and of a response, per turn. turns: of a conversation.
        words: tokens beyond the characters.
        stops: responses end at random, up to `new` tokens; else all have `new`.
        micro: samples in a micro-batch of TRL, where memory does not allow all; 0 for all.
        attention: what TRL uses unless tuned: fused attention wins on long sequences only.
        lora: rank of an adapter on queries and values, which alone is trained; 0 trains all weights.
        experts, chosen: routed experts of a layer, each of width `inner`, and how many a token is sent to; 0 for none.
    """

    name: str
    width: int
    layers: int
    heads: int
    shared: int = 0
    inner: int = 0
    kind: str = "qwen3"
    prompts: int = 16
    samples: int = 8
    prompt: int = 32
    new: int = 64
    turns: int = 1
    words: int = 0
    stops: bool = False
    micro: int = 0
    attention: str = "eager"
    lora: int = 0
    experts: int = 0
    chosen: int = 0

    @property
    def folder(self) -> Path:
        """Where its model is."""
        return WORK / self.name

    @property
    def rows(self) -> int:
        """Samples of a step."""
        return self.prompts * self.samples

    @property
    def tokens(self) -> int | None:
        """Tokens sampled in a step; None where that is left to chance."""
        return None if self.stops else self.rows * self.turns * self.new

    @property
    def context(self) -> int:
        """Tokens of the longest sequence."""
        return self.prompt + self.turns * (self.new + 1) + (self.turns - 1) * BETWEEN


CASES = (
    Case("nano-short", 128, 5, 4),
    Case("nano-long-prompt", 128, 5, 4, prompt=512, attention="sdpa"),
    Case("small", 256, 6, 4),
    Case("medium", 512, 8, 8),
    Case("vocab-150k", 256, 4, 4, prompts=4, new=32, words=150_000),
    Case("uneven-lengths", 128, 5, 4, prompts=8, new=256, stops=True, attention="sdpa"),
    Case("multi-turn", 128, 5, 4, prompts=8, prompt=64, turns=4, attention="sdpa"),
    # The shape of SmolLM2-135M.
    Case("smollm2-lora", 576, 30, 9, 3, 1536, "llama", prompts=4, prompt=64, new=48, words=49_056, lora=16),
    Case("qwen3-moe", 256, 6, 8, 2, 192, "qwen3_moe", prompts=8, prompt=64, experts=32, chosen=4),
    Case("gemma3", 256, 6, 4, 1, 1024, "gemma3", prompts=4, prompt=64, new=32, words=30_000),
)


def prompt_text(number: int, length: int) -> str:
    """`length` characters, one token each; the same on every side."""
    import numpy as np

    letters = np.random.Generator(np.random.Philox(key=number)).integers(0, 94, length)
    return "".join(CHARACTERS[letter] for letter in letters)


def between(turn: int) -> str:
    """What is said before turn `turn` of a conversation."""
    return prompt_text(1000 + turn, BETWEEN)


def build_model(case: Case) -> None:
    """Writes the case's random model and its tokenizer of characters to `case.folder`, unless they are there."""
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import (
        AutoModelForCausalLM,
        Gemma3TextConfig,
        LlamaConfig,
        PreTrainedTokenizerFast,
        Qwen2Config,
        Qwen3Config,
        Qwen3MoeConfig,
    )
    from transformers.utils import logging

    logging.disable_progress_bar()
    made = case.folder / "case.json"
    wanted = json.dumps(asdict(case))
    if made.exists() and made.read_text() == wanted:
        return
    tokens = [PAD, END, *CHARACTERS, *(f"word{number}" for number in range(case.words))]
    core = Tokenizer(models.BPE(vocab={token: place for place, token in enumerate(tokens)}, merges=[]))
    core.decoder = decoders.Fuse()
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in (PAD, END)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token=PAD, eos_token=END, padding_side="left")
    tokenizer.chat_template = TEMPLATE
    # Every third layer of gemma3 sees all, the others a window shorter than the sequences; its norms are 1 + weight.
    sliding = [f"{'full' if number % 3 == 2 else 'sliding'}_attention" for number in range(case.layers)]
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "llama": (LlamaConfig, {}),
        "qwen2": (Qwen2Config, {}),
        "qwen3": (Qwen3Config, {}),
        "qwen3_moe": (
            Qwen3MoeConfig,
            {
                "num_experts": case.experts,
                "num_experts_per_tok": case.chosen,
                "moe_intermediate_size": case.inner,
                "norm_topk_prob": True,
            },
        ),
        "gemma3": (
            Gemma3TextConfig,
            {"sliding_window": 64, "layer_types": sliding, "query_pre_attn_scalar": case.width // case.heads},
        ),
    }
    kind, more = kinds[case.kind]
    config = kind(
        vocab_size=len(tokens),
        hidden_size=case.width,
        intermediate_size=case.inner or 3 * case.width,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        num_key_value_heads=case.shared or case.heads // 2,
        head_dim=case.width // case.heads,
        max_position_embeddings=max(1024, case.context),
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        **more,
    )
    where = "cuda" if case.width > 1000 and torch.cuda.is_available() else "cpu"  # A processor takes a minute.
    with torch.random.fork_rng(), torch.device(where):
        model = AutoModelForCausalLM.from_config(config)
    generator = torch.Generator(where).manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                outward = name.endswith(("o_proj.weight", "down_proj.weight", "down_proj"))
                parameter.normal_(0.0, 0.001 if outward else 0.02, generator=generator)
        embedding = model.get_input_embeddings().weight
        embedding[:, 0] = 1.0
        embedding[[0] if case.stops else [0, 1], 0] = -1.0
    model.save_pretrained(case.folder)
    tokenizer.save_pretrained(case.folder)
    made.write_text(wanted)


@dataclass(frozen=True)
class Work:
    """The least arithmetic of a step, in operations: 2 per weight and token forward, 4 more backward.

    Every token of a prefix that sequences share is computed once, the output head for the `sampled` tokens only.
    Attention's products (2 for queries and keys, 2 for values, per pair of tokens and dimension) are counted apart.

    Attributes:
        sampling, learner: products with weights. attention_sampling, attention_learner: attention's.
        once: tokens computed. sampled: tokens sampled.
    """

    sampling: float
    learner: float
    attention_sampling: float
    attention_learner: float
    once: int
    sampled: int

    @staticmethod
    def of(case: Case, sequences: Iterable[Sequence[int]], sampled: int, layers: int, head: int) -> Work:
        """The work in `sequences` of token ids; the model has `layers` weights in its layers and `head` in its head."""
        once, pairs = shared_tokens(sequences)
        products, attention = 2.0 * (once * layers + sampled * head), 4.0 * pairs * case.width * case.layers
        return Work(products, 3 * products, attention, 3 * attention, once, sampled)


def shared_tokens(sequences: Iterable[Sequence[int]]) -> tuple[int, int]:
    """Tokens that must be read once prefixes are shared, and pairs of a token and one it attends to.

    The last token of a sequence is never read.
    """
    seen: set[int] = set()
    pairs = 0
    for sequence in sequences:
        prefix = 0
        for place, token in enumerate(sequence[:-1]):
            prefix = hash((prefix, token))
            if prefix not in seen:
                seen.add(prefix)
                pairs += place + 1
    return len(seen), pairs
