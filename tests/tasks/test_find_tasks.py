"""Names to tasks, the catalogue, and the default task."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.names import drawn_as, task_spelling
from hocket.tasks import catalogue, find
from hocket.tasks.sums import Sums
from hocket.types import Scenario, Trajectory, Turn

OWN = """
from hocket.tasks.text import TextTask
from hocket.types import Scenario

class Echo(TextTask):
    def __init__(self, word: str = "hi", size: int = 3, loud: bool = False):
        self.name, self.word, self.count = "echo", word.upper() if loud else word, size
    def size(self, split):
        return self.count
    def scenario(self, split, number):
        return Scenario(f"echo/{split}/{number}", f"{split} {number}: say {self.word}", self.word)
    def verify(self, text, scenario):
        return float(text == scenario.answer)

def make(size=5):
    return Echo(size=size)

echo = Echo()
half = 0.5

class Broken(Echo):
    def verify(self, text, scenario):
        raise KeyError("oops")
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    return path


def said(scenario: Scenario, text: str) -> Trajectory:
    return Trajectory(scenario, [Turn("a", "p", np.zeros(0, int), np.arange(len(text)), text=text)])


# ---------------------------------------------------------------- sums


@pytest.mark.parametrize("name", ["sums", "reasoning-gym:chain_sum"])
@pytest.mark.parametrize(
    ("extract", "text", "found"),
    [
        ("number", "To add them, start from 3. The answer is {right}.", 1.0),
        ("number", "The answer is {right}, not 100000.", 0.0),
        ("number", "I do not know.", 0.0),
        ("last-line", "Let me see.\n{right}", 1.0),
        ("last-line", "It is {right}.\nOr is it?", 0.0),
        ("answer-tag", "The answer is {right}.", 0.0),
        ("answer-tag", "<answer>{right}</answer> it is, not 100000.", 1.0),
    ],
)
def test_a_task_says_what_counts_as_the_answer(name: str, extract: str, text: str, found: float) -> None:
    task = find(f"{name}?extract={extract}")
    scenario = task.scenario("eval", 0)
    trajectory = said(scenario, text.format(right=scenario.answer))
    assert task.verify(trajectory.answer, scenario) == found
    assert task.success(trajectory) == found
    if found:
        assert task.label(trajectory) == scenario.answer
        assert task.describe(trajectory)["format"] == 1.0


def test_a_task_keeps_how_it_reads_in_its_name() -> None:
    assert find("sums").name == "sums"
    assert find("sums?instruct=true").name == "sums?instruct=true"
    both = "sums?instruct=true&extract=number"
    assert find(both).name == both
    assert find(find(both).name).extract == "number"


def test_sums_is_right_about_itself() -> None:
    task = find("sums")
    assert (task.name, task.kind, task.size("train"), task.size("eval")) == ("sums", "text", None, None)
    for split in ("train", "eval"):
        scenario = task.scenario(split, 3)
        assert isinstance(scenario.prompt, str)
        expression = scenario.prompt.removeprefix("What is ").removesuffix("?")
        assert eval(expression) == int(scenario.answer)
        right = said(scenario, f"<think>so</think><answer>{scenario.answer}</answer>")
        wrong = said(scenario, f"The answer is {scenario.answer}")
        assert task.success(right) == 1.0
        assert task.success(wrong) == 0.0
        assert task.describe(right) == {"format": 1.0, "working": 1.0}
        assert task.describe(wrong) == {"format": 0.0, "working": 0.0}
        assert [reward.name for reward in task.rewards] == ["correct"]


def test_sums_evaluation_is_a_thousand_problems_disjoint_from_training() -> None:
    task = Sums()
    unseen = {task.scenario("eval", number).prompt for number in range(1000)}
    assert len(unseen) == 1000
    trained = [task.scenario("train", number).prompt for number in range(2000)]
    assert not unseen & set(trained)
    assert len(set(trained)) > 1800  # two one-digit terms are soon drawn again


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=4), st.lists(st.integers(0, 300), min_size=1, max_size=4))
def test_sums_scenarios_do_not_depend_on_the_order_of_asking(train: list[int], unseen: list[int]) -> None:
    task, other = Sums(), Sums()
    numbers = [("train", number) for number in train] + [("eval", number) for number in unseen]
    first = [task.scenario(*place) for place in numbers]
    second = [other.scenario(*place) for place in reversed(numbers)][::-1]
    assert first == second


def test_instructions_stand_in_a_system_message() -> None:
    task = find("sums?instruct=true")
    scenario = task.scenario("train", 0)
    assert [message["role"] for message in scenario.messages] == ["system", "user"]
    assert "<answer>" in scenario.messages[0]["content"]
    assert scenario.messages[1]["content"] == find("sums").scenario("train", 0).prompt


def test_numbers_and_splits_outside_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no train scenario -1"):
        find("sums").scenario("train", -1)
    with pytest.raises(ConfigurationError, match="splits train and eval, not 'test'"):
        find("sums").scenario("test", 0)  # type: ignore[arg-type]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("summs", "there is no task 'summs'; did you mean 'sums'"),
        ("chain_summ", "there is no task 'chain_summ'; did you mean 'reasoning-gym:chain_sum'"),
        ("CartPole-v1", "there is no task 'CartPole-v1'; did you mean 'gym:CartPole-v1'"),
        ("qqqqqqq", "there is no task 'qqqqqqq'; `hocket tasks --search WORD` finds others"),
        ("", "there is no task ''; `hocket tasks --search WORD` finds others"),
        ("sums?instruckt=true", "task sums has no setting 'instruckt'; did you mean 'instruct'?"),
        ("sums?instruct=maybe", "task sums: instruct = 'maybe': expected true or false, got text"),
        ("sums?instruct", "'instruct' is no setting; write NAME?key=value"),
        ("sums?instruct=true&instruct=true", "instruct is given twice"),
        ("nowhere.jsonl", "there is no file nowhere.jsonl"),
        ("nowhere.py:task", "there is no file nowhere.py"),
    ],
)
def test_wrong_names_get_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find(name)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("old", "name"),
    [
        ("graded_sums?noise=0.3", "graded-sums?noise=0.3"),
        ("built:worked_sums", "built:worked-sums"),
        ("cheaper_programs", "cheaper-programs"),
        ("lessons:order_desk?played=true", "lessons:order-desk?played=true"),
    ],
)
def test_a_name_may_be_spelled_with_underscores(old: str, name: str) -> None:
    assert task_spelling(old) == name
    for number in range(3):
        one, other = find(old).scenario("train", number), find(name).scenario("train", number)
        assert (one.id, one.prompt, one.answer) == (other.id, other.prompt, other.answer)
    assert find("reasoning_gym:chain_sum").name == "reasoning-gym:chain_sum"


def test_a_renamed_task_keeps_its_draws() -> None:
    assert find("worked-sums").scenario("train", 0).id == "worked_sums/train/0/question"
    lesson = find("lessons:restated-sums").scenario("train", 0)
    assert lesson.id == "lessons:restated_sums/train/0"
    assert lesson.metadata["of"] == "sums/train/0"
    assert drawn_as("lessons:built:worked-sums?size=4") == "lessons:built:worked_sums?size=4"
    assert drawn_as("page_crew") == "page-crew"
    for other in ("gym:CartPole-v1", "mine.py:worked_sums", "worked_sums.jsonl", "nowhere"):
        assert drawn_as(other) == task_spelling(other) == other


def test_a_file_is_named_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_data.jsonl").write_text("".join(f'{{"prompt": "{one}", "answer": "1"}}\n' for one in range(4)))
    (tmp_path / "own_task.py").write_text(OWN)
    assert find("own_data.jsonl").name == "own_data.jsonl"
    assert find("own_task.py:echo").name == "echo"


def test_a_data_file_with_another_ending_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_text("a,b\n")
    with pytest.raises(ConfigurationError, match=r"a data file must end in \.jsonl"):
        find(str(path))


def test_tasks_of_ones_own(own: Path) -> None:
    assert find(f"{own}:echo").scenario("train", 0).answer == "hi"
    assert find(f"{own}:Echo").size("train") == 3
    assert find(f"{own}:make").size("train") == 5
    assert find(f"{own}:make?size=7").size("train") == 7
    assert find(f"{own}:Echo?word=yes%20no&loud=true").scenario("eval", 1).answer == "YES NO"


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        ("ecko", "has no 'ecko'; did you mean 'echo'?"),
        ("half", "lacks name, kind, size, scenario"),
        ("make?sise=3", "has no setting 'sise'; did you mean 'size'?"),
        ("make?size=three", "size = 'three': expected a whole number, got text"),
        ("echo?size=3", "is an object already, so it takes no settings"),
    ],
)
def test_wrong_tasks_of_ones_own_get_a_sentence(own: Path, end: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find(f"{own}:{end}")
    assert sentence in str(caught.value)


def test_a_verifier_that_raises_is_named(own: Path) -> None:
    task = find(f"{own}:Broken")
    with pytest.raises(HocketError, match=r"verifying echo/eval/0 raised KeyError: 'oops'; correct the verifier"):
        task.success(said(task.scenario("eval", 0), "hi"))


def test_gym_tasks_are_found() -> None:
    task = find("gym:CartPole-v1")
    assert (task.kind, task.name) == ("control", "gym:CartPole-v1")
    with pytest.raises(ConfigurationError, match="CartPole"):
        find("gym:CartPoole-v1")


def test_the_catalogue_names_every_form() -> None:
    names = [entry.name for entry in catalogue()]
    forms = {"sums", "reasoning-gym:NAME", "PATH.jsonl", "gym:ENVIRONMENT", "FILE.py:NAME"}
    worlds = {"openspiel:GAME", "textarena:GAME", "gymnasium:ENVIRONMENT", "pettingzoo:MODULE", "openenv:URL"}
    assert forms | worlds <= set(names)
    assert all(entry.description for entry in catalogue())


def test_importing_and_the_default_task_load_no_reasoning_gym() -> None:
    code = (
        "import sys, hocket.tasks, hocket.rewards; hocket.tasks.find('sums').scenario('train', 0); "
        "import hocket.tasks.reasoning; hocket.tasks.catalogue(); "
        "print(sorted({'reasoning_gym', 'gymnasium', 'transformers', 'sympy'} & {m for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    # torch may load sympy by itself.
    assert done.stdout.strip() in ("[]", "['sympy']"), done.stderr
