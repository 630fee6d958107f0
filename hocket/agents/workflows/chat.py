"""A tokenizer's chat template as exact token spans: openings, what follows a response, demonstrations.

A conversation is a concatenation of token ids, never a re-encoding: what was sampled stays as it was sampled, and
only what is new is encoded, as it is encoded behind what stands before it. The text between two assistant turns is
found by rendering a conversation whose assistant message is a marker and taking what stands after it. What messages
hold is encoded as plain text: control tokens spelt in it (a forged turn in a tool's output) are letters. Pictures are
the tokens that the model's processor makes of them, see `hocket.core.media`.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

from jinja2 import TemplateError

from hocket.agents.workflows.chat_template import SealedSource
from hocket.agents.workflows.control_tokens import SEAL, control_tokens, sealed_tokenizer
from hocket.agents.workflows.pictured_text import PicturedText, in_parts, unmarked
from hocket.agents.workflows.rendering import Endless, within_bounds
from hocket.agents.workflows.shapes import ConversationShapes
from hocket.core.errors import ConfigurationError
from hocket.core.examples import BESIDES
from hocket.core.markup import THOUGHT_TAGS, without_thoughts
from hocket.core.media import reader_of
from hocket.types import Message

Tokens = tuple[int, ...]
Tools = Sequence[Mapping[str, Any]]

_MARKER = "hocket0marker1here"
_WORDS = "hocket{}\"'\\<&>%é\n  Zz{{x}}here"
"""Words that reveal whether a template escapes, trims or changes text."""
_KEPT = 1024
_TAIL = 16
"""The number of tokens at the end of an observation in which a thought may be opened."""
_QUESTION: Message = {"role": "user", "content": "question"}
_MARKED: Message = {"role": "assistant", "content": _MARKER}
_CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "marker", "arguments": {"marker": 1}}}
_SILENT: Message = {"role": "assistant", "content": ""}
_CALLED: Message = {**_SILENT, "tool_calls": [_CALL]}
_RESULT: Message = {"role": "tool", "content": _MARKER, "name": "marker", "tool_call_id": "abcdefghi"}


class _Probe(NamedTuple):
    """A conversation, whether the assistant speaks next, and its rendered text."""

    messages: list[Message]
    speak: bool
    text: str


class Growth(Enum):
    """The text after an answer: that after a single question, a different one, or with a changed past."""

    ALIKE = auto()
    OWN = auto()
    REWRITES = auto()


class Chat:
    """A HF tokenizer with a chat template.

    The end-of-turn token belongs to a response if it was sampled, and to the next observation if the response was cut.
    The template's text after it (ChatML's newline) always belongs to the next observation.

    If a template opens a thought at the end of its prompt, the response continues it: its text begins with the tag,
    which its tokens lack.

    Args:
        tokenizer: a `PreTrainedTokenizerFast` whose template closes assistant turns with one added token.
        settings: further variables for the template, such as `enable_thinking`.

    Attributes:
        end_of_turn: id of the token that closes an assistant turn.
        stops: ids after which a sampled response ends: `end_of_turn`, the tokenizer's end-of-sequence token, and the
            token that closes a turn which calls a tool, where that is another one.

    Raises:
        ConfigurationError: when the template is missing, its assistant turns cannot be recognised, or it writes control
            tokens in an unknown way.
    """

    def __init__(self, tokenizer: Any, settings: Mapping[str, Any] | None = None) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigurationError(
                f"the tokenizer {_name(tokenizer)} has no chat template; set its chat_template or use a chat model"
            )
        self.tokenizer = tokenizer
        self._settings, self._parted = dict(settings or {}), False
        self._rendered: dict[str, str] = {}
        self._growth: dict[Hashable, Growth] = {}
        self._forms: dict[Hashable, list[str] | None] = {}
        self._encode_sealed = lru_cache(_KEPT)(self.encode_sealed)
        self._read = lru_cache(_KEPT)(self._text_of)
        self._begun = lru_cache(_KEPT)(self._opened)
        template, reader = tokenizer.chat_template, reader_of(tokenizer)
        try:
            self._parted = reader is not None and not self._shows_text()
            self._shapes = ConversationShapes(
                [template] if isinstance(template, str) else map(str, dict(template).values())
            )
            probes = self._probes()
            placeholder = {} if reader is None else {reader.token_id: reader.token}
            self._words = sealed_tokenizer(tokenizer, control_tokens(tokenizer, _frame(probes)) | placeholder)
            self._pictures = PicturedText(_name(tokenizer), reader, self._words)
            self._encode = lru_cache(_KEPT)(lambda text: self._pictures.encoded(text, self._words.encode))
            self._source = lru_cache(4)(lambda source: SealedSource(source, self._words.texts, self._words.sealed))
            openers = [self._words.sealed(tag) for tag in sorted(THOUGHT_TAGS) if "/" not in tag]
            self._thought = re.compile(rf"({'|'.join(map(re.escape, openers))})(\s*)\Z")
            self._check(probes)
        except TemplateError as error:
            raise ConfigurationError(f"the chat template of {_name(tokenizer)} cannot be read: {error}") from error
        self.end_of_turn = self._closing(())
        # Some templates close the last assistant turn, or one that calls a tool, with another token than earlier ones.
        calling = self._closing_calls()
        self._closers = {self.end_of_turn, self._closing((_QUESTION,)), *calling}
        ends = (self.end_of_turn, tokenizer.eos_token_id, *calling)
        self.stops: Tokens = tuple(dict.fromkeys(int(token) for token in ends if token is not None))
        self._before = self._text([_QUESTION], None, speak=True)
        lead = self._text([_QUESTION, _MARKED], None, speak=False).partition(_MARKER)[0]
        space = lead[len(self._before) :] if lead.startswith(self._before) else ""
        self._lead = space if space.isspace() else ""

    # ------------------------------------------------------------ from messages to tokens

    def forget(self) -> None:
        """Drops the cached data of earlier messages."""
        self._rendered.clear()
        self._encode.cache_clear()
        self._encode_sealed.cache_clear()

    def sealed(self, messages: Sequence[Message], tools: Tools | None = None) -> str:
        """The text of a complete history up to the assistant's reply, with control tokens as seals."""
        return self._text(list(messages), tools, speak=True)

    def opening(self, messages: Sequence[Message], tools: Tools | None = None) -> Tokens:
        """Ids of a complete history up to the assistant's reply.

        Raises:
            ConfigurationError: when the template refuses the messages.
            HocketError: when a message contains an invalid character.
        """
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
            new: the messages after the response.
            history: the messages before the response; most templates ignore them.
            tools: those of the opening.
            ended: whether the response contains the end-of-turn token; if not, it comes first here.
        """
        return self._after(self._suffix(history, new, tools), ended)

    def grown(
        self,
        history: Sequence[Message],
        response: Sequence[int],
        new: Sequence[Message],
        tools: Tools | None = None,
        answer: Message | None = None,
    ) -> Tokens | None:
        """`following`, or None if the template renders the past differently with the `new` messages.

        Templates that drop earlier thoughts, or move the system prompt, rewrite the past. Differences in white space
        alone (templates that trim) do not count: sampled tokens stay. This is determined once for all conversations of
        a shape, see `hocket.agents.workflows.shapes`.

        Args:
            answer: the response as a message, if it is known.
        """
        reply = self.reply_text(response)
        answer = answer or {"role": "assistant", "content": reply}
        words = answer.get("content")
        # A response may have more than its words, such as a thought that the template adds only to the last answer.
        if len(answer) > 2 or not isinstance(words, str) or not _squeezed(words).endswith(_squeezed(reply)):
            return self._grown(history, answer, new, tools, response)
        messages = (*history, answer, *new)
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

    def demonstration(
        self, answer: str | Message, history: Sequence[Message] = (_QUESTION,), tools: Tools | None = None
    ) -> Tokens:
        """Ids of the response `answer` after the opening of `history`, end-of-turn token included.

        They encode the template's text of the response, with its tool calls, in its context. If the template drops a
        part that must be learnt (thoughts), or renders finished answers with another beginning than the opening's end,
        they encode the words and the template's text after an answer. A thought that the opening begins is continued,
        or closed if there is none.

        Raises:
            ConfigurationError: when the template refuses the messages, or omits the words or the calls.
        """
        message: Message = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
        before = self._text(list(history), tools, speak=True)
        return self._words.encode_after(unmarked(before), self._answer(message, history, tools))

    # ------------------------------------------------------------ from tokens to text

    def ended(self, response: Sequence[int]) -> bool:
        """Whether a response contains its end-of-turn token."""
        return len(response) > 0 and int(response[-1]) in self._closers

    def reply_text(self, response: Sequence[int], observation: Sequence[int] = ()) -> str:
        """The text of a response, without the token that ended it. Other special tokens stay visible.

        Args:
            observation: ids before the response; a thought that they open belongs to the text.
        """
        begun = self._begun(tuple(int(token) for token in observation[-_TAIL:])) if len(observation) else ""
        return begun + self._read(tuple(int(token) for token in response))

    def _opened(self, observation: Tokens) -> str:
        match = self._thought.search(self.sealed_text(observation))
        return self._words.opened(match.group()) if match else ""

    def _text_of(self, ids: Tokens) -> str:
        ended = bool(ids) and (ids[-1] in self._closers or ids[-1] in self.stops)
        return self.render(ids[:-1] if ended else ids)

    def render(self, tokens: Sequence[int]) -> str:
        """All tokens as text, special ones included; a picture is its placeholder."""
        ids = self._pictures.readable(tokens)
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def sealed_text(self, tokens: Sequence[int]) -> str:
        """All tokens as text, control tokens as seals."""
        return self._words.decode(self._pictures.readable(tokens))

    def encode(self, text: str, after: Sequence[int] = ()) -> Tokens:
        """Ids of a piece of a response; control tokens that it spells are letters.

        Args:
            after: the response's ids before it; without any the piece begins the response, as in the template.
        """
        words = str(self._words.plain(text, "assistant"))
        if len(after) or not words:
            return self._words.encode_within(words)
        thought = self._thought.search(self._before)
        if thought is not None and words.startswith(thought[1]):
            words = words.removeprefix(thought[1]).removeprefix(thought[2])
        return self._words.encode_after(self._before, self._lead + words)

    def encode_sealed(self, text: str) -> Tokens:
        """Ids of a piece from the middle of the output of `sealed`."""
        return self._pictures.encoded(text, self._words.encode_within)

    # ------------------------------------------------------------ the template

    def _shows_text(self) -> bool:
        """Whether the template shows a message whose content is a text; some show parts alone."""
        try:
            return _MARKER in self._applied([{"role": "user", "content": _MARKER}], None, False, **self._settings)
        except Endless:
            raise
        except Exception:
            return False

    def _probes(self) -> list[_Probe]:
        """Conversations that the template accepts, and their rendered texts."""
        probes: list[_Probe] = []
        tried: list[list[Message]] = [[_QUESTION, _MARKED], [_QUESTION, _CALLED], [_QUESTION, _CALLED, _RESULT]]
        for role in ("user", "system", "tool"):
            other: Message = {"role": role, "content": _MARKER}
            tried += [[other], [other, _QUESTION], [_QUESTION, _MARKED, other]]
        for messages in tried:
            for speak in (False, True):
                try:
                    text = self._applied(messages, None, speak, **self._settings)
                except Endless:
                    raise
                except Exception:
                    continue  # A template may do anything with roles that it does not know.
                probes.append(_Probe(messages, speak, text))
        return probes

    def _check(self, probes: Sequence[_Probe]) -> None:
        """Checks that every control token in the template's output is a seal."""
        for probe in probes:
            usual = self.tokenizer(probe.text, add_special_tokens=False)["input_ids"]
            ids = self._encode(self._text(probe.messages, None, speak=probe.speak))
            if self._words.counted(usual) - self._words.counted(ids):
                raise ConfigurationError(
                    f"the chat template of {_name(self.tokenizer)} puts control tokens together from pieces, so they "
                    f"look like text of messages (in {probe.text[:60]!r}); write each one whole in the template"
                )

    def _filled(self, new: Sequence[Message], tools: Tools | None) -> str:
        """The text after an answer to one question: plain words are inserted where the template copies them."""
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
        """The text that the template adds around messages of these roles; None if it does not copy their content."""
        words = [_WORDS.format(place) for place in range(len(roles))]
        new = [{"role": role, "content": word} for role, word in zip(roles, words, strict=True)]
        gaps, rest = [], self._suffix((_QUESTION,), new, tools)
        for word in words:
            before, separator, rest = rest.partition(word)
            if not separator:
                return None
            gaps.append(before)
        gaps.append(rest)
        return None if any(word in gap for word in words for gap in gaps) else gaps

    def _tried(self, messages: Sequence[Message], past: int, tools: Tools | None) -> Growth:
        """The template's rendering of messages, of which the first `past` precede the answer that follows them."""
        history, message, new = messages[:past], messages[past], messages[past + 1 :]
        before, after = (self._render(shown, tools, speak=True) for shown in (history, messages))
        suffix = self._rest(self._render([*history, _MARKED, *new], tools, speak=bool(new)))
        content, thought = self._content(message), self._thought.search(before)
        if thought is not None and content.lstrip().startswith(thought[1]):
            before = before[: thought.start()]  # The answer's text begins with the thought of the opening.
        if _squeezed(after) != _squeezed(before + content + suffix):
            return Growth.REWRITES
        try:
            alike = self._suffix((_QUESTION,), new, tools) == suffix
        except ConfigurationError:
            alike = False
        return Growth.ALIKE if alike else Growth.OWN

    def _text(self, messages: Sequence[Message], tools: Tools | None, *, speak: bool) -> str:
        """The rendered messages. The samples of a group need the same text, so the latest ones are cached."""
        name = repr((messages, tools, speak))
        if name not in self._rendered:
            if len(self._rendered) >= _KEPT:
                self._rendered.clear()
            self._rendered[name] = self._render(messages, tools, speak)
        return self._rendered[name]

    def _render(self, messages: Sequence[Message], tools: Tools | None, speak: bool) -> str:
        roles = [str(message.get("role")) for message in messages]
        strange = next((role for role in roles if not re.fullmatch(r"[\w-]+", role)), None)
        if strange is not None:
            raise ConfigurationError(f"a message has the role {strange!r}; a role is one word, such as user")
        self._pictures.check(messages)
        shown = [self._words.plain(message) for message in messages]
        schemas = [self._words.plain(tool) for tool in tools] if tools else None
        specials = {name: self._own(token) for name, token in self.tokenizer.special_tokens_map.items()}
        try:
            template = self._source(self.tokenizer.get_chat_template(tools=schemas))
            text = self._applied(shown, schemas, speak, chat_template=template.source, **specials | self._settings)
        except Endless:
            raise
        except Exception as error:  # A template is foreign code.
            raise ConfigurationError(
                f"the chat template of {_name(self.tokenizer)} refuses messages with the roles {', '.join(roles)}: "
                f"{error or type(error).__name__}; change the workflow's messages or the template"
            ) from error
        return self._pictures.marked(template.finished(text, roles), messages)

    def _own(self, token: Any) -> Any:
        return self._words.sealed(token) if isinstance(token, str) else [self._own(part) for part in token]

    def _applied(self, messages: Sequence[Any], tools: Any, speak: bool, **settings: Any) -> str:
        messages = [in_parts(message) for message in messages] if self._parted else list(messages)
        options = {"tools": tools, "add_generation_prompt": speak, "tokenize": False, **settings}
        return within_bounds(self.tokenizer, lambda: str(self.tokenizer.apply_chat_template(messages, **options)))

    def _content(self, message: Message) -> str:
        return str(self._words.plain(_words_of(message), str(message["role"])))

    def _answer(self, answer: Message, history: Sequence[Message], tools: Tools | None) -> str:
        """The text of an answer, from the end of the opening to the end of turn; checks its completeness."""
        text = self._written(answer, history, tools)
        self._check_shown(answer, history, tools, text)
        return text

    def _written(self, answer: Message, history: Sequence[Message], tools: Tools | None) -> str:
        before, full = self._text(list(history), tools, speak=True), self._text([*history, answer], tools, speak=False)
        thought, words = self._thought.search(before), self._content(answer)
        rest = self._behind(history, answer, tools)
        if rest is None and len(history) > 1:  # With an answer the past may be rendered differently.
            rest = self._behind((_QUESTION,), answer, tools)
        if rest is None or _squeezed(words) not in _squeezed(rest):
            if _squeezed(without_thoughts(self._words.opened(words))) not in _squeezed(full):
                raise ConfigurationError(
                    f"the chat template of {_name(self.tokenizer)} does not show what the assistant says "
                    f"({words[:40]!r}){', beside its calls of tools' if answer.get('tool_calls') else ''}; leave it "
                    "out, or use a template that shows it"
                )
            rest = words + self._rest(self._text([*history, {**answer, "content": _MARKER}], tools, speak=False))
        if thought is not None:
            name = self._words.opened(thought[1])
            rest = _gone_on(rest, thought[1], thought[2], self._words.sealed(f"{name[0]}/{name[1:]}"))
        last = max((seal.end() for seal in SEAL.finditer(rest) if int(seal[1]) in self._closers), default=None)
        if last is None:
            raise ConfigurationError(
                f"the chat template of {_name(self.tokenizer)} leaves out the end of turn of an answer; correct the "
                "template"
            )
        return rest[:last]

    def _behind(self, history: Sequence[Message], answer: Message, tools: Tools | None) -> str | None:
        """The text after the opening, without the thought that it begins; None if the opening differs."""
        before, full = self._text(list(history), tools, speak=True), self._text([*history, answer], tools, speak=False)
        thought = self._thought.search(before)
        bare = before if thought is None else before[: thought.start()]
        return full[len(bare) :] if full.startswith(bare) else None

    def _check_shown(self, answer: Message, history: Sequence[Message], tools: Tools | None, text: str) -> None:
        """Checks that an answer contains every part that must be learnt."""
        for name in BESIDES:
            value = answer.get(name)
            parts = [value[:n] + value[n + 1 :] for n in range(len(value))] if isinstance(value, list) else [None]
            for left in parts if value else ():
                less = {key: left if key == name else item for key, item in answer.items() if key != name or left}
                try:
                    other = self._written(less, history, tools)
                except ConfigurationError:
                    continue  # A message without other content may be refused.
                if other == text:
                    raise ConfigurationError(
                        f"the chat template of {_name(self.tokenizer)} does not show the {name} of an assistant "
                        "message, so nothing would be learnt of them; leave them out, or use a template that does"
                    )

    def _grown(
        self,
        history: Sequence[Message],
        answer: Message,
        new: Sequence[Message],
        tools: Tools | None,
        response: Sequence[int],
    ) -> Tokens | None:
        """`grown` for a response with more than words: the text after it in the complete conversation."""
        head = self._text(list(history), tools, speak=True) + self._answer(answer, history, tools)
        head = head[: max(seal.start() for seal in SEAL.finditer(head))]
        suffix = _past(self._text([*history, answer, *new], tools, speak=True), head)
        ended = self.ended(response)
        if suffix is None or (ended and self._close(suffix) != response[-1]):
            return None
        return self._after(suffix, ended)

    def _suffix(self, history: Sequence[Message], new: Sequence[Message], tools: Tools | None) -> str:
        """The text after an assistant message, up to the assistant's next reply if there are new messages."""
        return self._rest(self._text([*history, _MARKED, *new], tools, speak=bool(new)))

    def _rest(self, text: str) -> str:
        """The text after the marked answer."""
        before, marker, after = text.rpartition(_MARKER)
        if not marker or _MARKER in before:
            raise ConfigurationError(
                f"the chat template of {_name(self.tokenizer)} does not show an assistant message exactly once; "
                "use a template that does"
            )
        return after

    def _after(self, suffix: str, ended: bool) -> Tokens:
        ids = self._encode_sealed(suffix)
        return ids[ids.index(self._close(suffix)) + 1 :] if ended else ids

    def _closing_calls(self) -> tuple[int, ...]:
        """The end token of a turn that calls a tool; empty if the template has no tool calls."""
        try:
            bare, text = (self._text([_QUESTION, message], None, speak=False) for message in (_SILENT, _CALLED))
        except Endless:
            raise
        except ConfigurationError:
            return ()
        seals = list(SEAL.finditer(text))
        ends = text != bare and seals and not text[seals[-1].end() :].strip()
        return (int(seals[-1][1]),) if ends else ()

    def _closing(self, new: Sequence[Message]) -> int:
        return self._close(self._suffix((_QUESTION,), new, None))

    def _close(self, suffix: str) -> int:
        """The end-of-turn token that a text begins with, but for space."""
        seal = SEAL.match(suffix.lstrip())
        if seal is None:
            raise ConfigurationError(
                f"the chat template of {_name(self.tokenizer)} closes an assistant turn with {suffix[:20]!r}, which "
                "is no token of its own; close it with an added token such as the end-of-sequence token"
            )
        return int(seal[1])


def _name(tokenizer: Any) -> str:
    return repr(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _frame(probes: Sequence[_Probe]) -> str:
    """The text that a template adds around messages, without tool calls."""
    called = next((probe.text for probe in probes if probe.messages[-1] is _CALLED and not probe.speak), "")
    parts = []
    for probe in probes:
        alike = zip(probe.text, called if _CALLED in probe.messages else "", strict=False)
        parts.append(probe.text[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], alike)) :])
    return "\n".join(parts)


def _words_of(message: Message) -> str:
    """The text of a message; of one in parts, of all of them."""
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return "" if content is None else str(content)


def _gone_on(answer: str, tag: str, space: str, closer: str) -> str:
    """An answer after an opening that begins a thought by `tag` and `space`: without these, or closing it."""
    words = answer.lstrip()
    if words.startswith(tag):
        return words.removeprefix(tag).removeprefix(space)
    return answer if closer in answer else f"\n{closer}\n\n{words}"


def _past(text: str, head: str) -> str | None:
    """The rest of `text` after `head`, ignoring differences in white space; None if it does not begin with `head`."""
    place = 0
    for character in head:
        if character.isspace():
            continue
        while place < len(text) and text[place].isspace():
            place += 1
        if place == len(text) or text[place] != character:
            return None
        place += 1
    return text[place:]
