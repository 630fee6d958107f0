"""What a crew on web pages is asked, in words: for a plan, for what is left of one, and for its opinion of a move."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """A move in a search.

    Attributes:
        task: what the page asks for. part: the subtask. acted: what was acted on since it began, in words, this move
            last. before, after: the page as it was told. coming: what would be acted on next.
    """

    task: str
    part: str
    acted: tuple[str, ...]
    before: str
    after: str
    coming: str

    @property
    def told(self) -> str:
        """What stands before each question about it, the page first, so that a model reads it once."""
        acted, new = "; ".join(self.acted), fresh(self.before, self.after)
        return STEP.format(before=self.before, part=self.part, acted=acted, new=new)

    @property
    def reflect(self) -> str:
        """The question what came of it, which is asked first."""
        return f"{self.told}\n{REFLECT}"

    def asked(self, came: str) -> tuple[str, str, str]:
        """Whether the subtask is complete, and the grades of effect and future, once it was said what came of it."""
        known = f"{self.told}What came of it: {came}\n"
        return f"{known}\n{DONE}", f"{known}\n{EFFECT}", f"{known}\n{FUTURE.format(coming=self.coming)}"


def fresh(before: str, after: str) -> str:
    """The lines of a page that came with a move, or that there are none."""
    known = before.splitlines()
    return "\n".join(line for line in after.splitlines() if line not in known) or "nothing"


PLAN = """A task on a web page: {task}

Split it into subtasks, in their order, one a line, nothing else."""
REFINE = """A task on a web page: {task}
Still to do:
{parts}

The first of these failed. What was tried:
{tried}

Write all that is still to be done, with something else in place of the first, one subtask a line, nothing else."""
STEP = """A web page:
{before}

New after a move:
{new}

Subtask: {part}
Acted on: {acted}
"""
DONE = "Is the subtask complete?"
EFFECT = "How well did the last act serve the subtask?"
FUTURE = "Next would be acted on: {coming}\nHow likely does that complete the subtask?"
REFLECT = "What came of each act, in a few words?"
