"""reasoning-gym's datasets as tasks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.tasks import catalogue, find
from hocket.tasks.reasoning import ReasoningGym
from hocket.tasks.reasoning_guards import is_formula
from hocket.tasks.split import split_of

DATASETS = [
    "chain_sum",
    "spell_backward",
    "letter_counting",
    "basic_arithmetic",
    "gcd",
    "prime_factorization",
    "base_conversion",
    "simple_equations",
    "polynomial_multiplication",
    "list_functions",
    "gsm_symbolic",
    "pool_matrix",
    "isomorphic_strings",
    "ransom_note",
    "string_insertion",
    "time_intervals",
    "family_relationships",
    "acre",
    "simple_integration",
    "number_sorting",
]


@pytest.fixture
def no_global_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a global generator was used")

    for name in ("random", "randint", "choice", "choices", "shuffle", "sample", "seed", "uniform", "randrange"):
        monkeypatch.setattr(random, name, refuse)
    for name in ("random", "rand", "randint", "choice", "seed", "shuffle", "permutation", "normal", "uniform"):
        monkeypatch.setattr(np.random, name, refuse)


def tagged(answer: Any) -> str:
    return f"<think>hm</think><answer>{answer}</answer>"


@pytest.mark.usefixtures("no_global_draws")
@pytest.mark.parametrize("dataset", DATASETS)
def test_datasets_accept_their_own_answers(dataset: str) -> None:
    task = ReasoningGym(dataset)
    scenarios = {split: [task.scenario(split, n) for n in range(4)] for split in ("train", "eval")}
    for split, members in scenarios.items():
        for scenario in members:
            assert split_of(str(scenario.prompt)) == split
            assert task.verify(tagged(scenario.answer), scenario) == 1.0
            assert task.verify(str(scenario.answer), scenario) == 0.0, "an answer without tags"
            assert task.verify(tagged("no such thing"), scenario) < 1.0
            json.dumps(dict(scenario.metadata))
    assert len({scenario.prompt for scenario in scenarios["eval"]}) == 4
    again = ReasoningGym(dataset)
    assert again.scenario("train", 3) == scenarios["train"][3]
    assert again.scenario("eval", 2) == scenarios["eval"][2]


def test_generating_and_verifying_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for dataset in ("bf", "pool_matrix"):
        task = ReasoningGym(dataset)
        for number in range(3):
            scenario = task.scenario("train", number)
            assert task.verify(tagged(scenario.answer), scenario) == 1.0
            assert task.verify(tagged("[]"), scenario) == 0.0
    assert capfd.readouterr() == ("", "")


def test_verification_survives_a_new_process() -> None:
    """What a scenario is verified with is generated again where it is not remembered."""
    scenario = ReasoningGym("chain_sum").scenario("train", 5)
    assert ReasoningGym("chain_sum").verify(tagged(scenario.answer), scenario) == 1.0


HASHED = ("isomorphic_strings", "ransom_note", "polynomial_multiplication")


def test_problems_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from hocket.tasks.reasoning import ReasoningGym as R\n"
        f"for d in {HASHED}:\n"
        "    t = R(d); print([(s.prompt, s.answer) for s in (t.scenario('train', 1), t.scenario('eval', 0))])"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here = []
    for dataset in HASHED:
        task = ReasoningGym(dataset)
        here.append(str([(s.prompt, s.answer) for s in (task.scenario("train", 1), task.scenario("eval", 0))]))
    assert done.stdout.splitlines() == here


def test_a_thousand_evaluation_problems_and_none_of_them_in_training() -> None:
    task = find("reasoning-gym:chain_sum")
    unseen = [str(task.scenario("eval", n).prompt) for n in range(1000)]
    assert len({" ".join(text.split()) for text in unseen}) == 1000
    assert not {str(task.scenario("train", n).prompt) for n in range(1000)} & set(unseen)


def test_chain_sum_has_three_terms_of_up_to_three_digits() -> None:
    task = find("reasoning-gym:chain_sum")
    for number in range(50):
        scenario = task.scenario("train", number)
        words = str(scenario.prompt).removeprefix("State the final answer to the following arithmetic problem: ")
        terms = words.removesuffix(" =").split()
        assert len(terms) == 5
        assert all(1 <= len(term) <= 3 for term in terms[::2])
        assert scenario.metadata["num_terms"] == 3
    four = find("reasoning-gym:chain_sum?min_terms=4&max_terms=4&min_digits=1&max_digits=1")
    assert len(str(four.scenario("train", 0).prompt).split(": ")[1].split()) == 8


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("chain_summ", "reasoning-gym has no dataset 'chain_summ'; did you mean 'chain_sum'?"),
        ("zzzzzz", "has no dataset 'zzzzzz'; `hocket tasks` lists them"),
        ("codeio", "reasoning-gym:codeio is left out"),
        ("composite", "reasoning-gym:composite is left out"),
        ("chain_sum?min_term=2", "has no setting 'min_term'; did you mean 'min_terms'?"),
        ("chain_sum?min_terms=two", "min_terms = 'two': expected `int`, got `str`"),
        ("chain_sum?min_terms=2.5", "min_terms = 2.5: expected `int`, got `float`"),
        ("chain_sum?allow_negation=1", "allow_negation = 1: expected `bool`, got `int`"),
        ("chain_sum?min_terms=4", "max_terms must be >= min_terms"),
        ("chain_sum?level=99", "level = 99: it has the levels 0 to 10"),
        ("chain_sum?level=-1", "level = -1: it has the levels 0 to 10"),
        ("chain_sum?level=x", "level = 'x': expected `int`, got `str`"),
        ("gsm_symbolic?level=1", "has no curriculum; drop the setting level"),
        ("basic_arithmetic?format_style=fancy", "format_style = 'fancy'"),
        ("complex_arithmetic?operations=3", "operations = '3': it cannot be set this way"),
    ],
)
def test_wrong_settings_get_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find(f"reasoning-gym:{name}")
    assert sentence in str(caught.value)


def test_settings_of_every_kind() -> None:
    task: Any = find('reasoning-gym:complex_arithmetic?operations=["%2B","-"]&size=7')
    assert (task.config.operations, task.config.size) == (("+", "-"), 7)
    floats: Any = find("reasoning-gym:isomorphic_strings?p_solvable=0.25")
    assert floats.config.p_solvable == 0.25
    text: Any = find("reasoning-gym:caesar_cipher?delimiter=,")
    assert text.config.delimiter == ","


@pytest.mark.parametrize("dataset", ["chain_sum", "spell_backward", "gcd", "lcm", "number_sorting", "letter_counting"])
def test_levels_make_problems_harder(dataset: str) -> None:
    easy, hard = (find(f"reasoning-gym:{dataset}?level={level}") for level in (0, 2))
    lengths = [np.mean([len(str(task.scenario("train", n).prompt)) for n in range(30)]) for task in (easy, hard)]
    assert lengths[0] < lengths[1]


def test_settings_stand_over_the_level() -> None:
    task: Any = find("reasoning-gym:chain_sum?level=3&max_digits=2")
    assert (task.config.min_terms, task.config.max_terms) == (2, 5)
    assert (task.config.min_digits, task.config.max_digits) == (1, 2)


def _has(task: Any, number: int) -> bool:
    try:
        return task.scenario("eval", number) is not None
    except ConfigurationError:
        return False


def test_small_datasets_say_how_many_problems_they_have() -> None:
    task = find("reasoning-gym:chain_sum?min_terms=1&max_terms=1&max_digits=1")
    with pytest.raises(ConfigurationError) as caught:
        _ = [task.scenario("eval", number) for number in range(20)]
    number = next(n for n in range(10) if not _has(task, n))
    assert f"has only {number} evaluation problems; set eval.n to at most that" in str(caught.value)
    with pytest.raises(ConfigurationError, match="has only"):
        task.scenario("eval", 19)


def test_the_catalogue_lists_the_datasets_when_asked() -> None:
    entries = {entry.name: entry.description for entry in catalogue(reasoning_gym=True)}
    assert len(entries) > 100
    assert "reasoning-gym:codeio" not in entries
    assert all(entries.values())


# ---------------------------------------------------------------- verifiers and hostile answers

HOSTILE = ["", " ", "9 9 (", "[1", "{}", "1/0", "None", "nan", "x" * 20_000, "(" * 400, "\x00", "٣"]


@pytest.mark.parametrize("dataset", ["prime_factorization", "game_of_life", "chain_sum", "simple_integration", "acre"])
def test_verifiers_that_trip_say_wrong(dataset: str) -> None:
    task = ReasoningGym(dataset)
    scenario = task.scenario("train", 0)
    for text in HOSTILE:
        assert 0.0 <= task.verify(tagged(text), scenario) < 1.0, text


@pytest.mark.parametrize(
    "dataset", ["binary_matrix", "n_queens", "spiral_matrix", "string_insertion", "simple_integration", "countdown"]
)
def test_answers_are_not_run(dataset: str, tmp_path: Any) -> None:
    task = ReasoningGym(dataset)
    scenario = task.scenario("train", 0)
    mark = tmp_path / "run"
    for code in (f"open({str(mark)!r}, 'w')", f"[open({str(mark)!r}, 'w')]", f"__import__('os').mkdir({str(mark)!r})"):
        assert task.verify(tagged(code), scenario) < 1.0
    assert not mark.exists()


def test_literal_answers_still_count() -> None:
    task = ReasoningGym("spiral_matrix")
    scenario = task.scenario("train", 0)
    assert task.verify(tagged([int(word) for word in scenario.answer.split()]), scenario) > 0.0


@pytest.mark.parametrize(
    "text",
    ["1 + 2*3", "-x**3/3 + 2*x + C", "(3*x - 1)**5", "exp(2*x)*sin(x)", "x**(1/2)", "2**-3", "log(x) - pi", "9**99"],
)
def test_formulas(text: str) -> None:
    assert is_formula(text)


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "9**(10**10)",
        "((9**999)**999)**999",
        "factorial(10**9)",
        "exit()",
        "x.y",
        "[1]",
        "'a'*3",
        "lambda: 1",
        "f(x)",
        "1;2",
        "True",
        "1" * 501,
        "1 if x else 2",
        "",
    ],
)
def test_what_is_no_formula(text: str) -> None:
    assert not is_formula(text)
