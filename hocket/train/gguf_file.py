"""A model folder as one GGUF file, which llama.cpp reads and `transformers` reads back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hocket.core.errors import ConfigurationError

_LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
"""How Llama 3 cuts text before it merges bytes, which llama.cpp knows by name."""


def write_gguf(folder: Path, file: Path, *, name: str) -> None:
    """Writes the Llama model in `folder`, merged, with its tokenizer and chat template. Weights keep their precision.

    Raises:
        ConfigurationError: when gguf is not installed, and for another architecture, scaled positions, or a tokenizer
            that llama.cpp has no name for.
    """
    try:
        import gguf
    except ImportError as error:
        raise ConfigurationError("export --gguf needs the package gguf: pip install 'hocket[export]'") from error
    config = json.loads((folder / "config.json").read_text())
    if config.get("model_type") != "llama":
        raise ConfigurationError(
            f"export --gguf knows Llama models, and this one is {config.get('model_type')}; export it with --merge and "
            "convert the folder with llama.cpp"
        )
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", "default") != "default" or config.get("attention_bias") or config.get("mlp_bias"):
        raise ConfigurationError(
            "export --gguf knows Llama models with plain positions and no biases; export it with --merge and convert "
            "the folder with llama.cpp"
        )
    layers, heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
    shared = int(config.get("num_key_value_heads") or heads)
    width = int(config.get("head_dim") or config["hidden_size"] // heads)
    vocabulary = _Vocabulary(folder, int(config["vocab_size"]))
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_name(name)
    writer.add_context_length(int(config["max_position_embeddings"]))
    writer.add_embedding_length(int(config["hidden_size"]))
    writer.add_block_count(layers)
    writer.add_feed_forward_length(int(config["intermediate_size"]))
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0))
    writer.add_layer_norm_rms_eps(float(config["rms_norm_eps"]))
    writer.add_vocab_size(int(config["vocab_size"]))
    vocabulary.write(writer, gguf)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers)
    for key, weight in _weights(folder).items():
        if key == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        stored = names.get_name(key, try_suffixes=(".weight", ".bias"))
        if stored is None:
            raise ConfigurationError(f"export --gguf does not know the weight {key}; export with --merge instead")
        for part, count in (("q_proj", heads), ("k_proj", shared)):
            if key.endswith(f"self_attn.{part}.weight"):
                weight = _interleaved(weight, count)
        values = weight.float().numpy()
        if weight.dtype in (torch.bfloat16, torch.float16) and weight.ndim > 1:
            kind = gguf.GGMLQuantizationType.BF16 if weight.dtype == torch.bfloat16 else gguf.GGMLQuantizationType.F16
            writer.add_tensor(stored, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(stored, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    """All weights of a model folder, one file or several."""
    from safetensors.torch import load_file

    tensors: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        tensors |= load_file(file)
    return tensors


def _interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of a projection `[heads * 2 * H, D]` in the order that GGUF keeps them: rotated pairs side by side."""
    return weight.reshape(heads, 2, -1, weight.shape[-1]).transpose(1, 2).reshape(weight.shape)


class _Vocabulary:
    """Tokens, merges and special tokens of a byte-level tokenizer, as GGUF states them."""

    def __init__(self, folder: Path, size: int) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
        plain: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        self.cut = _cut(plain)
        self.merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in plain["model"]["merges"]]
        added = {int(item["id"]): item for item in plain.get("added_tokens", ())}
        by_id = {number: token for token, number in plain["model"]["vocab"].items()}
        by_id |= {number: str(item["content"]) for number, item in added.items()}
        self.tokens = [by_id.get(number, f"[PAD{number}]") for number in range(size)]
        self.added, self.known = added, by_id

    def write(self, writer: Any, gguf: Any) -> None:
        """Puts everything into the file."""
        kinds, tokenizer = gguf.TokenType, self.tokenizer
        types = []
        for number in range(len(self.tokens)):
            if number in self.added:
                types.append(kinds.CONTROL if self.added[number].get("special") else kinds.USER_DEFINED)
            else:
                types.append(kinds.NORMAL if number in self.known else kinds.UNUSED)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.cut)
        writer.add_token_list(self.tokens)
        writer.add_token_types(types)
        writer.add_token_merges(self.merges)
        for number, add in (
            (tokenizer.bos_token_id, writer.add_bos_token_id),
            (tokenizer.eos_token_id, writer.add_eos_token_id),
            (tokenizer.pad_token_id, writer.add_pad_token_id),
        ):
            if number is not None:
                add(int(number))
        opening = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
        writer.add_add_bos_token(opening and tokenizer.bos_token_id is not None)
        if isinstance(tokenizer.chat_template, str):
            writer.add_chat_template(tokenizer.chat_template)


def _cut(plain: dict[str, Any]) -> str:
    """llama.cpp's name for how a tokenizer cuts text before it merges bytes."""
    before = plain.get("pre_tokenizer") or {}
    steps = before.get("pretokenizers", [before])
    kinds = [step.get("type") for step in steps]
    if plain["model"].get("type") == "BPE" and kinds and kinds[-1] == "ByteLevel":
        if len(kinds) == 1 and steps[0].get("use_regex", True):
            return "gpt-2"
        if kinds[:-1] == ["Digits"] and steps[0].get("individual_digits") and steps[1].get("use_regex", True):
            return "smollm"
        if kinds[:-1] == ["Split"] and steps[0].get("pattern", {}).get("Regex") == _LLAMA_3:
            return "llama-bpe"
    raise ConfigurationError(
        "export --gguf knows the byte-level tokenizers of GPT-2, SmolLM and Llama 3, and this is another; export with "
        "--merge and convert the folder with llama.cpp"
    )
