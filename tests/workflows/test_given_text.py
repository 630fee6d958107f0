"""Text that was written elsewhere: encoded as the template writes it, with its calls, its thoughts and nothing lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import template_zoo as zoo

from hocket.agents.tools.calculator import Calculator
from hocket.agents.tools.protocol import first_call, read_calls
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.single import SingleTurn
from hocket.agents.workflows.team import Actor
from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.markup import has_thought
from hocket.rewards.tags import TagFormat
from hocket.testing import Cut, Part, ScriptedEngine, rehearse
from hocket.types import Assignment, Message, Scenario

ASKED: Message = {"role": "user", "content": "1+2?"}
CALL = [{"id": "abcdefghi", "type": "function", "function": {"name": "calculator", "arguments": {"expression": "1+2"}}}]
TALK: list[Message] = [
    ASKED,
    {"role": "assistant", "content": "Let me see.", "tool_calls": CALL},
    {"role": "tool", "content": "3", "name": "calculator", "tool_call_id": "abcdefghi"},
    {"role": "assistant", "content": "Yes, 3."},
]


def chat_of(name: str, make: str = "characters") -> Chat:
    return Chat(zoo.tokenizer(zoo.SHAPES[name], make))


def named(chat: Chat, ids: Any) -> list[str]:
    return list(chat.tokenizer.convert_ids_to_tokens(list(ids)))


def player_of(chat: Chat) -> TextPlayer:
    return TextPlayer(SingleTurn(), {"policy": Actor("policy", ScriptedEngine([], chat), chat)})


def given(chat: Chat, said: Any, *, pair: bool = False) -> Any:
    known = {"chosen": said, "rejected": "no"} if pair else {"demonstration": said}
    asked = Assignment(Scenario("s", (ASKED,), metadata=known), source="imported" if pair else "expert")
    return asyncio.run(player_of(chat).play([asked], key=Key.of(0)))[0].turns


# ---------------------------------------------------------------- a space before


@pytest.mark.parametrize(
    ("name", "make", "due"),
    [
        ("zephyr", "sentencepiece", ["Yes", "</s>"]),
        ("llama 2", "sentencepiece", ["\u2581Yes", "\u2581", "</s>"]),
        ("llama 2", "first", ["\u2581Yes", "\u2581", "</s>"]),
        ("gemma", "sentencepiece", ["Yes", "<end_of_turn>"]),
        ("vicuna", "sentencepiece", ["\u2581Yes", "</s>"]),
        ("openchat", "first", ["\u2581Yes", "<|end_of_turn|>"]),
        ("llama 3", "byte level", ["Yes", "<|eot_id|>"]),
    ],
)
def test_a_demonstration_begins_as_the_template_has_it(name: str, make: str, due: list[str]) -> None:
    chat = chat_of(name, make)
    assert named(chat, chat.demonstration("Yes")) == due
    # A response that is begun with it begins so too, and goes on without a space of the tokenizer's own.
    assert named(chat, chat.encode("Yes")) == due[:1]
    assert named(chat, chat.encode("Yes", after=[7])) == ["Yes"]
    assert chat.encode("") == ()


@pytest.mark.parametrize("pair", [False, True])
def test_recorded_answers_are_encoded_behind_their_opening(pair: bool) -> None:
    chat = chat_of("zephyr", "sentencepiece")
    (turn,) = given(chat, "Yes", pair=pair)
    assert named(chat, turn.action) == ["Yes", "</s>"]
    assert turn.text == "Yes"


def test_an_answer_that_shares_a_token_with_its_opening_leaves_the_opening() -> None:
    """The template ends in a line break and the answer begins with one; both together are one token."""
    chat = chat_of("chatml")
    opening, learnt = chat.opening([ASKED]), chat.demonstration("\nYes", [ASKED])
    assert named(chat, learnt) == ["\n", "Yes", "<|im_end|>"]
    assert named(chat, opening[-1:]) == ["\n"]


def test_a_judges_choices_are_encoded_behind_the_question() -> None:
    from hocket.rewards.judging import Question
    from hocket.train.judges import PolicyJudge

    judge = PolicyJudge.__new__(PolicyJudge)
    judge._chat = chat_of("zephyr", "sentencepiece")
    judge._engine = type("Engine", (), {"context_length": None})()
    asked = judge._requests(Question("Right?", choices=("Yes", "no")))
    assert [named(judge._chat, one.prefix) for one in asked] == [["Yes", "</s>"], ["n", "o", "</s>"]]


# ---------------------------------------------------------------- calls


@pytest.mark.parametrize("name", ["qwen2.5", "qwen3", "hermes", "llama 3", "mistral v3", "deepseek-v3", "gpt-oss"])
@pytest.mark.parametrize("make", ["characters", "sentencepiece", "byte level"])
def test_calls_are_learnt_and_stay_in_the_context(name: str, make: str) -> None:
    """All turns together are the ids of the conversation that `transformers` renders."""
    chat = chat_of(name, make)
    turns = given(chat, TALK[1:])
    assert len(turns) == 2
    assert "calculator" in turns[0].text
    assert "Let me see." in turns[0].text
    assert turns[1].text == "Yes, 3."
    joined = [token for turn in turns[-1].context() for token in (*turn.observation, *turn.action)]
    text = chat.tokenizer.apply_chat_template(TALK, tokenize=False)
    whole = chat.tokenizer(text, add_special_tokens=False)["input_ids"]
    if name == "gpt-oss":  # It ends the last turn otherwise than earlier ones; what was learnt stays.
        shown = (one.replace("<|return|>", "<|end|>").split() for one in (chat.render(joined), text))
        assert "".join(next(shown)) == "".join(next(shown))
    else:
        assert joined == whole[: len(joined)]
        assert not chat.render(whole[len(joined) :]).strip()


@pytest.mark.parametrize("content", ["", None])
def test_a_call_without_words_is_learnt_too(content: str | None) -> None:
    chat = chat_of("qwen2.5")
    (turn,) = given(chat, [{"role": "assistant", "content": content, "tool_calls": CALL}])
    assert turn.text.strip().startswith("<tool_call>")
    assert turn.action[-1] == chat.end_of_turn


CHANNELS = zoo.each(
    zoo.by_role(
        user=zoo.out("'<|start|>user<|message|>' + m.content + '<|end|>'"),
        tool=zoo.out("'<|start|>functions.f to=assistant<|channel|>commentary<|message|>' + m.content + '<|end|>'"),
        assistant="{%- if m.tool_calls -%}"
        "{%- if m.content and m is sameas (messages | selectattr('role', 'equalto', 'assistant') | list | last) -%}"
        + zoo.out("'<|start|>assistant<|channel|>analysis<|message|>' + m.content + '<|end|>'")
        + "{%- endif -%}"
        + zoo.out("'<|start|>assistant to=functions.' + m.tool_calls[0].function.name + '<|channel|>commentary'")
        + zoo.out("'<|message|>' + (m.tool_calls[0].function.arguments | tojson) + '<|call|>'")
        + "{%- else -%}"
        + zoo.out("'<|start|>assistant<|channel|>final<|message|>' + m.content")
        + zoo.out("'<|return|>' if loop.last and not add_generation_prompt else '<|end|>'")
        + "{%- endif -%}",
    ),
    zoo.out("'<|start|>assistant'"),
)
"""Calls end in a token of their own, and what was thought beside them is dropped once more is said."""


def channels() -> Chat:
    return Chat(zoo.tokenizer(replace(zoo.SHAPES["gpt-oss"], template=CHANNELS), "characters"))


def test_a_turn_that_calls_a_tool_may_end_in_another_token() -> None:
    chat = channels()
    learnt = chat.demonstration(TALK[1], TALK[:1])
    assert chat.render(learnt) == (
        "<|channel|>analysis<|message|>Let me see.<|end|>"
        '<|start|>assistant to=functions.calculator<|channel|>commentary<|message|>{"expression": "1+2"}<|call|>'
    )
    assert chat.ended(learnt)
    assert named(chat, chat.stops) == ["<|return|>", "<|call|>"]
    assert chat.render(chat.demonstration({**TALK[1], "content": ""}, TALK[:1])).endswith("<|call|>")


def test_an_answer_behind_a_past_that_reads_otherwise_is_written_as_the_template_writes_it() -> None:
    chat = channels()
    turns = given(chat, TALK[1:])
    joined = [token for turn in turns[-1].context() for token in (*turn.observation, *turn.action)]
    asked = chat.tokenizer.apply_chat_template(TALK[:-1], tokenize=False, add_generation_prompt=True)
    assert "analysis" in asked
    assert chat.render(joined) == asked + "<|channel|>final<|message|>Yes, 3.<|return|>"


EMPTY_THOUGHT = zoo.SHAPES["qwen3"].template.replace(
    "{%- if m.role == 'tool' -%}",
    "{%- if m.role == 'assistant' and loop.last -%}{%- set said = '<think>\\n\\n</think>\\n\\n' + said -%}{%- endif -%}"
    "{%- if m.role == 'tool' -%}",
    1,
)


@pytest.mark.parametrize("make", ["characters", "sentencepiece", "byte level"])
def test_a_thought_that_only_the_last_answer_shows_is_not_in_later_context(make: str) -> None:
    """Qwen3 writes an empty thought into the answer that is learnt, and none into the past."""
    chat = Chat(zoo.tokenizer(replace(zoo.SHAPES["qwen3"], template=EMPTY_THOUGHT), make))
    talk: list[Message] = [ASKED, {"role": "assistant", "content": "3"}, ASKED, {"role": "assistant", "content": "Yes"}]
    turns = given(chat, talk[1:])
    assert [chat.reply_text(turn.action).split() for turn in turns] == [
        ["<think>", "</think>", word] for word in ("3", "Yes")
    ]
    joined = [token for turn in turns[-1].context() for token in (*turn.observation, *turn.action)]
    whole = chat.tokenizer(chat.tokenizer.apply_chat_template(talk, tokenize=False), add_special_tokens=False)
    assert joined == whole["input_ids"][: len(joined)]


def test_an_answer_right_behind_an_answer_has_an_opening_of_its_own() -> None:
    chat = Chat(zoo.tokenizer(replace(zoo.SHAPES["qwen3"], template=EMPTY_THOUGHT), "characters"))
    turns = given(chat, [{"role": "assistant", "content": word} for word in ("No", "Yes")])
    joined = [token for turn in turns[-1].context() for token in (*turn.observation, *turn.action)]
    said = ["<|im_start|>assistant\n<think>\n\n</think>\n\n" + word for word in ("No", "Yes")]
    assert chat.render(joined) == f"<|im_start|>user\n1+2?<|im_end|>\n{said[0]}<|im_end|>\n{said[1]}<|im_end|>"


def test_a_thought_behind_an_opening_that_closed_its_own_is_refused() -> None:
    """It would be lost in silence: the answer that is learnt goes on behind the empty thought."""
    template = zoo.SHAPES["qwen3 without thinking"].template.replace(
        "{%- set said = m.content or '' -%}",
        "{%- set said = ('<think>' + m.reasoning_content + '</think>' if m.reasoning_content else '') + m.content -%}",
    )
    chat = Chat(zoo.tokenizer(replace(zoo.SHAPES["qwen3 without thinking"], template=template), "characters"))
    with pytest.raises(ConfigurationError, match="does not show the reasoning_content"):
        chat.demonstration({"role": "assistant", "content": "Yes", "reasoning_content": "b"}, [ASKED])


CALLS_ALONE = zoo.CALLS.replace("{%- for", "{%- if m.tool_calls -%}{%- for", 1)


@pytest.mark.parametrize(
    ("said", "template", "words"),
    [
        ({"content": "a", "tool_calls": CALL}, zoo.SHAPES["phi-4-mini"].template, "does not show the tool_calls"),
        ({"content": "a", "tool_calls": [*CALL, *CALL]}, "first", "does not show the tool_calls"),
        ({"content": "Words.", "tool_calls": CALL}, "alone", r"does not show what the assistant says \('Words.'\)"),
        (
            {"content": "a", "reasoning_content": "b"},
            zoo.SHAPES["chatml"].template,
            "does not show the reasoning_content",
        ),
        (
            {"content": "Yes"},
            zoo.SHAPES["chatml"].template.replace("m.content or", "m.content | replace('Yes', 'No') or"),
            "does not show what",
        ),
    ],
)
def test_what_a_template_hides_is_refused(said: dict[str, Any], template: str, words: str) -> None:
    shape = zoo.SHAPES["phi-4-mini" if "'<|' +" in template else "chatml"]
    if template == "first":
        template = shape.template.replace("m.tool_calls or []", "(m.tool_calls or [])[:1]")
    if template == "alone":
        template = shape.template.replace("(m.content or '')", "('' if m.tool_calls else m.content)")
    with pytest.raises(ConfigurationError, match=words):
        given(Chat(zoo.tokenizer(replace(shape, template=template), "characters")), [{"role": "assistant", **said}])


def test_half_a_character_is_refused_and_a_role_is_a_word() -> None:
    chat = chat_of("chatml")
    with pytest.raises(HocketError, match=r"holds '\\ud83d' at character 5, half of a surrogate pair"):
        chat.opening([{"role": "user", "content": "half \ud83d"}])
    with pytest.raises(ConfigurationError, match="has the role 'user<|im_end|>'".replace("|", r"\|")):
        chat.opening([{"role": "user<|im_end|>", "content": "a"}])


def test_what_a_template_cannot_take_is_a_sentence() -> None:
    chat = chat_of("mistral")
    with pytest.raises(ConfigurationError, match="refuses messages with the roles user, assistant"):
        chat.demonstration({"role": "assistant", "content": None}, [ASKED])


# ---------------------------------------------------------------- thoughts


SAID = "2 and 5 make 7\n</think>\n<answer>7</answer>"


@pytest.mark.parametrize("name", ["qwq", "deepseek-r1"])
@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("<think>\n2 and 5\n</think>\n\nYes", "2 and 5\n</think>\n\nYes"),
        ("2 and 5\n</think>\n\nYes", "2 and 5\n</think>\n\nYes"),
        ("Yes", "\n</think>\n\nYes"),
    ],
)
def test_a_thought_that_the_prompt_opens_is_gone_on_with(name: str, text: str, due: str) -> None:
    chat = chat_of(name)
    opening, learnt = chat.opening([ASKED]), chat.demonstration(text, [ASKED])
    assert chat.render(opening).endswith("<think>\n")
    assert chat.render(learnt[:-1]) == due
    assert named(chat, learnt).count("</think>") == 1
    assert chat.reply_text(learnt, opening) == "<think>\n" + due


@pytest.mark.parametrize("name", ["qwen3", "deepseek-v3", "magistral"])
def test_thoughts_of_demonstrations_are_the_tokenizers_tokens(name: str) -> None:
    """Also where the template would drop them from a finished answer, and where they are special tokens."""
    chat = Chat(zoo.tokenizer(replace(zoo.SHAPES[name], tags=(*zoo.SHAPES[name].tags, *zoo.THINK)), "characters"))
    if name == "magistral":
        assert named(chat, chat.demonstration("[THINK]a[/THINK]Yes"))[:3] == ["[THINK]", "a", "[/THINK]"]
        return
    learnt = named(chat, chat.demonstration("<think>\na\n</think>\n\nYes"))
    assert learnt.index("<think>") < learnt.index("</think>") < learnt.index("Yes")
    assert "".join(learnt[:-1]) == "<think>\na\n</think>\n\nYes"


def test_rewards_of_form_see_the_thought_that_the_prompt_opened() -> None:
    chat = chat_of("deepseek-r1")
    scenario = Scenario("s", "2+5?")
    whole, cut = rehearse(SingleTurn(), scenario, [SAID, Cut("so <answer>7</answer>")], samples=2, chat=chat)
    assert whole.text == "<think>\n" + SAID
    assert TagFormat(thought="filled").mark(whole.text) == 1
    # A thought that was never closed is no answer, whatever stands in it.
    assert TagFormat(thought="optional").mark(cut.text) == 0


def test_a_text_alone_that_closes_a_thought_began_inside_one() -> None:
    assert [TagFormat().mark(text) for text in (SAID, f"<think>{SAID}", f"a</think>{SAID}", "7", "</think>7")] == [
        1, 1, 0, 0, 0,
    ]  # fmt: skip
    assert has_thought(SAID)
    assert not has_thought("\n</think>\n7")
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    known = [
        (f"I could {call} but no\n</think>\n7", 0, None),
        (f"so\n</think>\n{call}", 1, len("so\n</think>\n")),
        (f"{call} and </think>{call}", 1, len(f"{call} and </think>")),
        (f"<think>{call}</think>{call}<think>{call}", 1, len(f"<think>{call}</think>")),
        ('<tool_call>{"name": "f", "arguments": {"a": "<think>"}}</tool_call>', 1, 0),
    ]
    for text, count, place in known:
        assert (len(read_calls(text)), first_call(text)) == (count, place)


@pytest.mark.parametrize("finish", ["closed", "open", "cut"])
def test_a_call_inside_the_thought_is_none(finish: str) -> None:
    inside = 'I could <tool_call>{"name": "calculator", "arguments": {"expression": "1"}}</tool_call> but'
    reply = {"closed": f"{inside} no\n</think>\n7", "open": inside, "cut": Cut(inside)}[finish]
    part = Part(reply)
    (played,) = rehearse(ToolUse((Calculator(),)), Scenario("s", "1?"), part, chat=chat_of("deepseek-r1"))
    assert len(played.turns) == 1
    assert played.info.get("tool_calls", 0) == 0


def test_a_call_behind_the_thought_is_made_and_the_conversation_goes_on() -> None:
    chat = chat_of("qwq")
    call = '<tool_call>{"name": "calculator", "arguments": {"expression": "1+2"}}</tool_call>'
    (played,) = rehearse(
        ToolUse((Calculator(),), listed=False),
        Scenario("s", "1?"),
        Part(f"so\n</think>\n{call}", "a\n</think>\n3"),
        chat=chat,
    )
    assert [turn.text[:8] for turn in played.turns] == ["<think>\n"] * 2
    assert "3" in chat.render(played.turns[1].observation)


KEEPS = zoo.SHAPES["qwq"].template.replace("(m.content or '').split('</think>')[-1]", "(m.content or '')")


def test_a_template_that_keeps_thoughts_grows_by_concatenation() -> None:
    chat = Chat(zoo.tokenizer(replace(zoo.SHAPES["qwq"], template=KEEPS), "characters"))
    opening = chat.opening([ASKED])
    response = [*chat.encode("a\n</think>\n\nYes"), chat.end_of_turn]
    said = {"role": "assistant", "content": chat.reply_text(response, opening)}
    new: list[Message] = [{"role": "user", "content": "Why?"}]
    grown = chat.grown([ASKED], response, new, answer=said)
    assert grown is not None
    whole = chat.tokenizer.apply_chat_template([ASKED, said, *new], add_generation_prompt=True, tokenize=False)
    assert chat.render([*opening, *response, *grown]) == whole
    # One that drops them shows the past otherwise.
    dropping = chat_of("qwq")
    assert dropping.grown([ASKED], response, new, answer=said) is None


# ---------------------------------------------------------------- rows of files


@pytest.mark.parametrize("nothing", [{"content": ""}, {"content": None}, {}])
def test_a_row_whose_calls_have_no_words_is_learnt(nothing: dict[str, Any]) -> None:
    """As the APIs of servers write them, and tables whose null is no cell."""
    from hocket.tasks.data import from_rows

    talk = [ASKED, {"role": "assistant", **nothing, "tool_calls": CALL}, *TALK[2:]]
    other = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    asked = from_rows({"train": [{"messages": talk}], "test": [{"messages": other}]})
    chat = chat_of("qwen2.5")
    turns = given(chat, asked.scenario("train", 0).metadata["demonstration"])
    assert '"name": "calculator"' in turns[0].text
    assert turns[1].text == "Yes, 3."
    assert len(turns[1].context()) == 2


@pytest.mark.parametrize("words", ["Let me see.", ""])
def test_a_call_in_the_only_answer_of_a_row_stays(tmp_path: Any, words: str) -> None:
    """As one conversation, and as the better and the worse of two."""
    import json

    from hocket.tasks import find

    called, plain = {"role": "assistant", "content": words, "tool_calls": CALL}, {"role": "assistant", "content": "No."}
    rows = [{"messages": [ASKED, called]}, {"chosen": [ASKED, called], "rejected": [ASKED, plain]}]
    for number, row in enumerate(rows):
        file = tmp_path / f"{number}.jsonl"
        other = json.loads(json.dumps(row).replace("1+2?", "2+2?"))
        file.write_text(json.dumps({**row, "split": "train"}) + "\n" + json.dumps({**other, "split": "eval"}) + "\n")
        known = find(str(file)).scenario("train", 0).metadata
        assert tuple(known["chosen" if number else "demonstration"]) == (called,)
        if number:
            assert known["rejected"] == "No."
    (turn,) = given(chat_of("qwen2.5"), known["chosen"], pair=True)
    assert '"name": "calculator"' in turn.text
