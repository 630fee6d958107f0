"""How a model's own processor reads pictures or sounds: which tokens stand for one, and what its tower reads."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.media import MEDIA, PictureToken

MOST_BYTES = 2**28
"""Bytes of what processors made that are in memory at most; older ones are made again from the file."""

_OF_TEXT = ("input_ids", "attention_mask", "token_type_ids", "rows", "cols")
"""What a processor returns besides what the tower reads."""

Inputs = dict[str, Tensor]


class MediaReader(ABC):
    """The processor of a model that reads pictures or sounds.

    A subclass says which `kind`, what is `blank`, and how its processor is called, `process`.

    Attributes:
        token, token_id: the placeholder of a token of one, in the vocabulary. No model may write it.
        blind: whether a blank of the same size is read in place of each.
    """

    kind: ClassVar[str]
    library: ClassVar[str]
    """What the numbers of a file depend on beside the processor."""

    def __init__(self, processor: Any, token: str) -> None:
        self.token = token
        self.token_id = int(processor.tokenizer.convert_tokens_to_ids(self.token))
        self.blind = False
        self._processor = processor
        self._ids: dict[tuple[str, bool], tuple[int, ...]] = {}
        self._inputs: OrderedDict[str, Inputs] = OrderedDict()
        self._bytes = 0

    @abstractmethod
    def blank(self, data: bytes, name: str) -> bytes:
        """The file of one of the same size in which nothing is."""

    @abstractmethod
    def process(self, data: bytes, name: str) -> Mapping[str, Any]:
        """What the processor makes of a file and its placeholder.

        Raises:
            ConfigurationError: when the file cannot be read, or the processor does not fit it.
        """

    def ids(self, digest: str) -> tuple[int, ...]:
        """What stands for a file in a prompt: the ids of its tokens, and the marks that the processor puts around.

        Raises:
            ConfigurationError: when the file is none of the kind, or the processor cannot read it.
        """
        if (digest, self.blind) not in self._ids:
            source = MEDIA.put(self.blank(MEDIA.data(digest), MEDIA.name(digest))) if self.blind else digest
            self._ids[digest, self.blind] = self._read(source)[1]
        return self._ids[digest, self.blind]

    def inputs(self, picture: str) -> Inputs:
        """What the tower is called with for a processed picture or sound.

        Raises:
            HocketError: when the processor makes something else of the file than it did.
        """
        if picture not in self._inputs:
            made = self._read(MEDIA.processed(picture).source)[0]
            if made != picture:
                raise HocketError(
                    f"{MEDIA.name(MEDIA.processed(picture).source)} is processed into other numbers than before; use "
                    f"the model's processor and the version of {self.library} that the run began with"
                )
        self._inputs.move_to_end(picture)
        return self._inputs[picture]

    def instead(self, token: PictureToken, source: str) -> int:
        """The id of the same token of another picture or sound, of the same size as that of `token`.

        Raises:
            HocketError: when the two are read as different numbers of tokens.
        """
        picture = self._read(source)[0]
        if MEDIA.processed(picture).tokens != MEDIA.processed(token.picture).tokens:
            raise HocketError(f"{MEDIA.name(source)} has another number of tokens than what it replaces")
        return MEDIA.register(picture, source, MEDIA.processed(picture).tokens)[token.place]

    def save(self, folder: Path) -> None:
        """Writes the processor into a model's folder."""
        self._processor.save_pretrained(str(folder))

    def _read(self, source: str) -> tuple[str, tuple[int, ...]]:
        """The digest of a file as processed, and what stands for it."""
        name = MEDIA.name(source)
        made = self.process(MEDIA.data(source), name)
        ids = [int(token) for token in made["input_ids"][0]]
        inputs = {key: value for key, value in made.items() if key not in _OF_TEXT and isinstance(value, Tensor)}
        picture = _digest(inputs, ids)
        self._keep(picture, inputs)
        places = [place for place, token in enumerate(ids) if token == self.token_id]
        if not places:
            raise ConfigurationError(f"the model's processor gives {name} no tokens; check its {self.kind}_token")
        for place, number in zip(places, MEDIA.register(picture, source, len(places)), strict=True):
            ids[place] = number
        return picture, tuple(ids)

    def _keep(self, picture: str, inputs: Inputs) -> None:
        if picture in self._inputs:
            return
        self._inputs[picture] = inputs
        self._bytes += _size(inputs)
        while self._bytes > MOST_BYTES and len(self._inputs) > 1:
            self._bytes -= _size(self._inputs.popitem(last=False)[1])


def _size(inputs: Inputs) -> int:
    return sum(value.nbytes for value in inputs.values())


def _digest(inputs: Inputs, ids: list[int]) -> str:
    state = hashlib.sha256(repr(ids).encode())
    for key, value in sorted(inputs.items()):
        state.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        state.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return state.hexdigest()
