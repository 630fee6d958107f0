"""Chat templates that go on without end, or grow so, are refused in a sentence; all others are rendered as ever."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from hocket.agents.workflows import rendering
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.rendering import Endless, within_bounds
from hocket.core.errors import ConfigurationError
from hocket.nano.tokenizer import build_tokenizer

LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
RECURSION = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}"
WRITING = "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxx{% endfor %}{% endfor %}"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "SECONDS", 0.5)


def chat_with(before: str) -> Chat:
    tokenizer = build_tokenizer()
    tokenizer.chat_template = before + str(tokenizer.chat_template)
    return Chat(tokenizer)


@pytest.mark.parametrize("template", [LOOP, RECURSION, WRITING])
def test_a_template_without_end_is_refused_in_time(template: str) -> None:
    before = time.thread_time()
    with pytest.raises(ConfigurationError, match=r"the chat template of .* is refused: it goes on for more than 0.5 s"):
        chat_with(template)
    assert time.thread_time() - before < 5


def test_one_that_is_endless_for_some_words_is_refused_for_these() -> None:
    chat = chat_with(f"{{% if messages[0].content == 'go' %}}{LOOP}{{% endif %}}")
    said = chat.opening([{"role": "user", "content": "stay"}])
    with pytest.raises(Endless, match="goes on"):
        chat.opening([{"role": "user", "content": "go"}])
    chat.forget()
    assert (
        chat.opening([{"role": "user", "content": "stay"}])
        == said
        == Chat(build_tokenizer()).opening([{"role": "user", "content": "stay"}])
    )


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ 9 ** 9 ** 9 ** 9 }}", r"multiplies \(\*\*\)"),
        ("{% set x = messages|length * 7 %}", r"multiplies \(\*\)"),
        ("{{ 'x'|center(3000000000) }}", "holds the number 3000000000"),
    ],
)
def test_steps_that_nothing_can_stop_are_refused_unseen(template: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        chat_with(template)


def test_what_real_templates_write_is_let_through() -> None:
    assert chat_with("{{ ' ' * 4 }}{# a ** b * c 99999999 #}").stops
    assert chat_with("a ** b * 99999999").stops  # Words outside.


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "SECONDS", 60.0)
    monkeypatch.setattr(rendering, "MEMORY", 2**26)
    grow = "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(27) %}{% set n.s = n.s ~ n.s %}{% endfor %}"
    with pytest.raises(Endless, match="takes more than"):
        chat_with(grow + LOOP)


def test_what_is_stopped_in_one_thread_goes_on_in_others() -> None:
    tokenizer, found = build_tokenizer(), []

    def work(seconds: float) -> str:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return "done"

    def run(seconds: float) -> None:
        try:
            found.append(within_bounds(tokenizer, lambda: work(seconds)))
        except Endless:
            found.append("stopped")

    threads = [threading.Thread(target=run, args=(seconds,)) for seconds in (0.01, 3.0, 0.02)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["done", "done", "stopped"]
    assert within_bounds(tokenizer, lambda: "again") == "again"  # Nothing arrives late.


def test_errors_of_a_template_are_its_own() -> None:
    with pytest.raises(ConfigurationError, match="refuses messages with the roles"):
        chat_with("{{ raise_exception('no') }}")
    with pytest.raises(ZeroDivisionError):
        within_bounds(build_tokenizer(), lambda: str(1 // 0))


AFTER = """
import cProfile
from hocket.agents.workflows.rendering import _WATCH, _Stop
def endless():
    while True:
        pass
def called(n):
    return n + 1
profile = cProfile.Profile()
for render in (lambda: 1, endless):
    try:
        _WATCH.watched(render)
    except _Stop:
        pass
    profile.enable()
    print(sum(called(n) for n in range(3)))
    profile.disable()
"""


def test_code_that_runs_after_a_rendering_is_not_looked_at_any_more() -> None:
    """An exception that was sent and withdrawn has CPython look for it for ever; under a profiler that hangs."""
    done = subprocess.run([sys.executable, "-c", AFTER], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "6\n6\n"
