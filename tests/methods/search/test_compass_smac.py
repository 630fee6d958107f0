"""The search for skills, without battles."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from hocket.agents.search.searcher import CaseResult, SearchBench
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.texts import Block, Recall, Texts
from hocket.lab.texts_worlds import searched
from hocket.methods.search.compass_smac.method import SkillSynthesis


@dataclass
class Bare:
    """A target without battles: a practice episode is won where its case is, a library scores the share of "good"."""

    won: Collection[int] = ()
    played: list[tuple[int, ...]] = field(default_factory=list)
    roles = ("soldier_1",)
    blocks: Sequence[Block] = ()
    skills: Mapping[str, str] = field(default_factory=lambda: {"idle": _skill("idle")})
    drills = ("assert {skill}({}) == 1",)

    def calls(self, texts: Texts) -> int:
        return 1

    def refuses(self, texts: Texts) -> str | None:
        return None

    def play(
        self, texts: Texts, cases: Sequence[int], samples: int, *, first: int = 0, greedy: bool, key: Key
    ) -> list[CaseResult]:
        self.played.append(tuple(cases))
        score = min(1.0, len(texts.skills or ()) / 8)
        return [CaseResult(one, 0, float(one in self.won) or score, 1, f"battle {one}", "", "fought") for one in cases]


def _skill(name: str, said: int = 1) -> str:
    return f'def {name}(view):\n    "does nothing"\n    return {said}\n'


def _asked(target: Bare, answers: Sequence[str], practice: int = 6, **settings: Any) -> tuple[SearchBench, list[str]]:
    """A search whose reflecting model says these in turn, and what it was asked."""
    questions: list[str] = []

    def reflect(question: str) -> str:
        questions.append(question)
        return answers[len(questions) - 1] if len(questions) <= len(answers) else "nothing"

    bench = searched(target, reflect, SkillSynthesis(**settings), budget=400, practice=practice, development=3)
    return bench, questions


def test_proposals_and_mends() -> None:
    target = Bare(won=(3, 5))
    answers = [_skill("one"), _skill("bad", 2), _skill("two"), "I see.", "None."]
    bench, asked = _asked(target, answers, proposals=9, batch=4, patience=2)
    numbered = [one for one in asked if one.startswith("Agents act")]
    assert all(f"Proposal number {place}." in one for place, one in enumerate(numbered, 1))
    mends = [one for one in asked if one.startswith("This skill was refused")]
    assert len(mends) == 3
    assert all("Attempt 1." in one for one in mends)
    assert _skill("bad", 2) in mends[0]
    assert "its check failed" in mends[0]
    assert "no function was said" in mends[1]
    assert "\nI see.\n" in mends[1]
    libraries = [tuple(trial.texts.skills or ()) for trial in bench.trials]
    assert libraries == [(), ("idle", "one"), ("idle", "one", "two")]
    assert len(numbered) == 4  # two that came to something, then two that did not
    rounds = [one for one in target.played if one != (6, 7, 8)]
    assert rounds == [(0, 1, 2, 3), (4, 5, 0, 1), (2, 3, 4, 5), (0, 1)]  # 2 and 3 are known.


def test_what_is_asked_has_bounds() -> None:
    few = Bare()
    _asked(few, [], practice=2, proposals=2, batch=4, retries=0)
    assert [one for one in few.played if len(one) < 3] == [(0, 1)]
    _, twice = _asked(Bare(), [_skill("bad", 2)] * 3, proposals=1, retries=2)
    assert [one.rstrip()[-10:] for one in twice[1:]] == ["Attempt 1.", "Attempt 2."]
    for shown, due in ((3, Recall(3)), (None, None)):
        one, _ = _asked(Bare(), [_skill("one")], proposals=1, shown=shown)
        assert [trial.texts.recall for trial in one.trials[1:]] == [due]
    sizes = {"budget": 400, "practice": 6, "development": 3}
    start, searcher = Texts(recall=Recall(2)), SkillSynthesis(proposals=1)
    kept = searched(Bare(), lambda question: _skill("one"), searcher, start=start, **sizes)
    assert [trial.texts.recall for trial in kept.trials] == [Recall(2), Recall(2)]
    _, silent = _asked(Bare(won=range(6)), [], proposals=3)
    assert not silent


def test_a_full_library_and_other_words() -> None:
    full, _ = _asked(Bare(), [_skill(name) for name in "abcd"], proposals=4, most=3)
    assert len(full.best.texts.skills or ()) == 3
    _, own = _asked(Bare(), [_skill("bad", 2)], proposals=1, propose="{number} of {library}", mend="{reason}? {number}")
    assert own[0] == f"1 of {_skill('idle')}"
    assert "check failed" in own[1]
    assert own[1].endswith("? 1")
    for name in ("propose", "mend"):
        with pytest.raises(ConfigurationError, match=rf"searcher.{name} has a placeholder .nothing."):
            SkillSynthesis(**{name: "{nothing}"})  # type: ignore[arg-type]
