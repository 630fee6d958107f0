"""From tokens to what clients read, in whatever parts they come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from serve_cases import CHAT
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hocket.apps.serve.spelling import Delta, Spelling, calls_in

ALPHABET = "ab<tool_c>/E\n "


def spelled(tokens: list[int], cuts: list[int], **settings: Any) -> list[Delta]:
    """All deltas of an answer that comes in parts."""
    spelling = Spelling(settings.pop("chat", CHAT), 0, **settings)
    found, start = [], 0
    for end in sorted({min(cut, len(tokens)) for cut in cuts} | {len(tokens)}):
        if end == start and found:
            continue
        spelling.take(tokens[start:end], [-float(place) for place in range(start, end)])
        start = end
        if spelling.stopped or end == len(tokens):
            return [*found, spelling.last("stop")]
        found.append(spelling.delta())
    raise AssertionError("an answer has an end")


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def before_the_first(text: str, stops: list[str]) -> str:
    """What stands before the stop that is whole first, read character by character; of several the longest."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))]
    return text


@example(text="><<", cuts=[2], stops=["<", "><<"])
@given(
    text=st.text(ALPHABET, max_size=30),
    cuts=st.lists(st.integers(1, 30), max_size=6),
    stops=st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=3),
)
def test_parts_give_the_same_text_and_entries_as_the_whole(text: str, cuts: list[int], stops: list[str]):
    tokens = [*CHAT.encode(text), CHAT.end_of_turn]
    parts = spelled(tokens, cuts, stops=stops, logprobs=True)
    whole = spelled(tokens, [], stops=stops, logprobs=True)
    assert text_of(parts) == text_of(whole) == before_the_first(text, stops)
    assert parts[-1].finish == whole[-1].finish == "stop"
    entries = [entry for delta in parts for entry in delta.entries]
    assert entries == [entry for delta in whole for entry in delta.entries]
    # The nano tokenizer writes these texts character by character, tags in one.
    assert text_of(whole).startswith("".join(entry.token for entry in entries))


@given(st.text(min_size=1, max_size=12), st.lists(st.integers(1, 40), max_size=8))
def test_no_character_is_shown_before_it_is_whole(text: str, cuts: list[int]):
    chat: Any = _by_bytes()
    tokens = chat.encode(text)
    deltas = spelled(tokens, cuts, chat=chat)
    assert text_of(deltas) == text
    assert not any("\N{REPLACEMENT CHARACTER}" in delta.text for delta in deltas) or "\ufffd" in text


def _by_bytes() -> Any:
    """A chat whose tokens are bytes, so that most characters take several."""
    vocabulary = {piece: number for number, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core)

    def decode(tokens: list[int]) -> str:
        return str(tokenizer.decode(tokens, clean_up_tokenization_spaces=False))

    return SimpleNamespace(encode=lambda text: list(tokenizer(text)["input_ids"]), render=decode, reply_text=decode)


def test_counts_every_token_once_whatever_is_shown():
    tokens = [*CHAT.encode("one STOP two"), CHAT.end_of_turn]
    deltas = spelled(tokens, [3, 6], stops=("STOP",))
    assert text_of(deltas) == "one "
    assert sum(delta.tokens for delta in deltas) == len(CHAT.encode("one STOP two"[:8])) or deltas[-1].finish == "stop"


def test_a_call_of_a_tool_is_no_text():
    said = 'Let me see. <tool_call>{"name": "calculator", "arguments": {"expression": "1+1"}}</tool_call>'
    deltas = spelled([*CHAT.encode(said), CHAT.end_of_turn], [3, 13, 20, 30], tools=True, name="7")
    assert text_of(deltas) == "Let me see."
    (call,) = deltas[-1].calls
    assert (call.id, call.function.name, call.function.arguments) == ("call_7_0", "calculator", '{"expression":"1+1"}')
    assert deltas[-1].finish == "tool_calls"


@pytest.mark.parametrize(
    "said", ["<tool_call>{broken</tool_call>", "<tool_call>{}</tool_call>", "<tool_call>[1]", "a <tool_"]
)
def test_what_is_no_call_stays_text(said: str):
    deltas = spelled([*CHAT.encode(said), CHAT.end_of_turn], [4, 9], tools=True)
    assert text_of(deltas) == said
    assert deltas[-1].finish == "stop"
    assert deltas[-1].calls == ()


def test_several_calls_are_numbered_and_one_bad_one_spoils_all():
    good = '<tool_call>{"name": "a"}</tool_call>'
    assert [call.id for call in calls_in(good * 2, "x")] == ["call_x_0", "call_x_1"]
    assert calls_in(good, "x")[0].function.arguments == "{}"
    assert calls_in(good + "<tool_call>no</tool_call>", "x") == ()


def test_log_probs_are_left_out_where_nobody_knows_them():
    spelling = Spelling(CHAT, 0, logprobs=True)
    spelling.take(CHAT.encode("abc"), None)
    assert spelling.last("stop").entries == ()
