"""Pipelines of diffusers with random weights, small enough to draw in milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WORDS = ("<pad>", "</s>", "<unk>", "a", "red", "blue", "cat", "dog", "sign", "night")


def tokenizer(length: int) -> Any:
    """One word, one token; texts end in `</s>`."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=length, **special)


def clip(projected: bool) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"bos_token_id": 3, "eos_token_id": 1, "pad_token_id": 0}
    config = CLIPTextConfig(vocab_size=len(WORDS), max_position_embeddings=12, projection_dim=16, **sizes, **ends)
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def t5() -> Any:
    from transformers import T5Config, T5EncoderModel

    return T5EncoderModel(T5Config(vocab_size=len(WORDS), d_model=32, d_kv=8, d_ff=16, num_layers=1, num_heads=2))


def vae(channels: int) -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        layers_per_block=1,
        latent_channels=channels,
        norm_num_groups=4,
        use_quant_conv=False,
        use_post_quant_conv=False,
        scaling_factor=1.5,
        shift_factor=0.06,
        sample_size=16,
    )


def stable_diffusion_3(folder: Path) -> Path:
    """Writes a pipeline that draws 16 x 16 pixels, with a shift of 3."""
    from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline

    torch.manual_seed(0)
    transformer = SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=32,
        caption_projection_dim=16,
        pooled_projection_dim=32,
        out_channels=4,
        pos_embed_max_size=8,
    )
    _awake(transformer)
    StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=vae(4),
        text_encoder=clip(True),
        tokenizer=tokenizer(12),
        text_encoder_2=clip(True),
        tokenizer_2=tokenizer(12),
        text_encoder_3=t5(),
        tokenizer_3=tokenizer(12),
    ).save_pretrained(folder)
    return folder


def flux(folder: Path, guided: bool) -> Path:
    """Writes a pipeline that draws 256 x 256 pixels unless asked; `guided`: whether its network reads guidance."""
    from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

    torch.manual_seed(0)
    transformer = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=16,
        guidance_embeds=guided,
        axes_dims_rope=(2, 2, 4),
    )
    _awake(transformer)
    FluxPipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        vae=vae(4),
        text_encoder=clip(False),
        tokenizer=tokenizer(12),
        text_encoder_2=t5(),
        tokenizer_2=tokenizer(12),
    ).save_pretrained(folder)
    return folder


def _awake(network: Any) -> None:
    """Gives weights that begin at zero some size, so that every input matters."""
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
