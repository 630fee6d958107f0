"""Listener-rewarded GRPO's claims."""

import asyncio
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import below, cases, gap, inspect_rows, same_gradient, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.recorded_answers import group_relative
from hocket.lab.world import Answer as Said
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.preference.listener_grpo import LISTENER_GRPO, Listener, heard, persuaded, right_option
from hocket.rewards.combine import WeightedSum
from hocket.rewards.judging import Answer, Judge, Question
from hocket.stages import Split
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("listener-grpo", "arXiv:2506.22832")

ASKED = Scenario("s", "Which is better, A: 3+4 or B: 1+2?", "A")


class Hears(Judge):
    """A listener who says how likely A is, by the prompt's length, and remembers what it was asked."""

    def __init__(self, words: bool = False) -> None:
        super().__init__("hears")
        self.asked, self.words = list[Question](), words

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        self.asked += questions
        odds = [len(question.prompt) % 7 - 3.0 for question in questions]
        if self.words:
            return [Answer("A" if one > 0 else "nothing" if one == 0 else "I say B") for one in odds]
        return [Answer("A", logp=(one - 4.0, -4.0)) for one in odds]


def trajectory(text: str, scenario: Scenario = ASKED) -> Trajectory:
    """One answer in these words."""
    none = np.zeros(1, np.int64)
    return Trajectory(scenario, [Turn(agent="policy", policy="policy", observation=none, action=none, text=text)])


def graded(reward: Listener, *texts: str) -> list[float | None]:
    """What a listener makes of answers."""
    return list(asyncio.run(reward([trajectory(text) for text in texts], key=Key.of(0))))


@claim("The listener never hears the verdict: whatever it is, question and q are the same.")
def the_listener_never_hears_the_verdict_whatever_it_is_question() -> Finding:
    thoughts = ("A=7, B=3", "", "it is <answer>A</answer> I think", "one\ntwo")
    apart, leaks = [], 0
    for inside in thoughts:
        said = [f"<think>{inside}</think><answer>{verdict}</answer>" for verdict in ("A", "B", "neither")]
        listener = Hears()
        values = [float(value or 0.0) for value in graded(Listener(judge=listener), *said)]
        apart.append(max(values) - min(values))
        leaks += len({question.prompt for question in listener.asked}) - 1
        leaks += any("answer>" in question.prompt or "neither" in question.prompt for question in listener.asked)
    open_ended = heard("<think>A=7 <answer>B</answer>"), heard("<think>A=7 <answer>B"), heard("<answer>B</answer>")
    return below(1e-12, leaks == 0, open_ended == ("A=7", "A=7", ""), q_by_verdict=max(apart))


@claim("q is the listener's probability of the right option among the options; by words it is 1, 0 or no opinion.")
def q_is_the_listeners_probability_of_the_right_option_among_the() -> Finding:
    off = [
        abs(float(persuaded(Answer("A", logp=(a, b)), ("A", "B"), right) or 0.0) - wanted / (1 + math.exp(b - a)))
        for a, b in ((-1.0, -2.0), (-900.0, -903.0), (0.0, 0.0), (-1.0, -800.0))
        for right, wanted in (("A", 1.0), ("B", math.exp(b - a)))
    ]
    words = [persuaded(Answer(text), ("A", "B"), "A") for text in ("A", "I say B", "nothing", None)]
    unknown = right_option(replace(ASKED, answer="C")), right_option(replace(ASKED, answer=None))
    no_right = persuaded(Answer("A"), ("A", "B"), None), persuaded(Answer("A", logp=(-1.0, -2.0)), ("A", "B"), None)
    nothing_said = words == [1.0, 0.0, None, None] and unknown == no_right == (None, None)
    return below(1e-12, nothing_said, off=max(off))


@claim("Without a judge the rule reads the last numbers that thoughts give to the options, and knows nothing of one.")
def without_a_judge_the_rule_reads_the_last_numbers_that_thoughts() -> Finding:
    said = [
        ("A=7 B=5", 1 / (1 + math.exp(-2))), ("A: 1, B: 9, no, A = 4 and B=4", 0.5), ("A=7", 0.5), ("A=3+4 B=1+2", 0.5),
        ("A=-2 B=3", 1 / (1 + math.exp(5))), ("A=999999 B=0", 1.0), ("", 0.5),
    ]  # fmt: skip
    ruled, three = LISTENER_GRPO.rewards[1], {"options": ("A", "B", "C")}
    assert isinstance(ruled, Listener)

    def agrees(text: str, wanted: float) -> bool:
        """Of A it is `wanted`, of B the rest, and of another option, or of three, nothing."""
        one = f"<think>{text}</think><answer>B</answer>"
        (of_a,), of_b = graded(ruled, one), ruled._ruled(trajectory(one, replace(ASKED, answer="B")))
        others = replace(ASKED, answer="C"), replace(ASKED, metadata=three)
        silent = [ruled._ruled(trajectory(one, scenario)) for scenario in others] == [None, None]
        return silent and gap([float(of_a or 0.0), float(of_b or 0.0)], [wanted, 1 - wanted]) < 1e-9

    found, (sharp,) = cases(said, agrees), graded(Listener(sharpness=3.0), "<think>A=2 B=1</think>")
    return Finding(found.holds and abs(float(sharp or 0.0) - 1 / (1 + math.exp(-3))) < 1e-9, found.saw)


@claim("The reward is f [form] + a [right] + b q, and credit GRPO's; with b = 0 it is GRPO on form and verdict.")
def the_reward_is_f_form_a_right_b_q_and_credit_grpos_with_b_0_it() -> Finding:
    gaps, rng = [], Key.of(0).derive("rewards").numpy()
    weights = {reward.name: reward.weight for reward in LISTENER_GRPO.rewards}
    for _ in range(10):
        right, q, form = rng.integers(0, 2, 4).tolist(), rng.random(4).tolist(), rng.integers(0, 2, 4).tolist()
        rows = [
            {"group": "g", "logp": [-1.0, -0.5], "scores": {"correct": float(r), "listener": x}}
            | {"text": "<think>so</think><answer>A</answer>" if formed else "<think></think><answer>A</answer>"}
            for r, x, formed in zip(right, q, form, strict=True)
        ]
        for b in (0.5, 0.0):
            recipe = LISTENER_GRPO.but({"combine": WeightedSum({**weights, "listener": b})})
            wanted = [0.5 * formed + r + b * x for r, x, formed in zip(right, q, form, strict=True)]
            gaps.append(gap([row[0] for row in inspect_rows(recipe, rows)["advantages"]], group_relative(wanted)))
    formless = same_gradient(LISTENER_GRPO.but({"shaping": ()}), GRPO, 5, "listener")
    return below(1e-9, weights == {"correct": 1.0, "listener": 0.5}, formless.holds, off=max(gaps))


# ---------------------------------------------------------------- what is learnt

BLANK = 2
"""Of the thoughts (A weighs more, B weighs more, nothing), the one that says nothing."""
THOUGHTS = ("A=3 B=0", "A=0 B=3", "hm")


@dataclass(frozen=True)
class Compared(World):
    """Two questions; the right verdict on question n is option n."""

    def scenario(self, split: Split, number: int) -> Scenario:
        return replace(super().scenario(split, number), answer="AB"[number])


def shown(question: int, said: Said) -> str:
    """A thought and a verdict in words."""
    return f"<think>{THOUGHTS[said[0]]}</think><answer>{'AB?'[said[1]]}</answer>"


def follows(question: int, said: Said) -> Hashable:
    """A verdict goes by what the thought says; after a thought that says nothing, by how the question looks."""
    if not said:
        return ("thought", question)
    return ("looks", question) if said[0] == BLANK else ("thought says", said[0])


PAIRS = Compared(2, 3, 2, lambda question, said: float(said[1] == question), context=follows, text=shown)


def quiet(policy: Tabular) -> None:
    """It says something one time in five, and that at random."""
    for question in range(2):
        policy.logits[policy.row(question, ())] = torch.tensor([0.1, 0.1, 0.8], dtype=torch.float64).log()


def agreement(bench: Bench) -> float:
    """How likely the listener holds what the policy's verdict is."""

    def told(question: int, said: Said) -> float:
        chance = Listener()._ruled(trajectory(shown(question, said)))  # of A
        assert chance is not None
        return {0: chance, 1: 1 - chance}.get(said[1], 0.0)

    return bench.expected(told)


def shifted(bench: Bench) -> float:
    """The success rate where things look like the other question, and are what they were."""
    with torch.no_grad():
        tables = torch.softmax(bench.policy.logits, -1)
    total = 0.0
    for question in range(2):
        thought = tables[bench.policy.row(question, ())]
        for said in range(3):
            place = bench.policy.row(1 - question if said == BLANK else question, (said,))
            total += float(thought[said] * tables[place][question]) / 2
    return total


@claim(
    "With a listener thoughts come to say what the verdict is and accuracy survives a change of looks; without one, "
    "verdicts are as right where things look as ever, thoughts say nothing, and that accuracy is lost.",
    slow=True,
)
def with_a_listener_thoughts_come_to_say_what_the_verdict_is_and() -> Finding:
    deaf = LISTENER_GRPO.but({"rewards.1.weight": 0.0})
    figures: dict[str, list[float]] = {}
    for name, recipe in (("heard", LISTENER_GRPO), ("unheard", deaf)):
        benches = [
            Bench(PAIRS, recipe.but({"rollout.samples": 16}), seed, start=quiet, steps=150).run(150, every=999)
            for seed in range(4)
        ]
        figures |= {
            f"{name}_accuracy": [one.success() for one in benches],
            f"{name}_agreement": [agreement(one) for one in benches],
            f"{name}_shifted": [shifted(one) for one in benches],
        }
    right = min(figures["heard_accuracy"] + figures["unheard_accuracy"]) > 0.9
    agreed = min(figures["heard_agreement"]) > max(figures["unheard_agreement"]) + 0.1
    kept = min(figures["heard_shifted"]) > max(figures["unheard_shifted"]) + 0.2
    return Finding(right and agreed and kept, say(**figures))


claim.spares(
    "true + rng.integers(-self.noise, self.noise + 1, size=true.shape) -> "
    "true - rng.integers(-self.noise, self.noise + 1, size=true.shape)",
    "errors are as likely up as down",
)
claim.shipped(
    LISTENER_GRPO,
    "rewards",
    without={"rewards.1.weight": 0.0},
    settings={"judge": "nano"},
)
