"""Tiny random models that read pictures, one of each family, as folders that `from_pretrained` reads."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from hocket.core.media import MEDIA
from hocket.core.pictures import picture_bytes
from hocket.nano.tokenizer import added, build_tokenizer
from hocket.nano.vision import TEMPLATE, build_processor, new_model

TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "bos_token_id": None,
    "tie_word_embeddings": True,
}
_TOWER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "patch_size": 4,
}


def picture(seed: int, size: tuple[int, int] = (16, 16)) -> str:
    """A picture of noise in the store."""
    pixels: NDArray[np.uint8] = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    return MEDIA.put(picture_bytes(pixels))


def _tokenizer(*marks: str) -> Any:
    tokenizer = build_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [added(mark, special=True) for mark in marks]})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def _llava() -> tuple[Any, Any]:
    processor = build_processor()
    words = transformers.Qwen3Config(vocab_size=122, **TEXT)
    return new_model(transformers.Qwen3ForCausalLM(words), processor, 0, width=32, layers=2), processor


def _idefics3() -> tuple[Any, Any]:
    rows = [f"<row_{row + 1}_col_{column + 1}>" for row in range(2) for column in range(2)]
    marks = ("<fake_token_around_image>", "<image>", "<global-img>", "<end_of_utterance>", *rows)
    tokenizer = _tokenizer(*marks)
    tokenizer.fake_image_token, tokenizer.image_token, tokenizer.global_image_token = marks[:3]
    pixels = transformers.SmolVLMImageProcessorPil(
        size={"longest_edge": 32}, max_image_size={"longest_edge": 16}, do_image_splitting=True
    )
    processor = transformers.Idefics3Processor(pixels, tokenizer, image_seq_len=4, chat_template=TEMPLATE)
    config = transformers.Idefics3Config(
        text_config=transformers.LlamaConfig(vocab_size=len(tokenizer), **TEXT),
        vision_config={**_TOWER, "image_size": 16},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        tie_word_embeddings=True,
        pad_token_id=0,
    )
    return transformers.Idefics3ForConditionalGeneration(config), processor


class PlainProcessor:
    """What stands for a processor that transformers makes only with torchvision: one tile, four tokens."""

    image_token = "<image>"

    def __init__(self, tiles: tuple[int, ...]) -> None:
        self.tokenizer, self._tiles = _tokenizer("<image>"), tiles

    def __call__(self, images: Any, **_: Any) -> dict[str, torch.Tensor]:
        pixels = torch.from_numpy(np.asarray(images[0], np.float32)).permute(2, 0, 1) / 127.5 - 1
        ids = self.tokenizer.convert_tokens_to_ids(["<image>"] * 4)
        return {"input_ids": torch.tensor([ids]), "pixel_values": pixels.expand(*self._tiles, *pixels.shape)}


def internvl() -> tuple[Any, Any]:
    """A model over Qwen2."""
    config = transformers.InternVLConfig(
        text_config=transformers.Qwen2Config(vocab_size=123, **TEXT),
        vision_config={**_TOWER, "patch_size": [4, 4], "image_size": [16, 16], "use_mean_pooling": False},
        image_token_id=122,
        image_seq_length=4,
        downsample_ratio=0.5,
        vision_feature_layer=-1,
        tie_word_embeddings=True,
    )
    return transformers.InternVLForConditionalGeneration(config), PlainProcessor((1,))


def smolvlm() -> tuple[Any, Any]:
    """A model over Llama."""
    config = transformers.SmolVLMConfig(
        text_config=transformers.LlamaConfig(vocab_size=123, **TEXT),
        vision_config={**_TOWER, "image_size": 16},
        image_token_id=122,
        scale_factor=2,
        tie_word_embeddings=True,
        pad_token_id=0,
    )
    return transformers.SmolVLMForConditionalGeneration(config), PlainProcessor((1, 1))


MAKERS = {"llava": _llava, "idefics3": _idefics3}


def write(family: str, folder: Path) -> Path:
    """The folder of a tiny model."""
    if not folder.exists():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model, processor = MAKERS[family]()
        with torch.no_grad():
            for weight in model.parameters():  # So that features and logits are no small numbers.
                weight.mul_(2.0)
        model.eval().save_pretrained(folder)
        processor.save_pretrained(folder)
    return folder
