"""A tiny random model of the Qwen2-Audio family, as a folder that `from_pretrained` reads, and sounds for it."""

from pathlib import Path

import numpy as np
import torch
import transformers
from tiny_vision import TEXT

from hocket.core.media import MEDIA
from hocket.core.sounds import Sound, sound_bytes
from hocket.nano.sound import build_processor, new_model


def noise(seed: int, seconds: float = 2.0, rate: int = 16_000) -> Sound:
    samples = np.random.default_rng(seed).uniform(-0.5, 0.5, int(seconds * rate))
    return Sound(samples.astype(np.float32), rate)


def sound(seed: int, seconds: float = 2.0, rate: int = 16_000) -> str:
    """A sound of noise in the store."""
    return MEDIA.put(sound_bytes(noise(seed, seconds, rate)))


def write(folder: Path) -> Path:
    """The folder of the model."""
    words = transformers.Qwen3Config(vocab_size=122, **TEXT)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        processor = build_processor()
        model = new_model(transformers.Qwen3ForCausalLM(words), processor, 0, width=32, layers=2)
    with torch.no_grad():
        for weight in model.parameters():  # So that features and logits are no small numbers.
            weight.mul_(2.0)
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
