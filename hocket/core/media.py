"""Pictures and sounds by what they are: a store by digest, and token ids outside every vocabulary.

A message names a picture by the digest of its file, `{"type": "image", "image": DIGEST}`, and a sound as
`{"type": "audio", "audio": DIGEST}`. The rules for pictures below hold for sounds as well. A model reads one as
tokens whose ids are `FIRST` plus 62 bits of a hash of the *processed* pixels' digest and the token's place in the
picture. So whatever compares token ids (pages, prefix trees, records, replay) tells pictures apart, and no vocabulary
holds such an id, so that no model can write one.

What is here follows from the bytes of the pictures alone, so one store serves a whole process; what a run has read lies
in its folder, from where a resumed run and other processes take it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hocket.core.errors import HocketError

FIRST = 2**62
"""The least id of a picture's token; the greatest is below 2^63."""

KINDS: Mapping[str, str] = {"image": "picture", "audio": "sound"}
"""The types of parts that hold media, in words."""

Parts = list[dict[str, Any]]
"""A message's content in parts: `{"type": "text", "text": ..}` and those of `KINDS`, `{"type": KIND, KIND: DIGEST}`."""


class ReadsPictures(Protocol):
    """What reads pictures or sounds for a model; a tokenizer holds it as `picture_reader`.

    `kind` is which of `KINDS` it reads; `token` and `token_id` are the placeholder of a token of one in the vocabulary.
    """

    kind: str
    token: str
    token_id: int
    blind: bool

    def ids(self, digest: str) -> tuple[int, ...]:
        """What stands for a picture in a prompt."""
        ...

    def instead(self, token: PictureToken, source: str) -> int:
        """The id of the same token of another picture."""
        ...


def reader_of(tokenizer: Any) -> ReadsPictures | None:
    """What reads pictures for the model of a tokenizer; None for a model of words alone."""
    reader: ReadsPictures | None = getattr(tokenizer, "picture_reader", None)
    return reader


class PictureToken(NamedTuple):
    """A token of a picture: the digest of the processed pixels, and its place among the picture's tokens."""

    picture: str
    place: int


class ProcessedPicture(NamedTuple):
    """A picture as a processor made it: the digest of the file, and the number of its tokens."""

    source: str
    tokens: int


def picture_id(picture: str, place: int) -> int:
    """The id of token `place` of the processed picture with this digest."""
    bits = hashlib.blake2b(f"{picture} {place}".encode(), digest_size=8, person=b"hocket-media").digest()
    return FIRST + (int.from_bytes(bits, "big") >> 2)


def digest_of(data: bytes) -> str:
    """The name of a file's content."""
    return hashlib.sha256(data).hexdigest()


def media_in(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Kind and digest of the pictures and sounds in messages, in order."""
    return [
        (str(part["type"]), str(part[part["type"]]))
        for message in messages
        if isinstance(message.get("content"), (list, tuple))
        for part in message["content"]
        if isinstance(part, Mapping) and part.get("type") in KINDS
    ]


def pictures_in(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The digests of the pictures in messages, in order."""
    return [digest for kind, digest in media_in(messages) if kind == "image"]


def words_of(content: Any) -> str:
    """Content as people read it in text: a picture or sound is named by the beginning of its digest."""
    if not isinstance(content, (list, tuple)):
        return "" if content is None else str(content)
    return "\n".join(_words_of_part(part) for part in content if isinstance(part, Mapping))


def _words_of_part(part: Mapping[str, Any]) -> str:
    if "text" in part:
        return str(part["text"])
    kind = str(part.get("type", "part"))
    digest = part.get(kind)
    return f"({KINDS[kind]} {digest[:12]})" if kind in KINDS and isinstance(digest, str) else f"({kind})"


def media_part(kind: str, digest: str) -> dict[str, Any]:
    """A picture or sound as a part of a message."""
    return {"type": kind, kind: digest}


def image_part(digest: str) -> dict[str, Any]:
    """A picture as a part of a message."""
    return media_part("image", digest)


def with_pictures(text: str, digests: Sequence[str]) -> str | Parts:
    """The content of a message that shows pictures and then says something; the text alone without any."""
    return with_media(text, [("image", digest) for digest in digests])


def with_sounds(text: str, digests: Sequence[str]) -> str | Parts:
    """The content of a message that plays sounds and then says something; the text alone without any."""
    return with_media(text, [("audio", digest) for digest in digests])


def with_media(text: str, media: Sequence[tuple[str, str]]) -> str | Parts:
    """The same for pictures and sounds, by kind and digest."""
    if not media:
        return text
    return [*(media_part(*item) for item in media), *([{"type": "text", "text": text}] if text else [])]


class PicturedAnswer(str):
    """What a tool answers in pictures as well: as a text, all that a model without eyes can read of it.

    Attributes:
        words: what it says beside its pictures. pictures: their digests.
    """

    words: str
    pictures: tuple[str, ...]

    def __new__(cls, text: str, words: str, pictures: Sequence[str]) -> PicturedAnswer:
        made = super().__new__(cls, text)
        made.words, made.pictures = words, tuple(pictures)
        return made

    @property
    def content(self) -> str | Parts:
        """For a model that reads pictures."""
        text: Parts = [{"type": "text", "text": self.words}] if self.words else []
        return [*text, *map(image_part, self.pictures)]


class MediaStore:
    """Files of pictures by digest, and the picture tokens by id.

    With a folder, what is read is written there once: `DIGEST` holds a file's bytes, `index.jsonl` a line for each
    processed picture. Another process that shares the folder finds them.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._sources: dict[str, bytes | Path] = {}
        self._names: dict[str, str] = {}
        self._processed: dict[str, ProcessedPicture] = {}
        self._tokens: dict[int, PictureToken] = {}
        self._written: set[str] = set()
        self._read = 0

    def attach(self, folder: Path | None) -> None:
        """Has the store write into a folder, and read what lies there already; None leaves files in memory."""
        if folder != self.folder:
            self.folder, self._written, self._read = folder, set(), 0
        self._refresh()

    # ------------------------------------------------------------ files

    def put(self, data: bytes, name: str = "a picture") -> str:
        """Keeps the bytes of a file, which errors call by `name`; its digest."""
        digest = digest_of(data)
        self._sources.setdefault(digest, data)
        self._names.setdefault(digest, name)
        return digest

    def put_file(self, path: Path) -> str:
        """Keeps where a file lies, whose bytes are read again when they are needed."""
        digest = digest_of(path.read_bytes())
        self._sources.setdefault(digest, path)
        self._names.setdefault(digest, str(path))
        return digest

    def name(self, digest: str) -> str:
        """What errors call a picture."""
        return self._names.get(digest, f"the picture {digest[:12]}")

    def data(self, digest: str) -> bytes:
        """The bytes of a file.

        Raises:
            HocketError: when nobody has put it here, or the file has changed since.
        """
        source = self._sources.get(digest)
        if source is None and self.folder is not None and (self.folder / digest).is_file():
            source = self.folder / digest
        if source is None:
            where = "" if self.folder is None else f" nor in {self.folder}"
            raise HocketError(f"the picture {digest[:12]} is not in memory{where}; restore the run's folder media")
        data = source if isinstance(source, bytes) else source.read_bytes()
        if digest_of(data) != digest:
            raise HocketError(
                f"{self.name(digest)} has changed since it was read; put back the file that the run began with"
            )
        return data

    # ------------------------------------------------------------ tokens

    def register(self, picture: str, source: str, tokens: int) -> tuple[int, ...]:
        """The ids of a processed picture's tokens, in order.

        Raises:
            HocketError: when an id belongs to another picture already.
        """
        ids = tuple(picture_id(picture, place) for place in range(tokens))
        if picture not in self._processed:
            for place, number in enumerate(ids):
                other = self._tokens.setdefault(number, PictureToken(picture, place))
                if other != (picture, place):
                    raise HocketError(
                        f"{self.name(source)} and {self.name(self._processed[other.picture].source)} share the token "
                        f"id {number}, so nothing distinguishes them; leave one out"
                    )
            self._processed[picture] = ProcessedPicture(source, tokens)
        self._write(picture, source, tokens)
        return ids

    def token(self, number: int) -> PictureToken:
        """Which token of which picture has this id.

        Raises:
            HocketError: for an id that no picture has.
        """
        if number not in self._tokens:
            self._refresh()
        try:
            return self._tokens[number]
        except KeyError:
            where = "no folder is attached" if self.folder is None else f"{self.folder} does not name it"
            raise HocketError(f"the token id {number} belongs to no known picture: {where}") from None

    def processed(self, picture: str) -> ProcessedPicture:
        """What a processed picture was made from."""
        return self._processed[picture]

    # ------------------------------------------------------------ the folder

    def _write(self, picture: str, source: str, tokens: int) -> None:
        if self.folder is None or picture in self._written:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / source
        if not file.is_file():
            part = file.with_name(f".{source[:16]}-{os.getpid()}")
            part.write_bytes(self.data(source))
            part.replace(file)
        line = json.dumps({"picture": picture, "source": source, "tokens": tokens})
        with (self.folder / "index.jsonl").open("a", encoding="utf-8") as index:
            index.write(line + "\n")
        self._written.add(picture)

    def _refresh(self) -> None:
        """Reads the lines of the index that are new. A line that a killed process left half written is passed over."""
        index = None if self.folder is None else self.folder / "index.jsonl"
        if index is None or not index.is_file():
            return
        with index.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        lines = text[: text.rfind(b"\n") + 1]
        self._read += len(lines)
        for line in lines.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                row = json.loads(line)
                self._written.add(row["picture"])
                self.register(row["picture"], row["source"], int(row["tokens"]))


MEDIA = MediaStore()
"""The store of this process."""
