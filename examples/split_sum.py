"""Two agents that each know half of a sum: the scout adds its half and says so, the solver adds the rest.

    hocket train --task examples/split_sum.py:SplitSums --workflow examples/split_sum.py:ScoutSolver

Both are one policy unless `--cast '{type: hocket.core.Separate}'` gives each its own. Without `--workflow` a single
agent is asked the whole sum.
"""

from hocket.agents.workflows import Outcome, Workflow
from hocket.core.keys import Key
from hocket.core.markup import ANSWER
from hocket.tasks.arithmetic import draw_terms, expression_of, question_of, verify
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask
from hocket.types import Scenario


class SplitSums(TextTask):
    """Sums of four integers. Each half is a part of the question that one agent alone is shown."""

    name = "split-sums"

    def scenario(self, split, number):
        rng = Key.of(0).derive("split-sums", split, number).numpy()
        while True:
            terms = draw_terms(rng)
            question = question_of(expression_of(terms))
            if len(terms) == 4 and (split_of(question) == "eval") == (split == "eval"):
                parts = {"first": expression_of(terms[:2]), "second": signed(terms[2:])}
                return Scenario(f"{split}/{number}", question, str(sum(terms)), parts, seed=number)

    def suggest(self, recipe):
        return {"decoding.max_tokens": 96, "steps": 80}

    def verify(self, text, scenario):
        return verify(text, scenario.answer)


def signed(terms):
    """Terms as they go on a sum: `+ 5 - 12`."""
    return " ".join(f"{'-' if term < 0 else '+'} {abs(term)}" for term in terms)


class ScoutSolver(Workflow):
    """The scout's message is all that the solver learns of the first half."""

    roles = ("scout", "solver")

    async def play(self, scenario, team):
        found = await team.scout(question_of(scenario.metadata["first"]))
        tagged = ANSWER.search(str(found))
        message = tagged[1] if tagged else str(found)
        answer = await team.solver(question_of(f"{message} {scenario.metadata['second']}"))
        return Outcome(answer=str(answer))
