"""Sounds as files: opening recordings with errors that name the file, and writing them. WAV in PCM alone."""

from __future__ import annotations

import io
import wave
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError

FORM = "a WAV file of PCM with 8, 16, 24 or 32 bits"


class Sound(NamedTuple):
    """A recording of one channel: samples `[N]` in -1..1, and how many there are of a second."""

    samples: NDArray[np.float32]
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def open_sound(data: bytes, name: str) -> Sound:
    """The recording in a file. Several channels become their mean.

    Raises:
        ConfigurationError: naming the sound, what is wrong with it and what to do.
    """
    try:
        with wave.open(io.BytesIO(data)) as file:
            channels, width, rate, frames = file.getparams()[:4]
            raw = file.readframes(frames)
    except (wave.Error, EOFError, ValueError) as error:
        why = str(error) or "it ends early"
        raise ConfigurationError(f"{name} cannot be read as a sound ({why}); give {FORM}") from None
    if not frames or not rate:
        raise ConfigurationError(f"{name} has {frames} samples at {rate} Hz, so nothing is heard; leave it out")
    if len(raw) != frames * channels * width:
        raise ConfigurationError(f"{name} cannot be read as a sound (it ends early); give {FORM}, whole")
    return Sound(_numbers(raw, width).reshape(frames, channels).mean(1, dtype=np.float32), rate)


def _numbers(raw: bytes, width: int) -> NDArray[np.float32]:
    """PCM as numbers in -1..1."""
    if width == 1:
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(128)
    # The bytes of a number of 24 bits are the upper three of one of 32.
    wide = np.zeros((len(raw) // width, 4), np.uint8)
    wide[:, 4 - width :] = np.frombuffer(raw, np.uint8).reshape(-1, width)
    return wide.reshape(-1).view(np.dtype("<i4")).astype(np.float32) / np.float32(2**31)


def sound_bytes(sound: Any, name: str = "a sound") -> bytes:
    """The file of a sound: bytes as they are; a `Sound`, or `{"array", "sampling_rate"}`, as WAV of 16 bits.

    Raises:
        ConfigurationError: for anything else.
    """
    if isinstance(sound, (bytes, bytearray, memoryview)):
        return bytes(sound)
    if isinstance(sound, Mapping) and {"array", "sampling_rate"} <= sound.keys():
        sound = Sound(np.asarray(sound["array"], np.float32), int(sound["sampling_rate"]))
    if not isinstance(sound, Sound) or sound.samples.ndim != 1 or not np.isfinite(sound.samples).all():
        raise ConfigurationError(
            f"{name} is of type {type(sound).__name__}; give a file's bytes, or finite numbers of one channel with "
            "their rate: {'array': .., 'sampling_rate': ..}"
        )
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sound.rate)
        out.writeframes((sound.samples.clip(-1, 1) * 32767).round().astype("<i2").tobytes())
    return file.getvalue()


def silence_like(data: bytes, name: str) -> bytes:
    """The file of silence, as long as a sound."""
    sound = open_sound(data, name)
    return sound_bytes(Sound(np.zeros_like(sound.samples), sound.rate))


def is_sound(data: bytes) -> bool:
    """Whether the bytes of a file begin as those of a WAV file do."""
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"
