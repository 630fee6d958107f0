"""A team of blocks whose accuracy under every topology and every set of prompts is known exactly."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hocket.agents.search.searcher import CaseResult
from hocket.core.keys import Key
from hocket.core.texts import Block, Texts, problem

SKILLS = 3
"""Rules that each role's prompt may hold; all of them are the best prompt."""


@dataclass(frozen=True)
class Effect:
    """What a block adds to accuracy: `gain` times how many there are, up to `useful`; a further one costs half of it.

    With a prompt of quality q, the share of its role's rules in it, that is multiplied by `q - need`: below the need
    the block does harm. `need` None is a block without a prompt of its own, which adds what it adds.
    """

    gain: float
    useful: int = 1
    need: float | None = None


@dataclass(frozen=True)
class Built:
    """A team of blocks: right with chance `able` plus a third of a tenth for each rule of the first role, plus effects.

    Effects of blocks add up; accuracy is kept in [0, 1]. Greedily played, as on development cases, a case scores the
    exact accuracy, as if there were endlessly many; with `noise`, its draw from key and texts, which tells nothing.
    """

    able: float = 0.3
    effects: Mapping[str, Effect] = field(default_factory=dict)
    noise: bool = False
    blocks: Sequence[Block] = (
        Block("predict", "predictor", (1, 3, 5)),
        Block("summarise", "summariser", (0, 1)),
        Block("reflect", "reflector", (0, 1, 2)),
        Block("debate", "debater", (0, 1, 2)),
    )

    @property
    def roles(self) -> Sequence[str]:
        return tuple(dict.fromkeys(block.role for block in self.blocks))

    def calls(self, texts: Texts) -> int:
        count = self._counts(texts)
        return count["summarise"] + count["predict"] * (1 + 2 * count["reflect"] + count["debate"])

    def accuracy(self, texts: Texts) -> float:
        """Exact."""
        found, count = self.able + 0.1 * self.quality(texts, self.roles[0]), self._counts(texts)
        for block in self.blocks:
            effect, more = self.effects[block.name], block.counts.index(count[block.name])
            worth = effect.gain * (min(more, effect.useful) - max(more - effect.useful, 0) / 2)
            found += worth * (1.0 if effect.need is None else self.quality(texts, block.role) - effect.need)
        return min(max(found, 0.0), 1.0)

    def best(self, most: int) -> float:
        """The accuracy of the best team of at most so many calls, with the best prompts: by trying all."""
        prompts = {role: " ".join(rule(role, number) for number in range(SKILLS)) for role in self.roles}
        names = [block.name for block in self.blocks]
        counts = itertools.product(*(block.counts for block in self.blocks))
        teams = [Texts(prompts, blocks=dict(zip(names, one, strict=True))) for one in counts]
        return max(self.accuracy(one) for one in teams if self.calls(one) <= most)

    def quality(self, texts: Texts, role: str) -> float:
        """The share of a role's rules in its prompt."""
        return sum(rule(role, number) in texts.prompts.get(role, "") for number in range(SKILLS)) / SKILLS

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        """Case n shows whether rule n is lacking in the prompt of a role that takes part."""
        found, score = [], self.accuracy(texts)
        for case, sample in itertools.product(cases, range(first, first + samples)):
            worth = float(key.derive(texts.digest, case).numpy().random()) if self.noise else score
            lacking = [
                role for role in self._active(texts) if rule(role, case % SKILLS) not in texts.prompts.get(role, "")
            ]
            said = f"lacks {case % SKILLS}" if lacking else "lacks nothing"
            found.append(CaseResult(case, sample, worth, self.calls(texts), "?", "", said))
        return found

    def refuses(self, texts: Texts) -> str | None:
        return problem(texts, self.roles, {})

    def _active(self, texts: Texts) -> list[str]:
        count = self._counts(texts)
        there = [block.role for block in self.blocks if count[block.name] > block.counts[0]]
        return [role for role in self.roles if role in there or role == self.roles[0]]

    def _counts(self, texts: Texts) -> dict[str, int]:
        return {block.name: (texts.blocks or {}).get(block.name, block.counts[0]) for block in self.blocks}


def rule(role: str, number: int) -> str:
    """A rule that a role's prompt may hold."""
    return f"Rule {number} of the {role}."


def mending(question: str) -> str:
    """A reflecting model for `Built`: adds a rule that is lacking to the prompt it is shown.

    It is told no role, so it adds the rule for all; only the one of the prompt's own role matters.
    """
    prompt = re.findall(r"Rule \d of the \w+\.", question.partition("These of its")[0])
    lacking = re.findall(r"lacks (\d)", question)
    missing = next((int(one) for one in lacking if rule(ROLES[0], int(one)) not in prompt), None)
    rules = [] if missing is None else [rule(role, missing) for role in ROLES]
    return " ".join(dict.fromkeys([*prompt, *rules]))


ROLES = ("predictor", "summariser", "reflector", "debater")
