"""Tiny random models of several architectures and a character tokenizer, all made without a global draw."""

import string

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoConfig,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)
from transformers.initialization import no_init_weights

from hocket.core.keys import Key
from hocket.policies.causal_lm import CausalLM

CHARACTERS = string.ascii_lowercase + string.digits + " .,?!<>/|"
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
_DECODER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {"<pad>": 0, "<end>": 1, "<unk>": 2}
    vocabulary.update({character: 3 + number for number, character in enumerate(CHARACTERS)})
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<end>", pad_token="<pad>", unk_token="<unk>", chat_template=TEMPLATE
    )


def config(kind: str, vocabulary: int, **more):
    ends = {"vocab_size": vocabulary, "eos_token_id": 1, "pad_token_id": 0, "bos_token_id": None}
    if kind == "qwen3":
        return Qwen3Config(**_DECODER, **ends, head_dim=16, tie_word_embeddings=True, **more)
    if kind == "qwen2":
        return Qwen2Config(**_DECODER, **ends, tie_word_embeddings=False, **more)
    if kind == "llama":
        return LlamaConfig(**_DECODER, **ends, attention_bias=True, **more)
    if kind == "mistral":
        return MistralConfig(**_DECODER, **ends, **{"sliding_window": None, **more})
    if kind == "gemma2":
        softcap = {"final_logit_softcapping": 1.0, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 16}
        return Gemma2Config(**_DECODER, **ends, **softcap, **more)
    if kind in ("falcon", "gpt_neox", "nanochat"):  # No form: computed by their own forward pass.
        return AutoConfig.for_model(kind, **_DECODER, **ends, **({"alibi": True} if kind == "falcon" else {}), **more)
    return GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=256, **ends, **more)


def model(kind: str, vocabulary: int, seed: int = 0, scale: float = 0.3, **more):
    """A random model with weights drawn from a key; norms near 1."""
    from transformers import AutoModelForCausalLM

    with no_init_weights():
        made = AutoModelForCausalLM.from_config(config(kind, vocabulary, **more), attn_implementation="eager")
    generator = Key.of(seed).derive(kind).torch()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator) * scale
            parameter.copy_(drawn + (1 if "norm" in name or "ln_" in name else 0))
    made.tie_weights()
    made.generation_config.eos_token_id = 1
    made.generation_config.pad_token_id = 0
    return made.eval()


def policy(kind: str = "qwen3", seed: int = 0, **more) -> CausalLM:
    words = tokenizer()
    return CausalLM(model(kind, len(words), seed, **more), words)
