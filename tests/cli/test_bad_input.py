"""What a person can get wrong: each is refused with one clear sentence that names the culprit and the mend."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from tiny_runs import TINY, Said, call, rows

from hocket.nano import BASE

_PAIRS = (
    '{"prompt": "a", "chosen": "c", "rejected": "b", "split": "eval"}\n'
    '{"prompt": "x", "chosen": "d", "rejected": "e", "split": "train"}\n'
)

FILES = {
    "empty.jsonl": "",
    "broken.jsonl": '{"prompt": "a", "answer": "b"}\n{"prompt": \n',
    "other.jsonl": '{"question": "a", "answer": "b"}\n',
    "pairs.jsonl": _PAIRS,
    "unanswered.jsonl": '{"prompt": "a"}\n{"prompt": "b"}\n{"prompt": "c"}\n',
    "empty.yaml": "steps: [\n",
    "wrong.yaml": "stepz: 3\n",
    "badplan.yaml": "plan: [{recipe: grpo}]\n",
    "later.yaml": "plan: [{recipe: grpo, steps: 1, reward: ['model:phase:judge']}]\n",
    "noplan.yaml": "plan: [{recipe: gropo, steps: 2}]\n",
    "objective.yaml": "credit: {type: hocket.objectives.ClippedSurrogate}\n",
    "shaping.yaml": "shaping: [{type: hocket.objectives.ClippedSurrogate}]\n",
    "among.yaml": "objective: {type: hocket.objectives.Among, of: {type: hocket.credit.GroupRelative}}\n",
    "greedy.yaml": "credit: {type: hocket.credit.EachAgent, credit: {type: hocket.credit.GreedyBaseline}}\n",
    "raises.py": "def fn(completions, **columns):\n    raise ValueError('judge is closed')\n",
    "scalar.py": "def fn(completions, **columns):\n    return 1.0\n",
    "few.py": "def fn(completions, **columns):\n    return [1.0]\n",
    "words.py": "def fn(completions, **columns):\n    return ['good' for _ in completions]\n",
    "nothing.py": "def fn(completions, **columns):\n    pass\n",
    "column.py": "def fn(completions, anwser):\n    return [1.0 for _ in completions]\n",
    "syntax.py": "def fn(completions:\n",
    "notreward.py": "fn = 3\n",
    "notask.py": "class Mine:\n    name = 'mine'\n",
    "noflow.py": "class Flow:\n    roles = ('policy',)\n",
    "recipe.py": "R = 3\n",
    "broken.gguf": "GGUF and then nothing of the kind",
}

CASES: dict[str, tuple[str, int, str]] = {
    # what was typed after `hocket`: exit code and words of the sentence, in order
    "broken model file": ("train --model broken.gguf", 2, "broken.gguf.*cannot be read.*fetch it again"),
    "no model file": ("train --model none.gguf", 2, "no model file 'none.gguf'"),
    "extraction": ("train --task sums?extract=numbr", 2, "extract.*'numbr'.*'number'"),
    "extraction of a dataset": ("train --task reasoning-gym:chain_sum?extract=tag", 2, "extract.*'tag'.*answer-tag"),
    "command": ("trian", 2, "'trian'.*'train'"),
    "flag of another command": ("recipes --stesp 3", 2, "--stesp.*hocket"),
    "setting": ("train --stepz 3", 2, "'stepz'.*'steps'"),
    "setting of the recipe": ("train --objective.hihg 3", 2, "objective.hihg.*'high'"),
    "setting in a file": ("train wrong.yaml", 2, "'stepz'.*'steps'"),
    "type": ("train --steps many", 2, "steps.*many"),
    "type of a setting": ("train --rollout.samples lots", 2, "rollout.samples.*'lots'"),
    "negative steps": ("train --steps -3", 2, "steps.*-3"),
    "negative rate": ("train --update.lr -1", 2, "lr.*positive"),
    "zero evaluations": ("train --evaluation.n 0", 2, "evaluation.*at least 1"),
    "zero prompts": ("train --curriculum.prompts 0", 2, "prompts.*at least 1"),
    "zero tokens": ("train --decoding.max_tokens 0", 2, "max_tokens.*at least 1"),
    "negative temperature": ("train --decoding.temperature -1", 2, "temperature.*at least 0"),
    "zero threads": ("train --threads 0", 2, "threads.*at least 1"),
    "objective as credit": ("train objective.yaml", 2, "credit: ClippedSurrogate is an objective, not a credit"),
    "objective as shaping": ("train shaping.yaml", 2, "shaping.0: ClippedSurrogate.*not a shaping"),
    "credit in an objective": ("train among.yaml", 2, "objective.of: GroupRelative is a credit, not an objective"),
    "no baseline": ("train greedy.yaml", 2, "GreedyBaseline.*WithGreedyBaseline"),
    "one sample per group": ("train --rollout.samples 1", 2, "rollout.samples.*at least 2"),
    "missing configuration": ("train nofile.yaml", 2, "nofile.yaml"),
    "yaml": ("train empty.yaml", 2, "empty.yaml.*YAML"),
    "phase without steps": ("train badplan.yaml", 2, "plan.0.*steps"),
    "phase that is not there": ("train later.yaml", 2, "phase grpo.*'phase:judge'.*no earlier phase"),
    "recipe of a phase": ("train noplan.yaml", 2, "'gropo'.*'grpo'"),
    "recipe": ("train --recipe grpoo", 2, "'grpoo'.*'grpo'"),
    "recipe to show": ("recipes gspo-tokn", 2, "'gspo-tokn'.*'gspo-token'"),
    "recipe of a file": ("train --recipe recipe.py:R", 2, "recipe.py:R.*int.*Recipe"),
    "task": ("train --task sum", 2, "'sum'.*'sums'"),
    "task to show": ("tasks reasoning-gym:chain_summ", 2, "chain_summ.*chain_sum"),
    "environment": ("train --task gym:CartPol-v1", 2, "CartPol-v1.*CartPole-v1"),
    "data file": ("train --task nofile.jsonl", 2, "no file nofile.jsonl"),
    "empty data": ("train --task empty.jsonl", 2, "empty.jsonl is empty"),
    "broken data": ("train --task broken.jsonl", 2, "broken.jsonl, line 2.*JSON"),
    "data without prompts": ("train --task other.jsonl", 2, 'other.jsonl, line 1.*"prompt"'),
    "data without answers": ("train --task unanswered.jsonl", 2, "unanswered.jsonl.*answer.*--reward"),
    "imitation of pairs": ("train --recipe sft --task pairs.jsonl", 2, "demonstrations.*holds pairs"),
    "truncation": ("train --task pairs.jsonl?truncate=middle", 2, "'middle'.*end, refuse, start"),
    "task object": ("train --task notask.py:Mine", 2, "notask.py:Mine lacks"),
    "model": ("train --model ./nomodel", 2, "'./nomodel'"),
    "model without template": ("train --model notemplate", 2, "notemplate.*chat template.*chat_template"),
    "adapter": ("train --lora.rank 0", 2, "rank"),
    "target of an adapter": ("train --lora.rank 2 --lora.targets [nolayer]", 2, "lora.targets.*nolayer"),
    "reward file": ("train --reward nofile.py:fn", 2, "nofile.py"),
    "reward name": ("train --reward raises.py:fm", 2, "'fm'.*'fn'"),
    "reward form": ("train --reward raises", 2, "FILE.py:FUNCTION"),
    "reward weight": ("train --reward raises.py:fn=much", 2, "weight.*'much'"),
    "reward no function": ("train --reward notreward.py:fn", 2, "notreward.py:fn.*int.*function"),
    "reward syntax": ("train --reward syntax.py:fn", 2, "syntax.py.*SyntaxError"),
    "reward raises": ("train --reward raises.py:fn --evaluation.n 2", 1, "raises.py:fn.*judge is closed.*line 2"),
    "reward returns a number": ("train --reward scalar.py:fn", 1, "scalar.py:fn.*float.*list"),
    "reward returns too few": ("train --reward few.py:fn", 1, "few.py:fn returned 1 values for 8"),
    "reward returns words": ("train --reward words.py:fn", 1, "words.py:fn.*'good'.*numbers"),
    "reward returns nothing": ("train --reward nothing.py:fn", 1, "nothing.py:fn returned None"),
    "reward column": ("train --reward column.py:fn", 1, "'anwser'.*'answer'"),
    "workflow": ("train --workflow noflow.py:Flow", 2, "Flow.*Workflow"),
    "workflow name": ("train --workflow solo", 2, "workflow.*FILE.py:NAME"),
    "role": ("train --roles.worker.frozen true", 2, "roles.worker.*policy"),
    "setting of a role": ("train --roles.policy.frozn true", 2, "frozn.*'frozen'"),
    "everything frozen": ("train --roles.policy.frozen true", 2, "frozen"),
    "run to resume": ("train --resume norun", 2, "norun"),
    "run name": ("train --run a/b", 2, "'a/b'"),
    "report of no run": ("report norun", 2, "norun"),
    "eval of no run": ("eval norun", 2, "norun"),
    "comparison of no run": ("compare norun", 2, "norun"),
    "tracker": ("train --track wandbb", 2, "wandbb.*'wandb'"),
    "model for control": ("train --task gym:CartPole-v1 --model x", 2, "control"),
    "context too short": ("train --model short --task sums", 1, "before training.*context is 8 tokens"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bad")
    for name, text in FILES.items():
        (place / name).write_text(text)
    shutil.copytree(BASE, place / "notemplate", ignore=shutil.ignore_patterns("chat_template.jinja"))
    shutil.copytree(BASE, place / "short")
    config = json.loads((BASE / "config.json").read_text())
    (place / "short" / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 8}))
    return place


def sentences(text: str) -> int:
    return len(re.findall(r"[.!?](?=\s+[A-Z]|\s*$)", text.rstrip(".") + "."))


def typed(line: str) -> Said:
    """What a person typed; a run is kept tiny unless the line says otherwise, as later flags win."""
    words = line.split()
    small = [*TINY, "--steps", "2", "--quiet"] if words[0] == "train" and "--resume" not in words else []
    return call(words[0], *small, *words[1:])


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_in_a_sentence(case: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line, code, words = CASES[case]
    monkeypatch.chdir(folder)
    monkeypatch.setattr("hocket.rewards.functions._PAUSE", 0.001)
    said = typed(line)
    print(said.err)
    message = said.err.strip().splitlines()[-1] if said.err.strip() else ""
    assert said.code == code, said.err
    assert message.startswith("hocket: ")
    assert "Traceback" not in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert re.search(words, message), message
    assert sentences(message) <= 2
    assert len(message) < 700  # The longest lists all workflows.
    assert said.out == ""


def test_debug_shows_the_traceback_and_keeps_the_exit_code() -> None:
    said = call("train", "--stepz", "3", "--debug")
    assert said.code == 2
    assert "Traceback" in said.err
    assert said.err.splitlines()[-1].startswith("hocket: there is no setting")


def test_a_start_that_failed_leaves_the_name_free(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert call("train", "--model", "./nomodel", "--run", "mine").code == 2
    assert not (folder / "runs" / "mine").exists()


FLAKY = """
import math, time
CALLS = []

def fn(completions, **columns):
    CALLS.append(1)
    if len(CALLS) == {when}:
        {what}
    return [float(sum(map(ord, text)) % 7) for text in completions]
"""

SURVIVED = {
    "raises": ("raise OSError('gone')", "gone"),
    "not a number": ("return [math.nan] * len(completions)", "nan.*no opinion"),
    "too few": ("return [1.0]", "returned 1 values for 8"),
    "wrong type": ("return 'x'", "returned a str"),
}


@pytest.mark.parametrize("name", SURVIVED)
def test_a_run_in_progress_survives_a_bad_reward_call(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hocket.rewards.functions._PAUSE", 0.001)
    what, words = SURVIVED[name]
    # The evaluation is call 1, step 1 is call 2; a call that raises is made three times in all.
    code = (
        FLAKY.format(when=3, what=what)
        if name != "raises"
        else FLAKY.format(when="3", what=what).replace("== 3", "in (3, 4, 5)")
    )
    file = tmp_path / "flaky.py"
    file.write_text(code)
    flags = ["--reward", f"{file}:fn", "--runs", tmp_path, "--run", "x", "--steps", "3"]
    said = call("train", *TINY, *flags)
    assert said.code == 0, said.err
    told = " ".join(said.err.split())
    assert re.search(words, told)
    assert "step 2" in told
    losses = [row["loss"] for row in rows(tmp_path / "x")]
    assert losses[1] is not None
    assert losses[2] is None
    assert losses[3] is not None


def test_a_reward_that_hangs_is_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hocket.rewards.functions._PAUSE", 0.001)
    file = tmp_path / "slow.py"
    file.write_text(
        "import time\nfrom hocket.rewards import FunctionReward\n\n"
        "def hang(completions, **columns):\n    time.sleep(5)\n\n"
        "slow = FunctionReward(hang, timeout=0.1, retries=1)\n"
    )
    said = call("train", *TINY, "--reward", f"{file}:slow", "--runs", tmp_path, "--steps", "1", "--quiet")
    assert said.code == 1
    assert re.search(r"longer than its timeout of 0.1 s \(tried 2 times\)", said.err)


def test_running_out_of_memory_names_what_to_lower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*arguments: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("hocket.train.trainer.train_step", full)
    said = call("train", *TINY, "--runs", tmp_path, "--steps", "1", "--quiet")
    assert said.code == 1
    assert re.search("out of memory in step 1: lower rollout.samples, curriculum.prompts or", said.err)


def test_an_unforeseen_error_is_one_line_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*arguments: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("hocket.train.trainer.train_step", broken)
    said = call("train", *TINY, "--runs", tmp_path, "--steps", "1", "--quiet")
    assert said.code == 1
    assert "--debug" in said.err
    assert "Traceback" not in said.err
