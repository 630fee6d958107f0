"""A generated encyclopaedia: an article per entity in plain sentences, and questions that hop from one to the next.

Every relation belongs to its subject's article and nowhere else, so a question of n hops needs exactly n articles, and
names are unique, so it has one answer. Words of names are shared, so each article has distractors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key

Kind = Literal["book", "person", "company", "city", "country", "word"]


@dataclass(frozen=True)
class Relation:
    """What an article tells of its subject.

    Attributes:
        name: as in "the author of ...". of, to: kinds of subject and object; a `word` has no article.
        sentence: with `{s}` and `{o}`.
    """

    name: str
    of: Kind
    to: Kind
    sentence: str

    @property
    def asks(self) -> str:
        """The first word of a question for it."""
        return "Who" if self.to == "person" else "What"


RELATIONS: tuple[Relation, ...] = (
    Relation("author", "book", "person", "{s} was written by {o}."),
    Relation("theme", "book", "word", "{s} is about {o}."),
    Relation("birthplace", "person", "city", "{s} was born in {o}."),
    Relation("employer", "person", "company", "{s} works for {o}."),
    Relation("trade", "person", "word", "{s} is a {o}."),
    Relation("founder", "company", "person", "{s} was founded by {o}."),
    Relation("seat", "company", "city", "{s} has its seat in {o}."),
    Relation("product", "company", "word", "{s} makes {o}."),
    Relation("mayor", "city", "person", "{s} has the mayor {o}."),
    Relation("country", "city", "country", "{s} lies in {o}."),
    Relation("capital", "country", "city", "{s} has the capital {o}."),
    Relation("currency", "country", "word", "{s} pays with the {o}."),
)

_WORDS: dict[str, tuple[str, ...]] = {
    "theme": ("war", "love", "trade", "music", "winter", "exile", "harvest", "revenge", "childhood", "the sea"),
    "trade": ("baker", "painter", "judge", "nurse", "sailor", "tailor", "miner", "teacher", "pilot", "gardener"),
    "product": ("glass", "paper", "bicycles", "clocks", "cheese", "shoes", "lamps", "pianos", "rope", "soap"),
    "currency": ("mark", "crown", "shell", "dinar", "florin", "ducat", "peso", "lira", "rand", "taler"),
}

_FIRST = [
    "Ada",
    "Ben",
    "Cora",
    "Dan",
    "Eva",
    "Finn",
    "Gita",
    "Hugo",
    "Ines",
    "Jon",
    "Kira",
    "Leo",
    "Mara",
    "Nils",
    "Olga",
    "Paul",
    "Rosa",
    "Sven",
    "Tara",
    "Uwe",
    "Vera",
    "Will",
    "Yara",
    "Zeno",
]
_SHADES = [
    "Red",
    "Blue",
    "Green",
    "White",
    "Black",
    "Silver",
    "Golden",
    "Silent",
    "Hidden",
    "Broken",
    "Frozen",
    "Burning",
    "Distant",
    "Endless",
    "Hollow",
    "Little",
    "Last",
    "First",
    "Lost",
    "Second",
    "Quiet",
    "Wild",
    "Bright",
    "Dark",
]
_THINGS = [
    "Harbour",
    "Garden",
    "Tower",
    "River",
    "Bridge",
    "Mirror",
    "Island",
    "Window",
    "Forest",
    "Letter",
    "Lantern",
    "Winter",
    "Shadow",
    "Station",
    "Orchard",
    "Mountain",
    "Voyage",
    "Kingdom",
    "Clock",
    "Door",
]
_HEADS = [
    "bal",
    "cor",
    "dun",
    "fal",
    "gor",
    "hel",
    "kar",
    "lun",
    "mor",
    "nor",
    "pel",
    "quin",
    "ros",
    "sel",
    "tor",
    "ul",
    "vel",
    "wen",
    "yar",
    "zan",
]
_MIDDLES = ["a", "e", "i", "o", "u", "an", "en", "il", "or", "us"]
_TAILS = ["bury", "ford", "holm", "keth", "mar", "mont", "nar", "port", "ria", "stad", "ton", "wick"]
_SHARES: Mapping[Kind, float] = {"book": 0.35, "person": 0.35, "company": 0.15, "city": 0.12, "country": 0.03}


@dataclass(frozen=True)
class Document:
    """An article: the entity it is about, and its sentences."""

    title: str
    text: str


@dataclass(frozen=True)
class CorpusQuestion:
    """A question, its one answer, and the articles it takes, in the order in which they are needed."""

    text: str
    answer: str
    gold: tuple[str, ...]

    @property
    def brief(self) -> str:
        """The question in few words: `country of birthplace of tok`."""
        return self.text.partition(" is the ")[2].removesuffix("?").replace(" of the ", " of ")

    @property
    def hops(self) -> int:
        return len(self.gold)


class Corpus:
    """A corpus of `size` articles, the same for the same key.

    Args:
        brief: names have three letters, and an article tells each relation by its name (`author tok, theme war`).

    Attributes:
        documents: in an order that says nothing about kinds.
        facts: what is true: object by subject and relation.
    """

    def __init__(self, size: int, key: Key, brief: bool = False) -> None:
        most = MOST_BRIEF if brief else MOST
        if not most >= size >= LEAST:
            raise ConfigurationError(f"a {'brief ' * brief}corpus has {LEAST} to {most} documents, not {size}")
        rng = key.derive("corpus").numpy()
        self.brief = brief
        self.entities = _entities(size, dict.fromkeys(_NAMES, _short) if brief else _NAMES, rng)
        self.facts = {
            (subject, relation.name): _object(relation, subject, self.entities, rng)
            for relation in RELATIONS
            for subject in self.entities[relation.of]
        }
        written = [Document(name, self._article(kind, name, rng)) for kind in _SHARES for name in self.entities[kind]]
        self.documents = tuple(written[place] for place in rng.permutation(len(written)).tolist())

    def _article(self, kind: Kind, name: str, rng: np.random.Generator) -> str:
        relations = [relation for relation in RELATIONS if relation.of == kind]
        objects = [self.facts[name, relation.name] for relation in relations]
        order = rng.permutation(len(relations)).tolist()
        if self.brief:
            return ", ".join(f"{relations[place].name} {objects[place]}" for place in order)
        return " ".join(relations[place].sentence.format(s=name, o=objects[place]) for place in order)

    @cached_property
    def by_title(self) -> Mapping[str, Document]:
        return {document.title: document for document in self.documents}

    def questions(self, hops: int) -> list[CorpusQuestion]:
        """Every question of `hops` hops that has no shortcut, by subjects in the order of the documents.

        A chain that comes back to an entity is left out, and so is one whose answer stands in the question.
        """
        if hops < 1:
            raise ConfigurationError(f"a question has at least 1 hop, not {hops}")
        candidates = (self._asked(document.title, path) for document in self.documents for path in self._paths(hops))
        return [question for question in candidates if question is not None]

    @staticmethod
    def _paths(hops: int) -> list[tuple[Relation, ...]]:
        """Relations that follow on each other; the last may lead to a word."""
        paths: list[tuple[Relation, ...]] = [(relation,) for relation in RELATIONS]
        for _ in range(hops - 1):
            paths = [(*path, after) for path in paths for after in RELATIONS if after.of == path[-1].to]
        return paths

    def _asked(self, start: str, path: Sequence[Relation]) -> CorpusQuestion | None:
        entity, gold = start, []
        for relation in path:
            if (entity, relation.name) not in self.facts or entity in gold:
                return None
            gold.append(entity)
            entity = self.facts[entity, relation.name]
        described = "".join(f"the {relation.name} of " for relation in reversed(path)) + start
        text = f"{path[-1].asks} is {described}?"
        inside = re.search(rf"(?<!\w){re.escape(entity)}(?!\w)", text, re.IGNORECASE)
        return None if inside or entity in gold else CorpusQuestion(text, entity, tuple(gold))


LEAST, MOST, MOST_BRIEF = 40, 20_000, 1_000


def _entities(
    size: int, names: Mapping[Kind, Callable[[np.random.Generator], str]], rng: np.random.Generator
) -> dict[Kind, tuple[str, ...]]:
    """Distinct names by kind, `size` in all."""
    counts = {kind: max(2, int(share * size)) for kind, share in _SHARES.items()}
    counts["book"] += size - sum(counts.values())
    taken = {word for words in _WORDS.values() for word in words}
    return {kind: _names(names[kind], count, taken, rng) for kind, count in counts.items()}


def _names(
    draw: Callable[[np.random.Generator], str], count: int, taken: set[str], rng: np.random.Generator
) -> tuple[str, ...]:
    names: list[str] = []
    while len(names) < count:
        name = draw(rng)
        if name not in taken:
            taken.add(name)
            names.append(name)
    return tuple(names)


def _pick(words: Sequence[str], rng: np.random.Generator) -> str:
    return words[int(rng.integers(len(words)))]


def _place(rng: np.random.Generator) -> str:
    return (_pick(_HEADS, rng) + _pick(_MIDDLES, rng) + _pick(_TAILS, rng)).capitalize()


def _short(rng: np.random.Generator) -> str:
    return "".join(_pick(letters, rng) for letters in ("bdfghjklmnprstvwz", "aeiou", "bdfgklmnprstvxz"))


def _book(rng: np.random.Generator) -> str:
    return f"The {_pick(_SHADES, rng)} {_pick(_THINGS, rng)} of {_place(rng)}"


_NAMES: Mapping[Kind, Callable[[np.random.Generator], str]] = {
    "book": _book,
    "person": lambda rng: f"{_pick(_FIRST, rng)} {_place(rng)}",
    "company": lambda rng: f"{_place(rng)} {_pick(('Works', 'Brothers', 'Guild', 'Union'), rng)}",
    "city": _place,
    "country": lambda rng: f"{_place(rng)}land",
}


def _object(relation: Relation, subject: str, entities: Mapping[Kind, Sequence[str]], rng: np.random.Generator) -> str:
    if relation.to == "word":
        return _pick(_WORDS[relation.name], rng)
    while True:
        name = _pick(entities[relation.to], rng)
        if name != subject:
            return name


def read(documents: Sequence[Document], question: str) -> str | None:
    """What a reader of these articles, and of nothing else, answers; None where a fact is missing."""
    words = re.fullmatch(r"(?:Who|What) is (.+)\?", question)
    if words is None:
        return None
    described = words[1]
    path: list[str] = []
    while (step := re.match(r"the (\w+) of ", described)) is not None:
        path.append(step[1])
        described = described[step.end() :]
    entity: str | None = described
    for name in reversed(path):
        entity = None if entity is None else _object_of(documents, entity, name)
    return entity


def _object_of(documents: Sequence[Document], subject: str, name: str) -> str | None:
    for relation in (relation for relation in RELATIONS if relation.name == name):
        before, _, after = relation.sentence.format(s=subject, o="\n").partition("\n")
        pattern = re.compile(rf"(?:^|(?<=\. )){re.escape(before)}(.+?){re.escape(after)}(?= |$)")
        for document in documents:
            if (match := pattern.search(document.text)) is not None:
                return match[1]
    return None
