"""The nano model with ears: a tower of three layers before the shipped base, in the form of Qwen2-Audio.

It reads two seconds at 16 kHz as 64 frames of 64 mel bins, so a sound is 16 tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    GenerationConfig,
    Qwen2AudioConfig,
    Qwen2AudioEncoderConfig,
    Qwen2AudioForConditionalGeneration,
    Qwen2AudioProcessor,
    Qwen3ForCausalLM,
    WhisperFeatureExtractor,
)

from hocket.nano.tokenizer import added, build_tokenizer
from hocket.nano.vision import IMAGE, TEMPLATE

AUDIO = "<audio>"
"""The placeholder of a sound's token."""

SECONDS, FRAMES, BINS = 2, 64, 64
TOKENS = FRAMES // 4

_RATE = 16_000


def build_processor() -> Qwen2AudioProcessor:
    """The base's tokenizer with a placeholder, and what makes mel spectrograms of sounds."""
    tokenizer = build_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [added(AUDIO, special=True)]})
    tokenizer.chat_template = TEMPLATE.replace(IMAGE, AUDIO).replace("'image'", "'audio'")
    mel = WhisperFeatureExtractor(
        feature_size=BINS,
        sampling_rate=_RATE,
        hop_length=SECONDS * _RATE // FRAMES,
        chunk_length=SECONDS,
        n_fft=1024,
        return_attention_mask=True,
    )
    return Qwen2AudioProcessor(mel, tokenizer, chat_template=tokenizer.chat_template, audio_token=AUDIO)


def new_model(language: Qwen3ForCausalLM, processor: Any, seed: int, *, width: int = 64, layers: int = 3) -> Any:
    """A model with the base's weights as its language part, and a tower of random weights."""
    tower = Qwen2AudioEncoderConfig(
        num_mel_bins=BINS,
        d_model=width,
        encoder_layers=layers,
        encoder_attention_heads=4,
        encoder_ffn_dim=2 * width,
        max_source_positions=FRAMES // 2,
        dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
    )
    tokenizer = processor.tokenizer
    # The family's head is a matrix of its own. No path of this machine.
    text = language.config.to_dict() | {
        "vocab_size": len(tokenizer),
        "_name_or_path": "",
        "tie_word_embeddings": False,
    }
    config = Qwen2AudioConfig(
        audio_config=tower,
        text_config=type(language.config)(**text),
        audio_token_index=tokenizer.convert_tokens_to_ids(AUDIO),
        tie_word_embeddings=False,
    )
    config._attn_implementation = "eager"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2AudioForConditionalGeneration(config)
    trunk = language.model.state_dict()
    rows = model.model.language_model.embed_tokens.weight.detach().clone()
    rows[: len(trunk["embed_tokens.weight"])] = trunk["embed_tokens.weight"]
    model.model.language_model.load_state_dict(trunk | {"embed_tokens.weight": rows})
    model.lm_head.load_state_dict({"weight": rows})
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True, temperature=1.0
    )
    return model
