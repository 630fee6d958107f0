"""COMPASS: a library of skills that grows, planners that choose from it in closed loop, facts that are forwarded.

Planners that see a part of the field each choose a skill, a small program, or write one; it runs step after step, is
shown what its planner sees, and what failed is told before the next choice. Facts of who was seen where are passed on
over several links (`hocket.zoo.joint.skirmish.forwarded`, `hops` of the task). All of that is the task,
`battle:3v3`. What is here is how the library grows: lost practice battles are shown to the reflecting model, which
names what would have helped and writes the skill for it. A program enters only after its check has passed in the
sandbox; a refused one is shown with the reason and may be mended. The library is one of the policy's texts, the best on
the development battles is taken, and no weight changes.

Only the abstract was at hand (the paper plays StarCraft with vision-language models; the field here is a grid, told in
words). Ours are: the drills of the check, that a library is measured before it is built on, how often a refused skill
is mended, all wording, and the lessons by which a small model is planner and author (`battle:3v3?brief=true`). The
skills that an expert shows are what a battle begins with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hocket.agents.search.plain import shown
from hocket.agents.search.searcher import SearchBench, Searcher, SearchMethod, Trial, check_wording
from hocket.core.errors import ConfigurationError
from hocket.core.texts import Recall
from hocket.methods.search.compass_smac.skills import admitted, name_of
from hocket.methods.search.compass_smac.world import program_in

PROPOSE = """Agents act by choosing one of these skills again and again, each a Python function of what it sees:

{library}

What they said in episodes that went badly:
{episodes}

Say in a line what skill would have helped, then write it: one function, def NAME(view), with a docstring of one line,
in the form of those above. A function of a name above takes its place. Proposal number {number}."""

MEND = """This skill was refused: {reason}.

{program}
Write it again without that mistake: one function, def NAME(view), with a docstring of one line. Attempt {number}."""


@dataclass(frozen=True)
class SkillSynthesis(Searcher):
    """See the module.

    Attributes:
        propose, mend: the questions to the reflecting model, see `PROPOSE` and `MEND` for what stands in them.
        proposals: skills that are asked for. batch: practice episodes before each; none is asked for where all were
            won. retries: how often a refused skill may be mended. most: skills of a library; a further one takes the
            place of none. shown: so many skills are listed under the prompt, those that the question calls up; None for
            all. patience: so many proposals in a row that came to nothing new end the search.
    """

    propose: str = PROPOSE
    mend: str = MEND
    proposals: int = 20
    batch: int = 4
    retries: int = 1
    most: int = 12
    shown: int | None = None
    patience: int = 6

    def __post_init__(self) -> None:
        for name, usual in (("propose", PROPOSE), ("mend", MEND)):
            check_wording(name, getattr(self, name), usual)
        for name, least in (("proposals", 1), ("batch", 1), ("retries", 0), ("most", 1), ("patience", 1)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"searcher.{name} = {getattr(self, name)}: it must be at least {least}")

    def check(self, bench: SearchBench) -> None:
        if not bench.drills:
            raise ConfigurationError(
                "compass-smac grows a library of skills, and the workflow has none; take --task battle:3v3"
            )

    def search(self, bench: SearchBench) -> None:
        idle = 0
        for number in range(self.proposals):
            known = len(bench.trials)
            self._grown(bench, bench.best, number)
            idle = 0 if len(bench.trials) > known else idle + 1
            if idle == self.patience:
                return

    def _grown(self, bench: SearchBench, best: Trial, number: int) -> None:
        """Measures the best library with one skill more, where one is needed and passes its check."""
        first = number * self.batch
        played = bench.practise(best.texts, range(first, first + min(self.batch, bench.practice)), greedy=True)
        lost = [one for one in played if one.score < 1]
        if not lost:
            return
        library = dict(best.texts.skills or bench.skills)
        question = self.propose.format(library="\n".join(library.values()), episodes=shown(lost), number=number + 1)
        grown, program = self._checked(bench, library, bench.ask(question))
        if grown is None or len(grown) > self.most:
            return
        recall = None if self.shown is None else Recall(self.shown)
        texts = replace(best.texts, skills=grown, recall=recall or best.texts.recall)
        bench.measure(texts, f"skill {name_of(program)}, after {len(lost)} lost", best)

    def _checked(self, bench: SearchBench, library: Mapping[str, str], said: str) -> tuple[dict[str, str] | None, str]:
        """The library with the skill that was said, after mends; None where none passed its check."""
        for attempt in range(self.retries + 1):
            program = program_in(said)
            grown, why = (None, "no function was said") if program is None else admitted(library, program, bench.drills)
            if why is None and program is not None:
                return grown, program
            bench.refused.append(f"a skill: {why}")
            if attempt < self.retries:
                said = bench.ask(self.mend.format(reason=why, program=program or said, number=attempt + 1))
        return None, ""


COMPASS_SMAC = SearchMethod(
    name="compass-smac",
    description="a library of skills, programs that enter only after their check, grown after lost episodes",
    searcher=SkillSynthesis(),
    source="arXiv:2502.10148",
)
