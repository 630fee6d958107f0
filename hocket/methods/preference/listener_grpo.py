"""A listener who must be persuaded: GRPO for thoughts that carry the verdict (Gambashidze et al., arXiv:2506.22832).

A policy compares two things, thinks, and names the better one. A frozen listener is shown the same question and the
thoughts without the verdict, and says how likely it holds each of the two to be better. The probability q that it gives
to the one that is better is a reward beside those for form and for a right verdict (`Listener`), so a right verdict
after thoughts that argue for the other, or for neither, is worth less.

The paper's judge images; here two lists of attributes are compared in words (`Preferred`). The weights are chosen here.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import ANSWER
from hocket.core.options import checked
from hocket.methods.base.grpo import GRPO
from hocket.rewards.judging import Answer, Judge, Question, noted, prompt_text
from hocket.rewards.tags import TagFormat
from hocket.rewards.verdict_words import choice_in
from hocket.rewards.verifiers import ExactMatch, answer_text, equal
from hocket.stages import Reward, Split
from hocket.tasks.arithmetic import tagged_answer
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

LISTENING = "{prompt}\n\nSomebody thinks:\n{thoughts}\n\nWhich one is better?"
"""What the listener is asked."""

OPTIONS = ("A", "B")

_THOUGHTS = re.compile(r"<think>(.*?)(?:</think>|$)", re.DOTALL)


def heard(text: str) -> str:
    """The thoughts of a response without its verdict: what stands in `<think>`, and nothing of answer tags in there.

    A thought that is not closed ends where an answer begins; there is nothing to hear in a response without thoughts.
    """
    return "\n".join(part.split("<answer>")[0].strip() for part in _THOUGHTS.findall(ANSWER.sub("", text)))


@dataclass(frozen=True)
class Listener(Reward):
    """q, the probability that a listener gives to the right one of the options after hearing the thoughts alone.

    The listener is the run's judge, frozen: q is its probability of the right option among the options, by its
    log-probs; of one that answers in words alone it is 1 or 0, and no opinion where it names none. Without a judge it
    is a rule: 1 / (1 + exp(-sharpness (a - b))) for A, with a and b the last numbers that the thoughts give to A and B
    (`A=7`, `B: 5`); 1/2 where they do not give both.

    The options are those of the scenario's metadata, `options`, else A and B. No opinion of a scenario whose answer is
    none of them.

    Attributes:
        sharpness: of the rule. weight: b.
    """

    sharpness: float = 1.0
    name: str = "listener"
    weight: float = 0.5
    judge: Judge | None = None

    asks_judge: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.sharpness <= 0:
            raise ValueError(f"sharpness must be positive, not {self.sharpness}")

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        if self.judge is None:
            return [self._ruled(trajectory) for trajectory in trajectories]
        asked = [self.question(trajectory) for trajectory in trajectories]
        answers = await asyncio.to_thread(self.judge, asked)
        told = [
            persuaded(answer, question.choices, right_option(trajectory.scenario))
            for answer, question, trajectory in zip(answers, asked, trajectories, strict=True)
        ]
        known = [place for place, one in enumerate(trajectories) if right_option(one.scenario) is not None]
        noted(self.judge, [told[n] for n in known], [answers[n] for n in known], "no one of the options")
        return told

    def question(self, trajectory: Trajectory) -> Question:
        """What is asked about one trajectory; the verdict is no part of it."""
        prompt = LISTENING.format(prompt=prompt_text(trajectory.scenario), thoughts=heard(trajectory.text))
        return Question(prompt, options_of(trajectory.scenario), longest=16)

    def _ruled(self, trajectory: Trajectory) -> float | None:
        right, options = right_option(trajectory.scenario), options_of(trajectory.scenario)
        if right is None or len(options) != 2:
            return None
        first, second = (_given(heard(trajectory.text), option) for option in options)
        gap = 0.0 if first is None or second is None else self.sharpness * (first - second)
        chance = 0.5 * (1 + math.tanh(gap / 2))  # the logistic function without overflow
        return chance if right == options[0] else 1 - chance


def options_of(scenario: Scenario) -> tuple[str, ...]:
    """What there is to choose from."""
    return tuple(scenario.metadata.get("options") or OPTIONS)


def right_option(scenario: Scenario) -> str | None:
    """The option that is the scenario's answer."""
    answer = scenario.answer
    return None if answer is None else next((o for o in options_of(scenario) if equal(o, answer_text(answer))), None)


def persuaded(answer: Answer, options: Sequence[str], right: str | None) -> float | None:
    """q by a listener's answer."""
    if right is None or answer.verdict is None:
        return None
    if answer.logp is not None:
        top = max(answer.logp)
        chances = [math.exp(one - top) for one in answer.logp]
        return chances[list(options).index(right)] / math.fsum(chances)
    named = choice_in(answer.verdict, options)
    return None if named is None else float(named == right)


def _given(thoughts: str, option: str) -> float | None:
    found = re.findall(rf"(?<!\w){re.escape(option)}\s*[=:]\s*(-?\d{{1,9}})(?![\d+*-])", thoughts)
    return float(found[-1]) if found else None


# ---------------------------------------------------------------- what is compared


class Preferred(TextTask):
    """Two lists of attributes, of which the one with the larger sum is better.

    Each attribute is 1 to 9, and what is shown is off by up to `noise`; the verdict goes by the true sums, which
    differ. Metadata: `options` and the true `sums`.
    """

    def __init__(self, attributes: int = 3, noise: int = 1) -> None:
        if not 1 <= attributes <= 6 or not 0 <= noise <= 4:
            raise ConfigurationError(
                f"task preferred-lists: attributes lie in 1 to 6 and noise in 0 to 4, not {attributes} and {noise}"
            )
        self.name = f"preferred-lists?attributes={attributes}&noise={noise}"
        self.attributes, self.noise = attributes, noise

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive(self.name, split, number).numpy()
        prompt, sums = self._drawn(rng)
        while sums[0] == sums[1] or split_of(prompt) != split:
            prompt, sums = self._drawn(rng)
        told = {"options": OPTIONS, "sums": sums}
        answer = OPTIONS[int(sums[1] > sums[0])]
        return Scenario(f"preferred-lists/{split}/{number}", prompt, answer, told, seed=number)

    def _drawn(self, rng: np.random.Generator) -> tuple[str, tuple[int, int]]:
        true = rng.integers(1, 10, size=(2, self.attributes))
        shown = (true + rng.integers(-self.noise, self.noise + 1, size=true.shape)).clip(min=0).tolist()
        first, second = ("+".join(map(str, row)) for row in shown)
        return f"Which is better, A: {first} or B: {second}?", (int(true[0].sum()), int(true[1].sum()))

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 64}

    def verify(self, text: str, scenario: Scenario) -> float:
        return float((tagged_answer(text) or "").strip() == scenario.answer)

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Besides what every task tells, `persuasive`: whether thoughts say more for the right one, by the rule."""
        told = Listener()._ruled(trajectory)
        return {**super().describe(trajectory), "persuasive": float(told is not None and told > 0.5)}


def from_settings(name: str, settings: Mapping[str, str]) -> Preferred:
    """The task with these settings."""
    return Preferred(**checked(name, settings, {"attributes": int, "noise": int}))


PREFERRED_LISTS = TaskForm(
    name="preferred-lists",
    description="which of two lists of noisy attributes is better, to be thought about, e.g. ?attributes=3&noise=1",
    make=from_settings,
)


LISTENER_GRPO = GRPO.but(
    name="listener-grpo",
    title="GRPO with a listener who hears the thoughts alone",
    source="Gambashidze et al., arXiv:2506.22832; weights and the rule that stands in chosen here",
    family="preference",
    catalogue_ids=("listener-grpo",),
    axes=("reward", "policy"),
    formula="R = f [form] + a [verdict right] + b q,  q = P_listener(right option | question, thoughts)",
    note="shown on text; images come with their modality",
    conventions={
        **GRPO.conventions,
        "weights": "f = 0.5, a = 1 and b = 0.5, chosen here; set shaping.0.weight, rewards.0.weight, rewards.1.weight",
        "listener": "--judge X, a frozen model: its probability among the options; of one that answers in words 1 or 0",
        "without a judge": "a rule that reads the last numbers which thoughts give to the options",
        "heard": "what stands in <think>, with answer tags in there removed; the verdict is never shown",
        "form": "one filled <think> and one <answer> after it",
        "question": f"the listener is asked {LISTENING!r}",
    },
    task="preferred-lists",
    rewards=(ExactMatch(), Listener()),
    shaping=(TagFormat(weight=0.5, thought="filled"),),
)
