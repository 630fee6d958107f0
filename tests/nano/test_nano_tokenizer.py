"""The tokenizer: lossless for ASCII, exact masks of what the assistant wrote, prompts that are prefixes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.tools.calculator import CALCULATOR
from hocket.nano.corpus import chats, tool_call
from hocket.nano.pretrain import trained_targets
from hocket.nano.tokenizer import CHARACTERS, END, PHRASES, ROLE_TAGS, TAGS, build_tokenizer

TOKENIZER = build_tokenizer()
CHARS = st.text(alphabet=st.sampled_from(CHARACTERS))
SPECIAL = tuple(TOKENIZER.all_special_tokens)
"""Names such as `<unk>`, which are read as the tokens that they name; no text of a prompt holds them."""
TEXTS = (
    st.lists(CHARS | st.sampled_from((*PHRASES, *TAGS)), max_size=6)
    .map("".join)
    .filter(lambda text: not any(name in text for name in SPECIAL))
)

CALL = {"type": "function", "function": {"name": "calculator", "arguments": {"expression": "3 * 4"}}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 3 * 4?"},
    {"role": "assistant", "content": "", "reasoning_content": "a product", "tool_calls": [CALL]},
    {"role": "tool", "content": "12"},
    {"role": "assistant", "content": "So: ", "answer": "12"},
    {"role": "user", "content": "And 2 + 2?"},
    {"role": "assistant", "content": "The answer is 4"},
]
SPOKEN = [
    "<think>a product</think>"
    '<tool_call>{"name": "calculator", "arguments": {"expression": "3 * 4"}}</tool_call><|end|>',
    "So: <answer>12</answer><|end|>",
    "The answer is 4<|end|>",
]


def spans(ids: list[int], mask: list[int]) -> list[str]:
    """The decoded runs of masked tokens."""
    runs = itertools.groupby(zip(ids, mask, strict=True), key=lambda pair: pair[1])
    return [TOKENIZER.decode([token for token, _ in run]) for kept, run in runs if kept]


@settings(deadline=None)
@given(TEXTS)
def test_ascii_text_survives_a_round_trip(text: str) -> None:
    ids = TOKENIZER(text)["input_ids"]
    assert TOKENIZER.decode(ids) == text
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == text
    assert TOKENIZER.unk_token_id not in ids


def test_other_characters_are_unknown_and_phrases_are_one_token() -> None:
    assert TOKENIZER("é")["input_ids"] == [TOKENIZER.unk_token_id]
    for phrase in (*PHRASES, *TAGS):
        assert len(TOKENIZER(phrase)["input_ids"]) == 1


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_encoding_is_independent_across_a_role_tag(before: str, after: str) -> None:
    tag = ROLE_TAGS["assistant"]
    apart = TOKENIZER(before + tag)["input_ids"] + TOKENIZER(after)["input_ids"]
    assert TOKENIZER(before + tag + after)["input_ids"] == apart


@pytest.mark.parametrize("tools", [None, [CALCULATOR], [CALCULATOR["function"]]])
def test_masks_cover_exactly_what_the_assistant_wrote(tools: list[dict[str, Any]] | None) -> None:
    encoded = TOKENIZER.apply_chat_template(CHAT, tools=tools, return_dict=True, return_assistant_tokens_mask=True)
    assert spans(encoded["input_ids"], encoded["assistant_masks"]) == SPOKEN
    text = TOKENIZER.decode(encoded["input_ids"])
    assert ("Tools: calculator(expression)" in text) == (tools is not None)


def test_masks_agree_with_the_targets_of_pretraining() -> None:
    assistant, end = TOKENIZER.convert_tokens_to_ids([ROLE_TAGS["assistant"], END])
    for chat in itertools.islice(chats(3), 200):
        encoded = TOKENIZER.apply_chat_template(
            list(chat.messages), tools=list(chat.tools) or None, return_dict=True, return_assistant_tokens_mask=True
        )
        ids, mask = encoded["input_ids"], encoded["assistant_masks"]
        masked = [token if kept else -100 for token, kept in zip(ids, mask, strict=True)]
        assert trained_targets(ids, assistant, end) == [*masked[1:], -100]


@pytest.mark.parametrize("turn", [2, 4, 6])
def test_a_prompt_is_the_prefix_of_its_continuation(turn: int) -> None:
    prompt = TOKENIZER.apply_chat_template(CHAT[:turn], add_generation_prompt=True, return_dict=True)["input_ids"]
    longer = TOKENIZER.apply_chat_template(CHAT[: turn + 1], return_dict=True)["input_ids"]
    spoken = SPOKEN[turn // 2 - 1]
    assert longer[: len(prompt)] == prompt
    assert TOKENIZER.decode(longer[len(prompt) :]) == spoken


def test_a_tool_call_is_rendered_as_json_of_few_tokens() -> None:
    messages = [{"role": "user", "content": "x"}, tool_call("1 + 2")]
    ids = TOKENIZER.apply_chat_template(messages, return_dict=True)["input_ids"]
    assert TOKENIZER.decode(ids).endswith(SPOKEN[0].split("</think>")[1].replace("3 * 4", "1 + 2"))
    assert len(ids) < 20


def test_unknown_roles_are_refused() -> None:
    with pytest.raises(Exception, match="unknown role: judge"):
        TOKENIZER.apply_chat_template([{"role": "judge", "content": "x"}])
