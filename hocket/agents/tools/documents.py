"""Documents of one's own for the search tool: a folder of texts, or a file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hocket.agents.tools.corpus import Document
from hocket.core.errors import ConfigurationError

TEXTS = (".txt", ".md", ".rst")
"""How files end that a folder is searched for."""

FIELDS = ("text", "contents", "content")
"""Where an object of a JSON line may hold its text."""


def documents_of(path: str | Path, words: int = 100) -> list[Document]:
    """The documents at a path, in the order of names or lines.

    A folder gives every text below it, in passages of at most `words` words, which end with paragraphs where those
    fit; the title is the file's path within the folder. Of a `.jsonl` file each line is an object with `text` (or
    `contents`, `content`) and, if it likes, `title` (else `id`, else the line's number); it stays whole.

    Raises:
        ConfigurationError: for a path that is neither or cannot be read, a line without text, and where nothing is
            found.
    """
    place = Path(path).expanduser()
    if words < 1:
        raise ConfigurationError(f"search: a passage has at least 1 word, not {words}")
    try:
        if place.is_dir():
            documents = list(_folder(place, words))
        elif place.suffix == ".jsonl" and place.is_file():
            documents = list(_lines(place))
        else:
            wrong = "is no .jsonl file and no folder" if place.exists() else "does not exist"
            raise ConfigurationError(f"search: {place} {wrong}; give a folder of texts or a .jsonl file")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"search: {place} cannot be read: {error}") from error
    if not documents:
        wanted = f"a text ({', '.join(TEXTS)})" if place.is_dir() else "a line"
        raise ConfigurationError(f"search: {place} has no document; put {wanted} in it")
    return documents


def _folder(folder: Path, words: int) -> Iterator[Document]:
    for file in sorted(folder.rglob("*")):
        if file.suffix in TEXTS and file.is_file():
            title = str(file.relative_to(folder))
            yield from (Document(title, passage) for passage in passages(file.read_text("utf-8"), words))


def passages(text: str, words: int) -> Iterator[str]:
    """Paragraphs put together while they have at most `words` words; one that is longer is cut."""
    held: list[str] = []
    for paragraph in text.split("\n\n"):
        new_words = paragraph.split()
        if held and len(held) + len(new_words) > words:
            yield " ".join(held)
            held = []
        held += new_words
        while len(held) > words:
            yield " ".join(held[:words])
            held = held[words:]
    if held:
        yield " ".join(held)


def _lines(file: Path) -> Iterator[Document]:
    for number, line in enumerate(file.read_text("utf-8").split("\n"), start=1):
        if line.strip():
            yield _document(line, number, f"search: {file}, line {number}")


def _document(line: str, number: int, where: str) -> Document:
    try:
        row: Any = json.loads(line)
    except ValueError as error:
        raise ConfigurationError(f"{where} is no JSON: {error}") from error
    texts = [row[field] for field in FIELDS if field in row] if isinstance(row, dict) else []
    if not texts or not isinstance(texts[0], str):
        raise ConfigurationError(f'{where} has no text; write {{"title": "...", "text": "..."}}')
    title = next((row[field] for field in ("title", "id") if row.get(field) is not None), number)
    return Document(str(title), texts[0])
