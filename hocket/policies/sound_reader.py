"""The processor of a model that reads sounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.sounds import open_sound, silence_like
from hocket.policies.media_reader import MediaReader


class SoundReader(MediaReader):
    """The processor of a model that reads sounds; a blank one is silence.

    A recording longer than the processor reads would be cut in silence, and one at another rate heard at another pitch;
    both are refused.
    """

    kind = "audio"
    library = "torch"

    def __init__(self, processor: Any) -> None:
        super().__init__(processor, str(processor.audio_token))
        self.rate = int(processor.feature_extractor.sampling_rate)
        self.longest = int(processor.feature_extractor.n_samples)

    def blank(self, data: bytes, name: str) -> bytes:
        return silence_like(data, name)

    def process(self, data: bytes, name: str) -> Mapping[str, Any]:
        sound = open_sound(data, name)
        if sound.rate != self.rate:
            raise ConfigurationError(
                f"{name} has {sound.rate:,} samples a second, and the model reads {self.rate:,}; resample it"
            )
        if len(sound.samples) > self.longest:
            raise ConfigurationError(
                f"{name} lasts {sound.seconds:.3g} s, and the model reads {self.longest / self.rate:.3g} s at most; "
                "cut it yourself, as a sound is never cut here"
            )
        try:
            made: Mapping[str, Any] = self._processor(
                audio=[sound.samples],
                text=[self.token],
                sampling_rate=sound.rate,
                add_special_tokens=False,
                return_tensors="pt",
            )
        except Exception as error:  # A processor is foreign code.
            raise ConfigurationError(f"the model's processor cannot read {name}: {error}") from error
        return made
