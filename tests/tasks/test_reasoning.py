"""reasoning-gym's datasets as tasks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.tasks import catalogue, find
from hocket.tasks.reasoning import ReasoningGym
from hocket.tasks.reasoning_guards import is_formula
from hocket.tasks.split import split_of
from hocket.train.config import configure
from hocket.train.kinds.text import TEXT

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
        ("zzzzzz", "has no dataset 'zzzzzz'; `hocket tasks --all` lists them"),
        ("codeio", "reasoning-gym:codeio is left out"),
        ("composite", "reasoning-gym:composite is left out"),
        ("chain_sum?min_term=2", "has no setting 'min_term'; did you mean 'min_terms'?"),
        ("chain_sum?min_terms=two", "min_terms = 'two': expected a whole number, got text"),
        ("chain_sum?min_terms=2.5", "min_terms = 2.5: expected a whole number, got a number"),
        ("chain_sum?allow_negation=1", "allow_negation = 1: expected true or false, got a whole number"),
        ("chain_sum?min_terms=4", "max_terms must be >= min_terms"),
        ("chain_sum?level=99", "level = 99: it has the levels 0 to 10"),
        ("chain_sum?level=-1", "level = -1: it has the levels 0 to 10"),
        ("chain_sum?level=x", "level = 'x': expected a whole number, got text"),
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
    [
        "1 + 2*3",
        "-x**3/3 + 2*x + C",
        "(3*x - 1)**5",
        "exp(2*x)*sin(x)",
        "x**(1/2)",
        "2**-3",
        "log(x) - pi",
        "9**99",
        "+".join(f"{n}*x**{n}" for n in range(300)),
        "x**-(1/2)",
        "1_0",
    ],
)
def test_formulas(text: str) -> None:
    assert is_formula(text)


def test_a_long_sum_is_a_formula_and_hidden_numbers_are_no_arithmetic() -> None:
    assert is_formula("+".join(f"{n}*x**{n % 300}" for n in range(900)))
    assert is_formula("(1 + 2)*3**2/4 - -5", arithmetic=True)
    for text in ("1_0", "0x10", "1 + 2 # 3", "1.5", "x", "sqrt(4)", "1e3", "1 // 2"):
        assert not is_formula(text, arithmetic=True), text


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
        "1" * 10_001,
        "(x + 1)**3000",
        "((x + 1)**40 + 1)**40",
        "(x + y + z + 1)**90",
        "x**100000",
        "1e999999999",
        "1e-999999999",
        "1 if x else 2",
        "",
    ],
)
def test_what_is_no_formula(text: str) -> None:
    assert not is_formula(text)


BOMBS = {
    "simple_integration": ["(x+1)**3000", "((x+1)**40+1)**40", "x**(9**9**9)", "sin(" * 60 + "x" + ")" * 60],
    "intermediate_integration": ["(x+1)**3000", "sqrt((x+1)**399)*log(x)**99", "(sin(x)+cos(x)+exp(x)+1)**9"],
    "polynomial_multiplication": ["(x+y+z+1)**90", "((x+1)**40+1)**40", "1e999999999"],
    "countdown": ["2**2**2**2**2", "9**9**9", "1e999999999", "1" * 9_000],
    "puzzle24": ["99999**99999**99", "1e999999999"],
    "rubiks_cube": ["R9999999 L9999999", "R99 " * 2000],
    "coin_flip": ["1e999999999", "-1e99999999", "1/1e9999999"],
}


@pytest.mark.parametrize("dataset", BOMBS)
def test_no_answer_stalls_its_verifier(dataset: str) -> None:
    """Nor takes the memory: what is large before it is evaluated is refused, the rest is ended."""
    task = ReasoningGym(dataset)
    scenario = task.scenario("train", 0)
    began = time.monotonic()
    for text in BOMBS[dataset]:
        assert task.verify(tagged(text), scenario) < 1.0, text
    assert time.monotonic() - began < 100
    if scenario.answer is not None:
        assert task.verify(tagged(scenario.answer), scenario) == 1.0


def test_no_number_is_not_the_right_one() -> None:
    task = ReasoningGym("complex_arithmetic")
    for number in range(4):
        scenario = task.scenario("train", number)
        for text in ("nan", "NaN+NaNi", "nanj", "1e999", "inf", "-inf+nani", "1e999-1e999i"):
            assert task.verify(tagged(text), scenario) == 0.0, text


def test_long_products_are_verified() -> None:
    task = ReasoningGym("polynomial_multiplication", {"level": "2"})
    scenario = task.scenario("train", 0)
    assert len(str(scenario.answer)) > 500, "longer than answers to other datasets"
    assert task.verify(tagged(scenario.answer), scenario) == 1.0
    assert task.verify(tagged(f"{scenario.answer} + 1"), scenario) == 0.0


def test_antiderivatives_are_right_up_to_a_constant() -> None:
    """By hand: the derivative of -(x-1)**4/4 is -(x-1)**3, however either is written."""
    from hocket.tasks.reasoning_guards import _refuted

    for answer, right in (
        ("-(x-1)**4/4 + C", True),
        ("-x**4/4 + x**3 - 3*x**2/2 + x - 7", True),
        ("(x-1)**4/4", False),
    ):
        assert _refuted(answer, integrand="-(x-1)**3", variable="x") is not right
    assert not _refuted("log(-x)", integrand="1/x", variable="x"), "a constant apart from log(x), in complex numbers"


def test_the_numbers_of_a_game_are_used() -> None:
    """The verifier of puzzle24 takes any four that make 24; that of countdown does not see some spellings."""
    task = ReasoningGym("puzzle24")
    scenario = next(
        one for one in (task.scenario("train", n) for n in range(9)) if one.metadata["numbers"] != [1, 2, 3, 4]
    )
    assert task.verify(tagged("1*2*3*4"), scenario) == 0.0
    task = ReasoningGym("countdown")
    scenario = task.scenario("train", 0)
    numbers, target = scenario.metadata["numbers"], scenario.metadata["target"]
    total, off = "+".join(map(str, numbers)), sum(numbers) - target
    for hidden in (f"{total} - {hex(off)}", f"{total} - {off // 10:d}_{off % 10}", f"{target} # {total}"):
        assert task.verify(tagged(hidden), scenario) == 0.0, hidden


@pytest.mark.parametrize(
    ("dataset", "wrong"),
    [
        ("game_of_life_halting", lambda known: "False" if known == "True" else "True"),
        ("game_of_life_halting", lambda known: "no such thing"),
        ("gsm_symbolic", lambda known: f"-{known}"),
        ("gsm_symbolic", lambda known: f"{known},000"),
        ("gsm_symbolic", lambda known: f"{known} or 7"),
        ("gsm_symbolic", lambda known: f"not {known}"),
        ("spell_backward", lambda known: f"{known} and more"),
        ("letter_jumble", lambda known: f"{known} and more"),
        ("word_sorting", lambda known: f"{known}, and, more"),
        ("time_intervals", lambda known: f"{known} or 7 days"),
        ("fraction_simplification", lambda known: f"{known} or 1/2"),
    ],
)
def test_what_a_verifier_would_pay_in_full_is_not(dataset: str, wrong: Any) -> None:
    task = ReasoningGym(dataset)
    for number in range(20):
        scenario = task.scenario("train", number)
        assert task.verify(tagged(wrong(str(scenario.answer))), scenario) < 1.0
        assert task.verify(tagged(scenario.answer), scenario) == 1.0


def test_answers_to_gsm_symbolic_may_have_a_unit() -> None:
    task = ReasoningGym("gsm_symbolic")
    scenario = task.scenario("train", 0)
    for text in (f"${scenario.answer}", f"{scenario.answer} dollars", f"It is {scenario.answer}."):
        assert task.verify(tagged(text), scenario) == 1.0


def test_strict_pays_for_right_answers_alone() -> None:
    """What is copied from the question, or holds the letters of any answer, earns something otherwise."""
    junk = {
        "knights_knaves": lambda one: str(one.prompt)[-200:],
        "syllogism": lambda one: "None",
        "acre": lambda one: "None",
    }
    for dataset, answer in junk.items():
        scores = {}
        for strict in (False, True):
            task = ReasoningGym(dataset, {"strict": "true"} if strict else {})
            scenarios = [task.scenario("train", n) for n in range(8)]
            scores[strict] = [task.verify(tagged(answer(one)), one) for one in scenarios]
            assert [task.verify(tagged(one.answer), one) for one in scenarios] == [1.0] * 8
            assert bool(task.remarks) is not strict
        assert max(scores[False]) >= 0.3
        assert scores[True] == [0.0] * 8
    assert ReasoningGym("chain_sum").remarks == ()


def test_a_run_begins_with_what_the_task_has_to_say() -> None:
    for name, count in (("reasoning-gym:acre", 1), ("reasoning-gym:acre?strict=true", 0)):
        told = TEXT.remarks(configure([("task", name)], find(name)), find(name), None)
        assert [one.startswith(f"task {name} pays up to 0.5 for ") for one in told] == [True] * count
