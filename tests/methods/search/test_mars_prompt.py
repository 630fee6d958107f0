"""The short words of the task `conventions`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hocket.agents.search.searcher import CaseResult
from hocket.core.components import replaced_all
from hocket.core.keys import Key
from hocket.core.texts import Block, Texts
from hocket.lab.texts_worlds import searched
from hocket.methods.search.mars_prompt import Socratic
from hocket.zoo.tasks.conventions import COURSES, MEANINGS, Conventions

SHORT: Socratic = replaced_all(Socratic(), COURSES["mars-prompt"].settings, "searcher")


@dataclass(frozen=True)
class Obedient:
    """Takes a sign for what its prompt says, and for a sum where it says nothing."""

    task: Conventions
    roles: Sequence[str] = ("policy",)
    blocks: Sequence[Block] = ()

    def calls(self, texts: Texts) -> int:
        return 1

    def refuses(self, texts: Texts) -> str | None:
        return None

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        known = dict(line.split("=") for line in texts.prompts.get("policy", "").splitlines() if "=" in line)
        found = []
        for case in cases:
            asked = self.task.scenario("train", case)
            sign, one, other = str(asked.prompt).split()
            meaning = known.get(sign, "sum")
            said = f"{sign}={meaning} {MEANINGS[meaning](int(one), int(other))}"
            score = self.task.verify(said, asked)
            found += [CaseResult(case, 0, score, 1, str(asked.prompt), str(asked.answer), said)] * samples
        return found


def taught_well(question: str) -> str:
    """The parts as `conventions` teaches them, without a fault but the teacher's first question, which is of a sum."""
    *above, line = question.splitlines()
    if line == "Steps:":
        episodes = re.findall(r"Question: (.*)\nAnswer: .*\nRight answer: (.*)", question)
        return "\n".join(f"{number}. {one} is {right}" for number, (one, right) in enumerate(episodes, 1))
    if line == "Prompt:":
        _, sign, meaning = above[-1].rstrip("?").split()
        return "\n".join(sorted([f"{sign}={meaning}", *(one for one in above[:-1] if "=" in one and one[0] != sign)]))
    sign, *numbers, _, right = above[0].split()
    fits = [name for name, made in MEANINGS.items() if str(made(*map(int, numbers))) == right]
    if line == "Verdict:":
        return "ACCEPT" if above[1] in [f"Is {sign} {name}?" for name in fits] else "REJECT"
    return f"Is {sign} {fits[0] if len(above) > 1 else 'sum'}?"


def test_the_short_words_of_conventions_lose_nothing() -> None:
    found, calls, asked = [], [], []
    for seed in range(12):
        bench = searched(Obedient(Conventions(seed)), taught_well, SHORT, seed=seed, practice=12, development=12)
        task = Conventions(seed)
        due = {f"{sign}={meaning}" for sign, meaning in task.meaning.items() if meaning != "sum"}
        found.append(set(bench.best.texts.prompts["policy"].splitlines()) == due and bench.best.score == 1)
        calls.append(bench.spent)
        asked.append(bench.asked)
    assert all(found)
    assert max(calls) <= 12 + 4 + 4 * 12
