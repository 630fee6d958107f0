"""VeriReason: GRPO on Verilog with a stepped reward (Wang et al., arXiv:2505.11849).

A design is worth nothing where the compiler rejects it and 2.1 where its testbench agrees with the reference; between
the two it earns 0.1 for compiling and up to 1 for what its statements share with those of the reference
(`SteppedReward`), which tells the samples of a group apart before any of them passes and stays below a pass. Before
that the policy imitates reasoned answers; the two phases are the recipes `verireason-sft` and `verireason` of a plan.

Steps, weights and the three parts of the structure are those of the reward script of the authors' repository
(NellyW8/VeriReason, read in a public copy). Which statements are compared is chosen here, in its manner
(`statements`), and so is that a design which states nothing but its ports is worth nothing: there it earns its header.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.base.grpo import GRPO
from hocket.methods.base.sft import SFT
from hocket.rewards.opinions import Opinions
from hocket.rewards.tags import TagFormat
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory
from hocket.zoo.tasks.circuits import examined, verilog_of

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEADER = re.compile(r"\bmodule\s+(\w+)\s*(?:\((.*?)\))?\s*;", re.DOTALL)
_STATEMENT = re.compile(
    r"(?P<declared>\b(?:input|output|inout|wire|reg)\b[^;]*);"
    r"|(?P<assign>\bassign\b[^;]*);"
    r"|(?P<always>\balways\s*@\s*(?:\*|\(.*?\)))"
    r"|(?P<choice>\b(?:if|case)\s*\([^()]*\))"
    r"|(?P<other>\belse\b)"
    r"|(?P<set>[\w\[\]:]+\s*<?=[^;]*);"
    r"|(?P<instance>\b\w+\s+\w+\s*\(\s*\.[^;]*);",
    re.DOTALL,
)


def statements(design: str) -> list[str]:
    """The structure of a design in order: its name and ports, and what it declares, assigns, waits for and chooses by.

    Comments and spaces aside, as text: names matter. What is none of these is left out.
    """
    text, found = _COMMENT.sub(" ", design), list[str]()
    for header in _HEADER.finditer(text):
        found += [f"module {header[1]}", *(f"port {_plain(port)}" for port in (header[2] or "").split(",") if port)]
    return found + [_plain(one[0].rstrip(";")) for one in _STATEMENT.finditer(_HEADER.sub(" ", text))]


def _plain(text: str) -> str:
    """Without spaces but between words."""
    return re.sub(r"\s*(\W)\s*", r"\1", " ".join(text.split()))


def does_nothing(said: Sequence[str]) -> bool:
    """Whether statements name a module and ports and declare, and no more."""
    return all(re.match(r"(module|port|input|output|inout|wire|reg)\b", one) for one in said)


def structure(said: Sequence[str], wanted: Sequence[str]) -> float:
    """`clip(0.7 similarity + 0.3 coverage - 0.2 redundancy, 0, 1)` of two lists of statements.

    Similarity is twice the length of matching blocks over that of both lists; coverage the share of the wanted ones
    that are said, redundancy the share of the said ones that are not wanted, each counted once.
    """
    ours, theirs = set(said), set(wanted)
    similarity = SequenceMatcher(None, said, wanted).ratio()
    coverage = len(ours & theirs) / len(theirs) if theirs else 0.0
    redundancy = len(ours - theirs) / len(ours) if ours else 1.0
    return min(1.0, max(0.0, 0.7 * similarity + 0.3 * coverage - 0.2 * redundancy))


@dataclass(frozen=True)
class SteppedReward(Reward):
    """0 for what does not compile, `passing` for what passes its testbench, `syntax + structure` between.

    Of a design that states nothing but its ports also 0. None where the scenario has no reference and testbench.

    Attributes:
        passing: must exceed `syntax` + 1, so that no structure is worth a pass.
    """

    passing: float = 2.1
    syntax: float = 0.1
    name: str = "stepped"
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.syntax + 1 < self.passing:
            raise ConfigurationError(
                f"passing must exceed syntax + 1, what a design may earn without it, not {self.passing:g} "
                f"with syntax {self.syntax:g}"
            )

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        asked = (asyncio.to_thread(self.verify, one.answer, one.scenario) for one in trajectories)
        return Opinions(await asyncio.gather(*asked))

    def verify(self, text: str, scenario: Scenario) -> float | None:
        """What one answer is worth; waits for the simulator."""
        seen = examined(text, scenario)
        if seen is None:
            return None
        return self.grade(verilog_of(text) or "", scenario.metadata["reference"], seen.compiles, seen.passes)

    def grade(self, design: str, reference: str, compiles: bool, passes: bool) -> float:
        """The step that a design stands on."""
        said = statements(design)
        if not compiles or does_nothing(said):
            return 0.0
        return self.passing if passes else self.syntax + structure(said, statements(reference))


VERIREASON_SFT = SFT.but(
    name="verireason-sft",
    title="VeriReason, first stage: imitation of reasoned designs",
    source="Wang et al., VeriReason, arXiv:2505.11849",
    task="circuits",
)


VERIREASON = GRPO.but(
    name="verireason",
    title="GRPO on Verilog with a stepped reward from compiler, testbench and structure",
    source="Wang et al., VeriReason, arXiv:2505.11849; steps and weights from the repository's reward script",
    family="agents",
    catalogue_ids=("verireason",),
    axes=("reward", "environment", "objective"),
    formula="R = 0 if rejected, 2.1 if >= 99% of vectors agree, else 0.1 + clip(0.7 similarity + 0.3 coverage "
    "- 0.2 redundancy, 0, 1);  + 0.1 [tags]",
    conventions={
        **GRPO.conventions,
        "stages": "a plan: verireason-sft on demonstrations, then verireason",
        "statements": "header, ports, declarations, assignments (also those in always blocks), always, if, else, case "
        "and instances, as text without spaces; the script's patterns differ in detail",
        "similarity": "ratio of difflib.SequenceMatcher on the lists; coverage and redundancy on the sets",
        "testbench": "every vector of few inputs, else corners and random ones; those for which the reference tells "
        "nothing are not counted; a module is top by name, where the script renames it",
        "nothing stated": "a design of ports alone is worth 0; the script pays for its header",
        "tags": "0.1 for one <think> and one <answer>; the script wants fences within besides",
        "simulator": "Icarus Verilog; designs with system tasks or directives are rejected",
    },
    note="after imitation the shipped base gains little: in 40 steps its samples earn more (from some .45 to .7), "
    "of 100 unseen designs greedy ones that are right went from 32, 32, 35 to 44, 36, 41 (three seeds); that designs "
    "are learnt is shown for the exact policy",
    task="circuits",
    rewards=(SteppedReward(),),
    shaping=(TagFormat(weight=0.1),),
)
