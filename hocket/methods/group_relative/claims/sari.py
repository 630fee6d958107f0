"""SARI's claims."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, say
from hocket.lab.toys.pictured_runs import PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, lines, shaped
from hocket.lab.toys.warmed_runs import taught
from hocket.methods.group_relative.sari.method import SARI, PassRateOrder, SectionFormat
from hocket.methods.group_relative.sari.task import ReasonedTones
from hocket.tasks.tones import NOTES
from hocket.train.evaluate import EvaluationResult
from hocket.train.ledger import Ledger
from hocket.types import Scenario

claim = Claims("sari", "arXiv:2504.15900")

THOUGHT = "plan:highest\nhear:do la\nsteps:do la\nsum:la"
FORMED = f"<think>{THOUGHT}</think><answer>la</answer>"


def without(old: str, new: str = "") -> str:
    """The formed text with a part of its thought replaced."""
    return FORMED.replace(old, new, 1)


MISFORMED = (
    without("hear:do la\n"),
    without("sum:la", "sum: "),
    without("plan:highest\nhear:do la", "hear:do la\nplan:highest"),
    without("sum:la", "sum:la\nsum:la"),
    without("plan:", "well, plan:"),
    without("plan:", "first\nplan:"),
    without("<answer>la</answer>"),
    f"{THOUGHT}<answer>la</answer>",
    f"<think></think>{THOUGHT}<answer>la</answer>",
    FORMED + "<answer>la</answer>",
    "<think> </think><answer>la</answer>",
    "<answer>la</answer>",
    "",
)


@claim(
    "The reward is the verdict and a point for one answer behind all sections in order, none empty, and nothing else."
)
def the_reward_is_the_verdict_and_a_point_for_the_sections() -> Finding:
    spaced = f"<think>\n {THOUGHT.replace(':', ': ')}\n and so on\n</think>\n<answer>la</answer>"
    texts = (FORMED, spaced, *MISFORMED)
    result = shaped(SARI, [answer(verdict, 2, text=text) for text in texts for verdict in (0.0, 1.0)])
    wanted = [verdict + float(place < 2) for place in range(len(texts)) for verdict in (0.0, 1.0)]
    free = SectionFormat(sections=())
    thought = [free.fits(text) for text in ("<think>la</think><answer>la</answer>", *MISFORMED)]
    due = [True, *(place < 6 for place in range(len(MISFORMED)))]
    return Finding(gap(result, wanted) < EXACT and thought == due, say(texts=len(texts)))


@claim("Advantages are z-scores of the group's rewards, with a KL of 0.04.")
def advantages_are_z_scores_of_the_groups_rewards() -> Finding:
    rows = [answer(verdict, 2, text=text, logp_ref=[-1.0, -1.0]) for text in (FORMED, "") for verdict in (0.0, 1.0)]
    off = gap(advantages(SARI, rows), group_relative([1.0, 2.0, 0.0, 1.0]))
    (penalty,) = SARI.regularisers
    return Finding(off < EXACT and penalty.coefficient == 0.04, say(off=off))  # type: ignore[attr-defined]


class Endless:
    """Questions without end."""

    name = "endless"

    def size(self, split: str) -> int | None:
        return None

    def scenario(self, split: str, number: int) -> Scenario:
        return Scenario(f"n{number}", "?")


TASK: Any = Endless()


def passes_of(curriculum: PassRateOrder, size: int, each: int) -> tuple[list[list[str]], list[dict[str, float]]]:
    """Four passes over a pool, `each` scenarios at once, and the pass rates of every group as it is drawn."""
    ledger, state, rng, key = Ledger(), curriculum.init(), Key.of(1).numpy(), Key.of(0)
    names, rates, step = list[str](), list[dict[str, float]](), 0
    while len(names) < 4 * size:
        step += 1
        new, state = curriculum.ask_with(state, TASK, len(names), each, cast(Any, ledger), key)
        for item in new:
            if len(names) % size == 0:
                rates.append({})
            solved = rng.integers(0, 2, 4).tolist() if int(item.id[1:]) % 3 else [1, 1, 0, 0]
            rates[-1][item.id] = fmean(solved)
            names.append(item.id)
            for success in solved:
                ledger.record(item.id, step, float(success))
    return [names[start : start + size] for start in range(0, 4 * size, size)], rates


@claim(
    "Every pass is over the whole pool; from the second on, the pass rates measured before fall from question to "
    "question, and questions of one rate are in random order."
)
def from_the_second_pass_on_measured_rates_fall() -> Finding:
    size, orders = 24, dict[str, list[list[str]]]()
    for order, sign in (("easy", -1), ("hard", 1), ("shuffled", 0)):
        curriculum = PassRateOrder(prompts=6, pool=size, order=order)  # type: ignore[arg-type]
        uneven, (orders[order], rates) = passes_of(curriculum, size, 5)[0], passes_of(curriculum, size, 6)
        complete = [set(item) == set(orders[order][0]) and len(set(item)) == size for item in (*orders[order], *uneven)]
        steps = [
            rates[turn - 1][b] - rates[turn - 1][a] for turn in (1, 2, 3) for a, b in pairwise(orders[order][turn])
        ]
        sorted_so = all(sign * step >= 0 for step in steps) if sign else min(steps) < 0 < max(steps)
        if not sorted_so or not all(complete):
            return Finding(False, say(order=order, passes=str(orders[order])))
    alike = [[name for name in item if not int(name[1:]) % 3] for item in orders["easy"]]
    mixed = all(former != latter for former, latter in pairwise(alike)) and orders["easy"][0] == orders["shuffled"][0]
    mixed &= all(former != latter for former, latter in pairwise(orders["shuffled"]))
    shipped = SARI.curriculum == PassRateOrder(prompts=16, pool=96, order="easy")
    return Finding(mixed and shipped, say(pool=size, passes=4))


@claim("Lessons are right answers in the wanted form, and their steps hold the answer to what was heard so far.")
def lessons_are_right_answers_in_the_wanted_form() -> Finding:
    form, shares = SectionFormat(), dict[str, float]()
    for chains in ("sections", "free", "both"):
        task, sectioned = ReasonedTones(chains=chains), list[bool]()
        for number in range(16):
            scenario = task.scenario("train", number)
            (lesson,) = task.lessons.play(scenario, Key.of(number).numpy())
            text = str(lesson.said[0]["content"])
            sectioned.append(form.fits(text))
            if task.verify(text, scenario) != 1.0 or not SectionFormat(sections=()).fits(text):
                return Finding(False, say(text=text))
            melody = [(str(note), int(units)) for note, units in scenario.metadata["melody"]]
            if sectioned[-1] and steps_of(text) != so_far(str(scenario.metadata["kind"]), melody):
                return Finding(False, say(text=text))
        shares[chains] = fmean(sectioned)
    holds = shares["sections"] == 1 and shares["free"] == 0 and 0.25 < shares["both"] < 0.75
    return Finding(holds, say(in_sections=shares))


def steps_of(text: str) -> list[str]:
    return text.split("steps:")[1].split("\n")[0].split()


def so_far(kind: str, melody: list[tuple[str, int]]) -> list[str]:
    """The answers to the first one, two, ... tones."""
    results = list[str]()
    best: tuple[str, int] | None = None
    for count, (note, units) in enumerate(melody, 1):
        value = {"count": count, "highest": list(NOTES).index(note), "longest": units}[kind]
        if best is None or value > best[1]:
            best = (str(count) if kind == "count" else note, value)
        results.append(best[0])
    return results


def formed(result: EvaluationResult) -> float:
    """The share of answers with all sections."""
    return fmean(SectionFormat().fits(item.answer) for item in result.trajectories)


def figures_of(run: PicturedRun, n: int) -> list[float]:
    """Success of greedy and of sampled answers to unheard melodies, and the share of these with all sections."""
    sampled = run.measured(n, temperature=1.0)
    return [run.measured(n).success, sampled.success, formed(sampled)]


@claim(
    "After 40 lessons 24 steps bring more sampled answers into the sections, and right ones become no fewer; without "
    "lessons none are found. Easy questions first are worth less than 10 points either way. That it is right more "
    "often was not seen.",
    slow=True,
)
def after_lessons_more_answers_are_in_the_sections() -> Finding:
    steps, n, task, right = 24, 120, "reasoned-tones", dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        model = taught(task, 40, Path(folder), model="nano-audio")
        for order in ("easy", "shuffled"):
            run = PicturedRun.of(SARI.but({"curriculum.order": order}), task, model=model)
            right.setdefault("lessons", figures_of(run, n))
            right[order] = figures_of(run.train(steps), n)
            silent = run.blind(n).success
        cold = PicturedRun.of(SARI, task, model="nano-audio").train(6)
        right["no lessons, 6 steps"] = figures_of(cold, n)
    lessons, easy, shuffled = right["lessons"], right["easy"], right["shuffled"]
    holds = easy[2] > lessons[2] + 0.1 and easy[1] > lessons[1] - 0.05 and abs(easy[1] - shuffled[1]) < 0.1
    holds &= right["no lessons, 6 steps"][2] == 0 and silent < 0.4
    return Finding(holds, lines(greedy_sampled_and_in_sections=right, silence=silent))


claim.spares("passes + 1 -> passes - 1", "it tells passes apart, and any numbers do")
claim.shipped(
    SARI,
    "shaping",
    settings={"model": "nano-audio"},
    first={"recipe": "sft", "steps": 40, "task": "lessons:reasoned-tones", "update.lr": 1e-3, "model": "nano-audio"},
)
