"""Rows that the model cannot be shown are refused before the first step, with their place."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_runs import call

from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.debate import DebateVote
from hocket.agents.workflows.player import TextPlayer
from hocket.agents.workflows.single import SingleTurn
from hocket.agents.workflows.team import Actor
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.nano import BASE
from hocket.nano.tokenizer import build_tokenizer
from hocket.policies.causal_lm import CausalLM
from hocket.policies.loading import check_tokens
from hocket.policies.scorer import Scorer
from hocket.recipes import find
from hocket.rewards.functions import FunctionReward
from hocket.tasks.data import from_rows
from hocket.train import rows
from hocket.train.rows import check_rows
from hocket.types import Scenario

NO_SYSTEM = (
    "{%- if messages[0].role == 'system' -%}{{- raise_exception('System role not supported') -}}{%- endif -%}"
    "{%- for m in messages -%}{%- if loop.index0 > 0 and m.role == messages[loop.index0 - 1].role -%}"
    "{{- raise_exception('Roles must alternate') -}}{%- endif -%}"
    "{%- if 'forbidden' in m.content -%}{{- raise_exception('Not that word') -}}{%- endif -%}{%- endfor -%}"
)
USER, SAID = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
SYSTEM = {"role": "system", "content": "Be kind."}
KNOWN = 122


def parts_of(data: Any, workflow: Any = None, context: int | None = 60, known: int = KNOWN, **more: Any) -> Any:
    """What of a run is looked at, with a template that refuses much."""
    tokenizer = build_tokenizer()
    tokenizer.chat_template = NO_SYSTEM + str(tokenizer.chat_template)
    flow = workflow or SingleTurn()
    actor = Actor("policy", engine=SimpleNamespace(context_length=context), chat=Chat(tokenizer))
    player = TextPlayer(flow, dict.fromkeys(flow.roles, actor))
    model = SimpleNamespace(get_input_embeddings=lambda: SimpleNamespace(num_embeddings=known))
    learners = {"policy": SimpleNamespace(policy=SimpleNamespace(model=model))}
    given = {"rewards_by_phase": [()], "key": Key.of(0), **more}
    return SimpleNamespace(player=player, task=data, learners=learners, **given)


def config_of(recipe: str) -> Any:
    return SimpleNamespace(phases=[(find(recipe), 1)])


def plain(count: int) -> list[dict[str, Any]]:
    return [{"prompt": f"say {n}", "split": "train" if n else "eval"} for n in range(count)]


FORMS: dict[str, tuple[str, Any]] = {
    "text": ("grpo", lambda asked, said: {"prompt": asked}),
    "demonstrations": ("sft", lambda asked, said: {"prompt": asked, "completion": said}),
    "conversations": ("sft", lambda asked, said: {"messages": [*messages(asked), *messages(said, "assistant")]}),
    "pairs": ("dpo", lambda asked, said: {"prompt": asked, "chosen": said, "rejected": "b"}),
    "pairs, rejected": ("dpo", lambda asked, said: {"prompt": asked, "chosen": "b", "rejected": said}),
    "labelled": ("kto", lambda asked, said: {"prompt": asked, "completion": said, "label": True}),
    "ranked": ("lipo", lambda asked, said: {"prompt": asked, "responses": ["b", said]}),
    "steps": ("process-reward", lambda asked, said: {"prompt": asked, "steps": [said, "so"], "labels": [True, False]}),
}


def messages(said: Any, role: str = "user") -> list[dict[str, Any]]:
    return [{"role": role, "content": said}] if isinstance(said, str) else said


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "system": ([SYSTEM, USER], "a", "System role not supported"),
    "alternation": ([USER, USER], "a", "Roles must alternate"),
    "a word": ("a forbidden word", "a", "Not that word"),
    "too long": ("x" * 80, "a", "tokens"),
    "an unknown token": ("Results:\n", "a", "writes it with the token 121, and the model knows 121"),
    "a response": ("q", "a forbidden word", "Not that word"),
    "too long a response": ("q", "x" * 80, "tokens"),
}


@pytest.mark.parametrize("split", ["train", "eval"])
@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_cannot_be_shown_is_refused_with_its_place(form: str, case: str, split: str) -> None:
    recipe, made = FORMS[form]
    asked, said, words = REFUSED[case]
    fine = [{**made(f"q{n}", f"a{n}"), "split": "train" if n else "eval"} for n in range(3)]
    if form == "labelled":
        fine.append({**fine[1], "prompt": "z", "label": False})
    known = 121 if case == "an unknown token" else KNOWN
    assert check_rows(config_of(recipe), parts_of(from_rows(fine))) == []
    if form == "text" and "response" in case:
        return
    data = from_rows([*fine, {**made(asked, said), "split": split}])
    with pytest.raises(ConfigurationError, match=rf"^data\[{len(fine)}\]: .*{words}"):
        check_rows(config_of(recipe), parts_of(data, known=known))


def test_tools_that_cannot_be_shown_are_refused() -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"properties": 3}}}]
    data = from_rows([*plain(3), {"prompt": "q", "split": "train", "tools": tools}])
    with pytest.raises(ConfigurationError, match=r"^data\[3\]: .* 'int' object is not iterable"):
        check_rows(config_of("grpo"), parts_of(data))


def test_a_workflow_that_puts_prompts_in_words_of_its_own_is_not_held_to_them() -> None:
    class Rephrased(SingleTurn):
        opens = False

    data = from_rows([*plain(3), {"prompt": [SYSTEM, USER], "split": "train"}])
    assert check_rows(config_of("grpo"), parts_of(data, Rephrased())) == []
    assert check_rows(config_of("grpo"), parts_of(data, DebateVote())) == []


def test_of_many_rows_some_are_looked_at_and_all_of_another_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LOOKED", 10)
    looked: list[str] = []
    check = TextPlayer.check

    def watched(self: TextPlayer, scenario: Scenario, **more: Any) -> int:
        looked.append(scenario.id)
        return check(self, scenario, **more)

    monkeypatch.setattr(TextPlayer, "check", watched)
    (said,) = check_rows(config_of("grpo"), parts_of(from_rows(plain(100)), context=200))
    assert said.startswith("10 of the 100 rows of data were shown to the chat template beforehand")
    assert looked == [f"data:{n}" for n in range(0, 100, 10)]
    for odd in ({"prompt": [SYSTEM, USER]}, {"prompt": "x" * 300}):
        with pytest.raises(ConfigurationError, match=r"^data\[57\]"):
            check_rows(config_of("grpo"), parts_of(from_rows([*plain(57), odd, *plain(90)[58:]]), context=200))


class Own:
    """A user's own task."""

    name, kind = "own", "text"

    def size(self, split: str) -> int | None:
        return 3 if split == "train" else None

    def scenario(self, split: str, number: int) -> Scenario:
        return Scenario(f"{split}{number}", (USER,) if number < 2 else (SYSTEM, USER))


def test_scenarios_of_a_users_own_task_are_looked_at() -> None:
    with pytest.raises(ConfigurationError, match=r"^task own, train scenario 2: the chat template of"):
        check_rows(config_of("grpo"), parts_of(Own()))


# ---------------------------------------------------------------- what reward functions ask for


def wants(completions: list[str], tests: Any, **columns: Any) -> list[float]:
    return [0.0 for _ in completions]


def may_want(completions: list[str], tests: Any = None) -> list[float]:
    return [0.0 for _ in completions]


def test_columns_that_a_reward_asks_for_and_rows_lack() -> None:
    paid: dict[str, Any] = {"rewards_by_phase": [(FunctionReward(wants),)]}
    with pytest.raises(
        ConfigurationError, match=r"reward test_rows\.py:wants asks for 'tests', which no row of data has"
    ):
        check_rows(config_of("grpo"), parts_of(from_rows(plain(3)), **paid))
    some = from_rows([*plain(3), {"prompt": "q", "tests": 1, "split": "train"}])
    (said,) = check_rows(config_of("grpo"), parts_of(some, **paid))
    assert said == "tests is empty in 3 of 4 rows, as in data[0]; reward functions get None there"
    everything = from_rows([{**row, "tests": 1} for row in plain(3)])
    assert check_rows(config_of("grpo"), parts_of(everything, **paid)) == []
    optional: dict[str, Any] = {"rewards_by_phase": [(FunctionReward(may_want),)]}
    assert check_rows(config_of("grpo"), parts_of(from_rows(plain(3)), **optional)) == []


def test_a_column_that_the_curriculum_adds_is_not_missing() -> None:
    def of_format(completions: list[str], format: str) -> list[float]:
        return [0.0 for _ in completions]

    paid: dict[str, Any] = {"rewards_by_phase": [(FunctionReward(of_format),)]}
    assert check_rows(config_of("curr-reft"), parts_of(from_rows(plain(3)), **paid)) == []


# ---------------------------------------------------------------- tokenizers


@pytest.mark.parametrize(
    ("known", "added", "special", "words"),
    [
        (122, [], False, None),
        (92, [], False, "writes 'm' as token 92, and the model knows 92 tokens"),
        (122, ["<new>"], False, "writes '<new>' as token 122, and the model knows 122 tokens"),
        (122, ["<new>"], True, None),
        (123, ["<new>"], False, None),
    ],
)
def test_a_tokenizer_of_a_larger_model_is_refused(
    known: int, added: list[str], special: bool, words: str | None
) -> None:
    tokenizer: Any = build_tokenizer()
    tokenizer.add_tokens(added, special_tokens=special)
    config = SimpleNamespace(vocab_size=known)
    if words is None:
        check_tokens(config, tokenizer, "there")
        tokenizer.chat_template += "{{- '<new>' -}}"
        if len(tokenizer) <= known:
            return check_tokens(config, tokenizer, "there")
        words = "writes '<new>' as token 122"  # Whatever it is, the template writes it.
    with pytest.raises(ConfigurationError, match=words):
        check_tokens(config, tokenizer, "there")
    return None


def test_a_model_is_read_with_its_own_tokenizer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer: Any = build_tokenizer()
    tokenizer.add_tokens(["more"])
    for room, reader in (("causal_lm", CausalLM.from_pretrained), ("scorer", Scorer.from_pretrained)):
        monkeypatch.setattr(f"hocket.policies.{room}.read_tokenizer", lambda *where: tokenizer)
        with pytest.raises(ConfigurationError, match="writes 'more' as token 122"):
            reader(BASE, key=Key.of(0))


# ---------------------------------------------------------------- whole runs

REWARDS = """
def huge(completions, **columns):
    return [1e308 * (-1) ** sum(map(ord, text)) for text in completions]

def huger(completions, **columns):
    return [1.7e308 for text in completions]
"""
TINY = ["--evaluation.n", "2", "--curriculum.prompts", "2", "--threads", "1", "--decoding.max_tokens", "4", "--quiet"]
TINY += ["--rollout.samples", "2"]


def test_nothing_is_sampled_before_all_rows_were_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled(*arguments: object, **keywords: object) -> None:
        raise AssertionError("something was sampled")

    monkeypatch.setattr("hocket.agents.workflows.player.TextPlayer.play", sampled)
    (tmp_path / "r.py").write_text(REWARDS)
    template = NO_SYSTEM + str(build_tokenizer().chat_template)
    (tmp_path / "t.jinja").write_text(template)
    data = tmp_path / "d.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in [*plain(4), {"prompt": [SYSTEM, USER], "split": "eval"}]))
    more = ["--task", data, "--reward", f"{tmp_path}/r.py:huge", "--chat_template", tmp_path / "t.jinja"]
    said = call("train", *TINY, *more, "--runs", tmp_path / "runs")
    assert said.code == 2
    assert f"{data}, line 5: the chat template of" in said.err.strip().splitlines()[-1]
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.parametrize("recipe", ["grpo", "dapo"])
def test_huge_rewards_end_no_run(tmp_path: Path, recipe: str) -> None:
    (tmp_path / "r.py").write_text(REWARDS)
    data = tmp_path / "d.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in plain(4)))
    more = ["--task", data, "--reward", f"{tmp_path}/r.py:huge", "--reward", f"{tmp_path}/r.py:huger", "--steps", "1"]
    said = call("train", *TINY, *more, "--runs", tmp_path / "runs", "--run", "a", "--recipe", recipe)
    assert said.code == 0, said.err
    folder = tmp_path / "runs" / "a"
    assert "larger than advantages can hold (3.4e+38)" in (folder / "messages.txt").read_text()
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert call("report", folder).code == 0
