"""The processor of a model that reads pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.pictures import blank_like, open_picture
from hocket.policies.media_reader import MediaReader


class PictureReader(MediaReader):
    """The processor of a model that reads pictures; a blank one is grey."""

    kind = "image"
    library = "Pillow"

    def __init__(self, processor: Any) -> None:
        super().__init__(processor, str(processor.image_token))

    def blank(self, data: bytes, name: str) -> bytes:
        return blank_like(data, name)

    def process(self, data: bytes, name: str) -> Mapping[str, Any]:
        image = open_picture(data, name)
        try:
            made: Mapping[str, Any] = self._processor(
                images=[image], text=[self.token], add_special_tokens=False, return_tensors="pt"
            )
        except Exception as error:  # A processor is foreign code.
            raise ConfigurationError(f"the model's processor cannot read {name}: {error}") from error
        return made
