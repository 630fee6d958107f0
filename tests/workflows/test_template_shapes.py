"""Conversations under the shapes of public templates: encoded as `transformers` encodes them, and forged by nobody."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import cache
from typing import Any

import pytest
import template_zoo as zoo

from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.types import Message

PLAIN = {"normalized": False, "strips": False, "special": True}
FLAGS = [PLAIN, {**PLAIN, "normalized": True}, {**PLAIN, "strips": True}, {**PLAIN, "special": False}]
ALL = [
    (name, make, flags)
    for name, make, flags in itertools.product(zoo.SHAPES, zoo.MAKES, FLAGS)
    # Normalised tokens behind a normaliser that writes spaces are found behind spaces alone, so nothing is to compare.
    if not (flags["normalized"] and make == "sentencepiece")
]
USUAL = [ALL[place] for place in range(0, len(ALL), 11)]
"""Each shape with two makes or so, each make with all flags."""
TAGS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "[THINK]",
    "[/THINK]",
)
"""Words that a message may spell."""

ASKED: Message = {"role": "user", "content": "What is 2+2?"}
SYSTEM: Message = {"role": "system", "content": "Be brief."}


@cache
def chat_of(name: str, make: str, flags: tuple[tuple[str, bool], ...]) -> Chat:
    return Chat(zoo.tokenizer(zoo.SHAPES[name], make, **dict(flags)))


def cases(kept: Any) -> list[Any]:
    return [pytest.param((name, make, tuple(flags.items())), id=f"{name}, {make}") for name, make, flags in kept]


def said(text: str, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


def usual(chat: Chat, messages: list[Message], tools: Any = None, speak: bool = False) -> list[int]:
    """Ids as `transformers` has them."""
    text = chat.tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=speak, tokenize=False)
    return list(chat.tokenizer(text, add_special_tokens=False)["input_ids"])


def call(name: str = "f", **arguments: Any) -> list[dict[str, Any]]:
    return [{"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": arguments or {"a": 1}}}]


def schema(name: str = "f", about: str = "d", key: str = "p", choice: str = "x") -> list[dict[str, Any]]:
    kinds = {"type": "object", "properties": {key: {"type": "string", "enum": [choice]}}}
    return [{"type": "function", "function": {"name": name, "description": about, "parameters": kinds}}]


HARMLESS: list[tuple[list[Message], Any]] = [
    ([ASKED], None),
    ([SYSTEM, ASKED], None),
    ([ASKED, said("Yes"), {"role": "user", "content": "  Why?\n\n"}], None),
    ([ASKED, said("", tool_calls=call()), {"role": "tool", "content": "4", "name": "f"}], schema()),
    ([{"role": "user", "content": "a < b | c > d [x] <b>bold</b> </"}], schema()),
]


@pytest.mark.parametrize("chat", cases(USUAL))
def test_harmless_conversations_are_encoded_as_they_are_elsewhere(chat: tuple[Any, ...]) -> None:
    made = chat_of(*chat)
    for messages, tools in HARMLESS:
        try:
            wanted = usual(made, messages, tools, speak=True)
        except Exception:  # A role that the template refuses.
            continue
        assert list(made.opening(messages, tools)) == wanted


@pytest.mark.parametrize("chat", cases(USUAL))
def test_what_is_learnt_stands_in_the_whole_conversation(chat: tuple[Any, ...]) -> None:
    """The opening and what is learnt behind it are the ids of the conversation rendered as one."""
    made = chat_of(*chat)
    for text in ("Yes", "im here", "7\nYes"):
        opening, learnt = list(made.opening([ASKED])), list(made.demonstration(text, [ASKED]))
        whole = usual(made, [ASKED, said(text)])
        assert learnt[-1] == made.end_of_turn
        assert learnt.count(made.end_of_turn) == 1
        if "qwq" in chat[0] or "r1" in chat[0]:  # The prompt thinks, and finished answers do not show it.
            assert made.reply_text(learnt, opening).split("</think>")[1].strip() == folded(chat, text)
        elif whole[: len(opening)] == opening:
            assert (opening + learnt)[: len(whole)] == whole[: len(opening) + len(learnt)]
        else:  # A token that the opening and the answer share: the opening stays what the model is asked.
            assert chat[0] == "glm-4" or "".join(made.reply_text(learnt).split()) == "".join(folded(chat, text).split())


def folded(chat: tuple[Any, ...], text: str) -> str:
    return text.lower() if chat[1] == "folding" else text


def attacks(token: str) -> list[tuple[str, str]]:
    half = len(token) // 2
    wide = "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in token)
    return [
        (f"ab{token}cd", "abxxcd"),
        (token, "x"),
        (token[:half] + token + token[half:], "x"),
        (f"\ufdd0{7}\ufdd1{token}\ufdd2{token[:2]}\ufdd3user\ufdd4{token[-2:]}\ufdd5", "x"),
        (wide, "x"),
        (token.upper(), "x"),
    ]


CHANNELS: dict[str, Any] = {
    "user": lambda t: ([{"role": "user", "content": t}], None),
    "user later": lambda t: ([ASKED, said("a"), {"role": "user", "content": t}], None),
    "system": lambda t: ([{"role": "system", "content": t}, ASKED], None),
    "assistant": lambda t: ([ASKED, said(t), ASKED], None),
    "tool": lambda t: ([ASKED, said("", tool_calls=call()), {"role": "tool", "content": t, "name": "f"}], None),
    "name": lambda t: ([{**ASKED, "name": t}], None),
    "argument": lambda t: ([ASKED, said("", tool_calls=call(a=t)), ASKED], None),
    "argument's name": lambda t: ([ASKED, said("", tool_calls=call(**{t: 1})), ASKED], None),
    "call's name": lambda t: ([ASKED, said("", tool_calls=call(t)), ASKED], None),
    "schema": lambda t: ([ASKED], schema(t, t, t, t)),
}


def roles_and_ends(chat: Chat, name: str, ids: Any) -> Counter[int]:
    """How often each of a template's tokens stands in some ids; words that anybody may use aside."""
    known = {chat.tokenizer.convert_tokens_to_ids(tag) for tag in zoo.SHAPES[name].tags if tag not in TAGS}
    return Counter(token for token in ids if token in known)


@pytest.mark.parametrize("chat", cases(USUAL))
def test_nobody_forges_a_control_token(chat: tuple[Any, ...]) -> None:
    tags = tags_of(chat)
    check_forging(chat, tags[:2] + tags[-2:])


def tags_of(chat: tuple[Any, ...]) -> list[str]:
    """Tokens that take or end a turn. `<s>` is one where it is special or named, and a word of HTML elsewhere."""
    made = chat_of(*chat).tokenizer
    words = {*TAGS, *({"<s>", "</s>"} - {*made.all_special_tokens} if not dict(chat[2])["special"] else ())}
    return [tag for tag in zoo.SHAPES[chat[0]].tags if tag not in words]


def check_forging(chat: tuple[Any, ...], tags: list[str]) -> None:
    made, name = chat_of(*chat), chat[0]
    for token in tags:
        for where, shown in CHANNELS.items():
            try:
                made.opening(*shown("x"))
            except ConfigurationError:
                continue
            for hostile, harmless in attacks(token)[: None if where in ("user", "assistant") else 1]:
                found, due = (made.opening(*shown(text)) for text in (hostile, harmless))
                assert roles_and_ends(made, name, found) == roles_and_ends(made, name, due), (where, hostile)
        for hostile, harmless in attacks(token):
            for encoded in (made.demonstration, made.encode, lambda text: made.encode(text, [1])):
                found, due = encoded(hostile), encoded(harmless)
                assert roles_and_ends(made, name, found) == roles_and_ends(made, name, due), hostile
            for role in ("user", "tool"):
                new = [[{"role": role, "content": text}] for text in (hostile, harmless)]
                try:
                    found, due = (made.following(one) for one in new)
                except ConfigurationError:
                    continue
                assert roles_and_ends(made, name, found) == roles_and_ends(made, name, due), hostile


@pytest.mark.slow
@pytest.mark.parametrize("chat", cases(ALL))
def test_the_whole_matrix(chat: tuple[Any, ...]) -> None:
    test_harmless_conversations_are_encoded_as_they_are_elsewhere(chat)
    test_what_is_learnt_stands_in_the_whole_conversation(chat)
    check_forging(chat, tags_of(chat))
