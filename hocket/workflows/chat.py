"""A tokenizer's chat template as exact token spans: openings, what follows a response, demonstrations.

A conversation is a concatenation of token ids, never a re-encoding: what was sampled stays as it was sampled, and
only what is new is encoded. The text between two assistant turns is found by rendering a conversation whose
assistant message is a marker and taking what stands after it. What messages hold is encoded as plain text: control
tokens spelt in it (a forged turn in a tool's output) are letters.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Any

from jinja2 import TemplateError

from hocket.core.errors import ConfigurationError
from hocket.types import Message
from hocket.workflows.control_tokens import ControlTokens
from hocket.workflows.rendering import Endless, within_bounds
from hocket.workflows.shapes import Shapes

Tokens = tuple[int, ...]
Tools = Sequence[Mapping[str, Any]]

_MARKER = "hocket0marker1here"
_WORDS = "hocket{}\"'\\<&>%é\n  Zz{{x}}here"
"""Words that show it when a template escapes, trims or changes what it writes."""
_KEPT = 1024
_QUESTION: Message = {"role": "user", "content": "question"}
_MARKED: Message = {"role": "assistant", "content": _MARKER}


class Growth(Enum):
    """What follows an answer: the same as in a conversation of one question, something of its own, or a new past."""

    ALIKE = auto()
    OWN = auto()
    REWRITES = auto()


class Chat:
    """A HF tokenizer with a chat template.

    The end-of-turn token belongs to a response when it was sampled, and to the next observation when the response
    was cut; whatever the template puts after it (ChatML's newline) always belongs to the next observation.

    Args:
        tokenizer: a `PreTrainedTokenizerBase` whose template closes assistant turns with one added token.
        settings: further variables for the template, such as `enable_thinking`.

    Attributes:
        end_of_turn: id of the token that closes an assistant turn.
        stops: ids after which a sampled response ends: `end_of_turn`, and the tokenizer's end-of-sequence token.

    Raises:
        ConfigurationError: when the template is missing or its assistant turns cannot be told apart.
    """

    def __init__(self, tokenizer: Any, settings: Mapping[str, Any] | None = None) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigurationError(
                f"the tokenizer {_name(tokenizer)} has no chat template; set its chat_template or use a chat model"
            )
        self.tokenizer = tokenizer
        self._settings = dict(settings or {})
        self._rendered: dict[str, str] = {}
        special = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
        self._control = ControlTokens(special)
        template = tokenizer.chat_template
        self._shapes = Shapes([template] if isinstance(template, str) else map(str, dict(template).values()))
        self._growth: dict[Hashable, Growth] = {}
        self._forms: dict[Hashable, list[str] | None] = {}
        self._encode = lru_cache(_KEPT)(self.encode)
        self._read = lru_cache(_KEPT)(self._said)
        self._added = {int(number): str(token) for token, number in tokenizer.get_added_vocab().items()}
        self.end_of_turn = self._closing(())
        # Some templates close the last assistant turn with another token than earlier ones.
        self._closers = {self.end_of_turn, self._closing((_QUESTION,))}
        ends = (self.end_of_turn, tokenizer.eos_token_id)
        self.stops: Tokens = tuple(dict.fromkeys(int(token) for token in ends if token is not None))
        self._control.keep_assistant([*self._asides(), *(self._added[token] for token in self._closers)])

    # ------------------------------------------------------------ from messages to tokens

    def forget(self) -> None:
        """Lets go of what is kept of earlier messages."""
        self._rendered.clear()
        self._encode.cache_clear()

    def shown(self, messages: Sequence[Message], tools: Tools | None = None) -> str:
        """The text of a whole history that ends where the assistant is to speak, control tokens in messages marked."""
        return self._text(list(messages), tools, speak=True)

    def opening(self, messages: Sequence[Message], tools: Tools | None = None) -> Tokens:
        """Ids of a whole history that ends where the assistant is to speak."""
        return self._encode(self._text(list(messages), tools, speak=True))

    def following(
        self,
        new: Sequence[Message],
        *,
        history: Sequence[Message] = (_QUESTION,),
        tools: Tools | None = None,
        ended: bool = True,
    ) -> Tokens:
        """Ids of the observation that follows an assistant response when `new` messages arrive.

        Args:
            new: messages after the response, none of them seen before.
            history: messages before the response; most templates do not care.
            tools: as in the opening.
            ended: whether the response itself holds the end-of-turn token; if not, it comes first here.
        """
        return self._after(self._suffix(history, new, tools), ended)

    def grown(
        self,
        history: Sequence[Message],
        response: Sequence[int],
        new: Sequence[Message],
        tools: Tools | None = None,
    ) -> Tokens | None:
        """`following`, or None when the template would show the past differently once `new` messages are there.

        Templates that drop earlier thinking, or move the system prompt, rewrite the past. Differences in white
        space alone (templates that trim) do not count: what was sampled stays. This is found out once for all
        conversations of a shape, see `hocket.workflows.shapes`.
        """
        said: Message = {"role": "assistant", "content": self.reply_text(response)}
        messages = (*history, said, *new)
        shape = len(history), self._shapes.of(messages), repr(tools) if tools else None
        if shape not in self._growth:
            if len(self._growth) >= _KEPT:
                self._growth.clear()
            self._growth[shape] = self._tried(self._shapes.trial(messages), len(history), tools)
        growth = self._growth[shape]
        if growth is Growth.REWRITES:
            return None
        suffix = self._filled(new, tools) if growth is Growth.ALIKE else self._suffix(history, new, tools)
        return self._after(suffix, self.ended(response))

    def demonstration(self, text: str) -> Tokens:
        """Ids of a response that says `text`, end-of-turn token included, as the template writes it after an opening.

        A template that opens the answer in a way that finished answers do not have (`<think>` in the generation
        prompt) cannot say; then it is `text` and the end of turn.
        """
        before = self._text([_QUESTION], None, speak=True)
        whole = self._text([_QUESTION, {"role": "assistant", "content": text}], None, speak=False)
        answer = whole[len(before) :] if whole.startswith(before) else text + self._added[self.end_of_turn]
        ids = self._encode(answer)
        last = max((place for place, token in enumerate(ids) if token == self.end_of_turn), default=None)
        if last is None:
            raise ConfigurationError("the chat template leaves out the end of turn of an answer; mend the template")
        return ids[: last + 1]

    # ------------------------------------------------------------ from tokens to text

    def ended(self, response: Sequence[int]) -> bool:
        """Whether a response holds its end-of-turn token."""
        return len(response) > 0 and int(response[-1]) in self._closers

    def reply_text(self, response: Sequence[int]) -> str:
        """What a response says, without the token that ended it. Other special tokens stay visible."""
        return self._read(tuple(int(token) for token in response))

    def _said(self, ids: Tokens) -> str:
        ended = bool(ids) and (ids[-1] in self._closers or ids[-1] in self.stops)
        return self.render(ids[:-1] if ended else ids)

    def render(self, tokens: Sequence[int]) -> str:
        """All tokens as text, special ones included."""
        ids = [int(token) for token in tokens]
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def encode(self, text: str) -> Tokens:
        """Ids of a piece of text, without any special token around it."""
        ids: list[int] = []
        for piece, plain in self._control.pieces(text):
            settings = {"split_special_tokens": True} if plain else {}
            ids += map(int, self.tokenizer(piece, add_special_tokens=False, **settings)["input_ids"])
        return tuple(ids)

    # ------------------------------------------------------------ the template

    def _filled(self, new: Sequence[Message], tools: Tools | None) -> str:
        """The text after an answer to one question: plain words are put where the template copies them."""
        if all(map(self._shapes.plain, new)):
            roles = tuple(str(message["role"]) for message in new)
            form = roles, repr(tools) if tools else None
            if form not in self._forms:
                self._forms[form] = self._form(roles, tools)
            gaps = self._forms[form]
            if gaps is not None:
                return "".join(part for pair in zip(gaps, [*map(self._content, new), ""], strict=True) for part in pair)
        return self._suffix((_QUESTION,), new, tools)

    def _form(self, roles: Sequence[str], tools: Tools | None) -> list[str] | None:
        """What the template writes around messages of these roles; None where it does not copy their words."""
        words = [_WORDS.format(place) for place in range(len(roles))]
        new = [{"role": role, "content": word} for role, word in zip(roles, words, strict=True)]
        gaps, rest = [], self._suffix((_QUESTION,), new, tools)
        for word in words:
            before, found, rest = rest.partition(word)
            if not found:
                return None
            gaps.append(before)
        gaps.append(rest)
        return None if any(word in gap for word in words for gap in gaps) else gaps

    def _tried(self, messages: Sequence[Message], past: int, tools: Tools | None) -> Growth:
        """How the template shows messages of which the first `past` were there before the answer that follows them."""
        history, said, new = messages[:past], messages[past], messages[past + 1 :]
        before, after = (self._render(shown, tools, speak=True) for shown in (history, messages))
        suffix = self._rest(self._render([*history, _MARKED, *new], tools, speak=bool(new)))
        if _squeezed(after) != _squeezed(before + self._content(said) + suffix):
            return Growth.REWRITES
        try:
            alike = self._suffix((_QUESTION,), new, tools) == suffix
        except ConfigurationError:
            alike = False
        return Growth.ALIKE if alike else Growth.OWN

    def _text(self, messages: Sequence[Message], tools: Tools | None, *, speak: bool) -> str:
        """The rendered messages. The samples of a group ask for the same text, so the latest are kept."""
        name = repr((messages, tools, speak))
        if name not in self._rendered:
            if len(self._rendered) >= _KEPT:
                self._rendered.clear()
            self._rendered[name] = self._render(messages, tools, speak)
        return self._rendered[name]

    def _render(self, messages: Sequence[Message], tools: Tools | None, speak: bool) -> str:
        try:
            return str(within_bounds(self.tokenizer, lambda: self._applied(messages, tools, speak)))
        except TemplateError as error:
            roles = ", ".join(str(message.get("role")) for message in messages)
            raise ConfigurationError(
                f"the chat template of {_name(self.tokenizer)} refuses messages with the roles {roles}: {error}; "
                "change the workflow's messages or the template"
            ) from error

    def _applied(self, messages: Sequence[Message], tools: Tools | None, speak: bool) -> Any:
        return self.tokenizer.apply_chat_template(
            [self._control.mark(message) for message in messages],
            tools=[self._control.mark(tool) for tool in tools] if tools else None,
            add_generation_prompt=speak,
            tokenize=False,
            **self._settings,
        )

    def _content(self, message: Message) -> str:
        return str(self._control.mark(message["content"], str(message["role"])))

    def _asides(self) -> list[str]:
        """What the template writes around the words of all but the assistant."""
        rendered = []
        for role in ("user", "system", "tool"):
            other: Message = {"role": role, "content": "content"}
            for messages in ([other], [other, _QUESTION], [_QUESTION, other]):
                try:
                    rendered.append(self._render(messages, None, speak=False))
                except Endless:
                    raise
                except Exception:
                    continue  # What a template makes of roles that it does not know is its own.
        return rendered

    def _suffix(self, history: Sequence[Message], new: Sequence[Message], tools: Tools | None) -> str:
        """The text after an assistant message, up to where the assistant speaks again if anything is new."""
        return self._rest(self._text([*history, _MARKED, *new], tools, speak=bool(new)))

    def _rest(self, text: str) -> str:
        """What stands after the marked answer."""
        before, found, after = text.rpartition(_MARKER)
        if not found or _MARKER in before:
            raise ConfigurationError(
                f"the chat template of {_name(self.tokenizer)} does not show an assistant message exactly once; "
                "use a template that does"
            )
        return after

    def _after(self, suffix: str, ended: bool) -> Tokens:
        ids = self._encode(suffix)
        return ids[self._close(suffix, ids) + 1 :] if ended else ids

    def _closing(self, new: Sequence[Message]) -> int:
        suffix = self._suffix((_QUESTION,), new, None)
        ids = self._encode(suffix)
        return ids[self._close(suffix, ids)]

    def _close(self, suffix: str, ids: Tokens) -> int:
        """Where in `ids` the end-of-turn token stands: the first added token, with nothing but space before it."""
        place = next((place for place, token in enumerate(ids) if token in self._added), None)
        if place is None or suffix.split(self._added[ids[place]])[0].strip():
            raise ConfigurationError(
                f"the chat template of {_name(self.tokenizer)} closes an assistant turn with {suffix[:20]!r}, which "
                "is no token of its own; close it with an added token such as the end-of-sequence token"
            )
        return place


def _name(tokenizer: Any) -> str:
    return repr(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)


def _squeezed(text: str) -> str:
    return "".join(text.split())
