"""What a run makes of a chat template: variables that are set in it, and a date that stays."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.nano.tokenizer import CHAT_TEMPLATE, build_tokenizer
from hocket.policies.templates import TemplateSettings

DATED = (
    "{{- '<|system|>' + (date_string or strftime_now('%d %b %Y')) + strftime_now(\"/%H\") + '<|end|>' -}}"
    + CHAT_TEMPLATE
)
THINKING = (
    CHAT_TEMPLATE.rstrip()
    + "{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think></think>' -}}{%- endif -%}"
)
ASKED = [{"role": "user", "content": "q"}]


def shown(template: str, variables: dict[str, Any] | None = None, day: str | None = None) -> str:
    tokenizer = build_tokenizer()
    tokenizer.chat_template = TemplateSettings.of(None, variables or {}, day).written(template)
    chat = Chat(tokenizer)
    return chat.render(chat.opening(ASKED))


def test_a_date_stays_that_of_the_day() -> None:
    assert shown(DATED, day="2024-02-29").startswith("<|system|>29 Feb 2024/00<|end|>")
    assert shown(DATED).startswith(f"<|system|>{datetime.date.today():%d %b %Y}/")
    assert shown(CHAT_TEMPLATE, day="2024-02-29") == "<|user|>q<|end|><|assistant|>"
    assert TemplateSettings.of(None, {}, "2024-02-29").written(CHAT_TEMPLATE) == CHAT_TEMPLATE


@pytest.mark.parametrize(
    ("written", "due"),
    [
        ("strftime_now(format='%Y-%m-%d')", "2024-02-29"),
        ("strftime_now(own)", "29 February, 060"),
        ("strftime_now('%d ' + '%B')", "29 February"),
        ("strftime_now('%-m/%e %A 100%%d')", "2/29 Thursday 100%d"),
        ("((strftime_now('%Y') | int) + 1)", "2025"),
        ("strftime_now('%B').upper()", "FEBRUARY"),
        ("today('%y')", "24"),
        ("(strftime_now('%d') if strftime_now is defined else 'no')", "29"),
    ],
)
def test_a_date_stays_however_its_format_is_come_by(written: str, due: str) -> None:
    template = "{%- set own = '%d %B, %j' -%}{%- set today = strftime_now -%}"
    template += f"{{{{- '<|system|>' ~ {written} ~ '<|end|>' -}}}}{CHAT_TEMPLATE}"
    assert shown(template, day="2024-02-29").startswith(f"<|system|>{due}<|end|>")


def test_a_format_may_be_a_variable() -> None:
    template = f"{{{{- '<|system|>' ~ strftime_now(style) ~ '<|end|>' -}}}}{CHAT_TEMPLATE}"
    assert shown(template, {"style": "%d.%m."}, "2024-02-29").startswith("<|system|>29.02.<|end|>")


def test_variables_are_set_for_good() -> None:
    assert shown(THINKING).endswith("<|assistant|>")
    assert shown(THINKING, {"enable_thinking": False}).endswith("<|assistant|><think></think>")
    assert shown(DATED, {"date_string": 'It\'s "now"\\'}).startswith('<|system|>It\'s "now"\\/')


def test_a_later_run_from_the_saved_tokenizer_sets_its_own() -> None:
    first = TemplateSettings.of(None, {"enable_thinking": False}, "2024-02-29").written(
        DATED + THINKING.removeprefix(CHAT_TEMPLATE.rstrip())
    )
    second = TemplateSettings.of(None, {"enable_thinking": True}, "2025-03-01").written(first)
    tokenizer = build_tokenizer()
    tokenizer.chat_template = second
    text = Chat(tokenizer).sealed(ASKED)
    assert "01 Mar 2025" in text
    assert "<think>" not in text


@pytest.mark.parametrize("value", [True, None, 3, -0.5, "a'b\\n", ["x", {"y": 1}], {"k": [1, None]}])
def test_values_come_through_the_template_language(value: Any) -> None:
    written = TemplateSettings.of(None, {"x": value}, None).written("{{ x | pprint }}")
    assert Environment().from_string(written).render() == Environment().from_string("{{ x | pprint }}").render(x=value)


def test_a_variable_that_the_template_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"chat\.enable_thinkin: the chat template has no such variable"):
        shown(THINKING, {"enable_thinkin": False})
    lenient = TemplateSettings.of(None, {"enable_thinkin": False}, None).lenient
    assert lenient.written(THINKING) == THINKING


def test_each_of_several_templates_has_them() -> None:
    both = TemplateSettings.of(None, {"enable_thinking": False}, None).written({"default": THINKING, "tool_use": "x"})
    assert both["tool_use"] == "x"
    assert "set enable_thinking = False" in both["default"]


# ---------------------------------------------------------------- in a run


def configured(*pairs: tuple[str, Any]) -> Any:
    from hocket.tasks import find
    from hocket.train.config import configure

    return configure([("task", "sums"), *pairs], find("sums"))


def test_flags_name_variables() -> None:
    from hocket.tasks import find
    from hocket.train.config import loaded

    config = configured(
        ("chat.enable_thinking", False), ("chat.date_string", datetime.date(2024, 7, 26)), ("date", "2024-02-29")
    )
    assert config.chat == {"enable_thinking": False, "date_string": "2024-07-26"}
    assert loaded(config.plain(), find("sums")) == config
    assert configured(("chat", {"a": 1})).chat == {"a": 1}
    with pytest.raises(ConfigurationError, match=r"write --chat\.VARIABLE VALUE"):
        configured(("chat", False))
    with pytest.raises(ConfigurationError, match="date = 'today': write a day as YYYY-MM-DD"):
        configured(("date", "today"))


def test_a_resumed_run_has_the_day_on_which_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hocket.train import trainer

    template = tmp_path / "dated.jinja"
    template.write_text(DATED.replace("date_string or ", ""))

    class Day(datetime.date):
        now = datetime.date(2024, 2, 29)

        @classmethod
        def today(cls) -> datetime.date:  # type: ignore[override]
            return cls.now

    monkeypatch.setattr(datetime, "date", Day)
    config = configured(
        ("steps", 0), ("runs", str(tmp_path)), ("run", "a"), ("chat_template", str(template)), ("threads", 1)
    )
    first = trainer.Trainer(config)
    first.run()
    Day.now = datetime.date(2024, 3, 1)
    for made in (first, trainer.resumed(tmp_path / "a", steps=1)):
        chat = next(iter(made.parts.player.actors.values())).chat  # type: ignore[attr-defined]
        assert "29 Feb 2024" in chat.render(chat.opening(ASKED))
        assert made.config.date == "2024-02-29"
