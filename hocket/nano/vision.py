"""The nano model with eyes: a tower of three layers before the shipped base, in the form of LLaVA.

A picture is read as 16 x 16 pixels, in patches of 4 x 4, so it is 16 tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    Qwen3ForCausalLM,
    SiglipImageProcessorPil,
    SiglipVisionConfig,
)

from hocket.nano.tokenizer import CHAT_TEMPLATE, added, build_tokenizer

SIDE, PATCH = 16, 4
"""Pixels of a picture's side, and of a patch's."""

IMAGE = "<image>"
"""The placeholder of a picture's token."""

_CONTENT = (
    "{%- macro shown(content) -%}{%- if content is string -%}{{- content -}}{%- else -%}{%- for part in content -%}"
    "{{- '<image>' if part.type == 'image' else part.text -}}{%- endfor -%}{%- endif -%}{%- endmacro -%}\n"
)
TEMPLATE = _CONTENT + CHAT_TEMPLATE.replace(
    "+ message.content + '<|end|>'", "+ shown(message.content) + '<|end|>'"
).replace("message.content or ''", "shown(message.content or '')")
"""The base's chat template, which shows parts as well."""


def build_processor() -> LlavaProcessor:
    """The base's tokenizer with a placeholder, and what makes pixels of pictures."""
    tokenizer = build_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [added(IMAGE, special=True)]})
    tokenizer.chat_template = TEMPLATE
    pixels = SiglipImageProcessorPil(
        size={"height": SIDE, "width": SIDE}, image_mean=[0.5] * 3, image_std=[0.5] * 3, resample=2
    )
    return LlavaProcessor(
        pixels,
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="full",
        chat_template=TEMPLATE,
        image_token=IMAGE,
        num_additional_image_tokens=0,
    )


def new_model(language: Qwen3ForCausalLM, processor: Any, seed: int, *, width: int = 64, layers: int = 3) -> Any:
    """A model with the base's weights as its language part, and a tower of random weights."""
    tower = SiglipVisionConfig(
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        image_size=SIDE,
        patch_size=PATCH,
        vision_use_head=False,
    )
    words = len(processor.tokenizer)
    text = language.config.to_dict() | {"vocab_size": words, "_name_or_path": ""}  # No path of this machine.
    config = LlavaConfig(
        vision_config=tower,
        text_config=type(language.config)(**text),
        image_token_index=processor.tokenizer.convert_tokens_to_ids(IMAGE),
        image_seq_length=(SIDE // PATCH) ** 2,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        tie_word_embeddings=True,
    )
    config._attn_implementation = "eager"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlavaForConditionalGeneration(config)
    trunk = language.model.state_dict()
    rows = model.model.language_model.embed_tokens.weight.detach().clone()
    rows[: len(trunk["embed_tokens.weight"])] = trunk["embed_tokens.weight"]
    model.model.language_model.load_state_dict(trunk | {"embed_tokens.weight": rows})
    model.tie_weights()
    tokenizer = processor.tokenizer
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True, temperature=1.0
    )
    return model
