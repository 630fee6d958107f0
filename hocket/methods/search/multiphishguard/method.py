"""MultiPhishGuard: readers of the parts of a mail, whose word counts by weights that PPO learns.

Three agents read a mail's text, link and sender, each that part alone, and say what they take it for and how sure they
are. Another weighs them, and the weighted vote decides. An adversary rewrites phishing mails so that they pass, and an
explainer may say the verdict in plain words. All are language models that stay as they are but for the one who weighs,
which is paid for the right verdict (`MailGuard`).

Source: "MultiPhishGuard: An LLM-based Multi-Agent System for Phishing Email Detection", its abstract; public work that
rebuilds it has the vote `sum_k w_k p_k` against 1/2 and the reward of a right verdict. Ours is that a language model is
the policy, and says the weights as digits.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hocket.agents.workflows.team import Team
from hocket.agents.workflows.workflow import Outcome, Workflow
from hocket.core.casting import Leading
from hocket.core.columns import InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.credit.each_agent import EachAgent
from hocket.curriculum.random_order import Shuffled
from hocket.methods.base.ppo import PPO
from hocket.methods.search.multiphishguard.task import PARTS, PHISHING, SAFE, Sign, reading, rewriting, weighing
from hocket.rewards.verdict_words import said_aloud
from hocket.rollout.independent import Independent
from hocket.types import Scenario

WEIGHER, ADVERSARY, EXPLAINER = "weigher", "adversary", "explainer"

REPORTS = InfoColumn("reports", "What the reader of each part said, by part: a verdict and how sure of ten, or None.")
WEIGHTS = InfoColumn("weights", "How much the reader of each part counted, by part; they sum to 1, or all are 0.")
VARIANT = InfoColumn("variant", "The part that an adversary rewrote and its new words; None where it did not.")
EXPLANATION = InfoColumn("explanation", "The verdict in plain words; None where nobody was asked.")


@dataclass(frozen=True)
class MailGuard(Workflow):
    """Readers report on the parts of a mail, the weigher says how much each counts, the weighted vote decides.

    With p_k the probability of phishing by reader k's report (how sure it is of it, or of the contrary) a mail is
    phishing where `sum_k w_k p_k > 1/2`, weights summing to 1; a tie is safe. A reader without a readable report says
    nothing; weights that cannot be read count nobody. The weigher is told the mail's kind and the reports, and not the
    mail: it cannot decide against all of them.

    A scenario's metadata say the mail's `parts`, and may say its `kind`; its answer is phishing or safe. Readers and
    adversary draw alike in all samples of a mail, so that weights are compared under one prompt.

    Attributes:
        attacked: the share of phishing mails that the adversary rewrites before they are read. They stay phishing.
        learnt: otherwise nobody weighs, and all readers count alike.
        explain: whether the explainer is asked.
    """

    name = "mail-guard"
    description = "readers of a mail's parts are weighed, and vote; an adversary rewrites (MultiPhishGuard); task mails"

    attacked: float = 0.25
    learnt: bool = True
    explain: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.attacked <= 1:
            raise ValueError(f"attacked = {self.attacked} is a share in [0, 1]")

    @property
    def roles(self) -> tuple[str, ...]:  # type: ignore[override]
        """Whoever may be asked."""
        asked = {WEIGHER: self.learnt, ADVERSARY: self.attacked > 0, EXPLAINER: self.explain}
        return (*PARTS, *(role for role, wanted in asked.items() if wanted))

    async def play(self, scenario: Scenario, team: Team) -> Outcome:
        kind, parts = str(scenario.metadata.get("kind", "")), scenario.metadata.get("parts")
        if not isinstance(parts, Mapping) or not parts:
            raise ConfigurationError(
                f"mail-guard reads a mail's parts, and scenario {scenario.id} has none; take --task mails, or rows "
                'with a column parts such as {"text": "...", "link": "..."}'
            )
        variant = None
        if scenario.answer == PHISHING and team.common_key.derive("attack").numpy().random() < self.attacked:
            said = await team[ADVERSARY].fresh(alike=True)(rewriting(kind, parts))
            variant = read_variant(str(said), list(parts))
        parts = {**parts, **dict([variant] if variant is not None else [])}
        replies = await asyncio.gather(*(team[p].fresh(alike=True)(reading(p, words)) for p, words in parts.items()))
        reports = {part: read_report(str(reply)) for part, reply in zip(parts, replies, strict=True)}
        weights: Sequence[int] = (1,) * len(parts)
        if self.learnt:
            weights = read_weights(str(await team[WEIGHER](weighing(kind, reports))), len(parts))
        verdict = voted(list(reports.values()), weights)
        told = await self._explained(verdict, parts, reports, team)
        shares = {part: weight / max(sum(weights), 1) for part, weight in zip(parts, weights, strict=True)}
        return Outcome(
            answer=f"<answer>{verdict}</answer>",
            info={REPORTS.name: reports, WEIGHTS.name: shares, VARIANT.name: variant, EXPLANATION.name: told},
        )

    async def _explained(
        self, verdict: str, parts: Mapping[str, str], reports: Mapping[str, Sign | None], team: Team
    ) -> str | None:
        if not self.explain:
            return None
        told = [
            f"{part}: {words} ({'nothing to say' if (sign := reports[part]) is None else f'{sign[0]} {sign[1]}'})"
            for part, words in parts.items()
        ]
        return str(await team[EXPLAINER]("\n".join([f"This mail is {verdict}. Say why in plain words.", *told])))


def voted(reports: Sequence[Sign | None], weights: Sequence[int]) -> str:
    """The weighted vote; twenty times `sum_k w_k (p_k - 1/2)` is a whole number, so ties are exact."""
    heard = [(weight, one) for weight, one in zip(weights, reports, strict=True) if one is not None]
    total = sum(weight * (2 * sure - 10) * (1 if looks == PHISHING else -1) for weight, (looks, sure) in heard)
    return PHISHING if total > 0 else SAFE


def read_report(text: str) -> Sign | None:
    """The first verdict behind the thoughts with a number from 0 to 10 after it."""
    found = re.search(rf"\b({PHISHING}|{SAFE})\b\D*\b(10|\d)\b", (said_aloud(text) or "").lower())
    return None if found is None else (found[1], int(found[2]))


def read_weights(text: str, count: int) -> tuple[int, ...]:
    """The first `count` digits of an answer; all 0 where there are fewer."""
    found = tuple(int(one) for one in re.findall(r"\d", text)[:count])
    return found if len(found) == count else (0,) * count


def read_variant(text: str, parts: Sequence[str]) -> tuple[str, str] | None:
    """The first line that names a part, and its new words."""
    named = "|".join(re.escape(part) for part in parts)
    found = re.search(rf"^\W*({named})\W*: *(\S.*?)\s*$", text, re.MULTILINE)
    return None if found is None else (found[1], found[2])


MULTIPHISHGUARD = PPO.but(
    name="multiphishguard",
    title="MultiPhishGuard: readers of a mail weighed by PPO, an adversary against them",
    source="MultiPhishGuard: An LLM-based Multi-Agent System for Phishing Email Detection (abstract)",
    family="search",
    catalogue_ids=("multiphishguard",),
    axes=("team", "objective"),
    formula="phishing where sum_k w_k p_k > 1/2,  w ~ pi(. | kind, reports);  PPO on [right verdict]",
    conventions={
        **PPO.conventions,
        "policy": "a language model that says a digit for each reader, weights being their shares; the paper's is a "
        "small network",
        "what it is told": "the mail's kind and the reports, not the mail; with the workflow's learnt = false nobody "
        "is asked, and all count alike",
        "reward": "1 for the right verdict, 0 for the wrong one",
        "readers": "see their part alone; a report is a verdict and how sure of ten",
        "adversary": "rewrites one part of a quarter of the phishing mails (workflow setting attacked), in training "
        "and in evaluation; they stay phishing",
        "explainer": "asked where the workflow's explain is true; nothing is learnt from it",
        "who learns": "the weigher; readers, adversary and explainer are the model as it was, or any others by "
        "--roles.link.model and endpoint",
        "value and GAE": "the weigher's own decisions alone",
        "unreadable weights": "count nobody, and a tie is safe",
        "batch": "128 mails, each weighed once",
    },
    task="mails",
    curriculum=Shuffled(prompts=128),
    rollout=Independent(samples=1),
    requires=(Requirement.AGENTS,),
    workflow="mail-guard",
    cast=Leading(leader=WEIGHER),
    credit=EachAgent(PPO.credit),
)
