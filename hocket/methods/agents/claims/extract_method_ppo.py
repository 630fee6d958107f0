"""Claims about PPO on extracted methods."""

from __future__ import annotations

import ast
import asyncio
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

import hocket
from hocket.agents.tools.sandbox import Sandbox
from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, Claims, Finding, same_gradient, say
from hocket.lab.claims.lesson_data import Pupil, begin, lessons
from hocket.lab.policy import Tabular
from hocket.lab.toys.instances import Instances, nothing
from hocket.lab.toys.recorded_answers import line
from hocket.lab.world import Answer
from hocket.methods.agents.extract_method_ppo import (
    CHECKS,
    EXTRACT_METHOD_PPO,
    FLAWS,
    LARGEST,
    LONGEST,
    POINTS,
    RefactoringReward,
    drawn,
    examined,
    extracted,
    passes,
    plain,
    refactored,
    written,
)
from hocket.methods.base.ppo import PPO_RLHF
from hocket.methods.base.sft import SFT
from hocket.recipe import Recipe
from hocket.train.aio import run_async
from hocket.types import Assignment, Scenario, Trajectory, Turn

claim = Claims("extract-method-ppo", "arXiv:2412.18035 (abstract)")

LINES = ("c=a*3", "c=c+b", "return c-a")
TESTS = tuple(f"assert f({a}, {b}) == {a * 3 + b - a}" for a, b in POINTS)
ASKED = Scenario("one", "one", metadata={"function": written(LINES), "tests": TESTS})
SANDBOX = Sandbox()
REWARD = cast(RefactoringReward, EXTRACT_METHOD_PPO.rewards[0])

TRUE = refactored(LINES)
HELPER = "def g(a,b):\n c=a*3\n c=c+b\n return c"
CASES: Mapping[str, str] = {
    # parses, tests pass, extracted
    TRUE: "111",
    f"```python\n{TRUE}\n```": "111",
    f"<think>g</think>{TRUE}": "111",
    TRUE.replace("g(", "made("): "111",
    f"{written(('c=g(a,b)', LINES[2]))}\n{HELPER}": "111",
    TRUE.replace("c=c+b\n", "c=c+b\n d=c\n"): "111",
    written(LINES): "110",
    f"{HELPER}\n{written(LINES)}": "110",
    f"{HELPER}\n{written(('d=g(a,b)', *LINES))}": "110",
    f"def g(a):\n c=a*3\n return c\n{written(('c=g(a)', LINES[1], LINES[2]))}": "110",
    f"def g(a,b):\n c=a*3\n c=c+b\n return c-a\n{written(('return g(a,b)',))}": "110",
    f"def g(a,b):\n d=a*3\n d=d+b\n return d\n{written(('c=g(a,b)', LINES[2]))}": "110",
    "def f(a,b):\n return a*2+b": "110",
    "def f(a,b):\n return c": "100",
    "def f(a,b):\n pass": "100",
    refactored(LINES, "lost"): "100",
    TRUE.replace("c-a", "c+a"): "100",
    TRUE.replace("g(a,b)\n return", "g(b,a)\n return"): "101",
    TRUE.replace("g(a,b)\n return", "g(a)\n return"): "101",
    HELPER: "100",
    "": "100",
    refactored(LINES, "unparsed"): "000",
    "def f(a,a):\n return 1": "000",
    "return 1": "000",
    f"{TRUE}\n#{'x' * LONGEST}": "000",
    "def f(a,b): return (": "000",
}


@claim("Hand cases: what parses, passes its tests and shows the extraction is told, and each alone.")
def hand_cases_what_parses_passes_its_tests_and_shows_the() -> Finding:
    wrong = [text for text, marks in CASES.items() if _marks(examined(text, ASKED, SANDBOX)) != marks]
    return Finding(not wrong, say(cases=len(CASES), wrong="; ".join(map(repr, wrong)) or 0))


def _marks(found: Mapping[str, bool] | None) -> str:
    assert found is not None
    return "".join(str(int(found[name])) for name in CHECKS)


@claim("An extraction is to a new function that is called; arithmetic alone is computed; it ships as it says.")
def an_extraction_is_to_a_new_function_that_is_called_arithmetic() -> Finding:
    two = f"{HELPER}\n{written(LINES)}"
    into_old = f"{HELPER}\n{written(('c=g(a,b)', LINES[2]))}"
    cases = [
        (written(LINES), f"{HELPER}\n{written(('pass', LINES[2]))}", False),
        (written(LINES), into_old, True),
        (two, into_old, False),
        (two, into_old.replace("g(a,b)", "h(a,b)") + f"\n{HELPER}", True),
    ]
    wrong = [after for before, after, due in cases if extracted(ast.parse(before), ast.parse(after), "f") != due]
    bodies = ("c=d=a\n return c", "return (a+b)(1)", "return f(a, b=b)", "return f(a,b)", "c=a\n return c")
    computed = [plain(ast.parse(f"def f(a,b):\n {body}")) for body in bodies]
    untested = Scenario("s", "s", metadata={"function": written(LINES)})
    none = examined(TRUE, untested, SANDBOX) is None
    due = RefactoringReward(parses=0.2, tests=0.3, extracted=0.5, sandbox=Sandbox(), weight=1.0)
    ships = EXTRACT_METHOD_PPO.rewards == (due,)
    holds = not wrong and computed == [False, False, False, True, True] and none and ships
    return Finding(holds, say(wrong=str(wrong), computed=str(computed), as_shipped=ships))


@claim("Weights add up as far as the checks hold in their order: 0, 0.2, 0.5 or 1; a later check alone earns nothing.")
def weights_add_up_as_far_as_the_checks_hold_in_their_order_0_0_2_0() -> Finding:
    worth = {"000": 0.0, "100": 0.2, "110": 0.5, "111": 1.0, "101": 0.2, "011": 0.0, "001": 0.0, "010": 0.0}
    off = [
        abs(REWARD.grade(dict(zip(CHECKS, (mark == "1" for mark in marks), strict=True))) - value)
        for marks, value in worth.items()
    ]
    other = RefactoringReward(parses=1.0, tests=2.0, extracted=4.0)
    off += [abs(other.grade(dict.fromkeys(CHECKS, True)) - 7.0)]
    asked = [Trajectory(ASKED, [_turn(text)]) for text in CASES]
    unasked = Trajectory(Scenario("none", "none"), [_turn(TRUE)])
    paid = asyncio.run(REWARD([*asked, unasked], key=Key.of(0)))
    off += [abs(float(one or 0.0) - worth[marks]) for one, marks in zip(paid, CASES.values(), strict=False)]
    refused = []
    for parses, found in ((-0.1, 0.5), (0.2, 0.0)):
        try:
            RefactoringReward(parses=parses, extracted=found)
        except hocket.ConfigurationError:
            refused.append(parses)
    return Finding(max(off) < EXACT and paid[-1] is None and len(refused) == 2, say(off=max(off), answers=len(paid)))


def _turn(text: str) -> Turn:
    none = torch.zeros(1, dtype=torch.long).numpy()
    return Turn("policy", "policy", none, none, text=text)


@claim("An unchanged copy, a helper that is not called and a body that is gone are each worth less than an extraction.")
def an_unchanged_copy_a_helper_that_is_not_called_and_a_body_that() -> Finding:
    worth = {flaw: [] for flaw in (*FLAWS, "gone", "none")}  # type: dict[str, list[float]]
    for number in range(60):
        lines = drawn(Key.of(number).numpy())
        source = written(lines)
        known = {"function": source, "tests": _tests(source)}
        scenario = Scenario("s", "s", metadata=known)
        texts = {flaw: refactored(lines, flaw) for flaw in FLAWS}
        texts |= {"gone": "def f(a,b):\n pass", "none": refactored(lines)}
        for name, text in texts.items():
            worth[name].append(float(REWARD.verify(text, scenario) or 0.0))
    # A function in which the statement that is lost changes nothing does not occur.
    flawed = max(max(found) for name, found in worth.items() if name != "none")
    order = [max(worth[name]) for name in ("unparsed", "gone", "lost", "copied", "uncalled")]
    holds = min(worth["none"]) == 1.0 and order == [0.0, 0.2, 0.2, 0.5, 0.5]
    return Finding(holds and flawed == 0.5, say(functions=60, extraction=min(worth["none"]), best_flawed=flawed))


def _tests(source: str) -> tuple[str, ...]:
    """What Python itself says that a function returns."""
    space: dict[str, Any] = {}
    exec(source, space)  # written here
    return tuple(f"assert f({a}, {b}) == {space['f'](a, b)}" for a, b in POINTS)


@claim("What goes too deep or too far passes no test, and is over at once.")
def what_goes_too_deep_or_too_far_passes_no_test_and_is_over_at() -> Finding:
    squares = "def f(a,b):\n c=a+9\n" + " c=c*c\n" * 60 + " return 2*a+b"
    deep = "\n".join(f"def h{n}(a):\n return h{n + 1}(a)" for n in range(9)) + "\ndef h9(a):\n return a"
    sound = "\n".join(f"def h{n}(a):\n return h{n + 1}(a)" for n in range(6)) + "\ndef h6(a):\n return a"
    texts = {
        squares: False,
        f"{deep}\ndef f(a,b):\n return h0(a)+a+b": False,
        f"{sound}\ndef f(a,b):\n return h0(a)+a+b": True,
        f"def f(a,b):\n return 2*a+b+{LARGEST - 99}-{LARGEST - 99}": True,
        f"def f(a,b):\n return 2*a+b+{LARGEST}*2-{LARGEST}*2": False,
        "def f(a,b):\n return g(a,b)\ndef g(a,b):\n return f(a,b)": False,
    }
    wrong = [text for text, wanted in texts.items() if passes(ast.parse(text), text, TESTS, SANDBOX) != wanted]
    return Finding(not wrong, say(programs=len(texts), wrong=len(wrong)))


@claim("What learns is PPO with a KL leash in the reward; the checks are all that is added.")
def what_learns_is_ppo_with_a_kl_leash_in_the_reward_the_checks_are() -> Finding:
    return same_gradient(EXTRACT_METHOD_PPO, PPO_RLHF, 10, "extract")


# ---------------------------------------------------------------- what is learnt

HELPERS = (HELPER, "def g(a,b):\n c=c+b\n return c", "", "def g(a,b)\n c=a*3")
CALLS = ("c=g(a,b)", "c=a*3\n c=c+b", "c=g(b,a)", "pass")
ENDS = ("return c-a", "return c+a", "return a", "return g(a,b)")


def spelt(answer: Answer) -> str:
    """A program of three choices."""
    helper, call, end = answer
    return "\n".join(one for one in (HELPERS[helper], written((CALLS[call], ENDS[end]))) if one)


@functools.cache
def worth(answer: Answer) -> float:
    """What the reward says of one."""
    return float(REWARD.verify(spelt(answer), ASKED) or 0.0)


def holds(answer: Answer, *checks: str) -> float:
    """Whether some of the checks hold of one."""
    found = examined(spelt(answer), ASKED, SANDBOX)
    assert found is not None
    return float(all(found[name] for name in checks))


PAIRS: Sequence[tuple[Answer, float]] = (
    ((0, 0, 0), 0.35),
    ((2, 1, 0), 0.2),
    ((0, 1, 0), 0.1),
    ((1, 0, 0), 0.15),
    ((0, 0, 1), 0.1),
    ((3, 0, 0), 0.1),
)
"""Demonstrations and their shares: a third are refactorings."""


def pair(number: int) -> dict[str, Any]:
    """A scenario with one of these pairs, the shares as near as so many allow."""
    bounds = list(itertools.accumulate(share for _, share in PAIRS))
    place = next(n for n, bound in enumerate(bounds) if (number % 20 + 0.5) / 20 < bound)
    return {"question": 0, "demonstration": list(PAIRS[place][0]), **ASKED.metadata}


WORLD = Instances(
    *(1, 4, 3, nothing),
    text=lambda question, answer: spelt(answer),
    count=20,
    about=pair,
)


@dataclass(frozen=True)
class Copied:
    """A start with the logits of another policy."""

    policy: Tabular

    def __call__(self, fresh: Tabular) -> None:
        fresh.logits.copy_(self.policy.logits.detach())


IMITATED, FURTHER, PROMPTS = 60, 40, 20


@claim(
    "PPO after imitation passes the tests more often, and refactors more often, than imitation with as many further "
    "samples; imitation stays at the pairs' own share.",
    slow=True,
)
def ppo_after_imitation_passes_the_tests_more_often_and_refactors() -> Finding:
    found: dict[str, list[float]] = {}
    for seed in range(3):
        taught = Bench(WORLD, SFT, seed=seed, prompts=PROMPTS).run(IMITATED, every=IMITATED)
        start = Copied(taught.policy)
        ppo: Recipe = EXTRACT_METHOD_PPO.but({"rollout.samples": 1})
        for name, recipe in (("sft", SFT), ("ppo", ppo)):
            one = Bench(WORLD, recipe, seed=seed, prompts=PROMPTS, start=start)
            one.run(FURTHER, every=FURTHER)
            for what, checks in (("tests", ("parses", "tests")), ("all", CHECKS)):
                share = one.expected(lambda question, answer, checks=checks: holds(answer, *checks))  # type: ignore[misc]
                found.setdefault(f"{name} {what}", []).append(share)
        share = taught.expected(lambda question, answer: holds(answer, *CHECKS))
        found.setdefault("begun all", []).append(share)
    better = min(found["ppo tests"]) > max(found["sft tests"]) + 0.1
    better &= min(found["ppo all"]) > max(found["sft all"]) + 0.2
    same = max(abs(one - 0.35) for one in found["sft all"]) < 0.1
    figures = say(**{name.replace(" ", "_"): line(values) for name, values in found.items()})
    return Finding(better and same, f"{figures}, further samples {FURTHER * PROMPTS} each")


def sampled(pupil: Pupil, count: int = 128) -> float:
    """The share of sampled answers to unseen functions that are refactorings."""
    parts = pupil.parts
    asked = [Assignment(parts.task.scenario("eval", number), 1, parts.decoding) for number in range(count)]
    played = run_async(parts.player.play(asked, key=Key.of(0).derive("exam")))
    return sum(parts.task.success(one) for one in played) / count


FURTHER_STEPS = 18
"""Of 64 samples each."""


@claim(
    "The shipped model: after imitation, PPO makes more of its samples refactorings than imitation does with as many "
    "further samples.",
    slow=True,
)
def the_shipped_model_after_imitation_ppo_makes_more_of_its_samples() -> Finding:
    settings = {"model": lessons("extract-method", steps=80), "curriculum.prompts": 8, "threads": 1}
    more = {**settings, "curriculum.prompts": 64, "update.lr": 0.003}  # As it was taught.
    begun = sampled(begin("sft", "extract-method", settings))
    after = sampled(begin(EXTRACT_METHOD_PPO, "extract-method", settings).run(FURTHER_STEPS))
    alone = sampled(begin("sft", "extract-method", more).run(FURTHER_STEPS))
    figures = say(begun=begun, ppo=after, imitation=alone, further_samples_of_each=64 * FURTHER_STEPS)
    return Finding(after > max(alone, begun) + 0.1, figures)


claim.spares("-1 -> 1", "any points that tell functions apart do")
claim.spares("-2 -> 2", "any points that tell functions apart do")
claim.shipped(
    EXTRACT_METHOD_PPO,
    "rewards",
    without={"rewards": (RefactoringReward(parses=1.0, tests=0.0, extracted=1e-6),)},
    first={"recipe": "sft", "steps": 40, "update.lr": 0.003},
    settings={"curriculum.prompts": 4},
)
