"""Claims about WirelessMathLM."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.claims.lesson_data import Pupil, after_lessons
from hocket.lab.claims.shipped_check import ShippedRun
from hocket.methods.applications.wirelessmathlm.formulas import same
from hocket.methods.applications.wirelessmathlm.method import WIRELESSMATHLM
from hocket.methods.applications.wirelessmathlm.task import LESSONS, THEN, Wireless
from hocket.rewards.verifiers import ExactMatch
from hocket.train.aio import run_async
from hocket.types import Assignment, Scenario, Trajectory, Turn

claim = Claims("wirelessmathlm", "arXiv:2509.23219; the formula is that of the abstract")

sympy: Any = importlib.import_module("sympy")

TAUGHT = "lessons:wireless"
LOCALS = {"log2": lambda argument: sympy.log(argument, 2)}


def _drawn(rng: np.random.Generator, depth: int) -> str:
    """A random formula of the letters a to d."""
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice(["a", "b", "c", "d", "2", "3"]))
    left, right = _drawn(rng, depth - 1), _drawn(rng, depth - 1)
    forms = (f"({left}+{right})", f"({left}-{right})", f"({left}*{right})", f"({left}/{right})", f"log2(1+a/{left})")
    return str(rng.choice([*forms, f"exp(-{left}/b)", f"sqrt(c+{left}**2)", f"({left}+d)**2"]))


def _values(expression: Any, points: Sequence[Mapping[str, float]]) -> list[complex]:
    """Values to 30 digits; not a number where there is none."""
    values = [expression.evalf(30, subs=point) for point in points]
    return [complex(value) if value.is_finite else complex(math.nan) for value in values]


@claim(
    "The checker accepts random formulas that sympy has multiplied out, factored or brought to one denominator, and "
    "none in which a letter, a number or an operation is another; values at random points say which are equal."
)
def the_checker_accepts_equal_forms_alone() -> Finding:
    rng, counts = Key.of(0).derive("formulas").numpy(), [0, 0]
    missed, deceived = list[str](), list[str]()
    points = [dict(zip("abcd", rng.uniform(0.5, 3, 4).tolist(), strict=True)) for _ in range(2)]
    while min(counts) < 60:
        text = _drawn(rng, 3)
        known = sympy.parse_expr(text, LOCALS)
        due = _values(known, points) if known.free_symbols else [complex(math.nan)]
        if not all(math.isfinite(abs(value)) and value.imag == 0 for value in due):
            continue
        others = [str(known.subs("a", "b")), f"{text}+1/999", text.replace("+", "-", 1), text.replace("2", "3", 1)]
        others += [str(make(known)) for make in (sympy.expand, sympy.factor, sympy.together)]
        for other in others:
            values = _values(sympy.parse_expr(other, LOCALS), points)
            equal = max(abs(left - right) / (1 + abs(left)) for left, right in zip(due, values, strict=True)) < 1e-12
            counts[equal] += 1
            if same(other, text) != equal:
                (missed if equal else deceived).append(f"{other} for {text}")
    figures = say(equal=counts[1], other=counts[0], missed=len(missed), deceived=len(deceived))
    return Finding(not missed and not deceived, "; ".join([figures, *missed[:1], *deceived[:1]]))


TEXTBOOK: Mapping[str, Callable[..., float]] = {
    "SNR": lambda power, gain, noise: power * gain / noise,
    "SINR": lambda signal, interference, noise: signal / (interference + noise),
    "noise": lambda density, bandwidth: density * bandwidth,
    "capacity": lambda bandwidth, SNR: bandwidth * math.log(1 + SNR, 2),
    "rate": lambda power, gain, noise: math.log(1 + power * gain / noise, 2),
    "least SNR": lambda rate, bandwidth: math.exp(math.log(2) * rate / bandwidth) - 1,
    "outage": lambda threshold, SNR: -math.expm1(-threshold / SNR),
    "path loss": lambda distance, wavelength: 16 * (math.pi * distance / wavelength) ** 2,
    "diversity SNR": lambda first, second: first + second,
    "bit energy": lambda power, rate: power / rate,
    "triangle": lambda base, height: 0.5 * base * height,
    "energy": lambda mass, speed: 0.5 * mass * speed * speed,
    "parallel": lambda first, second: 1 / (1 / first + 1 / second),
    "decay": lambda start, time, life: start * math.exp(-time / life),
    "interest": lambda sum, rate, years: sum * math.exp(years * math.log1p(rate)),
    "information": lambda chance: -math.log(chance, 2),
}


def _right(question: str, answer: str) -> bool:
    """Whether an answer is right by the textbook, at random values of the letters."""
    name, _, rest = question.removesuffix("?").partition(": ")
    symbols, _, shown = rest.partition("; ")
    letters = [part.rsplit(" ", 1) for part in symbols.split(", ")]
    values = dict(zip((word for word, _ in letters), Key.of(1).numpy().uniform(0.2, 3, len(letters)), strict=True))
    if answer in ("A", "B", "C"):
        options = dict(re.findall(r"([ABC]) (\S+)", shown))
        answer, shown = options[answer], ""
    formula = shown.replace("_", f"({answer})") or answer
    point = {letter: values[word] for word, letter in letters}
    result = sympy.parse_expr(formula, {**LOCALS, **{letter: sympy.Symbol(letter) for letter in point}}).evalf(
        subs=point
    )
    return bool(abs(complex(result) - TEXTBOOK[name](**values)) < 1e-9)


@claim(
    "By textbook formulas every answer is right and every slip of a beginner wrong, of each quantity and kind; no "
    "letters of a quantity are of both splits."
)
def answers_are_those_of_the_textbook() -> Finding:
    wrong, names, patterns = 0, set(), dict[str, set[str]]()
    for field in ("wireless", "general"):
        task = Wireless(field)
        for split in ("train", "eval"):
            for number in range(60):
                scenario = task.scenario(split, number)
                question = str(scenario.prompt)
                names.add(question.partition(":")[0])
                patterns.setdefault(split, set()).add(question.rstrip("?").partition(";")[0])
                slip = str(scenario.metadata["wrong"][0])
                marks = [task.verify(f"<answer>{text}</answer>", scenario) for text in (scenario.answer, slip)]
                wrong += not _right(question, str(scenario.answer)) or _right(question, slip) or marks != [1.0, 0.0]
    holds = not wrong and names == set(TEXTBOOK) and not patterns["train"] & patterns["eval"]
    return Finding(holds, say(questions=240, wrong=wrong, quantities=len(names)))


@claim(
    "Of n answers k are right, in whatever form: those have the advantage sqrt((n - k)(n - 1)/(nk)), the others "
    "-sqrt(k(n - 1)/(n(n - k))), and without a right one none has any.",
    "A_i = (r_i - mean)/(std + eps), r_i in {0, 1}",
)
def advantages_are_those_of_right_and_wrong() -> Finding:
    known = Scenario("s", "SINR: signal s, interference i, noise n?", "s/(i+n)")
    right = ["s/(n+i)", "1/(i/s+n/s)", "s*(i+n)**(-1)", "(s)/(i + n)"]
    wrong = ["s/i+n", "i/(s+n)", "s/(i+n", "", "__import__('os')", "s/(i+n)+0.001"]
    off = []
    for count in range(5):
        texts = [f"<answer>{text}</answer>" for text in [*right[:count], *wrong[: 8 - count]]] + ["s/(i+n)"] * 2
        tried = [Trajectory(known, [Turn("policy", "policy", np.zeros(1), np.zeros(1), text=text)]) for text in texts]
        (reward,) = WIRELESSMATHLM.rewards
        paid = [float(mark or 0.0) for mark in run_async(reward(tried, key=Key.of(0)))]
        rows = [{"group": "g", "scores": {"reward": mark}, "logp": [-1.0]} for mark in paid]
        advantages = [row[0] for row in inspect_rows(WIRELESSMATHLM, rows)["advantages"]]
        n, k = len(texts), count
        due = [math.sqrt((n - k) * (n - 1) / (n * k)) if k else 0.0] * k
        due += [-math.sqrt(k * (n - 1) / (n * (n - k)))] * (n - k)
        off.append(gap(advantages, due))
    return below(1e-4, off=max(off))


def _exam(pupil: Pupil, task: str) -> float:
    """The share of 200 unseen questions answered rightly, sampled as in training."""
    subject = tasks.find(task)
    questions = [Assignment(subject.scenario("eval", number), 1, pupil.parts.decoding) for number in range(200)]
    played = run_async(pupil.parts.player.play(questions, key=Key.of(0).derive("exam")))
    return fmean(map(subject.success, played))


FIELDS = {"wireless": "wireless", "other": "wireless?field=general"}


@cache
def _pupil(seed: int) -> Pupil:
    """After the lessons, and before a step of the recipe as shipped."""
    return after_lessons(
        WIRELESSMATHLM, "wireless", TAUGHT, {"update.lr": THEN["update.lr"], "seed": seed}, steps=LESSONS
    )


@cache
def _right_before() -> dict[str, float]:
    """The share that is right by field; the seed of what follows has no part in it."""
    return {field: _exam(_pupil(0), task) for field, task in FIELDS.items()}


@cache
def _right_after(seed: int) -> dict[str, float]:
    """The same after as many steps as the task suggests."""
    _right_before()
    pupil = _pupil(seed).run(int(THEN["steps"]))
    return {field: _exam(pupil, task) for field, task in FIELDS.items()}


@claim(
    "`hocket train --recipe wirelessmathlm`: of 200 questions with unseen letters it answers rightly after 80 steps at "
    "least 15 more in a hundred than after the lessons, and at least half as many again, in each of 2 seeds.",
    slow=True,
    learns=True,
)
def it_learns_from_verdicts_alone() -> Finding:
    before = _right_before()["wireless"]
    after = [_right_after(seed)["wireless"] for seed in range(2)]
    return Finding(all(share > max(before + 0.15, 1.5 * before) for share in after), say(before=before, after=after))


def _equal_forms(run: ShippedRun) -> dict[str, float]:
    """How many answers algebra alone finds right."""
    texts, (reward,) = ExactMatch(), WIRELESSMATHLM.rewards
    played = [item for row in run.results if row.experience for item in row.experience.trajectories]
    paid = zip(run_async(reward(played, key=Key.of(0))), run_async(texts(played, key=Key.of(0))), strict=True)
    return {"right in another form": float(sum(bool(mine) and not theirs for mine, theirs in paid))}


claim.shipped(
    WIRELESSMATHLM,
    "rewards",
    without={"rewards": (ExactMatch(),)},
    first={"recipe": "sft", "task": TAUGHT, "steps": 60, "update.lr": 0.003},
    steps=2,
    sees=_equal_forms,
)
