"""Control tokens in foreign text: a tool's output that spells `<|end|>` contains these letters and ends no turn.

A template writes its control tokens as *seals*, texts that begin with a character that no message can hold, and a copy
of the tokenizer knows them by no other name. So whatever a message spells is letters to it: in one piece or in several
that a template joins, in any field, by whatever flags or normalisation a token has.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tokenizers import Tokenizer

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.markup import THOUGHT_TAGS

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
SEAL = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
"""A control token that a template wrote; the group is its id."""

_NONCHARACTERS = re.compile("[\ufdd0-\ufdef]")
"""Unicode code points for private use, which never occur in text."""

_HALVES = re.compile("[\ud800-\udfff]")
_FRAMED = re.compile(r"<[|\uff5c].*[|\uff5c]>|\[/?[A-Z_]+\]|\[\|.*\|\]", re.DOTALL)
"""Spellings that are control tokens in every public vocabulary, whatever their flags."""

_STRUCTURE = ("role", "name", "tool_calls", "function_call")
_ANCHORS = ("\n", ":", "a")
_MADE: WeakKeyDictionary[Any, tuple[str, SealedTokenizer]] = WeakKeyDictionary()


def control_tokens(tokenizer: Any, frame: str) -> dict[int, str]:
    """The tokens that only a template may write, by id.

    These are the special ones, those that are spelt as control tokens are (`<|user|>`, `[INST]`), and of all other
    added tokens those that the template puts around messages. White space and tags of thoughts are words, unless they
    are special, and so is every other added token, such as `<tool_call>` or a phrase.

    Args:
        frame: what the template writes around messages.
    """
    controls = {}
    for number, token in tokenizer.added_tokens_decoder.items():
        text = str(token)
        bare = text.strip()
        around = bare in frame and len(bare) > 1 and re.search(r"[^\w\s]", bare) is not None
        special = token.special or text in tokenizer.all_special_tokens
        if bare and (special or (bare not in THOUGHT_TAGS and (_FRAMED.fullmatch(bare) or around))):
            controls[int(number)] = text
    return controls


class SealedTokenizer:
    """Text with seals to ids and back.

    Args:
        tokenizer: a `PreTrainedTokenizerBase` that rests on the library `tokenizers`.
        control: texts of the control tokens by id.

    Raises:
        ConfigurationError: for another tokenizer.
    """

    def __init__(self, tokenizer: Any, control: Mapping[int, str]) -> None:
        core = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(core, Tokenizer):
            name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
            raise ConfigurationError(
                f"the tokenizer {name!r} is written in Python, so control tokens that messages spell could not be "
                "distinguished from the template's; use a fast tokenizer, one with a tokenizer.json"
            )
        self._control = dict(control)
        self._seals = {text: _seal(number) for number, text in control.items()}
        self._core = _sealed(core, self._seals)
        self._spelt = _any_of(self._seals)
        self._thoughts = _any_of(text for text in self._seals if text.strip() in THOUGHT_TAGS)
        self._anchors = [(anchor, self.encode(anchor)) for anchor in _ANCHORS]
        self._begins = not any(self.encode(anchor + "z") == (*ids, *self.encode("z")) for anchor, ids in self._anchors)

    @property
    def texts(self) -> frozenset[str]:
        """The control tokens as they are usually spelt."""
        return frozenset(self._seals)

    def counted(self, tokens: Iterable[int]) -> Counter[int]:
        """How often each control token is among some ids."""
        return Counter(int(token) for token in tokens if int(token) in self._control)

    def sealed(self, text: str) -> str:
        """A text of the template's own, its control tokens as seals."""
        return self._spelt.sub(lambda match: self._seals[match.group()], text)

    def opened(self, text: str) -> str:
        """A text with seals as it is usually spelt."""
        return SEAL.sub(lambda match: self._control[int(match[1])], text)

    def plain(self, value: Any, role: str = "") -> Any:
        """A message, a tool, or a text of one, that holds no seal. The assistant's thoughts are tokens if any are.

        Raises:
            HocketError: for half of a surrogate pair, which no tokenizer takes.
        """
        if isinstance(value, str):
            half = _HALVES.search(value)
            if half is not None:
                raise HocketError(
                    f"a message holds {half.group()!r} at character {half.start()}, half of a surrogate pair and no "
                    "character; leave it out or repair the encoding of what was read"
                )
            value = _NONCHARACTERS.sub("\N{REPLACEMENT CHARACTER}", value)
            if role != "assistant":
                return value
            return self._thoughts.sub(lambda match: self._seals[match.group()], value)
        if isinstance(value, Mapping):
            role = role or str(value.get("role", ""))
            return {
                self.plain(name): self.plain(item, "" if name in _STRUCTURE else role) for name, item in value.items()
            }
        return [self.plain(item, role) for item in value] if isinstance(value, (list, tuple)) else value

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text that stands at the beginning."""
        return tuple(self._core.encode(text, add_special_tokens=False).ids)

    def encode_after(self, before: str, text: str) -> tuple[int, ...]:
        """Ids of a text where `before` stands before it, whose own ids stay what they are.

        A tokenizer may put a space before a beginning, and the two may share a token. Then the text is encoded as what
        stands in the middle.
        """
        # Control tokens part a text, so that what stands before the last one does not matter.
        place = max((match.start() for match in SEAL.finditer(before)), default=0)
        last = before[place:]
        ids, full = self.encode(last), self.encode(last + text)
        return full[len(ids) :] if last and full[: len(ids)] == ids else self.encode_within(text)

    def encode_within(self, text: str) -> tuple[int, ...]:
        """Ids of a text with others before it that are not known, without what a tokenizer puts before a beginning."""
        for anchor, ids in self._anchors if self._begins else ():
            full = self.encode(anchor + text)
            if full[: len(ids)] == ids:
                return full[len(ids) :]
        return self.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Ids as text with seals."""
        return str(self._core.decode([int(token) for token in tokens], skip_special_tokens=False))


def sealed_tokenizer(tokenizer: Any, control: Mapping[int, str]) -> SealedTokenizer:
    """The `SealedTokenizer` of a tokenizer, made once: a large vocabulary takes a second."""
    state = repr((sorted(control.items()), sorted(tokenizer.added_tokens_decoder.items())))
    if tokenizer not in _MADE or _MADE[tokenizer][0] != state:
        _MADE[tokenizer] = state, SealedTokenizer(tokenizer, control)
    return _MADE[tokenizer][1]


def _seal(number: int) -> str:
    return f"{_OPEN}{number}{_CLOSE}"


def _any_of(texts: Any) -> re.Pattern[str]:
    longest_first = sorted(set(texts), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _sealed(core: Tokenizer, seals: Mapping[str, str]) -> Tokenizer:
    """The tokenizer with each control token under the name of its seal: as an added token and in the vocabulary."""
    made = json.loads(core.to_str())
    # Where the normaliser puts a space before every text, a normalised token would be found behind spaces alone.
    unchanged = core.normalizer is None or core.normalizer.normalize_str(_seal(7)) == _seal(7)
    for token in made["added_tokens"]:
        if token["content"] in seals:
            token["content"] = seals[token["content"]]
            token["normalized"] = token["normalized"] and unchanged
    model = made["model"]
    words = model.get("vocab")
    if isinstance(words, dict):
        model["vocab"] = {seals.get(word, word): number for word, number in words.items()}
    elif isinstance(words, list):
        model["vocab"] = [[seals.get(word, word), score] for word, score in words]
    if isinstance(model.get("unk_token"), str):
        model["unk_token"] = seals.get(model["unk_token"], model["unk_token"])
    if model.get("merges"):
        model["merges"] = [pair for pair in model["merges"] if not _makes(pair, seals)]
    made |= {"post_processor": None, "truncation": None, "padding": None}
    return Tokenizer.from_str(json.dumps(made))


def _makes(pair: Any, seals: Mapping[str, str]) -> bool:
    """Whether a merge joins to a control token, or joins one."""
    left, right = pair.split(" ", 1) if isinstance(pair, str) else pair
    return left + right in seals or left in seals or right in seals
