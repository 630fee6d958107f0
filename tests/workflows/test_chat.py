"""Chat templates as exact token spans."""

from __future__ import annotations

from typing import Any

import chats
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.tools.calculator import CALCULATOR
from hocket.agents.workflows import shapes
from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.nano.tokenizer import build_tokenizer
from hocket.types import Message

USER = {"role": "user", "content": "What is 2+2?"}
MORE = {"role": "user", "content": "And now?"}


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def token(chat: Chat, text: str) -> int:
    """The id of an added token."""
    return int(chat.tokenizer.convert_tokens_to_ids(text))


def rendered(chat: Chat, messages: list[dict[str, str]], speak: bool) -> str:
    return chat.tokenizer.apply_chat_template(messages, add_generation_prompt=speak, tokenize=False)


@pytest.mark.parametrize("name", chats.EXTENSIBLE)
def test_opening_is_the_rendered_history(name: str) -> None:
    chat = chats.chat(name)
    assert chat.render(chat.opening([USER])) == rendered(chat, [USER], True)
    history = [USER, said("four"), MORE]
    assert chat.render(chat.opening(history)) == rendered(chat, history, True)


@pytest.mark.parametrize("name", chats.EXTENSIBLE)
def test_opening_response_and_following_join_to_the_rendered_history(name: str) -> None:
    chat = chats.chat(name)
    response = chat.demonstration("four")
    closer = chat.render(response[-1:])
    joined = chat.render(chat.opening([USER]) + response + chat.following([MORE]))
    # gpt-oss-like templates close earlier turns with another token: what was sampled stays.
    expected = rendered(chat, [USER, said("four"), MORE], True)
    assert joined == (expected.replace("four<|end|>", f"four{closer}") if name == "two-ends" else expected)


@pytest.mark.parametrize("name", chats.EXTENSIBLE)
def test_demonstration_after_opening_is_the_templates_full_rendering(name: str) -> None:
    chat = chats.chat(name)
    full = rendered(chat, [USER, said("four")], False)
    taught = chat.render(chat.opening([USER]) + chat.demonstration("four"))
    assert full.startswith(taught)
    assert full[len(taught) :].strip() == ""
    assert chat.demonstration("four")[-1] == chat.end_of_turn
    assert chat.reply_text(chat.demonstration("four")).strip() == "four"


@pytest.mark.parametrize(
    ("name", "after"), [("chatml", "\n"), ("gemma", "\n"), ("llama3", ""), ("nano", ""), ("spaced", "")]
)
def test_end_of_turn_belongs_to_the_response_and_the_newline_to_the_observation(name: str, after: str) -> None:
    chat = chats.chat(name)
    end = chat.render([chat.end_of_turn])
    following = chat.render(chat.following([MORE]))
    assert not following.startswith(end)
    assert following.startswith(after + "<|")
    cut = chat.following([MORE], ended=False)
    assert chat.render(cut).lstrip().startswith(end + after)
    # The cut form is the ended form with what closes the turn before it.
    assert cut[-len(chat.following([MORE])) :] == chat.following([MORE])
    assert cut[: -len(chat.following([MORE]))][-1] == chat.end_of_turn


def test_space_before_the_end_of_turn_is_observed_only_after_a_cut() -> None:
    chat = chats.chat("spaced")
    assert chat.render(chat.following([MORE])) == "<|begin|>[INST] And now? [/INST]"
    assert chat.render(chat.following([MORE], ended=False)) == " <|eot|><|begin|>[INST] And now? [/INST]"


@pytest.mark.parametrize("name", chats.EXTENSIBLE)
@settings(max_examples=25, deadline=None)
@given(answers=st.lists(st.text("ab \n1", max_size=6), min_size=1, max_size=3), cut=st.lists(st.booleans(), min_size=3))
def test_growing_never_re_encodes(name: str, answers: list[str], cut: list[bool]) -> None:
    """Whatever was sampled and however it ended, the grown text is the template's up to white space."""
    chat = CHATS[name]
    history, tokens = [USER], list(chat.opening([USER]))
    for number, answer in enumerate(answers):
        # One token per character: not what encoding the text would give ("ab" and "\n\n" are single tokens).
        response = [one for character in answer for one in chat.encode(character)]
        response += [] if cut[number] else [chat.end_of_turn]
        observation = chat.grown(history, response, [MORE])
        assert observation is not None
        before = len(tokens)
        tokens += [*response, *observation]
        assert tokens[before : before + len(response)] == response
        history += [said(chat.reply_text(response)), MORE]
    text = chat.render(tokens).replace("<|return|>", "<|end|>")
    assert "".join(text.split()) == "".join(rendered(chat, history, True).split())


CHATS = {name: chats.chat(name) for name in chats.EXTENSIBLE}


def test_dropped_thinking_cannot_grow_but_plain_answers_can() -> None:
    chat = chats.chat("forgetful")
    thinking = chat.demonstration("<think>2 and 2</think>four")
    assert chat.grown([USER], thinking, [MORE]) is None
    assert chat.grown([USER], chat.demonstration("four"), [MORE]) == chat.following([MORE])


def test_thinking_that_lasts_until_the_next_question() -> None:
    """A tool's result leaves the thinking in place, so the chain goes on; a new question removes it."""
    chat = chats.chat("rethinking")
    tool = {"role": "tool", "content": "4"}
    thinking = [*chat.encode("<think>\ncall\n</think>\n\nadd(2, 2)"), chat.end_of_turn]
    assert chat.grown([USER], thinking, [MORE]) is None
    observed = chat.grown([USER], thinking, [tool])
    assert observed is not None
    assert chat.render(observed) == "\n<|im_start|>tool\n4<|im_end|>\n<|im_start|>assistant\n"
    plain = [*chat.encode("four"), chat.end_of_turn]
    assert chat.grown([USER], plain, [MORE]) == chat.following([MORE])
    assert chat.render(chat.demonstration("four")) == "<think>\n\n</think>\n\nfour<|im_end|>"


def test_wandering_system_prompt_cannot_grow() -> None:
    chat = chats.chat("wandering")
    system = {"role": "system", "content": "Be brief."}
    assert chat.grown([system, USER], chat.demonstration("four"), [MORE]) is None
    assert chat.grown([USER], chat.demonstration("four"), [MORE]) is not None


def test_trimmed_white_space_does_not_stop_growth() -> None:
    chat = chats.chat("llama3")
    response = [*chat.encode("four \n"), chat.end_of_turn]
    assert chat.grown([USER], response, [MORE]) == chat.following([MORE])


def test_either_end_of_turn_ends_a_response() -> None:
    chat = chats.chat("two-ends")
    final, earlier = [token(chat, "<|return|>")], [token(chat, "<|end|>")]
    assert chat.end_of_turn == final[0]
    text = chat.encode("four")
    assert chat.grown([USER], [*text, *final], [MORE]) == chat.grown([USER], [*text, *earlier], [MORE])
    assert chat.reply_text([*text, *earlier]) == "four"


def test_reply_text_keeps_special_tokens_inside() -> None:
    chat = chats.chat("chatml")
    response = [*chat.encode("a"), token(chat, "<|im_start|>"), *chat.encode("b"), chat.end_of_turn]
    assert chat.reply_text(response) == "a<|im_start|>b"
    assert chat.reply_text(chat.encode("cut")) == "cut"
    assert chat.reply_text([]) == ""


def test_nano_tags_are_single_tokens_of_a_response() -> None:
    chat = chats.chat("nano")
    response = chat.demonstration("<think>2+2=4</think><answer>4</answer>")
    assert chat.reply_text(response) == "<think>2+2=4</think><answer>4</answer>"
    assert len(response) == 5 + 4 + 1 + 1
    tool = {"role": "tool", "content": "4"}
    assert chat.render(chat.following([tool])) == "<|tool|>4<|end|><|assistant|>"
    assert "Tools: calculator(expression)" in chat.render(chat.opening([USER], [CALCULATOR]))
    assert chat.grown([USER], response, [tool], [CALCULATOR]) == chat.following([tool])


def test_missing_template_is_refused() -> None:
    tokenizer = build_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(ConfigurationError, match="no chat template; set"):
        Chat(tokenizer)


def test_template_without_end_of_turn_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="closes an assistant turn with"):
        chats.chat("unclosed")


def test_template_that_hides_the_assistant_is_refused() -> None:
    tokenizer = chats.tokenizer("chatml")
    tokenizer.chat_template = (
        "{% for m in messages if m.role != 'assistant' %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    )
    with pytest.raises(ConfigurationError, match="does not show an assistant message exactly once"):
        Chat(tokenizer)


def test_refused_roles_are_named() -> None:
    chat = chats.chat("gemma")
    with pytest.raises(ConfigurationError, match=r"roles system, user: System role not supported; change"):
        chat.opening([{"role": "system", "content": "Be brief."}, USER])
    with pytest.raises(ConfigurationError, match="roles must alternate"):
        chat.opening([USER, USER])


def test_stops_name_every_end() -> None:
    tokenizer = chats.tokenizer("chatml")
    tokenizer.add_special_tokens({"eos_token": "<|endoftext|>"})
    chat = Chat(tokenizer)
    assert chat.stops == (token(chat, "<|im_end|>"), token(chat, "<|endoftext|>"))
    # A document's end is no end of turn: the template's closing still has to come.
    response = [*chat.encode("four"), token(chat, "<|endoftext|>")]
    assert chat.reply_text(response) == "four"
    assert chat.grown([USER], response, [MORE]) == chat.following([MORE], ended=False)


# ---------------------------------------------------------------- what is found out once holds for all


def grown_in_full(
    chat: Chat, history: list[Message], response: list[int], new: list[Message]
) -> tuple[int, ...] | None:
    """`Chat.grown` by rendering both whole conversations, words and all."""
    answer = said(chat.reply_text(response))
    before = rendered(chat, history, True)
    after = rendered(chat, [*history, answer, *new], True)
    marked = rendered(chat, [*history, said("hocket0marker1here"), *new], True)
    suffix = marked.rpartition("hocket0marker1here")[2]
    if "".join(after.split()) != "".join((before + str(answer["content"]) + suffix).split()):
        return None
    ids = chat.tokenizer(suffix, add_special_tokens=False)["input_ids"]
    close = next(place for place, one in enumerate(ids) if one in chat.tokenizer.added_tokens_decoder)
    return tuple(ids[close + 1 :] if chat.ended(response) else ids)


SHOUTING = chats.CHATML.replace("m.content", "(m.content if m.role == 'assistant' else m.content | upper)")
ESCAPING = chats.CHATML.replace("m.content", "(m.content if m.role == 'assistant' else m.content | tojson)")
DOUBLING = chats.CHATML.replace("m.content", "(m.content if m.role == 'assistant' else m.content + '/' + m.content)")
COUNTING = chats.CHATML.replace("{{- '<|im_start|>'", "{{- ('' if loop.length < 6 else 'long ') + '<|im_start|>'")
NUMBERED = chats.CHATML.replace("m.content + '<|im_end|>", "m.content + '<|im_end|>' + (loop.index | string) + '")
ODD = {"shouting": SHOUTING, "escaping": ESCAPING, "doubling": DOUBLING, "counting": COUNTING, "numbered": NUMBERED}


def odd_chat(name: str) -> Chat:
    if name not in ODD:
        return chats.chat(name)
    tokenizer = chats.tokenizer("chatml")
    tokenizer.chat_template = ODD[name]
    return Chat(tokenizer)


ALL = {name: odd_chat(name) for name in (*chats.EXTENSIBLE, "rethinking", "wandering", *ODD)}
PIECES = st.sampled_from(["a", "b c", " ", "\n", "<think>", "</think>", '"q"', "<b>", "ab", "4"])
TEXTS = st.one_of(st.lists(PIECES, max_size=5).map("".join), st.sampled_from(["same", "x", "question"]))


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=3, max_size=9), ended=st.booleans(), system=st.booleans(), tool=st.booleans())
def test_growth_is_what_rendering_everything_says(
    name: str, texts: list[str], ended: bool, system: bool, tool: bool
) -> None:
    chat = ALL[name]
    allowed = name != "gemma"
    history: list[Message] = [{"role": "system", "content": "Be brief."}] if system and allowed else []
    for place, text in enumerate(texts[:-2]):
        history.append({"role": "assistant" if place % 2 else "user", "content": text or "."})
    if history[-1]["role"] != "user":
        history.append({"role": "user", "content": "last"})
    response = [one for character in texts[-2] for one in chat.encode(character)] + [chat.end_of_turn] * ended
    new: list[Message] = [{"role": "tool" if tool and allowed else "user", "content": texts[-1]}]
    assert chat.grown(history, response, new) == grown_in_full(chat, history, response, new)


def test_few_conversations_are_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred conversations of twenty turns need as many renderings as one, besides their openings."""
    chat = chats.chat("nano")
    counted: list[int] = []
    render = chat._render

    def counting(messages: Any, tools: Any, speak: bool) -> str:
        counted.append(len(messages))
        return render(messages, tools, speak)

    monkeypatch.setattr(chat, "_render", counting)
    sizes = []
    for number in range(100):
        history = [{"role": "user", "content": f"question {number}"}]
        for turn in range(20):
            response = chat.demonstration(f"answer {turn} of {number}")
            new = {"role": "user", "content": f"more {turn} of {number}"}
            shown = chat.render(chat.grown(history, response, [new]) or ())
            assert shown == f"<|user|>more {turn} of {number}<|end|><|assistant|>"
            history += [said(chat.reply_text(response)), new]
        sizes.append(sum(1 for size in counted if size > 2))
    assert sizes[0] <= 4 * 20
    assert sizes[-1] == sizes[0]


def test_beginnings_are_kept_once_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "KEPT", 40)
    chat = chats.chat("nano")
    for number in range(200):
        text = "<answer>" * (number % 9) + " x" * (number % 5) + " " * (number % 3)
        history = [{"role": "user", "content": text}] * 3
        assert chat.grown(history, chat.demonstration("4"), [MORE]) == chat.following([MORE])
    assert len(chat._shapes._numbers) <= 60
