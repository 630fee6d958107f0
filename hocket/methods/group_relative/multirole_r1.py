"""MultiRole-R1: GRPO that rewards reasoning from several perspectives in varied words (arXiv:2507.20187).

First the policy answers every question from several roles; what it thought in roles whose answers agree is merged
into one chain, which it imitates (`MergedRoles`, no label is read). Then it is reinforced, and `RoleDiversity` adds a
bounded term for the roles that headings name and for the share of different word pairs. Of the paper the abstract was
at hand: what agrees, how it is merged, and the two terms are chosen here. In `perspectives` the right answer depends on
the role for whom is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from hocket.core.batch import Batch
from hocket.core.columns import TEXT
from hocket.core.keys import Key
from hocket.core.markup import ANSWER, tagged
from hocket.core.options import checked
from hocket.core.signals import returns
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.sft import SFT
from hocket.rewards.members import with_return
from hocket.rewards.similarity import words_of
from hocket.rollout.demonstrations import demonstrated
from hocket.rollout.groups import groups
from hocket.rollout.reference import asked_of_reference
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Shaping, Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Assignment, Experience, Scenario, Trajectory

HEADING = r"(?im)^\W*(?:role\s*:\s*|as\s+(?:an?\s+|the\s+)?)([^\W\d_][^:\n]{0,40}?)\W*:"
"""A line that opens the part of a role: `Role: teacher:`, `As a parent:`, `**As the mayor**:`."""


def distinct_n(text: str, n: int = 2) -> float:
    """The share of different ones among a text's word n-grams (Li et al. 2016, arXiv 1510.03055); 0 without any."""
    words = words_of(text)
    grams = list(zip(*(words[start:] for start in range(n)), strict=False))
    return len(set(grams)) / len(grams) if grams else 0.0


def roles_of(text: str, heading: str = HEADING) -> set[str]:
    """The different roles that headings of a text name."""
    return {" ".join(name.lower().split()) for name in re.findall(heading, text)}


@dataclass(frozen=True)
class RoleDiversity(Shaping):
    """`R += weight (share min(1, roles / target) + (1 - share) distinct-n)`, of each text on its own.

    MultiRole-R1 (arXiv 2507.20187) rewards perspectives and lexical variety besides the answer; the two terms and
    their weights are chosen here. With `weight` 0 the batch is handed on untouched.

    Attributes:
        weight: of the whole term; above some 0.2 diversity begins to buy wrong answers.
        share: of the roles in the term. target: how many different roles are enough. n: of the n-grams.
        heading: a regular expression whose first group is the role's name.
    """

    weight: float = 0.2
    share: float = 0.5
    target: int = 3
    n: int = 2
    heading: str = HEADING

    def __post_init__(self) -> None:
        if self.target < 1 or self.n < 1 or not 0 <= self.share <= 1:
            raise ValueError("target and n must be at least 1 and share must lie in [0, 1]")
        if re.compile(self.heading).groups < 1:
            raise ValueError("heading must have a group in parentheses around the role's name")

    def __call__(self, batch: Batch) -> Batch:
        if self.weight == 0:
            return batch
        texts = TEXT.read(batch, "RoleDiversity")
        terms = [self.diversity(text or "") for text in texts]
        return with_return(batch, returns(batch) + self.weight * torch.tensor(terms, dtype=torch.float64))

    def diversity(self, text: str) -> float:
        """The term before its weight, in [0, 1]."""
        roles = min(1.0, len(roles_of(text, self.heading)) / self.target)
        return self.share * roles + (1 - self.share) * distinct_n(text, self.n)


# ---------------------------------------------------------------- the first stage


@dataclass(frozen=True)
class MergedRoles(Rollout):
    """Chains of thought of several roles, written by the policy as it was before training, which it imitates.

    A question is answered `samples` times as it is, and as often from the view of each role, whom the line `ask` below
    the question names. A role has a part in the chain where most of its answers are the same: what stands before one of
    them, under a heading that names the role. Parts come in random order, and the chain ends with what most answers to
    the plain question say. Where there is no such answer, or fewer than `least` parts, nothing is imitated. No verdict
    on an answer is read.

    Attributes:
        roles: whom to ask, unless the scenario's metadata `roles` names others.
        metrics: `rollout/merged`, the share of questions with a chain; `rollout/roles`, parts of a chain.
    """

    samples: int = 4
    roles: tuple[str, ...] = ("teacher", "parent", "mayor")
    ask: str = "Answer as a {role}."
    least: int = 2

    plays_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.samples < 1 or self.least < 1:
            raise ValueError(f"samples and least must be at least 1, not {self.samples} and {self.least}")
        if "{role}" not in self.ask:
            raise ValueError(f"ask must name the role by {{role}}, not {self.ask!r}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The chains as demonstrations of the plain questions; what was sampled for them is discarded."""
        wanted, lines = list[Assignment](), list[list[str]]()
        for asking in asked:
            lines.append([str(role) for role in asking.scenario.metadata.get("roles", self.roles)])
            views = [asked_of_reference(asking, self.samples, self.ask.format(role=role)) for role in lines[-1]]
            wanted += [asked_of_reference(asking, self.samples), *views]
        played = iter(await groups(play, wanted))
        sampled, shown, parts = list[Trajectory](), list[Assignment](), list[int]()
        for asking, roles in zip(asked, lines, strict=True):
            plain, seen = next(played), {role: next(played) for role in roles}
            sampled += [one for group in (plain, *seen.values()) for one in group]
            chain = self.merged(plain, seen, key.derive("order", asking.scenario.id))
            if chain is not None:
                parts.append(len(roles_of(chain)))
                told = {**asking.scenario.metadata, "demonstration": chain}
                given = replace(asking.scenario, metadata=told)
                shown.append(replace(asking, scenario=demonstrated(given), samples=1, source="expert"))
        kept = [one for group in await groups(play, shown) for one in group]
        if kept:
            await score(kept)
        count = max(1, len(parts))
        metrics = {"rollout/merged": len(parts) / max(1, len(asked)), "rollout/roles": sum(parts) / count}
        return Experience(kept, sampled, metrics)

    def merged(self, plain: Sequence[Trajectory], views: Mapping[str, Sequence[Trajectory]], key: Key) -> str | None:
        """The chain of a question, from its plain answers and those of each role; None where there is none."""
        answer, _ = agreed(plain)
        parts = {role: thought for role, said in views.items() if (thought := agreed(said)[1])}
        if answer is None or len(parts) < self.least:
            return None
        roles = list(parts)
        lines = [headed(roles[place], parts[roles[place]]) for place in key.numpy().permutation(len(roles)).tolist()]
        return "\n".join([*lines, f"<answer>{answer}</answer>"])


def agreed(said: Sequence[Trajectory]) -> tuple[str | None, str]:
    """The answer that more than half of the replies give, in its tags, and what the first of these says before it."""
    given = [(tagged(one.text), one.text) for one in said if one.failure is None]
    counts = Counter(answer for answer, _ in given if answer is not None)
    answer, count = counts.most_common(1)[0] if counts else (None, 0)
    if 2 * count <= len(said):
        return None, ""
    return answer, next(ANSWER.split(text)[0].strip() for own, text in given if own == answer)


def headed(role: str, thought: str) -> str:
    """A part of a chain; a heading is written where the thought does not begin with one."""
    return thought if re.match(HEADING, thought) else f"As a {role}: {thought}"


# ---------------------------------------------------------------- a task of its kind

ROLES = ("cook", "buyer", "guest")
"""Who looks at the first merit, at the second, and at both together."""

GOODS = ("fig", "plum", "pear", "date", "kiwi", "lime")


class Perspectives(TextTask):
    """Which of two goods suits a role: the cook looks at the first of two numbers, the buyer at the second, the guest
    at their sum.

    The prompt says for whom, and the right answer depends on it. Metadata name the `roles` that there are and the
    `role` for whom is asked. No two goods are equal to anybody, and they do not suit all alike; what is in one split is
    in no other, in either order.
    """

    def __init__(self) -> None:
        self.name = "perspectives"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive(self.name, split, number).numpy()
        while True:
            goods = [GOODS[place] for place in rng.permutation(len(GOODS))[:2].tolist()]
            merits = rng.integers(1, 10, (2, 2)).tolist()
            picks = [pick(role, goods, merits)[0] for role in ROLES]
            listed = ", ".join(f"{good} {first} {second}" for good, (first, second) in zip(goods, merits, strict=True))
            if None not in picks and len({*picks}) == 2 and split_of(str(sorted(listed.split(", ")))) == split:
                break
        role = ROLES[int(rng.integers(len(ROLES)))]
        told = {"roles": ROLES, "role": role, "goods": goods, "merits": merits}
        answer = picks[ROLES.index(role)]
        return Scenario(f"{self.name}/{split}/{number}", f"{listed}. For the {role}?", answer, told, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(tagged(text) == scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 128}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`roles` of three named, and the share of different word pairs, beside success and form."""
        roles = roles_of(trajectory.answer)
        form = float(tagged(trajectory.answer) is not None)
        return {"format": form, "roles": len(roles) / len(ROLES), "distinct": distinct_n(trajectory.answer)}

    @property
    def lessons(self) -> Lessons:
        """What a role thinks, and whose view a question asks for, which is often mistaken."""
        return Lessons(
            "to think as one role, or as the one that a line names, often as another than is asked for",
            150,
            self._lesson,
            then=lambda recipe: {"steps": 25, "update.lr": 1e-3, "evaluation.n": 100},
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
        about, prompt = scenario.metadata, str(scenario.prompt)
        role = about["role"] if rng.random() < SKILL else ROLES[int(rng.integers(len(ROLES)))]
        if rng.random() < TOLD:
            role = ROLES[int(rng.integers(len(ROLES)))]
            prompt += "\n" + MergedRoles().ask.format(role=role)
        answer, thought = pick(role, about["goods"], about["merits"])
        said = f"As a {role}: {thought}\n<answer>{answer}</answer>"
        return [Lesson(({"role": "user", "content": prompt},), ({"role": "assistant", "content": said},))]


SKILL, TOLD = 0.4, 0.5
"""How often a beginner thinks as the role asked for, else as any; and how often a line names the role."""


def pick(role: str, goods: Sequence[str], merits: Sequence[Sequence[int]]) -> tuple[str | None, str]:
    """What suits a role, and how it thinks; None where both do."""
    first, second = (one[0] if role == ROLES[0] else one[1] if role == ROLES[1] else sum(one) for one in merits)
    if first == second:
        return None, ""
    high, low, best = (first, second, goods[0]) if first > second else (second, first, goods[1])
    return best, f"{best} has {high}, not {low}"


def from_settings(name: str, settings: Mapping[str, str]) -> Perspectives:
    """The task, which has no settings."""
    checked(name, settings, {})
    return Perspectives()


PERSPECTIVES = TaskForm(
    name="perspectives",
    description="which of two goods suits a cook, a buyer or a guest, each by another number",
    make=from_settings,
)


# ---------------------------------------------------------------- how it is learnt

MULTIROLE_R1_SFT = SFT.but(
    name="multirole-r1-sft",
    title="Chains of several roles, merged from the policy's own answers, imitated",
    source="Diversity-Enhanced Reasoning for Subjective Questions, arXiv:2507.20187 (abstract)",
    family="group-relative",
    formula=f"{SFT.formula} over merged chains of at least 2 roles whose answers agree",
    conventions={
        **SFT.conventions,
        "who samples": "the policy before this phase, anew at every visit; --teacher MODEL another",
        "roles": "the scenario's metadata `roles`, else rollout.roles; the paper's model names them",
        "what agrees": "more than half of 4 answers of a role, and of the plain question, whose answer ends the chain",
    },
    task="perspectives",
    rollout=MergedRoles(),
)

MULTIROLE_R1 = GRPO.but(
    name="multirole-r1",
    title="Diversity-enhanced reasoning in several roles",
    source="Diversity-Enhanced Reasoning for Subjective Questions, arXiv:2507.20187",
    catalogue_ids=("multirole-r1",),
    axes=("reward", "data", "team"),
    formula="R'_i = R_i + w (0.5 min(1, roles_i/3) + 0.5 distinct-2_i),  then A_i as in GRPO",
    conventions={
        **GRPO.conventions,
        "diversity": "the two terms and w = shaping.0.weight = 0.2 are chosen here; w = 0 is GRPO bit for bit",
        "roles": "different names in headings such as 'As a teacher:' or 'Role: parent:' (shaping.0.heading)",
        "distinct-n": "of words in lower case, n = 2; 0 for a text of fewer words",
        "first stage": "multirole-r1-sft, the phase before in examples/several_roles.yaml",
    },
    task="perspectives",
    shaping=(RoleDiversity(),),
)
