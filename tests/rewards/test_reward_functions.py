"""TRL-style functions as rewards: what they are given, and what happens when they misbehave."""

from __future__ import annotations

import asyncio
import functools
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.components import from_plain, to_plain
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rewards.functions import FunctionReward, load_reward, load_rewards
from hocket.rewards.novelty import Novelty
from hocket.rewards.opinions import Opinions, RewardError, opinions_of
from hocket.types import Scenario, Trajectory, Turn

CHAT = ({"role": "system", "content": "s"}, {"role": "user", "content": "q"})


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[FunctionReward.__module__], "_PAUSE", 0.0)


def said(text: str, prompt: Any = "q", answer: Any = None, **columns: Any) -> Trajectory:
    turn = Turn("a", "p", np.zeros(1, int), np.arange(len(text)), text=text)
    return Trajectory(Scenario(f"id:{text}", prompt, answer, columns), [turn])


THREE = [said("a", answer=1, topic="x"), said("bb", answer=2, topic="y"), said("ccc", answer=3)]


def judged(reward: FunctionReward, trajectories: Sequence[Trajectory] = THREE) -> Opinions:
    return asyncio.run(reward(trajectories, key=Key.of(0)))


def warmed(function: Callable[..., Any], **settings: Any) -> FunctionReward:
    """A reward whose first call works, so that later failures must not stop the run."""
    calls = []

    @functools.wraps(function)
    def after_one(completions: list[str], **columns: Any) -> Any:
        calls.append(1)
        return [0.0] * len(completions) if len(calls) == 1 else function(completions)

    reward = FunctionReward(after_one, **settings)
    assert judged(reward) == [0.0] * 3
    return reward


# ---------------------------------------------------------------- what a function is given


def test_everything_with_star_columns() -> None:
    seen: dict[str, Any] = {}

    def score(prompts: Any, completions: Any, completion_ids: Any, **columns: Any) -> list[float]:
        seen.update(prompts=prompts, completions=completions, ids=completion_ids, **columns)
        return [1.0, 2.0, 3.0]

    assert judged(FunctionReward(score)) == [1.0, 2.0, 3.0]
    assert seen == {
        "prompts": ["q", "q", "q"],
        "completions": ["a", "bb", "ccc"],
        "ids": [[0], [0, 1], [0, 1, 2]],
        "answer": [1, 2, 3],
        "id": ["id:a", "id:bb", "id:ccc"],
        "topic": ["x", "y", None],
    }


def test_only_what_is_named() -> None:
    def error(completions: Any, answer: Any) -> list[float]:
        return [len(text) - number for text, number in zip(completions, answer, strict=True)]

    assert judged(FunctionReward(error)) == [0.0] * 3
    assert judged(FunctionReward(lambda trajectories: [t.length for t in trajectories])) == [1.0, 2.0, 3.0]

    def positional(completions: Any, /, topic: Any, scale: float = 2.0) -> list[float]:
        return [scale * (t is None) for t in topic]

    assert judged(FunctionReward(positional)) == [0.0, 0.0, 2.0]


def test_completions_of_a_chat_are_text() -> None:
    seen: list[Any] = []

    def score(prompts: Any, completions: Any) -> list[float]:
        seen.extend([prompts, completions])
        return ["hi" in completion for completion in completions]

    assert judged(FunctionReward(score), [said("say hi", CHAT)]) == [1.0]
    assert seen == [[list(CHAT)], ["say hi"]]


MESSAGES = [{"role": "assistant", "content": "hi"}]


def test_an_annotation_asks_for_messages() -> None:
    seen: list[Any] = []

    def score(completions: list[list[dict[str, str]]]) -> list[float]:
        seen.extend(completions)
        return [0.0] * len(completions)

    judged(FunctionReward(score), [said("hi", CHAT), said("hi", "a prompt that is text")])
    assert seen == [MESSAGES, "hi"]


@pytest.mark.parametrize(
    "read", [lambda c: c[0]["content"], lambda c: c[-1].get("content"), lambda c: "".join(m["content"] for m in c)]
)
def test_a_function_that_reads_messages_gets_them(read: Any) -> None:
    calls: list[Any] = []

    def score(completions):  # type: ignore[no-untyped-def]
        calls.append(completions)
        return [float(read(completion) == "hi") for completion in completions]

    reward = FunctionReward(score)
    with pytest.warns(RuntimeWarning, match="score reads completions as messages"):
        assert judged(reward, [said("hi", CHAT), said("no", CHAT)]) == [1.0, 0.0]
    assert judged(reward, [said("hi", CHAT)]) == [1.0]
    assert len(calls) == 3, "text is tried once"


def test_an_error_of_a_function_of_text_stays_its_own() -> None:
    def score(completions: Any) -> list[float]:
        return [completion.nothing for completion in completions]

    with pytest.raises(RewardError, match="'str' object has no attribute 'nothing'"):
        judged(FunctionReward(score, retries=0), [said("hi", CHAT)])


async def slow_length(completions: list[str]) -> list[float]:
    await asyncio.sleep(0.01)
    return [float(len(c)) for c in completions]


class Judge:
    def __call__(self, completions: list[str]) -> list[float]:
        return [float(len(c)) for c in completions]


class AsyncJudge:
    async def __call__(self, completions: list[str]) -> list[float]:
        return await slow_length(completions)


@pytest.mark.parametrize(
    "function",
    [slow_length, Judge(), AsyncJudge(), functools.partial(slow_length), lambda completions: slow_length(completions)],
)
def test_sync_and_async_functions_and_objects(function: Any) -> None:
    reward = FunctionReward(function)
    assert judged(reward) == [1.0, 2.0, 3.0]
    assert judged(reward) == [1.0, 2.0, 3.0], "a second event loop"


def test_no_trajectories_no_call() -> None:
    assert judged(FunctionReward(lambda: 1 / 0), []) == []


@pytest.mark.parametrize(
    "values",
    [[1, True, None], (1.0, 1, None), [np.float32(1), torch.tensor(1.0), None]],
)
def test_numbers_of_all_kinds(values: Any) -> None:
    assert judged(FunctionReward(lambda completions: values)) == [1.0, 1.0, None]


def test_arrays() -> None:
    assert judged(FunctionReward(lambda completions: np.arange(3))) == [0.0, 1.0, 2.0]
    assert judged(FunctionReward(lambda completions: torch.ones(3))) == [1.0] * 3


# ---------------------------------------------------------------- what a function does wrong

WRONG: list[tuple[Any, str]] = [
    (None, "returned None; return a list with one number per completion (3 here)"),
    (1.0, "returned a float; return a list with one number per completion (3 here)"),
    ("abc", "returned a str; return a list"),
    ({"a": 1}, "returned a dict; return a list"),
    ({1.0, 2.0, 3.0}, "returned a set; return a list"),
    (np.ones((3, 1)), "returned a ndarray; return a list"),
    (torch.ones(()), "returned a Tensor; return a list"),
    ([1.0], "returned 1 values for 3 completions; return one for each"),
    ([1.0] * 4, "returned 4 values for 3 completions; return one for each"),
    ([], "returned 0 values for 3 completions"),
    ([1.0, "2.0", 3.0], "returned the str '2.0' for completion 1; return numbers or None"),
    ([1.0, 2.0, [3.0]], "returned the list [3.0] for completion 2; return numbers or None"),
    ([1j, 2.0, 3.0], "returned the complex 1j for completion 0; return numbers or None"),
    ([object(), 2.0, 3.0], "returned the object <object object at"),
]


@pytest.mark.parametrize(("returned", "sentence"), WRONG)
def test_wrong_returns_stop_a_function_that_never_worked(returned: Any, sentence: str) -> None:
    calls = []

    def score(completions: list[str]) -> Any:
        calls.append(1)
        return returned

    with pytest.raises(RewardError) as caught:
        judged(FunctionReward(score))
    assert sentence in str(caught.value)
    assert "test_reward_functions.py:" in str(caught.value)
    assert "It has never worked, so the run stops" in str(caught.value)
    assert len(calls) == 1, "the same arguments would bring the same value"


@pytest.mark.parametrize(("returned", "sentence"), WRONG)
def test_wrong_returns_later_are_no_opinion(returned: Any, sentence: str) -> None:
    opinions = judged(warmed(lambda completions: returned))
    assert opinions == [None] * 3
    assert sentence in opinions.problems[0]
    assert opinions.feedback == [opinions.problems[0]] * 3


@pytest.mark.parametrize(
    ("bad", "shown"),
    [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf"), (np.float64("nan"), "nan"), (10**400, "inf")],
)
def test_values_that_are_not_finite_are_no_opinion(bad: Any, shown: str) -> None:
    opinions = judged(FunctionReward(lambda completions: [1.0, bad, bad]))
    assert opinions == [1.0, None, None]
    assert f"returned {shown} for completion 1 (and 1 more)" in opinions.problems[0]
    assert "counts as no opinion" in opinions.problems[0]
    assert opinions.feedback == [None, opinions.problems[0], opinions.problems[0]]


def test_a_function_that_always_raises_stops_the_run() -> None:
    calls = []

    def score(completions: list[str]) -> list[float]:
        calls.append(1)
        raise ValueError("boom\nand bust")

    with pytest.raises(RewardError) as caught:
        judged(FunctionReward(score, retries=2))
    assert len(calls) == 3
    assert "score raised ValueError: boom and bust (test_reward_functions.py, line" in str(caught.value)
    assert "(tried 3 times). It has never worked" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_function_that_raises_once_is_asked_again() -> None:
    calls = []

    def score(completions: list[str]) -> list[float]:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("busy")
        return [1.0] * 3

    opinions = judged(FunctionReward(score))
    assert opinions == [1.0] * 3
    assert opinions.problems == ()


ERRORS = [ValueError("boom"), SystemExit(3), KeyboardInterrupt(), StopIteration(), TimeoutError()]


@pytest.mark.parametrize("error", ERRORS)
def test_errors_later_are_no_opinion(error: BaseException) -> None:
    def score(completions: list[str]) -> list[float]:
        raise error

    reward = warmed(score, retries=1)
    opinions = judged(reward)
    assert opinions == [None] * 3
    assert f"score raised {type(error).__name__}" in opinions.problems[0]
    assert "these trajectories have no opinion from it" in opinions.problems[0]


async def raises(completions: list[str]) -> list[float]:
    raise asyncio.CancelledError


def test_async_functions_may_raise_anything() -> None:
    with pytest.raises(RewardError, match="raised CancelledError"):
        judged(FunctionReward(raises))


def hangs(completions: list[str]) -> list[float]:
    time.sleep(5)
    return [0.0]


async def waits(completions: list[str]) -> list[float]:
    await asyncio.sleep(5)
    return [0.0]


async def blocks(completions: list[str]) -> list[float]:
    time.sleep(5)
    return [0.0]


@pytest.mark.parametrize("function", [hangs, waits, blocks])
def test_hanging_functions_are_left_behind(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hocket.rewards.outside_calls._PROBE_SECONDS", 0.1)
    started = time.perf_counter()
    reward = FunctionReward(function, timeout=0.1, retries=1)
    with pytest.raises(RewardError) as caught:
        judged(reward)
    assert "took longer than its timeout of 0.1 s (tried 2 times)" in str(caught.value)
    reward._memory.worked = True
    opinions = judged(reward)
    assert opinions == [None] * 3
    assert "took longer than its timeout of 0.1 s" in opinions.problems[0]
    assert time.perf_counter() - started < 4
    assert judged(FunctionReward(slow_length)) == [1.0, 2.0, 3.0], "others are not blocked"


def test_left_behind_threads_do_not_hold_up_the_end() -> None:
    async def run() -> None:
        with pytest.raises(RewardError):
            await FunctionReward(hangs, timeout=0.05, retries=0)(THREE, key=Key.of(0))

    asyncio.run(run())
    left = [thread for thread in threading.enumerate() if thread.name.startswith("hocket-outside")]
    assert left
    assert all(thread.daemon for thread in left)


def test_the_run_goes_on_while_a_function_blocks() -> None:
    ticks = []

    async def run() -> None:
        async def tick() -> None:
            while True:
                ticks.append(1)
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        await FunctionReward(lambda completions: time.sleep(0.3) or [0.0] * 3)(THREE, key=Key.of(0))
        ticking.cancel()

    asyncio.run(run())
    assert len(ticks) > 5


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda texts: [1.0], "asks for 'texts', which this task does not give; choose from answer, completion_ids"),
        (lambda completion: [1.0], "asks for 'completion', which this task does not give; did you mean 'completions'?"),
    ],
)
def test_columns_that_are_not_there(function: Any, sentence: str) -> None:
    with pytest.raises(RewardError) as caught:
        judged(FunctionReward(function))
    assert sentence in str(caught.value)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.floats()), max_size=8))
def test_opinions_are_finite_or_none(values: list[Any]) -> None:
    opinions = opinions_of(values, len(values), "r")
    for given_value, opinion in zip(values, opinions, strict=True):
        if given_value is None or not math.isfinite(given_value):
            assert opinion is None
        else:
            assert opinion == float(given_value)
    assert bool(opinions.problems) == any(v is not None and not math.isfinite(v) for v in values)


# ---------------------------------------------------------------- settings and references


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"weight": math.nan}, "its weight must be a finite number, not nan"),
        ({"timeout": 0}, "timeout must be above 0 seconds (it is 0)"),
        ({"retries": -1}, "retries at least 0 (it is -1)"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        FunctionReward(hangs, **settings)
    assert sentence in str(caught.value)


def test_names() -> None:
    assert FunctionReward(hangs).name == "hangs"
    assert FunctionReward(Judge()).name == "Judge"
    assert FunctionReward(lambda completions: []).name == "reward_function"
    assert FunctionReward(hangs, name="mine").name == "mine"
    with pytest.raises(ConfigurationError, match="is of type int; name a function"):
        FunctionReward(3)  # type: ignore[arg-type]


SOURCE = """
from dataclasses import dataclass
number = 3
def short(completions, **columns):
    return [-float(len(c)) for c in completions]
def fails(completions):
    raise RuntimeError("judge is down")
@dataclass(frozen=True)
class Own:
    name: str = "own"
    weight: float = 0.5
    async def __call__(self, trajectories, *, key):
        return [1.0 for _ in trajectories]
own = Own()
class Needs:
    def __init__(self, url): ...
class Plain:
    name, weight = "plain", 1.0
    async def __call__(self, trajectories, *, key): ...
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "judge.py"
    path.write_text(SOURCE)
    return path


def test_references(file: Path) -> None:
    reward = load_reward(f"{file}:short=0.25")
    assert (reward.name, reward.weight) == ("short", 0.25)
    assert judged(reward) == [-1.0, -2.0, -3.0]  # type: ignore[arg-type]
    assert load_reward(f"{file}:short").weight == 1.0
    assert load_reward(f"{file}:short=-1e-1").weight == -0.1
    assert (load_reward(f"{file}:own").weight, load_reward(f"{file}:Own=2").weight) == (0.5, 2.0)


def test_references_survive_a_configuration(file: Path) -> None:
    reward = FunctionReward(f"{file}:short", weight=0.5, timeout=3.0)
    plain = to_plain(reward)
    assert plain["type"] == "hocket.rewards.FunctionReward"
    assert from_plain(plain) == reward
    assert judged(from_plain(plain)) == [-1.0, -2.0, -3.0]


def test_errors_name_file_and_function(file: Path) -> None:
    with pytest.raises(RewardError) as caught:
        judged(load_reward(f"{file}:fails"))  # type: ignore[arg-type]
    assert f"reward {file}:fails raised RuntimeError: judge is down (judge.py, line 7)" in str(caught.value)


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (":shorrt", "has no 'shorrt'; did you mean 'short'?"),
        (":short=much", "the weight 'much' is no number; write =0.5 or leave it out"),
        (":short=", "the weight '' is no number"),
        (":short=nan", "the weight 'nan' is no number"),
        (":number", "is of type int; name a function"),
        (":Needs", "is a class that needs arguments"),
        (":Plain=2", "is an object with a weight of its own"),
        ("", "write FILE.py:FUNCTION or FILE.py:FUNCTION=WEIGHT"),
        (":", "write FILE.py:FUNCTION or FILE.py:FUNCTION=WEIGHT"),
    ],
)
def test_wrong_references_get_a_sentence(file: Path, end: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_reward(f"{file}{end}")
    assert sentence in str(caught.value)


def test_rewards_of_the_library_go_by_their_room() -> None:
    assert load_reward("hocket.rewards.Novelty=0.1") == Novelty(weight=0.1)
    with pytest.raises(ConfigurationError, match=r"hocket\.rewards has no 'Novelti'; did you mean 'Novelty'"):
        load_reward("hocket.rewards.Novelti")


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no file"):
        load_reward(f"{tmp_path}/none.py:f")
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    with pytest.raises(ConfigurationError, match=r"broken\.py cannot be run: SyntaxError"):
        load_reward(f"{broken}:f")


def test_same_names_get_their_file_in_front(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(SOURCE)
    names = [reward.name for reward in load_rewards([f"{file}:short", f"{other}:short=2", f"{file}:own"])]
    assert names == ["judge.short", "other.short", "own"]
    with pytest.raises(ConfigurationError, match=r"two rewards are called 'judge.short'"):
        load_rewards([f"{file}:short", f"{file}:short=2"])
