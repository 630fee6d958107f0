"""What things are called: files and classes by nouns, a class unlike any other, and in words that people use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from ratchet import complaints
from tiers import CLAIMS, PACKAGE, modules, texts, tier

RELATIONS = {
    *("across", "again", "against", "ahead", "alone", "among", "apart", "around", "at", "away", "before"),
    *("beside", "by", "here", "in", "now", "off", "once", "others", "out", "outside", "own", "there"),
    *("together", "up", "within", "without"),
}
"""Prepositions and adverbs: no name begins with one or ends in one; `outside_agent` and `inside` are adjectives."""

PARTICIPLES = {
    *("begun", "built", "chosen", "done", "drawn", "due", "found", "gone", "heard", "held", "kept"),
    *("known", "led", "left", "lost", "made", "meant", "met", "said", "seen", "sent", "shown", "sought"),
    *("taken", "taught", "told", "written", "worn"),
}
"""With those in -ed. Before a noun they say something of it, `shared_weights`; alone they name nothing."""

NOUNS_IN_ED = {"bed", "embed", "feed", "need", "seed", "shed", "speed"}

WORDS: Mapping[str, re.Pattern[str]] = {
    word: re.compile(rf"(?<![A-Za-z])(?i:{word})(?![a-z])")
    for word in ("told", "said", "mend", "mends", "mended", "whom", "what suits")
}
"""What code and documents do not say; parts of names count, too."""

VAGUE = "one|found|told|said|seen|asked|own|kept|given|here|now|whole"
ASSIGNED = re.compile(
    rf"^ *(?:\w+, )*(?:{VAGUE})(?:, \w+)*(?:: [^=\n]+)? = |\bfor (?:\w+, )*(?:{VAGUE})(?:, \w+)* in |\b(?:{VAGUE}) :=",
    re.MULTILINE,
)
"""A name that does not say what it holds."""

CLASS = re.compile(r"^class (\w+)(?:\(([^)]*)\))?", re.MULTILINE)
ERROR = re.compile(r"(?:Error|Exception)\b")
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_noun(words: list[str]) -> bool:
    """Whether the words of a name can be what a thing is called."""
    first, last = words[0], words[-1]
    participle = last in PARTICIPLES or (last.endswith("ed") and last not in NOUNS_IN_ED)
    return not participle and last not in RELATIONS and first not in RELATIONS - {"outside"}


def _words(name: str) -> list[str]:
    return [part.lower() for part in PARTS.findall(name)] or [name]


def classes(*, errors: bool = True) -> Iterator[tuple[str, str]]:
    """Module and name of every public class outside the claims, or of those that are no `errors`."""
    for module, text in texts().items():
        for name, parents in CLASS.findall(text) if tier(module) != CLAIMS else ():
            if not name.startswith("_") and (errors or not ERROR.search(parents)):
                yield module, name


def ambiguous() -> Mapping[str, int]:
    """Names that several classes outside the methods have."""
    counts = Counter(name for module, name in classes() if tier(module) != "methods")
    return {name: count for name, count in counts.items() if count > 1}


def no_nouns() -> Mapping[str, int]:
    """Files outside the methods, and classes, that are called by no noun; an error may say what happened."""
    files = (module for module in modules() if tier(module) not in ("methods", CLAIMS))
    wrong = [module for module in files if not is_noun(_words(module.rpartition(".")[2]))]
    wrong += [f"{module}.{name}" for module, name in classes(errors=False) if not is_noun(_words(name))]
    return dict.fromkeys(wrong, 1)


def words() -> Mapping[str, int]:
    """How often each part of the package, and the documents, say what they should not."""
    counts: Counter[str] = Counter()
    pages = [PACKAGE.parent / name for name in ("README.md", "CONTRIBUTING.md")]
    pages += sorted((PACKAGE.parent / "docs").rglob("*.md"))
    parts = [(str(tier(module)), text) for module, text in texts().items()]
    parts += [("documents", page.read_text(encoding="utf-8")) for page in pages]
    for part, text in parts:
        for word, pattern in WORDS.items():
            counts[f"{part}: {word}"] += len(pattern.findall(text))
        if part != "documents":
            counts[f"{part}: vague names"] += len(ASSIGNED.findall(text))
    return {name: count for name, count in counts.items() if count}


RULES = {"class_names": ambiguous, "nouns": no_nouns, "words": words}


def test_no_two_classes_have_one_name() -> None:
    """A method's classes are its own."""
    problems = complaints("class_names", ambiguous())
    assert not problems, problems


def test_files_and_classes_are_called_by_nouns() -> None:
    problems = complaints("nouns", no_nouns())
    assert not problems, problems


def test_words_are_those_that_people_use() -> None:
    problems = complaints("words", words(), exact=False)
    assert not problems, problems


def test_nouns() -> None:
    good = ("shared_weights", "page_moves", "seed", "RemoteWorkers", "KeptTexts", "GAE", "outside_agent", "KLInReward")
    bad = ("across", "in_order", "read_at", "search_within", "counted", "Told", "WorldAround", "LevelKept", "InTurn")
    assert [name for name in (*good, *bad) if is_noun(_words(name))] == list(good)
